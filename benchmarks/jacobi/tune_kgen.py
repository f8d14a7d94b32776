"""The block sizes of Jacobi's iteration, tuned by kgen on an OpenCL device."""

import kgen as lp

jacobi = lp.make_kernel(
    "{ [i, j]: 1 <= i, j < n - 1 }",
    "out[i, j] = 0.25*(u[i-1, j] + u[i+1, j] + u[i, j-1] + u[i, j+1])",
    [lp.GlobalArg("u, out", "float32", shape="n, n"), ...],
    name="jacobi",
    target=lp.PyOpenCLTarget(),
)


def build(block_size_x, block_size_y):
    knl = lp.split_iname(jacobi, "i", block_size_y, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "j", block_size_x, outer_tag="g.0", inner_tag="l.0")


def tune(n=1024):
    parameters = {"block_size_x": [16, 32, 64, 128], "block_size_y": [1, 2, 4, 8]}
    return lp.tune(build, parameters, sizes={"n": n}).best


if __name__ == "__main__":
    print(tune())
