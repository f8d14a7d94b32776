"""Random loops: rectangles, triangles, bands, strides, shifts; and the domains they form."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from tests.random import choices
from tests.random.choices import Draw
from tests.random.program import Linear

__all__ = ["Loop", "draw_domains", "draw_loop", "growing_loop", "rectangle", "tile_loop"]


@dataclass(frozen=True)
class Loop:
    """A loop variable: its constraints, and ``low <= iname < high`` whatever surrounds it."""

    name: str
    constraints: str
    low: int
    high: Linear
    parent: Loop | None = None
    #: takes every value between two constants
    is_constant: bool = False
    #: takes a value wherever the loops around it do
    is_never_empty: bool = False

    @property
    def path(self) -> tuple[Loop, ...]:
        """The loops around it, and itself."""
        return (*(self.parent.path if self.parent else ()), self)

    @property
    def extent(self) -> Linear:
        """How many values it takes at most, shifted to 0."""
        return self.high + -self.low


_SIZES = choices.sampled_from((Linear(n=1), Linear(n=1), Linear(m=1)))


def _rectangle(draw: Draw, name: str) -> Loop:
    high = draw(_SIZES) + draw(choices.sampled_from((0, 0, 0, -2, -1, 1, 3)))
    low = draw(choices.sampled_from((0, 0, 0, -2, 1, 3)))
    return Loop(name, f"{low} <= {name} < {high}", low, high)


def _constant(draw: Draw, name: str) -> Loop:
    low = draw(choices.sampled_from((0, 0, -2, 1)))
    high = low + draw(choices.integers(1, 5))
    return Loop(name, f"{low} <= {name} < {high}", low, Linear(c=high), is_constant=True)


def _strided(draw: Draw, name: str) -> Loop:
    high = draw(_SIZES) + draw(choices.sampled_from((0, 0, 1)))
    factor = draw(choices.integers(2, 3))
    rest = draw(choices.integers(0, factor - 1))
    text = f"0 <= {name} < {high} and {name} mod {factor} = {rest}"
    return Loop(name, text, 0, high)


def _multiple(draw: Draw, name: str) -> Loop:
    factor = draw(choices.integers(2, 4))
    high = draw(_SIZES)
    return Loop(name, f"0 <= {name} and {factor}*{name} < {high}", 0, high)


def _dependent(draw: Draw, name: str, outer: Loop) -> Loop:
    """Draw a triangle or a band over an outer loop."""
    i, low, high = outer.name, outer.low, outer.high
    size = draw(_SIZES)
    text, first, last = draw(
        choices.sampled_from(
            (
                (f"0 <= {name} <= {i}", 0, high),
                (f"0 <= {name} < {i}", 0, high),
                (f"{i} <= {name} < {size}", low, size),
                (f"{i} < {name} < {size}", low, size),
                (f"0 <= {name} < {size} - {i}", 0, size + max(-low, 0)),
                (f"{i} - 1 <= {name} <= {i} + 1", low - 1, high + 1),
                (f"{i} <= {name} < {i} + 3", low, high + 3),
                (f"0 <= {name} and 2*{name} <= {i}", 0, high),
                (f"0 <= {name} <= {i} and {name} < {size}", 0, high),
            )
        )
    )
    return Loop(name, text, first, last)


_KINDS = {"r": _rectangle, "c": _constant, "s": _strided, "m": _multiple}


def draw_loop(draw: Draw, name: str, parent: Loop | None) -> Loop:
    """Draw the bounds of one loop inside *parent*."""
    kind = draw(choices.sampled_from("rrcsmttt" if parent is not None else "rrrcsm"))
    if kind == "t" and parent is not None:
        loop = _dependent(draw, name, draw(choices.sampled_from(parent.path)))
    else:
        loop = _KINDS[kind](draw, name)
    return dataclasses.replace(loop, parent=parent)


def rectangle(draw: Draw, name: str, parent: Loop | None) -> Loop:
    """Draw the bounds of a loop that no other one bounds."""
    return dataclasses.replace(_rectangle(draw, name), parent=parent)


def growing_loop(draw: Draw, name: str, along: Loop) -> Loop:
    """Draw a loop that takes more values at each step of another one."""
    i, low, high = along.name, along.low, along.high
    start, stride = draw(choices.integers(low - 1, low + 1)), draw(choices.integers(2, 3))
    text, first, last, is_never_empty = draw(
        choices.sampled_from(
            (
                (f"{low} <= {name} <= {i}", low, high, True),
                (f"{low} <= {name} <= {i}", low, high, True),
                (f"{start} <= {name} <= {i}", start, high, start <= low),
                (f"{low} <= {name} < {i}", low, high, False),
                (f"{low} <= {name} < {i} + 3", low, high + 3, True),
                (f"{low} <= {name} <= {i} and {name} mod {stride} = 0", low, high, False),
                (f"{low} <= {name} and 2*{name} <= {i} + {low}", low, high, True),
            )
        )
    )
    return Loop(name, text, first, last, along, is_never_empty=is_never_empty)


def tile_loop(draw: Draw, name: str, length: int, parent: Loop | None) -> Loop:
    """Draw where a loop of constant length starts."""
    low = draw(choices.sampled_from((0, 0, 0, 1, -2, 3)))
    text = f"{low} <= {name} < {low + length}"
    return Loop(name, text, low, Linear(c=low + length), parent, is_constant=True)


def draw_domains(draw: Draw, loops: Sequence[Loop]) -> tuple[str, ...]:
    """Write the loops as domains: with their parents in one, or alone."""
    groups: list[list[Loop]] = []
    for loop in loops:
        joins = [g for g in groups if loop.parent in g or loop.parent is g[0].parent is None]
        if joins and draw(choices.booleans()):
            joins[0].append(loop)
        else:
            groups.append([loop])
    texts = []
    for group in groups:
        names = ", ".join(loop.name for loop in group)
        constraints = " and ".join(loop.constraints for loop in group)
        texts.append(f"{{ [{names}] : {constraints} }}")
    return tuple(texts)
