"""Elements that a kernel writes: proofs that it writes every element of an output."""

from __future__ import annotations

from dataclasses import dataclass

import islpy as isl

from kgen.analysis.footprints import Footprints
from kgen.errors import ExpressionToAffineConversionError
from kgen.ir.data import ArrayArg
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import Set, axis_variable, n_dims, not_negative
from kgen.ir.sets.domain import sample_point
from kgen.ir.sets.effort import answer
from kgen.ir.sets.names import SetName
from kgen.ir.sets.quasi_affine import aff_from_expr, compare

__all__ = ["Unwritten", "allocated_outputs", "find_unwritten", "is_read_as_written"]


@dataclass(frozen=True)
class Unwritten:
    """An array that is not proved to be completely written.

    ``element`` and ``sizes``: an element that no instruction writes, and the parameters for which
    this is so; ``None`` if that depends on data.
    """

    array: str
    element: tuple[int, ...] | None = None
    sizes: tuple[tuple[str, int], ...] = ()

    @property
    def point(self) -> str | None:
        """The element, formatted for messages."""
        if self.element is None:
            return None
        index = f"[{', '.join(map(str, self.element))}]" if self.element else ""
        sizes = ", ".join(f"{name} = {value}" for name, value in self.sizes)
        return f"{self.array}{index}" + (f" for {sizes}" if sizes else "")


def allocated_outputs(kernel: LoopKernel) -> tuple[ArrayArg, ...]:
    """Return the arrays that a call allocates if they are not passed."""
    written, read = kernel.get_written_variables(), kernel.get_read_variables()
    arrays = (arg for arg in kernel.args if isinstance(arg, ArrayArg))
    return tuple(
        arg
        for arg in arrays
        if (arg.name in written if arg.is_output is None else arg.is_output)
        and not (arg.name in read if arg.is_input is None else arg.is_input)
    )


def is_read_as_written(kernel: LoopKernel, name: str) -> bool:
    """Tell whether the original program, as the user wrote it, reads array *name*.

    A buffer gets values that no instruction wrote, and stores them back to their elements.
    """
    written = kernel.origin or kernel
    return name in kernel.get_read_variables() and name in written.get_read_variables()


def find_unwritten(kernel: LoopKernel, array: ArrayArg) -> Unwritten | None:
    """Return ``None`` if every element of *array* is proved to be written by each call.

    The types and shapes of *kernel* are known. An array that only a transformation reads may get
    its previous values back.
    """
    if array.name in kernel.get_read_variables() and not is_read_as_written(kernel, array.name):
        return Unwritten(array.name)
    found = answer(lambda: (_find_unwritten(kernel, array),))
    return Unwritten(array.name) if found is None else found[0]


def _find_unwritten(kernel: LoopKernel, array: ArrayArg) -> Unwritten | None:
    footprints = Footprints.of(kernel)
    rest = _elements_of(kernel, footprints, array)
    if rest is None:
        return Unwritten(array.name)
    is_exact = True
    for access in footprints.accesses_to(array.name):
        if not access.is_write:
            continue
        touched = footprints.touched(access)
        if touched is None:
            is_exact = False
        elif n_dims(touched) == n_dims(rest):
            rest = rest.subtract(touched.reset_tuple_id())
            if rest.is_empty():
                return None
    point = sample_point(rest) if is_exact else None
    if point is None:
        return None if is_exact else Unwritten(array.name)
    element = tuple(point[SetName.ELEMENT.at(axis)] for axis in range(n_dims(rest)))
    sizes = tuple((name, value) for name, value in point.items() if not name.startswith("."))
    return Unwritten(array.name, element, sizes)


def _elements_of(kernel: LoopKernel, footprints: Footprints, array: ArrayArg) -> Set | None:
    """Return the elements of *array*; ``None`` if its shape is not affine in parameters."""
    shape = array.shape
    if not isinstance(shape, tuple) or None in shape:
        return None
    names = [SetName.ELEMENT.at(k) for k in range(len(shape))]
    elements = isl.Set.universe(isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=names))
    elements = footprints.with_params(elements, *shape)
    space = elements.get_space()
    for axis, extent in enumerate(shape):
        try:
            end = aff_from_expr(space, extent)
        except ExpressionToAffineConversionError:
            return None
        index = axis_variable(space, axis)
        elements = not_negative(elements, axis)
        elements = elements.intersect(compare(index, "lt_set", end))
    return elements.intersect_params(kernel.assumptions)
