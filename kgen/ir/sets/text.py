"""Parsing domains and assumptions."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any

import islpy as isl

from kgen.errors import KernelError, KgenSyntaxError
from kgen.ir.sets.dims import BasicSet, Set
from kgen.ir.sets.domain import as_basic_set, as_set

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_0-9']*")
#: Words that isl reads in upper or lower case.
_ISL_WORDS = frozenset(
    (
        *("and", "or", "not", "exists", "implies", "true", "false", "infty", "infinity", "nan"),
        *("mod", "floor", "ceil", "floord", "ceild", "min", "max", "rat"),
    )
)
#: A word that is not a function or operator in its context.
_NAME_LIKE = re.compile(
    r"\b(?!(?:and|or|not|exists|mod|implies)\b)([A-Za-z]+)\b(?!\s*\()", re.IGNORECASE
)


def parse_domain(text: str) -> BasicSet:
    """Read one domain; parameters need no declaration.

    ``{ [i]: 0<=i<n }`` and ``[n] -> { [i]: 0<=i<n }`` give the same set.
    """
    return as_basic_set(parse_set(text), text.strip())


def parse_set(text: str) -> Set:
    """Read a set, which may have several pieces; parameters need no declaration."""
    source = text.strip()
    if source.count("{") == 1:
        _reject_commas(source.partition("{")[2].partition(":")[2].rstrip("} "), "domain", source)
    if source.startswith("{"):
        free = dict.fromkeys(_IDENTIFIER.findall(source))
        dims = source[source.find("[") + 1 : source.find("]")] if "[" in source else ""
        bound = set(_IDENTIFIER.findall(dims))
        bound.update(_exists_names(source))
        names = [name for name in free if name not in bound and name.lower() not in _ISL_WORDS]
        source = f"[{', '.join(sorted(names))}] -> {source}"
    try:
        return isl.Set(source)
    except isl.Error as err:
        raise _unreadable("domain", text.strip(), err) from None


#: Domains with more dimensions are split into independent groups of loops.
MAX_JOINT_DIMS = 16


@lru_cache(maxsize=1024)
def parse_domains(text: str) -> tuple[BasicSet, ...]:
    """Read a domain; one with very many loops is split into independent ones.

    isl's cost grows steeply with the dimensions of a set, and a statement depends only on
    its own loops.
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
    """Split chains: ``0 <= i, j < n`` is four comparisons."""
    for conjunct in re.split(r"\band\b", body):
        parts = re.split(r"(<=|>=|!=|<|>|=)", conjunct)
        if len(parts) < 3:
            yield conjunct.strip()
        for k in range(0, len(parts) - 2, 2):
            for left, right in itertools.product(_listed(parts[k]), _listed(parts[k + 2])):
                yield f"{left} {parts[k + 1]} {right}"


def _listed(text: str) -> list[str]:
    """Split at commas outside parentheses."""
    items, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            items.append(text[start:at].strip())
            start = at + 1
    return [*items, text[start:].strip()]


def reason_of(err: isl.Error) -> str:
    """Return isl's message, without the names of its own functions and files."""
    reason = str(err).splitlines()[0].rpartition("failed: ")[2]
    return "isl says: " + re.sub(r" in \S+:\d+$", "", reason)


#: Spellings that isl does not read, and the suggested fixes.
_FIXES = (
    (r"^[^{]*$|^[^}]*$", "a set is written in braces"),
    (
        r"\{\s*\w+\s*(,\s*\w+\s*)*:",
        "the loop variables of a set are written in brackets: { [i]: ... }",
    ),
    (r"\{\s*\[[^\]]*\]\s*[^:\s}]", "a colon follows the loop variables: { [i]: ... }"),
    (r"==", "an equation has one '='"),
    (r"=>|=<", "comparisons are written '>=' and '<='"),
    (r"\brange\b", "range(n) is 0 <= i < n"),
    (r"\d\.\d", "bounds are integers"),
    (r"\*\*|\^", "bounds are affine: pass the power as a parameter of its own"),
    (
        r"(?<![\w'])(?!\d)[\w']+\s*\*\s*[A-Za-z_(]|[\w')]\s*\*\s*\(?\s*[A-Za-z_]\w*\s*\*",
        "bounds are affine: pass a product of names as a parameter of its own",
    ),
    (r"[/%]\s*[A-Za-z_(]", "bounds are affine: a divisor is a number, not a name"),
    (
        r"\b(?!(?:floor|ceil|floord|ceild|min|max|and|or|not|mod|exists|implies)\b)[A-Za-z_]\w*\s*\(",
        "bounds are affine: compute the value ahead, and pass it as a parameter",
    ),
    (
        r"\w\s*\[",
        "an element is not a parameter: assign it to a temporary, <> end = N[0], and write 'end'",
    ),
)
_READS = {
    "domain": "a domain reads '{ [i, j]: 0 <= i < n and 0 <= j < m }'",
    "assumption": "an assumption reads 'n >= 1 and n mod 4 = 0'",
}


def _unreadable(kind: str, source: str, err: isl.Error) -> KgenSyntaxError:
    """Return the error for a *source* that isl does not read, in the user's terms."""
    declared = re.match(r"\[([^\]]*)\]\s*->(.*)", source, re.S)
    body = declared[2] if declared else source
    if kind == "assumption" and "{" not in body:
        body = f"{{ : {body} }}"
    fixes = [fix for pattern, fix in _FIXES if re.search(pattern, body)]
    words = [word for word in _NAME_LIKE.findall(body) if word.lower() in _ISL_WORDS]
    fixes += [f"'{word}' is a word of domains: choose another name" for word in words]
    if declared and not fixes:
        fixes = [f"declare every parameter in front: [{declared[1]}] ->"]
    return KgenSyntaxError(
        f"the {kind} '{source}' does not parse",
        because=reason_of(err),
        hint=f"{fixes[0]}; {_READS[kind]}" if fixes else _READS[kind],
    )


def _reject_commas(body: str, kind: str, source: str) -> None:
    """Reject commas and semicolons between conditions.

    isl takes a comma as one between operands: ``n > 1, m > 1`` is ``n > 1 and n > m and 1 > 1``.
    """
    for conjunct in re.split(r"\b(?:and|or)\b|&&|\|\|", body):
        operands = re.split(r"<=|>=|!=|<|>|=", conjunct)
        if ";" in conjunct or any(
            len(listed) > 1 and any(re.fullmatch(r"[-\d\s]+", one) for one in listed)
            for listed in map(_listed, operands)
        ):
            raise KgenSyntaxError(
                f"the {kind} '{source}' has conditions that are not joined by 'and'",
                because="a comma only separates operands: 0 <= i, j < n",
                hint=f"{_READS[kind]}; sets that are not nested are a list of texts",
            )


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
        source = given.strip()
        if "{" not in source:
            source = f"{{ : {source} }}" if source else "{ : }"
        _reject_commas(source.partition(":")[2].rstrip("} "), "assumption", given.strip())
        if source.startswith("{"):
            names = dict.fromkeys(_IDENTIFIER.findall(source))
            free = sorted(
                name
                for name in set(names).difference(_exists_names(source))
                if name.lower() not in _ISL_WORDS
            )
            source = f"[{', '.join(free)}] -> {source}"
        try:
            parsed = isl.Set(source)
        except isl.Error as err:
            raise _unreadable("assumption", given.strip(), err) from None
        if parsed.is_empty():
            what = f"the assumption '{given.strip()}' holds for no values"
            raise KernelError(what, hint=_READS["assumption"])
    else:
        parsed = as_set(given, "an assumption")
    result: Set = parsed.params()
    return result
