"""One step of Jacobi's iteration in kgen."""

import numpy as np

import kgen as lp

jacobi = lp.make_kernel(
    "{ [i, j]: 1 <= i, j < n - 1 }",
    "out[i, j] = 0.25*(u[i-1, j] + u[i+1, j] + u[i, j-1] + u[i, j+1])",
    [lp.GlobalArg("u, out", np.float32, shape="n, n"), ...],
    target=lp.ExecutableCTarget(),
)
jacobi = lp.autoschedule(jacobi)


def step(u, out):
    jacobi(u=u, out=out)
