"""Work-groups that look back, in CUDA C++: published words, groups numbered in starting order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import cgen
import pymbolic.primitives as p
from pymbolic.mapper.stringifier import PREC_SUM

from kgen.ast.nodes import Block, DeviceFunction, For, If, Let, Node, Run, runs_in
from kgen.errors import CodegenError
from kgen.ir.affine import simplify
from kgen.ir.assignee import index_of
from kgen.ir.expr import Expr, LocalHardwareAxisIndex, substitute
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import LookBackTag, PublishTag
from kgen.ir.types import NumpyType
from kgen.targets.definitions import constant
from kgen.targets.preamble import Need, Rank
from kgen.targets.writers.expressions import ExpressionWriter

__all__ = [
    "emit_look_back",
    "emit_publication",
    "GROUP_NUMBERS",
    "look_back_of",
    "number_groups",
    "published_arrays",
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
    axes = [axis for axis, size in enumerate(function.locals) if size > 1]
    own = [writer.integers.text(LocalHardwareAxisIndex(axis)) for axis in axes]
    ticket = cgen.Assign("kgen_ticket", f"atomicAdd((unsigned int *) {array}, 1u)")
    yield cgen.Value("__shared__ unsigned int", "kgen_ticket")
    is_first = cgen.Line(" && ".join(f"{text} == 0" for text in own))
    yield cgen.If(is_first, ticket) if own else ticket
    yield cgen.Line("__syncthreads();  // groups have numbers in the order in which they begin")
    rest = "kgen_ticket"
    for number, (axis, name) in enumerate(zip("xyz", GROUP_NUMBERS, strict=True)):
        if number == len(function.groups) - 1:
            yield constant("int", name, rest)
            return
        yield constant("int", name, f"{rest} % gridDim.{axis}")
        rest += f" / gridDim.{axis}"


# -- publishing and looking back ----------------------------------------------------------------


def emit_publication(writer: ExpressionWriter, insn: Assignment, tag: PublishTag) -> cgen.Generable:
    """Write the publication of a value."""
    writer.preamble.add(_PUBLISH)
    dtype = writer.typer(insn.assignee)
    value = writer.assigned(insn.expression, dtype)
    row = _row(writer, insn)
    state = _TOTAL if tag.is_total else _UPTO
    return cgen.Statement(f"kgen_publish<{writer.type_name(dtype)}>(&{row}, {state}u, {value})")


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
) -> cgen.Generable:
    """Write a warp's look-back instead of the loop *nodes*; *emit* writes the combination.

    Each lane waits for a different group, nearest first, except for groups
    before one that has published the total of all groups up to it. The lanes combine their
    values in order, by shuffles over growing distances, and prepend the result to
    that of the nearer groups.
    """
    return _LookBack(writer, nodes, tag, emit).block()


class _LookBack:
    """Writes one look-back."""

    def __init__(
        self,
        writer: ExpressionWriter,
        nodes: Sequence[Node],
        tag: LookBackTag,
        emit: Callable[[Node], list[cgen.Generable]],
    ) -> None:
        writer.preamble.add(_PUBLISHED, _FROM_LANE)
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
        self.lanes = f"{2**tag.width - 1}u"
        self.lane = "0"
        if tag.width > 1:
            self.lane = writer.integers.text(LocalHardwareAxisIndex(0), PREC_SUM)

    def block(self) -> cgen.Generable:
        """Return the statements in braces."""
        own = substitute(_own_row(self.parts[0]), self.values)
        together = self.width > 1
        steps = self._window() if together else self._step()
        shared = f"{{before}} = kgen_from_lane({self.lanes}, {{before}}, 0)"
        return cgen.Block(
            [
                constant("int", "kgen_own", self.writer.integers.text(simplify(own))),
                cgen.Initializer(cgen.Value("int", "kgen_left"), "kgen_own"),
                cgen.While(cgen.Line("kgen_left > 0"), cgen.Block(steps)),
                *(self._each(shared) if together else ()),
            ]
        )

    def _step(self) -> list[cgen.Generable]:
        """Return the step of a single work-item: prepend the part of the preceding group."""
        return [
            constant("int", "kgen_other", "kgen_left - 1"),
            cgen.Initializer(cgen.Value("unsigned int", "kgen_state"), "0"),
            *map(self._start, self.parts),
            *(self._declare(p, f"kgen_later_{k}", p.before) for k, p in enumerate(self.parts)),
            cgen.While(
                cgen.Line("kgen_state == 0"), cgen.Block([cgen.Assign("kgen_state", self._found())])
            ),
            *self._each("{before} = {other}"),
            *self._each("{other} = kgen_later_{number}"),
            *self.combine,
            cgen.Assign("kgen_left", f"kgen_state == {_UPTO} ? 0 : kgen_other"),
        ]

    def _found(self) -> str:
        """Write the read of the parts of a group, and of their states."""
        return " & ".join(
            f"kgen_published(&{_row(self.writer, part.published)}, "
            f"{_words_before(self.writer.kernel, part)}, &{part.other})"
            for part in self.parts
        )

    def _window(self) -> list[cgen.Generable]:
        """Return the combination of the parts of the next groups, one for each lane."""
        state = f"kgen_other < 0 ? {_UPTO} : 0"
        return [
            constant("int", "kgen_other", f"kgen_left - 1 - {self.lane}"),
            cgen.Initializer(cgen.Value("unsigned int", "kgen_state"), state),
            *(cgen.Value("unsigned int", f"kgen_{name}") for name in ("last", "needed", "missing")),
            *map(self._start, self.parts),
            *(self._declare(p, f"kgen_later_{k}", p.before) for k, p in enumerate(self.parts)),
            self._wait(),
            constant("int", "kgen_count", "min(__popc(kgen_needed), kgen_left)"),
            self._join_lanes(),
            *self._each("{before} = {other}"),
            cgen.If(
                cgen.Line(f"{self.lane} == 0 && kgen_left < kgen_own"),
                cgen.Block([*self._each("{other} = kgen_later_{number}"), *self.combine]),
            ),
            cgen.Assign("kgen_left", "kgen_last != 0 ? 0 : kgen_left - kgen_count"),
        ]

    def _wait(self) -> cgen.Generable:
        """Return the wait for all groups that are nearer than one with a total of all before it."""
        found = self._found()
        last = f"__ballot_sync({self.lanes}, kgen_state == {_UPTO})"
        needed = f"kgen_last == 0 ? {self.lanes} : kgen_last ^ (kgen_last - 1)"
        missing = f"kgen_needed & __ballot_sync({self.lanes}, kgen_state == 0)"
        body = [
            cgen.If(cgen.Line("kgen_state == 0"), cgen.Assign("kgen_state", found)),
            cgen.Assign("kgen_last", last),
            cgen.Assign("kgen_needed", needed),
            cgen.Assign("kgen_missing", missing),
        ]
        return cgen.DoWhile(cgen.Line("kgen_missing != 0"), cgen.Block(body))

    def _join_lanes(self) -> cgen.Generable:
        """Return the combination of the lanes' parts, those of later groups last."""
        farther = f"{{before}} = kgen_from_lane({self.lanes}, {{other}}, {self.lane} + kgen_step)"
        is_there = cgen.Line(f"{self.lane} + kgen_step < kgen_count")
        joined = cgen.Block([*self.combine, *self._each("{other} = {before}")])
        return cgen.For(
            cgen.Line("int kgen_step = 1"),
            cgen.Line(f"kgen_step < {self.width}"),
            cgen.Line("kgen_step *= 2"),
            cgen.Block([*self._each(farther), cgen.If(is_there, joined)]),
        )

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
