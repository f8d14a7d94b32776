"""Expressions of C: their types and conversions, compared with those of a C compiler."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

from kgen.elementwise import ElementwiseKernel
from kgen.errors import KgenError

EXPRESSIONS = [
    "b[i] / 3",
    "b[i] / -3",
    "b[i] % 3",
    "b[i] % (s[i] | 1)",
    "u[i] / 3 - 1 < 0",
    "u[i] - 20 > 0",
    "b[i] < u[i]",
    "s[i] * s[i]",
    "b[i] + 2.5",
    "b[i] * x[i] / 3",
    "(int) (x[i] * 2) + 0.5f",
    "(unsigned char) (b[i] * 40)",
    "x[i] > 1 ? b[i] : u[i]",
    "!b[i] + (b[i] && x[i] > 0)",
    "~b[i] & 0x1f | 1 << 3",
    "b[i] >> 1",
    "-u[i] / 2",
    "sqrt(b[i]*b[i]) + fabs(x[i])",
    "fmaxf(x[i], 0.25f) - floor(x[i])",
    "i*i / n + 07 + 'a' + 1e1",
    "(long) b[i] * 3000000000",
    "sizeof(double) + b[i]",
]


@pytest.fixture(scope="module")
def data() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {
        "b": rng.integers(-9, 9, 40).astype(np.int32),
        "u": rng.integers(0, 40, 40).astype(np.uint32),
        "s": rng.integers(-100, 100, 40).astype(np.int16),
        "x": rng.normal(size=40).astype(np.float32),
    }


def test_values_are_those_of_a_c_compiler(data: dict[str, np.ndarray], tmp_path: Path) -> None:
    count = len(EXPRESSIONS)
    store = "".join(f"out[{count}*i + {k}] = {text};" for k, text in enumerate(EXPRESSIONS))
    arguments = "int *b, unsigned *u, short *s, float *x, double *out"
    loop = f"for (long i = 0; i < n; ++i) {{ {store} }}"
    code = f"#include <math.h>\nvoid run({arguments}, long n) {{ {loop} }}"
    (tmp_path / "run.c").write_text(code)
    command = ["cc", "-shared", "-fPIC", "-o", str(tmp_path / "run.so"), str(tmp_path / "run.c")]
    subprocess.run([*command, "-lm"], check=True)
    expected, found = np.zeros((2, 40, count))
    run = ctypes.CDLL(str(tmp_path / "run.so")).run
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*data.values(), expected)]
    run(*pointers, ctypes.c_long(40))
    knl = ElementwiseKernel(arguments, store)
    knl(*data.values(), found.reshape(-1))
    for k, text in enumerate(EXPRESSIONS):
        np.testing.assert_allclose(found[:, k], expected[:, k], rtol=1e-6, err_msg=text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x[i] = foo(b[i])", "no function 'foo'"),
        ("x[i] = y", "no argument 'y'"),
        ("x[i] = (", "is not valid C"),
        ("x[i] = x[i] % 2", "write fmod"),
        ("x[i] = x", "write x\\[i\\]"),
        ("x[i] = (b[i] = 2)", "separate statement"),
        ("x[i] = **b", "write x\\[k\\]"),
        ("x[x[i]] = 1", "cast it to an integer"),
        ("x[i] = b[i].real", "fields of structures"),
        ("x[i] = sqrt(1, 2, 3)", "takes 1 argument"),
        ("x[i] = fabs()", "does not take 0"),
    ],
)
def test_what_cannot_be_expressed_says_what_to_write(text: str, message: str) -> None:
    arrays = np.zeros(3, np.int32), np.zeros(3, np.float32)
    with pytest.raises(KgenError, match=message):
        ElementwiseKernel("int *b, float *x", text)(*arrays)


def test_an_error_gives_the_place() -> None:
    with pytest.raises(KgenError, match="'operation', line 2, column 8"):
        ElementwiseKernel("float *x", "x[i] = 1;\nx[i] = foo;")


def test_functions_and_macros_of_the_preamble() -> None:
    preamble = """
    #define TWICE(v) (2*(v))
    inline int sign(float v) { if (v < 0) return -1; float one = 1; return one; }
    static float element(float const *y, int k) { return y[k]; }
    """
    knl = ElementwiseKernel(
        "float *x, float *y", "y[i] = TWICE(sign(element(x, i)))", preamble=preamble
    )
    x, y = np.array([-2, 3, 4], np.float32), np.zeros(3, np.float32)
    knl(x, y)
    assert y.tolist() == [-2, 2, 2]


def test_complex_numbers_of_pyopencl_and_pycuda() -> None:
    z = np.array([1 + 2j, 3 - 1j], np.complex64)
    w = np.zeros_like(z)
    ElementwiseKernel("cfloat_t *z, cfloat_t *w", "w[i] = cfloat_mul(z[i], cfloat_conj(z[i]))")(
        z, w
    )
    np.testing.assert_allclose(w, z * z.conj())
    ElementwiseKernel(
        "pycuda::complex<float> *z, pycuda::complex<float> *w", "w[i] = z[i]*z[i] + z[i].real / 2"
    )(z, w)
    np.testing.assert_allclose(w, z * z + z.real / 2)


def test_headers_of_known_functions_are_left_out() -> None:
    preamble = "#include <pycuda-complex.hpp>\n  # include <math.h>\n#pragma once\n#define TWO 2"
    x = np.ones(3, np.float32)
    ElementwiseKernel("float *x", "x[i] = TWO*sqrt(4*x[i]);  // a remark", preamble=preamble)(x)
    assert x.tolist() == [4, 4, 4]
    with pytest.raises(KgenError, match=r"includes 'own\.h'.*\n.*into the preamble"):
        ElementwiseKernel("float *x", "x[i] = 1", preamble='#include "own.h"\n')


def test_constants_of_c_and_opencl() -> None:
    names = "CHAR_MIN SHRT_MAX UCHAR_MAX UINT64_MAX MAXFLOAT M_SQRT2 M_PI_F FLT_MAX HUGE_VAL"
    found = np.zeros(9)
    store = "".join(f"x[{k}] = {name}; " for k, name in enumerate(names.split()))
    ElementwiseKernel("double *x", f"if (i == 0) {{ {store} }}")(found)
    largest = np.finfo(np.float32).max
    expected = [-128, 2**15 - 1, 255, 2.0**64, largest, 2**0.5, np.float32(np.pi), largest, np.inf]
    np.testing.assert_array_equal(found, expected)
