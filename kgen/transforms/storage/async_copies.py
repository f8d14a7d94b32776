"""Asynchronous copies from global to local memory, and the waits for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

import pymbolic.primitives as p

from kgen.analysis.address_space import infer_address_spaces
from kgen.analysis.domains import domains_of_copies, domains_without
from kgen.analysis.infer import infer_types
from kgen.analysis.products import is_of_warpgroup
from kgen.errors import TransformError
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.data import Iname
from kgen.ir.expr import Expr, substitute
from kgen.ir.instruction import Assignment, InstructionBase, NoOpInstruction
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import project_out_unused_params
from kgen.ir.tags import (
    AsyncCopyTag,
    AutoFitLocalInameTag,
    ConcurrentTag,
    CopyCommitTag,
    CopyWaitTag,
    GroupInameTag,
    LocalInameTag,
    UnrollTag,
    VectorizeTag,
)
from kgen.ir.types import AddressSpace, NumpyType
from kgen.transforms.loops.auto_axes import assign_auto_axes
from kgen.transforms.select import new_names, require_instruction, split_names, transform

__all__ = [
    "async_copy",
    "begin_products_first",
    "of_all_items",
    "with_axes_assigned",
    "without_waits",
]

#: The sizes of a copy in bytes.
_SIZES: Final = (4, 8, 16)


@transform
def async_copy(
    kernel: LoopKernel, insn_ids: str | Iterable[str], kind: str = "cp.async"
) -> LoopKernel:
    """Copy elements from global to local memory asynchronously, while work-items continue.

    An instruction that fetches a tile only starts its copies, which form a group. Users of the
    tile first wait for the group, and then at the barrier. The copies use no registers.
    Apply :func:`pipeline` afterwards to keep several tiles in flight.

    :arg insn_ids: instructions that copy, such as ``a_fetch_rule`` of :func:`add_prefetch`
    :arg kind: ``"cp.async"``, on CUDA. It copies 4, 8 or 16 bytes at a time: an element, or the
        lanes of a loop tagged ``vec``, if the temporary is aligned (:func:`align_temporaries`).
        Elements of 2 bytes need such lanes.
        Devices older than compute capability 8.0 copy synchronously

    ::

        t[x] = a[k, x]   {id=f}        t[x] = a[k, x]  {id=f, tags=cp.async}   # begins
        b[k] = g(t)      {dep=f}       ... nop         {tags=commit}           # ends a group
                                  =>   t[x] = t[x]     {tags=wait.0}           # waits
                                       b[k] = g(t)

    A wait is the assignment of elements to themselves, by the work-items that copy them; the code
    has it once. On a target without asynchronous copies, these are ordinary assignments.

    Raises :class:`TransformError` for other kinds, for targets without such copies, and for
    instructions that do not copy 4, 8 or 16 bytes from global to local memory. Tag the
    work-item loops first.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "b[i] = a[i]", target=lp.CudaTarget())
    >>> knl = lp.add_dtypes(lp.split_iname(knl, "i", 32, inner_tag="l.0"), {"a": "float32"})
    >>> knl = lp.add_prefetch(knl, "a", "i_inner", default_tag="l.0")
    >>> for insn in async_copy(knl, "a_fetch_rule").default_entrypoint.instructions:
    ...     print(insn)
    a_fetch[a_dim_0] = a[32*i_outer + a_dim_0]  {id=a_fetch_rule, tags=cp.async}
    ... nop  {id=a_fetch_rule_commit, tags=commit}
    a_fetch[a_dim_0_wait] = a_fetch[a_dim_0_wait]  {id=a_fetch_rule_wait, tags=wait.0}
    b[i_inner + i_outer*32] = a_fetch[i_inner]  {id=insn}
    """
    if kind not in ("cp.async",):
        raise TransformError(
            f"there are no asynchronous copies '{kind}'",
            hint=f"async_copy(kernel, {insn_ids!r}, 'cp.async')",
        )
    if kind not in kernel.target.async_copies:
        raise TransformError(
            f"the target {type(kernel.target).__name__} has no asynchronous copies '{kind}'",
            hint="choose a CudaTarget; or omit async_copy: pipeline(...) prefetches to registers "
            "on every target",
        )
    for name in split_names(insn_ids):
        insn = require_instruction(kernel, name)
        if not insn.tags_of_type(AsyncCopyTag):
            kernel = with_axes_assigned(kernel, (insn,))
            _require_copy(kernel, kernel.id_to_insn[name])
            kernel = _started(kernel, name, kind)
    return kernel


def with_axes_assigned(kernel: LoopKernel, insns: Iterable[InstructionBase]) -> LoopKernel:
    """Assign the loops around instructions to axes whose sizes other loops determine.

    If a work-item fetches several elements, it does so in an additional loop, which is unrolled.
    """
    auto = {
        iname
        for insn in insns
        for iname in insn.within_inames
        if kernel.has_tag(iname, AutoFitLocalInameTag)
    }
    if not auto or not any(kernel.has_tag(iname, LocalInameTag) for iname in kernel.inames):
        return kernel
    inames = dict(kernel.inames)
    for iname in auto:
        (tag,) = kernel.iname_tags_of_type(iname, AutoFitLocalInameTag)
        unrolled = AutoFitLocalInameTag(tag.outer or UnrollTag())
        inames[iname] = Iname(iname, inames[iname].tags - {tag} | {unrolled})
    return assign_auto_axes(kernel.copy(inames=inames), auto)


def of_all_items(kernel: LoopKernel, inames: frozenset[str]) -> frozenset[str]:
    """Return the loops that all work-items of a group run, whatever each of them copies."""
    return frozenset(
        name
        for name in inames
        if not kernel.has_tag(name, ConcurrentTag) or kernel.has_tag(name, GroupInameTag)
    )


def without_waits(kernel: LoopKernel, arrays: Collection[str]) -> LoopKernel:
    """Return the kernel without the waits and commits of copies to some arrays."""
    waits = {
        str(insn.id)
        for insn in kernel.instructions
        if insn.tags_of_type(CopyWaitTag) and not set(arrays).isdisjoint(insn.assignee_var_names())
    }
    if not waits:
        return kernel
    commits = {
        name
        for wait in waits
        for name in kernel.id_to_insn[wait].depends_on
        if kernel.id_to_insn[name].tags_of_type(CopyCommitTag)
    }
    gone = waits | commits
    left = [
        insn.copy(depends_on=insn.depends_on - gone)
        for insn in kernel.instructions
        if insn.id not in gone
    ]
    used = {name for insn in left for name in insn.within_inames | insn.reduction_inames()}
    loops = {n for wait in waits for n in kernel.id_to_insn[wait].within_inames} - used
    domains = (
        left if left is domain else project_out_unused_params(left)
        for domain in kernel.domains
        for left in domains_without(domain, loops)
    )
    return kernel.copy(
        instructions=left,
        domains=tuple(domains),
        inames={name: iname for name, iname in kernel.inames.items() if name not in loops},
    )


def begin_products_first(kernel: LoopKernel) -> LoopKernel:
    """Start copies for later iterations after products of warpgroups, so that they overlap.

    Only copies that the product does not depend on are moved.
    """
    behind: dict[str, set[str]] = {}
    for insn in kernel.instructions:
        if is_of_warpgroup(kernel, insn):
            for name in insn.depends_on:
                copy = kernel.id_to_insn[name]
                others = [kernel.id_to_insn[other] for other in insn.depends_on - {name}]
                is_needed = any(name in ancestors(kernel, other) for other in others)
                if copy.tags_of_type(AsyncCopyTag) and not is_needed:
                    behind.setdefault(name, set()).add(str(insn.id))
    if not behind:
        return kernel
    products = {product for found in behind.values() for product in found}
    return kernel.copy(
        instructions=[
            insn.copy(depends_on=insn.depends_on - behind.keys() | behind.get(str(insn.id), set()))
            if insn.id in products or insn.id in behind
            else insn
            for insn in kernel.instructions
        ]
    )


def _require_copy(kernel: LoopKernel, insn: InstructionBase) -> None:
    """Reject instructions other than copies of one element from global to local memory."""
    known = infer_address_spaces(infer_types(kernel.silencing("write_race*"), complete=False))
    because, hint = _why_no_copy(known, insn)
    if because is not None:
        raise TransformError(
            f"'{insn.id}' cannot be an asynchronous copy",
            where=f"instruction '{insn}'",
            because=because,
            hint=hint,
        )


def _why_no_copy(kernel: LoopKernel, insn: InstructionBase) -> tuple[str | None, str | None]:
    """Return why an instruction is not a copy, and a suggested fix."""
    if not isinstance(insn, Assignment) or insn.atomicity:
        return "it is not a plain assignment", "fetch with add_prefetch"
    if not isinstance(insn.expression, p.Subscript):
        return "it does not assign one element to another", "fetch with add_prefetch"
    if any(kernel.has_tag(name, AutoFitLocalInameTag) for name in insn.within_inames):
        because = "no loop is tagged as a work-item axis, so 'l.auto' distributes none of its loops"
        return because, "tag the loops over work-items first"
    place, source = _array(kernel, insn.assignee), _array(kernel, insn.expression)
    if place is None or place.address_space != AddressSpace.LOCAL:
        because = f"'{insn.assignee_name}' is not in local memory"
        return because, "tag the loops over work-items first"
    if source is None or source.address_space != AddressSpace.GLOBAL:
        return "its source is not in global memory", None
    if source.name in kernel.writers:
        return f"the kernel writes '{source.name}', from which a copy may read until its wait", None
    if not isinstance(source.dtype, NumpyType) or source.dtype != place.dtype:
        return (
            "the types of source and destination are not known, or differ",
            "add_dtypes(kernel, ...)",
        )
    size = source.dtype.itemsize
    if size not in _SIZES and not any(lanes * size in _SIZES for lanes in _lanes(kernel, insn)):
        because = f"its elements have {size} bytes, but a copy has 4, 8 or 16"
        lanes = max(_SIZES) // size
        hint = (
            "split the loop over adjacent elements, and copy several at once: "
            f"inner_tag='vec', {lanes}"
        )
        return because, hint if lanes > 1 else None
    return None, None


def _lanes(kernel: LoopKernel, insn: InstructionBase) -> Iterator[int]:
    """Yield the lengths of the loops over lanes around an instruction."""
    for name in sorted(insn.within_inames):
        extent = kernel.get_iname_bounds(name).extent
        if kernel.has_tag(name, VectorizeTag) and isinstance(extent, int):
            yield extent


def _array(kernel: LoopKernel, expr: Any) -> Any:
    """Return the declaration of the array of an element, if *expr* is one."""
    name = getattr(getattr(expr, "aggregate", expr), "name", "")
    return kernel.array_vars.get(name)


def _started(kernel: LoopKernel, name: str, kind: str) -> LoopKernel:
    """Return the kernel with an instruction that only starts copies, and the waits for them."""
    insn = kernel.id_to_insn[name]
    assert isinstance(insn, Assignment)
    users = kernel.iname_to_insns()
    shared = {n for each in kernel.instructions for n in each.reduction_inames()}
    own = [n for n in sorted(insn.within_inames - shared) if users[n] == {name}]
    names, ids = new_names(kernel), kernel.get_instruction_id_generator()
    copies = {loop: str(names(f"{loop}_wait")) for loop in own}
    values: dict[str, Expr] = {old: p.Variable(new) for old, new in copies.items()}
    place = substitute(insn.assignee, values)
    begun = insn.copy(tags=insn.tags | {AsyncCopyTag(kind)})
    commit = NoOpInstruction(
        ids(f"{name}_commit"),
        within_inames=of_all_items(kernel, insn.within_inames.difference(own)),
        within_inames_is_final=True,
        depends_on=frozenset((name,)),
        tags=frozenset((CopyCommitTag(),)),
    )
    wait = insn.copy(
        id=ids(f"{name}_wait"),
        assignee=place,
        expression=place,
        predicates=[substitute(each, values) for each in insn.predicates],
        within_inames=insn.within_inames.difference(own).union(copies.values()),
        depends_on=frozenset((name, str(commit.id))),
        tags=frozenset((CopyWaitTag(0),)),
    )
    instructions: list[InstructionBase] = []
    for each in kernel.instructions:
        if name in each.depends_on:
            if wait not in instructions:
                instructions.append(wait)
            each = each.copy(depends_on=each.depends_on | {str(wait.id)})
        instructions += (begun, commit) if each.id == name else (each,)
    if wait not in instructions:
        instructions.append(wait)
    return kernel.copy(
        instructions=instructions,
        domains=(*kernel.domains, *domains_of_copies(kernel, copies, insn.within_inames)),
        inames={
            **kernel.inames,
            **{new: Iname(new, kernel.inames[old].tags) for old, new in copies.items()},
        },
    )
