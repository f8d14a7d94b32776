"""Whole kernels that between them use all kinds of code."""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import CASES

import kgen as lp
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import LocalInameTagBase
from kgen.lowering import generate_module
from kgen.targets.builder import CFamilyTarget
from kgen.targets.module import Module
from tests.exporters.calls import examples

F4 = np.float32
#: Of the benchmark kernels.
SIZE_LIMIT = 20


def vector(name: str, dtype: Any = F4, shape: str = "n") -> Any:
    return lp.GlobalArg(name, dtype, shape=shape)


def axpy() -> Any:
    unit = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "z[i] = alpha*x[i] + y[i]",
        [vector("x", np.complex64), vector("y"), lp.ValueArg("alpha", np.complex64), ...],
    )
    return lp.split_iname(unit, "i", 128, outer_tag="g.0", inner_tag="l.0")


def transpose() -> Any:
    unit = lp.make_kernel(
        "{ [i, j]: 0 <= i, j < n }", "out[i, j] = a[j, i]", [vector("a", shape="n, n"), ...]
    )
    unit = lp.split_iname(unit, "i", 16, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(unit, "j", 16, outer_tag="g.0", inner_tag="l.0")


def product() -> Any:
    unit = lp.make_kernel(
        "{ [i, j, k]: 0 <= i, j, k < n }",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [vector("a", np.float64, "n, n"), vector("b", np.float64, "n, n"), ...],
    )
    unit = lp.split_iname(unit, "i", 4, inner_tag="unr", outer_tag="g.1")
    unit = lp.split_iname(unit, "j", 16, outer_tag="g.0", inner_tag="l.0")
    return lp.split_iname(unit, "k", 8)


def slabs() -> Any:
    unit = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = exp(a[i])", [vector("a"), ...])
    return lp.split_iname(unit, "i", 4, slabs=(0, 1), inner_tag="unr")


def shared() -> Any:
    unit = lp.make_kernel(
        "{ [io, ii, k]: 0 <= 16*io + ii < n and 0 <= ii, k < 16 }",
        """
        <>tile[ii] = a[16*io + ii]
        out[16*io + ii] = sum(k, tile[k])
        """,
        [vector("a"), ...],
        assumptions="n mod 16 = 0",
    )
    return lp.tag_inames(unit, {"io": "g.0", "ii": "l.0"})


def stages() -> Any:
    scratch = lp.TemporaryVariable("b", F4, shape="n", address_space=lp.AddressSpace.GLOBAL)
    return lp.make_kernel(
        "{ [i, j]: 0 <= i, j < n }",
        """
        b[i] = 2*a[i] {id=x}
        ... gbarrier {id=g,dep=x}
        out[j] = b[n - 1 - j] {dep=g}
        """,
        [vector("a"), scratch, ...],
    )


def table() -> Any:
    weights = lp.TemporaryVariable(
        "w",
        initializer=np.array([1, -2, 1], F4),
        read_only=True,
        address_space=lp.AddressSpace.GLOBAL,
    )
    return lp.make_kernel(
        "{ [i, k]: 0 <= i < n and 0 <= k < 3 }",
        "out[i] = sum(k, w[k]*a[i + k])",
        [vector("a", shape="n + 2"), weights, ...],
    )


def snippet() -> Any:
    insn = lp.CInstruction("i", "out[i] = a[i] > 0 ? a[i] : 0;", "a", "out[i]")
    return lp.make_kernel("{ [i]: 0 <= i < n }", [insn], [vector("a"), vector("out"), "..."])


def histogram_bounds() -> Any:
    return lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        """
        <>bin = x[i] // 16
        if bin >= 0 and bin < m
            out[i] = min(bin, 255) % 7
        else
            out[i] = -1
        end
        """,
        [vector("x", np.int64), vector("out", np.int32), lp.ValueArg("m", np.int32), ...],
    )


def best() -> Any:
    return lp.make_kernel(
        "{ [i, k]: 0 <= i < n and 0 <= k < 8 }",
        "value[i], where[i] = argmin(k, abs(a[i, k]), k)",
        [vector("a", np.float64, "n, 8"), ...],
    )


def _language(target: Any) -> str:
    """Return what a target generates."""
    return str(target.language)


def all_programs(target: CFamilyTarget) -> dict[str, LoopKernel]:
    """Return these, the benchmarks' and the examples' kernels, by a name for each.

    Of the examples' kernels those that are for a target of this language.
    """
    with_local_memory = target.has_work_items
    own = [axpy, transpose, product, slabs, stages, table, snippet, histogram_bounds, best]
    own += [shared] if with_local_memory else []
    units = {build.__name__: build() for build in own}
    for name, case in CASES.items():
        units[f"bench_{name}"] = case.build(lp, min(case.size, SIZE_LIMIT))
    units |= {n: u for n, u in examples().items() if _language(u.target) == target.language}
    kernels = {name: unit.default_entrypoint for name, unit in units.items()}
    return {
        "".join(c if c.isalnum() else "_" for c in name): kernel
        for name, kernel in kernels.items()
        if with_local_memory or not _shares(kernel)
    }


def _shares(kernel: LoopKernel) -> bool:
    """Tell whether work-items share what loops ``*_dim_*`` fetch."""
    return any("_dim_" in n and kernel.has_tag(n, LocalInameTagBase) for n in kernel.inames)


def modules_for(target: CFamilyTarget) -> dict[str, Module]:
    """Generate the code of all programs for one target, each under its own name."""
    return {
        name: generate_module(kernel.copy(name=name, target=target))
        for name, kernel in all_programs(target).items()
    }
