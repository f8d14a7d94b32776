"""Fetches of what loops refill: inside of every loop that writes what they read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.errors import KgenError, TransformError

N = 16
OUTER = (None, "i", "k_outer", "i, k_outer")
#: what is fetched: how the kernel gets it, and what ``b`` is after that
SOURCES = {
    "argument": "",
    "private": "<> t[k_inner] = 2*b[k_inner + 8*k_outer] + i {id=w}",
    "local": "<> t[k_inner] = 2*b[k_inner + 8*k_outer] + i {id=w}",
    "written": "t[k_inner] = 2*b[k_inner + 8*k_outer] + i {id=w}",
}


def _summed(source: str) -> lp.TranslationUnit:
    """Make ``c[i] = sum(k, a[i, k]*...)`` of ``b``, or of a tile ``t`` that each ``ko`` refills."""
    read = "b[ki + 8*ko]" if source == "argument" else "t[ki]"
    fill = "" if source == "argument" else f"{SOURCES[source]}".replace("k_inner", "kw")
    return lp.make_kernel(
        "{ [i, ko, ki, kw]: 0 <= i < n and 0 <= ko < 2 and 0 <= ki, kw < 8 }",
        f"""
        for i
          <> s = 0 {{id=s0}}
          for ko
            {fill.replace("k_outer", "ko")}
            s = s + sum(ki, a[i, ki + 8*ko]*{read}) {{id=s1, dep=s0{":w" if fill else ""}}}
          end
          c[i] = s {{dep=s1}}
        end
        """,
        [
            lp.GlobalArg("a", "float64", shape="n, 16"),
            lp.GlobalArg("b", "float64", shape="16"),
            lp.GlobalArg("c", "float64", shape="n"),
            *([lp.GlobalArg("t", "float64", shape="8")] if source == "written" else []),
            "...",
        ],
        target=lp.ExecutableCTarget(),
    )


def _tiled(source: str) -> lp.TranslationUnit:
    """Make a reduction over ``k_outer`` and ``k_inner`` of a tile that ``k_outer`` refills."""
    knl = lp.make_kernel(
        "{ [i, k]: 0 <= i < n and 0 <= k < 16 }",
        "c[i] = sum(k, a[i, k]*b[k])",
        [
            lp.GlobalArg("a", "float64", shape="n, 16"),
            lp.GlobalArg("b", "float64", shape="16"),
            lp.GlobalArg("c", "float64", shape="n"),
            "...",
        ],
        target=lp.ExecutableCTarget(),
    )
    knl = lp.split_iname(knl, "k", 8)
    if source == "argument":
        return knl
    return lp.add_prefetch(
        knl, "b", "k_inner", temporary_name="t", fetch_outer_inames="i, k_outer", default_tag=None
    )


def _error(knl: lp.TranslationUnit, *, is_written: bool) -> float:
    rng = np.random.default_rng(0)
    a, b = rng.random((N, 16)), rng.random(16)
    more: dict[str, Any] = {"t": np.zeros(8)} if "t" in knl.default_entrypoint.arg_dict else {}
    (_, result) = knl(a=a, b=b, c=np.zeros(N), **more)
    out = result["c"] if isinstance(result, dict) else result[0]
    values = 2 * b + np.arange(N)[:, None] if is_written else b[None, :]
    return float(abs(out - (a * values).sum(1)).max())


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("sweep", ["inner", "both"])
@pytest.mark.parametrize("make", [_tiled, _summed])
def test_a_fetch_is_right_or_refused(source: str, outer: str | None, sweep: str, make: Any) -> None:
    """Where the fetch goes, and whether it may, follows from what writes what it reads."""
    is_loop = make is _summed
    if not is_loop and source == "written":
        pytest.skip("a fetched tile is a temporary")
    knl = make(source)
    inner, around = ("ki", "ko") if is_loop else ("k_inner", "k_outer")
    name = "b" if source == "argument" else "t"
    if source == "local":
        knl = lp.set_temporary_address_space(knl, "t", "local")
    given = None if outer is None else outer.replace("k_outer", around)
    is_short = sweep == "inner" or (source != "argument" and not is_loop)
    sweeps = inner if is_short else f"{inner}, {around}"
    names = {"i", around} if given is None else {name.strip() for name in given.split(",")}
    must_work = is_short and {"i", around} <= names and (source, given) != ("argument", None)
    try:
        fetched = lp.add_prefetch(knl, name, sweeps, fetch_outer_inames=given, default_tag=None)
        error = _error(fetched, is_written=is_loop and source != "argument")
    except KgenError:
        if must_work:
            raise
        return
    assert error < 1e-12


def test_outer_inames_name_the_loop_and_the_writer() -> None:
    with pytest.raises(TransformError, match=r"outside iname 'k_outer'[^$]*'b_fetch_rule' writes"):
        lp.add_prefetch(_tiled("private"), "t", "k_inner", fetch_outer_inames="i")


def test_a_refilled_tile_is_not_swept_over_the_loop_that_refills_it() -> None:
    with pytest.raises(TransformError, match="change while 'k_outer' is swept"):
        lp.add_prefetch(_tiled("private"), "t", "k_inner, k_outer")


def test_a_buffer_does_not_outlive_the_loop_that_refills_what_it_holds() -> None:
    with pytest.raises(TransformError, match="'b_fetch_rule' runs while the buffer"):
        lp.buffer_array(_tiled("private"), "t", "k_inner", within="id:insn")


@pytest.mark.parametrize("shift", ["3 - ko", "ko"])
def test_a_fetch_does_not_merge_a_reduction_with_a_loop_before_it(shift: str) -> None:
    """The reduction reads what other iterations of that loop write: refused, not merged."""
    knl = lp.make_kernel(
        "{ [i, ko, ki]: 0 <= i < n and 0 <= ko < 4 and 0 <= ki < 8 }",
        f"""
        for i
          t[i, ko] = a[i, ko] {{id=w}}
          c[i] = sum((ko, ki), t[i, {shift}]*b[8*ko + ki]) {{dep=w}}
        end
        """,
        [
            lp.GlobalArg("a, t", "float64", shape="n, 4"),
            lp.GlobalArg("b", "float64", shape="32"),
            lp.GlobalArg("c", "float64", shape="n"),
            "...",
        ],
        target=lp.ExecutableCTarget(),
    )
    knl = lp.add_prefetch(knl, "b", "ki", default_tag=None)
    rng = np.random.default_rng(0)
    a, b = rng.random((N, 4)), rng.random(32)
    if shift != "ko":
        with pytest.raises(TransformError, match="in another iteration"):
            lp.generate_code_v2(knl)
        return
    _, result = knl(a=a, b=b, t=np.zeros((N, 4)), c=np.zeros(N))
    out = result["c"] if isinstance(result, dict) else result[-1]
    assert np.allclose(out, a @ b.reshape(4, 8).sum(1))


def test_values_that_change_between_two_uses_are_refused() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 8 }",
        """
        <> s = a[0] {id=w0}
        b[i] = s {id=u0, dep=w0}
        s = 2*a[1] {id=w1, dep=u0}
        c[i] = s {id=u1, dep=w1}
        """,
        [lp.GlobalArg("a, b, c", "float64", shape="8")],
    )
    with pytest.raises(TransformError, match="change between the uses of the rule"):
        lp.add_prefetch(knl, "s")
