"""Calls of kernels on the host, with C code written by hand."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgen.errors import CompilationError, InvocationError, KernelError
from kgen.host.program import HostProgram
from kgen.ir.options import make_options
from kgen.ir.target import TargetBase
from kgen.runtime.cache import clear_in_mem_caches
from kgen.runtime.refusals import CallChecker
from kgen.targets.module import Launch, Module
from tests.runtime.handmade import Dtypes, array, module, program, value


class HostTarget(TargetBase):
    runtime_module = "kgen.runtime.c"


TWICE = """
void f(TYPE const *restrict a, int n, TYPE *restrict out)
{
  for (int i = 0; i < n; ++i)
    out[i] = 2 * a[i];
}
"""
C_NAMES = {"float32": "float", "float64": "double", "int32": "int"}


def twice(dtypes: Dtypes) -> Module:
    """Return ``out[i] = 2*a[i]`` for the type of ``a``; ``out`` may be wider."""
    dtype = dtypes["a"]
    source = TWICE.replace("TYPE", C_NAMES[dtype.name])
    if "out" in dtypes:
        source = source.replace(f"{C_NAMES[dtype.name]} *", f"{C_NAMES[dtypes['out'].name]} *")
    out = array("out", dtypes.get("out", dtype), "n", "out")
    return module(source, array("a", dtype, "n"), value("n"), out)


@pytest.fixture
def knl(monkeypatch: pytest.MonkeyPatch) -> Any:
    return program(HostTarget(), twice, monkeypatch, untyped=("a", "out"))


def refusal(knl: Any, **arguments: Any) -> str:
    """Return the message of the error that a call raises."""
    with pytest.raises(InvocationError) as caught:
        knl(**arguments)
    return str(caught.value)


def test_output_is_allocated_and_size_found(knl: Any) -> None:
    a = np.arange(5, dtype=np.float32)
    evt, (out,) = knl(a=a)
    assert evt is None
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out, 2 * a)


def test_output_that_is_passed_is_filled_and_returned(knl: Any) -> None:
    a, out = np.arange(5, dtype=np.float32), np.empty(5, np.float32)
    _, (result,) = knl(a=a, out=out, n=5)
    assert result is out
    np.testing.assert_array_equal(out, 2 * a)


def test_each_type_has_its_code_whatever_came_before(knl: Any) -> None:
    for _ in range(2):
        for dtype in (np.float32, np.float64, np.int32):
            a = np.arange(5, dtype=dtype)
            _, (out,) = knl(a=a)
            assert out.dtype == dtype
            _, (out,) = knl(a=a, out=np.zeros(5, np.float64))
            assert out.dtype == np.float64
            np.testing.assert_array_equal(out, 2 * a)


def test_the_same_types_generate_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Dtypes] = []

    def counted(dtypes: Dtypes) -> Module:
        asked.append(dtypes)
        return twice(dtypes)

    knl = program(HostTarget(), counted, monkeypatch, untyped=("a", "out"))
    asked.clear()
    a = np.ones(3, np.float32)
    for _ in range(3):
        knl(a=a)
        knl(a=a, out=a.copy())
        knl(a=a.astype(np.float64))
    assert len(asked) == 2
    clear_in_mem_caches()
    knl(a=a)
    assert len(asked) == 3


def test_executor_is_the_same_one(knl: Any) -> None:
    assert knl.executor() is knl.executor()


def test_empty_arrays(knl: Any) -> None:
    _, (out,) = knl(a=np.empty(0, np.float32))
    assert out.shape == (0,)


def test_read_only_input(knl: Any) -> None:
    a = np.arange(5, dtype=np.float32)
    a.flags.writeable = False
    np.testing.assert_array_equal(knl(a=a)[1][0], 2 * a)


def test_numpy_integers_are_integers(knl: Any) -> None:
    a = np.ones(5, np.float32)
    for n in (np.int64(5), np.uint8(5), np.array(5)):
        np.testing.assert_array_equal(knl(a=a, n=n)[1][0], 2 * a)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ({}, ["'a' is missing"]),
        ({"n": 5}, ["'a' is missing"]),
        ({"a": [1.0, 2.0]}, ["'a' is an array", "list"]),
        ({"a": 3.0}, ["'a' is an array", "float"]),
        ({"a": np.float32(3)}, ["'a' has 0 axes, not 1"]),
        ({"b": 3}, ["no argument 'b'"]),
        ({"a": np.ones((2, 3), np.float32)}, ["'a' has 2 axes, not 1"]),
        ({"a": np.ones((), np.float32)}, ["'a' has 0 axes, not 1"]),
        ({"a": np.ones(4, np.float32), "n": 5}, ["'a' has shape (4,), not (5,)", "n = 5"]),
        ({"a": np.ones(4, np.float32), "n": 5.0}, ["'n' is an integer", "5.0"]),
        ({"a": np.ones(4, np.float32), "n": "4"}, ["'n' is an integer"]),
        ({"a": np.ones(4, np.float32), "n": np.ones(1, int)}, ["'n' is a number", "(1,)"]),
        ({"a": np.ones(4, np.float32), "n": 2**31 - 1}, ["'n' is 2147483647", "index_dtype"]),
        ({"a": np.ones(8, np.float32)[::2]}, ["'a' has strides of (8,)", "of (1,) elements"]),
        ({"a": np.ones(4, np.float32)[::-1]}, ["'a' has strides of (-4,)"]),
        ({"a": np.ones(4, ">f4")}, ["'a'", "byte order"]),
        (
            {"a": np.ones(4, np.float32), "out": np.ones(5, np.float32)},
            ["'out' has shape (5,), not (4,)"],
        ),
    ],
)
def test_unfit_arguments(knl: Any, arguments: dict[str, Any], parts: list[str]) -> None:
    for _ in range(2):  # before there is code for these types, and after
        text = refusal(knl, **arguments)
        assert all(part in text for part in ["in kernel 'f'", *parts]), text
        knl(a=np.ones(3, np.float32))


def test_output_that_cannot_be_written(knl: Any) -> None:
    out = np.empty(3, np.float32)
    out.flags.writeable = False
    assert "'out' is read-only" in refusal(knl, a=np.ones(3, np.float32), out=out)


def test_elements_at_odd_addresses(knl: Any) -> None:
    a = np.zeros(13, np.uint8)[1:].view(np.float32)
    assert not a.flags.aligned
    assert "'a' are not aligned" in refusal(knl, a=a)


def test_positional_arguments(knl: Any) -> None:
    with pytest.raises(InvocationError, match="1 argument is passed by position"):
        knl(np.ones(3, np.float32))


def test_declared_type_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made = twice({"a": np.dtype(np.float32)})
    knl = program(HostTarget(), made, monkeypatch)
    text = refusal(knl, a=np.ones(3))
    assert "'a' has elements of type float64, not float32" in text
    text = refusal(knl, a=np.ones(3, np.float32), out=np.ones(3))
    assert "'out' has elements of type float64, not float32" in text


def test_output_that_is_read_must_be_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "void f(float *x, int n) { for (int i = 0; i < n; ++i) x[i] *= 2; }"
    knl = program(
        HostTarget(), module(source, array("x", "f4", "n", "inout"), value("n")), monkeypatch
    )
    text = refusal(knl, n=3)
    assert "'x' is missing" in text
    assert "is_input=False" in text
    x = np.ones(3, np.float32)
    assert knl(x=x)[1][0] is x
    np.testing.assert_array_equal(x, np.full(3, 2, np.float32))


def test_array_of_unknown_extent_must_be_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "void f(float *x) { x[0] = 7; }"
    knl = program(HostTarget(), module(source, array("x", "f4", None, "out")), monkeypatch)
    assert "'x' is missing" in refusal(knl)
    assert knl(x=np.zeros((2, 2), np.float32))[1][0][0, 0] == 7


def test_return_dict(monkeypatch: pytest.MonkeyPatch) -> None:
    knl = program(HostTarget(), twice, monkeypatch, untyped=("a", "out"), return_dict=True)
    _, result = knl(a=np.ones(2, np.float32))
    assert list(result) == ["out"]


def test_fortran_order(monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
    void f(double const *a, int n, int m, double *out)
    { for (int k = 0; k < n * m; ++k) out[k] = a[k]; }
    """
    made = module(
        source,
        array("a", "f8", "n,m", strides="1,n"),
        value("n"),
        value("m"),
        array("out", "f8", "n,m", "out", strides="1,n"),
    )
    knl = program(HostTarget(), made, monkeypatch)
    a = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    _, (out,) = knl(a=a)
    assert out.flags.f_contiguous
    np.testing.assert_array_equal(out, a)
    assert "strides of (1, n) elements" in refusal(knl, a=np.ascontiguousarray(a))
    # an axis with one entry has no stride that matters
    np.testing.assert_array_equal(knl(a=np.ones((1, 3)))[1][0], np.ones((1, 3)))


def test_padded_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
    void f(double *out, int n)
    { for (int i = 0; i < n; ++i) for (int j = 0; j < 3; ++j) out[4*i + j] = 10*i + j; }
    """
    made = module(source, array("out", "f8", "n,3", "out", strides="4,1"), value("n"))
    knl = program(HostTarget(), made, monkeypatch)
    expected = 10 * np.arange(2)[:, None] + np.arange(3)
    _, (out,) = knl(n=2)
    assert out.strides == (32, 8)
    np.testing.assert_array_equal(out, expected)
    memory = np.full((2, 4), -1.0)
    knl(n=2, out=memory[:, :3])
    np.testing.assert_array_equal(memory[:, :3], expected)
    assert (memory[:, 3] == -1).all()


def test_strides_that_are_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
    void f(double const *a, int n, int m, int s0, int s1, double *out)
    { for (int i = 0; i < n; ++i) for (int j = 0; j < m; ++j) out[i*m + j] = a[i*s0 + j*s1]; }
    """
    made = module(
        source,
        array("a", "f8", "n,m", strides="s0,s1"),
        value("n"),
        value("m"),
        value("s0", is_temporary=True),
        value("s1", is_temporary=True),
        array("out", "f8", "n,m", "out"),
    )
    knl = program(HostTarget(), made, monkeypatch)
    a = np.arange(24.0).reshape(4, 6)
    for part in (a, a.T, a[::2, 1::3], a[::-1, ::-2]):
        np.testing.assert_array_equal(knl(a=part)[1][0], part)


def test_offsets_are_in_the_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
    #include <stdint.h>
    void f(double const *a, int64_t a_offset, int n, double *out)
    { for (int i = 0; i < n; ++i) out[i] = a[a_offset + i]; }
    """
    made = module(
        source,
        array("a", "f8", "n", offset="a_offset"),
        value("n"),
        array("out", "f8", "n", "out"),
    )
    a = np.arange(9.0)[3:]
    np.testing.assert_array_equal(program(HostTarget(), made, monkeypatch)(a=a)[1][0], a)


def test_numbers_of_all_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
    #include <complex.h>
    #include <stdint.h>
    #include <stdbool.h>
    void f(float x, double y, float complex z, double complex w, int8_t b, uint64_t u, bool t,
           double complex *out)
    { out[0] = x; out[1] = y; out[2] = z; out[3] = w; out[4] = b; out[5] = u; out[6] = t; }
    """
    kinds = {"x": "f4", "y": "f8", "z": "c8", "w": "c16", "b": "i1", "u": "u8", "t": "?"}
    values = [value(name, kind) for name, kind in kinds.items()]
    made = module(source, *values, array("out", "c16", "7", "out"))
    knl = program(HostTarget(), made, monkeypatch)
    given = {"x": 0.5, "y": 1, "z": 2 - 3j, "w": 4 + 5j, "b": -7, "u": 2**53, "t": True}
    _, (out,) = knl(**given)
    np.testing.assert_array_equal(out, list(given.values()))
    typed = {name: np.dtype(kinds[name]).type(number) for name, number in given.items()}
    np.testing.assert_array_equal(knl(**typed)[1][0], list(given.values()))
    assert "'b' is 128" in refusal(knl, **{**given, "b": 128})
    assert "'u' is -1" in refusal(knl, **{**given, "u": -1})
    assert "'x' is a real number" in refusal(knl, **{**given, "x": 1j})
    assert "'y' is a real number" in refusal(knl, **{**given, "y": "1"})
    assert "'y' is missing" in refusal(knl, **{**given, "y": None})


def test_number_whose_type_the_call_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(dtypes: Dtypes) -> Module:
        c_name = C_NAMES[dtypes["x"].name]
        source = f"void f({c_name} x, {c_name} *out) {{ out[0] = x; }}"
        return module(source, value("x", dtypes["x"]), array("out", dtypes["x"], "1", "out"))

    knl = program(HostTarget(), made, monkeypatch, untyped=("x", "out"))
    for x in (np.float32(2.5), np.float64(3.5), np.array(4.5), np.int32(5), np.float32(6)):
        _, (out,) = knl(x=x)
        assert (out.dtype, out[0]) == (x.dtype, x)


def test_temporaries_and_several_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
    void f0(double const *a, int n, double *t) { for (int i = 0; i < n; ++i) t[i] = 2*a[i]; }
    void f1(double const *t, int n, double *out) { for (int i = 0; i < n; ++i) out[i] = t[n-1-i]; }
    """
    made = module(
        source,
        array("a", "f8", "n"),
        value("n"),
        array("t", "f8", "n", "inout", is_temporary=True),
        array("out", "f8", "n", "out"),
        launches=(
            Launch("f0", ("a", "n", "t"), (), ()),
            Launch("f1", ("t", "n", "out"), (), ()),
        ),
    )
    knl = program(HostTarget(), made, monkeypatch)
    np.testing.assert_array_equal(knl(a=np.arange(4.0))[1][0], 2 * np.arange(4.0)[::-1])
    assert "no argument 't'" in refusal(knl, a=np.arange(4.0), t=np.arange(4.0))


def test_arguments_with_names_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "void f(double const *x, int len, double *out) { out[0] = x[len - 1]; }"
    made = module(
        source, array("lambda", "f8", "len"), value("len"), array("out", "f8", "1", "out")
    )
    knl = program(HostTarget(), made, monkeypatch)
    assert knl(**{"lambda": np.arange(4.0)})[1][0][0] == 3


def test_code_that_does_not_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    knl = program(
        HostTarget(), module("void f(float *x) { y = 1; }", array("x", "f4", "1")), monkeypatch
    )
    with pytest.raises(CompilationError) as caught:
        knl(x=np.ones(1, np.float32))
    text = str(caught.value)
    assert "y" in text
    path = text[text.index("(/") + 1 : text.index(")")]
    assert Path(path).read_text() == "void f(float *x) { y = 1; }"
    assert path in text[text.index("because") :]


def test_build_options(monkeypatch: pytest.MonkeyPatch) -> None:
    made = module("void f(int *out) { out[0] = ANSWER; }", array("out", "i4", "1", "out"))
    knl = program(HostTarget(), made, monkeypatch, build_options=["-DANSWER=42"])
    assert knl()[1][0][0] == 42


def test_missing_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler --please")
    made = module("void f(int *out) { out[0] = 1; }", array("out", "i4", "1", "out"))
    with pytest.raises(CompilationError, match="no-such-compiler"):
        program(HostTarget(), made, monkeypatch)()


def test_write_code_and_wrapper(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = module("void f(int *out) { out[0] = 1; }", array("out", "i4", "1", "out"))
    knl = program(HostTarget(), made, monkeypatch, write_code=True, write_wrapper=True)
    knl()
    printed = capsys.readouterr().out
    assert made.device_source in printed
    assert "def invoke_f(" in printed
    knl()
    assert not capsys.readouterr().out
    file = tmp_path / "code.c"
    program(HostTarget(), made, monkeypatch, write_code=str(file))()
    assert file.read_text() == made.device_source + "\n"


def test_edit_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "code.c"
    made = module("void f(int *out) { out[0] = 1; }", array("out", "i4", "1", "out"))
    assert program(HostTarget(), made, monkeypatch, edit_code=str(file))()[1][0][0] == 1
    file.write_text(file.read_text().replace("1;", "2;"))
    assert program(HostTarget(), made, monkeypatch, edit_code=str(file))()[1][0][0] == 2


@pytest.mark.parametrize("option", ["write_code", "write_wrapper", "edit_code"])
def test_files_that_cannot_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, option: str) -> None:
    made = module("void f(int *out) { out[0] = 1; }", array("out", "i4", "1", "out"))
    where: Any = {option: tmp_path / "none" / "code.c"}
    with pytest.raises(InvocationError, match=r"none/code\.c', which an option names"):
        program(HostTarget(), made, monkeypatch, **where)()
    with pytest.raises(KernelError, match="True, False or the name of a file, not 3"):
        make_options({option: 3})


@pytest.mark.parametrize(
    ("editor", "why"),
    [("sed -i s/1;/3;/", None), ("", "EDITOR is not set"), ("false", "exit status 1"), ("'", "No")],
)
def test_editor(monkeypatch: pytest.MonkeyPatch, editor: str, why: str | None) -> None:
    monkeypatch.setenv("EDITOR", editor)
    made = module("void f(int *out) { out[0] = 1; }", array("out", "i4", "1", "out"))
    knl = program(HostTarget(), made, monkeypatch, edit_code=True)
    if why is None:
        assert knl()[1][0][0] == 3
        return
    with pytest.raises(InvocationError, match=why):
        knl()


def test_skip_arg_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    knl = program(HostTarget(), twice, monkeypatch, untyped=("a", "out"), skip_arg_checks=True)
    a = np.arange(6, dtype=np.float32)
    _, (out,) = knl(a=a, n=4)
    np.testing.assert_array_equal(out, 2 * a[:4])
    assert knl(a=a.astype(np.float64))[1][0].dtype == np.float64
    assert "'a' is missing" in refusal(knl, n=4)


LOAD = """
import sys
from kgen.runtime.c import load_library
from kgen.runtime.cache import DiskCache
assert load_library(DiskCache(sys.argv[1]), "int f(void) { return 5; }", (), "f").f() == 5
"""


def test_library_is_compiled_once_and_again_when_damaged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log, compiler = tmp_path / "log", tmp_path / "cc"
    compiler.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec cc "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))

    def load_and_count() -> int:
        subprocess.run([sys.executable, "-c", LOAD, str(tmp_path / "cache")], check=True)
        return sum("-shared" in line for line in log.read_text().splitlines())

    assert [load_and_count(), load_and_count()] == [1, 1]
    (entry,) = tmp_path.glob("cache/*/*")
    entry.write_bytes(entry.read_bytes()[:-5])
    assert [load_and_count(), load_and_count()] == [2, 2]


def test_cache_folder_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("KGEN_CACHE_DIR", str(tmp_path / "file"))
    made = module("void f(int *out) { out[0] = 6; }", array("out", "i4", "1", "out"))
    assert program(HostTarget(), made, monkeypatch)()[1][0][0] == 6


@st.composite
def arrays(draw: Any) -> np.ndarray[Any, Any]:
    """Draw an array that fits by chance only: its shape, type and layout."""
    shape = draw(st.lists(st.integers(0, 3), min_size=1, max_size=2))
    dtype = draw(st.sampled_from([np.float32, np.float32, np.float64]))
    array = np.ones(shape, dtype, order=draw(st.sampled_from("CF")))
    return array[:: draw(st.sampled_from([1, 1, -1]))]


@st.composite
def calls(draw: Any) -> dict[str, Any]:
    """Draw the arguments of a good call, with one that may be bad instead."""
    n, m = draw(st.integers(0, 3)), draw(st.integers(1, 3))
    fitting = {
        "a": np.ones((n, m), np.float32),
        "b": np.arange(n + m + 1, dtype=np.float32),
        "out": draw(st.sampled_from([None, np.zeros((n, m), np.float32)])),
        "n": draw(st.sampled_from([None, n, np.int64(n)])),
    }
    number = st.one_of(st.integers(-1, 4), st.sampled_from([2.0, "2", np.int8(2)]))
    name = draw(st.sampled_from([None, *fitting]))
    bad = {name: draw(number if name == "n" else arrays())} if name else {}
    return {**fitting, **bad}


@given(calls())
def test_quick_checks_and_reasons_agree(arguments: dict[str, Any]) -> None:
    source = """
    void f(float const *a, float const *b, int n, int m, float *out)
    { for (int i = 0; i < n; ++i) for (int j = 0; j < m; ++j) out[i*m + j] = a[i*m + j] + b[n+m]; }
    """
    made = module(
        source,
        array("a", "f4", "n,m"),
        array("b", "f4", "n + m + 1"),
        value("n"),
        value("m"),
        array("out", "f4", "n,m", "out"),
    )
    reason = None
    try:
        CallChecker(HostProgram.of(made)).check(arguments)
    except InvocationError as error:
        reason = str(error)
    with pytest.MonkeyPatch.context() as monkeypatch:
        knl = program(HostTarget(), made, monkeypatch)
        if reason is None:
            a, b = arguments["a"], arguments["b"]
            np.testing.assert_array_equal(knl(**arguments)[1][0], a + b[-1])
        else:
            assert refusal(knl, **arguments) == reason
            assert "do not fit the kernel" not in reason


def test_threads(knl: Any) -> None:
    wrong: list[Any] = []

    def work(number: int) -> None:
        dtype = (np.float32, np.float64)[number % 2]
        a = np.full(1000, number, dtype)
        for _ in range(50):
            _, (out,) = knl(a=a)
            if out.dtype != dtype or not (out == 2 * number).all():
                wrong.append(out)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
