"""Variants of one kernel: a call runs one, chosen by the device and by sizes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from kgen.errors import InvalidValueError, near_names
from kgen.host.devices import DEVICE_TYPES
from kgen.ir.checked import check_fields
from kgen.ir.expr import Expr
from kgen.ir.language.expressions import parse
from kgen.ir.unit import TranslationUnit

__all__ = ["HasVariants", "Variant"]


@dataclass(frozen=True, eq=False)
class Variant:
    """A program for some sizes and devices, among several that compute the same.

    :func:`kgen.export` combines variants to one function. ``when`` is a condition on integer
    arguments, ``device`` a kind of device, as for :func:`kgen.per_device`. A call runs the first
    variant that fits its sizes and device, so the last one must fit all.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*i", name="even")
    >>> large = lp.Variant(lp.split_iname(knl, "i", 64), when="n >= 1000")
    >>> print(large.condition, large.device)
    n >= 1000 *

    Raises :class:`KgenError` for text that is not an expression, and for an unknown kind of device.
    """

    program: TranslationUnit
    when: str | None = None
    device: str = "*"

    def __post_init__(self) -> None:
        values: dict[str, Any] = vars(self)
        check_fields(Variant, values, [field.name for field in fields(Variant)])
        if self.device not in DEVICE_TYPES:
            raise InvalidValueError(
                f"'{self.device}' is not a kind of device",
                hint=near_names(self.device, DEVICE_TYPES),
            )
        _ = self.condition

    @cached_property
    def condition(self) -> Expr | None:
        """The condition ``when``; ``None`` for all sizes."""
        return None if self.when is None else parse(self.when)


@runtime_checkable
class HasVariants(Protocol):
    """Objects with variants by device, such as a table of schedules."""

    def variants(self) -> tuple[Variant, ...]:
        """Return them, the first choice first."""
