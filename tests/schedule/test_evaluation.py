"""What kernels compute for given sizes, as fingerprints: equal where real results are equal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import kgen as lp
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.expressions import parse
from kgen.transforms.select import transform
from kgen.verification import Finding


def make(expression: str, dtype: str, extent: int = 16) -> lp.TranslationUnit:
    return lp.make_kernel(
        [f"{{ [i]: 0 <= i < {extent} }}", "{ [r]: 0 <= r <= i }"],
        f"out[i] = {expression}",
        [lp.GlobalArg("a, b", "float64", shape="16"), lp.GlobalArg("out", dtype, shape="16")],
        target=lp.CudaTarget(),
    )


def origin(program: lp.TranslationUnit) -> Finding:
    (found,) = (finding for finding in lp.verify(program).findings if finding.check == "origin")
    return found


@pytest.mark.parametrize("expression", ["sum(r, abs(r - 7))", "sum(r, abs(r // 2)*r) + 1"])
def test_sums_of_integers_from_functions_are_exact(expression: str) -> None:
    knl = lp.split_iname(make(expression, "int32"), "i", 4, inner_tag="l.0")
    assert origin(lp.realize_reduction(knl, force_scan=True)).status.value == "proved"


def test_a_real_value_is_rounded_where_an_integer_is_stored() -> None:
    @transform
    def rounded_early(kernel: LoopKernel) -> LoopKernel:
        (insn,) = kernel.instructions
        early = parse("cast(int32, a[i]) + cast(int32, b[i])")
        return kernel.copy(instructions=[insn.copy(expression=early)])

    assert origin(rounded_early(make("a[i] + b[i]", "int32"))).status.value == "violated"


@pytest.mark.parametrize("operation", ["sum", "max"])
def test_lanes_exchange_values(operation: str) -> None:
    knl = make(f"{operation}(r, a[r])", "float64")
    knl = lp.split_iname(knl, "i", 8, outer_tag="g.0")
    knl = lp.split_iname(knl, "i_inner", 4, inner_tag="l.0")
    knl = lp.realize_reduction(knl, force_scan=True)
    assert "exchange_lanes" in str(knl)
    assert origin(knl).status.value != "violated"


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize(
    ("function", "limit"), [("min", lambda n: 2 ** (n - 1) - 1), ("max", lambda n: -(2 ** (n - 1)))]
)
def test_limits_of_types_are_neutral(bits: int, function: str, limit: Callable[[int], int]) -> None:
    @transform
    def bare(kernel: LoopKernel) -> LoopKernel:
        (insn,) = kernel.instructions
        return kernel.copy(instructions=[insn.copy(expression=parse("lrint(a[i])"))])

    knl = make(f"{function}(lrint(a[i]), {limit(bits)})", "int64")
    assert origin(bare(knl)).status.value != "violated"


@pytest.mark.parametrize(
    ("subscript", "status"), [("abs(i*(i - 8)) % 12", "proved"), ("lrint(1.5*i) % 12", "unknown")]
)
def test_subscripts_are_values_of_functions(subscript: str, status: str) -> None:
    @transform
    def through_copy(kernel: LoopKernel) -> LoopKernel:
        copy, user = kernel.instructions
        return kernel.copy(instructions=[copy, user.copy(expression=parse(f"t[{subscript}]"))])

    text = ["t[j] = a[j] {id=copy}", f"out[i] = a[{subscript}] {{dep=copy}}"]
    data = [lp.TemporaryVariable("t", "float64", shape=12), lp.GlobalArg("a", "float64", shape=12)]
    knl = lp.make_kernel("{ [i, j]: 0 <= i, j < 12 }", text, [*data, ...], target=lp.CTarget())
    assert origin(through_copy(knl)).status.value == status
