"""loopy.match: the language of matches, as classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from pytools.tag import Tag

from kgen.ir.language.match import *
from kgen.ir.language.match import ConcreteMatchable

#: The objects that matches apply to: instructions, and uses of rules.
Matchable: TypeAlias = ConcreteMatchable
#: The names and tags of the rules that surround an expression.
RuleStack: TypeAlias = tuple[tuple[str, frozenset[Tag]], ...]
#: The argument types of :func:`parse_match`.
ToMatchConvertible: TypeAlias = Callable[[Any, Any], bool] | str | None
#: The argument types of :func:`parse_stack_match`.
ToStackMatchConvertible: TypeAlias = Callable[..., bool] | str | None
