"""Function signatures."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import reduce
from operator import or_

import cgen

from kgen.ast.nodes import DeviceFunction
from kgen.ir.data import ArrayBase, ImageArg, TemporaryVariable, ValueArg
from kgen.ir.kernel import LoopKernel
from kgen.ir.pieces import piece_names
from kgen.ir.tree import Barrier, nodes_in
from kgen.ir.types import INT64, Memory, NumpyType
from kgen.targets.builder import ASTBuilderBase
from kgen.targets.writers.expressions import ExpressionWriter
from kgen.targets.writers.look_back import published_arrays

__all__ = ["declare_function", "declare_parameters", "parameters_of"]


def parameters_of(writer: ExpressionWriter, function: DeviceFunction) -> Iterable[str]:
    """Return the names of the parameters of *function*: each array before its offset."""
    for name in function.arguments:
        for piece in _memory_names(writer, name):
            yield piece
            offset = writer.accesses.offsets.get(piece)
            if offset is not None:
                yield offset


def declare_function(
    builder: ASTBuilderBase, writer: ExpressionWriter, function: DeviceFunction
) -> cgen.NestedDeclarator:
    """Declare *function* with all its qualifiers."""
    kernel = writer.kernel
    written = {
        name
        for insn_id in function.insn_ids
        for name in kernel.id_to_insn[insn_id].assignee_var_names()
    }
    exchanged = written & _visible_to_others(kernel, function)
    parameters = declare_parameters(builder, writer, function.arguments, written, exchanged)
    return builder.get_function_declaration(function, parameters)


def declare_parameters(
    builder: ASTBuilderBase,
    writer: ExpressionWriter,
    names: Iterable[str],
    written: set[str],
    exchanged: Collection[str] = (),
) -> list[cgen.Declarator]:
    """Declare the parameters *names*, each array before its offset.

    No *exchanged* array, through which work-items exchange values, is ``restrict``: that
    asserts that nobody else writes it, and compilers then keep elements across barriers.
    """
    kernel = writer.kernel
    parameters: list[cgen.Declarator] = []
    for name in names:
        declared = kernel.get_var_descriptor(name)
        assert isinstance(declared.dtype, NumpyType)
        type_name = writer.declared_type(name, declared.dtype)
        if isinstance(declared, ValueArg):
            parameters.append(cgen.Const(cgen.Value(type_name, name)))
            continue
        if isinstance(declared, ImageArg) and writer.target.images is not None:
            image_type = writer.target.images.type_name(declared.num_user_axes())
            parameters.append(cgen.Value(f"__read_only {image_type}", name))
            continue
        for piece in _memory_names(writer, name):
            value = cgen.Value(type_name, piece)
            parameters.append(
                builder.get_array_arg_decl(
                    declared,
                    value,
                    is_written=name in written,
                    restrict=kernel.options.restrict
                    and name not in exchanged
                    and not _shares_memory(declared),
                )
            )
            offset = writer.accesses.offsets.get(piece)
            if offset is not None:
                declared_type = writer.declared_type(offset, INT64)
                parameters.append(cgen.Const(cgen.Value(declared_type, offset)))
    return parameters


def _visible_to_others(kernel: LoopKernel, function: DeviceFunction) -> set[str]:
    """Return the arguments of *function* whose elements work-items may exchange within it."""
    barriers = [node for node in nodes_in(function.body) if isinstance(node, Barrier)]
    consistent = reduce(or_, (barrier.memory for barrier in barriers), Memory(0))
    found = {
        name
        for name in function.arguments
        if name in kernel.array_vars and Memory.of(kernel.array_vars[name]) in consistent
    }
    return found.union(published_arrays(kernel, function))


def _shares_memory(array: ArrayBase) -> bool:
    """Tell whether other temporaries may share the memory of an array."""
    return isinstance(array, TemporaryVariable) and array.base_storage is not None


def _memory_names(writer: ExpressionWriter, name: str) -> tuple[str, ...]:
    """Return the names of the arrays that store *name*: one, unless axes are separate."""
    if name not in writer.accesses.separate:
        return (name,)
    return piece_names(writer.kernel.array_vars[name])
