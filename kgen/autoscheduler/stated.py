"""Statements of users about data and precision, which analysis of a kernel cannot infer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kgen.errors import KernelError, near_names
from kgen.ir.fragments import ROUNDED
from kgen.ir.unit import TranslationUnit, kernels_of

__all__ = ["Stated", "read_statements"]


@dataclass(frozen=True)
class Stated:
    """Statements: arrays that ascend, mean trip counts of loops, and the precision that suffices.

    ``precision``: of products of float32 on tensor cores, as for :func:`tensorize`.
    """

    ascending: frozenset[str] = frozenset()
    trips: Mapping[str, int] = field(default_factory=dict)
    precision: str | None = None


def read_statements(
    program: TranslationUnit,
    ascending: str | Iterable[str],
    trips: Mapping[str, int] | None,
    precision: str | None,
) -> Stated:
    """Return statements about a program, or raise an error for names that it does not have."""
    kernels = list(kernels_of(program))
    words = ascending.replace(",", " ").split() if isinstance(ascending, str) else ascending
    arrays, means = frozenset(words), dict(trips or {})
    _require_known("ascending", arrays, {n for one in kernels for n in one.array_vars}, program)
    _require_known("trips", means, {n for one in kernels for n in one.inames}, program)
    for name, mean in means.items():
        if not mean >= 1:
            raise KernelError(
                f"trips={{'{name}': {mean!r}}} is not a mean trip count",
                kernel=kernels[0].name,
                hint=f"state a number from 1 on: trips={{'{name}': 8}}",
            )
    if precision is not None and precision not in ROUNDED:
        raise KernelError(
            f"there is no precision {precision!r}",
            kernel=kernels[0].name,
            hint=" or ".join(map(repr, ROUNDED)),
        )
    return Stated(arrays, {name: round(mean) for name, mean in means.items()}, precision)


def _require_known(
    option: str, names: Iterable[str], known: Iterable[str], program: TranslationUnit
) -> None:
    kind = "an array" if option == "ascending" else "a loop"
    for name in sorted(set(names).difference(known)):
        raise KernelError(
            f"{option}= names '{name}', which is not {kind} of this kernel",
            kernel=next(iter(kernels_of(program))).name,
            hint=near_names(name, known),
        )
