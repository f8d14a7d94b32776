"""Values of two scheduled kernels are compared for all sizes: proved is only what is the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

import islpy as isl
import pytest

import kgen as lp
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.expressions import parse
from kgen.schedule.dataflow import UndecidedError, compose
from kgen.schedule.equality import _is_one_to_one

Transform: TypeAlias = Callable[[lp.TranslationUnit], lp.TranslationUnit]


SHAPES = {
    **dict.fromkeys("abc", ("float32", "n, n")),
    **dict.fromkeys("uvxy", ("float32", "n + 2")),
    **dict.fromkeys(("starts", "index"), ("int32", "n + 1")),
}


def make(domain: str | list[str], text: str, **options: Any) -> lp.TranslationUnit:
    used = set(re.findall(r"\w+", text))
    data = [lp.GlobalArg(n, *about) for n, about in SHAPES.items() if n in used]
    options.setdefault("target", lp.OpenCLTarget())
    return lp.make_kernel(domain, text, [*data, "..."], assumptions="n >= 1", **options)


def product() -> lp.TranslationUnit:
    return make("{ [i, j, k]: 0 <= i, j, k < n }", "c[i, j] = sum(k, a[i, k]*b[k, j]) {id=mul}")


def tiled(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "k", 16)
    knl = lp.add_prefetch(knl, "a", ["k_inner", "i_inner"], default_tag="l.auto")
    return lp.add_prefetch(knl, "b", ["j_inner", "k_inner"], default_tag="l.auto")


def stencil() -> lp.TranslationUnit:
    return make("{ [i]: 0 <= i < n }", "y[i] = x[i] - 2*x[i + 1] + x[i + 2] {id=mul}")


def with_halo(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    return lp.add_prefetch(knl, "x", "i_inner", default_tag="l.auto")


def status(knl: lp.TranslationUnit | LoopKernel) -> str:
    (found,) = (finding for finding in lp.verify(knl).findings if finding.check == "origin")
    return found.status.value


TIME = """
    for t
        v[i + 1] = u[i] + u[i + 2]
        u[j + 1] = {}
    end
    """

RIGHT: dict[str, tuple[Callable[[], lp.TranslationUnit], Transform]] = {
    "tiles": (product, tiled),
    "halo": (stencil, with_halo),
    "sums of sums": (
        product,
        lambda knl: lp.split_reduction_inward(lp.split_iname(knl, "k", 4), "k_inner"),
    ),
    "work-items": (
        product,
        lambda knl: lp.split_reduction_inward(
            lp.split_iname(knl, "k", 32, inner_tag="l.0"), "k_inner"
        ),
    ),
    "unrolled": (product, lambda knl: lp.split_iname(knl, "k", 4, inner_tag="unr")),
    "backwards": (stencil, lambda knl: lp.affine_map_inames(knl, "i", "m", "m = 5 - i")),
    "buffer": (
        product,
        lambda knl: lp.buffer_array(lp.split_iname(knl, "j", 4), "c", ["j_inner"]),
    ),
    "in place": (
        lambda: make("{ [i]: 0 <= i < n }", "u[i] = 2*u[i] + v[i]"),
        lambda knl: lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0"),
    ),
    "elements that are the same": (
        lambda: make("{ [i, j]: 0 <= i, j < n }", "y[i] = sum(j, x[i])"),
        lambda knl: lp.split_iname(knl, "j", 4),
    ),
    "subscripts that are data": (
        lambda: make("{ [i]: 0 <= i < n }", "y[i] = x[index[i]]"),
        lambda knl: lp.split_iname(knl, "i", 16),
    ),
    "conditions on data": (
        lambda: make("{ [i]: 0 <= i < n }", "y[i] = x[i] {if=u[i] > 0}"),
        lambda knl: lp.split_iname(knl, "i", 16),
    ),
    "a loop that ends where data say": (
        lambda: make(
            ["{ [i]: 0 <= i < n }", "{ [j]: lo <= j < hi }"],
            "<> lo = starts[i] {id=lo}\n<> hi = starts[i + 1] {id=hi}\n"
            "y[i] = sum(j, x[j]) {dep=lo:hi}",
        ),
        lambda knl: lp.split_iname(lp.split_iname(knl, "i", 16), "j", 4),
    ),
    "loops split many times": (
        lambda: make("{ [i]: 1 <= i < n }", "y[n - 1 - i] = 4 {id=s}"),
        lambda knl: lp.join_inames(
            lp.split_iname(
                lp.split_iname(lp.split_iname(knl, "i", 7), "i_outer", 7, slabs=(1, 0)),
                "i_outer_outer",
                6,
                within="id:s",
            ),
            ("i_outer_outer_outer", "i_outer_inner"),
        ),
    ),
    "time": (
        lambda: of_time("v[j + 1]"),
        lambda knl: lp.split_iname(lp.split_iname(knl, "t", 2), "i", 8),
    ),
    "steps that add": (
        lambda: of_time("u[j + 1] + 0.5*v[j + 1]"),
        lambda knl: lp.split_iname(lp.split_iname(knl, "i", 4), "j", 8),
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_the_results_of_transformations_are_proved_for_all_sizes(name: str) -> None:
    written, transform = RIGHT[name]
    assert status(transform(written())) == "proved"


def changed(knl: lp.TranslationUnit, insn_id: str, **changes: Any) -> LoopKernel:
    """Change an instruction behind the back of its transformations."""
    kernel = knl.default_entrypoint
    assert insn_id in kernel.id_to_insn
    return kernel.copy(
        instructions=[
            insn.copy(**changes) if insn.id == insn_id else insn for insn in kernel.instructions
        ]
    )


def instead_of(origin: lp.TranslationUnit, knl: lp.TranslationUnit) -> LoopKernel:
    return knl.default_entrypoint.copy(origin=origin.default_entrypoint)


def of_time(text: str, end: str = "m") -> lp.TranslationUnit:
    return make(
        f"{{ [t, i, j]: 0 <= t < {end} and 0 <= i, j < n }}",
        TIME.format(text),
        seq_dependencies=True,
        target=lp.CTarget(),
    )


WRONG: dict[str, Callable[[], lp.TranslationUnit | LoopKernel]] = {
    "a fetch of a neighbour": lambda: changed(
        with_halo(stencil()), "x_fetch_rule", expression=parse("x[16*i_outer + x_dim_0 + 1]")
    ),
    "a fetch outside of the loop that refills it": lambda: changed(
        lp.add_prefetch(
            lp.split_iname(
                make("{ [i, k]: 0 <= i, k < n }", "y[i] = sum(k, a[i, k]*x[k])"), "k", 8
            ),
            "x",
            "k_inner",
            default_tag=None,
        ),
        "x_fetch_rule",
        expression=parse("x[x_dim_0]"),
        within_inames=frozenset(("x_dim_0",)),
    ),
    "a use of a neighbour": lambda: changed(
        with_halo(stencil()),
        "mul",
        expression=parse("x_fetch[i_inner] - 2*x_fetch[i_inner + 1] + x_fetch[i_inner + 1]"),
    ),
    "a sum of which one part is left over": lambda: instead_of(
        make("{ [i]: 0 <= i < n }", "y[i] = x[i]**2 + i - (x[i + 1]**2 + i + 1)"),
        make("{ [i]: 0 <= i < n }", "y[i] = x[i + 1]**2 + i + 1 - (x[i + 1]**2 + i + 1)"),
    ),
    "a condition too many": lambda: changed(
        tiled(product()), "mul", predicates=frozenset((parse("j_outer < 1000"),))
    ),
    "a term once too often": lambda: instead_of(
        make("{ [i, j]: 0 <= i, j < n }", "y[i] = x[i] + 1 {inames=i}"),
        make("{ [i, j]: 0 <= i, j < n }", "<> s = x[i] + 1\ny[i] = sum(j, s)"),
    ),
    "no last iteration": lambda: instead_of(
        make("{ [i, k]: 0 <= i, k < n }", "y[i] = sum(k, a[i, k])"),
        lp.split_iname(
            make("{ [i, k]: 0 <= i < n and 0 <= k < n - 1 }", "y[i] = sum(k, a[i, k])"), "k", 16
        ),
    ),
    "another step of time": lambda: instead_of(of_time("v[j + 1]"), of_time("v[j]")),
    "one step less": lambda: instead_of(
        of_time("v[j + 1]"), lp.assume(of_time("v[j + 1]", "m - 1"), "m >= 1")
    ),
    "an end that is other data": lambda: changed(
        RIGHT["a loop that ends where data say"][0](), "hi", expression=parse("starts[i + 1] - 1")
    ).copy(origin=RIGHT["a loop that ends where data say"][0]().default_entrypoint),
    "a result that is kept": lambda: instead_of(
        make("{ [i]: 0 <= i < n }", "u[i] = v[i]\ny[i] = u[i] {dep=*}", seq_dependencies=True),
        make("{ [i]: 0 <= i < n }", "u[i] = u[i]\ny[i] = v[i]", seq_dependencies=True),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_computes_something_else_is_never_proved(name: str) -> None:
    assert status(WRONG[name]()) != "proved"


def test_compositions_that_take_isl_too_long_are_refused() -> None:
    """Of few operations, which its limit counts, but with large numbers."""
    text = " and ".join(f"i mod {k} <= j" for k in range(3, 40))
    many = isl.Map(f"{{ [i] -> [j]: {text} }}")
    double = isl.Map("{ [i] -> [2i] }")
    assert compose(many, double).is_equal(many.apply_range(double))
    with pytest.raises(UndecidedError, match="too many cases"):
        compose(many, many)


def test_pairs_that_equalities_match_need_no_quotients() -> None:
    """With all of its quotients, isl looks at this question for minutes."""
    names = [f"e{k}" for k in range(20)]
    often = " and ".join(f"r - m <= 5{name} <= j + 7{name} <= n" for name in names)
    head = f"[n, m] -> {{ [j] -> [[r] -> [s]] : exists ({', '.join(names)}: {often}) and "
    assert _is_one_to_one(isl.Map(head + "s = r }"))
    assert not _is_one_to_one(isl.Map(head + "r <= 2s <= r + 1 }"))  # it is, but who has the time
    assert not _is_one_to_one(isl.Map("{ [j] -> [[r] -> [s]] : r <= s <= r + 1 }"))
