"""What all executors share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.errors import InvocationError, KgenError
from kgen.runtime.c import CExecutor
from kgen.runtime.executor import N_REMEMBERED, remember


def make_twice(**options: Any) -> Any:
    knl = lp.make_kernel("{[i]: 0<=i<n}", "out[i] = 2*a[i]", target=lp.ExecutableCTarget())
    return lp.set_options(knl, **options)


def test_code_for_types() -> None:
    executor = make_twice().executor()
    assert "double const" in executor.get_code(arg_to_dtype={"a": np.float64})
    assert "float const" in executor.get_code("kgen_kernel", {"a": np.float32})
    with pytest.raises(InvocationError, match="runs 'kgen_kernel', not 'other'"):
        executor.get_code("other", {"a": np.float32})


@pytest.mark.parametrize("target", [lp.ExecutableCTarget, lp.PyOpenCLTarget])
def test_wrappers_grow_with_the_number_of_arguments(
    target: Any, tmp_path: Path, opencl_queue: Any
) -> None:
    queue = (opencl_queue,) if target is lp.PyOpenCLTarget else ()

    def length(count: int) -> int:
        """Return how long a wrapper of 2*count arrays and count numbers is."""
        steps = range(count)
        data: list[Any] = [lp.GlobalArg(f"a{k}, out{k}", "float64", shape="n") for k in steps]
        data += [lp.ValueArg(f"s{k}", "float64") for k in steps]
        text = [f"out{k}[i] = s{k}*a{k}[i]" for k in steps]
        knl = lp.make_kernel("{[i]: 0<=i<n}", text, [*data, "..."], target=target())
        written = tmp_path / f"{count}.py"
        knl = lp.set_options(knl, write_wrapper=str(written))
        knl(*queue, **{f"a{k}": np.ones(2) for k in steps}, **{f"s{k}": 1.0 for k in steps})
        return len(written.read_text())

    assert length(40) < 2.2 * length(20)


def test_colours_where_they_are_allowed() -> None:
    types = {"a": np.float32}
    plain = make_twice(allow_terminal_colors=False).executor()
    assert plain.get_highlighted_code(arg_to_dtype=types) == plain.get_code(arg_to_dtype=types)
    coloured = make_twice().executor().get_highlighted_code(arg_to_dtype=types)
    assert re.search("\033\\[[0-9;]+mfor\033\\[", coloured)
    assert (
        re.sub("\033\\[[0-9;]+m", "", coloured).strip()
        == plain.get_code(arg_to_dtype=types).strip()
    )


def test_programs_remember_what_they_use() -> None:
    memo: dict[Any, Any] = {}
    knl = make_twice()
    executors = [
        remember(memo, number, lambda: CExecutor(knl, "kgen_kernel"))
        for number in (0, 1, 0, *range(2, N_REMEMBERED + 1), 1, 0)
    ]
    assert list(memo) == [*range(2, N_REMEMBERED + 1), 0]
    assert executors[2] is executors[0]
    assert executors[-2] is executors[1]
    assert executors[-1] is not executors[0]


def test_each_target_has_an_executor_that_forgets_what_it_compiled() -> None:
    executor = make_twice().executor()
    assert isinstance(executor, lp.ExecutorBase)
    a = np.arange(3.0)
    for _ in range(2):
        _, (out,) = executor(a=a)
        np.testing.assert_array_equal(out, 2 * a)
        lp.clear_in_mem_caches()


def test_wrong_calls_are_type_and_value_errors() -> None:
    knl = lp.make_kernel(
        "{[i]: 0<=i<n}",
        "a[i] = 1",
        [lp.GlobalArg("z, a", "float32", shape="n"), ...],
        target=lp.ExecutableCTarget(),
    )
    with pytest.raises(TypeError, match=r"'z' is missing\n.*remove_unused_arguments"):
        knl()
    with pytest.raises(ValueError, match=r"'z' has elements of type int64"):
        knl(z=np.zeros(3, np.int64))
    with pytest.raises(lp.KgenError, match="'other' is not an entry point"):
        knl(entrypoint="other")


def test_a_number_that_is_missing_is_named() -> None:
    knl = lp.make_kernel("{[i]: 0<=i<n}", "b[i] = s*a[i]", target=lp.ExecutableCTarget())
    with pytest.raises(InvocationError, match="argument 's' is missing"):
        knl(a=np.ones(3))


def test_python_numbers_have_the_types_that_numpy_gives_them() -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = x*a[i]", target=lp.ExecutableCTarget())
    a = np.ones(3, np.float32)
    for number in (2, 2.5, 1j, True, np.float32(2), 3, 2.5, 2**40):
        ((out,),) = (knl(a=a, x=number)[1],)
        assert out.dtype == np.result_type(np.asarray(number).dtype, np.float32)
        assert (out == np.asarray(number) * a).all()


def test_a_number_that_numpy_has_no_type_for_is_refused() -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = x*a[i]", target=lp.ExecutableCTarget())
    with pytest.raises(KgenError, match="'x'"):
        knl(a=np.ones(3), x=2**70)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_an_integer_that_is_no_real_number_is_refused(dtype: str) -> None:
    args = [lp.GlobalArg("out", dtype, shape=3), lp.ValueArg("x", dtype)]
    knl = lp.make_kernel("{ [i]: 0<=i<3 }", "out[i] = x", args, target=lp.ExecutableCTarget())
    with pytest.raises(KgenError, match=f"'x' is an integer that is larger than every {dtype}"):
        knl(x=10**400)


def test_an_output_of_unknown_extent_is_missed_at_once() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "out[i] = 2.0*i",
        [lp.GlobalArg("out"), ...],
        target=lp.ExecutableCTarget(),
    )
    for _ in range(2):  # the second call begins in the wrapper of the first
        with pytest.raises(InvocationError, match="'out' is missing") as caught:
            knl(n=5)
        assert caught.value.__context__ is None
    np.testing.assert_array_equal(knl(n=2, out=np.zeros(2))[1][0], [0, 2])
    with pytest.raises(InvocationError, match="'out' is missing"):
        knl(n=5)


@pytest.mark.parametrize("values", [np.array(["x"]), np.array([None]), np.array([{}, 1.0])])
def test_arrays_of_texts_and_objects_are_refused(values: Any) -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<n }", "b[i] = a[i]", target=lp.ExecutableCTarget())
    with pytest.raises(lp.KgenError, match=r"argument 'a' is of the type .* which kernels do not"):
        knl(a=values)


def test_a_constant_that_dots_make_an_argument_says_so() -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<4 }", "b[i] = M_PI", target=lp.ExecutableCTarget())
    with pytest.raises(
        lp.KgenError, match=r"'M_PI' is missing\n.*the constant if kernel_data lists"
    ):
        knl()
    data = [lp.GlobalArg("b", np.float64, shape=4, is_input=False)]
    knl = lp.make_kernel("{ [i]: 0<=i<4 }", "b[i] = M_PI", data, target=lp.ExecutableCTarget())
    assert knl()[1][0].tolist() == [np.pi] * 4
