"""Checks of kernels by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen.compat.loopy as lp
from kgen.compat.loopy import check
from kgen.compat.loopy.kernel.data import LocalInameTag, UnrollTag

ARRAY = lp.GlobalArg("a", np.float32, shape=(8, 8))


def unit_of(text: str = "out[i, j] = 2*a[i, j]", tags: str = "") -> Any:
    domain = "{ [i, j]: 0 <= i, j < 8 }"
    unit = lp.make_kernel(domain, text, [ARRAY, ...], name="k", target=lp.OpenCLTarget())
    return lp.tag_inames(unit, tags) if tags else unit


def changed(**changes: Any) -> Any:
    return unit_of().default_entrypoint.copy(**changes)


def test_all_checks_accept_a_kernel() -> None:
    unit = unit_of(tags="i:l.0")
    of_units = ["check_bounds", "check_for_integer_subscript_indices"]
    of_units.append("check_for_double_use_of_hw_axes")
    for name in check.__all__:
        getattr(check, name)(unit if name in of_units else unit.default_entrypoint)


@pytest.mark.parametrize(
    ("name", "unit", "message"),
    [
        ("bounds", unit_of("out[i, j] = a[i + 1, j]"), "is outside of array 'a'"),
        ("for_integer_subscript_indices", unit_of("out[i, j] = a[i*0.5, j]"), "is a float32"),
        ("for_double_use_of_hw_axes", unit_of(tags="i:l.0, j:l.0"), "both on .* 'l.0'"),
    ],
)
def test_checks_of_programs(name: str, unit: Any, message: str) -> None:
    with pytest.raises(lp.LoopyError, match=message):
        getattr(check, f"check_{name}")(unit)


INSNS = changed().instructions
TWICE = frozenset((LocalInameTag(0), UnrollTag()))


@pytest.mark.parametrize(
    ("name", "kernel", "message"),
    [
        ("for_duplicate_insn_ids", changed(instructions=[*INSNS, *INSNS]), "'insn' is not unique"),
        (
            "for_inactive_iname_access",
            changed(instructions=[i.copy(within_inames=frozenset("i")) for i in INSNS]),
            "'insn' uses 'j' outside of its loop",
        ),
        (
            "insn_attributes",
            changed(instructions=[i.copy(depends_on=frozenset(["x"])) for i in INSNS]),
            "'insn' depends on 'x'",
        ),
        ("loop_priority_inames_known", changed(loop_priority=(("i", "z"),)), "has 'z'"),
        (
            "multiple_tags_allowed",
            changed(inames={"i": lp.kernel.data.Iname("i", TWICE)}),
            "'i' is implemented as l.0, unr",
        ),
        (
            "variable_access_ordered",
            unit_of("out[i, j] = 1\nout[i, j] = 2").default_entrypoint,
            "nothing says whether",
        ),
        (
            "for_write_races",
            unit_of("out[j] = a[i, j]", tags="i:l.0").default_entrypoint,
            "from several work-items",
        ),
    ],
)
def test_checks_of_kernels(name: str, kernel: Any, message: str) -> None:
    with pytest.raises(lp.LoopyError, match=message):
        getattr(check, f"check_{name}")(kernel)


def test_unused_loops_are_a_warning() -> None:
    with pytest.warns(lp.LoopyWarning, match="no instruction is in loop 'j'"):
        check.check_for_unused_inames(unit_of("out[i] = a[i, 0]").default_entrypoint)
