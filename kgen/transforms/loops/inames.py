"""Adding and removing the loops around instructions, and tests whether loops can nest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from typing import Any, TypeAlias, TypeVar

from kgen.analysis.instances import hint_for_axis
from kgen.errors import TransformError
from kgen.ir.checked import checked
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.match import Id, Or
from kgen.ir.tags import AxisTag, ConcurrentTag
from kgen.ir.unit import TranslationUnit, kernel_of
from kgen.transforms.loops.tag import check_tags
from kgen.transforms.select import matcher, require_inames, transform
from kgen.transforms.statements import found
from kgen.transforms.uses import inames_used, without_unused_inames

__all__ = [
    "add_inames_for_unused_hw_axes",
    "add_inames_to_insn",
    "connected",
    "get_iname_duplication_options",
    "has_schedulable_iname_nesting",
    "remove_inames_from_insn",
    "remove_unused_inames",
]

KeyT = TypeVar("KeyT")


@transform
def add_inames_to_insn(
    kernel: LoopKernel, inames: str | Iterable[str], insn_match: Any
) -> LoopKernel:
    """Put the matching instructions inside further loops.

    ::

        a = 0   {id=one}   add_inames_to_insn(kernel, "i", "id:one")  =>   for i
                                                                             a = 0   {id=one}

    Raises :class:`TransformError` for a loop that a reduction in the instruction runs over.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", ["<> t = 0 {id=one}", "a[i] = t"])
    >>> add_inames_to_insn(knl, "i", "id:one").default_entrypoint.insn_inames("one")
    frozenset({'i'})
    """
    new = frozenset(require_inames(kernel, inames))
    chosen = {insn.id for insn in found(kernel, insn_match)}

    def change(insn: InstructionBase) -> InstructionBase:
        if insn.id not in chosen or new <= insn.within_inames:
            return insn
        reduced = sorted(new & insn.reduction_inames())
        if reduced:
            raise TransformError(
                f"instruction '{insn.id}' reduces over '{reduced[0]}' and cannot be inside of it",
                hint=f"duplicate_inames(kernel, '{reduced[0]}', 'id:{insn.id}') gives the "
                "reduction a loop of its own",
            )
        return insn.copy(within_inames=insn.within_inames | new, within_inames_is_final=True)

    changed = kernel.map_instructions(change)
    check_tags(changed, new)
    return changed


@transform
def remove_inames_from_insn(
    kernel: LoopKernel, inames: str | Iterable[str], insn_match: Any
) -> LoopKernel:
    """Move the matching instructions out of loops that they do not use.

    ::

        for i                                                                 a = 0   {id=one}
          a = 0  {id=one}   remove_inames_from_insn(kernel, "i", "id:one") =>

    Raises :class:`TransformError` for a loop whose variable the instruction uses.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", "<> t = 0 {id=one, inames=i}")
    >>> remove_inames_from_insn(knl, "i", "id:one").default_entrypoint.insn_inames("one")
    frozenset()
    """
    gone = frozenset(require_inames(kernel, inames))
    chosen = {insn.id for insn in found(kernel, insn_match)}

    def change(insn: InstructionBase) -> InstructionBase:
        if insn.id not in chosen or insn.within_inames.isdisjoint(gone):
            return insn
        rest = insn.copy(within_inames=insn.within_inames - gone, within_inames_is_final=True)
        used = gone & (inames_used(kernel, rest) | insn.dependency_names())
        if used:
            raise TransformError(
                f"instruction '{insn.id}' cannot leave loop '{min(used)}'",
                because=f"it uses '{min(used)}': {insn}",
            )
        return rest

    return kernel.map_instructions(change)


@transform
def remove_unused_inames(
    kernel: LoopKernel, inames: str | Iterable[str] | None = None
) -> LoopKernel:
    """Remove loop variables that no instruction uses and that bound no loop.

    The constraints that they imply for other inames are kept.

    :arg inames: remove only these; all by default

    ::

        { [i, j] : 0 <= i, j < n }  =>  { [i] : 0 <= i < n }

    >>> from kgen.frontend import make_kernel
    >>> knl = remove_unused_inames(make_kernel("{ [i,j]: 0<=i,j<4 }", "a[i] = 0"))
    >>> print(knl.default_entrypoint.domains[0])
    { [i] : 0 <= i <= 3 }
    """
    wanted = frozenset(kernel.inames if inames is None else require_inames(kernel, inames))
    return without_unused_inames(kernel, wanted)


# -- nesting -----------------------------------------------------------------------------------


@checked
def has_schedulable_iname_nesting(kernel: LoopKernel | TranslationUnit) -> bool:
    """Tell whether all loops can be nested: any two around an instruction, in some order.

    >>> from kgen.frontend import make_kernel
    >>> text = ["a[i,j] = 0", "b[j] = 0 {inames=j}", "c[i] = 0 {inames=i}"]
    >>> has_schedulable_iname_nesting(make_kernel("{ [i,j]: 0<=i,j<4 }", text))
    False
    """
    return next(_torn_nests(kernel_of(kernel)), None) is None


@checked
def get_iname_duplication_options(
    kernel: LoopKernel | TranslationUnit,
) -> Iterator[tuple[str, Or]]:
    """Yield pairs ``(iname, within)`` for :func:`duplicate_inames` that may let loops nest.

    A kernel whose loops nest has no options. Several options may be needed, one after the
    other. For each loop that does not nest, every proper subset of its instructions is
    an option; instructions in the same loops stay together.

    >>> from kgen.frontend import make_kernel
    >>> text = ["a[i,j] = 0", "b[j] = 0 {inames=j}", "c[i] = 0 {inames=i}"]
    >>> knl = make_kernel("{ [i,j]: 0<=i,j<4 }", text)
    >>> [(iname, str(within)) for iname, within in get_iname_duplication_options(knl)]
    [('i', '(id:insn)'), ('i', '(id:insn_1)'), ('j', '(id:insn)'), ('j', '(id:insn_0)')]
    """
    one = kernel_of(kernel)
    for nests in _torn_nests(one):
        names = frozenset().union(*nests)
        for name in one.in_order(names):
            inside = [ids for loops, ids in nests.items() if name in loops]
            for count in range(1, len(inside)):
                for some in combinations(inside, count):
                    yield name, Or(tuple(Id(insn_id) for ids in some for insn_id in sorted(ids)))


def connected(loops_of: Mapping[KeyT, Collection[str]]) -> list[list[KeyT]]:
    """Return the instructions, or nests, that have loops in common, or with others in between.

    >>> connected({"a": "ij", "b": "k", "c": "jl"})
    [['a', 'c'], ['b']]
    """
    place = {insn: number for number, insn in enumerate(loops_of)}
    part_of: dict[str, list[KeyT]] = {}  # per loop
    parts: list[list[KeyT]] = []
    for insn, loops in loops_of.items():
        old = {id(part_of[name]): part_of[name] for name in loops if name in part_of}
        joined = sorted((insn, *chain.from_iterable(old.values())), key=place.__getitem__)
        parts = [*(part for part in parts if id(part) not in old), joined]
        part_of.update((name, joined) for member in joined for name in loops_of[member])
    return sorted(parts, key=lambda part: place[part[0]])


#: The ids of instructions by the loops around them.
_Nests: TypeAlias = Mapping[frozenset[str], Sequence[str]]


def _torn_nests(kernel: LoopKernel) -> Iterator[_Nests]:
    """Yield sets of loops that cannot be nested: each part is connected, and none is around all.

    What is around all of a part is its outermost loop; without it, the part may fall apart.
    """
    parallel = {name for name in kernel.inames if kernel.has_tag(name, ConcurrentTag)}
    all_nests: dict[frozenset[str], list[str]] = {}
    for insn in kernel.instructions:
        all_nests.setdefault(insn.within_inames - parallel, []).append(str(insn.id))
    open_parts: list[_Nests] = [all_nests]
    while open_parts:
        nests = open_parts.pop()
        for part in connected({loops: loops for loops in nests if loops}):
            around = frozenset.intersection(*part)
            if not around:
                yield {loops: nests[loops] for loops in part}
            elif len(part) > 1:
                open_parts.append({loops - around: nests[loops] for loops in part})


@transform
def add_inames_for_unused_hw_axes(kernel: LoopKernel, within: Any = None) -> LoopKernel:
    """Put instructions inside the loops on hardware axes that they do not use.

    An instruction that does not use an axis runs on the whole axis; inside the loop of the axis, it
    runs only for the values of the loop.

    ::

        a[i] = 0        {id=one}              a[i] = 0     {id=one, inames=i:j}
        b[i,j] = 1      i: l.0, j: l.1   =>   b[i,j] = 1

    Raises :class:`TransformError` if several inames are on a missing axis.

    >>> from kgen.frontend import make_kernel
    >>> from kgen.transforms.loops.tag import tag_inames
    >>> knl = make_kernel("{ [i,j]: 0<=i,j<4 }", ["a[i] = 0 {id=one}", "b[i,j] = 1"])
    >>> knl = add_inames_for_unused_hw_axes(tag_inames(knl, "i:l.0, j:l.1"))
    >>> sorted(knl.default_entrypoint.insn_inames("one"))
    ['i', 'j']
    """
    by_axis: dict[AxisTag, list[str]] = {}
    for name in kernel.inames:
        for tag in kernel.iname_tags_of_type(name, AxisTag):
            by_axis.setdefault(tag, []).append(name)
    test = matcher(kernel, within)

    def change(insn: InstructionBase) -> InstructionBase:
        missing = [
            (tag, names)
            for tag, names in by_axis.items()
            if insn.within_inames.isdisjoint(names) and insn.reduction_inames().isdisjoint(names)
        ]
        if not missing or not test(insn):
            return insn
        for tag, names in missing:
            if len(names) > 1:
                raise TransformError(
                    f"instruction '{insn.id}' is not on axis '{tag}', which has "
                    f"{len(names)} inames: {', '.join(names)}",
                    hint=hint_for_axis(kernel, insn, names),
                )
        new = {names[0] for _, names in missing}
        return insn.copy(within_inames=insn.within_inames | new, within_inames_is_final=True)

    return kernel.map_instructions(change)
