"""The code tree: loops, guards and statements with pymbolic expressions, independent of the target.

It is translated from isl's AST; targets print it through cgen; the test oracle interprets it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kgen.ir.expr import Expr, to_text
from kgen.ir.tree import Barrier, Tree, map_children, nodes_in
from kgen.ir.types import NumpyType, Reach


@dataclass(frozen=True)
class For(Tree):
    """``for (dtype iname = first; iname < stop; iname += step)``.

    ``is_short``: it has few iterations, and should become straight-line code. ``is_simd``: its
    iterations are independent, and should become vector lanes. ``is_rare``: it stays a
    loop, although it is tagged to be unrolled.
    """

    branches = ("body",)
    exprs = ("first", "stop")
    iname: str
    dtype: NumpyType
    first: Expr
    stop: Expr
    step: int
    body: Node
    comment: str | None = None
    is_short: bool = False
    is_simd: bool = False
    is_rare: bool = False

    @property
    def name(self) -> str:
        """The variable, under the same name as in :class:`Let`."""
        return self.iname


@dataclass(frozen=True)
class If(Tree):
    """``if (condition) body else orelse``.

    ``reads_data``: the condition reads variables that statements may change, not only loop
    variables, parameters and hardware axes.
    """

    branches = ("body", "orelse")
    exprs = ("condition",)
    condition: Expr
    body: Node
    orelse: Node | None = None
    reads_data: bool = False


@dataclass(frozen=True)
class Let(Tree):
    """``dtype const name = value;`` for the rest of the enclosing block: *body*."""

    branches = ("body",)
    exprs = ("value",)
    name: str
    dtype: NumpyType
    value: Expr
    body: Node


@dataclass(frozen=True)
class Block(Tree):
    """Statements, one after the other."""

    branches = ("children",)
    children: tuple[Node, ...]


@dataclass(frozen=True)
class Run(Tree):
    """One instruction, with its inames replaced by *values*.

    ``declares``: the scalar that it assigns first, and declares; ``is_only``: no other
    instruction assigns that. ``over``: the loops all of whose iterations it is at once, by the
    lanes of a warp together.
    """

    exprs = ("values",)
    insn_id: str
    values: Mapping[str, Expr]
    declares: str | None = None
    is_only: bool = False
    over: tuple[str, ...] = ()


@dataclass(frozen=True)
class Comment(Tree):
    """A remark above the node *body*."""

    branches = ("body",)
    text: str
    body: Node


@dataclass(frozen=True)
class Persistent(Tree):
    """A loop in which each group of a launch runs many groups of the kernel: *groups* per axis.

    Groups are numbered in starting order. An iteration runs *begin* for another group, *end* for
    the one of the iteration before, and then *keep*, which saves what the next *end* reads. The
    variable ``kgen_half`` is 0 and 1 in turn. Without an *end*, it runs *begin* alone.
    """

    branches = ("begin", "end", "keep")
    groups: tuple[Expr, ...]
    begin: Node
    end: Node | None = None
    keep: Node | None = None


Node: TypeAlias = For | If | Let | Block | Run | Barrier | Comment | Persistent


@dataclass(frozen=True)
class DeviceFunction:
    """One launch: the code between two global barriers.

    ``groups`` are the numbers of work-groups per axis (expressions of the parameters),
    ``locals`` the work-items per group and axis. ``temporaries`` are the private and local
    temporaries that it declares; ``arguments`` are all arguments, in order, global
    temporaries last. ``is_serial``: its groups must not run in parallel on threads; ``is_long``:
    their number may exceed 32 bits; ``is_cooperative``: they wait for each other.
    """

    name: str
    body: Node
    groups: tuple[Expr, ...]
    locals: tuple[int, ...]
    arguments: tuple[str, ...]
    temporaries: tuple[str, ...]
    insn_ids: tuple[str, ...]
    is_serial: bool = False
    is_long: bool = False
    is_cooperative: bool = False


def parts_of(node: Node) -> list[Node]:
    """Return the statements at *node*, with blocks flattened."""
    if isinstance(node, Block):
        return [part for child in node.children for part in parts_of(child)]
    return [node]


def runs_in(node: Node) -> list[Run]:
    """Return the instructions at *node* and below, in the order of the text."""
    return [part for part in nodes_in(node) if isinstance(part, Run)]


def simd_loops_in(node: Node) -> list[For]:
    """Return the loops whose iterations are vector lanes."""
    return [part for part in nodes_in(node) if isinstance(part, For) and part.is_simd]


def variables_in(node: Node) -> list[str]:
    """Return the variables that loops and names at *node* and below define."""
    return [part.name for part in nodes_in(node) if isinstance(part, For | Let)]


def map_runs(node: Node, change: Callable[[Run], Node]) -> Node:
    """Return *node* with each instruction at it and below changed."""
    if isinstance(node, Run):
        return change(node)
    return map_children(node, lambda child: map_runs(child, change))


def print_tree(node: Node, indent: str = "") -> str:
    """Print a code tree, for people and golden tests."""
    match node:
        case For():
            step = "" if node.step == 1 else f" by {node.step}"
            word = "simd" if node.is_simd else "for"
            head = f"{word} {node.iname} = {to_text(node.first)} .. {to_text(node.stop)}{step}"
        case If():
            head = f"if {to_text(node.condition)}"
            if node.orelse is not None:
                return "\n".join(
                    (
                        indent + head,
                        print_tree(node.body, indent + "  "),
                        indent + "else",
                        print_tree(node.orelse, indent + "  "),
                    )
                )
        case Let():
            return f"{indent}let {node.name} = {to_text(node.value)}\n" + print_tree(
                node.body, indent
            )
        case Block():
            return "\n".join(print_tree(child, indent) for child in node.children)
        case Run():
            values = ", ".join(f"{name}={to_text(value)}" for name, value in node.values.items())
            over = f" over {', '.join(node.over)}" if node.over else ""
            return f"{indent}{node.insn_id}({values}){over}"
        case Barrier():
            memory = "of all groups" if node.reach is Reach.DEVICE else node.scope
            return f"{indent}barrier {memory}  # {node.reason}"
        case Comment():
            head = f"# {node.text}"
            return indent + head + "\n" + print_tree(node.body, indent)
        case Persistent():
            return _print_parts(node, indent)
    return indent + head + "\n" + print_tree(node.body, indent + "  ")


def _print_parts(node: Persistent, indent: str) -> str:
    """Print the parts of an iteration of persistent groups."""
    lines = [f"{indent}persistent {', '.join(map(to_text, node.groups))}"]
    for name in node.branches:
        part: Node | None = getattr(node, name)
        if part is not None:
            lines += [f"{indent}{name}", print_tree(part, indent + "  ")]
    return "\n".join(lines)
