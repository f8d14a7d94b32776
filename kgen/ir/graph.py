"""The dependency graph of a kernel: as text, and drawn by graphviz."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytools.graphviz import show_dot

from kgen.ir.checked import checked
from kgen.ir.kernel import LoopKernel
from kgen.ir.mentions import mentions_of
from kgen.ir.unit import TranslationUnit, kernel_of


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\l")
    return f'"{escaped}"'


@checked
def get_dot_dependency_graph(
    kernel: LoopKernel | TranslationUnit,
    callables_table: Mapping[str, Any] | None = None,
    iname_cluster: bool = True,
    use_insn_id: bool = False,
) -> str:
    r"""Return the dependency graph of a kernel as graphviz source.

    Arrows go from an instruction to those that wait for it. *iname_cluster* puts the
    instructions inside the same loops into a frame; *use_insn_id* labels nodes with ids instead
    of instructions. Calls of functions in *callables_table* have a frame of two lines.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{[i]: 0<=i<n}", "<> t = a[i] {id=get}\nb[i] = t {id=put}")
    >>> "get -> put" in lp.get_dot_dependency_graph(knl, use_insn_id=True)
    True
    """
    kernel = kernel_of(kernel)
    lines = ["digraph {"]
    clusters: dict[tuple[str, ...], list[str]] = {}
    for insn in kernel.instructions:
        label = str(insn.id) if use_insn_id else str(insn)
        called = mentions_of(*insn.expressions()).functions.keys() & (callables_table or {}).keys()
        shape = "shape=box,peripheries=2" if called else "shape=box"
        node = f"{insn.id} [label={_quoted(label)},{shape}];"
        inames = kernel.in_order(insn.within_inames)
        clusters.setdefault(inames if iname_cluster else (), []).append(node)
    for number, (inames, nodes) in enumerate(clusters.items()):
        if not inames:
            lines.extend(f"  {node}" for node in nodes)
            continue
        lines.append(f"  subgraph cluster_{number} {{")
        lines.append(f"    label={_quoted(', '.join(inames))};")
        lines.extend(f"    {node}" for node in nodes)
        lines.append("  }")
    for insn in kernel.instructions:
        lines.extend(f"  {first} -> {insn.id};" for first in sorted(insn.depends_on))
    lines.append("}")
    return "\n".join(lines)


@checked
def get_text_dependency_graph(kernel: LoopKernel | TranslationUnit) -> str:
    r"""Return the dependency graph of a kernel as text, a line for each instruction.

    A line has the id of the instruction, the enclosing loops, and the ids that it depends on.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{[i]: 0<=i<n}", "<> t = a[i] {id=get}\nb[i] = t {id=store}")
    >>> print(lp.get_text_dependency_graph(knl))
    get    [i]
    store  [i]  <- get
    """
    kernel = kernel_of(kernel)
    ids = {insn.id: str(insn.id) for insn in kernel.instructions}
    loops = {
        insn.id: f"[{', '.join(kernel.in_order(insn.within_inames))}]"
        for insn in kernel.instructions
    }
    width, depth = (max(map(len, texts.values()), default=0) for texts in (ids, loops))
    lines = [
        f"{ids[insn.id]:{width}}  {loops[insn.id]:{depth}}"
        + (f"  <- {', '.join(sorted(insn.depends_on))}" if insn.depends_on else "")
        for insn in kernel.instructions
    ]
    return "\n".join(line.rstrip() for line in lines)


@checked
def show_dependency_graph(kernel: LoopKernel | TranslationUnit, **options: Any) -> None:
    """Draw the dependency graph with graphviz, and open it.

    *options* are those of :func:`get_dot_dependency_graph`, which returns the source.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{[i]: 0<=i<n}", ["<> t = a[i] {id=get}", "b[i] = t {id=put}"])
    >>> print(lp.get_dot_dependency_graph(knl, iname_cluster=False, use_insn_id=True))
    digraph {
      get [label="get",shape=box];
      put [label="put",shape=box];
      get -> put;
    }
    """
    show_dot(get_dot_dependency_graph(kernel, **options))
