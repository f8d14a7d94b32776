"""Statements of users about data, which analysis of a kernel cannot infer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kgen.errors import KernelError, near_names
from kgen.ir.unit import TranslationUnit, kernels_of

__all__ = ["Stated", "read_statements"]


@dataclass(frozen=True)
class Stated:
    """Statements about data: arrays that ascend, and mean trip counts of loops."""

    ascending: frozenset[str] = frozenset()
    trips: Mapping[str, int] = field(default_factory=dict)


def read_statements(
    program: TranslationUnit, ascending: str | Iterable[str], trips: Mapping[str, int] | None
) -> Stated:
    """Return statements about arrays and loops of a program, or raise an error for other names."""
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
    return Stated(arrays, {name: round(mean) for name, mean in means.items()})


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
