"""Iname tags, which select the implementation of a loop, and their spelling."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from pytools.tag import Tag, ToTagSetConvertible, check_tag_uniqueness, normalize_tags

from kgen.errors import InvalidValueError, KernelError, KgenError

__all__ = [
    "AccumulatorTag",
    "AutoFitLocalInameTag",
    "AxisTag",
    "ConcurrentTag",
    "ForceSequentialTag",
    "FoundInCallTag",
    "FragmentTag",
    "GroupInameTag",
    "HardwareConcurrentTag",
    "IlpBaseTag",
    "InOrderSequentialSequentialTag",
    "InameImplementationTag",
    "LikeTag",
    "LocalInameTag",
    "LocalInameTagBase",
    "LoopedIlpTag",
    "StringTag",
    "Taggable",
    "TagLike",
    "TensorTag",
    "UnrollHintTag",
    "UnrollTag",
    "UnrolledIlpTag",
    "UniqueInameTag",
    "UnusedAxisTag",
    "UseStreamingLoadTag",
    "UseStreamingStoreTag",
    "VectorizeTag",
    "filter_iname_tags_by_type",
    "parse_tag",
    "reject_hints",
    "to_tags",
]


Self_ = TypeVar("Self_", bound="Taggable")
T = TypeVar("T", bound=Tag)


class Taggable:
    """A value with ``tags``, of kgen's kinds and of the user's."""

    tags: frozenset[Tag]

    def copy(self: Self_, **changes: Any) -> Self_:
        """Return this with some fields changed."""
        raise NotImplementedError

    def tags_of_type(self, tag_t: type[T] | tuple[type[T], ...]) -> frozenset[T]:
        """Return the tags of a type, or of several types."""
        return frozenset([tag for tag in self.tags if isinstance(tag, tag_t)])

    def tags_not_of_type(self, tag_t: type[Tag] | tuple[type[Tag], ...]) -> frozenset[Tag]:
        """Return the tags that are not of a type, or of several types."""
        return self.tags - self.tags_of_type(tag_t)

    def tagged(self: Self_, tags: ToTagSetConvertible) -> Self_:
        """Return this with additional tags; rejects two of a unique kind."""
        return self.copy(tags=check_tag_uniqueness(normalize_tags(tags) | self.tags))

    def without_tags(
        self: Self_, tags: ToTagSetConvertible, verify_existence: bool = True
    ) -> Self_:
        """Return this without one or several tags; with *verify_existence*, it must have them."""
        gone = normalize_tags(tags)
        if verify_existence and not gone <= self.tags:
            missing = ", ".join(sorted(str(tag) for tag in gone - self.tags))
            raise InvalidValueError(
                f"'{self}' has no tag {missing} to remove",
                hint="without_tags(tags, verify_existence=False)",
            )
        return self.copy(tags=self.tags - gone)


class InameImplementationTag(Tag):
    """A tag that selects how a loop is implemented; an iname has at most one."""


class ConcurrentTag(InameImplementationTag):
    """The iterations of the loop run in parallel, in no order."""


class HardwareConcurrentTag(ConcurrentTag):
    """The hardware has the iterations, as work-items or as lanes: there is no loop in the code."""


class UniqueInameTag(InameImplementationTag):
    """A tag of which an iname has at most one: an axis, or lanes."""


@dataclass(frozen=True)
class AxisTag(UniqueInameTag, HardwareConcurrentTag):
    """A hardware axis, counted from the one whose indices are adjacent."""

    axis: int


@dataclass(frozen=True)
class GroupInameTag(AxisTag):
    """``g.N``: the loop variable is the index of the work-group along axis N."""

    def __str__(self) -> str:
        return f"g.{self.axis}"


class LocalInameTagBase(HardwareConcurrentTag):
    """Any tag that distributes a loop over the work-items of a group."""


@dataclass(frozen=True)
class LocalInameTag(LocalInameTagBase, AxisTag):
    """``l.N``: the loop variable is the work-item's index in its group along axis N."""

    def __str__(self) -> str:
        return f"l.{self.axis}"


@dataclass(frozen=True)
class AutoFitLocalInameTag(LocalInameTagBase):
    """``l.auto``: kgen picks the local axis.

    ``outer`` is the tag of the loop over strides, if the loop is longer than its axis:
    ``l.auto:unr``.

    >>> print(AutoFitLocalInameTag(), parse_tag("l.auto:unr"))
    l.auto l.auto:unr
    """

    outer: Tag | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.outer, None | _SEQUENTIAL):
            raise KgenError(
                f"the loop over strides that 'l.auto' creates cannot be '{self.outer}'\n  hint: "
                "it is sequential: 'for', 'unr', 'unr_hint', 'forceseq'"
            )

    def __str__(self) -> str:
        return "l.auto" if self.outer is None else f"l.auto:{self.outer}"


class IlpBaseTag(ConcurrentTag):
    """Iterations that are interleaved in one work-item, each with its own temporaries."""


@dataclass(frozen=True)
class UnrolledIlpTag(IlpBaseTag):
    """``ilp`` or ``ilp.unr``: every instruction is repeated, innermost, per iteration."""

    def __str__(self) -> str:
        return "ilp.unr"


@dataclass(frozen=True)
class LoopedIlpTag(IlpBaseTag):
    """``ilp.seq``: every instruction gets an innermost loop over the iterations."""

    def __str__(self) -> str:
        return "ilp.seq"


@dataclass(frozen=True)
class VectorizeTag(UniqueInameTag, HardwareConcurrentTag):
    """``vec``: the iterations are lanes of a vector."""

    def __str__(self) -> str:
        return "vec"


@dataclass(frozen=True)
class UnrollTag(InameImplementationTag):
    """``unr``: the loop body is repeated once per value."""

    def __str__(self) -> str:
        return "unr"


@dataclass(frozen=True)
class UnrollHintTag(InameImplementationTag):
    """``unr_hint``, ``unr.N``: a loop with a hint to the compiler to unroll it N times."""

    value: int | None = None

    def __str__(self) -> str:
        return "unr_hint" if self.value is None else f"unr_hint.{self.value}"


@dataclass(frozen=True)
class UnrollBySizeTag(UnrollHintTag):
    """``unr.auto``: a loop with a hint to the compiler to unroll it as far as code stays short."""

    def __str__(self) -> str:
        return "unr.auto"


@dataclass(frozen=True)
class ForceSequentialTag(InameImplementationTag):
    """``for``: a loop, which cannot be tagged otherwise later."""

    def __str__(self) -> str:
        return "forceseq"


@dataclass(frozen=True)
class InOrderSequentialSequentialTag(InameImplementationTag):
    """``ord``: a loop whose iterations must run in ascending order."""

    def __str__(self) -> str:
        return "ord"


@dataclass(frozen=True)
class LikeTag(Tag):
    """``like.INAME``: the tags of another iname at the time of the call."""

    iname: str


@dataclass(frozen=True)
class UnusedAxisTag(Tag):
    """``unused.g``, ``unused.l``: the first hardware axis that is unused around the iname."""

    kind: type[GroupInameTag | LocalInameTag]


@dataclass(frozen=True)
class StringTag(Tag):
    """A user's tag that is just a word: ``{tags=word}``, ``array$word``."""

    value: str

    def __str__(self) -> str:
        return self.value


class UseStreamingStoreTag(Tag):
    """``!streaming_store``: an assignment bypasses the cache if the target supports it.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = 1", [lp.GlobalArg("out", "float32"), ...],
    ...     target=lp.CudaTarget())
    >>> unit = lp.tag_instructions(unit, lp.UseStreamingStoreTag(), "writes:out")
    >>> print(lp.generate_body(unit))
      for (int i = 0; i < n; ++i)
        __stcs(&out[i], 1.0f);
    """

    def __str__(self) -> str:
        return "!streaming_store"


class UseStreamingLoadTag(Tag):
    """``!streaming_load``: the elements of an array argument are each read about once.

    Caches should replace them before others, so that they keep what is read again. Code for CUDA
    reads such an array by ``__ldcs`` in launches that do not write it.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = x[p[i]]",
    ...     [lp.GlobalArg("p", "int32", shape="n", tags=UseStreamingLoadTag()),
    ...      lp.GlobalArg("x", "float32", shape="n"), ...], target=lp.CudaTarget())
    >>> print(lp.generate_body(unit))
      for (int i = 0; i < n; ++i)
        out[i] = x[__ldcs(&p[i])];
    """

    def __str__(self) -> str:
        return "!streaming_load"


#: The hints, by their spelling, and what each is for.
_HINTS: Final[dict[str, Tag]] = {
    str(tag): tag for tag in (UseStreamingStoreTag(), UseStreamingLoadTag())
}
_USES: Final[dict[type[Tag], str]] = {
    UseStreamingStoreTag: "is for instructions: tag_instructions(kernel, '!streaming_store', ...)",
    UseStreamingLoadTag: "is for array arguments: tag_arrays(kernel, ..., '!streaming_load')",
}


@dataclass(frozen=True)
class AsyncCopyTag(Tag):
    """An assignment that copies an element asynchronously, until its work-item waits for the copy.

    ``kind`` is the method: ``cp.async``. The copied element must not be read before the wait.
    """

    kind: str

    def __str__(self) -> str:
        return self.kind


class CopyCommitTag(Tag):
    """A no-op that ends a group of copies: those started by a work-item since the last one."""

    def __str__(self) -> str:
        return "commit"


@dataclass(frozen=True)
class CopyWaitTag(Tag):
    """An assignment of elements to themselves, which waits for the copies that write them.

    All groups of copies of a work-item, except the last *pending* ones, are complete after it.
    """

    pending: int

    def __str__(self) -> str:
        return f"wait.{self.pending}"


@dataclass(frozen=True)
class PublishTag(Tag):
    """An assignment of an element that work-groups wait for when they look back.

    ``scan`` names the scan, as in a :class:`LookBackTag`. An element is the total of its group if
    ``is_total``, at the end of a row; otherwise, the total of all groups up to it.
    """

    scan: str
    is_total: bool

    def __str__(self) -> str:
        return f"publish.{self.scan}"


@dataclass(frozen=True)
class AccumulatorTag(Tag):
    """A temporary of unknown type that accumulates values: those of 16 bits in 32."""

    def __str__(self) -> str:
        return "accumulator"


@dataclass(frozen=True)
class LookBackTag(Tag):
    """A part of the loop in which a group combines the values published by preceding groups.

    It waits for these. ``width`` adjacent work-items cooperate: all warps, or a part of one.
    """

    scan: str
    width: int

    def __str__(self) -> str:
        return f"look_back.{self.scan}"


@dataclass(frozen=True)
class TensorTag(InameImplementationTag):
    """A loop over the terms of products on tensor cores, all of which are one step.

    It is inside all other loops, and contains only its one instruction.
    """

    shape: str
    operands: str

    def __str__(self) -> str:
        return f"tensor.{self.shape}.{self.operands}"


@dataclass(frozen=True)
class FragmentTag(Tag):
    """A loop that selects an element of a matrix among those of a warp or warpgroup.

    ``of``: ``lane``, one of the lanes, or ``group`` and ``pair``, which together select one;
    ``row``, ``block`` (of columns) or ``column``, one of the elements of a lane. ``part_of``: the
    loop over rows or columns that was distributed.
    """

    of: str
    part_of: str | None = None

    def __str__(self) -> str:
        return f"fragment.{self.of}"


class ItemLoopTag(Tag):
    """A loop over the work-items along ``l.0``, where threads run work-groups."""


class FoundInCallTag(Tag):
    """A value argument that calls infer from arrays, and that is never passed."""


def filter_iname_tags_by_type(
    tags: Iterable[Tag],
    tag_type: type[T] | tuple[type[T], ...],
    max_num: int | None = None,
    min_num: int | None = None,
) -> set[T]:
    """Return the tags of a type, or of several types.

    Raises :class:`KgenError` for more than *max_num* of them, or fewer than *min_num*.

    >>> filter_iname_tags_by_type([UnrollTag(), GroupInameTag(1)], AxisTag, max_num=1)
    {GroupInameTag(axis=1)}
    """
    found = {tag for tag in tags if isinstance(tag, tag_type)}
    most = len(found) if max_num is None else max_num
    least = 0 if min_num is None else min_num
    if not least <= len(found) <= most:
        shown = ", ".join(sorted(map(str, found))) or "none"
        wanted = f"at least {least}" if len(found) < least else f"at most {most}"
        kinds = tag_type if isinstance(tag_type, tuple) else (tag_type,)
        raise KgenError(
            f"{wanted} of {', '.join(kind.__name__ for kind in kinds)} are required, not: {shown}"
        )
    return found


TagLike: TypeAlias = str | Tag | None


def to_tags(given: TagLike | Iterable[str | Tag]) -> frozenset[Tag]:
    """Read any number of tags; a text is words separated by commas.

    The word ``!streaming_store`` is a :class:`UseStreamingStoreTag`, and ``!streaming_load`` a
    :class:`UseStreamingLoadTag`. Raises :class:`KernelError` for other words that begin with ``!``.

    >>> sorted(map(str, to_tags("load, fast")))
    ['fast', 'load']
    """
    if given is None:
        return frozenset()
    if isinstance(given, Tag):
        return frozenset((given,))
    if isinstance(given, frozenset) and all(isinstance(tag, Tag) for tag in given):
        return given
    words: Any = given.split(",") if isinstance(given, str) else given
    if not isinstance(words, Iterable) or not all(isinstance(w, str | Tag) for w in words):
        raise KernelError(
            f"tags are text, Tag objects, or a list of these, not {given!r}\n"
            "  hint: tags='first,second'"
        )
    return frozenset(
        _read_word(word.strip()) if isinstance(word, str) else word for word in words if word
    )


def _read_word(word: str) -> Tag:
    if not word.startswith("!"):
        return StringTag(word)
    if word not in _HINTS:
        raise KernelError(f"there is no tag '{word}'", hint=" or ".join(map(repr, _HINTS)))
    return _HINTS[word]


def reject_hints(tags: frozenset[Tag], what: str, allowed: type[Tag] | None = None) -> None:
    """Raise :class:`KernelError` if *what* has a hint as a tag that is not for it.

    >>> reject_hints(to_tags("!streaming_load, fast"), "array 'a'", UseStreamingLoadTag)
    """
    if not tags:
        return
    for kind, use in _USES.items():
        if kind is not allowed and any(isinstance(tag, kind) for tag in tags):
            raise KernelError(f"{what} cannot be tagged '{kind()}'", hint=f"this tag {use}")


#: Tags that put a loop on a hardware axis: it is the index of a work-group, or of a work-item.
HARDWARE_AXES: Final = (AxisTag, LocalInameTagBase)

_SEQUENTIAL = UnrollTag | UnrollHintTag | ForceSequentialTag | InOrderSequentialSequentialTag

_FIXED: dict[str, Tag] = {
    "l.auto": AutoFitLocalInameTag(),
    "ilp": UnrolledIlpTag(),
    "ilp.unr": UnrolledIlpTag(),
    "ilp.seq": LoopedIlpTag(),
    "vec": VectorizeTag(),
    "unr": UnrollTag(),
    "unr_hint": UnrollHintTag(),
    "unr.auto": UnrollBySizeTag(),
    "forceseq": ForceSequentialTag(),
    "ord": InOrderSequentialSequentialTag(),
    "unused.g": UnusedAxisTag(GroupInameTag),
    "unused.l": UnusedAxisTag(LocalInameTag),
    # OpenACC's levels
    "gang": GroupInameTag(0),
    "worker": LocalInameTag(1),
    "vector": LocalInameTag(0),
}


#: Tags by their names in other systems.
_OTHER_NAMES: dict[str, str] = {
    "unroll": "unr",
    "unrolled": "unr",
    "vector": "vec",
    "vectorize": "vec",
    "simd": "vec",
    "parallel": "g.0' or 'l.0",
    "block": "g.0",
    "group": "g.0",
    "thread": "l.0",
    "local": "l.0",
    "seq": "for",
    "sequential": "for",
}


def _near_tag(text: str) -> str:
    """Return a hint to a similar tag, if there is one."""
    axis = re.fullmatch(r"([gl])[^0-9A-Za-z]?(\d+)", text.lower())
    other = f"{axis[1]}.{axis[2]}" if axis else _OTHER_NAMES.get(text.lower().split(".")[0])
    if re.fullmatch(r"[gl](\..*)?", text.lower()) and not axis:
        other = "', '".join(f"{text[0].lower()}.{number}" for number in range(3))
    if other is None:
        return ""
    return f"did you mean '{other}'? "


def parse_tag(tag: Any) -> Tag | None:
    """Read a tag from its spelling; ``for``, ``seq`` and ``None`` mean a plain loop.

    OpenACC's ``gang``, ``worker`` and ``vector`` are synonyms of ``g.0``, ``l.1``, ``l.0``.

    >>> parse_tag("g.1")
    GroupInameTag(axis=1)
    >>> parse_tag("worker")
    LocalInameTag(axis=1)
    >>> parse_tag("for") is None
    True
    """
    if tag is None or isinstance(tag, Tag):
        return tag
    if not isinstance(tag, str):
        raise KgenError(f"an iname tag is text or a Tag, not {tag!r}")
    text = tag.strip()
    if text in ("for", "seq", ""):
        return None
    if text in _FIXED:
        return _FIXED[text]
    if text.startswith("l.auto:"):
        return AutoFitLocalInameTag(parse_tag(text.removeprefix("l.auto:")))
    if axis := re.fullmatch(r"([gl])\.(\d+)", text):
        number = int(axis[2])
        return GroupInameTag(number) if axis[1] == "g" else LocalInameTag(number)
    if times := re.fullmatch(r"unr(?:_hint)?\.([1-9]\d*)", text):
        return UnrollHintTag(int(times[1]))
    if other := re.fullmatch(r"like\.(\w+)", text):
        return LikeTag(other[1])
    raise InvalidValueError(
        f"'{tag}' is not an iname tag\n  hint: {_near_tag(text)}the tags are 'for', 'ord', 'unr', "
        "'unr_hint', "
        "'unr_hint.N', 'unr.N', 'unr.auto', 'g.N', 'l.N', 'l.auto', 'unused.g', 'unused.l', "
        "'like.INAME', 'ilp', "
        "'ilp.unr', 'ilp.seq', 'vec', OpenACC's 'gang', 'worker', 'vector' and "
        "'seq', or an instance of pytools.tag.Tag"
    )
