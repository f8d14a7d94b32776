"""Small texts in pictures: ranges of numbers, sizes, points."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["join_numbers", "params_text", "point_text"]


def join_numbers(numbers: Iterable[int]) -> str:
    """Write numbers, consecutive ones as a range.

    >>> join_numbers([4, 1, 2, 3, 8])
    '1-4,8'
    """
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def params_text(params: Mapping[str, int]) -> str:
    """Write a name, followed by the values of parameters.

    >>> params_text({"n": 8})
    ', n = 8'
    """
    return "".join(f", {name} = {value}" for name, value in params.items())


def point_text(values: Iterable[int]) -> str:
    """Write a point: ``(1, 2)``, ``3``."""
    texts = list(map(str, values))
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
