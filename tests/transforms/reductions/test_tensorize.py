"""Sums of products that warps compute with tensor cores."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import islpy as isl
import numpy as np
import pytest
from pymbolic.mapper.evaluator import evaluate

import kgen as lp
from kgen.ir.expr import to_text
from kgen.ir.fragments import TENSOR_SHAPES, Fragment, TensorShape
from kgen.ir.kernel import LoopKernel
from kgen.lowering import lower
from tests.cuda_host import HostCuda
from tests.fragments import ptx_a, ptx_b, ptx_c
from tests.oracle import Oracle
from tests.random.device import Device
from tests.transforms.helpers import kernel_of
from tests.warpgroups import TURNED, warpgroup_product

CUDA = lp.CudaTarget()
BFLOAT16 = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
TEXT = "c[i, j] = sum(k, a[i, k]*b[k, j])"
LENGTHS = {"i": 16, "j": 16, "k": 32}
SMALL: Any = {"i": 16, "j": 8, "k": 16}
ITSELF = "c[i, j] = c[i, j] + c[i, k]*b[k, j] {id=insn, inames=i:j:k}"
#: What is fetched of the first factor.
A = "i_outer, i_inner_reg, lane, k_inner"


def product(
    dtype: Any = np.float16, text: str = TEXT, target: Any = CUDA, **lengths: int
) -> lp.TranslationUnit:
    """Return a product of small matrices as it is written."""
    lengths = {**LENGTHS, **lengths}
    sums = np.float64 if dtype == np.float64 else np.float32
    return lp.make_kernel(
        "{{ [i, j, k]: 0 <= i < {i} and 0 <= j < {j} and 0 <= k < {k} }}".format(**lengths),
        text,
        [lp.GlobalArg("a, b", dtype, shape=lp.auto), lp.GlobalArg("c", sums, shape=lp.auto), "..."],
        target=target,
    )


def tiled(
    dtype: Any = np.float16,
    shape: str = "m16n8k16",
    target: Any = CUDA,
    text: str = TEXT,
    precision: str | None = None,
    **lengths: int,
) -> lp.TranslationUnit:
    """Return one in which a warp has tiles next to each other."""
    rows, columns, depth = map(int, re.findall(r"\d+", shape))
    knl = product(dtype, text, target, **lengths)
    for name, length in (("i", rows), ("j", columns)):
        knl = lp.split_iname(knl, name, length, outer_tag="ilp")
    knl = lp.split_iname(knl, "k", depth)
    return lp.tensorize(knl, "insn", "i_inner, j_inner, k_inner", shape, precision=precision)


def fetched(knl: lp.TranslationUnit, *, is_aligned: bool = True) -> lp.TranslationUnit:
    """Fetch both factors to local memory, a step of the loop over ``k`` at a time."""
    row = ("i_inner_reg",) if "i_inner_reg" in kernel_of(knl).inames else ()
    knl = lp.add_prefetch(knl, "a", ("i_outer", *row, "lane", "k_inner"))
    knl = lp.add_prefetch(knl, "b", ("k_inner", "j_outer", "lane", "j_inner_reg"))
    return lp.align_temporaries(knl, "a_fetch, b_fetch", 16) if is_aligned else knl


def operands(dtype: Any, **lengths: int) -> tuple[Any, Any, Any]:
    """Return factors of small integers, and a place for what they have to give."""
    lengths = {**LENGTHS, **lengths}
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, (lengths[x], lengths[y])).astype(dtype) for x, y in ("ik", "kj"))
    sums = np.float64 if dtype == np.float64 else np.float32
    return a, b, np.full((lengths["i"], lengths["j"]), np.nan, sums)


# -- layouts -------------------------------------------------------------------------------------


def elements(fragment: Fragment, lane: int) -> list[tuple[int, int]]:
    found = map(fragment.element, range(fragment.count))
    return [(evaluate(r, {"lane": lane}), evaluate(c, {"lane": lane})) for r, c in found]


@pytest.mark.parametrize("shape", [s for s in TENSOR_SHAPES.values() if s.a], ids=str)
def test_lanes_hold_what_the_tables_of_ptx_say(shape: TensorShape) -> None:
    assert shape.a is not None
    assert shape.b is not None
    for fragment, ptx, rows, columns in (
        (shape.a, ptx_a, shape.rows, shape.depth),
        (shape.b, ptx_b, shape.depth, shape.columns),
        (shape.c, ptx_c, shape.rows, shape.columns),
    ):
        held = [elements(fragment, lane) for lane in range(32)]
        assert held == [ptx(shape, lane) for lane in range(32)]
        every = [element for lane in held for element in lane]
        assert sorted(every) == [(r, c) for r in range(rows) for c in range(columns)]


# -- code ----------------------------------------------------------------------------------------

STEPS = """\
  for (int k_outer = 0; k_outer < 2; ++k_outer)
  {
    unsigned const a_lanes[4] = {*(unsigned const *) &a[32 * (lid(x) / 4) + 16 * k_outer + \
2 * (lid(x) % 4)], *(unsigned const *) &a[32 * (lid(x) / 4) + 16 * k_outer + 2 * (lid(x) % 4) + \
256], *(unsigned const *) &a[32 * (lid(x) / 4) + 16 * k_outer + 2 * (lid(x) % 4) + 8], \
*(unsigned const *) &a[32 * (lid(x) / 4) + 16 * k_outer + 2 * (lid(x) % 4) + 264]};
"""


def test_fragments_are_shared_by_neighbouring_tiles() -> None:
    code = lp.generate_body(tiled())
    assert STEPS in code
    assert code.count("a_lanes[4]") == 1
    assert code.count("kgen_m16n8k16_float16(") == 2


def test_pairs_of_hinted_factors_are_streaming_loads() -> None:
    code = lp.generate_body(lp.tag_arrays(tiled(), "a", "!streaming_load"))
    assert STEPS.replace("*(unsigned const *) &a", "__ldcs((unsigned const *) &a") not in code
    assert code.count("__ldcs((unsigned const *) &a[") == 4
    assert "*(unsigned const *) &a[" not in code.replace("__ldcs((unsigned", "")


def test_rows_in_local_memory_are_loaded_at_once() -> None:
    code = lp.generate_body(fetched(tiled()))
    assert "kgen_load_4x8x8(a_lanes, &a_fetch[16 * lid(x) - 248 * (lid(x) / 16)]);" in code
    assert (
        "kgen_load_2x8x8_transposed(b_lanes1, &b_fetch[128 * (lid(x) / 8 % 2) + "
        "16 * (lid(x) % 8) + 8]);"
    ) in code
    assert "kgen_load" not in lp.generate_body(fetched(tiled(), is_aligned=False))


def test_split_factors_have_three_products_the_smallest_first() -> None:
    code = lp.generate_body(tiled(np.float32, "m16n8k8", precision="3xtf32"))
    assert "kgen_split_2(b_lanes1, b_rest1, b[" in code
    products = re.findall(r"kgen_m16n8k8_tf32\(kgen_sums(\d)\[0\], .*, (\w+), (\w+)\);", code)
    assert products == [
        ("0", "a_rest", "b_lanes"),
        ("1", "a_rest", "b_lanes1"),
        ("0", "a_lanes", "b_rest"),
        ("1", "a_lanes", "b_rest1"),
        ("0", "a_lanes", "b_lanes"),
        ("1", "a_lanes", "b_lanes1"),
    ]


def with_unrolled_terms(**lengths: Any) -> lp.TranslationUnit:
    """Return a product of split factors, whose steps all follow each other."""
    knl = tiled(np.float32, "m16n8k8", precision="3xtf32", **lengths)
    return lp.tag_inames(knl, "k_outer:unr")


def added_at(code: str) -> list[str]:
    """Return the partial sums to which steps add, and ``+`` where these are added."""
    return re.findall(r"kgen_m16n8k8_tf32\(kgen_sums(\d)\[0\]|kgen_add_sums\(", code)


def test_partial_sums_have_the_terms_of_consecutive_steps() -> None:
    code = lp.generate_body(with_unrolled_terms())
    assert added_at(code) == ["0", "1"] * 4 * 3 + ["", ""]
    assert code.count("kgen_split_4(") == 4


def test_few_partial_sums_are_computed_in_turn() -> None:
    code = lp.generate_body(with_unrolled_terms(i=48, k=16))
    assert added_at(code) == ["0", "1", "2", "3"] * 2 * 3 + [""] * 4 + ["4", "5"] * 2 * 3 + [""] * 2


def test_partial_sums_have_at_most_64_terms() -> None:
    code = lp.generate_body(with_unrolled_terms(i=16, j=8, k=72))
    assert sorted(added_at(code)) == ["", ""] + ["0"] * 8 * 3 + ["1"] * 3


@pytest.mark.parametrize("capability", [80, 90])
def test_nvcc_compiles_steps(capability: int, nvcc: str, tmp_path: Path) -> None:
    of_all = [tiled(np.float16), fetched(tiled(BFLOAT16)), tiled(np.float64, "m8n8k4")]
    of_all += [tiled(np.float32, "m16n8k8", precision="tf32")]
    of_all += [tiled(np.float32, f"m16n8k{depth}", precision="3xtf32") for depth in (4, 8)]
    if capability == 90:
        of_all = [tiled(np.float64, f"m16n8k{depth}") for depth in (4, 8, 16)]
        of_all += [warpgroup_product(64), warpgroup_product(8, TURNED)]
    sources = [lp.generate_code_v2(knl).device_code() for knl in of_all]
    for number, source in enumerate(sources):
        named = source.replace("kgen_kernel", f"kernel{number}")
        (tmp_path / f"{number}.cu").write_text(named)
    (tmp_path / "all.cu").write_text(_merged(tmp_path, len(sources)))
    architecture = f"sm_{capability}{'a' if capability == 90 else ''}"
    command = [nvcc, f"-arch={architecture}", "-cubin", "-w", "-o", "all.cubin", "all.cu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _merged(folder: Path, count: int) -> str:
    """Put programs into one, each in a namespace of its own, behind the headers of all."""
    texts = [(folder / f"{number}.cu").read_text() for number in range(count)]
    headers = dict.fromkeys(re.findall(r"^#.*$", "\n".join(texts), re.MULTILINE))
    bodies = (re.sub(r"^#.*$", "", text, flags=re.MULTILINE) for text in texts)
    parts = (f"namespace part{n} {{ {body} }}" for n, body in enumerate(bodies))
    return "\n".join([*headers, *parts])


# -- results -------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_turned", [False, True])
def test_lanes_of_threads_compute_the_product(is_turned: bool, tmp_path: Path) -> None:
    """Elements of factors are put in pairs; columns of turned ones are loaded as rows."""
    a, b, c = operands(np.float16)
    knl = tiled(text="c[i, j] = sum(k, a[k, i]*b[j, k])" if is_turned else TEXT)
    knl = fetched(knl, is_aligned=is_turned)
    loads = re.findall(r"kgen_load_\w+", lp.generate_body(knl))
    assert set(loads) == ({"kgen_load_4x8x8_transposed", "kgen_load_2x8x8"} if is_turned else set())
    given = [np.ascontiguousarray(part.T) if is_turned else part for part in (a, b)]
    assert HostCuda(knl, tmp_path)({"a": given[0], "b": given[1], "c": c}, resident=2)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(c, expected.astype(np.float16).astype(np.float32))


def fractions() -> tuple[Any, Any]:
    """Return factors whose bits are all in use."""
    rng = np.random.default_rng(5)
    return rng.random((16, 32), np.float32) - np.float32(0.5), rng.random((32, 16), np.float32)


def error_of(c: Any) -> float:
    """Return the greatest error of a product, in units of the greatest rounding error of a term."""
    a, b = (part.astype(np.float64) for part in fractions())
    return float((np.abs(c - a @ b) / (np.abs(a) @ np.abs(b))).max()) * 2**24


#: The products of one step, one of which a mutant leaves out.
PARTS = ("a_rest, b_lanes", "a_lanes, b_rest", "a_lanes, b_lanes")


@pytest.mark.parametrize("lost", [None, *PARTS])
def test_products_of_split_factors_are_those_of_float32(lost: str | None, tmp_path: Path) -> None:
    def change(code: str) -> str:
        return code if lost is None else re.sub(rf"kgen_m16n8k8_tf32\(.*{lost}\d?\);", ";", code)

    knl = tiled(np.float32, "m16n8k8", precision="3xtf32")
    assert lp.verify(knl).ok
    (a, b), c = fractions(), np.zeros((16, 16), np.float32)
    assert HostCuda(knl, tmp_path, change)({"a": a, "b": b, "c": c}, resident=2)
    assert (error_of(c) < 16) == (lost is None)


def test_partial_sums_are_those_of_float32(tmp_path: Path) -> None:
    (a, b), c = fractions(), np.zeros((16, 16), np.float32)
    assert lp.verify(knl := with_unrolled_terms()).ok
    assert HostCuda(knl, tmp_path)({"a": a, "b": b, "c": c}, resident=2)
    assert error_of(c) < 4


def interpreted(kernel: LoopKernel, *, reverse: bool = False, **lengths: int) -> bool:
    """Run a kernel in Python; tell whether it computes the product."""
    a, b, _ = operands(np.float64, **lengths)
    lowered = lower(kernel)
    memory: dict[str, Any] = {"c": {}}
    for name, array in (("a", a), ("b", b)):
        memory[name] = {index: float(value) for index, value in np.ndenumerate(array)}
    Device(lowered.kernel, {}, reverse=reverse).run(lowered.host, lowered.functions, memory)
    return bool(memory["c"] == dict(np.ndenumerate(a @ b)))


@pytest.mark.parametrize("shape", ["m8n8k4", "m16n8k8"])
def test_the_interpreter_exchanges_fragments(shape: str) -> None:
    kernel = kernel_of(fetched(tiled(np.float64, shape, **SMALL)))
    assert interpreted(kernel, **SMALL)
    assert interpreted(kernel, reverse=True, **SMALL)
    lowered = lower(kernel)
    Oracle(lowered.kernel, {}).check(lowered.functions)


@pytest.mark.parametrize("precision", ["tf32", "3xtf32"])
@pytest.mark.parametrize("target", [lp.ExecutableCTarget()])
def test_other_targets_compute_the_same_numbers_in_plain_loops(target: Any, precision: str) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.random((16, 32), np.float32), rng.random((32, 16), np.float32)
    plain = product(np.float32, target=target)
    knl = tiled(np.float32, "m16n8k8", target, precision=precision)
    _, (expected,) = plain(a=a, b=b)
    _, (c,) = knl(a=a, b=b)
    np.testing.assert_allclose(c, expected, rtol=1e-6)


def test_devices_compute_the_product(device: Any) -> None:
    a, b, _ = operands(np.float64)
    _, (c,) = device(fetched(tiled(np.float64, "m8n8k4")), a=a, b=b)
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize(
    ("dtype", "shape", "is_aligned"),
    [
        (np.float16, "m16n8k16", True),
        (np.float16, "m16n8k16", False),
        (BFLOAT16, "m16n8k16", True),
        (BFLOAT16, "m16n8k8", False),
        (np.float32, "m16n8k8", True),
        (np.float64, "m16n8k16", True),
    ],
)
def test_tensor_cores_compute_the_product(
    dtype: Any, shape: str, is_aligned: bool, cuda_context: Any
) -> None:
    if cuda_context.get_device().compute_capability() < (9, 0) and dtype == np.float64:
        pytest.skip("this device has no such shape of float64")
    a, b, _ = operands(dtype)
    precision = "tf32" if dtype == np.float32 else None
    knl = tiled(dtype, shape, lp.PyCudaTarget(), precision=precision)
    _, (c,) = fetched(knl, is_aligned=is_aligned)(a=a, b=b)
    expected = (a.astype(np.float64) @ b.astype(np.float64)).astype(dtype)
    np.testing.assert_array_equal(c, expected.astype(c.dtype))


@pytest.mark.parametrize("terms", ["for", "unr"])
@pytest.mark.parametrize("shape", ["m16n8k4", "m16n8k8"])
def test_tensor_cores_compute_products_of_split_factors(
    shape: str, terms: str, cuda_context: Any
) -> None:
    a, b = fractions()
    knl = fetched(tiled(np.float32, shape, lp.PyCudaTarget(), precision="3xtf32"))
    _, (c,) = lp.tag_inames(knl, f"k_outer:{terms}")(a=a, b=b)
    assert error_of(c) < 16


def test_sums_in_variables_of_the_user() -> None:
    text = """
    for i, j
      <float64> s = 0 {id=first}
      s = s + b[k, j]*a[i, k] {id=insn, inames=i:j:k, dep=first}
      c[i, j] = 2*s {dep=insn}
    end
    """
    knl = product(np.float64, text, i=8, j=8, k=4)
    knl = lp.tensorize(knl, "insn", "i, j, k", "m8n8k4", lane="t")
    assert "kgen_m8n8k4_float64(s[0], s[1], a_lanes, b_lanes);" in lp.generate_body(knl)
    assert lp.verify(knl).ok


def test_a_pipeline_of_copies_feeds_tensor_cores(tmp_path: Path) -> None:
    knl = product(BFLOAT16, k=64)
    for name, length in (("i", 16), ("j", 8)):
        knl = lp.split_iname(knl, name, length, outer_tag="ilp")
    knl = lp.split_iname(lp.split_iname(knl, "k", 32), "k_inner", 16, outer_tag="unr")
    for name, swept in (("a", "i_outer, i_inner, {}"), ("b", "{}, j_outer, j_inner")):
        loops = swept.format("k_inner_outer, k_inner_inner")
        knl = lp.add_prefetch(
            knl, name, loops, f"{name}0, {name}1", None, fetch_outer_inames="k_outer"
        )
        knl = lp.split_iname(knl, f"{name}1", 8, inner_tag="vec")
        knl = lp.join_inames(knl, f"{name}0, {name}1_outer", name * 2)
        knl = lp.split_iname(knl, name * 2, 32, inner_tag="l.0")
    knl = lp.tensorize(knl, "insn", "i_inner, j_inner, k_inner_inner")
    knl = lp.align_temporaries(knl, "a_fetch, b_fetch", 16)
    knl = lp.tag_array_axes(knl, "a_fetch, b_fetch", "swizzle:64")
    knl = lp.pipeline(lp.async_copy(knl, "a_fetch_rule, b_fetch_rule"), "k_outer", 2)
    code = lp.generate_body(knl)
    assert "sizeof(kgen_bfloat16x8)" in code
    assert "kgen_load_2x8x8_transposed" in code
    a, b, c = operands(BFLOAT16, k=64)
    assert HostCuda(knl, tmp_path)({"a": a, "b": b, "c": c}, resident=2)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(c, expected.astype(BFLOAT16).astype(np.float32))


# -- proofs --------------------------------------------------------------------------------------


def mutants(kernel: LoopKernel) -> Iterator[tuple[str, LoopKernel]]:
    """Give the kernel with one thing wrong: lanes, factors, or the steps of the sum."""
    insn = kernel.id_to_insn["insn"]
    assert isinstance(insn, lp.Assignment)
    for name, old, new in (
        ("lanes of other rows", "lane // 4", "lane // 8"),
        ("lanes of other columns", "lane % 4", "lane // 2 % 4"),
        ("one factor twice", "b[k", "a[k"),
        ("a step done twice", "k_outer*4", "0*k_outer"),
    ):
        text = to_text(insn.expression)
        assert old in text
        changed = insn.copy(expression=lp.symbolic.parse(text.replace(old, new)))
        yield name, kernel.copy(instructions=[changed])
    texts = [str(domain).replace("k_outer <= 1", "k_outer <= 0") for domain in kernel.domains]
    assert texts != [str(domain) for domain in kernel.domains]
    yield "a step left out", kernel.copy(domains=[isl.BasicSet(text) for text in texts])


def test_mutants_are_found() -> None:
    kernel = kernel_of(tiled(np.float64, "m8n8k4", i=8, j=8, k=8))
    assert lp.verify(kernel).ok
    found = {name for name, mutant in mutants(kernel) if not lp.verify(mutant).ok}
    assert found == {name for name, _ in mutants(kernel)}


@pytest.mark.parametrize(
    ("factor", "row", "column"), [("a", "lane % 8", "lane // 8"), ("b", "lane // 8", "lane % 8")]
)
def test_wrong_layouts_give_wrong_numbers(
    factor: str, row: str, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = TENSOR_SHAPES["m8n8k4", "float64"]
    change: Any = {factor: Fragment(row, column, 1)}
    wrong = replace(shape, **change)
    monkeypatch.setitem(TENSOR_SHAPES, (shape.name, shape.operands), wrong)
    assert not interpreted(kernel_of(tiled(np.float64, "m8n8k4", **SMALL)), **SMALL)


def test_what_other_lanes_have_stored_is_waited_for() -> None:
    knl = lp.make_kernel(
        ["{ [i, j, k]: 0 <= i, j < 8 and 0 <= k < 4 }", "{ [l, f]: 0 <= l < 32 and 0 <= f < 4 }"],
        """
        t[l // 4, l % 4, f] = a[l // 4, f] {id=store}
        c[i, j] = sum(k, t[i, 0, k]*b[k, j]) {id=insn, dep=store}
        """,
        [
            lp.GlobalArg("a, b, c", np.float64, shape="8, 8"),
            lp.TemporaryVariable(
                "t", np.float64, shape="8, 4, 4", address_space=lp.AddressSpace.LOCAL
            ),
            "...",
        ],
        target=CUDA,
    )
    knl = lp.tag_inames(lp.tensorize(knl, "insn", "i, j, k", "m8n8k4"), "l:l.0")
    kernel = kernel_of(knl)
    insn = kernel.id_to_insn["insn"]
    assert isinstance(insn, lp.Assignment)
    own = lp.symbolic.parse(to_text(insn.expression).replace(", 0, k]", ", lane % 4, k]"))
    others = [insn.copy(expression=own) if each is insn else each for each in kernel.instructions]
    kernel = kernel.copy(instructions=others)
    assert "__syncwarp();  // for t" in lp.generate_body(kernel)
    assert "barrier" not in lp.generate_body(kernel.copy(target=lp.OpenCLTarget()))


# -- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"shape": "m8n8k8"}, "tensor cores have no shape 'm8n8k8'"),
        ({"inames": "i, j"}, "tensorize takes three loops"),
        ({"inames": "j, i, k"}, "the loop 'j' must have 16 iterations, from 0"),
        ({"insn": "x"}, "there is no instruction 'x'"),
        ({"dtype": np.int32}, "is not a product of two numbers of float16 or bfloat16"),
        ({"dtype": np.float32, "shape": "m16n8k8", "k": 8}, "need precision='tf32'"),
        ({"precision": "tf32"}, "of no type, as m16n8k16 requires"),
        ({"precision": "3xtf32", "dtype": np.float64}, "of no type, as m16n8k16 requires"),
        (
            {"precision": "3xtf32", "dtype": np.float32, "shape": "m64n8k8", "i": 64, "k": 8},
            "warpgroups, as of m64n8k8, read factors from local memory as they are",
        ),
        ({"precision": "fp8"}, "there is no precision 'fp8' of tensor cores"),
        ({"k": 24}, "the loop 'k' must have 16 iterations, from 0, for m16n8k16, but has 24"),
        ({"text": "c[i, j] = sum(k, a[i, k])"}, "is not a product of two numbers"),
        ({"text": "c[i, j] = sum(k, a[i, k]*b[k, i])"}, "'b[k, i]' uses i, k of them"),
        ({"text": "c[i, j] = max(k, a[i, k]*b[k, j])"}, "it has no sums over 'k'"),
        (
            {"text": ITSELF, "dtype": np.float64},
            "it reads factors from 'c', which is also its accumulator",
        ),
        ({"text": f"if i > 2\n{TEXT} {{id=insn}}\nend"}, "it has the condition 'i > 2'"),
    ],
)
def test_what_is_no_product(change: dict[str, Any], error: str) -> None:
    lengths = {"i": 16, "j": 8, "k": 16, **{n: change[n] for n in "ijk" if n in change}}
    knl = product(change.get("dtype", np.float16), change.get("text", TEXT), **lengths)
    with pytest.raises(lp.KgenError, match=re.escape(error)):
        lp.tensorize(
            knl,
            change.get("insn", "insn"),
            change.get("inames", "i, j, k"),
            change.get("shape", "m16n8k16"),
            precision=change.get("precision"),
        )


def test_loops_with_remainders_are_refused() -> None:
    knl = lp.make_kernel("{ [i, j, k]: 0 <= i, j, k < n }", TEXT, target=CUDA)
    knl = lp.add_dtypes(knl, {"a, b": np.float16, "c": np.float32})
    for name, length in (("i", 16), ("j", 8), ("k", 16)):
        knl = lp.split_iname(knl, name, length)
    inames = "i_inner, j_inner, k_inner"
    with pytest.raises(
        lp.KgenError, match=r"'i_inner' .* has fewer in some cases[\s\S]*n mod 16 = 0"
    ):
        lp.tensorize(knl, "insn", inames)
    knl = lp.tensorize(lp.assume(knl, "n mod 16 = 0"), "insn", inames)
    assert "kgen_m16n8k16_float16(" in lp.generate_body(knl)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (
            lambda knl: lp.tag_inames(lp.add_prefetch(knl, "a", A, None, None), "a_dim_0:l.0"),
            "the 32 lanes 'lane' are no warp of work-groups of (64,) work-items",
        ),
        (
            lambda knl: lp.add_prefetch(
                knl, "a", "k_inner", None, None, temporary_address_space=lp.AddressSpace.PRIVATE
            ),
            "'a_fetch' is in registers, but other lanes need its values",
        ),
    ],
)
def test_what_lanes_cannot_do_together(change: Any, error: str) -> None:
    with pytest.raises(lp.KgenError, match=re.escape(error)):
        lp.generate_body(change(tiled(i=64)))
