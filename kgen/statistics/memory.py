"""Memory access counts, and the strides between work-items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pymbolic.primitives as p

from kgen.analysis.access import Access, collect_accesses
from kgen.analysis.held import is_held
from kgen.ir.affine import expand_products, linear_form, simplify
from kgen.ir.checked import checked
from kgen.ir.digits import join_digits
from kgen.ir.expr import Expr, is_zero, substitute, variable_names
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import param_names
from kgen.ir.tags import AxisTag, CopyWaitTag, LocalInameTag, LookBackTag
from kgen.ir.types import AddressSpace
from kgen.ir.unit import TranslationUnit
from kgen.statistics.countmap import Keys, ToCountPolynomialMap
from kgen.statistics.descriptors import CountGranularity, MemAccess
from kgen.statistics.programs import prepared_kernel
from kgen.statistics.runs import Runs, SubgroupSize, resolve_subgroup_size
from kgen.transforms.statements import find_instructions

__all__ = ["get_mem_access_map", "memory_of", "moving", "steps_of"]

_MTYPES = {AddressSpace.GLOBAL: "global", AddressSpace.LOCAL: "local"}


@checked
def get_mem_access_map(
    program: TranslationUnit | LoopKernel,
    count_redundant_work: bool = False,
    subgroup_size: SubgroupSize = None,
    entrypoint: str | None = None,
    within: Any = None,
) -> ToCountPolynomialMap:
    """Count the accesses to global and local arrays of a kernel.

    >>> import numpy as np
    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]")
    >>> knl = lp.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    >>> knl = lp.add_dtypes(knl, {"a": np.float32})
    >>> for key, number in get_mem_access_map(knl, subgroup_size=32).items():
    ...     print(key.direction, key.variable, key.lid_strides[0], key.count_granularity, number)
    load a 1 workitem [n] -> { n : n > 0 }
    store out 1 workitem [n] -> { n : n > 0 }

    An access counts once per work-item that executes it; it counts once per sub-group if
    all work-items access the same element of global memory, or if it is to local memory. The field
    ``count_granularity`` gives the unit. *count_redundant_work*: include the repeated work of
    groups or work-items along axes that an instruction does not use. *within*: count only matching
    instructions (see :func:`find_instructions`). The count of an access under a data-dependent
    condition is an interval, from never to always.

    Raises :class:`KernelError` if *subgroup_size* is needed and unknown.
    """
    kernel = prepared_kernel(program, entrypoint)
    size = resolve_subgroup_size(kernel, subgroup_size)
    runs = Runs(kernel, size, redundant=count_redundant_work)
    strides = _Strides(kernel)
    numbers: Counter[tuple[MemAccess, Any]] = Counter()
    for access in collect_accesses(kernel, moving(find_instructions(kernel, within))):
        memory = memory_of(kernel, access.array)
        if memory is not None:
            numbers[_key(kernel, access, memory, strides), access.place] += 1
    counts = (
        (key, runs.at(place, str(key.count_granularity), number))
        for (key, place), number in numbers.items()
    )
    known = Keys.of(MemAccess, variable=kernel.array_vars, kernel_name=(kernel.name,))
    return ToCountPolynomialMap.of(counts, runs.space, known)


def memory_of(kernel: LoopKernel, name: str) -> str | None:
    """Return ``global`` or ``local``; ``None`` for private variables."""
    space = None if is_held(kernel, name) else kernel.array_vars[name].address_space
    return _MTYPES.get(space) if isinstance(space, AddressSpace) else None


def _key(kernel: LoopKernel, access: Access, memory: str, strides: _Strides) -> MemAccess:
    lids, gids = strides.of(access)
    uniform = is_zero(lids.get(0, 0)) and not _is_data(kernel, access)
    granularity = (
        CountGranularity.SUBGROUP if uniform or memory == "local" else CountGranularity.WORKITEM
    )
    return MemAccess(
        mtype=memory,
        dtype=kernel.array_vars[access.array].dtype,
        lid_strides=lids,
        gid_strides=gids,
        direction="store" if access.is_write else "load",
        variable=access.array,
        variable_tags=access.tags,
        count_granularity=granularity,
        kernel_name=kernel.name,
    )


def _is_data(kernel: LoopKernel, access: Access) -> bool:
    """Tell whether adjacent work-items may access different elements, depending on data."""
    names = variable_names(*(access.index or ()))
    loops = [name for name in names if name in kernel.inames]
    bounds = param_names(kernel.domain_of(tuple(loops))) if loops else ()
    return any(name in kernel.array_vars for name in (*names, *bounds))


class _Strides:
    """Finds the strides of accesses along hardware axes; equal accesses are analyzed once."""

    def __init__(self, kernel: LoopKernel) -> None:
        self.kernel = kernel
        self._known: dict[Any, tuple[dict[int, Expr], dict[int, Expr]]] = {}

    def of(self, access: Access) -> tuple[dict[int, Expr], dict[int, Expr]]:
        """Return the strides along local axes and along group axes."""
        axes = {
            iname: tag
            for iname in access.place.inames
            for tag in self.kernel.iname_tags_of_type(iname, AxisTag)
        }
        key = (access.array, access.index, tuple(axes))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._find(access, axes)
        return found

    def _find(
        self, access: Access, axes: Mapping[str, AxisTag]
    ) -> tuple[dict[int, Expr], dict[int, Expr]]:
        lids: dict[int, Expr] = {}
        gids: dict[int, Expr] = {}
        for iname, tag in axes.items():
            step = steps_of(self.kernel, access, iname)
            if step is None or not is_zero(step):
                (lids if isinstance(tag, LocalInameTag) else gids)[tag.axis] = step
        return lids, gids


def moving(insns: Iterable[InstructionBase]) -> list[InstructionBase]:
    """Return the instructions that move data.

    Waits for copies do not, and the reads of a look-back are not counted.
    """
    return [insn for insn in insns if not insn.tags_of_type((CopyWaitTag, LookBackTag))]


def steps_of(kernel: LoopKernel, access: Access, iname: str) -> Expr:
    """Return the stride of an access along *iname*, in elements.

    ``None`` if it depends on more than the parameters, or is unknown.
    """
    if access.index is None:
        return None
    strides = kernel.array_vars[access.array].fixed_strides
    axes = [
        (index, stride)
        for index, stride in zip(access.index, strides, strict=True)
        if iname in variable_names(index)
    ]
    steps = [_step(kernel, index, iname) for index, _ in axes]
    if None not in steps:
        total = [p.Product((step, stride)) for step, (_, stride) in zip(steps, axes, strict=True)]
        return simplify(p.Sum(tuple(total))) if total else 0
    # axes may have a common stride although none has one by itself: a[i // 8, i % 8]
    element = p.Sum(tuple(p.Product((stride, index)) for index, stride in axes))
    return _step(kernel, join_digits(element), iname)


def _step(kernel: LoopKernel, index: Expr, iname: str) -> Expr:
    """Return the coefficient of *iname* in an expression; ``None`` if it is not constant."""
    after = substitute(index, {iname: p.Sum((p.Variable(iname), 1))})
    form = linear_form(expand_products(after))
    form.add_form(linear_form(expand_products(index)), -1)
    step = form.to_expr()
    return step if kernel.all_inames().isdisjoint(variable_names(step)) else None
