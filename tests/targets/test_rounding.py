"""Floating-point sums and products round as written: bit for bit what numpy makes of the tree."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

import kgen as lp
from kgen.ir.expr import to_text
from kgen.ir.language.expressions import parse

NAMES = ("a", "b", "c")
N = 64


def random_expr(rng: random.Random, depth: int) -> Any:
    """Return a tree of sums, differences, products, quotients and signs, nested on any side."""
    if depth == 0 or rng.random() < 0.1:
        if rng.random() < 0.2:
            return rng.choice((0.5, 3, -2, 0.1, 1, -1.0))
        return p.Variable(rng.choice(NAMES))[p.Variable("i")]
    operands = tuple(random_expr(rng, depth - 1) for _ in range(rng.choice((2, 2, 3))))
    match rng.randrange(5):
        case 0:
            return p.Sum(operands)
        case 1:
            return p.Sum((operands[0], *(p.Product((-1, operand)) for operand in operands[1:])))
        case 2:
            return p.Product(operands)
        case 3:
            return p.Quotient(*operands[:2])
    return p.Product((-1, operands[0]))


def evaluated(expr: Any, arrays: dict[str, Any], number: type[Any]) -> Any:
    """Evaluate a tree from left to right in one precision."""
    match expr:
        case p.Subscript():
            return arrays[str(expr.aggregate)]
        case p.Quotient():
            return evaluated(expr.numerator, arrays, number) / evaluated(
                expr.denominator, arrays, number
            )
        case p.Sum() | p.Product():
            result, *rest = (evaluated(child, arrays, number) for child in expr.children)
            for value in rest:
                result = result + value if isinstance(expr, p.Sum) else result * value
            return result
    return number(expr)


def unrolled(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Let four iterations of the loop stand in a row."""
    return lp.split_iname(knl, "i", 4, inner_tag="unr")


TRANSFORMATIONS: list[Callable[[Any], Any]] = [lambda knl: knl, unrolled]


def kernel_of(exprs: list[Any], dtype: Any, target: Any) -> lp.TranslationUnit:
    lines = [f"out[{k}, i] = {to_text(expr)}" for k, expr in enumerate(exprs)]
    arrays = [lp.GlobalArg(name, dtype, shape=(N,)) for name in NAMES]
    out = lp.GlobalArg("out", dtype, shape=(len(exprs), N), is_input=False)
    return lp.make_kernel(f"{{ [i]: 0<=i<{N} }}", lines, [*arrays, out], target=target)


@pytest.fixture(params=["c", "opencl"])
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Return what runs a kernel without contraction of products and sums."""
    if request.param == "c":

        def run_c(make: Callable[[Any], Any], arrays: dict[str, Any]) -> Any:
            knl = lp.set_options(make(lp.ExecutableCTarget()), build_options="-ffp-contract=off")
            return knl(**arrays)[1][0]

        return run_c
    queue = request.getfixturevalue("opencl_queue")

    def run_opencl(make: Callable[[Any], Any], arrays: dict[str, Any]) -> Any:
        pragma = [("00", "#pragma OPENCL FP_CONTRACT OFF")]
        knl = make(lp.PyOpenCLTarget()).map_kernels(lambda k: k.copy(preambles=tuple(pragma)))
        return knl(queue, **arrays)[1][0]

    return run_opencl


@pytest.mark.parametrize("transform", TRANSFORMATIONS, ids=["plain", "unrolled"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_random_expressions(dtype: Any, transform: Any, run: Any) -> None:
    rng, values = random.Random(12), np.random.default_rng(12)
    exprs = [random_expr(rng, 4) for _ in range(60)]
    arrays = {name: values.normal(size=N).astype(dtype) for name in NAMES}
    with np.errstate(all="ignore"):
        expected = np.array([np.broadcast_to(evaluated(e, arrays, dtype), N) for e in exprs])
    given = run(lambda target: transform(kernel_of(exprs, dtype, target)), arrays)
    wrong = [to_text(e) for e, g, w in zip(exprs, given, expected, strict=True) if differ(g, w)]
    assert not wrong


def differ(given: Any, wanted: Any) -> bool:
    return not np.array_equal(given, wanted, equal_nan=True)


@pytest.mark.parametrize("seed", range(200))
def test_text_keeps_the_order(seed: int) -> None:
    expr = random_expr(random.Random(seed), 4)
    values = {
        name: np.float64(number) for name, number in zip(NAMES, (0.1, 1e16, -3.7), strict=True)
    }
    with np.errstate(all="ignore"):
        again, once = (evaluated(e, values, np.float64) for e in (parse(to_text(expr)), expr))
    assert np.array_equal(again, once, equal_nan=True)


RULE = """
    f(j) := b[j] + c[j]
    out[i] = a[i] + f(i) - (f(i) + a[i] * (a[i] * b[i]))
"""


@pytest.mark.parametrize(
    "transform",
    [
        lambda knl: knl,
        lp.expand_subst,
        lambda knl: lp.precompute(knl, "f", "i", precompute_outer_inames=""),
        lambda knl: lp.add_prefetch(lp.expand_subst(knl), "b", "i", fetch_outer_inames=""),
        lambda knl: lp.split_iname(lp.expand_subst(knl), "i", 8, inner_tag="vec"),
        lambda knl: lp.buffer_array(knl, "out", "i", init_expression="0"),
        lambda knl: lp.fold_constants(lp.expand_subst(knl)),
        lambda knl: lp.extract_subst(lp.expand_subst(knl), "g", "x + y", parameters="x, y"),
    ],
)
def test_transformations_keep_the_order(transform: Any, run: Any) -> None:
    values = np.random.default_rng(5)
    a, b, c = (values.normal(size=N).astype(np.float32) for _ in NAMES)
    expected = a + (b + c) - ((b + c) + a * (a * b))

    def make(target: Any) -> Any:
        arrays = [lp.GlobalArg(name, np.float32, shape=(N,)) for name in (*NAMES, "out")]
        return transform(lp.make_kernel(f"{{ [i]: 0<=i<{N} }}", RULE, arrays, target=target))

    assert np.array_equal(run(make, {"a": a, "b": b, "c": c}), expected)
