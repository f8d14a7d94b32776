"""Thirty correct kernels whose work-items exchange values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import kgen as lp

SIZE = 8  # work-items in a group
GROUPS = 2


@dataclass(frozen=True)
class Case:
    """A kernel, and the sizes with which it is run."""

    build: Callable[[], lp.TranslationUnit]
    parameters: dict[str, int]


CASES: dict[str, Case] = {}


def by_hand(
    name: str,
    text: str,
    *,
    local: dict[str, str],
    loops: str = "",
    bounds: str = "",
    **parameters: int,
) -> None:
    """Add a kernel over groups ``g`` and work-items ``l``, with its local arrays."""

    def build() -> lp.TranslationUnit:
        more = f" and {bounds}" if bounds else ""
        inames = ", ".join(filter(None, ("g", "l", loops)))
        shared = [
            lp.TemporaryVariable(n, "float64", shape=s, address_space=lp.AddressSpace.LOCAL)
            for n, s in local.items()
        ]
        data = [
            lp.GlobalArg("a", "float64", shape=f"{GROUPS}, {SIZE}", is_input=True),
            lp.GlobalArg("out", "float64", shape=f"{GROUPS}, {SIZE}", is_input=False),
            *shared,
            "...",
        ]
        knl = lp.make_kernel(
            f"{{ [{inames}]: 0 <= g < {GROUPS} and 0 <= l < {SIZE}{more} }}",
            text,
            data,
            name=name,
            target=lp.OpenCLTarget(),
            assumptions=" and ".join(f"{n} >= 1" for n in parameters) or None,
        )
        return lp.tag_inames(knl, "g:g.0, l:l.0")

    CASES[name] = Case(build, parameters)


T = {"t": f"{SIZE}"}
TU = {"t": f"{SIZE}", "u": f"{SIZE}"}

by_hand("reverse", "t[l] = a[g, l] {id=w}\nout[g, l] = t[7 - l] {dep=w}", local=T)
by_hand("rotate", "t[l] = a[g, l] {id=w}\nout[g, l] = t[(l + 3) % 8] {dep=w}", local=T)
by_hand("scatter", "t[(l + 1) % 8] = a[g, l] {id=w}\nout[g, l] = t[l] {dep=w}", local=T)
by_hand(
    "broadcast",
    "t[0] = a[g, l] {id=w, if=l == 0}\nout[g, l] = t[0] {dep=w}",
    local={"t": "1"},
)
by_hand(
    "pairs",
    "t[l] = a[g, l] {id=w}\nout[g, l] = t[l] + t[2*(l // 2) + 1 - l % 2] {dep=w}",
    local=T,
)
by_hand(
    "stencil_3",
    """
    t[l + 1] = a[g, l] {id=w}
    t[0] = 0 {id=left, if=l == 0}
    t[9] = 0 {id=right, if=l == 7}
    out[g, l] = t[l] - 2*t[l + 1] + t[l + 2] {dep=w:left:right}
    """,
    local={"t": "10"},
)
by_hand(
    "two_arrays_one_barrier",
    """
    t[l] = a[g, l] {id=w}
    u[l] = 2*a[g, l] {id=v}
    out[g, l] = t[7 - l] + u[(l + 1) % 8] {dep=w:v}
    """,
    local=TU,
)
by_hand(
    "there_and_back",
    """
    t[l] = a[g, l] {id=w}
    u[l] = t[7 - l] + 1 {id=m, dep=w}
    out[g, l] = u[(l + 2) % 8] {dep=m}
    """,
    local=TU,
)
by_hand(
    "one_array_twice",
    """
    t[l] = a[g, l] {id=w}
    <> v = t[7 - l] {id=r, dep=w}
    t[l] = 3*v {id=w2, dep=r}
    out[g, l] = t[(l + 1) % 8] {dep=w2}
    """,
    local=T,
)
by_hand(
    "tree_reduction",
    """
    t[l] = a[g, l] {id=s0}
    t[l] = t[l] + t[l + 4] {id=s1, dep=s0, if=l < 4}
    t[l] = t[l] + t[l + 2] {id=s2, dep=s1, if=l < 2}
    t[l] = t[l] + t[l + 1] {id=s3, dep=s2, if=l < 1}
    out[g, l] = t[0] {dep=s3}
    """,
    local=T,
)
by_hand(
    "tree_maximum",
    """
    t[l] = a[g, l] {id=s0}
    t[l] = max(t[l], t[7 - l]) {id=s1, dep=s0, if=l < 4}
    t[l] = max(t[l], t[3 - l]) {id=s2, dep=s1, if=l < 2}
    t[l] = max(t[l], t[1 - l]) {id=s3, dep=s2, if=l < 1}
    out[g, l] = a[g, l] - t[0] {dep=s3}
    """,
    local=T,
)
by_hand(
    "butterflies",
    """
    t[l] = a[g, l] {id=s0}
    u[l] = t[l] + t[4*(l // 4) + (l + 2) % 4] {id=s1, dep=s0}
    t[l] = u[l] + u[2*(l // 2) + (l + 1) % 2] {id=s2, dep=s1}
    u[l] = t[l] - t[(l + 4) % 8] {id=s3, dep=s2}
    out[g, l] = u[7 - l] {dep=s3}
    """,
    local=TU,
)
by_hand(
    "prefix_sums",
    """
    t[l] = a[g, l] {id=s0}
    u[l] = t[l] + (t[l - 1] if l >= 1 else 0) {id=s1, dep=s0}
    t[l] = u[l] + (u[l - 2] if l >= 2 else 0) {id=s2, dep=s1}
    u[l] = t[l] + (t[l - 4] if l >= 4 else 0) {id=s3, dep=s2}
    out[g, l] = u[l] {dep=s3}
    """,
    local=TU,
)
by_hand(
    "odd_even_sort",
    """
    t[l] = a[g, l] {id=s0}
    u[l] = (min(t[l], t[l + 1]) if l % 2 == 0 else max(t[l], t[l - 1])) {id=s1, dep=s0}
    t[l] = (u[l] if l == 0 or l == 7 else
        (min(u[l], u[l + 1]) if l % 2 == 1 else max(u[l], u[l - 1]))) {id=s2, dep=s1}
    out[g, l] = t[l] {dep=s2}
    """.replace("else\n        ", "else "),
    local=TU,
)
by_hand(
    "normalize",
    """
    t[l] = a[g, l]**2 {id=s0}
    u[0] = t[0] + t[1] + t[2] + t[3] + t[4] + t[5] + t[6] + t[7] {id=s1, dep=s0, if=l == 0}
    out[g, l] = a[g, l] / u[0] {dep=s1}
    """,
    local=TU,
)
by_hand(
    "in_a_loop",
    """
    t[l] = a[g, l] + k {id=w}
    <> s = 0 {id=init, inames=g:l}
    s = s + t[7 - l] {id=r, dep=w:init}
    out[g, l] = s {dep=r, inames=g:l}
    """,
    local=T,
    loops="k",
    bounds="0 <= k < n",
    n=3,
)
by_hand(
    "broadcast_in_a_loop",
    """
    t[0] = a[g, k] {id=w, if=l == k}
    <> s = 0 {id=init, inames=g:l}
    s = s + t[0]*(l + k) {id=r, dep=w:init}
    out[g, l] = s {dep=r, inames=g:l}
    """,
    local={"t": "1"},
    loops="k",
    bounds="0 <= k < 3",
)
by_hand(
    "ping_pong",
    """
    t[l] = a[g, l] {id=w}
    u[l] = t[l] + t[(l + 1) % 8] {id=f, dep=w}
    t[l] = u[l] - u[(l + 7) % 8] {id=b, dep=f}
    out[g, l] = t[l] {dep=b, inames=g:l}
    """.replace("{id=w}", "{id=w, inames=g:l}")
    .replace("dep=w}", "dep=w, inames=g:l:k}")
    .replace("{id=b, dep=f}", "{id=b, dep=f, inames=g:l:k}"),
    local=TU,
    loops="k",
    bounds="0 <= k < n",
    n=3,
)
by_hand(
    "wave_front",
    """
    t[l] = a[g, l] {id=w, inames=g:l}
    <> v = t[(l + 1) % 8] {id=r, dep=w, inames=g:l:k}
    t[l] = v + k {id=w2, dep=r, inames=g:l:k}
    out[g, l] = t[l] {dep=w2, inames=g:l}
    """,
    local=T,
    loops="k",
    bounds="0 <= k < n",
    n=4,
)
by_hand(
    "nested_loops",
    """
    t[l] = a[g, l] + k + 3*m {id=w, inames=g:l:k:m}
    <> s = 0 {id=init, inames=g:l}
    s = s + t[7 - l]*m {id=r, dep=w:init, inames=g:l:k:m}
    out[g, l] = s {dep=r, inames=g:l}
    """,
    local=T,
    loops="k, m",
    bounds="0 <= k < 2 and 0 <= m < 2",
)
by_hand(
    "two_loops_in_a_row",
    """
    <> s = 0 {id=init, inames=g:l}
    t[l] = a[g, l] + k {id=w, dep=init, inames=g:l:k}
    s = s + t[7 - l] {id=r, dep=w, inames=g:l:k}
    t[l] = s*m {id=w2, dep=r, inames=g:l:m}
    s = s - t[(l + 1) % 8] {id=r2, dep=w2, inames=g:l:m}
    out[g, l] = s {dep=r2, inames=g:l}
    """,
    local=T,
    loops="k, m",
    bounds="0 <= k < 2 and 0 <= m < 2",
)
by_hand(
    "through_device_memory",
    "b[g, l] = 2*a[g, l] {id=w}\nout[g, l] = b[g, 7 - l] {dep=w}",
    local={},
)
by_hand(
    "global_rotate",
    """
    b[g, l] = 2*a[g, l] {id=w}
    ... gbarrier {id=bar, dep=w}
    out[g, l] = b[1 - g, 7 - l] {dep=bar}
    """,
    local={},
)
by_hand(
    "three_launches",
    """
    b[g, l] = 2*a[g, l] {id=w}
    ... gbarrier {id=bar, dep=w}
    c[g, l] = b[1 - g, l] {id=m, dep=bar}
    ... gbarrier {id=bar2, dep=m}
    out[g, l] = c[1 - g, 7 - l] + b[1 - g, l] {dep=bar2}
    """,
    local={},
)
by_hand(
    "block_sums",
    """
    t[l] = a[g, l] {id=s0}
    t[l] = t[l] + t[l + 4] {id=s1, dep=s0, if=l < 4}
    t[l] = t[l] + t[l + 2] {id=s2, dep=s1, if=l < 2}
    b[g] = t[0] + t[1] {id=s3, dep=s2, if=l == 0}
    ... gbarrier {id=bar, dep=s3}
    out[g, l] = b[0] + b[1] {dep=bar}
    """,
    local=T,
)


def _tiled(name: str, domain: str, text: str, shapes: dict[str, str], n: int = 8) -> None:
    """Add a kernel in tiles of 4 by 4, prefetched by the transformation."""

    def build() -> lp.TranslationUnit:
        knl = lp.make_kernel(
            domain,
            text,
            [*(lp.GlobalArg(name, "float64", shape=s) for name, s in shapes.items()), "..."],
            name=name,
            target=lp.OpenCLTarget(),
            assumptions=f"n mod 4 = 0 and 4 <= n <= {n}",
        )
        knl = lp.split_iname(knl, "i", 4, outer_tag="g.1", inner_tag="l.1")
        knl = lp.split_iname(knl, "j", 4, outer_tag="g.0", inner_tag="l.0")
        return TILED[name](knl)

    CASES[name] = Case(build, {"n": n})


def _prefetch_matmul(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    knl = lp.split_iname(knl, "k", 4)
    knl = lp.add_prefetch(knl, "a", ["k_inner", "i_inner"], default_tag="l.auto")
    return lp.add_prefetch(knl, "b", ["j_inner", "k_inner"], default_tag="l.auto")


TILED: dict[str, Callable[[lp.TranslationUnit], lp.TranslationUnit]] = {
    "tiled_transpose": lambda knl: lp.add_prefetch(
        knl, "a", ["i_inner", "j_inner"], default_tag="l.auto"
    ),
    "tiled_matmul": _prefetch_matmul,
    "tiled_stencil": lambda knl: lp.add_prefetch(
        knl, "a", ["i_inner", "j_inner"], default_tag="l.auto", fetch_bounding_box=True
    ),
    "tiled_row_sums": lambda knl: lp.add_prefetch(
        lp.split_iname(knl, "k", 4), "a", ["k_inner", "i_inner"], default_tag="l.auto"
    ),
    "tiled_symmetric": lambda knl: lp.add_prefetch(
        knl, "a", ["i_inner", "j_inner"], default_tag="l.auto"
    ),
}

_IJ, _IJK = "{ [i, j]: 0 <= i, j < n }", "{ [i, j, k]: 0 <= i, j, k < n }"
_SQUARE = {"a": "n, n", "out": "n, n"}
_tiled("tiled_transpose", _IJ, "out[i, j] = a[j, i]", _SQUARE)
_tiled("tiled_matmul", _IJK, "out[i, j] = sum(k, a[i, k]*b[k, j])", {**_SQUARE, "b": "n, n"})
_tiled(
    "tiled_stencil",
    _IJ,
    "out[i, j] = a[i, j] + a[i + 2, j] + a[i, j + 1]",
    {"a": "10, 10", "out": "n, n"},
)
_tiled("tiled_row_sums", _IJK, "out[i, j] = j*sum(k, a[i, k])", _SQUARE)
_tiled("tiled_symmetric", _IJ, "out[i, j] = a[j, i] - 2", _SQUARE)
