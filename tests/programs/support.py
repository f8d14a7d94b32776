"""What the programs share: declarations, tiles, runs against numpy, traces of their code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import kgen as lp
from kgen.lowering import lower
from tests.backends import Backend
from tests.oracle import Oracle

__all__ = [
    "Array",
    "assert_computes",
    "assert_trace",
    "block",
    "double",
    "indices",
    "integer",
    "numbers",
    "size",
    "tile",
]

Array = np.ndarray[Any, Any]
HOST = Backend(lp.ExecutableCTarget)


def numbers(*shape: int, seed: int = 5) -> Array:
    """Return random numbers in [0, 1)."""
    return np.random.default_rng(seed).random(shape)


def indices(below: int, *shape: int, seed: int = 5) -> Array:
    """Return random 32-bit integers from 0 on, below *below*."""
    return np.random.default_rng(seed).integers(0, below, shape).astype(np.int32)


def double(names: str, shape: Any = lp.auto) -> lp.GlobalArg:
    """Declare arrays of doubles."""
    return lp.GlobalArg(names, np.float64, shape=shape)


def integer(names: str, shape: Any = lp.auto) -> lp.GlobalArg:
    """Declare arrays of 32-bit integers."""
    return lp.GlobalArg(names, np.int32, shape=shape)


def size(names: str) -> lp.ValueArg:
    """Declare sizes."""
    return lp.ValueArg(names, np.int32)


def tile(unit: lp.TranslationUnit, inames: str, length: int) -> lp.TranslationUnit:
    """Give each work-group a tile of the loops, which have one letter each, fastest last."""
    for axis, iname in enumerate(reversed(inames)):
        unit = lp.split_iname(unit, iname, length, outer_tag=f"g.{axis}", inner_tag=f"l.{axis}")
    return unit


def block(unit: lp.TranslationUnit, inames: str, length: int) -> lp.TranslationUnit:
    """Let plain loops, which have one letter each, run block after block, as on a host."""
    for iname in inames:
        unit = lp.split_iname(unit, iname, length)
    return unit


def assert_computes(
    unit: lp.TranslationUnit,
    arguments: Mapping[str, Any],
    expected: Mapping[str, Array],
    device: Backend | None = None,
) -> None:
    """Run *unit* on the host, or a *device*, and compare with what is *expected*."""
    unit = lp.set_options(unit, return_dict=True)
    copies = {
        name: value.copy() if isinstance(value, np.ndarray) else value
        for name, value in arguments.items()
    }
    _, found = (device or HOST)(unit, **copies)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-9, atol=1e-12, err_msg=name)


def assert_trace(unit: lp.TranslationUnit, **parameters: int) -> None:
    """Interpret the code for OpenCL: each instance once, in order, barriers met by all."""
    lowered = lower(unit.copy(target=lp.OpenCLTarget()).default_entrypoint)
    Oracle(lowered.kernel, parameters).check(lowered.functions)
