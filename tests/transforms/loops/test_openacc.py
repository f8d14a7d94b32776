"""OpenACC's levels: loops spread over gangs, workers and vectors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.lowering import lower
from tests.oracle import Oracle
from tests.transforms.helpers import assert_same_results, instructions, kernel_of

A = np.arange(300, dtype=np.float32)


def vector() -> lp.TranslationUnit:
    return lp.make_kernel("{ [i]: 0<=i<n }", "b[i] = 2*a[i]")


def tags(program: Any) -> dict[str, str]:
    return {
        name: ",".join(map(str, iname.tags)) for name, iname in kernel_of(program).inames.items()
    }


def test_levels_are_tags() -> None:
    knl = lp.make_kernel("{ [i,j,k,m]: 0<=i,j,k,m<4 }", "a[i,j,k,m] = 0")
    knl = lp.tag_inames(knl, "i:gang, j:worker, k:vector, m:seq")
    assert tags(knl) == {"i": "g.0", "j": "l.1", "k": "l.0", "m": ""}


@pytest.mark.parametrize(
    ("levels", "lengths", "index", "found"),
    [
        ("gang", {}, "i", "i: g.0"),
        ("gang", {"num_gangs": 8}, "i_gang + i_turn*8", "i_gang: g.0, i_turn: "),
        ("vector", {}, "i_vector + i_turn*128", "i_turn: , i_vector: l.0"),
        ("worker", {}, "i_worker + i_turn*4", "i_turn: , i_worker: l.1"),
        ("gang vector", {}, "i_vector + i_gang*128", "i_gang: g.0, i_vector: l.0"),
        (
            "gang worker",
            {"num_workers": 8},
            "i_worker + i_gang*8",
            "i_gang: g.0, i_worker: l.1",
        ),
        (
            "gang(16) worker(2) vector(32)",
            {},
            "i_vector + (i_worker + (i_gang + i_turn*16)*2)*32",
            "i_gang: g.0, i_turn: , i_vector: l.0, i_worker: l.1",
        ),
        ("seq", {}, "i", "i: "),
    ],
)
def test_loop_is_split_into_its_levels(
    levels: str, lengths: dict[str, int], index: str, found: str
) -> None:
    knl = lp.parallelize(vector(), {"i": levels}, **lengths)
    assert instructions(knl)[0].endswith(f": b[{index}] = 2*a[{index}]")
    assert ", ".join(f"{name}: {tag}" for name, tag in tags(knl).items()) == found
    assert_same_results(vector(), knl, {"a": A})


def test_short_loop_is_not_split() -> None:
    knl = lp.make_kernel("{ [i,j]: 0<=i<n and 0<=j<32 }", "b[i,j] = 2*a[i,j]")
    assert tags(lp.parallelize(knl, {"i": "gang", "j": "vector"})) == {"i": "g.0", "j": "l.0"}


def test_collapsed_loops_are_contiguous_in_the_code() -> None:
    knl = lp.make_kernel(
        "{ [i,j,k]: 0<=i<n and 0<=j<8 and 0<=k<5 }",
        "b[i,j,k] = 2*a[i,j,k]",
        [lp.GlobalArg("a", np.float32), ...],
        target=lp.CudaTarget(),
    )
    knl = lp.parallelize(knl, {"i,j,k": "gang vector"})
    assert lp.generate_body(knl) == (
        "  if (128 * (long long) gid(x) + lid(x) < 40 * (long long) n)\n"
        "    b[128 * (long long) gid(x) + lid(x)] = "
        "2.0f * a[128 * (long long) gid(x) + lid(x)];"
    )


def test_collapsed_loops_of_the_guide() -> None:
    """The tracer loops of a spectral element code: gangs over (ie, q), vectors over (k, j, i)."""
    knl = lp.make_kernel(
        "{ [ie,q,k,j,i]: 0<=ie<n and 0<=q<3 and 0<=k<6 and 0<=j,i<4 }",
        "gv[ie,q,k,j,i] = (d[ie,j,i]*v[ie,k,j,i])*qdp[ie,q,k,j,i]",
        [lp.GlobalArg("d,v,qdp", np.float64), ...],
    )
    spread = lp.parallelize(knl, {"ie,q": "gang", ("k", "j", "i"): "vector"})
    assert tags(spread) == {"q_and_ie": "g.0", "i_and_j_and_k": "l.0"}
    random = np.random.default_rng(1)
    data = {"d": (5, 4, 4), "v": (5, 6, 4, 4), "qdp": (5, 3, 6, 4, 4)}
    assert_same_results(knl, spread, {name: random.random(shape) for name, shape in data.items()})


def grid(domain: str = "0<=i<n and 0<=j<m") -> lp.TranslationUnit:
    return lp.make_kernel(
        f"{{ [i,j]: {domain} }}",
        "b[i,j] = 2*a[i,j]",
        [lp.GlobalArg("a, b", np.float64, shape="n, m"), ...],
    )


@pytest.mark.parametrize(
    ("levels", "found"),
    [
        ("gang vector", {"i": "g.0", "j_gang": "g.1", "j_vector": "l.0"}),
        ("gang", {"i": "g.0", "j": "g.1"}),
        ("gang(3) vector", {"i_turn": "", "i_gang": "g.0", "j_turn": "", "j_vector": "l.0"}),
        ("gang(3)", {"i_turn": "", "i_gang": "g.0", "j": ""}),
        ("vector", {"i": "", "j_turn": "", "j_vector": "l.0"}),
    ],
)
def test_collapsed_loops_with_parametric_bounds(levels: str, found: dict[str, str]) -> None:
    knl = lp.parallelize(grid(), {"i,j": levels}, vector_length=8)
    assert tags(knl) == found
    assert not re.search("[/%]", instructions(knl)[0])
    a = np.random.default_rng(1).random((7, 21))
    assert_same_results(grid(), knl, {"a": a, "b": np.zeros_like(a)})


def test_a_collapsed_triangle() -> None:
    triangle = grid("0<=j<=i<n and j<m")
    knl = lp.parallelize(triangle, {"i,j": "gang vector"}, vector_length=4)
    a = np.random.default_rng(1).random((7, 6))
    assert_same_results(triangle, knl, {"a": a, "b": np.zeros_like(a)})


def test_collapsed_loops_of_which_some_are_constant() -> None:
    knl = lp.make_kernel("{ [i,j,k]: 0<=i<n and 0<=j<m and 0<=k<5 }", "b[i,j,k] = 2*a[i,j,k]")
    knl = lp.parallelize(knl, {"i,j,k": "gang vector"})
    assert tags(knl) == {"i": "g.0", "k_and_j_gang": "g.1", "k_and_j_vector": "l.0"}


def test_bounds_that_are_data() -> None:
    knl = lp.make_kernel(
        ["{ [i]: 0<=i<n }", "{ [j]: first<=j<last }"],
        """
        for i
            <> first = starts[i]
            <> last = starts[i + 1]
            y[i] = sum(j, a[j])
        end
        """,
        [
            lp.GlobalArg("starts", np.int32, shape="n + 1"),
            lp.GlobalArg("a", np.float64, shape="m"),
            lp.ValueArg("m", np.int32),
            ...,
        ],
    )
    spread = lp.parallelize(knl, {"i": "gang worker", "j": "vector(32)"})
    assert instructions(spread)[0] == "i_gang,i_worker: first = starts[i_worker + i_gang*4]"
    starts = np.array([0, 3, 3, 70, 71, 200], np.int32)
    assert_same_results(knl, spread, {"starts": starts, "a": np.arange(200.0)})


@pytest.mark.parametrize(
    ("levels", "lengths", "refusal"),
    [
        ("gangs", {}, "'gangs' is not a level of loops"),
        ("gang gang", {}, "names the level 'gang' twice"),
        ("gang seq", {}, "a loop that is 'seq' has no other level"),
        ("seq(4)", {}, "a loop that is 'seq' has no other level, and no length"),
        ("", {}, "there is no level for"),
        ("vector(0)", {}, "the length in 'vector(0)' is 0"),
        ("gang vector", {"vector_length": 0}, "vector_length=0 is not a positive number"),
        ("gang vector", {"num_gangs": -1}, "num_gangs=-1 is not a positive number"),
    ],
)
def test_refusals(levels: str, lengths: dict[str, int], refusal: str) -> None:
    with pytest.raises(lp.TransformError) as refused:
        lp.parallelize(vector(), {"i": levels}, **lengths)
    assert refusal in str(refused.value)


@pytest.mark.parametrize("names", ["", ()])
def test_levels_of_no_loop_are_refused(names: Any) -> None:
    with pytest.raises(lp.TransformError, match="names no loop"):
        lp.parallelize(vector(), {names: "gang"})


def test_two_loops_on_one_level_are_refused() -> None:
    knl = lp.make_kernel("{ [i,j]: 0<=i,j<n }", "b[i,j] = 0")
    knl = lp.parallelize(knl, {"i": "gang", "j": "gang"}).copy(target=lp.OpenCLTarget())
    with pytest.raises(lp.ScheduleError, match=r"both on the hardware axis 'g\.0'"):
        lp.generate_code_v2(knl)


def test_every_work_item_runs_its_iterations_once() -> None:
    knl = lp.parallelize(vector(), {"i": "gang(3) worker(2) vector(8)"})
    knl = lp.add_dtypes(knl, {"a": np.float32}).copy(target=lp.OpenCLTarget())
    lowered = lower(kernel_of(knl))
    Oracle(lowered.kernel, {"n": 77}).check(lowered.functions)


def routine() -> lp.TranslationUnit:
    """Rows that a called function scales, with a level of its own: OpenACC's routine vector."""
    scale = lp.make_function("{ [j]: 0<=j<100 }", "y[j] = 2*x[j]", name="scale")
    knl = lp.make_kernel(
        "{ [i,p,q]: 0<=i<n and 0<=p,q<100 }",
        "[p]: b[i,p] = scale([q]: a[i,q])",
        [lp.GlobalArg("a,b", np.float32, shape="n, 100"), ...],
        name="rows",
    )
    return lp.merge([knl, lp.parallelize(scale, {"j": "vector(32)"})])


def test_called_function_has_a_level_of_its_own(opencl_queue: Any) -> None:
    knl = lp.parallelize(routine(), {"i": "gang worker"})
    (launch,) = lp.explain(knl).launches
    assert (launch.locals, launch.loop("j_vector").level) == ((32, 4), "vector(32)")
    a = np.arange(700, dtype=np.float32).reshape(7, 100)
    for program, queue in ((knl, (opencl_queue,)), (knl.copy(target=lp.ExecutableCTarget()), ())):
        _, (b,) = program(*queue, a=a)
        np.testing.assert_array_equal(b, 2 * a)


def test_level_of_a_called_function_is_taken() -> None:
    knl = lp.parallelize(routine(), {"i": "gang vector"})
    with pytest.raises(
        lp.KgenError, match=r"'i_vector' and 'j_vector' .* both on the hardware axis 'l\.0'"
    ):
        lp.generate_code_v2(knl)
