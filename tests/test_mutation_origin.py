"""Fetches and writes moved, subscripts shifted, dependencies dropped: ``verify`` sees each.

Or the mutant computes the same, as a run on the host shows. What ``verify`` calls proved is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import kgen as lp
from kgen.ir.kernel import LoopKernel
from tests.mutation.mutants import moved, resized, shifted, without_dependencies


def _make(domain: str, text: str | list[str], **shapes: str) -> lp.TranslationUnit:
    args = [lp.GlobalArg(name, "float64", shape=shape) for name, shape in shapes.items()]
    return lp.make_kernel(domain, text, args, target=lp.ExecutableCTarget())


def _twice_fetched() -> lp.TranslationUnit:
    knl = _make(
        "{ [i, k]: 0 <= i, k < 16 }", "c[i] = sum(k, a[i, k]*b[k])", a="16, 16", b="16", c="16"
    )
    knl = lp.split_iname(knl, "k", 8)
    knl = lp.add_prefetch(
        knl, "b", "k_inner", temporary_name="bs", fetch_outer_inames="i, k_outer", default_tag=None
    )
    return lp.add_prefetch(knl, "bs", "k_inner", temporary_name="br", default_tag=None)


def _tiled_product() -> lp.TranslationUnit:
    knl = _make(
        "{ [i, j, k]: 0 <= i, j, k < 8 }",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        a="8, 8",
        b="8, 8",
        c="8, 8",
    )
    for name in "ijk":
        knl = lp.split_iname(knl, name, 4)
    outer = "i_outer, j_outer, k_outer"
    for name, sweep in (("a", "i_inner, k_inner"), ("b", "k_inner, j_inner")):
        knl = lp.add_prefetch(knl, name, sweep, fetch_outer_inames=outer, default_tag=None)
    return knl


def _stencil() -> lp.TranslationUnit:
    knl = _make("{ [i]: 0 <= i < 16 }", "c[i] = a[i] + 2*a[i+1] - a[i+2]", a="18", c="16")
    knl = lp.split_iname(knl, "i", 4)
    return lp.add_prefetch(knl, "a", "i_inner", default_tag=None)


def _time_loop() -> lp.TranslationUnit:
    knl = lp.make_kernel(
        "{ [t, i, j]: 0 <= t < 3 and 0 <= i, j < 16 }",
        """
        for t
          v[i] = u[i + 1] + u[i]
          u[j + 1] = v[j]*2
        end
        """,
        [lp.GlobalArg("u", "float64", shape="17"), lp.GlobalArg("v", "float64", shape="16")],
        target=lp.ExecutableCTarget(),
        seq_dependencies=True,
    )
    knl = lp.split_iname(knl, "i", 4)
    return lp.add_prefetch(knl, "u", "i_inner", default_tag=None)


def _buffered() -> lp.TranslationUnit:
    text = "c[i] = c[i] + a[i, k]*b[k] {dep=*}"
    knl = _make("{ [i, k]: 0 <= i, k < 16 }", text, a="16, 16", b="16", c="16")
    knl = lp.split_iname(knl, "k", 4)
    return lp.buffer_array(knl, "c", "k_outer, k_inner", default_tag=None)


def _collected() -> lp.TranslationUnit:
    knl = _make("{ [e, i]: 0 <= e, i < 8 }", "c[e, i] = a[e, i] + b[e]", a="8, 8", b="8", c="8, 8")
    knl = lp.split_iname(knl, "e", 4)
    return lp.buffer_array(knl, "c", "e_inner, i", init_expression=False, default_tag=None)


def _precomputed() -> lp.TranslationUnit:
    text = ["f(x) := a[x]**2 + x", "c[i] = f(i) - f(i + 1)"]
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 16 }",
        text,
        [lp.GlobalArg("a", "float64", shape="17"), lp.GlobalArg("c", "float64", shape="16")],
        target=lp.ExecutableCTarget(),
    )
    return lp.precompute(lp.split_iname(knl, "i", 4), "f", "i_inner", temporary_name="fs")


def _split() -> lp.TranslationUnit:
    text = "u[i] = (u[i - 1] + 2*u[i + 1])/3 {dep=*}"
    knl = _make("{ [i]: 1 <= i < 15 }", text, u="16")
    return lp.split_domain(knl, "{ [i]: 4 <= i < 11 }")


def _split_in_launches() -> lp.TranslationUnit:
    knl = _make("{ [i]: 0 <= i < 8 }", ["<> t = 2*u[i]", "v[i] = t - u[i + 1]"], u="9", v="8")
    return lp.split_domain(knl, "{ [i]: 2 <= i < 6 }", into="launches")


PROGRAMS: dict[str, Callable[[], lp.TranslationUnit]] = {
    make.__name__.strip("_"): make
    for make in (
        _twice_fetched,
        _tiled_product,
        _stencil,
        _time_loop,
        _buffered,
        _collected,
        _precomputed,
        _split,
        _split_in_launches,
    )
}


def _mutants(name: str, kernel: LoopKernel) -> Iterator[tuple[str, LoopKernel]]:
    for mutate in (moved, shifted, without_dependencies):
        yield from mutate(kernel)
    if name.startswith("split"):  # loops that a transformation has cut out of others
        yield from resized(kernel)


def _result(name: str, kernel: LoopKernel) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    arrays = {
        arg.name: rng.random(tuple(map(int, arg.shape)))
        for arg in kernel.args
        if isinstance(arg, lp.ArrayArg)
    }
    PROGRAMS[name]().map_kernels(lambda _: kernel)(**arrays)
    return arrays


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_program_is_proved(name: str) -> None:
    report = lp.verify(PROGRAMS[name]())
    assert report.ok, report
    assert not report.unknown, report


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_mutant_is_found_or_computes_the_same(name: str) -> None:
    kernel = PROGRAMS[name]().default_entrypoint
    expected = _result(name, kernel)
    n_found = n_same = 0
    for which, mutant in _mutants(name, kernel):
        report = lp.verify(mutant)
        if not report.ok:
            assert all(finding.point for finding in report.violated if finding.check == "origin")
            n_found += 1
            continue
        assert not report.unknown, (which, report)
        found = _result(name, mutant)
        for array, values in expected.items():
            assert np.allclose(found[array], values), which
        n_same += 1
    assert n_found > n_same
