"""Loops in other coordinates: iterations that depend on each other keep their order."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.lowering import lower
from tests.random.device import Device
from tests.reference import to_memory
from tests.transforms.helpers import assert_same_results, kernel_of

N = 7
U = lp.GlobalArg("u", np.float64, shape=(N, N))


def sweep(*steps: tuple[int, int], domain: str = "{ [i,j]: 1<=i,j<6 }") -> lp.TranslationUnit:
    """Each element is computed from others, at these distances."""
    terms = " + ".join(f"u[i - ({a}), j - ({b})]" for a, b in steps)
    knl = lp.make_kernel(domain, f"u[i,j] = 0.25*u[i,j] + 0.5*({terms})", [U, ...])
    return lp.prioritize_loops(knl, "i, j")


def results(knl: lp.TranslationUnit) -> dict[Any, Any]:
    """Run the code tree in Python."""
    memory = {"u": to_memory(np.arange(float(N * N)).reshape(N, N) ** 2 % 11)}
    lowered = lower(kernel_of(knl.copy(target=lp.CTarget())))
    for function in lowered.functions:
        Device(lowered.kernel, {}).launch(function, memory)
    return dict(memory["u"])


MAPS = {
    "as it is": "p = i and q = j",
    "interchanged": "p = j and q = i",
    "first backwards": "p = -i and q = j",
    "second backwards": "p = i and q = -j",
    "skewed": "p = i and q = i + j",
    "wavefronts": "p = i + j and q = j",
    "wavefronts, interchanged": "p = j and q = i + j",
    "steep wavefronts": "p = 2*i + j and q = i",
    "antidiagonals": "p = i - j and q = j",
}
STEPS = [(1, 0), (0, 1), (1, 1), (1, -1)]


@pytest.mark.parametrize("name", MAPS)
def test_what_is_accepted_computes_the_same_and_what_is_not_would_not(name: str) -> None:
    text = f"{{ [i,j] -> [p,q]: {MAPS[name]} }}"
    for step in STEPS:
        new = tuple(_image(name, step))
        is_legal = new > (0, 0) or new[::-1] > (0, 0)  # in one of the orders of the new loops
        knl = sweep(step)
        try:
            after = lp.map_domain(knl, text)
        except lp.TransformError:
            assert not is_legal, step
        else:
            assert is_legal, step
            assert results(after) == results(knl)


def _image(name: str, step: tuple[int, int]) -> list[int]:
    """Return where a step leads in new coordinates."""
    p, q = (part.partition("=")[2] for part in MAPS[name].split(" and "))
    names = {"i": step[0], "j": step[1]}
    return [_linear(text, names) for text in (p, q)]


def _linear(text: str, names: dict[str, int]) -> int:
    total = 0
    for term in text.replace("- ", "+ -").split("+"):
        factor, _, name = term.strip().rpartition("*")
        sign = -1 if name.startswith("-") else 1
        total += sign * int(factor or 1) * names[name.lstrip("-")]
    return total


def test_a_refusal_names_two_iterations() -> None:
    knl = lp.make_kernel("{ [i]: 1<=i<n }", "a[i] = a[i-1]", [lp.GlobalArg("a", shape="n"), ...])
    with pytest.raises(lp.TransformError) as error:
        lp.map_domain(knl, "{ [i] -> [r]: r = -i }")
    assert "for n = 3: 'insn' writes 'a[i]' at i = 1; 'insn' reads 'a[i - 1]' at i = 2" in str(
        error.value
    )


def test_new_loops_nest_as_the_order_demands() -> None:
    knl = sweep((1, -1))
    after = lp.map_domain(knl, "{ [i,j] -> [p,q]: p = j and q = i }")
    assert kernel_of(after).loop_priority == (("q", "p"),)
    assert results(after) == results(knl)
    free = lp.map_domain(sweep((1, 0), (0, 1)), "{ [i,j] -> [p,q]: p = j and q = i }")
    assert kernel_of(free).loop_priority == (("q", "p"),)


def test_wavefronts_run_in_parallel(opencl_queue: Any) -> None:
    """All elements of a diagonal at once, with a barrier between diagonals."""
    knl = sweep((1, 0), (0, 1))
    fronts = lp.map_domain(knl, "{ [i,j] -> [w,x]: w = i + j and x = j }")
    fronts = lp.tag_inames(fronts, "x:l.0")
    assert lp.generate_body(fronts).count("barrier(") == 1
    u = np.arange(float(N * N)).reshape(N, N)
    there = u.copy()
    fronts(opencl_queue, u=there)
    here = u.copy()
    knl.copy(target=lp.ExecutableCTarget())(u=here)
    np.testing.assert_allclose(there, here)


def test_loops_around_and_inside_keep_their_places() -> None:
    text = "u[i,j] = u[i,j] + 0.5*u[i - 1, j - 1] + t"
    knl = lp.make_kernel("{ [t,i,j]: 0<=t<3 and 1<=i,j<6 }", text, [U, ...])
    knl = lp.prioritize_loops(knl, "t, i, j")
    with pytest.raises(lp.TransformError, match="dependent iterations would be reordered"):
        lp.map_domain(knl, "{ [t] -> [s]: s = 2 - t }")
    shifted = lp.map_domain(knl, "{ [i] -> [h]: h = i + 3 }")
    assert results(shifted) == results(knl)


@pytest.mark.parametrize(
    ("text", "is_legal"),
    [
        ("<> t = 2*a[i]\nb[i] = t", True),  # its own value
        ("<> t = 2*a[i] {id=t, if=i > 2}\nb[i] = t {dep=t}", False),  # maybe an earlier one's
        ("<> t[k] = a[i] + k {id=t}\nb[i] = t[k] {dep=t, inames=i:k}", True),
        ("b[0] = a[i]", False),
        ("b[i] = a[i] + a[5 - i]", True),
        ("h[0] = h[0] + a[i] {atomic}", True),
        ("b[i] = sum(k, a[k])", True),
    ],
)
def test_what_iterations_share(text: str, is_legal: bool) -> None:
    arrays = [lp.GlobalArg("a, b", np.float64, shape=(6,))]
    arrays.append(lp.GlobalArg("h", np.float64, shape=(1,), for_atomic=True))
    knl = lp.make_kernel("{ [i,k]: 0<=i,k<6 }", text, [*arrays, ...], target=lp.CTarget())
    if is_legal:
        after = lp.map_domain(knl, "{ [i] -> [r]: r = 5 - i }")
        if "atomic" not in text:
            assert_same_results(
                lp.remove_unused_arguments(knl), lp.remove_unused_arguments(after), _data(text)
            )
    else:
        with pytest.raises(lp.TransformError, match="dependent iterations would be reordered"):
            lp.map_domain(knl, "{ [i] -> [r]: r = 5 - i }")


def _data(text: str) -> dict[str, Any]:
    return {"a": np.arange(6.0)} if "b[i]" in text else {}


def test_what_cannot_be_told_is_a_warning() -> None:
    free = [lp.GlobalArg("a", np.float64, shape="n"), lp.GlobalArg("at", np.int32, shape="n")]
    knl = lp.make_kernel("{ [i]: 0<=i<n }", "a[at[i]] = i", [*free, ...])
    with pytest.warns(lp.KgenWarning, match=r"reordered_access\(a\)"):
        lp.map_domain(knl, "{ [i] -> [r]: r = -i }")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        silent = lp.make_kernel(
            "{ [i]: 0<=i<n }", "a[at[i]] = i", [*free, ...], silenced_warnings=["reordered_access"]
        )
        lp.map_domain(silent, "{ [i] -> [r]: r = -i }")


def test_what_cannot_be_told_is_a_warning_where_the_rest_needs_a_nesting_too() -> None:
    text = "u[i,j] = u[i-1,j+1] + 1\na[at[i]] = i + j"
    free = [lp.GlobalArg("a", np.float64, shape=8), lp.GlobalArg("at", np.int32, shape=8)]
    u = lp.GlobalArg("u", np.float64, shape=(8, 8))
    knl = lp.make_kernel("{ [i,j]: 1<=i,j<6 }", text, [u, *free, ...])
    knl = lp.prioritize_loops(knl, "i, j")
    with pytest.warns(lp.KgenWarning, match=r"reordered_access\(a\)"):
        after = lp.map_domain(knl, "{ [i,j] -> [p,q]: p = j and q = 2*i + j }")
    assert kernel_of(after).loop_priority == (("q", "p"),)


def test_every_order_of_three_loops_is_accepted_and_nests_as_it_has_to() -> None:
    text = "v[i,j,k] = v[i-1,j,k] + v[i,j-1,k+1]"
    v = lp.GlobalArg("v", np.float64, shape=(5, 5, 5))
    knl = lp.make_kernel("{ [i,j,k]: 1<=i,j,k<4 }", text, [v, ...])
    knl = lp.prioritize_loops(knl, "i, j, k")
    for order in itertools.permutations("ijk"):
        new = ", ".join(f"{name}x" for name in order)
        text = f"{{ [i,j,k] -> [{new}]: ix = i and jx = j and kx = k }}"
        after = lp.map_domain(knl, text)
        assert ("jx", "kx") in kernel_of(after).loop_priority
        with pytest.raises(lp.KgenError):
            lp.generate_code_v2(lp.prioritize_loops(after, "kx, jx"))


def test_tiles_of_diamonds_are_accepted_with_time_outside() -> None:
    text = "u[x,t+2] = u[x+1,t+1] + u[x-1,t+1] - u[x,t]"
    knl = lp.make_kernel("{ [x,t]: 1<=x<m-1 and 0<=t<n }", text, assumptions="m>=3 and n>=1")
    tiles = "x = 16*tx + 8*tparity + ix and t = 16*tt + 8*tparity + it"
    tiles += " and 0<=tparity<2 and 0<=ix - it<16 and 0<=it + ix<16"
    with pytest.warns(lp.KgenWarning, match="only if the loops have the order t, x"):
        lp.map_domain(knl, f"[m,n] -> {{ [x,t] -> [tx,tt,tparity,it,ix]: {tiles} }}")
    after = lp.map_domain(
        lp.prioritize_loops(knl, "t, x"),
        f"[m,n] -> {{ [x,t] -> [tx,tt,tparity,it,ix]: {tiles} }}",
    )
    assert {("tt", "tparity"), ("tparity", "tx")} <= set(kernel_of(after).loop_priority)
    lp.prioritize_loops(after, "tt, tparity, tx, it, ix")


SCRATCH = "t[k] = a[i]*k {id=w}\n"


@pytest.mark.parametrize(
    ("reads", "is_refused"),
    [
        ("o[i] = sum(k, t[k]) {dep=w}", False),
        ("o[i] = sum(j, t[j + 1]) {dep=w}", False),
        ("o[i] = sum(j, t[j + 2]) {dep=w}", True),  # the last element is never written
        ("o[i] = t[3 - k] {dep=w, inames=i:k}", True),  # written later, in the loop around both
    ],
)
def test_an_array_that_each_iteration_fills_may_be_filled_in_any_order(
    reads: str, is_refused: bool
) -> None:
    arrays = [
        lp.GlobalArg("a", np.float64, shape=8),
        lp.TemporaryVariable("t", np.float64, shape=5),
        ...,
    ]
    known = ["read_undefined(t)", "overwritten(insn)"]
    domain = "{ [i, j, k]: 0 <= i < 8 and 0 <= j < 3 and 0 <= k < 4 }"
    knl = lp.make_kernel(domain, SCRATCH + reads, arrays, silenced_warnings=known)
    if is_refused:
        with pytest.raises(lp.TransformError, match="dependent iterations would be reordered"):
            lp.affine_map_inames(knl, "i", "z", "z = -i")
    else:
        turned = lp.affine_map_inames(knl, "i", "z", "z = -i")
        assert_same_results(knl, turned, {"a": np.arange(8.0)})
