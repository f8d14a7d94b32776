"""Draws the graph of dependencies: layers of instructions from the top to the bottom."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from kgen.draw.graphs import DependenceGraph, GraphNode
from kgen.draw.plots.style import COLOURS

__all__ = ["plot"]

_WIDEST = 44


def plot(found: DependenceGraph) -> Figure:
    """Draw each instruction with its loops, and arrows from its dependencies."""
    layers: dict[int, list[GraphNode]] = {}
    for node in found.nodes:
        layers.setdefault(node.layer, []).append(node)
    labels = {node.insn_id: _label(node) for node in found.nodes}
    widths = {name: 0.085 * max(map(len, text.split("\n"))) + 0.5 for name, text in labels.items()}
    places = _places(layers, widths)
    width = max((x + widths[name] / 2 for name, (x, _) in places.items()), default=1) + 0.3
    figure = Figure(figsize=(max(4.0, width), 1.15 * len(layers) + 0.7), layout="constrained")
    axes = figure.subplots()
    for node in found.nodes:
        _draw(axes, node, labels[node.insn_id], places)
    axes.set_xlim(0, max(4.0, width))
    axes.set_ylim(1.15 * (len(layers) - 1) + 0.6, -0.6)
    axes.set_axis_off()
    figure.suptitle(f"dependencies of {found.kernel_name}", fontsize=10)
    return figure


def _label(node: GraphNode) -> str:
    text = node.text.strip()
    text = text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."
    return f"{node.insn_id}  [{', '.join(node.inames)}]\n{text}"


def _places(
    layers: Mapping[int, list[GraphNode]], widths: Mapping[str, float]
) -> dict[str, tuple[float, float]]:
    """Place the nodes of each layer side by side, near their dependencies."""
    places: dict[str, tuple[float, float]] = {}
    full = max(sum(widths[n.insn_id] + 0.3 for n in nodes) for nodes in layers.values())
    for number, nodes in sorted(layers.items()):
        nodes = sorted(nodes, key=lambda node: _mean_place(node, places))
        x = (full - sum(widths[node.insn_id] + 0.3 for node in nodes)) / 2 + 0.3
        for node in nodes:
            half = widths[node.insn_id] / 2
            places[node.insn_id] = (x + half, 1.15 * number)
            x += 2 * half + 0.3
    return places


def _mean_place(node: GraphNode, places: Mapping[str, tuple[float, float]]) -> float:
    above = [places[name][0] for name in node.depends_on if name in places]
    return sum(above) / len(above) if above else 0.0


def _draw(
    axes: Axes, node: GraphNode, label: str, places: Mapping[str, tuple[float, float]]
) -> None:
    x, y = places[node.insn_id]
    box = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": COLOURS[0]}
    axes.text(
        x, y, label, ha="center", va="center", family="monospace", fontsize=8, bbox=box, zorder=3
    )
    for name in node.depends_on:
        above = places[name]
        is_far = y - above[1] > 1.2
        arrow = FancyArrowPatch(
            (above[0], above[1] + 0.3),
            (x, y - 0.3),
            arrowstyle="-|>",
            mutation_scale=11,
            color=COLOURS[1],
            linewidth=1.2,
            connectionstyle="arc3,rad=0.25" if is_far and abs(x - above[0]) < 0.5 else "arc3",
            zorder=2,
        )
        axes.add_patch(arrow)
