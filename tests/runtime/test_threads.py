"""Work-groups on the threads of the host: results, what is left to one thread, compilers."""

from __future__ import annotations

import os
import re
import signal
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ir.tags import LocalInameTag
from kgen.runtime.toolchain import openmp_flags

ONE, ALL = lp.ExecutableCTarget(threads=1), lp.ExecutableCTarget()
A = np.random.default_rng(0).random(1000)


def blocks(code: str, args: Any = (), target: lp.ExecutableCTarget = ALL, **more: Any) -> Any:
    """Return a kernel over ``i`` in work-groups of 16 work-items."""
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", code, [*args, "..."], target=target, **more)
    return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


def test_threads_run_work_groups() -> None:
    code = lp.generate_code_v2(blocks("out[i] = 2*a[i]", [lp.GlobalArg("a", np.float64)]))
    count = "(n + 15) / 16"
    loop = f"for (int gid0 = 0; gid0 < {count}; ++gid0)"
    several, one = str(code).split("if (" + count + " > 1)")[1].split("else")
    share = "num_threads(kgen_share(omp_get_max_threads()))"
    assert f"#pragma omp parallel for {share}\n    {loop}" in several
    assert loop in one
    assert "omp" not in one
    _, (out,) = blocks("out[i] = 2*a[i]")(a=A)
    np.testing.assert_array_equal(out, 2 * A)


def test_one_thread_has_plain_loops() -> None:
    knl = blocks("out[i] = 2*a[i]", [lp.GlobalArg("a", np.float64)], ONE)
    assert "gid" not in str(lp.generate_code_v2(knl))
    assert "for (int i_outer" in str(lp.generate_code_v2(knl))


def test_several_axes_are_one_loop_of_a_number_of_threads() -> None:
    domain = "{ [i, j]: 0 <= i < n and 0 <= j < m }"
    target = lp.ExecutableCTarget(threads=3)
    knl = lp.make_kernel(domain, "out[i, j] = a[j, i]", target=target)
    for axis, iname in enumerate("ij"):
        knl = lp.split_iname(knl, iname, 8, outer_tag=f"g.{axis}", inner_tag=f"l.{axis}")
    typed = lp.add_dtypes(knl, {"a": np.float64})
    pragma = "parallel for collapse(2) num_threads(kgen_share(3))"
    assert pragma in str(lp.generate_code_v2(typed))
    a = A[:900].reshape(20, 45)
    np.testing.assert_array_equal(knl(a=a)[1][0], a.T)


def test_launches_follow_each_other() -> None:
    code = """
    t[i] = 2*a[i] {id=first}
    ... gbarrier {id=wait, dep=first}
    out[i] = t[n - 1 - i] {dep=wait}
    """
    temporary = lp.TemporaryVariable("t", shape="n", address_space=lp.AddressSpace.GLOBAL)
    knl = blocks(code, [lp.GlobalArg("a, out", shape="n"), temporary])
    np.testing.assert_array_equal(knl(a=A)[1][0], 2 * A[::-1])


def test_one_group_is_one_call() -> None:
    knl = blocks("out = sum(i, a[i])", options={"insert_gbarriers": True})
    code = lp.generate_code_v2(lp.add_dtypes(knl, {"a": np.float64})).host_code()
    assert code.count("#pragma omp") == 1
    assert code.count("kernel_0_group") == 1
    assert "kernel_0_group(n, out, part_i_outer_i_inner, 0);" in code


@pytest.mark.parametrize("operation", ["sum", "max"])
def test_reductions_have_the_same_bits_on_any_number_of_threads(operation: str) -> None:
    results = []
    for threads in (2, 3, None):
        target = lp.ExecutableCTarget(threads=threads)
        code, options = f"out = {operation}(i, a[i])", {"insert_gbarriers": True}
        knl = blocks(code, target=target, options=options, assumptions="n >= 1")
        results.append(float(knl(a=A)[1][0]))
    assert results == results[:1] * 3
    assert results[0] == pytest.approx(getattr(A, operation)())


def test_atomic_updates() -> None:
    args = [lp.GlobalArg("out", np.int64, shape=7, for_atomic=True), lp.GlobalArg("k", np.int32)]
    knl = blocks("out[k[i]] = out[k[i]] + 1 {atomic}", args)
    k = np.random.default_rng(1).integers(0, 7, 10_000, dtype=np.int32)
    _, (out,) = knl(k=k, out=np.zeros(7, np.int64), n=len(k))
    np.testing.assert_array_equal(out, np.bincount(k, minlength=7))


def test_numbers_of_groups_are_computed_without_overflow() -> None:
    target = lp.CTarget(threads=2)
    domain, assumptions = "{ [i]: 0 <= i < n - m }", "0 <= m <= n"
    near = lp.make_kernel(domain, "out[i] = i", target=target, assumptions=assumptions)
    near = lp.split_iname(near, "i", 2, outer_tag="g.0")
    assert "gid0 < ((int64_t) m + n + 1) / 2 - m;" in str(lp.generate_code_v2(near))
    most = lp.make_kernel("{ [i]: 0 <= i < n + m }", "out[i] = 1", target=target)
    code = str(lp.generate_code_v2(lp.tag_inames(most, "i:g.0")))
    assert code.count("gid0 < ") == code.count("int64_t gid0 = 0; gid0 < (int64_t) m + n;")
    assert "#include <stdint.h>" in code
    assert "int64_t const gid0)\n{\n  out[gid0] = 1;" in code


def test_what_may_race_runs_on_one_thread() -> None:
    args = [lp.GlobalArg("out", np.float64, shape="n"), lp.GlobalArg("k", np.int32)]
    knl = blocks("out[k[i]] = i", args)
    with pytest.warns(lp.WriteRaceConditionWarning, match="one thread runs all work-groups"):
        assert "omp" not in str(lp.generate_code_v2(knl))
    sure = blocks("out[k[i]] = i {id=w}", args, silenced_warnings="write_race(w)")
    assert "omp" in str(lp.generate_code_v2(sure))


def test_what_races_is_rejected() -> None:
    knl = blocks("out[i // 32] = i", [lp.GlobalArg("out", np.float64, shape="n")])
    with pytest.raises(lp.WriteRaceError, match="writes elements of 'out' from several"):
        lp.generate_code_v2(knl)


def test_values_that_pass_from_group_to_group_are_rejected() -> None:
    code = """
    <> total = 0.0 {id=init}
    for i
        total = total + a[i] {id=add, dep=init}
        out[i] = total {dep=add}
    end
    """
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", code, [lp.GlobalArg("a", np.float64), "..."])
    knl = lp.tag_inames(knl, "i:g.0")
    with pytest.raises(lp.ScheduleError, match="'total' carries values from one iteration of 'i'"):
        lp.generate_code_v2(knl.copy(target=ALL))
    np.testing.assert_allclose(knl.copy(target=ONE)(a=A, n=1000)[1][0], A.cumsum())


def test_values_that_pass_along_one_of_two_axes_are_rejected() -> None:
    code = """
    for i
        <> total = 0.0 {id=init}
        for j
            total = total + a[i, j] {id=add, dep=init}
            out[i, j] = total {dep=add}
        end
    end
    """
    knl = lp.make_kernel("{ [i, j]: 0 <= i < n and 0 <= j < m }", code, target=ALL)
    a = A[:900].reshape(20, 45)
    rows = lp.tag_inames(knl, "i:g.0")
    np.testing.assert_allclose(rows(a=a)[1][0], a.cumsum(axis=1))
    with pytest.raises(lp.ScheduleError, match="'total' carries values from one iteration of 'j'"):
        lp.tag_inames(rows, "j:g.1")(a=a)


def test_rows_of_different_length_are_handed_out_in_chunks() -> None:
    code = """
    for i
        <> first = starts[i]
        <> stop = starts[i + 1]
        out[i] = sum(j, a[j])
    end
    """
    domains = ["{ [i]: 0 <= i < n }", "{ [j]: first <= j < stop }"]
    args = [lp.GlobalArg("starts", np.int32, shape="n + 1"), lp.GlobalArg("a", shape=None), "..."]
    knl = lp.make_kernel(domains, code, args, target=ALL)
    knl = lp.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    typed = lp.add_dtypes(knl, {"a": np.float64})
    chunk = "kgen_chunk((long long) ((n + 3) / 4), omp_get_max_threads())"
    assert f"schedule(dynamic, {chunk})" in str(lp.generate_code_v2(typed))
    starts = np.array([0, 5, 5, 40, 41, 100, 1000], np.int32)
    expected = [A[one:two].sum() for one, two in pairwise(starts)]
    np.testing.assert_allclose(knl(starts=starts, a=A)[1][0], expected)


@pytest.mark.parametrize("schedule", ["static", "dynamic", "guided", "dynamic, 4", "runtime"])
def test_how_threads_share_work_groups(schedule: str) -> None:
    target = lp.ExecutableCTarget(schedule=schedule)
    knl = blocks("out[i] = 2*a[i]", [lp.GlobalArg("a", np.float64, shape="n")], target)
    assert f" schedule({schedule}) num_threads(" in lp.generate_code_v2(knl).host_code()
    assert f"on all threads ({schedule})" in str(lp.explain(knl))
    np.testing.assert_array_equal(knl(a=A)[1][0], 2 * A)


@pytest.mark.parametrize("schedule", ["fast", "dynamic, 0", "static,", "", 4])
def test_a_wrong_schedule(schedule: Any) -> None:
    with pytest.raises(lp.KgenError, match="'schedule' of a CTarget"):
        lp.CTarget(schedule=schedule)


def test_tiles_are_each_threads_own() -> None:
    knl = blocks("out[i] = a[i] + a[i + 1]", [lp.GlobalArg("a", np.float64, shape="n + 1")])
    knl = lp.untag_inames(knl, "i_inner", LocalInameTag)
    knl = lp.add_prefetch(knl, "a", "i_inner", default_tag=None)
    code = str(lp.generate_code_v2(knl))
    assert re.search(r"_group\(.*\n{\n  double a_fetch\[17\]", code)
    np.testing.assert_array_equal(knl(a=A)[1][0], A[:-1] + A[1:])


def test_calls_from_several_threads_at_once() -> None:
    knl = blocks("out[i] = a[i]*a[i] + k")
    knl(a=A, k=0.0)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda k: knl(a=A, k=float(k))[1][0], range(40)))
    for k, out in enumerate(results):
        np.testing.assert_allclose(out, A * A + k, rtol=1e-14)


@pytest.mark.parametrize("threads", [None, 2])
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
def test_forked_processes_run_on_one_thread(threads: int | None) -> None:
    knl = blocks("out[i] = 2*a[i]", target=lp.ExecutableCTarget(threads=threads))
    knl(a=A)
    child = os.fork()
    if not child:
        signal.alarm(30)  # where it hangs
        os._exit(0 if (knl(a=A)[1][0] == 2 * A).all() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_verify_and_explain_know_of_threads() -> None:
    knl = blocks("out[i] = 2*a[i]", [lp.GlobalArg("a", np.float64)])
    assert lp.verify(knl).ok
    assert "(n + 15) // 16 groups, on all threads\n" in str(lp.explain(knl))
    race = blocks("out[i // 32] = i", [lp.GlobalArg("out", np.float64, shape="n")])
    assert not lp.verify(race).ok


@pytest.fixture
def without_openmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the command of a compiler that knows no OpenMP, which kgen takes."""
    compiler = tmp_path / "cc"
    refuse = 'case " $* " in *" -fopenmp "*) echo "unsupported option -fopenmp" >&2; exit 1;; esac'
    compiler.write_text(f'#!/bin/sh\n{refuse}\nexec cc "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    return str(compiler)


def test_a_compiler_without_openmp_makes_code_for_one_thread(without_openmp: str) -> None:
    with pytest.warns(lp.KgenWarning, match="runs on one thread(.|\n)*hint: install one"):
        _, (out,) = blocks("out[i] = 3*a[i]")(a=A)
    np.testing.assert_array_equal(out, 3 * A)
    assert openmp_flags((without_openmp,)) is None


@pytest.mark.usefixtures("without_openmp")
def test_the_warning_of_one_thread_can_be_silenced() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        blocks("out[i] = 5*a[i]", silenced_warnings=["openmp"])(a=A)


@pytest.mark.parametrize("threads", [0, -1, 2.0, "2", True])
def test_a_wrong_number_of_threads(threads: Any) -> None:
    with pytest.raises(lp.KgenError, match="threads"):
        lp.ExecutableCTarget(threads=threads)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_loop_around_launches_may_have_no_iteration(steps: int) -> None:
    text = "b[i] = a[i] + t {id=f}\n... gbarrier {id=w, dep=f}\na[i] = b[7 - i] + 1 {dep=w}"
    knl = lp.make_kernel(
        "{ [t, i]: 0 <= t < m and 0 <= i < 8 }",
        f"for t, i\n{text}\nend",
        [lp.GlobalArg("a, b", "float64", shape="8"), "..."],
        seq_dependencies=True,
        target=lp.ExecutableCTarget(threads=2),
    )
    knl = lp.tag_inames(lp.fix_parameters(knl, m=steps), "i:g.0")
    a = np.arange(8.0)
    expected = a.copy()
    for t in range(steps):
        expected = expected[::-1] + t + 1
    knl(a=a, b=np.zeros(8))
    np.testing.assert_array_equal(a, expected)


@pytest.mark.parametrize("target", [lp.CTarget(threads=2), lp.CudaTarget()])
def test_a_sum_whose_loop_has_launches_inside_says_what_is_missing(target: Any) -> None:
    args = [lp.GlobalArg("a", np.float64, shape=(4, 64)), lp.GlobalArg("out", np.float64, shape=64)]
    domain = "{ [i, r]: 0 <= i < 64 and 0 <= r < 4 }"
    knl = lp.make_kernel(domain, "out[i] = sum(r, a[r, i])", args, target=target)
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    options: Any = {"temporary_address_space": lp.AddressSpace.GLOBAL, "default_tag": None}
    knl = lp.add_prefetch(knl, "a", ["i_outer", "i_inner"], fetch_outer_inames="r", **options)
    knl = lp.split_iname(knl, "a_dim_1", 16, outer_tag="g.0", inner_tag="l.0")
    with pytest.raises(lp.KgenError, match=r"'acc_r' gets used .* without a definition"):
        lp.generate_code_v2(knl)
