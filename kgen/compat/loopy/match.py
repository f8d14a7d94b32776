"""loopy.match: the language of matches, as classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from pytools.tag import Tag

from kgen.ir.language.match import *
from kgen.ir.language.match import ConcreteMatchable

#: What matches are applied to: instructions, and uses of rules.
Matchable: TypeAlias = ConcreteMatchable
#: The names and tags of the rules that surround an expression.
RuleStack: TypeAlias = tuple[tuple[str, frozenset[Tag]], ...]
#: What :func:`parse_match` takes.
ToMatchConvertible: TypeAlias = Callable[[Any, Any], bool] | str | None
#: What :func:`parse_stack_match` takes.
ToStackMatchConvertible: TypeAlias = Callable[..., bool] | str | None
