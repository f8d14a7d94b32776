"""Elements that a kernel leaves unwritten: what is proved agrees with what runs."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.analysis.written import allocated_outputs, find_unwritten
from kgen.errors import InvocationError

C = lp.ExecutableCTarget()


def unwritten(knl: Any) -> str | None:
    kernel = lp.preprocess_kernel(knl).default_entrypoint
    (array,) = allocated_outputs(kernel)
    found = find_unwritten(kernel, array)
    return None if found is None else found.point or "unknown"


@pytest.mark.parametrize(
    ("domain", "text", "wanted"),
    [
        ("0<=i<n", "out[i] = 1", None),
        ("0<=i<n", "out[n-1-i] = 1", None),
        ("0<=i<n", "out[2*i] = 1", "out[1] for n = 2"),
        ("0<=i<n", "out[i+1] = 1", "out[0] for n = 0"),
        ("0<=i<n", "out[i,i] = 1", "out[1, 0] for n = 2"),
        ("0<=i<n", "out[i] = 1 {if=i<5}", "out[5] for n = 6"),
        ("0<=i<n", "out[i] = 1 {if=a[i]>0}", "unknown"),
        ("0<=i<n", "out[a[i]] = 1", "unknown"),
        ("0<=i<n", "out[i,0] = 1\nout[i,1] = 2", None),
        ("0<=i<n", "out[2*i] = 1\nout[2*i+1] = 2", None),
        ("0<=i<n", "out[2*i] = 1\nout[2*i+2] = 2", "out[1] for n = 1"),
        ("0<=i<n", "out[0] = i", "out[0] for n = 0"),
    ],
)
def test_elements_that_are_left_out_are_found(domain: str, text: str, wanted: str | None) -> None:
    data = [lp.GlobalArg("a", "int32", shape="n"), lp.GlobalArg("out", "int32", shape=lp.auto), ...]
    if "a[i]] =" in text:
        data[1] = lp.GlobalArg("out", "int32", shape="n")
    knl = lp.make_kernel(f"{{[i]: {domain}}}", text, data, target=C, seq_dependencies=True)
    assert unwritten(knl) == wanted
    assert unwritten(lp.split_iname(knl, "i", 4)) == wanted


def random_kernel(rng: random.Random) -> Any:
    """Return a kernel that writes some of the elements of ``out``."""
    cover = ["out[p, q] = 9"], ["out[q, p] = 9 {if=q<n}", "out[q, p] = 8 {if=q>=n}"]
    texts = [*rng.choice([[], cover[0], cover[1], cover[1][:1]])]
    for k in range(rng.randint(1, 3)):
        index = [
            f"{rng.choice([1, 1, 1, 2, 3])}*{name} + {rng.randint(0, 2)}" for name in ("i", "j")
        ]
        if rng.random() < 0.3:
            index = [f"n - 1 - {rng.choice('ij')}", rng.choice("ij")]
        guard = rng.choice(["", "", ", if=i<3", ", if=j>=i", ", if=i%2==0", ", if=a[i]>0"])
        texts.append(f"out[{index[0]}, {index[1]}] = {k} {{id=w{k}{guard}}}")
    loops = rng.choice(["0<=i,j<n", "0<=i<n and 0<=j<=i", "0<=i<n and i<=j<n", "1<=i,j<n"])
    shape = "3*n + 2, 3*n + 2"
    data = [lp.GlobalArg("out", "int32", shape=shape), lp.GlobalArg("a", "int32", shape="n"), ...]
    domains = [f"{{[i,j]: {loops}}}", "{[p,q]: 0<=p,q<3*n+2}"]
    return lp.make_kernel(domains, texts, data, target=C, seq_dependencies=True)  # fmt: skip


def test_what_is_proved_agrees_with_what_runs() -> None:
    rng = random.Random(12)
    proved = 0
    for _ in range(40):
        knl = random_kernel(rng)
        point = unwritten(knl)
        proved += point is None
        sizes = range(1, 8) if point is None else [3]
        if point is not None and " for n = " in point:
            sizes = [int(point.split(" = ")[1])]
        for n in sizes:
            a = np.ones(n, np.int32)
            _, (out,) = lp.set_options(knl, fill_value=-7)(a=a, n=n)
            _, (kept,) = knl(a=a, n=n, out=np.full(out.shape, -7, np.int32))
            np.testing.assert_array_equal(out, kept)
            if point is None:
                assert (kept != -7).all()
            elif " for n = " in point:
                element = tuple(map(int, point[4 : point.index("]")].split(",")))
                assert kept[element] == -7
    assert proved > 3


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float32", "float64", "complex128"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_allocated_outputs_are_filled(dtype: str, order: str, opencl_queue: Any) -> None:
    for target, queue in ((C, ()), (lp.PyOpenCLTarget(), (opencl_queue,))):
        knl = lp.make_kernel(
            "{[i]: 0<=i<n}",
            "out[i, 2*i] = 1",
            [lp.GlobalArg("out", dtype, shape="n, 2*n", order=order), ...],
            target=target,
        )
        for options, rest in (({}, 0), ({"fill_value": 1}, 1)):
            _, (out,) = lp.set_options(knl, **options)(*queue, n=5)
            wanted = np.full((5, 10), rest, dtype)
            wanted[np.arange(5), 2 * np.arange(5)] = 1
            np.testing.assert_array_equal(out if queue == () else out.get(), wanted)
        numpy_out = knl(*queue, n=5, **({"out_host": True} if queue else {}))[1][0]
        assert numpy_out.sum() == 5


def test_a_fill_value_fits_the_type() -> None:
    knl = lp.make_kernel("{[i]: 0<=i<n}", "out[2*i] = i", target=C)
    with pytest.raises(InvocationError, match="'out' of type int32 cannot be filled with nan"):
        lp.set_options(knl, fill_value=float("nan"))(n=3)
    knl = lp.make_kernel("{[i]: 0<=i<n}", "out[2*i] = 1.5", target=C)
    _, (out,) = lp.set_options(knl, fill_value=float("nan"))(n=2)
    np.testing.assert_array_equal(out, [1.5, np.nan, 1.5])
    _, (out,) = lp.set_options(knl, fill_value=0.1)(n=2)
    np.testing.assert_array_equal(out, np.array([1.5, 0.1, 1.5], out.dtype))


def test_wrappers_fill_nothing_that_is_written(tmp_path: Any) -> None:
    for text, filled in (("out[i] = i", False), ("out[3*i] = i", True)):
        knl = lp.make_kernel("{[i]: 0<=i<n}", text, target=C)
        lp.set_options(knl, write_wrapper=str(tmp_path / "w.py"))(n=3)
        assert ("fill_" in (tmp_path / "w.py").read_text()) is filled


def test_verify_names_array_and_element() -> None:
    knl = lp.make_kernel("{[i]: 0<=i<n}", "out[2*i] = i", target=C)
    (finding,) = lp.verify(knl).unknown
    assert (finding.check, finding.array, finding.point) == ("outputs", "out", "out[1] for n = 2")
