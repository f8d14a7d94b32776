"""Schedules for threads: what is spread over them, in which pieces, and what stays as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.autoscheduler import threads

HOST = lp.ExecutableCTarget()


def make(domain: Any, code: Any, *data: Any, **options: Any) -> lp.TranslationUnit:
    return lp.make_kernel(domain, code, [*data, "..."], target=HOST, **options)


def pasted(knl: lp.TranslationUnit, text: str) -> lp.TranslationUnit:
    """Run the text of a schedule."""
    names: dict[str, Any] = {"knl": knl, "lp": lp}
    exec(text, names)  # noqa: S102
    result: lp.TranslationUnit = names["knl"]
    return result


SQUARE = "{ [i, j]: 0 <= i, j < n }"
B = lp.GlobalArg("b", np.float64, shape="n")
V = lp.GlobalArg("v", np.float64, shape="n, n")
KERNELS = {
    "elementwise": make("{ [i]: 0 <= i < n }", "out[i] = 2*b[i]"),
    "stencil": make("{ [i, j]: 0 < i, j < 299 }", "out[i, j] = v[i-1, j] + v[i+1, j] + v[i, j+1]"),
    "transposition": make(SQUARE, "out[i, j] = a[j, i]", assumptions="n <= 40000"),
    "columns": make(SQUARE, "out[j] = sum(i, a[i, j])"),
    "rows": make(SQUARE, "out[i] = sum(j, a[i, j])"),
    "product": make("{ [i, j, k]: 0 <= i, j, k < n }", "out[i, j] = sum(k, a[i, k]*a[k, j])"),
    "fixed product": make(
        "{ [i, j, k]: 0 <= i, j, k < 100 }", "out[i, j] = sum(k, a[i, k]*a[k, j])"
    ),
    "scan": make("{ [i, j]: 0 <= j <= i < n }", "out[i] = sum(j, b[j])", B),
    "scans": make(
        "{ [r, i, j]: 0 <= r < n and 0 <= j <= i < n }", "out[r, i] = sum(j, v[r, j])", V
    ),
    "total": make("{ [i, j]: 0 <= i < n }", "out = sum(i, b[i])"),
    "two nests": make(SQUARE, ["b[i] = 2*c[i] {id=b}", "out[j] = b[n - 1 - j] {dep=b}"]),
    "batch": make(
        "{ [e, i, j, k]: 0 <= e < n and 0 <= i, j, k < 4 }",
        "out[e, i, j] = sum(k, d[i, k]*u[e, k, j])",
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_results_stay_and_text_can_be_pasted(name: str) -> None:
    knl = KERNELS[name]
    schedule = lp.find_schedule(knl)
    fast = lp.autoschedule(knl)
    assert len(schedule)
    assert pasted(knl, str(schedule)) == schedule(knl) == fast
    rng = np.random.default_rng(0)
    shapes = {
        "a": (100, 100),
        "v": (300, 300),
        "b": (5000,),
        "c": (5000,),
        "u": (700, 4, 4),
        "d": (4, 4),
    }
    names = sorted(shapes.keys() & knl.default_entrypoint.arg_dict.keys())
    inputs = {name: rng.random(shapes[name]) for name in names}
    for found, right in zip(fast(**inputs)[1], knl(**inputs)[1], strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-12)


def tags(program: lp.TranslationUnit) -> str:
    kernel = program.default_entrypoint
    return " ".join(f"{n}:{t}" for n in sorted(kernel.inames) for t in kernel.iname_tags(n))


@pytest.mark.parametrize(
    ("domain", "code"),
    [
        ("{ [i]: 1 <= i < n }", "a[i] = a[i - 1] + 1"),
        ("{ [i]: 0 <= i < n }", "a[n - 1 - i] = a[i]"),
        ("{ [i]: 0 <= i < n }", "a[b[i]] = i"),
        ("{ [i]: 0 <= i < 100 }", "a[i] = 2*b[i]"),
        ("{ [i]: 0 <= i < n }", "a[b[i]] = a[b[i]] + 1 {atomic}"),
    ],
    ids=["recurrence", "reversal", "scatter", "tiny", "atomic"],
)
def test_what_is_not_proved_or_worth_it_stays(domain: str, code: str) -> None:
    data = [lp.GlobalArg("a", np.int32, shape="n" if "n" in domain else "100", for_atomic=True)]
    index = lp.GlobalArg("b", np.int32, shape=data[0].shape)
    knl = make(domain, code, *data, *([index] if "b[" in code else []))
    assert lp.autoschedule(knl) == knl


@pytest.mark.parametrize(("steps", "expected"), [(8, "t:unr"), (50, "i_inner:vec")])
def test_loops_in_order_go_through_lanes_unless_they_are_copied(steps: int, expected: str) -> None:
    code = """
    for i
        <> s = b[i]
        for t
            s = s*b[i] + t
        end
        out[i] = s
    end
    """
    domain = f"{{ [i, t]: 0 <= i < n and 0 <= t < {steps} }}"
    assert expected in tags(lp.autoschedule(make(domain, code, B, seq_dependencies=True)))


def test_transpositions_go_through_squares_of_each_matrix() -> None:
    domain = "{ [e, i, j]: 0 <= e < m and 0 <= i, j < n }"
    data = lp.GlobalArg("a, out", np.float32, shape="m, n, n")
    fast = lp.autoschedule(make(domain, "out[e, i, j] = a[e, j, i]", data))
    assert tags(fast) == "e:g.2 i_outer:g.1 j_inner_inner:vec j_outer:g.0"
    a = np.random.default_rng(0).random((2, 300, 300), np.float32)
    np.testing.assert_array_equal(fast(a=a)[1][0], a.transpose(0, 2, 1))


def test_loops_inside_of_time_run_on_threads() -> None:
    code = """
    for t
        b[i] = a[i] + 1         {id=b, dep=*}
        a[j] = b[n - 1 - j]     {id=a, dep=b}
    end
    """
    data = [lp.GlobalArg("a, b", np.float64, shape="n")]
    knl = make("{ [t, i, j]: 0 <= t < 3 and 0 <= i, j < n }", code, *data)
    fast = lp.autoschedule(knl)
    assert "i_outer:g.0 j_outer:g.0" in tags(fast)
    results = [{name: np.arange(20000.0) for name in "ab"} for _ in range(2)]
    for program, arrays in zip((knl, fast), results, strict=True):
        program(**arrays)
    np.testing.assert_array_equal(results[0]["a"], results[1]["a"])


def test_tags_stay() -> None:
    knl = make("{ [i, k]: 0 <= i < n and 0 <= k < 4 }", "out[i, k] = a[i, k]")
    assert lp.autoschedule(lp.tag_inames(knl, "i:g.0")) == lp.tag_inames(knl, "i:g.0")
    assert "k:unr" in tags(lp.autoschedule(lp.tag_inames(knl, "k:unr")))


def test_entry_points_are_scheduled_by_name() -> None:
    double = lp.make_function("{ [q]: 0 <= q < 8 }", "y[q] = 2*x[q]", name="double").copy(
        target=HOST
    )
    outer = make(
        "{ [e, q]: 0 <= e < n and 0 <= q < 8 }",
        "[q]: y[e, q] = double([q]: x[e, q])",
        lp.GlobalArg("x, y", np.float64, shape="n, 8"),
        name="outer",
    )
    program = lp.merge([outer, double])
    schedule = lp.find_schedule(program)
    assert "knl['outer']" in str(schedule)
    x = np.random.default_rng(0).random((9000, 8))
    np.testing.assert_array_equal(lp.autoschedule(program)(x=x)[1][0], 2 * x)


def test_a_plain_function_stays() -> None:
    knl = KERNELS["elementwise"].copy(target=lp.CTarget())
    assert lp.autoschedule(knl) is knl
    assert lp.autoschedule(knl, HOST).target == HOST


def test_other_devices_are_rejected() -> None:
    with pytest.raises(lp.KernelError, match="not a device"):
        lp.autoschedule(KERNELS["elementwise"], "gpu")


#: Loops in whose order iterations depend on each other, and what they write.
IN_ORDER = {
    "time": ("{ [t, i]: 0 <= t < 5 and 0 < i < 99 }", "u[t+1, i] = u[t, i-1] + u[t, i+1]"),
    "planes": ("{ [i, j]: 0 < i < 99 and 0 <= j < 98 }", "u[i, j] = u[i-1, j+1] + 1"),
}


@pytest.mark.parametrize("case", IN_ORDER)
def test_loops_in_order_stay_in_order(case: str) -> None:
    domain, code = IN_ORDER[case]
    u = lp.GlobalArg("u", np.float64, shape=(100, 100))
    knl = make(domain.replace("99", "n").replace("98", "n - 1"), code, u, assumptions="n <= 99")
    expected = np.random.default_rng(0).random((100, 100))
    found = expected.copy()
    knl(u=expected, n=99)
    lp.autoschedule(knl)(u=found, n=99)
    np.testing.assert_array_equal(found, expected)


def test_values_that_a_later_iteration_replaces_stay_on_one_thread() -> None:
    u = lp.GlobalArg("u", np.float64, shape="2, n + 1")
    code = ["u[0, i] = i {id=a}", "u[1, i] = u[0, i + 1] {dep=a}"]
    assert not list(lp.find_schedule(make("{ [i]: 0 <= i < n }", code, u)))


def test_a_step_in_time_is_a_launch() -> None:
    u = lp.GlobalArg("u", np.float64, shape="m + 1, n, n")
    domain = "{ [t, i, j]: 0 <= t < m and 0 < i, j < n - 1 }"
    code = "u[t+1, i, j] = u[t, i-1, j] + u[t, i, j+1]"
    host_code = lp.generate_code_v2(lp.autoschedule(make(domain, code, u))).host_code()
    assert host_code.count("for (int t = 0; t < m; ++t)") == 1
    assert "for (int j" not in host_code


def test_sums_of_few_terms_are_written_out() -> None:
    code = "out[i, j] = sum((k, l), w[k, l]*a[i + k, j + l])"
    knl = make("{ [i, j, k, l]: 0 <= i, j < n and 0 <= k, l < 5 }", code)
    assert "'l:unr, k:unr'" in str(lp.find_schedule(knl))


def stream(text: str, size: str = "n") -> lp.TranslationUnit:
    data = [lp.GlobalArg("x, out", np.float64, shape=size), ...]
    target = lp.ExecutableCTarget()
    return lp.make_kernel(f"{{ [i]: 0 <= i < {size} }}", text, data, target=target)


def test_large_results_are_stored_past_the_cache() -> None:
    knl = lp.autoschedule(stream("out[i] = 2*x[i]"))
    code = lp.generate_code_v2(knl).device_code()
    assert "if (n >= 4194304)" in code  # 64 MiB
    assert code.count("kgen_stream(&out[") == 1
    fixed = lp.generate_code_v2(lp.autoschedule(stream("out[i] = 2*x[i]", "10000000")))
    assert "kgen_stream(&out[" in fixed.device_code()


@pytest.mark.parametrize(
    ("text", "size"), [("out[i] = 2*x[i]", "100000"), ("out[i] = 2*out[i]", "10000000")]
)
def test_what_is_small_or_read_stays_in_the_cache(text: str, size: str) -> None:
    assert "streaming" not in str(lp.find_schedule(stream(text, size)))


@pytest.mark.parametrize("n", [1, 1023, 5001])
def test_both_versions_for_sizes_are_right(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "CACHED", 1 << 14)
    x = np.random.default_rng(0).random(n)
    _, (out,) = lp.autoschedule(stream("out[i] = 2*x[i]"))(x=x)
    np.testing.assert_array_equal(out, 2 * x)
