"""The interface of an expression writer for its parts."""

from __future__ import annotations

from typing import Protocol, Self

import pymbolic.primitives as p

from kgen.analysis.typing import ExpressionTyper
from kgen.ir.expr import Expr, LinearSubscript
from kgen.ir.stages import DeviceKernel
from kgen.ir.types import NumpyType
from kgen.targets.base import CFamilyLanguage
from kgen.targets.preamble import Preamble
from kgen.targets.writers.access import AccessWriter
from kgen.targets.writers.indices import IntegerWriter
from kgen.targets.writers.site import EmissionSite

__all__ = ["WriterContext"]


class WriterContext(Protocol):
    """The interface of an expression writer for its parts; *prec* is the enclosing precedence.

    ``accesses`` and ``integers`` hold no references to the writer, so all are freed together.
    """

    kernel: DeviceKernel
    target: CFamilyLanguage
    preamble: Preamble
    typer: ExpressionTyper
    accesses: AccessWriter
    integers: IntegerWriter
    site: EmissionSite

    def at(self, site: EmissionSite) -> Self:
        """Return the writer for another site."""

    def rec(self, expr: Expr, prec: int, beside: NumpyType, /) -> str:
        """Write *expr*, in which Python numbers adapt to the type *beside*."""

    def located(self, access: p.Subscript | LinearSubscript) -> str:
        """Write an element whose address is taken."""

    def own_type(self, expr: Expr, beside: NumpyType) -> NumpyType:
        """Return the type of the text of *expr* beside a type."""

    def text_type(self, expr: Expr, own: NumpyType) -> NumpyType:
        """Return the type that the language gives to the text of *expr*."""

    def type_name(self, dtype: NumpyType) -> str:
        """Return the name of a type, and add its headers to the code."""

    def converted(self, expr: Expr, wanted: NumpyType, prec: int) -> str:
        """Write *expr* with a cast to *wanted* unless that is its type."""

    def exact(self, expr: Expr, wanted: NumpyType, prec: int) -> str:
        """Write *expr* as an operand whose type is *wanted* also for the compiler."""

    def cast_text(self, text: str, own: NumpyType, wanted: NumpyType, prec: int = ...) -> str:
        """Convert *text*, an operand of type *own*, to the type *wanted*."""
