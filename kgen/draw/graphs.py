"""The schedule of a kernel as a tree, and its instructions as a graph of dependencies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from kgen.draw.instances import lowered_parts
from kgen.draw.picture import Picture
from kgen.ir.checked import checked
from kgen.ir.expr import to_text
from kgen.ir.graph import get_text_dependency_graph
from kgen.ir.kernel import LoopKernel
from kgen.ir.tree import Barrier
from kgen.ir.unit import TranslationUnit
from kgen.schedule.tree import Bind, HostLoop, Launch, Loop, Run, Sequence
from kgen.transforms.programs.inline import inlined_kernel

__all__ = ["DependenceGraph", "GraphNode", "ScheduleTree", "TreeNode", "dependences", "schedule"]


@dataclass(frozen=True, kw_only=True)
class TreeNode:
    """A node of a schedule.

    ``kind`` is ``host``, ``launch``, ``bind``, ``for``, ``unroll``, ``simd``, ``barrier``
    or ``run``.
    """

    kind: str
    label: str
    children: tuple[TreeNode, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.label}"


@dataclass(frozen=True, kw_only=True)
class ScheduleTree(Picture):
    """The launches, loops, barriers and instructions of a kernel, in their order."""

    plotter: ClassVar[str] = "trees"

    kernel_name: str
    roots: tuple[TreeNode, ...]

    def __str__(self) -> str:
        return "\n".join(line for root in self.roots for line in _tree_lines(root))

    def rows(self) -> Iterator[tuple[int, int | None, TreeNode]]:
        """Yield the nodes in order, each with its depth, and the row of the one around it."""
        counted = iter(range(10**9))

        def below(node: TreeNode, depth: int, parent: int | None) -> Iterator[Any]:
            row = next(counted)
            yield depth, parent, node
            for child in node.children:
                yield from below(child, depth + 1, row)

        for root in self.roots:
            yield from below(root, 0, None)


@checked
def schedule(
    program: TranslationUnit | LoopKernel, *, entrypoint: str | None = None
) -> ScheduleTree:
    """Return the schedule of a kernel as a tree.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i, j]: 0<=i,j<n }", "out[i] = sum(j, a[i, j])",
    ...     [lp.GlobalArg("a", "float32"), ...], target=lp.OpenCLTarget())
    >>> print(lp.draw.schedule(lp.tag_inames(knl, "i:g.0")))
    launch kgen_kernel
    └─ bind i = gid(0)
       ├─ run insn_j_init
       ├─ for j
       │  └─ run insn_j_update
       └─ run insn

    Raises the errors of code generation.
    """
    kernel, found = lowered_parts(program, entrypoint)
    return ScheduleTree(kernel_name=kernel.name, roots=tuple(map(_tree, found.steps)))


def _tree(node: Any) -> TreeNode:
    match node:
        case HostLoop():
            return TreeNode(
                kind="host", label=f"for {node.iname}", children=tuple(map(_tree, node.steps))
            )
        case Launch():
            return TreeNode(kind="launch", label=node.name, children=_children(node.body))
        case Bind():
            axes = ", ".join(f"{iname} = {to_text(axis)}" for iname, axis in node.axes)
            return TreeNode(kind="bind", label=axes, children=_children(node.body))
        case Loop():
            slabs = "" if node.slabs == (0, 0) else f" slabs {node.slabs}"
            return TreeNode(
                kind=node.kind.value, label=node.iname + slabs, children=_children(node.body)
            )
        case Barrier():
            return TreeNode(kind="barrier", label=f"{node.scope}: {node.reason}")
        case Run():
            return TreeNode(kind="run", label=", ".join(node.insn_ids))
    raise AssertionError(node)


def _children(body: Any) -> tuple[TreeNode, ...]:
    nodes = body.children if isinstance(body, Sequence) else (body,)
    return tuple(map(_tree, nodes))


def _tree_lines(node: TreeNode) -> Iterator[str]:
    yield str(node)
    for number, child in enumerate(node.children, 1):
        is_last = number == len(node.children)
        first, *others = _tree_lines(child)
        yield ("└─ " if is_last else "├─ ") + first
        yield from (("   " if is_last else "│  ") + line for line in others)


@dataclass(frozen=True, kw_only=True)
class GraphNode:
    """An instruction: its text, the loops around it, and its dependencies.

    ``layer`` is the length of the longest path of dependencies before it.
    """

    insn_id: str
    text: str
    inames: tuple[str, ...]
    depends_on: tuple[str, ...]
    layer: int


@dataclass(frozen=True, kw_only=True)
class DependenceGraph(Picture):
    """The instructions of a kernel, and their dependencies."""

    plotter: ClassVar[str] = "graphs"

    kernel_name: str
    nodes: tuple[GraphNode, ...]
    text: str

    def __str__(self) -> str:
        return self.text


@checked
def dependences(
    program: TranslationUnit | LoopKernel, *, entrypoint: str | None = None
) -> DependenceGraph:
    r"""Return the graph of a kernel's instructions, without transitive dependencies.

    Its text is that of :func:`get_text_dependency_graph`.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "<> t = a[i] {id=get}\nb[i] = t {id=put}")
    >>> print(lp.draw.dependences(knl))
    get  [i]
    put  [i]  <- get
    >>> [node.layer for node in lp.draw.dependences(knl).nodes]
    [0, 1]
    """
    kernel = inlined_kernel(program, entrypoint)
    layers: dict[str, int] = {}
    waits: dict[str, frozenset[str]] = {
        str(insn.id): frozenset(map(str, insn.depends_on)) for insn in kernel.instructions
    }

    def layer(name: str) -> int:
        if name not in layers:
            layers[name] = 1 + max(map(layer, waits[name]), default=-1)
        return layers[name]

    def before(name: str) -> frozenset[str]:
        return waits[name].union(*map(before, waits[name]))

    nodes = (
        GraphNode(
            insn_id=str(insn.id),
            text=str(insn).partition(" {")[0],
            inames=kernel.in_order(insn.within_inames),
            depends_on=tuple(sorted(_direct(waits[str(insn.id)], before))),
            layer=layer(str(insn.id)),
        )
        for insn in kernel.instructions
    )
    return DependenceGraph(
        kernel_name=kernel.name, nodes=tuple(nodes), text=get_text_dependency_graph(kernel)
    )


def _direct(waits: frozenset[str], before: Any) -> frozenset[str]:
    """Return the dependencies of an instruction, without transitive ones."""
    return waits - frozenset().union(*(before(name) for name in waits))
