"""Restrictions of a search space: conditions on its parameters, as text or as functions."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kgen.errors import KgenError, KgenSyntaxError, near_names
from kgen.tuning.columns import FUNCTIONS, SUPPORTED, Table, evaluate, truth_of

__all__ = ["Condition", "Restriction", "conditions_of", "names_together"]

#: An expression in Python's syntax, or a function of a configuration or of parameters by name.
Restriction: TypeAlias = str | Callable[..., Any]


@dataclass(frozen=True)
class Condition:
    """A condition of a restriction on some parameters; *after* are those of earlier conditions.

    A text ``p and q`` is two conditions, of which the second is evaluated where the first holds.
    """

    text: str
    names: frozenset[str]
    after: frozenset[str]
    holds: Callable[[Table], NDArray[np.bool_]]

    @property
    def needed(self) -> frozenset[str]:
        """The parameters that must be bound before it is evaluated."""
        return self.names | self.after

    def mask(self, table: Table) -> NDArray[np.bool_]:
        """Return for each row whether the condition holds.

        :raises KgenError: it cannot be evaluated for a row, which is named
        """
        try:
            return self.holds(table)
        except Exception as error:
            raise self._failure(table, error) from error

    def _failure(self, table: Table, error: Exception) -> KgenError:
        """Find the first row that fails, by halves."""
        while table.count > 1:
            half = table.count // 2
            first = table.take(np.arange(half))
            try:
                self.holds(first)
                table = table.take(np.arange(half, table.count))
            except Exception as found:  # of the row to name
                table, error = first, found
        return KgenError(
            f"restriction {self.text} raises {type(error).__name__}: {error}",
            point=table.first_row(),
            hint=_hint(error),
        )


def _hint(error: Exception) -> str:
    if isinstance(error, ZeroDivisionError):
        return "put a condition in front: 'b != 0 and a % b == 0'"
    return "a restriction must have a truth value for each configuration"


def conditions_of(restriction: Restriction, names: Sequence[str]) -> list[Condition]:
    """Return the conditions whose conjunction is a restriction.

    >>> [c.text for c in conditions_of("b > 0 and a % b == 0", ["a", "b"])]
    ["'b > 0'", "'a % b == 0'"]

    :raises KgenError: the text does not parse, or uses a name that is not a parameter
    """
    if isinstance(restriction, str):
        return _parse(restriction, names)
    if callable(restriction):
        return [_from_function(restriction, names)]
    kind = type(restriction).__name__
    raise KgenError(
        f"restriction {restriction!r} is neither text nor a function, but of type {kind}",
        hint="write 'a * b <= 1024', or lambda config: config['a'] * config['b'] <= 1024",
    )


def names_together(
    restrictions: Iterable[Restriction], names: Sequence[str]
) -> list[tuple[str, ...]]:
    """Return for each part of a restriction the parameters that it names, in their order.

    >>> names_together(["b > 0 and a % b == 0", lambda c: c > 1], ["a", "b", "c"])
    [('b',), ('a', 'b'), ('c',)]
    """
    parts = [part for restriction in restrictions for part in conditions_of(restriction, names)]
    return [tuple(name for name in names if name in part.names) for part in parts]


# -- text -------------------------------------------------------------------------------------


def _parse(text: str, names: Sequence[str]) -> list[Condition]:
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise KgenSyntaxError(
            f"restriction '{text}' does not parse: {error.msg}",
            line=error.lineno,
            column=error.offset,
            hint="restrictions are expressions of Python: 'block_x * block_y <= 1024'",
        ) from error
    _check(body, text, names)
    after: frozenset[str] = frozenset()
    found = []
    for part in _conjuncts(body):
        own = _names_in(part) & set(names)
        found.append(_Text(part).condition(own, after))
        after |= own
    return found


@dataclass(frozen=True)
class _Text:
    node: ast.expr

    def condition(self, names: frozenset[str], after: frozenset[str]) -> Condition:
        return Condition(f"'{ast.unparse(self.node)}'", names, after, self.holds)

    def holds(self, table: Table) -> NDArray[np.bool_]:
        return truth_of(evaluate(self.node, table))


def _conjuncts(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return [part for value in node.values for part in _conjuncts(value)]
    return [node]


def _names_in(node: ast.expr) -> frozenset[str]:
    return frozenset(part.id for part in ast.walk(node) if isinstance(part, ast.Name))


def _check(body: ast.expr, text: str, names: Sequence[str]) -> None:
    called = {id(node.func): node for node in ast.walk(body) if isinstance(node, ast.Call)}
    inside = {id(node.value) for node in ast.walk(body) if isinstance(node, ast.Attribute)}
    for node in ast.walk(body):
        if isinstance(node, ast.expr) and id(node) not in inside:
            _check_node(node, text, names, called.get(id(node)))


def _check_node(node: ast.expr, text: str, names: Sequence[str], call: ast.Call | None) -> None:
    shown = ast.unparse(node)
    if call is not None or isinstance(node, ast.Attribute):
        if shown not in FUNCTIONS or (call is not None and call.keywords):
            raise KgenError(
                f"restriction '{text}' calls or reads '{shown}', which restrictions cannot",
                hint=f"{near_names(shown, FUNCTIONS)}; or pass a function of the configuration",
            )
    elif isinstance(node, ast.Name) and node.id not in names:
        raise KgenError(
            f"restriction '{text}' names '{node.id}', which is not a parameter",
            hint=near_names(node.id, names),
        )
    elif type(node) not in SUPPORTED:
        raise KgenError(
            f"restriction '{text}' has '{shown}', which restrictions as text do not have",
            hint="pass a function of the configuration: lambda config: config['a'] > 1",
        )


# -- functions --------------------------------------------------------------------------------


def _from_function(function: Callable[..., Any], names: Sequence[str]) -> Condition:
    """Return the condition of a function of parameters by name, or else of a configuration."""
    text = getattr(function, "__name__", repr(function))
    taken = _parameters_of(function, names)
    by_name = bool(taken) and set(taken) <= set(names)
    if not by_name and len(taken) != 1:
        raise KgenError(
            f"restriction {text} takes {', '.join(taken) or 'nothing'}",
            hint="a function takes a configuration (a dict), or some of the parameters by their "
            f"names: {', '.join(names)}",
        )
    read = taken if by_name else tuple(names)
    holds = _Function(function, read, by_name).holds
    return Condition(f"'{text}'", frozenset(read), frozenset(), holds)


def _parameters_of(function: Callable[..., Any], names: Sequence[str]) -> tuple[str, ...]:
    """Return the parameters without default: all of *names* for ``**config``."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a function of C without a signature
        return ("configuration",)
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return tuple(names)
    own = [p for p in parameters if p.kind is not p.VAR_POSITIONAL]
    return tuple(p.name for p in own if p.default is p.empty)


@dataclass(frozen=True)
class _Function:
    """A function of parameters by name, or of a configuration, called for one row at a time."""

    function: Callable[..., Any]
    names: tuple[str, ...]
    by_name: bool

    def holds(self, table: Table) -> NDArray[np.bool_]:
        columns = [table[name].objects.tolist() for name in self.names]
        rows = (dict(zip(self.names, row, strict=True)) for row in zip(*columns, strict=True))
        found = (self.function(**row) if self.by_name else self.function(row) for row in rows)
        return np.fromiter(map(bool, found), bool, table.count)
