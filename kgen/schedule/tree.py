"""The schedule tree, from which isl generates loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from kgen.ir import tree
from kgen.ir.expr import Expr, to_text
from kgen.ir.tree import Barrier, nodes_in
from kgen.lazy import more_names

if not TYPE_CHECKING:  # programs written for loopy use its names, too
    __getattr__ = more_names(__name__, "kgen.compat.loopy.schedule.tree")


class LoopKind(Enum):
    """How a loop is implemented."""

    LOOP = "for"
    UNROLL = "unroll"
    SIMD = "simd"


@dataclass(frozen=True)
class Run(tree.Tree):
    """A block: instructions with the same inames and predicates, in order."""

    insn_ids: tuple[str, ...]


@dataclass(frozen=True)
class Loop(tree.Tree):
    """One sequential loop; its first and last ``slabs`` iterations get their own code."""

    branches = ("body",)
    iname: str
    body: Node
    kind: LoopKind = LoopKind.LOOP
    slabs: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Sequence(tree.Tree):
    """Children that run one after the other."""

    branches = ("children",)
    children: tuple[Node, ...]


@dataclass(frozen=True)
class Bind(tree.Tree):
    """From here down, the inames on hardware axes are known: ``iname -> axis index``."""

    branches = ("body",)
    axes: tuple[tuple[str, Expr], ...]
    body: Node


Node: TypeAlias = Run | Loop | Sequence | Barrier | Bind


@dataclass(frozen=True)
class Launch(tree.Tree):
    """One device function: the code between two global barriers.

    ``barriers`` are the instructions that end the preceding launch. ``is_serial``: threads
    must not run the work-groups in parallel, because a conflict cannot be excluded.
    """

    branches = ("body",)
    name: str
    body: Node
    barriers: tuple[str, ...] = ()
    is_serial: bool = False


@dataclass(frozen=True)
class HostLoop(tree.Tree):
    """A loop that contains a global barrier: in every iteration, the host makes launches."""

    branches = ("steps",)
    iname: str
    steps: tuple[Step, ...]


#: The steps of the host.
Step: TypeAlias = Launch | HostLoop


@dataclass(frozen=True)
class Schedule:
    """All launches of a kernel, in order, and the host loops around them."""

    steps: tuple[Step, ...]

    @property
    def launches(self) -> tuple[Launch, ...]:
        """All launches, in order."""
        return tuple(launch for launch, _ in self.launches_in_loops)

    @property
    def launches_in_loops(self) -> tuple[tuple[Launch, tuple[str, ...]], ...]:
        """All launches, in order, each with the host loops around, outermost first."""
        return tuple(_launches(self.steps, ()))

    @property
    def host_inames(self) -> frozenset[str]:
        """The inames of host loops."""
        return frozenset(_host_inames(self.steps))

    @property
    def runs_before(self) -> tuple[int, ...]:
        """For each launch, how many launches, counted from the first, may have run before it.

        In a host loop, these are all launches of the loop, because of the previous iteration.
        """
        result: list[int] = []
        for step in self.steps:
            first = len(result)
            inside = len(Schedule((step,)).launches)
            is_loop = isinstance(step, HostLoop)
            result += [first + inside if is_loop else first] * inside
        return tuple(result)

    def map_launches(self, function: Callable[[Launch], Launch]) -> Schedule:
        """Return the schedule with *function* applied to each launch."""
        return Schedule(_map_launches(self.steps, function))

    def __str__(self) -> str:
        return "\n".join(_print_step(step, "") for step in self.steps)


def _map_launches(
    steps: tuple[Step, ...], function: Callable[[Launch], Launch]
) -> tuple[Step, ...]:
    return tuple(
        HostLoop(step.iname, _map_launches(step.steps, function))
        if isinstance(step, HostLoop)
        else function(step)
        for step in steps
    )


def _launches(
    steps: Iterable[Step], around: tuple[str, ...]
) -> Iterator[tuple[Launch, tuple[str, ...]]]:
    for step in steps:
        if isinstance(step, HostLoop):
            yield from _launches(step.steps, (*around, step.iname))
        else:
            yield step, around


def _host_inames(steps: Iterable[Step]) -> Iterator[str]:
    for step in steps:
        if isinstance(step, HostLoop):
            yield step.iname
            yield from _host_inames(step.steps)


def _print_step(step: Step, indent: str) -> str:
    if isinstance(step, Launch):
        return f"{indent}launch {step.name}\n" + print_node(step.body, indent + "  ")
    inner = [_print_step(child, indent + "  ") for child in step.steps]
    return "\n".join((f"{indent}host for {step.iname}", *inner))


def print_node(node: Node, indent: str = "") -> str:
    """Print a schedule tree."""
    match node:
        case Run():
            return indent + "run " + ", ".join(node.insn_ids)
        case Loop():
            slabs = "" if node.slabs == (0, 0) else f" slabs {node.slabs}"
            head = f"{indent}{node.kind.value} {node.iname}{slabs}"
            return head + "\n" + print_node(node.body, indent + "  ")
        case Sequence():
            return "\n".join(print_node(child, indent) for child in node.children)
        case Barrier():
            return f"{indent}barrier {node.scope}  # {node.reason}"
        case Bind():
            axes = ", ".join(f"{iname} = {to_text(axis)}" for iname, axis in node.axes)
            return f"{indent}bind {axes}\n" + print_node(node.body, indent + "  ")


def insn_ids(node: Node) -> tuple[str, ...]:
    """Return the instructions below *node*, in order."""
    return tuple(name for at in nodes_in(node) if isinstance(at, Run) for name in at.insn_ids)


def loops_in(node: Node) -> tuple[Loop, ...]:
    """Return the loops from *node* down, in order."""
    return tuple(at for at in nodes_in(node) if isinstance(at, Loop))


def sequence(children: tuple[Node, ...]) -> Node:
    """Make a sequence, or the only child."""
    return children[0] if len(children) == 1 else Sequence(children)
