"""The kernels of ``host.py``, and for each the best schedule for a host that is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

import kgen as lp

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)


Build: TypeAlias = Callable[[], lp.TranslationUnit]
Transform: TypeAlias = Callable[[lp.TranslationUnit], lp.TranslationUnit]

#: The kernels without a schedule, and with one by hand, by name as the inputs have them.
PLAIN: dict[str, Build] = {}
KERNELS: dict[str, Build] = {}


def scheduled(schedule: Transform, multiple: int = 1) -> Callable[[Build], Build]:
    """Register a kernel, with a schedule for sizes that are a *multiple* of a number."""

    def register(build: Build) -> Build:
        PLAIN[build.__name__] = build
        sizes = f"n mod {multiple} = 0 and n <= 100000000"
        KERNELS[build.__name__] = lambda: schedule(lp.assume(build(), sizes))
        return build

    return register


def split(iname: str, length: int) -> Transform:
    """Return the schedule in which threads run pieces of a loop."""
    return lambda knl: lp.split_iname(knl, iname, length, outer_tag="g.0")


def on_threads(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Let threads run the iterations of the outermost loop."""
    return lp.tag_inames(knl, "i:g.0")


def make(
    domains: Any, code: str, data: list[Any], *, in_order: bool = False, fast_math: bool = False
) -> lp.TranslationUnit:
    """Make a kernel."""
    sizes = "n >= 1"
    target = lp.ExecutableCTarget(fast_math=fast_math)
    return lp.make_kernel(
        domains,
        code,
        [*data, "..."],
        target=target,
        assumptions=sizes,
        seq_dependencies=in_order,
    )


def array(names: str, shape: str | None, dtype: Any = F64) -> lp.GlobalArg:
    return lp.GlobalArg(names, dtype, shape=shape)


def past_the_cache(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    knl = lp.tag_instructions(knl, "!streaming_store")
    return lp.split_iname(knl, "i", 8192, outer_tag="g.0")


@scheduled(past_the_cache)
def axpy() -> lp.TranslationUnit:
    data = [lp.ValueArg("a", F64), array("x, y, out", "n")]
    return make("{ [i]: 0 <= i < n }", "out[i] = a*x[i] + y[i]", data)


@scheduled(split("i", 16))
def laplacian() -> lp.TranslationUnit:
    total = "u[i, j+1] + u[i+2, j+1] + u[i+1, j] + u[i+1, j+2] - 4*u[i+1, j+1]"
    data = [array("u", "n+2, n+2"), array("out", "n, n")]
    return make("{ [i, j]: 0 <= i, j < n }", f"out[i, j] = {total}", data)


def in_tiles(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Squares of 16 x 16, in registers, within blocks of 64 x 256."""
    knl = lp.split_iname(lp.assume(knl, "n <= 40000"), "i", 64, outer_tag="g.1")
    knl = lp.split_iname(knl, "j", 256, outer_tag="g.0")
    knl = lp.split_iname(lp.split_iname(knl, "j_inner", 16), "i_inner", 16)
    inner = "j_inner_outer, i_inner_outer, i_inner_inner, j_inner_inner"
    return lp.prioritize_loops(knl, inner)


@scheduled(in_tiles, multiple=256)
def transpose() -> lp.TranslationUnit:
    data = [array("a, out", "n, n", F32)]
    return make("{ [i, j]: 0 <= i, j < n }", "out[i, j] = a[j, i]", data)


def product_by_hand(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Panels of 256 x 32 of ``b`` are packed; 8 x 32 sums are in registers: a kernel of its own."""
    code = """
    for row, j
        out[row, j] = 0 {id=zero}
    end
    for panel, i, j
        out[i, j] = out[i, j] + sum(k, a[i, 256*panel + k]*b[256*panel + k, j])
    end
    """
    domains = [
        "{ [row, i, j]: 0 <= row, i, j < n }",
        "{ [panel, k]: 0 <= panel < n/256 and 0 <= k < 256 }",
    ]
    data = [array("a, b, out", "n, n", F32)]
    knl = lp.assume(make(domains, code, data, in_order=True), "n mod 256 = 0 and n <= 40000")
    knl = lp.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="vec")
    knl = lp.split_iname(knl, "i", 8, inner_tag="ilp")
    knl = lp.prioritize_loops(knl, "panel, i_outer, k")
    return lp.add_prefetch(
        knl, "b", ["k", "j_inner"], default_tag=None, fetch_outer_inames="j_outer, panel"
    )


@scheduled(product_by_hand, multiple=256)
def matmul() -> lp.TranslationUnit:
    data = [array("a, b, out", "n, n", F32)]
    domain = "{ [i, j, k]: 0 <= i, j, k < n }"
    return make(domain, "out[i, j] = sum(k, a[i, k]*b[k, j])", data)


@scheduled(split("row", 1024))
def csr() -> lp.TranslationUnit:
    code = """
    for row
        <> first = starts[row]
        <> last = starts[row + 1]
        out[row] = sum(k, values[k]*x[columns[k]])
    end
    """
    data = [
        array("starts", "n + 1", np.int32),
        array("columns", None, np.int32),
        array("values", None),
        array("x, out", "n"),
    ]
    return make(["{ [row]: 0 <= row < n }", "{ [k]: first <= k < last }"], code, data)


def in_sums(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Add up in 32 lanes for each work-group, whose order the compiler need not change."""
    knl = lp.split_iname(lp.set_options(knl, insert_gbarriers=True), "i", 32, inner_tag="vec")
    return lp.split_iname(knl, "i_outer", 512, outer_tag="g.0")


@scheduled(in_sums, multiple=32)
def total() -> lp.TranslationUnit:
    data = [array("a", "n"), array("out", "1")]
    return make("{ [i]: 0 <= i < n }", "out[0] = sum(i, a[i])", data)


@scheduled(on_threads)
def stencil7() -> lp.TranslationUnit:
    around = "u[i, j+1, k+1] + u[i+2, j+1, k+1] + u[i+1, j, k+1] + u[i+1, j+2, k+1]"
    line = "u[i+1, j+1, k] + u[i+1, j+1, k+2] - 6*u[i+1, j+1, k+1]"
    data = [array("u", "n+2, n+2, n+2"), array("out", "n, n, n")]
    return make("{ [i, j, k]: 0 <= i, j, k < n }", f"out[i, j, k] = {around} + {line}", data)


def in_copies(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    return lp.tag_inames(lp.split_iname(knl, "e", 64, outer_tag="g.0"), "i:unr, k:unr")


@scheduled(in_copies)
def small_products() -> lp.TranslationUnit:
    domain = "{ [e, i, j, k]: 0 <= e < n and 0 <= i, j, k < 10 }"
    data = [array("d", "10, 10", F32), array("u, out", "n, 10, 10", F32)]
    return make(domain, "out[e, i, j] = sum(k, d[i, k]*u[e, k, j])", data)


def in_lanes(length: int, lanes: int) -> Transform:
    """Let threads run *length* values of ``i``, so many *lanes* at a time."""

    def schedule(knl: lp.TranslationUnit) -> lp.TranslationUnit:
        knl = lp.split_iname(knl, "i", length, outer_tag="g.0")
        return lp.split_iname(knl, "i_inner", lanes, inner_tag="vec")

    return schedule


@scheduled(in_lanes(64, 64))
def nbody() -> lp.TranslationUnit:
    code = """
    for i
        <> sx = cast(np.float32, 0)
        <> sy = cast(np.float32, 0)
        <> sz = cast(np.float32, 0)
        for j
            <> dx = x[j] - x[i]
            <> dy = y[j] - y[i]
            <> dz = z[j] - z[i]
            <> r2 = dx*dx + dy*dy + dz*dz + 0.01
            <> w = mass[j] / (r2*sqrt(r2))
            sx = sx + w*dx
            sy = sy + w*dy
            sz = sz + w*dz
        end
        ax[i] = sx
        ay[i] = sy
        az[i] = sz
    end
    """
    data = [array("x, y, z, mass, ax, ay, az", "n", F32)]
    return make("{ [i, j]: 0 <= i, j < n }", code, data, in_order=True, fast_math=True)


@scheduled(in_lanes(64, 32))
def rk4() -> lp.TranslationUnit:
    def stage(at: str, slope: str, step: str, to: str) -> str:
        derivatives = f"""
            <> {slope}x = 10*({at}y - {at}x)
            <> {slope}y = {at}x*(28 - {at}z) - {at}y
            <> {slope}z = {at}x*{at}y - 8/3*{at}z"""
        return derivatives + "".join(
            f"\n            <> {to}{c} = s{c} + {step}*{slope}{c}" for c in "xyz" if to
        )

    state = "".join(f"\n        <> s{c} = {c}s[i]" for c in "xyz")
    stages = stage("s", "k1", "h/2", "p") + stage("p", "k2", "h/2", "q")
    stages += stage("q", "k3", "h", "r") + stage("r", "k4", "", "")
    update = "".join(
        f"\n            s{c} = s{c} + h/6*(k1{c} + 2*k2{c} + 2*k3{c} + k4{c})" for c in "xyz"
    )
    results = "".join(f"\n        o{c}[i] = s{c}" for c in "xyz")
    code = f"for i{state}\n        for t{stages}{update}\n        end{results}\nend"
    data = [lp.ValueArg("h", F64), array("xs, ys, zs, ox, oy, oz", "n")]
    return make("{ [i, t]: 0 <= i < n and 0 <= t < 10 }", code, data, in_order=True)


@scheduled(on_threads)
def stencil25() -> lp.TranslationUnit:
    def pair(r: int) -> str:
        ends = [f"u[i+{4 + s}, j+4, k+4] + u[i+4, j+{4 + s}, k+4]" for s in (-r, r)]
        return f"c[{r}]*({' + '.join(ends)} + u[i+4, j+4, k+{4 - r}] + u[i+4, j+4, k+{4 + r}])"

    sums = " + ".join(["c[0]*u[i+4, j+4, k+4]", *map(pair, range(1, 5))])
    data = [array("c", "5"), array("u", "n+8, n+8, n+8"), array("out", "n, n, n")]
    return make("{ [i, j, k]: 0 <= i, j, k < n }", f"out[i, j, k] = {sums}", data)


#: Of D2Q9: the velocities, and weights by the number of axes along which one moves.
VELOCITIES = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
WEIGHTS = {0: "4/9", 1: "1/9", 2: "1/36"}


@scheduled(on_threads)
def lbm() -> lp.TranslationUnit:
    def along(axis: int) -> str:
        return " + ".join(f"{v[axis]}*g{q}" for q, v in enumerate(VELOCITIES) if v[axis])

    lines = [f"<> g{q} = f[{q}, i+{1 - y}, j+{1 - x}]" for q, (x, y) in enumerate(VELOCITIES)]
    lines += ["<> rho = " + " + ".join(f"g{q}" for q in range(9))]
    lines += [f"<> u = ({along(0)})/rho", f"<> v = ({along(1)})/rho"]
    lines += ["<> rest = 1 - 1.5*(u*u + v*v)"]
    for q, (x, y) in enumerate(VELOCITIES):
        cu = f"3*({x}*u + {y}*v)"
        weight = WEIGHTS[abs(x) + abs(y)]
        lines += [f"<> c{q} = {cu}"]
        equilibrium = f"{weight}*rho*(rest + c{q} + 0.5*c{q}*c{q})"
        lines += [f"out[{q}, i, j] = g{q} + omega*({equilibrium} - g{q})"]
    code = "\n".join(["for i, j", *lines, "end"])
    data = [lp.ValueArg("omega", F64), array("f", "9, n+2, n+2"), array("out", "9, n, n")]
    return make("{ [i, j]: 0 <= i, j < n }", code, data)
