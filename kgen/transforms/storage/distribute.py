"""Distributing temporaries over the registers of work-items."""

from __future__ import annotations

from collections.abc import Iterable

from kgen.analysis.access import collect_accesses_to
from kgen.analysis.held import find_strange
from kgen.analysis.shapes import infer_temporary_shapes
from kgen.errors import TransformError
from kgen.ir.affine import linear_form
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import Expr, variable_names
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import LocalInameTag
from kgen.ir.types import AddressSpace
from kgen.transforms.select import transform
from kgen.transforms.storage.array_axes import split_array_axis
from kgen.transforms.storage.privatize import chosen_temporaries

__all__ = ["distribute_temporaries"]


@transform
def distribute_temporaries(kernel: LoopKernel, names: str | Iterable[str]) -> LoopKernel:
    """Distribute temporaries over the registers of work-items, which access their own elements.

    Axes are split so that one of the subscripts is the work-item that owns an element. Each access
    is by the owner, or by tensor cores, whose lanes own the elements of a factor: the result of a
    product can be the first factor of the next one. On CUDA, neither barriers nor memory are
    needed. On other targets, the temporaries stay in local memory.

    :arg names: temporaries with a constant shape, which are written in loops tagged ``l.N``

    ::

        for i, lane             {lane: l.0}      for i, lane
          t[4*i + lane] = 2*a[4*i + lane]    =>    t[i, lane] = 2*a[4*i + lane]
          b[4*i + lane] = t[4*i + lane]            b[4*i + lane] = t[i, lane]

        shared float t[32];                  =>  float t[8];

    Raises :class:`TransformError` if no subscript of the first instruction that writes it uses a
    loop on a work-item axis, and for an access to an element of another work-item.

    >>> import kgen as lp
    >>> knl = lp.make_kernel(
    ...     "{ [i, lane]: 0 <= i < 8 and 0 <= lane < 4 }",
    ...     ["t[4*i + lane] = 2*a[4*i + lane]", "b[4*i + lane] = t[4*i + lane]"],
    ...     [lp.GlobalArg("a", "float32"), lp.TemporaryVariable("t", shape=32), ...],
    ...     target=lp.CudaTarget())
    >>> knl = distribute_temporaries(lp.tag_inames(knl, "i: unr, lane: l.0"), "t")
    >>> print(knl.default_entrypoint.instructions[1])
    b[4*i + lane] = t[i, lane]  {id=insn_0}
    """
    for name in chosen_temporaries(kernel, names):
        kernel = _distributed(kernel, name)
    return kernel


def _distributed(kernel: LoopKernel, name: str) -> LoopKernel:
    known = infer_temporary_shapes(kernel).temporary_variables[name]
    _check(known)
    kernel = kernel.with_declarations({name: known})
    items: list[int | None] = []
    for subscript, extent in zip(_first_index(kernel, name), known.shape, strict=True):
        kernel, of_axis = _with_items(kernel, name, len(items), subscript, extent)
        items += of_axis
    if not any(item is not None for item in items):
        raise _cannot(name, "no subscript of its first write uses a loop tagged l.N")
    temporary = kernel.temporary_variables[name]
    held = temporary.copy(address_space=AddressSpace.LOCAL, distribution=tuple(items))
    kernel = kernel.with_declarations({name: held})
    for access, because in find_strange(kernel, name):
        where = f"instruction '{kernel.id_to_insn[access.insn_id]}'"
        raise _cannot(name, because, where)
    return kernel


def _check(temporary: TemporaryVariable) -> None:
    """Reject temporaries whose elements cannot be distributed, or that share storage."""
    name, shape = temporary.name, temporary.shape
    if temporary.distribution is not None:
        raise _cannot(name, "it is distributed already")
    if not isinstance(shape, tuple) or not all(isinstance(extent, int) for extent in shape):
        raise _cannot(name, f"its shape, {shape}, is not constant")
    if temporary.address_space == AddressSpace.GLOBAL:
        raise _cannot(name, "it is in global memory")
    if temporary.base_storage or temporary.initializer is not None or temporary.swizzle:
        raise _cannot(name, "it shares its storage, has initial values, or a swizzle")


def _cannot(name: str, because: str, where: str | None = None) -> TransformError:
    return TransformError(
        f"work-items cannot hold '{name}' in registers",
        where=where,
        because=because,
        hint="tag the loops over work-items first, and let each work-item access its own "
        f"elements, as in '{name}[4*i + lane]' with 'lane' on l.0; or leave '{name}' in local "
        "memory",
    )


def _first_index(kernel: LoopKernel, name: str) -> tuple[Expr, ...]:
    for access in collect_accesses_to(kernel, name):
        if access.is_write and access.index is not None:
            return access.index
    raise _cannot(name, "no instruction writes elements of it")


def _with_items(
    kernel: LoopKernel, name: str, axis: int, index: Expr, extent: int
) -> tuple[LoopKernel, list[int | None]]:
    """Split an axis whose subscript uses loops over work-items."""
    items: list[int | None] = []
    for step, length, item in _loops_over_items(kernel, index):
        if step * length < extent:
            kernel = split_array_axis(kernel, name, axis + len(items), step * length)
            items.append(None)
        if step > 1:
            kernel = split_array_axis(kernel, name, axis + len(items), step)
        items.append(item)
        extent = step
    return kernel, items if items and extent == 1 else [*items, None]


def _loops_over_items(kernel: LoopKernel, index: Expr) -> list[tuple[int, int, int]]:
    """Return step, length and axis of the loops over work-items in a subscript, longest first."""
    found = []
    for step, atom in linear_form(index).terms:
        for loop in kernel.inames.keys() & variable_names(atom):
            found += [
                (step, kernel.get_constant_iname_length(loop), tag.axis)
                for tag in kernel.iname_tags_of_type(loop, LocalInameTag)
                if step > 0
            ]
    return sorted(found, reverse=True)
