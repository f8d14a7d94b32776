"""What of a rule is stored, and along which axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pymbolic.primitives as p
from constantdict import constantdict
from pytools.tag import Tag

from kgen.analysis.swept import Box
from kgen.errors import TransformError, message
from kgen.ir.data import SubstitutionRule
from kgen.ir.expr import (
    Expr,
    Reduction,
    substitute,
    variable_names,
    walk,
)
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import TagLike

__all__ = [
    "Storage",
    "Uses",
    "check_left_out",
    "free_names",
    "ordered_axes",
]


@dataclass(frozen=True, kw_only=True)
class Uses:
    """Which uses of a rule are meant; *given* ones say what to store in place of those.

    ``None`` in a given use is all that is *valid*: conditions by argument. *has_more* says
    that the rule has a value wherever it is valid, which may be stored even if it is not used;
    *is_passing* that the rule will be gone where it is still used.
    """

    rule: str
    tags: frozenset[Tag] = frozenset()
    within: Any = None
    given: tuple[tuple[Expr, ...], ...] = ()
    valid: Mapping[str, tuple[Expr, ...]] = constantdict()
    has_more: bool = False
    is_passing: bool = False

    def valid_along(self, argument: str, name: str) -> tuple[Expr, ...]:
        """Return the conditions on an argument, which is called *name* there."""
        renamed = {argument: p.Variable(name)}
        return tuple(substitute(c, renamed) for c in self.valid.get(argument, ()))


@dataclass(frozen=True, kw_only=True)
class Storage:
    """Where the values of a rule go, and how they are computed; see :func:`precompute`."""

    sweep: tuple[str, ...]
    axes: tuple[str | int, ...] | None = None
    temporary: str | None = None
    inames: tuple[str, ...] = ()
    outer: tuple[str, ...] | None = None
    tags: Mapping[str | int, TagLike] = constantdict()
    default_tag: TagLike = None
    dtype: Any = None
    whole_box: bool = False
    address_space: Any = None
    insn_id: str | None = None


def free_names(value: Expr, rule: SubstitutionRule) -> frozenset[str]:
    """Return what the expanded expression of a rule mentions besides its arguments."""
    bound = {name for node in walk(value) if isinstance(node, Reduction) for name in node.inames}
    return frozenset(variable_names(value)).difference(rule.arguments, bound)


def ordered_axes(
    kernel: LoopKernel, rule: SubstitutionRule, storage: Storage, free: frozenset[str]
) -> tuple[str, ...]:
    """Return the axes of the storage in order: swept inames in the rule, and its arguments.

    Axes that the caller does not list come last; they must turn out to have length 1.
    """
    direct = tuple(name for name in storage.sweep if name in free)
    known = (*direct, *rule.arguments)
    if storage.axes is None:
        return known
    chosen: list[str] = []
    for given in storage.axes:
        axis: str | int = given
        if isinstance(given, int) and 0 <= given < len(rule.arguments):
            axis = rule.arguments[given]
        if axis not in known or axis in chosen:
            raise TransformError(
                message(
                    f"'{given}' is no storage axis, or is one twice",
                    kernel=kernel.name,
                    hint=f"the axes for '{rule}' are {', '.join(known) or 'none'}",
                )
            )
        chosen.append(str(axis))
    return (*chosen, *(axis for axis in known if axis not in chosen))


def check_left_out(
    kernel: LoopKernel,
    rule: SubstitutionRule,
    storage: Storage,
    axes: Sequence[str],
    box: Box,
) -> None:
    """Refuse storage axes that the caller left out although they are longer than 1."""
    if storage.axes is None:
        return
    for axis, extent in list(zip(axes, box.extents, strict=True))[len(storage.axes) :]:
        if extent > 1:
            raise TransformError(
                message(
                    f"axis '{axis}' is missing in storage_axes",
                    kernel=kernel.name,
                    because=f"the uses of '{rule.name}' take {extent} values along it",
                )
            )
