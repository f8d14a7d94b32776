"""Mutants of texts, values and calls."""

from __future__ import annotations

import random
import re
from functools import cache
from typing import Any

import numpy as np

from kgen.ir.unit import TranslationUnit
from tests.malformed.corpus import Call, Source, calls, sources

_TOKEN = re.compile(r"\s+|\w+|[^\s\w]")
#: Values that are hardly ever meant, of all types that Python users pass by mistake.
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 3, 2.5, 10**30, float("nan"), float("inf"), 1j),
    *(
        "",
        " ",
        "no_such",
        "i",
        "i,j",
        "0",
        "-1",
        "g.0",
        "i:g.0",
        "i:",
        "id:",
        ",",
        "é",
        "a b",
        "if",
    ),
    *(b"i", (), [], {}, set(), (1,), [None], ["i"], {"i": 1}, {"i": None}, {None: 1}, ("i", "j")),
    *(object(), b"", 5, np.float32(1), np.dtype("float64"), np.arange(3), np.int64(7), 7),
    *(Ellipsis, range(3), slice(None), lambda *args: None, NotImplemented),
    *("n + 1", "a[i]", "a[", "1e999", "i > 3", "{ [i]: 0 <= i < n }", "[n] -> { : n > 0 }"),
    *(2**70, -(2**70), float("-inf"), 0.5, frozenset("a"), [[]], [1, 2], {"a": None}, {"i": [1]}),
    *(np.zeros((2, 2)), np.float64("nan"), int, np.float64, Exception, [object()]),
)
ODD_TOKENS = (
    *("$", "@", "\\", "'", '"', "\x00", "\n", "\t", "é", "{", "}", "[", "]", "(", ")", ";", ":"),
    *(
        ":=",
        "=",
        "==",
        "+=",
        "<>",
        "<",
        ">",
        "->",
        "**",
        "//",
        "%",
        "..",
        "...",
        "|",
        "&",
        "!",
        "~",
    ),
    *(
        "if",
        "else",
        "elif",
        "end",
        "for",
        "with",
        "and",
        "or",
        "not",
        "sum",
        "reduce",
        "in",
        "None",
    ),
    *("0", "-1", "1e400", "99999999999999999999999", "1.5", "1j", "0x1f", "1f", "3l", "lambda"),
    *("min", "exp", "cast", "float64", "nop", "lbarrier", "gbarrier", "mod", "floor", "exists"),
)


@cache
def _pool() -> tuple[str, ...]:
    texts = (str(part) for source in sources() for part in (source.domains, source.instructions))
    tokens = {token for text in texts for token in _TOKEN.findall(text)}
    return (*sorted(token for token in tokens if not token.isspace()), *ODD_TOKENS)


def mutated_text(rng: random.Random, text: str) -> str:
    """Return a text with some tokens deleted, repeated, swapped, replaced or inserted."""
    tokens = _TOKEN.findall(text)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(tokens) + 1)
        other = rng.choice(_pool()) if rng.random() < 0.6 else rng.choice(tokens or [" "])
        match rng.choice(("delete", "repeat", "swap", "replace", "replace", "insert", "cut")):
            case "delete":
                del tokens[at : at + rng.choice((1, 1, 2, 3))]
            case "repeat":
                tokens[at:at] = tokens[at : at + rng.choice((1, 2, 5))]
            case "swap" if at + 1 < len(tokens):
                tokens[at], tokens[at + 1] = tokens[at + 1], tokens[at]
            case "replace":
                tokens[at : at + 1] = [other]
            case "insert":
                tokens.insert(at, other)
            case "cut" if rng.random() < 0.3:
                del tokens[at:]
    return "".join(tokens)


def mutated_value(rng: random.Random, value: Any) -> Any:
    """Return a value near *value*, or an odd one of any type."""
    if rng.random() < 0.25:
        return rng.choice(ODD_VALUES)
    match value:
        case bool():
            return not value
        case str():
            return mutated_text(rng, value)
        case int():
            return rng.choice((-value, 0, value + 1, 2**31, 2**64, float(value), str(value)))
        case list() | tuple() if value:
            items = list(value)
            at = rng.randrange(len(items))
            items[at : at + 1] = rng.choice(
                ([], [items[at]] * 2, [mutated_value(rng, items[at])], [items[at], items[0]])
            )
            return type(value)(items)
        case dict() if value:
            key = rng.choice(list(value))
            changed = dict(value)
            if rng.random() < 0.5:
                changed[key] = mutated_value(rng, value[key])
            else:
                new = mutated_value(rng, key)
                changed[new if new.__hash__ else "no_such"] = changed.pop(key)
            return changed
    return rng.choice(ODD_VALUES)


def mutated_source(rng: random.Random) -> Source:
    """Return a kernel of the suite, of which one part, or none, is changed."""
    source = rng.choice(sources())
    kind = rng.choice(("none", "domains", "instructions", "instructions", "options", "mixed"))
    domains, instructions, options = source.domains, source.instructions, dict(source.options)
    match kind:
        case "domains":
            domains = mutated_value(rng, domains)
        case "instructions":
            instructions = mutated_value(rng, instructions)
        case "options":
            name = rng.choice((*options, *_OPTIONS))
            options[name] = mutated_value(rng, options.get(name, rng.choice(_OPTION_VALUES)))
        case "mixed":
            domains = rng.choice(sources()).domains
    return Source(domains, instructions, tuple(options.items()))


_OPTIONS = (
    *("assumptions", "seq_dependencies", "loop_priority", "options", "name", "default_order"),
    *("default_offset", "fixed_parameters", "temporary_variables", "substitutions", "index_dtype"),
    *("silenced_warnings", "preambles", "tags", "kernel_data", "target", "lang_version"),
    *("iname_slab_increments", "preamble_generators", "symbol_manglers", "no_such_option"),
)
_OPTION_VALUES = (
    *("n >= 1", "i,j", "C", "F", "return_dict", {"n": 8}, {"i": (0, 1)}, ["i"], [("a", "b")]),
    *("int32", np.int64, True, {"no_numpy": True}, "a, b, n", ["a", "..."], "write_race*"),
)


def _names(rng: random.Random, unit: TranslationUnit) -> list[str]:
    kernel = rng.choice([*unit.kernels()])
    return [*kernel.inames, *kernel.array_vars, *kernel.arg_dict, *kernel.id_to_insn]


def mutated_call(rng: random.Random, unit: TranslationUnit) -> Call:
    """Return a call of the suite with names of a program, and with none or some changes."""
    call = rng.choice(_of_random_name(rng))
    if rng.random() < 0.8:
        call = fitted_call(rng, unit, call)
    args, kwargs = list(call.args), dict(call.kwargs)
    if rng.random() < 0.6:
        for _ in range(rng.choice((1, 1, 2))):
            at = rng.randrange(len(args) + len(kwargs) + 1)
            if at < len(args):
                args[at] = mutated_value(rng, args[at])
            elif at < len(args) + len(kwargs):
                name = list(kwargs)[at - len(args)]
                kwargs[name] = mutated_value(rng, kwargs[name])
            else:
                args.append(rng.choice(ODD_VALUES))
    return Call(call.name, tuple(args), tuple(kwargs.items()))


def fitted_call(rng: random.Random, unit: TranslationUnit, call: Call) -> Call:
    """Return *call* with names of a program in the place of its own."""
    names = _names(rng, unit) or ["i"]
    chosen: dict[str, str] = {}

    def fitted(value: Any) -> Any:
        match value:
            case str():
                words = _TOKEN.findall(value)
                return "".join(
                    chosen.setdefault(word, rng.choice(names))
                    if word.isidentifier() and word not in _KEPT and rng.random() < 0.9
                    else word
                    for word in words
                )
            case list() | tuple():
                return type(value)(fitted(item) for item in value)
            case dict():
                return {fitted(key): fitted(item) for key, item in value.items()}
        return value

    args = tuple(fitted(arg) for arg in call.args)
    return Call(call.name, args, tuple((name, fitted(value)) for name, value in call.kwargs))


_KEPT = {
    "g",
    "l",
    "id",
    "writes",
    "reads",
    "tag",
    "iname",
    "and",
    "or",
    "not",
    "auto",
    "unr",
    "mod",
}


@cache
def _by_name() -> dict[str, list[Call]]:
    found: dict[str, list[Call]] = {}
    for call in calls():
        found.setdefault(call.name, []).append(call)
    return found


def _of_random_name(rng: random.Random) -> list[Call]:
    return _by_name()[rng.choice(list(_by_name()))]
