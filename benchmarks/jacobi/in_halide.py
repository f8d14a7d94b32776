"""One step of Jacobi's iteration in Halide."""

import halide as hl

u = hl.ImageParam(hl.Float(32), 2)
x, y, yo, yi = hl.Var("x"), hl.Var("y"), hl.Var("yo"), hl.Var("yi")
jacobi = hl.Func("jacobi")
jacobi[x, y] = hl.f32(0.25) * (u[x, y - 1] + u[x, y + 1] + u[x - 1, y] + u[x + 1, y])
jacobi.split(y, yo, yi, 16).parallel(yo).vectorize(x, 16)


def step(image, out):
    u.set(hl.Buffer(image))
    result = hl.Buffer(out[1:-1, 1:-1])
    result.set_min([1, 1])
    jacobi.realize(result)
