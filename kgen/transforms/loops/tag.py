"""Iname tags, and loop priorities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeAlias, cast

from pytools.tag import NonUniqueTagError, Tag

from kgen.errors import InvalidValueError, TransformError
from kgen.ir.checked import checked
from kgen.ir.data import Iname
from kgen.ir.expr import Reduction, variable_names, walk
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import (
    AutoFitLocalInameTag,
    AxisTag,
    ConcurrentTag,
    ForceSequentialTag,
    GroupInameTag,
    InameImplementationTag,
    LikeTag,
    LocalInameTag,
    TagLike,
    UnusedAxisTag,
    parse_tag,
)
from kgen.ir.unit import TranslationUnit, kernel_of, kernels_of
from kgen.transforms.select import (
    Meaning,
    NoSuchNameError,
    Program,
    has_several_kernels,
    matcher,
    require_iname,
    require_inames,
    split_names,
    transform_of,
)

__all__ = [
    "find_unused_axis_tag",
    "prioritize_loops",
    "tag_inames",
    "untag_inames",
]

#: The tags of one iname: one of them, or several.
Tags: TypeAlias = TagLike | Iterable[object]
TagsByIname: TypeAlias = Mapping[str, Tags] | Iterable[tuple[str, Tags]] | str


class SecondTagError(TransformError, NonUniqueTagError):
    """A second implementation tag for an iname; also pytools' ``NonUniqueTagError``."""


@checked
def tag_inames(
    kernel: Program,
    iname_to_tag: TagsByIname,
    force: bool = False,
    ignore_nonexistent: bool = False,
) -> Program:
    """Set tags, which select how loops are implemented.

    :arg iname_to_tag: ``{"i": "g.0", "j": ["l.0", my_tag]}``, such pairs, or the text
        ``"i:g.0, j:l.0"``. Inames may be patterns with ``*`` and ``?``; a pattern that matches
        none changes nothing.
    :arg force: replace an existing implementation tag; ``l.auto`` is always replaced
    :arg ignore_nonexistent: ignore inames that do not exist

    ::

        for i               =>  INAME TAGS:
          a[i] = 0              i: unr
        end i

    Raises :class:`TransformError` for a second implementation tag, two loops of one reduction
    on one hardware axis, and a reduction over ``g.N``, ``ilp`` or ``vec``. Code generation checks
    that no instruction is inside two loops on one axis.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", "a[i] = 0")
    >>> print(tag_inames(knl, "i:unr").default_entrypoint.inames["i"].tags)
    frozenset({UnrollTag()})
    """
    pairs = _read_pairs(iname_to_tag)
    if len(pairs) > 1 and has_several_kernels(kernel):
        for pair in pairs:  # each must be in one of the kernels, not all in the same
            kernel = _tag(kernel, [pair], force, ignore_nonexistent)
        return kernel
    return _tag(kernel, pairs, force, ignore_nonexistent)


@transform_of(Meaning.STATED)
def _tag(
    kernel: LoopKernel,
    pairs: Sequence[tuple[str, Sequence[Tag | None]]],
    force: bool,
    ignore_nonexistent: bool,
) -> LoopKernel:
    wanted: dict[str, list[Tag | None]] = {}
    kernel_given = kernel
    for pattern, tags in pairs:
        fitted = auto_fitted(kernel, pattern)
        if fitted is not None:
            kernel = _tag_outer(kernel, fitted, tags)
            continue
        if "*" in pattern or "?" in pattern:
            names = [name for name in kernel.inames if fnmatchcase(name, pattern)]
        elif pattern in kernel.inames or not ignore_nonexistent:
            names = [require_iname(kernel, pattern).name]
        else:
            names = []
        for name in names:
            wanted.setdefault(name, []).extend(tags)
    if not wanted and kernel is not kernel_given:
        return kernel
    return add_tags(kernel, wanted, force=force)


def auto_fitted(kernel: LoopKernel, name: str) -> str | None:
    """Return the loop tagged ``l.auto`` whose loop over strides will be meant by *name*.

    A loop ``i`` that is longer than its axis becomes two, ``i_outer`` and ``i_inner``, when code is
    generated.
    """
    base = name.removesuffix("_outer")
    is_meant = base != name and name not in kernel.inames and base in kernel.inames
    return base if is_meant and kernel.has_tag(base, AutoFitLocalInameTag) else None


def _tag_outer(kernel: LoopKernel, name: str, tags: Sequence[Tag | None]) -> LoopKernel:
    """Tag the loop over strides of a loop tagged ``l.auto``."""
    (old,) = kernel.iname_tags_of_type(name, AutoFitLocalInameTag)
    new = old
    for tag in tags:
        new = AutoFitLocalInameTag(tag)
    iname = kernel.inames[name]
    changed = iname.copy(tags=(iname.tags - {old}) | {new})
    return kernel.copy(inames={**kernel.inames, name: changed})


def _read_pairs(given: TagsByIname) -> list[tuple[str, list[Tag | None]]]:
    if isinstance(given, str):
        items: Iterable[tuple[str, Tags]] = [_read_pair(t) for t in given.split(",") if t.strip()]
    else:
        items = given.items() if isinstance(given, Mapping) else given
        if not isinstance(items, Iterable):
            raise TransformError(f"{given!r} gives no tags\n  hint: write 'i:g.0, j:l.0'")
    return [(name, _read_tags(tags)) for name, tags in items]


def _read_pair(text: str) -> tuple[str, str]:
    name, colon, tag = text.partition(":")
    if not colon:
        raise InvalidValueError(
            f"'{text.strip()}' gives an iname no tag", hint="write 'i:g.0, j:l.0'"
        )
    return name.strip(), tag.strip()


def _read_tags(given: Tags) -> list[Tag | None]:
    if not isinstance(given, Iterable) or isinstance(given, str):
        return [parse_tag(given)]
    return [parse_tag(tag) for tag in given]


def add_tags(
    kernel: LoopKernel, wanted: Mapping[str, Sequence[Tag | None]], *, force: bool = False
) -> LoopKernel:
    """Add tags to inames, ``None`` meaning a plain loop; see :func:`tag_inames`."""
    inames = dict(kernel.inames)
    for name, tags in wanted.items():
        for given in tags:
            for tag in _tags_meant(kernel, inames, name, given):
                inames[name] = _with_tag(inames[name], tag, force)
    changed = [name for name in wanted if inames[name].tags != kernel.inames[name].tags]
    if not changed:
        return kernel
    result = kernel.copy(inames=inames)
    check_tags(result, changed)
    return result


def _tags_meant(
    kernel: LoopKernel, inames: Mapping[str, Iname], name: str, tag: Tag | None
) -> Sequence[Tag | None]:
    """Return the meaning of the tags of *name*, given the other loops' tags in *inames*."""
    if isinstance(tag, LikeTag):
        require_iname(kernel, tag.iname)
        return sorted(inames[tag.iname].tags, key=str) or [None]
    if isinstance(tag, UnusedAxisTag):
        loops = [insn.within_inames | insn.reduction_inames() for insn in kernel.instructions]
        others = frozenset().union(*(around for around in loops if name in around)) - {name}
        return [_free_axis(tag.kind, [inames[other] for other in others])]
    return [tag]


def _with_tag(iname: Iname, tag: Tag | None, force: bool) -> Iname:
    if tag is not None and not isinstance(tag, InameImplementationTag):
        return iname.copy(tags=iname.tags | {tag})
    old = [t for t in iname.tags if isinstance(t, InameImplementationTag) and t != tag]
    chosen = any(not isinstance(t, AutoFitLocalInameTag) for t in old)
    if chosen and (not force or isinstance(old[0], ForceSequentialTag)):
        fixed = isinstance(old[0], ForceSequentialTag)
        raise SecondTagError(
            f"iname '{iname.name}' is implemented as '{old[0]}' already, "
            f"not as '{'for' if tag is None else tag}'",
            because="'forceseq' is final" if fixed else None,
            hint=None if fixed else f"tag_inames(kernel, '{iname.name}:...', force=True)",
        )
    return iname.copy(tags=(iname.tags - frozenset(old)) | ({tag} if tag else frozenset()))


def check_tags(kernel: LoopKernel, changed: Iterable[str]) -> None:
    """Reject tags of the inames *changed* that conflict with the uses of the loops."""
    parallel = [name for name in changed if kernel.has_tag(name, ConcurrentTag)]
    if not parallel:
        return
    axis_of = {
        name: tag for name in kernel.inames for tag in kernel.iname_tags_of_type(name, AxisTag)
    }
    taken_axes = not axis_of.keys().isdisjoint(parallel)
    for insn in kernel.instructions:
        reduced = insn.reduction_inames()
        if taken_axes:
            for node in () if reduced.isdisjoint(axis_of) else walk(*insn.expressions()):
                if isinstance(node, Reduction):  # those loops around that it depends on
                    used = insn.within_inames.intersection(variable_names(*node.exprs))
                    _check_axes(str(insn.id), used.union(node.inames), axis_of)


def _check_axes(insn_id: str, inames: frozenset[str], axis_of: Mapping[str, AxisTag]) -> None:
    owner: dict[AxisTag, str] = {}
    for name in sorted(inames & axis_of.keys()):
        other = owner.setdefault(axis_of[name], name)
        if other != name:
            raise TransformError(
                f"inames '{other}' and '{name}' of instruction '{insn_id}' are both "
                f"on the hardware axis '{axis_of[name]}'",
                hint=f"find_unused_axis_tag(kernel, '{str(axis_of[name])[0]}', "
                f"'id:{insn_id}') names a free one",
            )


@transform_of(Meaning.STATED)
def untag_inames(
    kernel: LoopKernel, iname_to_untag: str | Iterable[str], tag_type: type[Tag]
) -> LoopKernel:
    """Remove the tags of a type: ``untag_inames(kernel, "i", UnrollTag)``.

    ::

        i: unr  =>  i: None

    >>> from kgen.frontend import make_kernel
    >>> from kgen.ir.tags import UnrollTag
    >>> knl = tag_inames(make_kernel("{ [i]: 0<=i<4 }", "a[i] = 0"), "i:unr")
    >>> untag_inames(knl, "i", UnrollTag).default_entrypoint.inames["i"].tags
    frozenset()
    """
    inames = dict(kernel.inames)
    for name in split_names(iname_to_untag):
        iname = require_iname(kernel, name)
        kept = frozenset(tag for tag in iname.tags if not isinstance(tag, tag_type))
        inames[name] = iname.copy(tags=kept)
    return kernel.copy(inames=inames)


@checked
def prioritize_loops(kernel: Program, loop_priority: str | Sequence[str]) -> Program:
    """Set the nesting order of loops, outermost first, where instructions leave a choice.

    The orders of several calls are combined and must agree. Names that are not loops are
    ignored, with a warning; ``i_outer`` is the loop over strides of a loop ``i`` tagged ``l.auto``.

    ::

        for i                 prioritize_loops(kernel, "j,i")        for j
          for j                              =>                        for i
            a[i,j] = 0                                                   a[i,j] = 0

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i,j]: 0<=i,j<4 }", "a[i,j] = 0")
    >>> prioritize_loops(knl, "j,i").default_entrypoint.loop_priority
    (('j', 'i'),)
    """
    names = split_names(loop_priority)
    program: LoopKernel | TranslationUnit = kernel
    kernels = kernels_of(program)
    for name in names:
        if not any(_loop_named(one, name) for one in kernels):
            error = NoSuchNameError(kernels[0].name, "iname", name, kernels[0].inames)
            kernels[0].warn(
                f"{error}\n  because: a priority is advice, and holds for the other loops",
                f"no_such_loop({name})",
            )

    def prioritized(one: LoopKernel) -> LoopKernel:
        found = dict.fromkeys(filter(None, (_loop_named(one, name) for name in names)))
        return _prioritize(one, tuple(found)) if len(found) > 1 else one

    changed: Any = (
        program.map_kernels(prioritized)
        if isinstance(program, TranslationUnit)
        else prioritized(program)
    )
    return cast("Program", changed)


def _loop_named(kernel: LoopKernel, name: str) -> str | None:
    return name if name in kernel.inames else auto_fitted(kernel, name)


@transform_of(Meaning.STATED)
def _prioritize(kernel: LoopKernel, names: tuple[str, ...]) -> LoopKernel:
    require_inames(kernel, names)
    if names in kernel.loop_priority:
        return kernel
    return kernel.copy(loop_priority=(*kernel.loop_priority, names))


_AXIS_KINDS: dict[Any, type[GroupInameTag | LocalInameTag]] = {
    "g": GroupInameTag,
    "l": LocalInameTag,
    GroupInameTag: GroupInameTag,
    LocalInameTag: LocalInameTag,
}


@checked
def find_unused_axis_tag(
    kernel: LoopKernel | TranslationUnit,
    kind: str | type[GroupInameTag | LocalInameTag],
    insn_match: Any = None,
) -> GroupInameTag | LocalInameTag:
    """Return the first hardware axis that no loop around the matching instructions uses.

    :arg kind: ``"g"`` or ``"l"``, or the class of the tag

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i,j]: 0<=i,j<4 }", "a[i,j] = 0")
    >>> find_unused_axis_tag(tag_inames(knl, "i:g.0"), "g")
    GroupInameTag(axis=1)
    """
    if kind not in _AXIS_KINDS:
        raise TransformError(f"'{kind}' is not a kind of hardware axis\n  hint: pass 'g' or 'l'")
    wanted = _AXIS_KINDS[kind]
    one = kernel_of(kernel)
    test = matcher(one, insn_match)
    names = {name for insn in one.instructions if test(insn) for name in insn.within_inames}
    return _free_axis(wanted, [one.inames[name] for name in names])


def _free_axis(
    kind: type[GroupInameTag | LocalInameTag], inames: Iterable[Iname]
) -> GroupInameTag | LocalInameTag:
    used = {tag.axis for iname in inames for tag in iname.tags_of_type(kind)}
    return kind(next(axis for axis in range(len(used) + 1) if axis not in used))
