"""Loops tagged vec: whole vectors where that is proved, else number by number, with the reason."""

from __future__ import annotations

import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.errors import VectorizationWarning

CUDA, OPENCL = lp.CudaTarget(), lp.OpenCLTarget()


def vectorized(
    instruction: str,
    target: Any,
    count: int = 4,
    dtype: Any = np.float32,
    assumptions: str = "n mod 4 = 0 and n >= 4",
    outer_tag: str = "g.0",
) -> Any:
    """Return a kernel on vectors a, b and out of length n, *count* lanes for a work-item."""
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        instruction,
        [lp.GlobalArg("a, b, out", dtype, shape="n"), ...],
        target=target,
        assumptions=assumptions,
    )
    knl = lp.split_iname(knl, "i", 8 * count, outer_tag=outer_tag)
    return lp.split_iname(knl, "i_inner", count, outer_tag="l.0", inner_tag="vec")


def code(*args: Any, **kwargs: Any) -> str:
    return lp.generate_code_v2(vectorized(*args, **kwargs)).device_code()


def reason(*args: Any, **kwargs: Any) -> str:
    with pytest.warns(VectorizationWarning) as caught:
        code(*args, **kwargs)
    return str(caught[0].message)


def test_lanes_of_cuda() -> None:
    assert lp.generate_body(vectorized("out[i] = 2*a[i] + 1", CUDA)) == (
        "  if (32 * gid(x) + 4 * lid(x) < n)\n"
        "  {\n"
        "    float4 const a_v = *(float4 const *) &a[32 * gid(x) + 4 * lid(x)];\n"
        "    float4 out_v;\n"
        "    out_v.x = 2.0f * a_v.x + 1.0f;\n"
        "    out_v.y = 2.0f * a_v.y + 1.0f;\n"
        "    out_v.z = 2.0f * a_v.z + 1.0f;\n"
        "    out_v.w = 2.0f * a_v.w + 1.0f;\n"
        "    *(float4 *) &out[32 * gid(x) + 4 * lid(x)] = out_v;\n"
        "  }"
    )


def test_operators_of_opencl() -> None:
    text = code("out[i] = 2*a[i] - b[i]/a[i]", OPENCL)
    assert "= 2.0f * a_v - b_v / a_v;" in text
    assert "out_v.s3 = sqrt(a_v.s3);" in code("out[i] = sqrt(a[i])", OPENCL)


def test_copies_have_no_lanes() -> None:
    assert "*(float4 *) &out[32 * gid(x) + 4 * lid(x)] = a_v;" in code("out[i] = a[i]", CUDA)


def test_what_is_left_over_runs_number_by_number() -> None:
    body = lp.generate_body(vectorized("out[i] = a[i]", CUDA, assumptions="n >= 1"))
    head, tail = body.split("  else\n")
    assert head.startswith("  if (32 * gid(x) + 4 * lid(x) + 3 < n)\n")
    assert "float4" in head
    assert tail.count("if (") == 3
    assert "float4" not in tail


@pytest.mark.parametrize("tag", ["g.0", "for"])
@pytest.mark.parametrize("n", [1, 7, 8, 63, 64, 100])
def test_any_length(tag: str, n: int, device: Any) -> None:
    knl = vectorized(
        "out[i] = 2*a[i] + b[i]", lp.PyOpenCLTarget(), assumptions="n >= 1", outer_tag=tag
    )
    a, b = np.arange(2 * n, dtype=np.float32).reshape(2, n)
    _, (out,) = device(knl, a=a, b=b)
    np.testing.assert_array_equal(out, 2 * a + b)


@pytest.mark.parametrize("count", [2, 4, 8, 16])
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64", "float32", "float64"])
def test_types_and_lengths(dtype: str, count: int, device: Any) -> None:
    knl = vectorized(
        "out[i] = a[i] + b[i]", lp.PyOpenCLTarget(), count, dtype, f"n mod {count} = 0"
    )
    a = np.arange(5 * count).astype(dtype)
    _, (out,) = device(knl, a=a, b=a[::-1].copy())
    assert (out == dtype_sum(a, dtype)).all()


def dtype_sum(a: Any, dtype: str) -> Any:
    return (a + a[::-1]).astype(dtype)


def test_cuda_loads_vectors(nvcc: str, tmp_path: Path) -> None:
    source = tmp_path / "code.cu"
    for dtype, count, load in [
        ("float32", 4, "v4"),
        ("float64", 2, "v2"),
        ("int16", 8, "v4"),
        ("uint8", 16, "v4"),
        ("float32", 2, "v2"),
        ("float64", 4, "v2"),
    ]:
        source.write_text(code("out[i] = a[i] + b[i]", CUDA, count, dtype, f"n mod {count} = 0"))
        command = [nvcc, "-arch=sm_90", "--ptx", "-o", str(tmp_path / "code.ptx"), str(source)]
        subprocess.run(command, check=True, capture_output=True)
        ptx = (tmp_path / "code.ptx").read_text()
        assert f"ld.global.nc.{load}" in ptx, (dtype, count)
        assert f"st.global.{load}" in ptx, (dtype, count)


def test_streaming_stores_of_vectors() -> None:
    knl = vectorized("out[i] = a[i] {id=s}", CUDA)["kgen_kernel"]
    knl = lp.map_instructions(
        knl, "id:s", lambda insn: insn.copy(tags=frozenset({lp.UseStreamingStoreTag()}))
    )
    text = lp.generate_code_v2(knl).device_code()
    assert "__stcs((float4 *) &out[32 * gid(x) + 4 * lid(x)], a_v);" in text


@pytest.mark.parametrize(
    ("instruction", "assumptions", "why"),
    [
        ("out[i] = a[n - 1 - i]", "n mod 4 = 0", "lane 1 is -1 elements after lane 0, not 1"),
        ("out[i] = a[i - i % 2]", "n mod 4 = 0", "lane 1 is 0 elements after lane 0, not 1"),
        ("out[i] = if(i + 1 < n, 1.0, 0.0)*a[(i + 1) % n]", "n mod 4 = 0", "lane"),
    ],
)
def test_other_strides_are_named(instruction: str, assumptions: str, why: str) -> None:
    assert why in reason(instruction, CUDA, assumptions=assumptions)


def test_unaligned_accesses_are_named() -> None:
    rows = lp.make_kernel(
        "{ [i, j]: 0 <= i < m and 0 <= j < n }",
        "out[i, j] = a[i, j]",
        [lp.GlobalArg("a, out", np.float32, shape="m, n"), ...],
        target=CUDA,
        assumptions="n >= 1",
    )
    rows = lp.tag_inames(lp.split_iname(rows, "j", 4, inner_tag="vec"), "i:g.0")
    with pytest.warns(VectorizationWarning) as caught:
        lp.generate_code_v2(rows)
    text = str(caught[0].message)
    assert "'a[i, j_inner + j_outer*4]' in instruction 'insn'" in text
    assert "for n = 1" in text
    assert "assume(kernel, 'n mod 4 = 0')" in text
    known = lp.assume(rows, "n mod 4 = 0")
    assert lp.generate_code_v2(known).device_code().count("float4 const *") == 1


def test_shifted_accesses_are_named() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 4 }",
        "out[i] = a[i + 1]",
        [lp.GlobalArg("a, out", np.float32, shape=(8,))],
        target=CUDA,
    )
    knl = lp.tag_inames(knl, "i:vec")
    with pytest.warns(VectorizationWarning, match="lane 0 is at 1, which is 1 modulo 4"):
        text = lp.generate_code_v2(knl).device_code()
    assert "*(float4 *) &out[0] = out_v;" in text  # the store is aligned all the same


def test_accesses_under_a_condition_are_not_widened() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = code("out[i] = if(b[i] > 0, a[i], 0)", CUDA)
    assert "b_v.x > 0.0f ? a[" in text


def test_a_lane_may_read_what_another_wrote() -> None:
    text = code("out[i] = a[i] + out[i + n % 4]", CUDA)
    assert "float4 const out_v" not in text


def test_the_warning_can_be_silenced() -> None:
    knl = vectorized("out[i] = a[n - 1 - i]", CUDA)["kgen_kernel"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lp.generate_code_v2(knl.copy(silenced_warnings=("vectorize_failed",)))


def test_local_memory_is_accessed_in_vectors_where_it_is_aligned(device: Any) -> None:
    for alignment, loads in ((16, 1), (None, 0)):
        knl = lp.make_kernel(
            "{ [g, i, j]: 0 <= g < 5 and 0 <= i, j < 32 }",
            ["t[i] = 3*a[g, i] {id=t}", "out[g, j] = t[j] {dep=t}"],
            [
                lp.GlobalArg("a, out", np.float32, shape=(5, 32)),
                lp.TemporaryVariable(
                    "t",
                    np.float32,
                    shape=(32,),
                    address_space=lp.AddressSpace.LOCAL,
                    alignment=alignment,
                ),
            ],
            target=lp.PyOpenCLTarget(),
        )
        knl = lp.split_iname(knl, "i", 4, outer_tag="l.0", inner_tag="vec")
        knl = lp.split_iname(knl, "j", 4, outer_tag="l.0", inner_tag="vec")
        knl = lp.tag_inames(knl, "g:g.0")
        text = lp.generate_code_v2(knl).device_code()
        assert text.count("*(__local float4 const *) &t[") == loads
        a = np.arange(160, dtype=np.float32).reshape(5, 32)
        np.testing.assert_array_equal(device(knl, a=a)[1][0], 3 * a)


@pytest.mark.parametrize(("first", "stop"), [(3, 6), (0, 5), (3, 7), (4, 8), (5, 6)])
@pytest.mark.parametrize("tag", ["vec", "unr"])
def test_loops_that_begin_or_end_inside_of_a_vector(first: int, stop: int, tag: str) -> None:
    knl = lp.make_kernel(
        f"{{ [i]: {first} <= i < {stop} }}",
        "out[i] = 2*a[i]",
        [lp.GlobalArg("a, out", np.float32, shape=(8,))],
        target=lp.ExecutableCTarget(),
    )
    knl = lp.split_iname(knl, "i", 2, inner_tag=tag, slabs=(1, 1))
    a, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    knl(a=a, out=out)
    wanted = np.zeros(8, np.float32)
    wanted[first:stop] = 2 * a[first:stop]
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("layout", ["c,vec", "N1,N0", "C"])
def test_vectors_of_three(layout: str, device: Any) -> None:
    args = [lp.GlobalArg("a, out", np.float32, shape="n, 3"), ...]
    knl = lp.make_kernel("{ [i, c]: 0 <= i < n and 0 <= c < 3 }", "out[i, c] = 2*a[i, c] + c", args)
    knl = lp.tag_inames(lp.tag_array_axes(knl, "a, out", layout), "i:g.0, c:vec")
    code = lp.generate_code_v2(knl.copy(target=OPENCL)).device_code()
    assert code.count("vload3(0, &a[") == 1
    assert code.count("vstore3(out_v, 0, &out[") == 1
    a = np.arange(15, dtype=np.float32).reshape(5, 3)
    _, (out,) = device(knl, a=a)
    np.testing.assert_array_equal(out, 2 * a + np.arange(3))


def test_copies_of_unrolled_code_give_one_warning_for_each_access() -> None:
    data = [lp.GlobalArg("a, b", np.float32, shape="n, n"), ...]
    knl = lp.make_kernel("{ [i, j]: 0<=i,j<n }", "b[i, j] = a[i, j]", data, target=lp.CudaTarget())
    knl = lp.split_iname(lp.split_iname(knl, "i", 4, inner_tag="unr"), "j", 4, inner_tag="vec")
    with pytest.warns(VectorizationWarning) as caught:
        lp.generate_code_v2(knl)
    assert [str(one.message).split("'")[3][0] for one in caught] == ["a", "b"]
