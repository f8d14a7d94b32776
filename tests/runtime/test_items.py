"""Work-items on the host: loops inside of a thread, which end where work-items wait."""

from __future__ import annotations

import runpy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernels import CASES

import kgen as lp

ONE, ALL = lp.ExecutableCTarget(threads=1), lp.ExecutableCTarget()
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
RANDOM = np.random.default_rng(0)


def on_groups(code: Any, target: Any = ALL, args: Any = (), **more: Any) -> Any:
    """Return a kernel over groups ``g`` of 16 work-items ``i``; ``j`` has the same values."""
    domain = "{ [g, i, j]: 0 <= g < n and 0 <= i, j < 16 }"
    a = lp.GlobalArg("a", np.float64, shape="n, 16")
    out = lp.GlobalArg("out", np.float64, shape="n, 16", is_input=False)
    knl = lp.make_kernel(domain, code, [a, out, *args, "..."], target=target, **more)
    return lp.tag_inames(knl, "g:g.0, i:l.0")


def body(knl: Any) -> str:
    return lp.generate_body(knl)


def tiled_product(target: Any, tile: int = 16) -> Any:
    arrays = lp.GlobalArg("a, b, c", np.float64, shape="n, n")
    code = "c[i, j] = sum(k, a[i, k]*b[k, j])"
    knl = lp.make_kernel("{ [i, j, k]: 0 <= i, j, k < n }", code, [arrays, "..."], target=target)
    knl = lp.split_iname(knl, "i", tile, outer_tag="g.1", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", tile, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "k", tile)
    knl = lp.add_prefetch(knl, "a", "i_inner, k_inner", default_tag="l.auto")
    return lp.add_prefetch(knl, "b", "k_inner, j_inner", default_tag="l.auto")


@pytest.mark.parametrize("target", [ONE, ALL, lp.ExecutableCTarget(threads=3)])
def test_a_tiled_product(target: Any) -> None:
    knl = tiled_product(target)
    for n in (1, 15, 16, 50):
        a, b = RANDOM.random((2, n, n))
        np.testing.assert_allclose(knl(a=a, b=b)[1][0], a @ b, rtol=1e-12)


def test_loops_of_instructions_are_around_those_of_work_items() -> None:
    code = body(lp.fix_parameters(tiled_product(ALL), n=64))
    assert "[256] __attribute__ ((aligned (64)));" in code
    loops = [line.split()[2] for line in code.splitlines() if "for (" in line]
    items = ["lid1", "lid0"]
    assert loops == [*items, "k_outer", *items, *items, "k_inner", *items, *items]
    assert code.count("#pragma omp simd simdlen(16)") == 5


def test_one_thread_has_no_openmp() -> None:
    assert "omp parallel" not in str(lp.generate_code_v2(tiled_product(ONE)))
    assert "#pragma omp parallel for" in str(lp.generate_code_v2(tiled_product(ALL)))


def test_values_live_across_barriers() -> None:
    code = """
    for g, i
        <> x = 2*a[g, i] {id=x}
        t[i] = a[g, i] {id=store}
        ... lbarrier {id=wait, dep=store:x}
        out[g, i] = x + t[15 - i] {dep=wait}
    end
    """
    tile = lp.TemporaryVariable("t", np.float64, shape=16, address_space="local")
    knl = on_groups(code, args=[tile])
    assert "double x[16]" in body(knl)
    a = RANDOM.random((3, 16))
    np.testing.assert_array_equal(knl(a=a)[1][0], 2 * a + a[:, ::-1])


@pytest.mark.parametrize("target", [ONE, ALL])
@pytest.mark.parametrize("barrier", ["... lbarrier {id=wait, dep=w}", ""])
def test_work_items_share_global_memory(barrier: str, target: Any) -> None:
    code = f"""
    for g, i
        out[g, i] = 2*a[g, i] {{id=w}}
        {barrier}
        more[g, i] = out[g, 15 - i] {{dep={"wait" if barrier else "w"}}}
    end
    """
    knl = on_groups(code, target, [lp.GlobalArg("more", np.float64, shape="n, 16")])
    a = RANDOM.random((3, 16))
    np.testing.assert_array_equal(knl(a=a)[1][1], 2 * a[:, ::-1])


@pytest.mark.parametrize("target", [ONE, ALL])
def test_a_plain_loop_reads_what_work_items_fetch(target: Any) -> None:
    def knl(fetch: str) -> Any:
        code = f"for g, i\n{fetch}\nend\nfor g, j\nout[g, j] = t[15 - j] {{dep=t}}\nend"
        tiles = lp.TemporaryVariable("s, t", np.float64, shape=16, address_space="local")
        return on_groups(code, target, [tiles])

    a = RANDOM.random((3, 16))
    np.testing.assert_array_equal(knl("t[i] = a[g, i] {id=t}")(a=a)[1][0], a[:, ::-1])
    turned = "s[i] = a[g, i] {id=s}\nt[i] = s[15 - i] {id=t, dep=s}"  # they wait for each other
    with pytest.raises(lp.ScheduleError, match=r"writes 'out' without using hardware axes l\.0"):
        body(knl(turned))


def test_barriers_in_a_loop() -> None:
    domains = ["{ [g, i]: 0 <= g < n and 0 <= i < 16 }", "{ [k]: 0 <= k < steps }"]
    code = """
    for g, i
        <> x = a[g, i] {id=x}
        for k
            t[i] = x {id=store, dep=x}
            x = t[(i + 1) % 16] + 1 {id=step, dep=store}
        end
        out[g, i] = x {dep=step}
    end
    """
    tile = lp.TemporaryVariable("t", np.float64, shape=16, address_space="local")
    arrays = lp.GlobalArg("a, out", np.float64, shape="n, 16")
    knl = lp.make_kernel(domains, code, [arrays, tile, "..."], target=ALL)
    knl = lp.tag_inames(knl, "g:g.0, i:l.0")
    a = RANDOM.random((3, 16))
    for steps in (0, 1, 5):
        expected = np.roll(a, -steps, axis=1) + steps
        np.testing.assert_allclose(knl(a=a, steps=steps)[1][0], expected)


@pytest.mark.parametrize("target", [ONE, ALL])
@pytest.mark.parametrize("tags", ["g:g.0, i:l.0, j:l.0", "g:l.0, i:g.0, j:g.0"])
@pytest.mark.parametrize("way", ["", "<> y = x {id=y, dep=x}"])
def test_values_pass_between_loops_on_one_axis(way: str, tags: str, target: Any) -> None:
    last = "y" if way else "x"
    code = f"""
    for g
        <> x = 2*a[g, i] {{id=x}}
        {way}
        out[g, j] = {last} {{dep={last}}}
    end
    """
    domain = "{ [g, i, j]: 0 <= g < 3 and 0 <= i, j < 16 }"
    arrays = lp.GlobalArg("a, out", np.float64, shape="3, 16")
    knl = lp.make_kernel(
        domain, code, [arrays, "..."], target=target, silenced_warnings="overwritten(x)"
    )
    knl = lp.tag_inames(knl, tags)
    a = RANDOM.random((3, 16))
    np.testing.assert_array_equal(knl(a=a)[1][0], 2 * a)


@pytest.mark.parametrize("target", [ONE, ALL])
def test_groups_have_local_memory_of_their_own_in_several_loops(target: Any) -> None:
    code = """
    t[i] = a[g, i] {id=t, inames=g:i}
    out[h, j] = t[j] {dep=t, inames=h:j}
    """
    tile = lp.TemporaryVariable("t", np.float64, shape=16, address_space="local")
    arrays = lp.GlobalArg("a, out", np.float64, shape="3, 16")
    domain = "{ [g, h, i, j]: 0 <= g, h < 3 and 0 <= i, j < 16 }"
    knl = lp.make_kernel(
        domain, code, [arrays, tile], target=target, silenced_warnings="overwritten(t)"
    )
    knl = lp.tag_inames(knl, "g:g.0, h:g.0, i:l.0, j:l.0")
    a = RANDOM.random((3, 16))
    np.testing.assert_array_equal(knl(a=a)[1][0], a)


@pytest.mark.parametrize("target", [ONE, ALL])
def test_a_reduction_over_groups_reads_tiles(target: Any) -> None:
    arrays = [lp.GlobalArg("k", np.float64, shape=8), lp.GlobalArg("a, out", np.float64, shape="m")]
    text, domains = (
        "out[i] = min(q, k[2*q - 2] + a[i])",
        ["{ [i]: 0 <= i < m }", "{ [q]: 1 <= q < 5 }"],
    )
    knl = lp.make_kernel(domains, text, [*arrays, "..."], target=target)
    knl = lp.split_iname(knl, "q", 6, outer_tag="g.0", inner_tag="l.0")
    knl = lp.add_prefetch(knl, "k", "q_inner", default_tag="l.auto", fetch_bounding_box=True)
    k, a = RANDOM.random(8), RANDOM.random(5)
    np.testing.assert_array_equal(knl(k=k, a=a)[1][0], k[::2].min() + a)


@pytest.mark.parametrize("target", [ONE, ALL])
def test_an_instruction_between_those_of_a_group_runs_in_every_group(target: Any) -> None:
    code = """
    <> x = a[0, g] {id=x}
    <> s = a[0, 0] {id=s, dep=x, inames=}
    out[0, g] = x + s {dep=x:s, inames=g}
    """
    arrays = lp.GlobalArg("a, out", np.float64, shape="1, 16")
    knl = lp.make_kernel("{ [g]: 0 <= g < 16 }", code, [arrays, "..."], target=target)
    a = RANDOM.random((1, 16))
    np.testing.assert_array_equal(lp.tag_inames(knl, "g:g.0")(a=a)[1][0], a + a[0, 0])


def test_what_is_the_same_for_all_work_items_is_computed_once() -> None:
    code = """
    for g
        <> scale = 2*g {id=scale}
        for i
            out[g, i] = a[g, i] {id=w}
            more[g, i] = scale*out[g, 15 - i] {dep=w:scale}
        end
    end
    """
    knl = on_groups(code, args=[lp.GlobalArg("more", np.float64, shape="n, 16")])
    assert body(knl).startswith("  int const scale = 2 * gid0;\n")
    a = RANDOM.random((3, 16))
    expected = 2 * np.arange(3)[:, None] * a[:, ::-1]
    np.testing.assert_array_equal(knl(a=a)[1][1], expected)


def test_what_work_items_fetch_in_turns_has_no_strides() -> None:
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i < n and 0 <= j < 3 }",
        "out[i] = sum(j, a[i + j])",
        [lp.GlobalArg("a", np.float64, shape="n + 2"), "..."],
        target=ALL,
    )
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0", slabs=(0, 1))
    knl = lp.add_prefetch(knl, "a", "i_inner, j", default_tag="l.auto")
    assert "for (int a_dim_0 = 0; a_dim_0 < 18; ++a_dim_0)" in body(knl)
    a = RANDOM.random(42)
    np.testing.assert_allclose(knl(a=a)[1][0], a[:-2] + a[1:-1] + a[2:])


@pytest.mark.parametrize("target", [ONE, ALL])
@pytest.mark.parametrize("change", [lp.realize_reduction, lp.preprocess_kernel])
@pytest.mark.parametrize("tag", ["l.0", "for", "ilp"])
def test_reductions_that_are_realized_by_hand(target: Any, change: Any, tag: str) -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 16*n }",
        "out = sum(i, a[i])",
        [lp.GlobalArg("a", np.int64, shape="16*n"), "..."],
        target=target,
        options={"insert_gbarriers": True},
        assumptions="n >= 1",
    )
    knl = change(lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag=tag))
    assert knl(a=np.arange(320))[1][0] == 320 * 319 // 2


def test_sums_over_work_items_beside_tiles() -> None:
    code = """
    for g
        t[i] = a[g, i] {id=store}
        <> total = sum(k, t[k]) {dep=store}
        out[g, j] = t[15 - j]/total
    end
    """
    domain = "{ [g, i, j, k]: 0 <= g < n and 0 <= i, j, k < 16 }"
    tile = lp.TemporaryVariable("t", np.float64, shape=16, address_space="local")
    arrays = lp.GlobalArg("a, out", np.float64, shape="n, 16")
    knl = lp.make_kernel(domain, code, [arrays, tile, "..."], target=ALL)
    knl = lp.tag_inames(knl, "g:g.0, i:l.0, j:l.0, k:l.0")
    a = RANDOM.random((3, 16))
    expected = a[:, ::-1] / a.sum(axis=1)[:, None]
    np.testing.assert_allclose(knl(a=a)[1][0], expected)


def test_atomic_updates_of_tiles() -> None:
    code = """
    for g
        t[b] = 0 {id=init}
        t[k[g, i]] = t[k[g, i]] + 1 {id=count, dep=init, atomic}
        out[g, c] = t[c] {dep=count}
    end
    """
    domain = "{ [g, i, b, c]: 0 <= g < n and 0 <= i < 64 and 0 <= b, c < 8 }"
    args = [
        lp.TemporaryVariable("t", np.int64, shape=8, address_space="local", for_atomic=True),
        lp.GlobalArg("k", np.int32, shape="n, 64"),
        lp.GlobalArg("out", np.int64, shape="n, 8"),
    ]
    knl = lp.make_kernel(domain, code, [*args, "..."], target=ALL)
    knl = lp.tag_inames(knl, "g:g.0, i:l.0, b:l.0, c:l.0")
    k = RANDOM.integers(0, 8, (5, 64), dtype=np.int32)
    expected = [np.bincount(row, minlength=8) for row in k]
    np.testing.assert_array_equal(knl(k=k)[1][0], expected)


def test_threads_keep_large_tiles_of_their_own() -> None:
    knl = tiled_product(ALL, tile=128)
    assert body(knl).count("static _Thread_local double ") == 3
    a, b = RANDOM.random((2, 200, 200))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda scale: knl(a=scale * a, b=b)[1][0], range(8)))
    for scale, result in enumerate(results):
        np.testing.assert_allclose(result, scale * a @ b, rtol=1e-12)


def test_explain_tells_of_loops_between_barriers() -> None:
    text = str(lp.explain(tiled_product(ALL)))
    assert "groups of 16 x 16 work-items, on all threads" in text
    assert "/* lid0: loops between barriers, " in text


def test_c_code_cannot_name_what_becomes_an_array() -> None:
    code = """
    for g, i
        <> x = 2*a[g, i] {id=x}
        t[i] = a[g, i] {id=store}
        ... lbarrier {id=wait, dep=store:x}
    end
    """
    more = "out[16*g + i] = x + t[15 - i];"
    insn = lp.CInstruction(
        "g, i", more, "x, t", assignees="out[g, i]", depends_on=frozenset({"wait"})
    )
    tile = lp.TemporaryVariable("t", np.float64, shape=16, address_space="local")
    knl = on_groups([code, insn], args=[tile])
    with pytest.raises(lp.KgenError, match="'x' in instruction 'insn' cannot be rewritten"):
        lp.generate_code_v2(knl)


def of_benchmark(name: str) -> Any:
    return CASES[name].build(lp, min(CASES[name].size, 20))


def of_example(name: str) -> Any:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))["kernels"]()["opencl"]


SCHEDULED = [
    *((of_benchmark, n) for n in ("transpose", "matmul", "laplacian", "dg", "prefetches")),
    *((of_example, n) for n in ("compact", "dg", "histogram", "laplacian", "nbody", "reduce")),
]


@pytest.mark.parametrize("threads", [1, None])
@pytest.mark.parametrize(("find", "name"), SCHEDULED)
def test_schedules_of_devices(find: Any, name: str, threads: int | None) -> None:
    unit = find(name).copy(target=lp.ExecutableCTarget(threads=threads))
    kernel = unit.default_entrypoint
    values = [arg.name for arg in kernel.args if isinstance(arg, lp.ValueArg)]
    sizes = dict.fromkeys({*values, *kernel.all_params()}, 32)
    written = unit.with_kernel(kernel.origin.copy(target=ONE))
    lp.auto_test_vs_ref(written, test_prog=unit, parameters=sizes, quiet=True, warmup_rounds=0)
