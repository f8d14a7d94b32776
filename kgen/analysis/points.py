"""Points of sets, formatted for messages."""

from __future__ import annotations

from collections.abc import Mapping

from kgen.ir.sets.dims import Set
from kgen.ir.sets.domain import sample_point
from kgen.ir.sets.names import PAIR, SetName

__all__ = ["describe", "describe_pair", "example"]


def example(named: Set) -> dict[str, int]:
    """Return a point of a nonempty set, by name."""
    point = sample_point(named)
    assert point is not None
    return point


def describe(point: Mapping[str, int]) -> str:
    """Write a point: sizes and loop variables, then the work-item.

    >>> describe({".lid0": 3, "n": 8, "i": 2, ".gid0": 1, ".element0": 4})
    'n = 8, i = 2, in work-item gid0 = 1, lid0 = 3'
    """
    item = {name: value for name, value in point.items() if _is_axis(name)}
    rest = {n: v for n, v in point.items() if n not in item and not SetName.ELEMENT.names(n)}
    parts = [_values(rest)] if rest else []
    if item:
        parts.append(f"in work-item {_values(dict(sorted(item.items())))}")
    return ", ".join(parts)


def describe_pair(point: Mapping[str, int], *, unit: str = "a work-item") -> str:
    """Write a point of two work-items, or two *units*: the shared part, then each of them.

    >>> describe_pair({"n": 8, "k.a": 1, "k.b": 1, ".lid0.a": 0, ".lid0.b": 5, ".element0": 0})
    'n = 8, k = 1: work-item lid0 = 0 and work-item lid0 = 5, at element [0]'
    """
    sides: list[dict[str, int]] = []
    for suffix in PAIR:
        cut = {n.removesuffix(suffix): v for n, v in point.items() if n.endswith(suffix)}
        sides.append(cut)
    one, other = sides
    both = {n: v for n, v in one.items() if not _is_axis(n) and other.get(n) == v}
    shared = {n: v for n, v in point.items() if not n.endswith(PAIR)}
    element = [v for n, v in sorted(shared.items()) if SetName.ELEMENT.names(n)]
    head = _values({n: v for n, v in shared.items() if not SetName.ELEMENT.names(n)} | both)
    items = [_item({n: v for n, v in side.items() if n not in both}, unit) for side in (one, other)]
    text = f"{items[0]} and {items[1]}"
    if items == [unit, unit]:
        text = f"the same {unit.partition(' ')[2]}"
    if element:
        text += f", at element [{', '.join(map(str, element))}]"
    return f"{head}: {text}" if head else text


def _item(side: Mapping[str, int], unit: str) -> str:
    axes = {n: v for n, v in sorted(side.items()) if _is_axis(n)}
    loops = {n: v for n, v in side.items() if n not in axes}
    text = f"work-item {_values(axes)}" if axes else unit
    return f"{text} with {_values(loops)}" if loops else text


def _is_axis(name: str) -> bool:
    return name.startswith((SetName.GROUP, SetName.ITEM))


def _values(point: Mapping[str, int]) -> str:
    return ", ".join(f"{name.removeprefix('.')} = {value}" for name, value in point.items())
