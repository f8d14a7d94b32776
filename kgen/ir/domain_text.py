"""Domains and assumptions from text."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any

import islpy as isl

from kgen.errors import KgenSyntaxError, message
from kgen.ir.domain import BasicSet, Set, as_basic_set

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_0-9']*")
_ISL_WORDS = frozenset(
    (
        *("and", "or", "not", "exists", "implies", "true", "false", "True", "False"),
        *("mod", "floor", "ceil", "floord", "ceild", "min", "max"),
    )
)


def parse_domain(text: str) -> BasicSet:
    """Read one domain; parameters need no declaration.

    ``{ [i]: 0<=i<n }`` and ``[n] -> { [i]: 0<=i<n }`` give the same set.
    """
    source = text.strip()
    if source.startswith("{"):
        free = dict.fromkeys(_IDENTIFIER.findall(source))
        dims = source[source.find("[") + 1 : source.find("]")] if "[" in source else ""
        bound = set(_IDENTIFIER.findall(dims))
        bound.update(_exists_names(source))
        names = [name for name in free if name not in bound and name not in _ISL_WORDS]
        source = f"[{', '.join(sorted(names))}] -> {source}"
    try:
        parsed = isl.Set(source)
    except isl.Error as err:
        raise KgenSyntaxError(
            message(
                f"the domain '{text.strip()}' does not parse",
                because=_reason_of(err),
                hint="a domain reads '{ [i, j]: 0 <= i < n and 0 <= j < m }'",
            )
        ) from None
    return as_basic_set(parsed, text.strip())


#: A domain of more dimensions is taken apart into loops that have nothing to do with each other.
MAX_JOINT_DIMS = 16


@lru_cache(maxsize=1024)
def parse_domains(text: str) -> tuple[BasicSet, ...]:
    """Read a domain; one of very many loops is read as several, independent ones.

    isl's cost grows steeply with the dimensions of a set, and a statement is concerned with
    its own loops alone.
    """
    parts = _independent_parts(text.strip())
    return tuple(parse_domain(part) for part in parts)


def _independent_parts(source: str) -> list[str]:
    """Split ``{ [i, j]: 0<=i<n and 0<=j<m }`` into one text per connected group of loops."""
    found = re.fullmatch(r"(\[[^\]]*\]\s*->\s*)?\{\s*\[([^\]]*)\]\s*:(.*)\}", source, re.S)
    if found is None:
        return [source]
    params, dims_text, body = found[1] or "", found[2], found[3]
    dims = [name.strip() for name in dims_text.split(",")]
    words = set(_IDENTIFIER.findall(body))
    is_plain = not words & {"or", "not", "exists", "implies"} and not set(body) & set(":;")
    if len(dims) <= MAX_JOINT_DIMS or not is_plain:
        return [source]
    group = {name: name for name in dims}

    def root(name: str) -> str:
        while group[name] != name:
            group[name] = group[group[name]]
            name = group[name]
        return name

    conditions: list[tuple[str, str | None]] = []
    for condition in _conditions(body):
        mine = [name for name in _IDENTIFIER.findall(condition) if name in group]
        for one, other in pairwise(mine):
            group[root(one)] = root(other)
        conditions.append((condition, mine[0] if mine else None))
    members: dict[str, list[str]] = {}
    for name in dims:
        members.setdefault(root(name), []).append(name)
    bodies: dict[str, list[str]] = {key: [] for key in members}
    for condition, name in conditions:
        for key in members if name is None else (root(name),):
            bodies[key].append(condition)
    return [
        f"{params}{{ [{', '.join(names)}] : {' and '.join(bodies[key])} }}"
        for key, names in members.items()
    ]


def _conditions(body: str) -> Iterator[str]:
    """Open chains: ``0 <= i, j < n`` is four comparisons."""
    for conjunct in re.split(r"\band\b", body):
        parts = re.split(r"(<=|>=|!=|<|>|=)", conjunct)
        if len(parts) < 3:
            yield conjunct.strip()
        for k in range(0, len(parts) - 2, 2):
            for left, right in itertools.product(_listed(parts[k]), _listed(parts[k + 2])):
                yield f"{left} {parts[k + 1]} {right}"


def _listed(text: str) -> list[str]:
    """Split at commas outside of parentheses."""
    items, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            items.append(text[start:at].strip())
            start = at + 1
    return [*items, text[start:].strip()]


def _reason_of(err: isl.Error) -> str:
    """Return what isl says, without the names of its own functions and files."""
    reason = str(err).splitlines()[0].rpartition("failed: ")[2]
    return "isl says: " + re.sub(r" in \S+:\d+$", "", reason)


def _exists_names(source: str) -> list[str]:
    names: list[str] = []
    for match in re.finditer(r"exists\s*\(?\s*([^:]*):", source):
        names.extend(_IDENTIFIER.findall(match[1]))
    return names


_NOTHING_ASSUMED = isl.Set("{ : }")


def parse_assumptions(given: Any) -> Set:
    """Read assumptions on parameters: text such as ``n>=1 and n mod 4 = 0``, or a set."""
    if given is None:
        return _NOTHING_ASSUMED
    if isinstance(given, str):
        if "{" not in given:
            given = f"{{ : {given} }}" if given.strip() else "{ : }"
        source = given.strip()
        if source.startswith("{"):
            names = dict.fromkeys(_IDENTIFIER.findall(source))
            free = sorted(set(names) - _ISL_WORDS - set(_exists_names(source)))
            source = f"[{', '.join(free)}] -> {source}"
        try:
            given = isl.Set(source)
        except isl.Error as err:
            raise KgenSyntaxError(
                message(
                    f"the assumption '{given}' does not parse",
                    because=_reason_of(err),
                    hint="an assumption reads 'n >= 1 and n mod 4 = 0'",
                )
            ) from None
    elif not isinstance(given, isl.BasicSet | isl.Set):
        given = isl.Set(str(given))
    if isinstance(given, isl.BasicSet):
        given = isl.Set.from_basic_set(given)
    result: Set = given.params()
    return result
