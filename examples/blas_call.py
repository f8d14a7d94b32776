"""
A BLAS call between loops
=========================

A library's function in the midst of generated loops: dense layers by cblas_dgemv.

Each of n inputs goes through the same layer, tanh(W x + bias). The product is a call of BLAS,
described by a class that says what it takes and how it is called; the loops around and behind it,
and the temporary between the two, are kgen's. Where no CBLAS is installed, a function of the same
interface stands in for it.

    python examples/blas_call.py --n 200
"""

from __future__ import annotations

import argparse
import ctypes.util
import sys
from typing import Any

import numpy as np
from pymbolic import var

import kgen as lp

ROWS, COLUMNS = 48, 64
MAX_ERROR = 1e-12

#: The interface of CBLAS, whose enumerations are ints: row-major is 101, "not transposed" 111.
INTERFACE = """\
void cblas_dgemv(
    int order, int transposed, int rows, int columns, double alpha, double const *a, int lda,
    double const *x, int incx, double beta, double *y, int incy)"""
STAND_IN = """
{
  for (int i = 0; i < rows; ++i)
  {
    double sum = 0;
    for (int j = 0; j < columns; ++j)
      sum += a[i * lda + j] * x[j * incx];
    y[i * incy] = alpha * sum + (beta == 0 ? 0 : beta * y[i * incy]);
  }
}"""


class Gemv(lp.ScalarCallable):
    """The product of a matrix, whose rows are contiguous, and a vector."""

    def with_types(self, arg_id_to_dtype: Any, clbl_inf_ctx: Any) -> Any:
        real = lp.NumpyType(np.dtype(np.float64))
        return self.copy(arg_id_to_dtype={0: real, 1: real, -1: real}), clbl_inf_ctx

    def with_descrs(self, arg_id_to_descr: Any, clbl_inf_ctx: Any) -> Any:
        matrix, vector, result = (arg_id_to_descr[k] for k in (0, 1, -1))
        if matrix.dim_tags[1].stride != 1 or matrix.shape != (*result.shape, *vector.shape):
            raise lp.KgenError(f"gemv cannot multiply {matrix} and {vector} to {result}")
        return self.copy(arg_id_to_descr=arg_id_to_descr), clbl_inf_ctx

    def emit_call_insn(self, insn: Any, target: Any, expression_to_code_mapper: Any) -> Any:
        matrix, vector, result = (self.arg_id_to_descr[k] for k in (0, 1, -1))
        strides = (descr.dim_tags[0].stride for descr in (matrix, vector, result))
        code = expression_to_code_mapper
        a, x = (code(part).expr for part in insn.expression.parameters)
        (y,) = (code(place).expr for place in insn.assignees)
        lda, incx, incy = strides
        call = var("cblas_dgemv")(101, 111, *matrix.shape, 1.0, a, lda, x, incx, 0.0, y, incy)
        return call, False


def find_cblas() -> str | None:
    """Return the file name of a library that has CBLAS, if there is one."""
    for name in ("openblas", "cblas", "mkl_rt"):
        found = ctypes.util.find_library(name)
        if found is not None and hasattr(ctypes.CDLL(found), "cblas_dgemv"):
            return found
    return None


def make_layers(library: str | None) -> lp.TranslationUnit:
    """Return the kernel; *library* is what is linked, ``None`` to use the stand-in."""
    no_library = library is None
    knl = lp.make_kernel(
        "{ [k, i, j]: 0 <= k < n and 0 <= i < rows and 0 <= j < columns }",
        [
            "input[j] = x[k, j]  {id=load}",
            "product[:] = gemv(w[:, :], input[:])  {id=multiply, dep=load, inames=k}",
            "y[k, i] = tanh(product[i] + bias[i])  {dep=multiply}",
        ],
        [
            lp.GlobalArg("w", np.float64, shape="rows, columns"),
            lp.GlobalArg("x", np.float64, shape="n, columns"),
            lp.GlobalArg("bias", np.float64, shape="rows"),
            lp.GlobalArg("y", np.float64, shape="n, rows", is_input=False),
            lp.TemporaryVariable("input", np.float64, shape="columns"),
            lp.TemporaryVariable("product", np.float64, shape="rows"),
            ...,
        ],
        name="layers",
        target=lp.ExecutableCTarget(),
        preambles=[("cblas", f"static {INTERFACE}{STAND_IN}" if no_library else f"{INTERFACE};")],
    )
    knl = lp.register_callable(knl, "gemv", Gemv("gemv"))
    knl = lp.fix_parameters(knl, rows=ROWS, columns=COLUMNS)
    if not no_library:
        knl = lp.set_options(knl, build_options=["-Wl,--no-as-needed", f"-l:{library}"])
    return knl


def kernels() -> dict[str, lp.TranslationUnit]:
    """Return this example's kernel, as it is without CBLAS."""
    return {"c": make_layers(None)}


def layers_in_numpy(w: Any, x: Any, bias: Any) -> Any:
    """Return the expected result."""
    return np.tanh(x @ w.T + bias)


def main(arguments: list[str] | None = None) -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--stand-in", action="store_true", help="do without an installed CBLAS")
    options = parser.parse_args(arguments)

    library = None if options.stand_in else find_cblas()
    knl = make_layers(library)
    print(lp.generate_code_v2(knl).device_code())

    draw = np.random.default_rng(5)
    w, x, bias = (draw.random(s) - 0.5 for s in ((ROWS, COLUMNS), (options.n, COLUMNS), (ROWS,)))
    _, (y,) = knl(w=w, x=x, bias=bias)
    error = float(np.abs(y - layers_in_numpy(w, x, bias)).max())
    print(f"{options.n} layers by {library or 'the stand-in'}: maximal error {error:.1e}")
    if not error <= MAX_ERROR:
        print(f"the error is above {MAX_ERROR:.0e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
