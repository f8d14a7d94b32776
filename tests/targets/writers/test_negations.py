"""Operands of integer minima and maxima: ptxas must not take them for negations."""

from __future__ import annotations

from pathlib import Path

import pytest

import kgen as lp
from tests.targets.support import compile_cuda

TARGETS = [lp.CudaTarget(), lp.OpenCLTarget()]


DOMAIN = "{ [i]: 0 <= i < n }"


def text_of(code: str, target: lp.TargetBase, dtype: str = "int32", domain: str = DOMAIN) -> str:
    arrays = [lp.GlobalArg("a, b, c, out", dtype, shape="n"), ...]
    unit = lp.make_kernel(domain, code, arrays, target=target)
    return lp.generate_code_v2(unit).device_code()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("negation", ["-b[i]", "-4*b[i]", "-b[i] - c[i]", "i - b[i]", "-abs(b[i])"])
def test_negations_in_minima_are_hidden(negation: str, target: lp.TargetBase) -> None:
    text = text_of(f"out[i] = min(min(a[i], {negation}), c[i])", target)
    assert "min(min(a[i], kgen_signed(" in text
    assert text.rindex("kgen_signed(") == text.index("kgen_signed(", text.index("min(min("))


@pytest.mark.parametrize(
    "code",
    [
        "<> t = -a[i]\nout[i] = max(max(t, b[i]), c[i])",
        "out[i] = -a[i] {id=set}\nc[i] = max(max(out[i], b[i]), a[i]) {dep=set}",
        "out[i] = a[i] if a[i] < -b[i] else -b[i]",
        "<> t = 0 {id=t, dep=*}\nt = t - a[i] {id=u, dep=t}\nout[i] = min(t, b[i]) {dep=u}",
    ],
)
def test_negations_are_hidden_where_other_statements_compare_them(code: str) -> None:
    assert "kgen_signed(" in text_of(code, lp.CudaTarget())


@pytest.mark.parametrize("code", ["min(min(a[i], b[i]), i - 1)", "min(a[i] - b[i], c[i])", "-a[i]"])
def test_other_operands_are_written_as_they_are(code: str) -> None:
    assert "kgen_signed" not in text_of(f"out[i] = {code}", lp.CudaTarget())


@pytest.mark.parametrize("dtype", ["int16", "int64", "float32"])
def test_ptxas_joins_only_32_bits(dtype: str) -> None:
    assert "kgen_signed" not in text_of("out[i] = min(min(a[i], -b[i]), c[i])", TARGETS[0], dtype)


def test_compilers_of_hosts_keep_signs() -> None:
    text = text_of("out[i] = min(min(a[i], -b[i]), c[i])", lp.CTarget())
    assert "kgen_signed" not in text


@pytest.mark.parametrize(("bound", "count"), [("-m <= j", 0), ("-m <= j and -k <= j", 4)])
def test_bounds_are_hidden_that_are_the_largest_of_three(bound: str, count: int) -> None:
    domain = f"{{ [i, j]: 0 <= i < n and {bound} and -i <= j < 1 }}"
    assert (
        text_of("out[i] = sum(j, a[i])", TARGETS[0], domain=domain).count("kgen_signed(") == count
    )


def test_nvcc_does_not_see_the_negation(nvcc: str, tmp_path: Path) -> None:
    compile_cuda(text_of("out[i] = min(min(a[i], -b[i]), c[i])", TARGETS[0]), tmp_path, nvcc)
    assert "neg.s32" not in (tmp_path / "code.ptx").read_text()


@pytest.mark.parametrize(("dtype", "count"), [("int32", 1), ("float32", 0)])
def test_variables_are_hidden_if_integers_are_compared(dtype: str, count: int) -> None:
    code = "<> t = -n {id=t}\nout[i] = a[i] + t if a[i] < b[i] else c[i]"
    assert text_of(code, TARGETS[0], dtype).count("= kgen_signed(-n)") == count
