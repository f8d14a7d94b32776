"""Arrays whose size depends on arguments, in memory that a function allocates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import cgen
import pymbolic.primitives as p
from pymbolic.mapper.stringifier import PREC_PRODUCT

from kgen.ir.affine import expand_products, memory_length, simplify
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import Expr, TypeCast, substitute, variable_names
from kgen.ir.pieces import piece_names
from kgen.ir.types import INT64, NumpyType
from kgen.targets.writers.expressions import ExpressionWriter

__all__ = ["allocated", "allocated_length", "freed"]

#: The alignment of allocated memory.
_ALIGNMENT_OF_MEMORY: Final = 16


def allocated_length(writer: ExpressionWriter, temporary: TemporaryVariable) -> Expr | None:
    """Return the length of an array that is allocated, since it depends on arguments."""
    target, kernel = writer.target, writer.kernel
    is_plain = temporary.base_storage is None and temporary.initializer is None
    strides = [getattr(tag, "stride", None) for tag in temporary.dim_tags or ()]
    is_known = isinstance(temporary.shape, tuple) and None not in (*temporary.shape, *strides)
    if not target.allocates_arrays or not (is_plain and is_known) or temporary.n_stored is not None:
        return None
    if temporary.swizzle or temporary.storage_shape or len(piece_names(temporary)) > 1:
        return None
    alignment = max(temporary.alignment or 1, temporary.dtype.itemsize)
    length = simplify(expand_products(memory_length(temporary.shape, strides)))
    is_argument = all(name in kernel.arg_dict for name in variable_names(length))
    return length if is_argument and alignment <= _ALIGNMENT_OF_MEMORY else None


def allocated(
    writer: ExpressionWriter, temporary: TemporaryVariable, length: Expr
) -> Iterator[cgen.Generable]:
    """Declare a pointer to allocated memory, which ``freed`` releases."""
    assert isinstance(temporary.dtype, NumpyType)
    writer.preamble.add(*writer.target.allocate_needs)
    type_name = writer.declared_type(temporary.name, temporary.dtype)
    if not isinstance(length, p.Variable):  # products of 32-bit integers need 64 bits
        names = variable_names(length)
        length = substitute(length, {name: TypeCast(INT64, p.Variable(name)) for name in names})
    count = writer.rec(length, PREC_PRODUCT, INT64)
    yield cgen.Initializer(
        cgen.Value(type_name, f"*const {temporary.name}"),
        f"({type_name} *) {writer.target.allocate}({count} * sizeof({type_name}))",
    )


def freed(writer: ExpressionWriter, names: Iterable[str]) -> Iterator[cgen.Generable]:
    """Free the memory of arrays that were allocated at the top."""
    for name in names:
        temporary = writer.kernel.temporary_variables[name]
        if allocated_length(writer, temporary) is not None:
            yield cgen.Statement(f"{writer.target.free}({name})")
