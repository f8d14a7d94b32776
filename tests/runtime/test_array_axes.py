"""Axes that are separate arrays, and axes that are the lanes of vectors, in calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.errors import CodegenError, InvocationError, KgenError, TransformError

A = np.arange(30, dtype=np.float32).reshape(10, 3)
COLUMNS = [np.ascontiguousarray(A[:, k]) for k in range(3)]


def separate(target: Any, dtype: Any = None, tag: str = "unr") -> Any:
    """Return a kernel on a matrix of which each column is an array, as is each row of out."""
    knl = lp.make_kernel(
        "{ [i, k]: 0 <= i < n and 0 <= k < 3 }",
        "out[k, i] = 2*a[i, k] + a[i, 1]",
        [lp.GlobalArg("a", dtype, shape="n, 3"), lp.GlobalArg("out", dtype, shape="3, n"), ...],
        target=target,
    )
    knl = lp.tag_array_axes(lp.tag_array_axes(knl, "a", "N0,sep"), "out", "sep,N0")
    return lp.tag_inames(knl, f"k:{tag}")


def test_separate_arrays_in_the_code() -> None:
    text = lp.generate_code_v2(separate(lp.CTarget(), np.float32)).device_code()
    head = "float const *__restrict__ a_s0, float const *__restrict__ a_s1, float const"
    assert head in text
    assert "float *__restrict__ out_s0, float *__restrict__ out_s1, float *" in text
    assert "out_s2[i] = 2.0f * a_s2[i] + a_s1[i];" in text


def as_objects(columns: list[Any]) -> Any:
    whole = np.empty(3, object)
    whole[:] = columns
    return whole


@pytest.mark.parametrize("form", [list, tuple, as_objects])
def test_separate_arrays_in_calls(form: Any, opencl_queue: Any) -> None:
    for target, queue in ((lp.ExecutableCTarget(), ()), (lp.PyOpenCLTarget(), (opencl_queue,))):
        knl = separate(target)
        for _ in range(2):
            _, out = knl(*queue, a=form(COLUMNS))
            np.testing.assert_array_equal(np.array(out), 2 * A.T + A[:, 1])
        given = form([np.empty(10, np.float32) for _ in range(3)])
        results = knl(*queue, a=form(COLUMNS), out=given)[1]
        assert all(one is other for one, other in zip(results, given, strict=True))
        np.testing.assert_array_equal(np.array(list(given)), 2 * A.T + A[:, 1])


def test_separate_arrays_of_each_type_have_their_code() -> None:
    knl = separate(lp.ExecutableCTarget())
    for dtype in (np.float32, np.float64, np.float32):
        _, out = knl(a=[column.astype(dtype) for column in COLUMNS])
        assert {piece.dtype for piece in out} == {np.dtype(dtype)}


def test_results_by_name() -> None:
    knl = lp.set_options(separate(lp.ExecutableCTarget()), return_dict=True)
    _, results = knl(a=COLUMNS)
    assert list(results) == ["out_s0", "out_s1", "out_s2"]


def test_more_pieces_than_the_axis_has_are_left_out() -> None:
    knl = separate(lp.ExecutableCTarget())
    _, out = knl(a=[*COLUMNS, np.zeros(1)])
    np.testing.assert_array_equal(np.array(out), 2 * A.T + A[:, 1])


def test_unfit_pieces() -> None:
    knl = separate(lp.ExecutableCTarget())
    with pytest.raises(InvocationError, match="kept in 3 separate arrays, and 2 are passed"):
        knl(a=COLUMNS[:2])
    with pytest.raises(InvocationError, match="have several types"):
        knl(a=[*COLUMNS[:2], COLUMNS[2].astype(np.float64)])
    with pytest.raises(InvocationError, match="'a_s2' has shape"):
        knl(a=[*COLUMNS[:2], COLUMNS[2][:5]])
    with pytest.raises(InvocationError, match="'a_s0' is missing"):
        knl(n=10)


def test_pieces_may_be_views_of_any_layout(opencl_queue: Any) -> None:
    cl_array = pytest.importorskip("pyopencl.array")
    for offset in (0, lp.auto):
        knl = lp.make_kernel(
            "{ [i]: 0 <= i < n }",
            "out[i] = c[0, i] + 100*c[1, i]",
            [lp.GlobalArg("c", np.float32, shape="2, n", dim_tags="sep,C", offset=offset), ...],
        )
        whole = np.arange(24, dtype=np.float32).reshape(2, 12)
        device = cl_array.to_device(opencl_queue, whole)
        for first, second in (np.s_[:6], np.s_[4:10]), (np.s_[1::3], np.s_[2::3]):
            _, (out,) = knl(opencl_queue, c=[device[0, first], device[1, second]])
            np.testing.assert_array_equal(out.get(), whole[0, first] + 100 * whole[1, second])


def test_two_separate_axes() -> None:
    knl = lp.make_kernel(
        "{ [i, j, k]: 0 <= i < n and 0 <= j < 2 and 0 <= k < 3 }",
        "out[i] = sum((j, k), (j + 1)*a[j, i, k])",
        [lp.GlobalArg("a", np.float64, shape="2, n, 3"), ...],
        target=lp.ExecutableCTarget(),
    )
    knl = lp.tag_inames(lp.tag_array_axes(knl, "a", "sep,c,sep"), "j:unr, k:unr")
    assert "a_s1_s2[i]" in lp.generate_code_v2(knl).device_code()
    a = np.random.default_rng(1).random((2, 5, 3))
    nested = [[a[j, :, k].copy() for k in range(3)] for j in range(2)]
    np.testing.assert_allclose(knl(a=nested)[1][0], (a[0] + 2 * a[1]).sum(axis=1))


def test_a_loop_over_separate_arrays_is_refused() -> None:
    knl = separate(lp.CTarget(), np.float32, "for")
    with pytest.raises(CodegenError, match="does not select one of them"):
        lp.generate_code_v2(knl)


def test_private_temporaries_in_pieces(device: Any) -> None:
    knl = lp.make_kernel(
        "{ [i, k, j]: 0 <= i < n and 0 <= k, j < 3 }",
        ["<> t[k] = 2*a[i, k] {id=t}", "out[i] = sum(j, t[j]) {dep=t}"],
        [lp.GlobalArg("a", np.float32, shape="n, 3"), ...],
        target=lp.PyOpenCLTarget(),
    )
    knl = lp.tag_inames(lp.tag_array_axes(knl, "t", "sep"), "k:unr, j:unr, i:g.0")
    assert "t_s2[0]" in lp.generate_code_v2(knl).device_code()
    np.testing.assert_array_equal(device(knl, a=A)[1][0], 2 * A.sum(axis=1))


# -- vectors -------------------------------------------------------------------------------------


def lanes(count: int, target: Any, iname_tag: str = "vec") -> Any:
    """Return a kernel on vectors of *count* numbers."""
    knl = lp.make_kernel(
        f"{{ [i, k]: 0 <= i < n and 0 <= k < {count} }}",
        "out[i, k] = 2*a[i, k] + 1",
        [lp.GlobalArg("a, out", np.float32, shape=("n", count)), ...],
        target=target,
    )
    knl = lp.tag_array_axes(knl, "a, out", "N0,vec")
    return lp.tag_inames(knl, f"k:{iname_tag}, i:g.0")


def test_lanes_in_the_code() -> None:
    text = lp.generate_code_v2(lanes(4, lp.OpenCLTarget())).device_code()
    assert "*(__global float4 *) &out[4 * (long) gid(0)] = 2.0f * a_v + 1.0f;" in text
    assert "float4" not in lp.generate_code_v2(lanes(4, lp.OpenCLTarget(), "unr")).device_code()


@pytest.mark.parametrize("count", [2, 3, 4, 8, 16])
@pytest.mark.parametrize("tag", ["vec", "unr", "for"])
@pytest.mark.filterwarnings("ignore::kgen.VectorizationWarning")
def test_vectors_in_calls(count: int, tag: str, device: Any) -> None:
    cltypes = pytest.importorskip("pyopencl.cltypes")
    knl = lanes(count, lp.PyOpenCLTarget(), tag)
    room = 4 if count == 3 else count
    numbers = np.arange(7 * room, dtype=np.float32).reshape(7, room)[:, :count]
    _, (out,) = device(knl, a=numbers)
    np.testing.assert_array_equal(out, 2 * numbers + 1)
    vectors = np.zeros(7, getattr(cltypes, f"float{count}"))
    vectors.view(np.float32).reshape(7, room)[:, :count] = numbers
    result = np.zeros_like(vectors)
    assert device(knl, a=vectors, out=result)[1][0] is result
    found = result.view(np.float32).reshape(7, room)[:, :count]
    np.testing.assert_array_equal(found, 2 * numbers + 1)


def test_vectors_on_the_host() -> None:
    a = np.arange(28, dtype=np.float32).reshape(7, 4)
    _, (out,) = lanes(4, lp.ExecutableCTarget())(a=a)
    np.testing.assert_array_equal(out, 2 * a + 1)


def test_vectors_of_other_lengths() -> None:
    with pytest.raises(TransformError, match="has 2, 3, 4, 8 or 16 entries, not 5"):
        lanes(5, lp.CTarget())
    with pytest.raises(KgenError, match="one axis of vector lanes"):
        lp.GlobalArg("a", np.float32, shape=(4, 4), dim_tags="vec,vec")


# -- open strides, large arrays ------------------------------------------------------------------


def doubled(**options: Any) -> Any:
    return lp.make_kernel(
        "{ [i, j]: 0 <= i < n and 0 <= j < m }",
        "out[i, j] = 2*a[i, j]",
        target=lp.ExecutableCTarget(),
        **options,
    )


def test_open_strides_are_found_in_calls() -> None:
    declared = lp.GlobalArg("a", np.float32, shape="n, m", dim_tags="stride:auto, stride:1")
    knl = doubled(kernel_data=[declared, ...])
    assert "a[a_stride0 * i + j]" in lp.generate_code_v2(knl).device_code()
    for a in (A, A[:, :2], A[::2]):
        np.testing.assert_array_equal(knl(a=a)[1][0], 2 * a)


def test_default_order_and_offset_may_be_open() -> None:
    knl = lp.fix_parameters(doubled(default_order=lp.auto, default_offset=lp.auto), n=6, m=2)
    for a in (A[:6, :2], np.asfortranarray(A)[:6, :2], A[3:9, 1:3], A[5::-1, :2]):
        np.testing.assert_array_equal(knl(a=a)[1][0], 2 * a)
    out = np.zeros((2, 6), np.float32)
    knl(a=A[:6, :2], out=out.T)
    np.testing.assert_array_equal(out.T, 2 * A[:6, :2])


def test_fortran_order() -> None:
    knl = doubled(default_order="F")
    assert "out[" in lp.generate_code_v2(lp.add_dtypes(knl, {"a": np.float32})).device_code()
    _, (out,) = knl(a=np.asfortranarray(A))
    np.testing.assert_array_equal(out, 2 * A)
    assert out.flags.f_contiguous


def test_arrays_of_more_than_two_billion_elements(tmp_path: Any) -> None:
    """A sparse file of 5 GB: only the pages that the kernel touches exist."""
    n = 5 * 2**30
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "a[i*step] = a[i*step] + 1",
        [lp.GlobalArg("a", np.int8, shape="size"), lp.ValueArg("size, step", np.int64), ...],
        target=lp.ExecutableCTarget(),
    )
    a = np.memmap(tmp_path / "sparse", np.int8, "w+", shape=(n,))
    knl(a=a, n=6, step=2**30 - 1)
    assert [int(a[k * (2**30 - 1)]) for k in range(6)] == [1] * 6


@pytest.mark.parametrize("layout", ["sep,c", "c,sep", "c,sep,c", "sep,c,sep"])
def test_one_array_is_passed_for_its_separate_parts(layout: str, opencl_queue: Any) -> None:
    shape = tuple(2 if tag == "sep" else 3 + k for k, tag in enumerate(layout.split(",")))
    cl_array = pytest.importorskip("pyopencl.array")
    plain = ",".join("c" * len(shape))
    sizes = {f"n{k}": n for k, n in enumerate(shape) if n == 2}
    data = np.arange(float(np.prod(shape))).reshape(shape)
    knl = lp.fix_parameters(lp.make_copy_kernel(plain, layout), **sizes)
    for given in (data, cl_array.to_device(opencl_queue, data)):
        np.testing.assert_array_equal(knl(opencl_queue, input=given)[1][0], data)
    back = lp.fix_parameters(lp.make_copy_kernel(layout, plain), **sizes)
    result = cl_array.zeros(opencl_queue, shape, np.float64)
    back(opencl_queue, input=given, output=result)
    np.testing.assert_array_equal(result.get(), data)
