"""ISPC: golden texts, refusals, and programs run on a model of the language.

No ISPC compiler is used: ``ispc_shim.h`` models lanes, uniform and varying values, and the types of
operators, as its documentation has them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.targets.ispc.target import ISPCTarget
from tests.targets.ispc_shim import call, call_types, compiled, to_cxx

F4, F8, I1, I4, I8, U1, U4 = (np.dtype(name) for name in ("f4", "f8", "i1", "i4", "i8", "u1", "u4"))
DOMAIN = "{ [i]: 0 <= i < n }"


def make(domain: str, code: str, *declarations: Any, **options: Any) -> lp.TranslationUnit:
    return lp.make_kernel(domain, code, [*declarations, ...], target=ISPCTarget(), **options)


def arrays(**dtypes: Any) -> list[lp.GlobalArg]:
    return [lp.GlobalArg(name, dtype, shape=lp.auto) for name, dtype in dtypes.items()]


def lanes(knl: lp.TranslationUnit, iname: str = "i", width: int = 8) -> lp.TranslationUnit:
    return lp.split_iname(knl, iname, width, inner_tag="l.0", outer_tag="g.0")


# -- texts -----------------------------------------------------------------------------------


def test_lanes_and_tasks() -> None:
    knl = lanes(make(DOMAIN, "a[i] = 2*a[i]", *arrays(a=F8), name="twice"))
    code = lp.generate_code_v2(knl)
    device = """\
#define lid(N) programIndex
#define gid(N) ((uniform int32) taskIndex##N)

task void twice_inner(uniform double *uniform a, uniform int32 const n)
{
  if (8 * gid(0) + lid(0) < n)
    a[8 * gid(0) + lid(0)] = 2.0d * a[8 * gid(0) + lid(0)];
}"""
    host = """\
export void twice(uniform double *uniform a, uniform int32 const n)
{
  assert(programCount == 8);
  launch[(n + 7) / 8] twice_inner(a, n);
}"""
    assert code.device_code() == device
    assert code.host_code() == host
    assert code.all_code() == f"{device}\n\n{host}"
    assert lp.generate_header(knl) == [
        "export void twice(uniform double *uniform a, uniform int32 const n);"
    ]


def test_several_launches_wait_for_each_other() -> None:
    code = "b[i] = 2*a[i]  {id=b}\n... gbarrier  {id=g, dep=b}\nc[j] = b[n - 1 - j]  {dep=g}"
    knl = make("{ [i, j]: 0 <= i, j < n }", code, *arrays(a=F4, b=F4, c=F4))
    host = lp.generate_code_v2(lanes(lanes(knl, "i"), "j")).host_code()
    assert [line.strip().split("(")[0] for line in host.split("\n")[2:-1]] == [
        *("assert", "launch[", "sync;", "launch[", "sync;"),
    ]


def test_grids_have_up_to_three_axes() -> None:
    knl = make(
        "{ [i, j]: 0 <= i < n and 0 <= j < m }", "a[i, j] = i + j", lp.GlobalArg("a", I8, "n,m")
    )
    knl = lanes(lp.tag_inames(knl, "i:g.1"), "j")
    code = lp.generate_code_v2(knl)
    assert "launch[(m + 7) / 8, n] " in code.host_code()
    assert "a[(int64) m * gid(1) + 8 * gid(0) + lid(0)] = " in code.device_code()


def body(knl: lp.TranslationUnit) -> str:
    return lp.generate_code_v2(knl).device_code().split("\n{\n")[-1].removesuffix("\n}")


def test_streaming_stores_are_those_of_all_lanes() -> None:
    """A store that only some lanes make, or to elements that are not in a row, is a plain one."""
    tag = {"within": None}
    knl = lp.tag_instructions(
        make(DOMAIN, "out[i] = a[i]", *arrays(a=F4)), "!streaming_store", **tag
    )
    whole = lanes(lp.assume(knl, "n mod 8 = 0"))
    assert body(whole) == "  streaming_store(&out[8 * gid(0)], a[8 * gid(0) + lid(0)]);"
    assert "streaming_store" not in body(lanes(knl))
    ends = lp.split_iname(knl, "i", 64, outer_tag="g.0", slabs=(0, 1))
    assert body(lp.split_iname(ends, "i_inner", 8, inner_tag="l.0")).count("streaming_store") == 1
    apart = make(DOMAIN, "out[2*i] = a[i]  {tags=!streaming_store}", *arrays(a=F4))
    assert "streaming_store" not in body(lanes(lp.assume(apart, "n mod 8 = 0")))
    alike = make(DOMAIN, "out[i] = 3  {tags=!streaming_store}", *arrays(out=F4))
    assert body(lanes(lp.assume(alike, "n mod 8 = 0"))).endswith("(varying float) 3.0f);")
    assert "streaming_store(&out[i], 3.0f);" in body(alike)


def test_uniform_is_what_all_lanes_have_in_common() -> None:
    code = """
        <> w = b[0] + 1           {id=w}
        <> t = w*a[i]             {id=t, dep=w}
        out[i] = sum(j, t*b[j])   {dep=t}
        """
    knl = make("{ [i, j]: 0 <= i < n and 0 <= j < 4 }", code, *arrays(a=F4, b=F4))
    assert (
        body(lanes(knl))
        == """\
  uniform float const w = b[0] + 1.0f;
  if (8 * gid(0) + lid(0) < n)
  {
    varying float const t = w * a[8 * gid(0) + lid(0)];
    varying float acc_j = 0.0f;
    for (uniform int32 j = 0; j < 4; ++j)
      acc_j += t * b[j];
    out[8 * gid(0) + lid(0)] = acc_j;
  }"""
    )
    assert "varying" not in lp.generate_code_v2(knl).device_code()


def test_shared_arrays_are_uniform_and_own_ones_are_not() -> None:
    code = "t[i] = a[i]  {id=t}\nu[j] = t[7 - i] + j  {id=u, dep=t}\nout[i, j] = u[j]  {dep=u}"
    temporaries = [
        lp.TemporaryVariable("t", F4, shape=8, address_space=lp.AddressSpace.LOCAL),
        lp.TemporaryVariable("u", F4, shape=3, address_space=lp.AddressSpace.PRIVATE),
    ]
    knl = make("{ [i, j]: 0 <= i < 8 and 0 <= j < 3 }", code, *arrays(a=F4), *temporaries)
    text = body(lp.tag_inames(knl, "i:l.0"))
    assert "uniform float t[8];" in text
    assert "varying float u[3];" in text
    assert "// lanes converge here, for t (insn_0 depends" not in text
    assert "  // lanes converge here, for t (u depends on t)" in text


def test_one_lane_stores_to_a_subscript_of_its_own() -> None:
    """A uniform place would be stored to once, and refuse a varying value."""
    knl = make("{ [i]: 0 <= i < 8 }", "out[0] = sum(i, a[i])", *arrays(a=F4, out=F4))
    assert body(lp.tag_inames(knl, "i:l.0")).endswith("out[(varying int32) 0] = acc_i;")


def test_what_some_lanes_store_to_a_common_place_has_a_subscript_for_each() -> None:
    """Such a store is masked; one to a uniform place happens whichever lanes run."""
    found = arrays(a=F4, found=I4)
    knl = make("{ [i]: 0 <= i < 8 }", "found[0] = 1  {if=a[i] > 0}", *found)
    knl = lp.set_options(lp.tag_inames(knl, "i:l.0"), enforce_variable_access_ordered=False)
    assert (
        body(knl)
        == """\
  if (a[lid(0)] > 0.0f)
    found[(varying int32) 0] = 1;"""
    )


def test_traces_print_with_signs_for_values() -> None:
    knl = make(DOMAIN, "out[i % 4] = i", lp.GlobalArg("out", I4, shape=4), assumptions="n <= 4")
    assert r'print("kgen_kernel.insn: i=% out[i mod 4]=%\n", i, out[i]);' in body(
        lp.set_options(knl, trace_assignment_values=True)
    )


# -- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [2, 6, 12])
def test_gangs_have_the_widths_that_exist(width: int) -> None:
    with pytest.raises(lp.CodegenError, match=f"there is no gang of {width} lanes"):
        lp.generate_code_v2(lanes(make(DOMAIN, "out[i] = i", *arrays(out=I4)), width=width))


def test_gangs_have_one_axis_and_64_lanes() -> None:
    knl = make("{ [i, j]: 0 <= i, j < 8 }", "out[i, j] = i", *arrays(out=I4))
    with pytest.raises(lp.CodegenError, match=r"8 work-items along axis l\.1.*\n.*ISPC has 1"):
        lp.generate_code_v2(lp.tag_inames(knl, "i:l.0, j:l.1"))
    with pytest.raises(lp.CodegenError, match="ISPC has 64 in a group"):
        lp.generate_code_v2(lanes(make(DOMAIN, "out[i] = i", *arrays(out=I4)), width=128))


def test_all_gangs_are_alike() -> None:
    code = "b[i] = 2*a[i]  {id=b}\n... gbarrier  {id=g, dep=b}\nc[j] = b[n - 1 - j]  {dep=g}"
    knl = make("{ [i, j]: 0 <= i, j < n }", code, *arrays(a=F4, b=F4, c=F4))
    with pytest.raises(lp.CodegenError, match="work-groups of different sizes"):
        lp.generate_code_v2(lanes(lanes(knl, "i"), "j", 16))


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("z[i] = 2*z[i]", "ISPC has no element type for complex64"),
        ("<> v = make_float2(i, i)\nout[i] = v.x", "ISPC has no element type"),
        ("out[i // 2] = out[i // 2] * 3 {atomic}", "no function for this atomic update of float32"),
        ("out[i], e[i] = frexp(b[i])", "ISPC has no function 'frexp'"),
        ("out[i] = bessel_j0(i)", "ISPC has no function 'bessel_j0'"),
    ],
)
def test_what_ispc_does_not_have(code: str, why: str) -> None:
    out = lp.GlobalArg("out", F4, shape="n", for_atomic=True)
    knl = make(DOMAIN, code, out, *arrays(z=np.complex64, b=F4, e=I4))
    with pytest.raises(lp.CodegenError, match=why):
        lp.generate_code_v2(knl)


# -- programs that run -----------------------------------------------------------------------


@dataclass
class Program:
    """A kernel, the values of its arguments by name, and which of these have to become what."""

    knl: lp.TranslationUnit
    values: dict[str, Any]
    wanted: dict[str, Any]
    tolerance: float = 1e-6


def draw(shape: Any, dtype: Any = F4, low: float = -4, high: float = 4) -> Any:
    values = np.random.default_rng(7).uniform(low, high, shape)
    return np.ascontiguousarray(values).astype(dtype)


def zeros(shape: Any, dtype: Any = F4) -> Any:
    return np.zeros(shape, dtype)


def elementwise() -> Program:
    n, a, b = 37, draw(37), draw(37, F8)
    knl = make(DOMAIN, "out[i] = 2*a[i] + b[i]", *arrays(a=F4, b=F8))
    return Program(lanes(knl), {"a": a, "b": b, "n": n}, {"out": 2 * a + b})


def without_lanes() -> Program:
    n, a = 21, draw(21)
    knl = make(DOMAIN, "<> t = a[i]  {id=t}\nout[i] = t*t  {dep=t}", *arrays(a=F4))
    return Program(knl, {"a": a, "n": n}, {"out": a * a})


def sequential_in_lanes() -> Program:
    a = draw((29, 16), F8)
    knl = make(
        "{ [i, j]: 0 <= i < n and 0 <= j < 16 }", "out[i] = sum(j, a[i, j]**2)", *arrays(a=F8)
    )
    return Program(lanes(knl, width=4), {"a": a, "n": 29}, {"out": (a**2).sum(1)}, tolerance=1e-12)


def bounds_of_lanes() -> Program:
    counts = np.arange(19, dtype=I4) % 7
    a = draw(7)
    code = "<> count = counts[i]  {id=c}\nout[i] = sum(j, a[j])  {dep=c}"
    knl = make(
        "{ [i, j]: 0 <= i < n and 0 <= j < count }",
        code,
        *arrays(counts=I4),
        lp.GlobalArg("a", F4, shape=7),
        assumptions="n >= 0",
    )
    wanted = np.array([a[:count].sum() for count in counts])
    return Program(lanes(knl), {"a": a, "counts": counts, "n": 19}, {"out": wanted})


def strides_of_lanes() -> Program:
    a = draw(45)
    knl = lp.split_iname(make(DOMAIN, "out[i] = 3*a[i]", *arrays(a=F4)), "i", 8, inner_tag="l.0")
    return Program(knl, {"a": a, "n": 45}, {"out": 3 * a})


def reduction_over_lanes() -> Program:
    a = draw(50)
    knl = lp.split_iname(make(DOMAIN, "out = sum(i, a[i])", *arrays(a=F4)), "i", 8)
    knl = lp.tag_inames(lp.split_reduction_outward(knl, "i_inner"), "i_inner:l.0")
    return Program(knl, {"a": a, "n": 50}, {"out": np.array([a.sum()])}, 1e-5)


def prefetched() -> Program:
    a = draw(100)
    knl = make("{ [i]: 1 <= i < n - 1 }", "out[i] = a[i - 1] + a[i] + a[i + 1]", *arrays(a=F4))
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0")
    knl = lp.split_iname(knl, "i_inner", 8, inner_tag="l.0")
    knl = lp.add_prefetch(knl, "a", ["i_inner_outer", "i_inner_inner"], default_tag="l.auto")
    wanted = np.convolve(a, [1, 1, 1])[1:-1]
    wanted[0] = 0
    return Program(knl, {"a": a, "n": 100}, {"out": wanted[:-1]}, 1e-5)


def transposed() -> Program:
    a = draw((24, 16), I8, -1e12, 1e12)
    knl = make(
        "{ [i, j]: 0 <= i < 24 and 0 <= j < 16 }",
        "out[j, i] = a[i, j]",
        lp.GlobalArg("a", I8, (24, 16)),
    )
    knl = lp.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0")
    knl = lp.tag_inames(knl, "j:g.1")
    return Program(knl, {"a": a}, {"out": a.T})


def two_launches() -> Program:
    a = draw(40)
    code = "b[i] = 2*a[i] {id=b}\n... gbarrier {id=g, dep=b}\nc[j] = b[n - 1 - j] {dep=g}"
    knl = make("{ [i, j]: 0 <= i, j < n }", code, *arrays(a=F4, b=F4, c=F4))
    return Program(lanes(lanes(knl), "j"), {"a": a, "b": zeros(40), "n": 40}, {"c": 2 * a[::-1]})


def lanes_after_none() -> Program:
    a = draw(40)
    code = "b[i] = 2*a[i] {id=b}\n... gbarrier {id=g, dep=b}\nc[j] = b[n - 1 - j] {dep=g}"
    knl = make("{ [i, j]: 0 <= i, j < n }", code, *arrays(a=F4, b=F4, c=F4))
    knl = lanes(lp.tag_inames(knl, "i:g.0"), "j")
    return Program(knl, {"a": a, "b": zeros(40), "n": 40}, {"c": 2 * a[::-1]})


def functions() -> Program:
    a = draw(33, F8, 0.1, 3)
    code = """
        out[i] = sin(a[i]) + exp(a[i])*sqrt(a[i]) + a[i]**2.5 + abs(-a[i]) + erf(a[i]) \\
            + tanh(a[i]) + hypot(a[i], 2) + round(a[i] - 0.5) + copysign(a[i], -1) \\
            + max(a[i], 1, 2) + fmin(a[i], 1)
        single[i] = floor(f[i]) + log2(abs(f[i])) + min(f[i], 0) + copysign(2, f[i]) + rint(f[i]) \\
            + lround(f[i])
        """
    f = draw(33)
    erf, single = np.vectorize(math.erf), f.astype(F8)
    rounded = np.where(a - 0.5 < 0, np.ceil(a - 1), np.floor(a))
    wanted = (
        np.sin(a) + np.exp(a) * np.sqrt(a) + a**2.5 + a + erf(a) + np.tanh(a)
        + np.hypot(a, 2) + rounded - a + np.maximum(a, 2) + np.minimum(a, 1)
    )  # fmt: skip
    parts = np.floor(f) + np.log2(abs(f)) + np.minimum(f, 0) + np.copysign(2, single) + np.rint(f)
    parts = parts + np.trunc(single + np.copysign(0.5, single))
    knl = make(DOMAIN, code, *arrays(a=F8, f=F4))
    return Program(lanes(knl), {"a": a, "f": f, "n": 33}, {"out": wanted, "single": parts}, 1e-5)


def special_numbers() -> Program:
    a = np.array([np.nan, np.inf, -np.inf, 1, -0.0, 5e-324, 2, 3], F8)
    code = """
        top[i] = max(a[i], 1.5)
        low[i] = fmin(1.5, a[i])
        kind[i] = isnan(a[i]) + 2*isfinite(a[i]) + 4*isnormal(a[i]) + 8*signbit(a[i])
        """
    kind = np.isnan(a) + 2 * np.isfinite(a) + 8 * np.signbit(a)
    kind = kind + 4 * (np.isfinite(a) & (abs(a) >= np.finfo(F8).tiny))
    knl = make("{ [i]: 0 <= i < 8 }", code, *arrays(a=F8, kind=I4))
    wanted = {"top": np.fmax(a, 1.5), "low": np.fmin(a, 1.5), "kind": kind}
    return Program(lp.tag_inames(knl, "i:l.0"), {"a": a}, wanted)


def integers() -> Program:
    a, n = draw(40, I4, -1000, 1000), 40
    code = """
        out[i] = (i - 20) // 7 + (i - 20) % 7 * 100 + a[i] // 3 + a[i] % 5 + (a[i] > 3) \\
            + min(i, 9) + (a[i] << 2) + (a[i] & 12)
        wide[i] = a[i] * cast(np.int64, 1099511627776) + 8589934592
        """
    i = np.arange(n)
    wanted = (i - 20) // 7 + (i - 20) % 7 * 100 + a // 3 + a % 5 + (a > 3) + np.minimum(i, 9)
    wanted = wanted + (a << 2) + (a & 12)
    knl = make(DOMAIN, code, *arrays(a=I4, out=I4, wide=I8))
    wide = a.astype(I8) * 2**40 + 2**33
    return Program(lanes(knl), {"a": a, "n": n}, {"out": wanted, "wide": wide})


def mixed_types() -> Program:
    """Where ISPC would compute in other types than numpy: narrow ones, long ones beside float."""
    n = 32
    a, b, u = draw(n, I1, -128, 128), draw(n, U1, 0, 256), draw(n, U4, 0, 2**32 - 1)
    w, f = draw(n, I8, -(2**40), 2**40), draw(n)
    knl = make(
        DOMAIN,
        """
        narrow[i] = a[i] + a[i]
        sum[i] = a[i] + b[i]
        less[i] = a[i] < b[i]
        large[i] = u[i] + a[i]
        real[i] = w[i] * f[i]
        """,
        *arrays(
            a=I1, b=U1, u=U4, w=I8, f=F4, narrow=I1, sum=np.int16, less=bool, large=I8, real=F8
        ),
    )
    wanted = {"narrow": a + a, "sum": a + b, "less": a < b, "large": u + a.astype(I8)}
    wanted["real"] = w * f.astype(F8)
    return Program(lanes(knl), {"a": a, "b": b, "u": u, "w": w, "f": f, "n": n}, wanted)


def truth() -> Program:
    a, mask = draw(40), np.arange(40) % 3 == 0
    code = """
        out[i] = a[i] if mask[i] and not (a[i] < 0 or isnan(a[i])) else -1
        big[i] = a[i] > 1
        one[i] = (a[i] > 1) + 2*(mask[i] or a[i] < 0)
        cut[i] = cast(np.bool_, a[i])
        """
    knl = make(DOMAIN, code, *arrays(a=F4, mask=bool, big=bool, one=I4, cut=bool))
    wanted = {
        "out": np.where(mask & (a >= 0), a, -1),
        "big": a > 1,
        "one": (a > 1) + 2 * (mask | (a < 0)),
        "cut": a != 0,
    }
    return Program(lanes(knl), {"a": a, "mask": mask, "n": 40}, wanted)


def conditions() -> Program:
    a = draw(40)
    code = """
        t = 1                    {id=t}
        if a[i] > 0
            t = 2*a[i]           {id=u, dep=t}
        end
        out[i] = t               {dep=u}
        """
    knl = make(
        DOMAIN, code, *arrays(a=F4, out=F4), lp.TemporaryVariable("t", F4), seq_dependencies=True
    )
    return Program(lanes(knl), {"a": a, "n": 40}, {"out": np.where(a > 0, 2 * a, 1)})


def histogram() -> Program:
    a = draw(64, I4, 0, 5)
    code = "count[a[i]] = count[a[i]] + 1 {atomic}\ntotal[0] = total[0] + 2.0 {atomic, inames=i}"
    declarations = [
        lp.GlobalArg(name, dtype, shape=5, for_atomic=True)
        for name, dtype in (("count", I8), ("total", F4))
    ]
    knl = make(DOMAIN, code, *arrays(a=I4), *declarations)
    total = np.array([128, 0, 0, 0, 0], F4)
    return Program(
        lanes(knl), {"a": a, "n": 64}, {"count": np.bincount(a, minlength=5), "total": total}
    )


def streamed() -> Program:
    a, b = draw(64), draw(64)
    knl = make(
        DOMAIN,
        "out[i] = a[i] + s*b[i]\nset[i] = 7",
        *arrays(a=F4, b=F4, set=F4),
        lp.ValueArg("s", F4),
    )
    knl = lp.tag_instructions(lp.assume(knl, "n mod 16 = 0"), "!streaming_store")
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0")
    knl = lp.split_iname(knl, "i_inner", 8, inner_tag="l.0")
    wanted = {"out": a + np.float32(2.5) * b, "set": np.full(64, 7)}
    return Program(knl, {"a": a, "b": b, "s": 2.5, "n": 64}, wanted)


def tables() -> Program:
    a = draw((20, 3))
    weights = lp.TemporaryVariable("w", initializer=np.array([0.25, 0.5, 1e-5]), read_only=True)
    knl = make(
        "{ [i, j]: 0 <= i < n and 0 <= j < 3 }",
        "out[i] = sum(j, w[j]*a[i, j])",
        *arrays(a=F4),
        weights,
    )
    return Program(lanes(knl), {"a": a, "n": 20}, {"out": a @ weights.initializer})


def groups_of_one() -> Program:
    knl = make(
        "{ [i, j]: 0 <= i < n and 0 <= j < 1 }",
        "out[i, j] = out[i, j] + i + 1",
        lp.GlobalArg("out", I4, "n, 1"),
    )
    knl = lp.tag_inames(knl, "i:g.0, j:l.0")
    return Program(knl, {"n": 9}, {"out": np.arange(1, 10).reshape(9, 1)})


def scanned() -> Program:
    a = draw(8)
    knl = make("{ [i, j]: 0 <= i < 8 and 0 <= j <= i }", "out[i] = sum(j, a[j])", *arrays(a=F4))
    knl = lp.realize_reduction(
        lp.tag_inames(lp.add_dtypes(knl, {"a": F4}), "i:l.0"), force_scan=True
    )
    return Program(knl, {"a": a}, {"out": np.cumsum(a)})


def time_steps() -> Program:
    """A loop on the host, whose launches wait for each other."""
    u = draw(50, F8)
    code = """
        for t
            v[i] = (u[i - 1] + u[i + 1]) / 2  {id=a}
            ... gbarrier                      {id=first, dep=a}
            u[j] = v[j]                       {id=b, dep=first}
            ... gbarrier                      {id=second, dep=b}
        end
        """
    knl = make(
        "{ [t, i, j]: 0 <= t < nt and 1 <= i < n - 1 and 1 <= j < n - 1 }",
        code,
        lp.GlobalArg("u", F8, shape="n"),
        lp.TemporaryVariable("v", F8, shape="n", address_space=lp.AddressSpace.GLOBAL),
        seq_dependencies=True,
        assumptions="n >= 3",
    )
    wanted = u.copy()
    for _ in range(4):
        wanted[1:-1] = (wanted[:-2] + wanted[2:]) / 2
    return Program(
        lanes(lanes(knl), "j"), {"u": u, "v": zeros(50, F8), "n": 50, "nt": 4}, {"u": wanted}
    )


PROGRAMS = [
    elementwise, without_lanes, sequential_in_lanes, bounds_of_lanes, strides_of_lanes,
    reduction_over_lanes, prefetched, transposed, two_launches, lanes_after_none,
    functions, special_numbers,
    integers, mixed_types, truth, conditions, histogram, streamed, tables, groups_of_one, scanned,
    time_steps,
]  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Compile all programs at once."""
    texts = {}
    for make_program in PROGRAMS:
        program = make_program()
        knl = renamed(program.knl, make_program.__name__)
        texts[make_program.__name__] = to_cxx(lp.generate_code_v2(knl), shared_by_lanes(knl))
    folder: Path = tmp_path_factory.mktemp("ispc")
    return compiled(folder, texts)


def shared_by_lanes(knl: lp.TranslationUnit) -> list[str]:
    temporaries = lp.preprocess_kernel(knl).default_entrypoint.temporary_variables
    local = lp.AddressSpace.LOCAL
    return [name for name, var in temporaries.items() if var.address_space == local]


def renamed(knl: lp.TranslationUnit, name: str) -> lp.TranslationUnit:
    return lp.rename_callable(knl, "kgen_kernel", name)


@pytest.mark.parametrize("make_program", PROGRAMS, ids=lambda program: program.__name__)
def test_program(make_program: Any, library: Any) -> None:
    program = make_program()
    knl = lp.infer_unknown_types(renamed(program.knl, make_program.__name__))
    dtypes = call_types(knl)
    outputs = {name: zeros(wanted.shape, dtypes[name]) for name, wanted in program.wanted.items()}
    values: dict[str, Any] = {**outputs, **program.values}
    call(library, make_program.__name__, dtypes, values)
    for name, wanted in program.wanted.items():
        np.testing.assert_allclose(
            values[name], wanted, rtol=program.tolerance, atol=1e-5, err_msg=name
        )
