"""Work-groups that look back, in CUDA C++: published words, groups numbered in starting order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import cgen
import pymbolic.primitives as p
from pymbolic.mapper.stringifier import PREC_SUM

from kgen.ast.nodes import Block, DeviceFunction, For, If, Let, Node, Run, runs_in
from kgen.ast.persistent import HALF
from kgen.errors import CodegenError
from kgen.ir.affine import simplify
from kgen.ir.assignee import index_of
from kgen.ir.expr import (
    Expr,
    GroupHardwareAxisIndex,
    LocalHardwareAxisIndex,
    substitute,
    walk,
)
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import LookBackTag, PublishTag
from kgen.ir.target import WARP_SIZE
from kgen.ir.types import NumpyType
from kgen.targets.definitions import constant
from kgen.targets.preamble import Need, Rank
from kgen.targets.writers.expressions import ExpressionWriter

__all__ = [
    "GROUP_NUMBERS",
    "declare_look_backs",
    "draw_ticket",
    "emit_look_back",
    "emit_publication",
    "look_back_of",
    "number_groups",
    "numbers_of",
    "published_arrays",
    "ticket_of",
]

#: The states of a word: its value is the group's own, or that of all groups up to it.
_TOTAL: Final = 1
_UPTO: Final = 2
#: The bytes of a word.
_WORD: Final = 8

_PUBLISH: Final = Need(
    Rank.HELPER,
    "kgen_publish",
    """\
// Words of 64 bits: in one half a part of a value, in the other one what value it is (state).
template <class T>
static __device__ inline void kgen_publish(void *row, unsigned int state, T value)
{
  unsigned int parts[(sizeof(T) + 3) / 4] = {0};
  memcpy(parts, &value, sizeof(T));
  for (int k = 0; k < (int) ((sizeof(T) + 3) / 4); ++k)
    ((unsigned long long volatile *) row)[k] = (unsigned long long) state << 32 | parts[k];
}""",
)
_PUBLISHED: Final = Need(
    Rank.HELPER,
    "kgen_published",
    """\
// The state of the value that was published some words before; 0 if there is none yet.
template <class T>
static __device__ inline unsigned int kgen_published(void const *row, long long before, T *value)
{
  int const count = (sizeof(T) + 3) / 4;
  unsigned long long const volatile *words = (unsigned long long const volatile *) row;
  unsigned int parts[count];
  unsigned int state = 3;
  words -= before;
  for (int k = 0; k < count; ++k)
  {
    unsigned long long const word = words[k];
    parts[k] = (unsigned int) word;
    state &= (unsigned int) (word >> 32);
  }
  memcpy(value, parts, sizeof(T));
  return state;
}""",
)
_FROM_LANE: Final = Need(
    Rank.HELPER,
    "kgen_from_lane",
    """\
template <class T>
static __device__ inline T kgen_from_lane(unsigned int lanes, T value, int lane)
{
  unsigned int parts[(sizeof(T) + 3) / 4] = {0};
  memcpy(parts, &value, sizeof(T));
  for (int k = 0; k < (int) ((sizeof(T) + 3) / 4); ++k)
    parts[k] = __shfl_sync(lanes, parts[k], lane & 31);
  memcpy(&value, parts, sizeof(T));
  return value;
}""",
)


# -- numbers of groups ------------------------------------------------------------------------


def published_arrays(kernel: LoopKernel, function: DeviceFunction) -> tuple[str, ...]:
    """Return the arrays in which groups publish values, which are zero when a launch starts."""
    names = (
        insn.assignee_var_names()[0]
        for insn in map(kernel.id_to_insn.__getitem__, function.insn_ids)
        if kernel.target.looks_back and insn.tags_of_type(PublishTag)
    )
    return tuple(dict.fromkeys(names))


#: The variable of groups that are numbered in starting order.
GROUP_NUMBERS: Final = tuple(f"kgen_group_{axis}" for axis in "xyz")


def number_groups(
    writer: ExpressionWriter, function: DeviceFunction, array: str
) -> Iterator[cgen.Generable]:
    """Write the numbering of a launch's groups: the first row of an *array* counts them."""
    yield cgen.Value("__shared__ unsigned int", "kgen_ticket")
    yield from draw_ticket(writer, function.locals, "kgen_ticket", ticket_of(array))
    yield from numbers_of("kgen_ticket", [f"gridDim.{axis}" for axis in _axes(function)])


def ticket_of(array: str) -> str:
    """Write the number of the next group; the first row of an *array* counts those that began."""
    return f"atomicAdd((unsigned int *) {array}, 1u)"


def draw_ticket(
    writer: ExpressionWriter, sizes: Sequence[int], name: str, value: str
) -> Iterator[cgen.Generable]:
    """Write the assignment to a shared variable by one work-item, which all then read."""
    axes = [axis for axis, size in enumerate(sizes) if size > 1]
    own = [writer.integers.text(LocalHardwareAxisIndex(axis)) for axis in axes]
    ticket = cgen.Assign(name, value)
    is_first = cgen.Line(" && ".join(f"{text} == 0" for text in own))
    yield cgen.If(is_first, ticket) if own else ticket
    yield cgen.Line("__syncthreads();  // groups have numbers in the order in which they begin")


def numbers_of(ticket: str, sizes: Sequence[str]) -> Iterator[cgen.Generable]:
    """Write the numbers of the group with a ticket, for the number of groups along each axis."""
    rest = ticket
    for name, size in zip(GROUP_NUMBERS, sizes[:-1], strict=False):
        yield constant("int", name, f"{rest} % {size}")
        rest += f" / {size}"
    yield constant("int", GROUP_NUMBERS[len(sizes) - 1], rest)


def _axes(function: DeviceFunction) -> str:
    return "xyz"[: len(function.groups)]


# -- publishing and looking back ----------------------------------------------------------------


def emit_publication(writer: ExpressionWriter, insn: Assignment, tag: PublishTag) -> cgen.Generable:
    """Write the publication of a value.

    A persistent group keeps the total of all groups up to it, which only itself reads.
    """
    dtype = writer.typer(insn.assignee)
    value = writer.assigned(insn.expression, dtype)
    if not tag.is_total and _width(writer.kernel, tag.scan) > 1:
        return cgen.Assign(f"{_upto(insn.assignee_name)}[{HALF}]", value)
    writer.preamble.add(_PUBLISH)
    row = _row(writer, insn)
    state = _TOTAL if tag.is_total else _UPTO
    return cgen.Statement(f"kgen_publish<{writer.type_name(dtype)}>(&{row}, {state}u, {value})")


def _width(kernel: LoopKernel, scan: str) -> int:
    """Return the number of work-items that look back together in a scan."""
    tags = (tag for insn in kernel.instructions for tag in insn.tags_of_type(LookBackTag))
    return next(tag.width for tag in tags if tag.scan == scan)


def _upto(array: str) -> str:
    """Name the totals of all groups up to this one, and up to the last one."""
    return f"kgen_upto_{array}"


def _seen(array: str, axis: str = "") -> str:
    """Name the number of the last group, or its number on an axis of groups."""
    return f"kgen_seen_{array}{axis and '_' + axis}"


def _of_warps(array: str) -> str:
    """Name the shared array for a value of each warp."""
    return f"kgen_of_warps_{array}"


def declare_look_backs(
    writer: ExpressionWriter, function: DeviceFunction
) -> Iterator[cgen.Generable]:
    """Declare what a persistent group keeps for its next look-back, and what its warps share."""
    arrays: dict[str, list[str]] = {}
    for insn in map(writer.kernel.id_to_insn.__getitem__, dict.fromkeys(function.insn_ids)):
        tag = _tag(insn)
        if tag is None or tag.width == 1 or not _is_read(insn):
            continue
        assert isinstance(insn, Assignment)
        array = insn.expression.aggregate.name
        arrays.setdefault(tag.scan, []).append(array)
        type_name = f"__shared__ {writer.type_name(writer.typer(insn.assignee))}"
        yield cgen.Value(type_name, f"{_upto(array)}[2]")
        if tag.width > WARP_SIZE:
            yield cgen.Value(type_name, f"{_of_warps(array)}[{tag.width // WARP_SIZE}]")
    for first in map(min, arrays.values()):
        yield cgen.Initializer(cgen.Value("int", _seen(first)), "-1")
        if len(function.groups) > 1:
            for axis in _axes(function):
                yield cgen.Initializer(cgen.Value("int", _seen(first, axis)), "0")


def _row(writer: ExpressionWriter, insn: Assignment) -> str:
    """Write the first element of the row in which an instruction publishes a value."""
    place = insn.assignee
    assert isinstance(place, p.Subscript)
    first = p.Subscript(place.aggregate, (*place.index_tuple[:-1], 0))
    return writer.place(first, insn.expression, writer.typer(place))


def look_back_of(kernel: LoopKernel, node: Node) -> LookBackTag | None:
    """Return the look-back that *node* is a part of, if it contains nothing else."""
    tags = {_tag(kernel.id_to_insn[run.insn_id]) for run in runs_in(node)}
    return tags.pop() if len(tags) == 1 else None


def _tag(insn: InstructionBase) -> LookBackTag | None:
    return next(iter(insn.tags_of_type(LookBackTag)), None)


@dataclass(frozen=True)
class _Part:
    """One value of a look-back: its variables for reading and combining, and its publication."""

    read: Assignment
    before: str
    published: Assignment

    @property
    def other(self) -> str:
        """The variable into which the value of another group is read."""
        return self.read.assignee_name


def emit_look_back(
    writer: ExpressionWriter,
    nodes: Sequence[Node],
    tag: LookBackTag,
    emit: Callable[[Node], list[cgen.Generable]],
    groups: Sequence[Expr],
) -> cgen.Generable:
    """Write a look-back instead of the loop *nodes*; *emit* writes the combination.

    A single work-item goes back from group to group, until one has published the total of all
    groups up to it. The work-items of a persistent group, one of *groups*, know that total for
    their last group, and wait for the totals of the groups in between, each for another one. The
    lanes of a warp combine these in order, by shuffles over growing distances, and then all combine
    the values of the warps.
    """
    return _LookBack(writer, nodes, tag, emit, groups).block()


class _LookBack:
    """Writes one look-back."""

    def __init__(
        self,
        writer: ExpressionWriter,
        nodes: Sequence[Node],
        tag: LookBackTag,
        emit: Callable[[Node], list[cgen.Generable]],
        groups: Sequence[Expr],
    ) -> None:
        writer.preamble.add(_PUBLISHED)
        runs = [run for node in nodes for run in runs_in(node)]
        self.parts = list(_parts(writer.kernel, runs))
        reads = {str(part.read.id) for part in self.parts}
        self.values = next(run.values for run in runs if run.insn_id in reads)
        self.writer = writer.statement(writer.site, self.parts[0].read.within_inames, self.values)
        self.declared = {run.declares for run in runs}
        self.combine = [
            line for node in nodes if (left := _without(node, reads)) for line in emit(left)
        ]
        self.width = tag.width
        self.groups = groups
        self.arrays = [part.read.expression.aggregate.name for part in self.parts]
        self.lane = "0"
        if tag.width > 1:
            writer.preamble.add(_FROM_LANE)
            self.lane = writer.integers.text(LocalHardwareAxisIndex(0), PREC_SUM)

    def block(self) -> cgen.Generable:
        """Return the statements in braces."""
        own = substitute(_own_row(self.parts[0]), self.values)
        together = self.width > 1
        steps = self._together(own) if together else self._alone()
        return cgen.Block(
            [constant("int", "kgen_own", self.writer.integers.text(simplify(own))), *steps]
        )

    # -- a single work-item ---------------------------------------------------------------

    def _alone(self) -> list[cgen.Generable]:
        """Return the loop of a single work-item over the groups that it needs."""
        step = [
            constant("int", "kgen_other", "kgen_left - 1"),
            cgen.Initializer(cgen.Value("unsigned int", "kgen_state"), "0"),
            *map(self._start, self.parts),
            *self._save_before(),
            cgen.While(
                cgen.Line("kgen_state == 0"), cgen.Block([cgen.Assign("kgen_state", self._found())])
            ),
            *self._each("{before} = {other}"),
            *self._each("{other} = kgen_later_{number}"),
            *self.combine,
            cgen.Assign("kgen_left", f"kgen_state == {_UPTO} ? 0 : kgen_other"),
        ]
        return [
            cgen.Initializer(cgen.Value("int", "kgen_left"), "kgen_own"),
            cgen.While(cgen.Line("kgen_left > 0"), cgen.Block(step)),
        ]

    def _found(self) -> str:
        """Write the read of the parts of a group, and of their states."""
        return " & ".join(
            f"kgen_published(&{_row(self.writer, part.published)}, "
            f"{_words_before(self.writer.kernel, part)}, &{part.other})"
            for part in self.parts
        )

    # -- the work-items of a persistent group -----------------------------------------------

    def _together(self, own: Expr) -> list[cgen.Generable]:
        """Return the loop over the groups since the last one, as many as work-items at a time."""
        first = min(self.arrays)
        seen = _seen(first)
        others = self._other_axes(own)
        is_known = [f"{seen} >= 0", *(f"{_seen(first, axis)} == {n}" for axis, n in others)]
        known = [
            cgen.Assign("kgen_first", f"{seen} + 1"),
            *(
                cgen.Assign(part.before, f"{_upto(array)}[1 - {HALF}]")
                for part, array in zip(self.parts, self.arrays, strict=True)
            ),
        ]
        return [
            cgen.Initializer(cgen.Value("int", "kgen_first"), "0"),
            cgen.If(cgen.Line(" && ".join(is_known)), cgen.Block(known)),
            cgen.For(
                cgen.Line(),
                cgen.Line("kgen_first < kgen_own"),
                cgen.Line(f"kgen_first += {self.width}"),
                cgen.Block(self._window()),
            ),
            cgen.Assign(seen, "kgen_own"),
            *(cgen.Assign(_seen(first, axis), name) for axis, name in others),
        ]

    def _other_axes(self, own: Expr) -> list[tuple[str, str]]:
        """Return the other axes of groups, and the number of the group on them."""
        axes = {axis.axis for axis in walk(own) if isinstance(axis, GroupHardwareAxisIndex)}
        names = zip("xyz", GROUP_NUMBERS, strict=True)
        return [pair for k, pair in enumerate(names) if k < len(self.groups) and k not in axes]

    def _window(self) -> list[cgen.Generable]:
        """Return the combination of the totals of the next groups, one for each work-item."""
        lanes = min(self.width, WARP_SIZE)
        wait = cgen.While(cgen.Line(f"({self._found()}) == 0"), cgen.Statement(""))
        lane, warps = self.lane, self.width // WARP_SIZE
        left = "kgen_own - kgen_first"
        if warps > 1:
            lane = f"{self.lane} % {WARP_SIZE}"
            left += f" - {self.lane} / {WARP_SIZE} * {WARP_SIZE}"
        return [
            constant("int", "kgen_other", f"kgen_first + {self.lane}"),
            *map(self._start, self.parts),
            *self._save_before(),
            cgen.If(cgen.Line("kgen_other < kgen_own"), wait),
            *self._join_lanes(lane, left, lanes),
            *(self._join_warps(lane) if warps > 1 else self._join_warp(lanes)),
        ]

    def _join_lanes(self, lane: str, left: str, lanes: int) -> list[cgen.Generable]:
        """Return the combination of the values of a warp, in order; lane 0 has the result."""
        later = f"{{other}} = kgen_from_lane({2**lanes - 1}u, {{before}}, {self.lane} + kgen_step)"
        step = [
            *self._each("{before} = {other}"),
            *self._each(later),
            cgen.If(cgen.Line(f"{lane} + kgen_step < kgen_lanes"), _in_braces(self.combine)),
            *self._each("{other} = {before}"),
        ]
        return [
            constant("int", "kgen_lanes", f"min({left}, {lanes})"),
            cgen.For(
                cgen.Line("int kgen_step = 1"),
                cgen.Line(f"kgen_step < {lanes}"),
                cgen.Line("kgen_step *= 2"),
                cgen.Block(step),
            ),
        ]

    def _join_warp(self, lanes: int) -> list[cgen.Generable]:
        """Return the combination of the value of the only warp with what was before."""
        return [
            *self._each(f"{{other}} = kgen_from_lane({2**lanes - 1}u, {{other}}, 0)"),
            *self._each("{before} = kgen_later_{number}"),
            *self.combine,
        ]

    def _join_warps(self, lane: str) -> list[cgen.Generable]:
        """Return the combination of the values of all warps with what was before."""
        both = list(zip(self.parts, map(_of_warps, self.arrays), strict=True))
        own = f"{self.lane} / {WARP_SIZE}"
        store = [cgen.Assign(f"{array}[{own}]", part.other) for part, array in both]
        of_warp = [cgen.Assign(part.other, f"{array}[kgen_warp]") for part, array in both]
        is_more = f"kgen_first + {self.width} < kgen_own"
        return [
            cgen.If(cgen.Line(f"{lane} == 0"), _in_braces(store)),
            cgen.Line("__syncthreads();  // for the values of the warps"),
            *self._each("{before} = kgen_later_{number}"),
            cgen.Pragma("unroll"),
            cgen.For(
                cgen.Line("int kgen_warp = 0"),
                cgen.Line(f"kgen_warp < {self.width // WARP_SIZE}"),
                cgen.Line("++kgen_warp"),
                cgen.If(
                    cgen.Line(f"kgen_first + {WARP_SIZE} * kgen_warp < kgen_own"),
                    cgen.Block([*of_warp, *self.combine]),
                ),
            ),
            cgen.If(cgen.Line(is_more), cgen.Statement("__syncthreads()")),
        ]

    # -- statements of all parts --------------------------------------------------------------

    def _save_before(self) -> list[cgen.Generable]:
        """Return the declarations of variables that keep what was combined before."""
        return [
            self._declare(part, f"kgen_later_{k}", part.before) for k, part in enumerate(self.parts)
        ]

    def _each(self, text: str) -> list[cgen.Generable]:
        """Return a statement for each part."""
        return [
            cgen.Statement(text.format(other=part.other, before=part.before, number=number))
            for number, part in enumerate(self.parts)
        ]

    def _start(self, part: _Part) -> cgen.Generable:
        """Return the initialization of a part's variable, for lanes without a group."""
        if part.other in self.declared:
            return self._declare(part, part.other, part.before)
        return cgen.Assign(part.other, part.before)

    def _declare(self, part: _Part, name: str, value: str) -> cgen.Generable:
        type_name = self.writer.type_name(self.writer.typer(part.read.assignee))
        return cgen.Initializer(cgen.Value(type_name, name), value)


def _in_braces(statements: Sequence[cgen.Generable]) -> cgen.Generable:
    """Return statements in braces, unless it is one."""
    return statements[0] if len(statements) == 1 else cgen.Block(list(statements))


def _own_row(part: _Part) -> Expr:
    """Return the row of the group that publishes a part: row 0 belongs to no group."""
    row: Any = index_of(part.published.assignee)[_axis_of_groups(part)]
    return p.Sum((row, -1))


def _axis_of_groups(part: _Part) -> int:
    """Return the axis of an array in which the read and the publication differ."""
    both = zip(index_of(part.published.assignee), index_of(part.read.expression), strict=True)
    return next(axis for axis, (own, other) in enumerate(both) if own != other)


def _words_before(kernel: LoopKernel, part: _Part) -> str:
    """Write the distance in words from its own group's words to those a work-item reads."""
    array = kernel.temporary_variables[part.read.expression.aggregate.name]
    stride = array.fixed_strides[_axis_of_groups(part)] * array.dtype.itemsize // _WORD
    distance = "kgen_own - kgen_other"
    return distance if stride == 1 else f"{stride}LL * ({distance})"


def _parts(kernel: LoopKernel, runs: Sequence[Run]) -> Iterator[_Part]:
    """Yield the values of a look-back, in the order of its instructions."""
    ids = {run.insn_id for run in runs}
    inside = [insn for insn in kernel.instructions if insn.id in ids]
    assigned = {name for insn in inside for name in insn.assignee_var_names()}
    starts = [
        insn.assignee_var_names()[0]
        for insn in kernel.instructions
        if insn.id not in ids and not assigned.isdisjoint(insn.assignee_var_names())
    ]
    reads = [insn for insn in inside if _is_read(insn)]
    if len(reads) != len(starts) or not reads:
        raise _changed(inside[0])
    for read, before in zip(reads, starts, strict=True):
        assert isinstance(read, Assignment)
        array = read.expression.aggregate.name
        if not _has_rows_of_words(kernel, array):
            raise _changed(read)
        yield _Part(read, before, _publisher(kernel, read, array))


def _has_rows_of_words(kernel: LoopKernel, name: str) -> bool:
    """Tell whether the rows of an array are contiguous, of whole words, and not shared."""
    array = kernel.temporary_variables.get(name)
    if array is None or array.base_storage is not None or not isinstance(array.dtype, NumpyType):
        return False
    words = -(-array.dtype.itemsize // 4)
    strides = array.fixed_strides
    entries = 8 * words // array.dtype.itemsize
    return len(strides) > 1 and strides[-1] == 1 and strides[-2] == entries


def _is_read(insn: InstructionBase) -> bool:
    return isinstance(insn, Assignment) and isinstance(insn.expression, p.Subscript)


def _publisher(kernel: LoopKernel, read: Assignment, array: str) -> Assignment:
    """Return the instruction that publishes the groups' own values."""
    for insn in map(kernel.id_to_insn.__getitem__, kernel.writers.get(array, ())):
        if isinstance(insn, Assignment) and any(
            tag.is_total for tag in insn.tags_of_type(PublishTag)
        ):
            return insn
    raise _changed(read)


def _changed(insn: InstructionBase) -> CodegenError:
    return CodegenError(
        "a loop in which work-groups look back was changed after realize_reduction created it",
        where=f"instruction '{insn}'",
        hint="transform the kernel before realize_reduction(..., force_scan=True)",
    )


def _without(node: Node, left_out: set[str]) -> Node | None:
    """Return what *node* runs in one iteration of its loop, without some instructions."""
    match node:
        case Run():
            return None if node.insn_id in left_out else node
        case For() | Let():
            return _without(node.body, left_out)
        case Block():
            children = [_without(child, left_out) for child in node.children]
            left = tuple(child for child in children if child is not None)
            return Block(left) if left else None
        case If():
            body = _without(node.body, left_out)
            return None if body is None else If(node.condition, body, reads_data=node.reads_data)
    return node
