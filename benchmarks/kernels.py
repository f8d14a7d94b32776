"""The timed kernels, written once for kgen and loopy.

Each builder takes the module (``lp``: kgen or loopy, both by their documented names) and a size,
and returns a kernel that is ready for code generation. Every array has a type and a shape.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

N_TILE = 16
#: Below 386: a loop variable i386 would have to be renamed, which is done after a first attempt.
GROWTH_SIZES = (80, 320)


def device_code(lp: Any, knl: Any) -> str:
    """Generate the text of the device's code."""
    return str(lp.generate_code_v2(knl).device_code())


def counts(lp: Any, knl: Any) -> str:
    """Count operations, accesses and synchronizations."""
    maps = (lp.get_op_map, lp.get_mem_access_map, lp.get_synchronization_map)
    return "\n".join(str(get_map(knl, subgroup_size=32)) for get_map in maps)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kernel, its size, and the requirements on its times."""

    title: str
    build: Callable[[Any, int], Any]
    size: int = 1
    #: The size at which both are timed, where loopy takes about a second.
    compared_size: int = 1
    #: How many times faster than loopy kgen must be.
    required_ratio: float = 4
    #: The two sizes between which growth is measured, if it is, and the maximum exponent.
    growth_sizes: tuple[int, ...] = ()
    max_exponent: float = 1.1
    #: The function that is timed together with building the kernel.
    run: Callable[[Any, Any], str] = device_code


def make(lp: Any, domains: str | list[str], statements: str | list[str], data: list[Any]) -> Any:
    """Call make_kernel with the arguments that all cases share."""
    return lp.make_kernel(
        domains, statements, [*data, "..."], target=lp.OpenCLTarget(), lang_version=(2018, 2)
    )


def arrays(lp: Any, names: tuple[str, ...], shape: str) -> list[Any]:
    return [lp.GlobalArg(name, np.float32, shape=shape) for name in names]


def chained(count: int, inames: Callable[[int], str]) -> list[str]:
    """Return statements that double ``out`` in turn, each after the one before."""
    after = ["", *(f", dep=s{k}" for k in range(count - 1))]
    return [f"out[{inames(k)}] = 2*out[{inames(k)}] {{id=s{k}{after[k]}}}" for k in range(count)]


def copy(lp: Any, _size: int) -> Any:
    return make(lp, "{[i]: 0<=i<n}", "out[i] = 2*a[i]", arrays(lp, ("a", "out"), "n"))


def transpose(lp: Any, _size: int) -> Any:
    knl = make(lp, "{[i,j]: 0<=i,j<n}", "out[i,j] = a[j,i]", arrays(lp, ("a", "out"), "n,n"))
    knl = lp.split_iname(knl, "i", N_TILE, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "j", N_TILE, outer_tag="g.0", inner_tag="l.0")


def statements(lp: Any, size: int) -> Any:
    return make(lp, "{[i]: 0<=i<n}", chained(size, lambda _: "i"), arrays(lp, ("out",), "n"))


def nests(lp: Any, size: int) -> Any:
    domains = [f"{{[i{k}]: 0<=i{k}<n}}" for k in range(size)]
    return make(lp, domains, chained(size, lambda k: f"i{k}"), arrays(lp, ("out",), "n"))


def unroll(lp: Any, size: int) -> Any:
    data = arrays(lp, ("a", "out"), str(size))
    knl = make(lp, f"{{[i]: 0<=i<{size}}}", "out[i] = 2*a[i]", data)
    return lp.tag_inames(knl, {"i": "unr"})


def split_unroll(lp: Any, size: int) -> Any:
    data = arrays(lp, ("a", "out"), str(8 * size))
    knl = make(lp, f"{{[i]: 0<=i<{8 * size}}}", "out[i] = 2*a[i]", data)
    return lp.split_iname(knl, "i", size, inner_tag="unr")


def siblings(lp: Any, size: int) -> Any:
    inames = ",".join(f"i{k}" for k in range(size))
    joint = f"{{[{inames}]: 0<={inames}<1000}}"
    return make(lp, joint, chained(size, lambda k: f"i{k}"), arrays(lp, ("out",), "1000"))


def terms(lp: Any, size: int) -> Any:
    total = " + ".join(f"{k + 2}*a[i+{k}]" for k in range(size))
    data = [*arrays(lp, ("a",), f"n+{size}"), *arrays(lp, ("out",), "n")]
    return make(lp, "{[i]: 0<=i<n}", f"out[i] = {total}", data)


def scalars(lp: Any, size: int) -> Any:
    """Straight-line code, as expansions have it: each value is a polynomial of earlier ones."""
    texts = ["<> t0 = a[i]"]
    for k in range(1, size):
        u, v, w = (f"t{max(0, k - back)}" for back in (1, 3, 7))
        texts.append(f"<> t{k} = {u}*({v} + 2.5)*a[i] + {w}**2*b[i] - {v}/(1 + {u}*{u})")
    data = arrays(lp, ("a", "b", "out"), "n")
    return make(lp, "{[i]: 0<=i<n}", [*texts, f"out[i] = t{size - 1}"], data)


def private_arrays(lp: Any, size: int) -> Any:
    """Arrays of each work-item, written and read in loops of their own."""
    names = [f"p{k}" for k in range(size)]
    domains = ["{[b]: 0<=b<64}", *(f"{{[i{k},j{k}]: 0<=i{k},j{k}<5}}" for k in range(size))]
    texts = []
    for k, name in enumerate(names):
        after = f":u{k - 1}" if k else ""
        texts.append(f"{name}[i{k}] = {k + 1}*a[b,i{k}] {{id=w{k}}}")
        update = f"out[b,j{k}] = out[b,j{k}] + {name}[j{k}]"
        texts.append(f"{update} {{id=u{k}, dep=w{k}{after}}}")
    space = lp.AddressSpace.PRIVATE
    data = [
        *arrays(lp, ("a", "out"), "64,5"),
        *(lp.TemporaryVariable(n, np.float32, shape=(5,), address_space=space) for n in names),
    ]
    knl = make(lp, domains, texts, data)
    return lp.split_iname(knl, "b", N_TILE, outer_tag="g.0", inner_tag="l.0")


def many_splits(lp: Any, size: int) -> Any:
    """Loops that are split, one step after the other."""
    names = tuple(f"o{k}" for k in range(size))
    domains = [f"{{[i{k}]: 0<=i{k}<n}}" for k in range(size)]
    texts = [f"o{k}[i{k}] = 2*a[i{k}]" for k in range(size)]
    knl = make(lp, domains, texts, arrays(lp, ("a", *names), "n"))
    for k in range(size):
        knl = lp.split_iname(knl, f"i{k}", N_TILE)
    return knl


def deep_nest(lp: Any, size: int) -> Any:
    inames = ",".join(f"i{k}" for k in range(size))
    data = arrays(lp, ("a", "out"), ",".join("n" * size))
    return make(lp, f"{{[{inames}]: 0<={inames}<n}}", f"out[{inames}] = 2*a[{inames}]", data)


def tiled(lp: Any, knl: Any) -> Any:
    knl = lp.split_iname(knl, "i", N_TILE, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "j", N_TILE, outer_tag="g.0", inner_tag="l.0")


def fetched(lp: Any, knl: Any, name: str, sweep: str, outer: str, **options: Any) -> Any:
    """Fetch an array into local memory, inside of the loops *outer*."""
    return lp.add_prefetch(
        knl, name, sweep.split(), default_tag="l.auto", fetch_outer_inames=outer, **options
    )


def matmul(lp: Any, _size: int) -> Any:
    data = arrays(lp, ("a", "b", "out"), "n,n")
    knl = make(lp, "{[i,j,k]: 0<=i,j,k<n}", "out[i,j] = sum(k, a[i,k]*b[k,j])", data)
    knl = lp.split_iname(tiled(lp, knl), "k", N_TILE)
    knl = fetched(lp, knl, "a", "i_inner k_inner", "i_outer,j_outer,k_outer")
    return fetched(lp, knl, "b", "j_inner k_inner", "i_outer,j_outer,k_outer")


def laplacian(lp: Any, _size: int) -> Any:
    data = [*arrays(lp, ("u",), "n+2,n+2"), *arrays(lp, ("out",), "n,n")]
    total = "u[i,j+1] + u[i+2,j+1] + u[i+1,j] + u[i+1,j+2] - 4*u[i+1,j+1]"
    knl = tiled(lp, make(lp, "{[i,j]: 0<=i,j<n}", f"out[i,j] = {total}", data))
    return fetched(lp, knl, "u", "i_inner j_inner", "i_outer,j_outer", fetch_bounding_box=True)


def dg(lp: Any, _size: int) -> Any:
    data = [*arrays(lp, ("D",), "20,20"), *arrays(lp, ("u", "out"), "n,20")]
    domain = "{[e,i,j]: 0<=e<n and 0<=i,j<20}"
    knl = make(lp, domain, "out[e,i] = sum(j, D[i,j]*u[e,j])", data)
    knl = lp.split_iname(knl, "e", N_TILE, outer_tag="g.0", inner_tag="l.1")
    knl = lp.tag_inames(knl, {"i": "l.0"})
    knl = fetched(lp, knl, "u", "e_inner j", "e_outer")
    return fetched(lp, knl, "D", "i j", "e_outer")


def prefetches(lp: Any, size: int) -> Any:
    names = tuple(f"a{k}" for k in range(size))
    total = " + ".join(f"{name}[i]*{name}[i+2]" for name in names)
    data = [*arrays(lp, names, "n+2"), *arrays(lp, ("out",), "n")]
    knl = make(lp, "{[i]: 0<=i<n}", f"out[i] = {total}", data)
    knl = lp.split_iname(knl, "i", N_TILE, outer_tag="g.0", inner_tag="l.0")
    for name in names:
        knl = fetched(lp, knl, name, "i_inner", "i_outer", fetch_bounding_box=True)
    return knl


def counted_matmul(lp: Any, size: int) -> Any:
    return lp.assume(matmul(lp, size), "n >= 1 and n mod 16 = 0")


CASES = {
    case.build.__name__: case
    for case in (
        Case(title="out[i] = 2*a[i]", build=copy),
        Case(title="transpose, tiles of 16x16", build=transpose),
        Case(
            title="chained statements in one nest",
            build=statements,
            size=1000,
            compared_size=250,
            required_ratio=10,
            growth_sizes=GROWTH_SIZES,
        ),
        Case(
            title="nests in a chain",
            build=nests,
            size=300,
            compared_size=100,
            required_ratio=10,
            growth_sizes=GROWTH_SIZES,
        ),
        Case(
            title="unrolled loop",
            build=unroll,
            size=1024,
            compared_size=256,
            required_ratio=10,
            growth_sizes=GROWTH_SIZES,
        ),
        Case(
            title="split, inner loop unrolled",
            build=split_unroll,
            size=1024,
            compared_size=256,
            required_ratio=10,
            growth_sizes=GROWTH_SIZES,
        ),
        Case(
            title="sibling loops, one joint domain",
            build=siblings,
            size=128,
            compared_size=32,
            required_ratio=10,
            growth_sizes=GROWTH_SIZES,
        ),
        Case(
            title="terms in one expression",
            build=terms,
            size=1000,
            compared_size=100,
            growth_sizes=GROWTH_SIZES,
        ),
        Case(
            title="scalar temporaries, large expressions",
            build=scalars,
            size=200,
            compared_size=50,
            growth_sizes=GROWTH_SIZES,
        ),
        Case(
            title="private arrays, loops of their own",
            build=private_arrays,
            size=20,
            compared_size=8,
            growth_sizes=(40, 160),
        ),
        Case(title="loops split in steps", build=many_splits, size=50, compared_size=20),
        Case(title="loops in one nest", build=deep_nest, size=8, compared_size=5),
        Case(title="matrix product, tiles fetched", build=matmul),
        Case(title="counts of that", build=counted_matmul, run=counts),
        Case(title="Laplacian, tiles fetched", build=laplacian),
        Case(title="DG operator, all fetched", build=dg),
        Case(
            title="arrays that are fetched",
            build=prefetches,
            size=10,
            compared_size=4,
            growth_sizes=(10, 30),
            max_exponent=1.2,
        ),
    )
}


def code_text(lp: Any, case: Case, size: int) -> str:
    """Run the timed code: from make_kernel to a text."""
    return case.run(lp, case.build(lp, size))
