"""Calls of kernels on the host with arguments that are mutants of right ones."""

from __future__ import annotations

import random
import warnings
from functools import cache
from typing import Any

import numpy as np

import kgen as lp
from kgen.ir.unit import TranslationUnit
from tests.malformed.mutants import ODD_VALUES
from tests.malformed.programs import Outcome

_KERNELS: tuple[tuple[str, str, Any], ...] = (
    ("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]", None),
    ("{ [i, j]: 0 <= i < n and 0 <= j < m }", "out[i, j] = a[i, j] + s*b[j]", None),
    (
        "{ [i]: 0 <= i < n }",
        "a[i] = a[i] + c[idx[i]]",
        [
            lp.GlobalArg("a", np.float32, shape="n"),
            lp.GlobalArg("c", np.complex64, shape="m", dim_tags="stride:k"),
            lp.GlobalArg("idx", np.int32, shape="n"),
            ...,
        ],
    ),
)


@cache
def _unit(at: int) -> TranslationUnit:
    domain, text, data = _KERNELS[at]
    text = text.replace("c[idx[i]]", "real(c[idx[i]])")
    return lp.make_kernel(domain, text, data, target=lp.ExecutableCTarget(), name=f"called_{at}")


def _right_arguments(rng: random.Random, at: int) -> dict[str, Any]:
    n, m = 5, 3
    dtype = rng.choice((np.float32, np.float64)) if rng.random() < 0.2 else np.float32
    arrays: tuple[dict[str, Any], ...] = (
        {"a": np.ones(n, dtype)},
        {"a": np.ones((n, m), np.float32), "b": np.ones(m, np.float32), "s": 2.5},
        {
            "a": np.ones(n, np.float32),
            "c": np.ones(m, np.complex64),
            "idx": np.zeros(n, np.int32),
            "k": 1,
            "m": m,
        },
    )
    return dict(arrays[at])


_TYPES = ("i1", "u8", "f8", "c16", "O", "U3", "?", ">f4")
_NAMES = ("no_such", "A", "i", "entrypoint", "queue")
_CHANGES = ("change", "change", "change", "drop", "add", "out", "size", "positional")


def _mutated(rng: random.Random, value: Any) -> Any:
    is_numbers = isinstance(value, np.ndarray) and value.dtype.kind not in "OU"
    if not is_numbers or rng.random() < 0.3:
        return rng.choice(ODD_VALUES)
    changes: tuple[Any, ...] = (
        lambda: value[:-1],
        lambda: value[:0],
        lambda: value[::2],
        lambda: value[None],
        value.tolist,
        lambda: value.astype(rng.choice(_TYPES)),
        lambda: np.broadcast_to(value, value.shape),
        lambda: np.ma.masked_array(value),
        lambda: value.flat[0] if value.size else value,
        lambda: np.asfortranarray(value),
        lambda: value[..., ::-1],
        lambda: value.view(np.recarray),
    )
    return rng.choice(changes)()


def run_call(seed: int) -> Outcome:
    """Call a kernel with one or two arguments changed, missing, or too many."""
    rng, outcome = random.Random(seed), Outcome(seed)
    at = rng.randrange(len(_KERNELS))
    given = _right_arguments(rng, at)
    positional: list[Any] = []
    for _ in range(rng.choice((0, 1, 1, 2))):
        name = rng.choice(list(given)) if given else "a"
        match rng.choice(
            ("change", "change", "change", "drop", "add", "out", "size", "positional")
        ):
            case "change" if name in given:
                given[name] = _mutated(rng, given[name])
            case "drop":
                given.pop(name, None)
            case "add":
                given[rng.choice(_NAMES)] = rng.choice(ODD_VALUES)
            case "out":
                given["out"] = _mutated(rng, np.zeros(5, np.float32))
            case "size":
                given["n"] = rng.choice((*ODD_VALUES, 5, -1, 4, 6, 2**31, 2**63, -(2**70), 5.0))
            case "positional":
                positional.append(rng.choice(ODD_VALUES))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome.try_step(
            f"called_{at}(*{positional!r}, **{given!r})", lambda: _unit(at)(*positional, **given)
        )
    return outcome
