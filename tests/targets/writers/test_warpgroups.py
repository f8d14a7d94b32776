"""Products by warpgroups: layouts in shared memory, what waits, and what is refused."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ir.expr import to_text
from kgen.ir.fragments import TENSOR_SHAPES
from tests.cuda_host import HostCuda
from tests.fragments import ptx_c
from tests.transforms.helpers import kernel_of
from tests.transforms.reductions.test_tensorize import elements, product
from tests.warpgroups import BY_ROWS, TEXT, TURNED, warpgroup_product

BFLOAT16 = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)


def arrays(knl: lp.TranslationUnit, dtype: Any = np.float16) -> dict[str, Any]:
    """Return factors of small integers, and a place for what they have to give."""
    rng = np.random.default_rng(1)
    args = {arg.name: arg for arg in kernel_of(knl).args if isinstance(arg, lp.ArrayArg)}
    shapes = {name: tuple(map(int, args[name].shape)) for name in "abc"}
    given = {name: rng.integers(-4, 5, shapes[name]).astype(dtype) for name in "ab"}
    return {**given, "c": np.full(shapes["c"], np.nan, np.float32)}


def is_right(given: dict[str, Any], text: str) -> bool:
    a, b = (given[name].astype(np.float32) for name in "ab")
    expected = {TEXT: a, BY_ROWS: a, TURNED: a.T}[text] @ (b if text == TEXT else b.T)
    return bool(np.array_equal(given["c"], expected.astype(given["a"].dtype).astype(np.float32)))


# -- layouts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [8, 24, 256])
def test_lanes_hold_the_sums_that_the_table_of_ptx_says(columns: int) -> None:
    shape = TENSOR_SHAPES[f"m64n{columns}k16", "bfloat16"]
    held = [elements(shape.c, lane) for lane in range(0, 128, 5)]
    assert held == [ptx_c(shape, lane) for lane in range(0, 128, 5)]


@pytest.mark.parametrize(
    ("n", "text", "factor", "leading", "stride"),
    [
        (64, TEXT, "a", 16, 1024),
        (64, TEXT, "b", 16, 1024),
        (128, TEXT, "b", 8192, 1024),
        (64, TURNED, "a", 16, 1024),
        (8, TURNED, "b", 16, 16),
        (16, TURNED, "b", 16, 1024),
    ],
)
def test_descriptors_say_where_rows_are(
    n: int, text: str, factor: str, leading: int, stride: int
) -> None:
    code = lp.generate_body(warpgroup_product(n, text, stages=1))
    found = re.findall(rf"kgen_matrix\(&{factor}_fetch\[.*?\], (\d+), (\d+)\)", code)
    assert found == [(str(leading), str(stride))] * 4


STEPS = """\
  kgen_begin_4(SUMS);
  kgen_m64n8k16_float16_a(SUMS, kgen_matrix(&a_fetch[0], 16, 1024), \
kgen_matrix(&b_fetch[0], 16, 16));
  kgen_m64n8k16_float16_a(SUMS, kgen_matrix(&a_fetch[1024], 16, 1024), \
kgen_matrix(&b_fetch[16], 16, 16));
"""


def test_steps_go_on_while_later_tiles_are_fetched() -> None:
    code = lp.generate_body(warpgroup_product(8, TURNED))
    sums = ", ".join(f"acc_k_outer_k_inner_outer_k_inner_inner[{n}]" for n in range(4))
    assert STEPS.replace("SUMS", sums) in code
    code = code[code.index("wait_prior") :]
    before = ("__syncthreads", "see_stores", "begin", "_commit()")
    places = [0]
    for word in (*before, "memcpy_async", "finish", "begin"):
        places.append(code.index(word, places[-1]))
    assert code.index("__pipeline_commit") < places[-2]


@pytest.mark.parametrize(("stages", "ahead", "overlaps"), [(3, 1, True), (3, 2, False)])
def test_steps_overlap_those_of_the_next_iteration(
    stages: int, ahead: int, *, overlaps: bool
) -> None:
    """They read a tile until then: what is fetched in its place has to be two iterations later."""
    code = lp.generate_body(warpgroup_product(8, TURNED, terms=512, stages=stages, ahead=ahead))
    body, _, behind = code[code.index("for (int k_outer = 0") :].partition("\n  }\n")
    assert ("kgen_finish_previous();" in body) == overlaps
    assert ("kgen_finish_4(" in body) != overlaps
    assert behind.startswith("  kgen_finish_4(") == overlaps


# -- results -------------------------------------------------------------------------------------

#: What a mutant leaves out: each call of it depends on a variable.
LEFT_OUT = (
    r"kgen_finish_\d+\(.*\)",
    r"kgen_finish_previous\(\)",
    r"kgen_commit\(\)",
    r"kgen_see_stores\(\)",
    r"__syncthreads\(\)",
    r"kgen_begin_\d+\(.*\)",
    r"__pipeline_wait_prior\(\d+\)",
)


def with_mutants(code: str) -> str:
    head, brace, body = code.partition("__launch_bounds__")
    for number, call in enumerate(LEFT_OUT, 1):
        body = re.sub(rf"^( *)({call});", rf"\1if (mutant != {number}) \2;", body, flags=re.M)
    return f'extern "C" {{ int mutant = 0; }}\n{head}{brace}{body}'


def test_all_mutants_of_a_pipeline_are_found(tmp_path: Path) -> None:
    """Terms are neighbours in local memory in one factor, and lines in the other."""
    knl = warpgroup_product(16, dtype=BFLOAT16, rows=64, terms=384, stages=3, ahead=1)
    run, wrong = HostCuda(knl, tmp_path, with_mutants), []
    mutant = ctypes.c_int.in_dll(run.library, "mutant")
    for number in range(len(LEFT_OUT) + 1):
        mutant.value = number
        given = arrays(knl, BFLOAT16)
        ends = run(given, resident=1)
        wrong.append(not ends or not is_right(given, TEXT))
    assert wrong == [False] + [True] * len(LEFT_OUT)


def test_factors_of_float32_lose_their_last_bits(tmp_path: Path) -> None:
    knl = warpgroup_product(16, BY_ROWS, np.float32, rows=64, terms=96, stages=3, ahead=1)
    run, given = HostCuda(knl, tmp_path), arrays(knl, np.float32)
    given["a"] *= 1 + np.float32(2.0**-11)  # TF32 has 10 bits behind the point
    assert run(given, resident=1)
    given["a"] = given["a"].round()
    assert is_right(given, BY_ROWS)


@pytest.mark.parametrize(
    ("n", "text", "dtype"),
    [
        (64, TEXT, BFLOAT16),
        (256, TEXT, BFLOAT16),
        (24, TURNED, BFLOAT16),
        (64, BY_ROWS, np.float32),
        (256, BY_ROWS, np.float32),
    ],
)
def test_warpgroups_compute_the_product(n: int, text: str, dtype: Any, cuda_context: Any) -> None:
    if cuda_context.get_device().compute_capability() != (9, 0):
        pytest.skip("this device has no warpgroups")
    knl = warpgroup_product(n, text, dtype, lp.PyCudaTarget(), terms=512, stages=3, ahead=1)
    given = arrays(knl, dtype)
    _, (given["c"],) = knl(a=given["a"], b=given["b"])
    assert is_right(given, text)


@pytest.mark.parametrize(
    ("old", "new"),
    [("lane // 4", "lane // 4"), ("lane // 32", "lane // 64")],
)
def test_verify_finds_lanes_of_other_elements(old: str, new: str) -> None:
    kernel = kernel_of(lp.tensorize(product(i=64, j=8, k=16), "insn", "i, j, k", "m64n8k16"))
    (insn,) = kernel.instructions
    assert isinstance(insn, lp.Assignment)
    text = to_text(insn.expression)
    assert old in text
    changed = insn.copy(expression=lp.symbolic.parse(text.replace(old, new)))
    assert lp.verify(kernel.copy(instructions=[changed])).ok == (old == new)


# -- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"layout": None}, "tag_array_axes(kernel, 'a_fetch', 'swizzle:128')"),
        ({"layout": "swizzle:64"}, "does not have the layout that tensor cores read"),
        ({"alignment": 512}, "align_temporaries(kernel, 'a_fetch', 1024)"),
        ({"fetches": "a", "stages": 1}, "]' is not an element of a temporary in local memory"),
        ({"shape": "m16n8k16"}, "the loop 'i_inner' must have 16 iterations"),
        ({"shape": "m64n12k16"}, "tensor cores have no shape 'm64n12k16'"),
    ],
)
def test_what_tensor_cores_cannot_read(change: dict[str, Any], error: str) -> None:
    with pytest.raises(lp.KgenError, match=re.escape(error)):
        lp.generate_body(warpgroup_product(8, TURNED, **change))


def test_rows_of_other_lengths_are_refused() -> None:
    knl = warpgroup_product(64, stages=1, layout=None)
    knl = lp.tag_array_axes(knl, "b_fetch", "stride:128, stride:64, stride:1")
    knl = lp.tag_array_axes(knl, "a_fetch, b_fetch", "swizzle:128")
    with pytest.raises(
        lp.KgenError, match="rows of 64 adjacent elements of 'b_fetch' are not the terms"
    ):
        lp.generate_body(knl)


def test_sums_are_in_registers() -> None:
    text = "c[i, j] = c[i, j] + a[i, k]*b[k, j] {id=insn, inames=i:j:k}"
    with pytest.raises(lp.KgenError, match="its sums, 'c', are in global memory"):
        lp.generate_body(warpgroup_product(64, text, stages=1))
