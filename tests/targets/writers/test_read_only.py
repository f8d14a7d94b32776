"""Arrays that are only read beside others that are written: nvcc takes none for constant."""

from __future__ import annotations

from pathlib import Path

import pytest

import kgen as lp
from tests.targets.support import compile_cuda

CHOICE = "out[i] = a[i] if c[i] > 0 else out[i]"


def text_of(code: str, target: lp.TargetBase | None = None) -> str:
    arrays = [lp.GlobalArg("a, b, c, out", "float32", shape="n"), ...]
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", code, arrays, target=target or lp.CudaTarget())
    knl = lp.split_iname(lp.remove_unused_arguments(knl), "i", 64, outer_tag="g.0", inner_tag="l.0")
    return lp.generate_code_v2(knl).device_code()


def test_arrays_beside_written_ones_are_not_constant(nvcc: str, tmp_path: Path) -> None:
    text = text_of(f"out[i] = b[i]\n{CHOICE} {{dep=insn}}")
    compile_cuda(text, tmp_path, nvcc)
    assert ".nc" not in (tmp_path / "code.ptx").read_text()


@pytest.mark.parametrize(
    "code", ["out[i] = 2*a[i] + out[i]", "out[i] = a[i] if c[i] > 0 else b[i]"]
)
def test_straight_code_and_outputs_that_are_not_read_stay_as_they_are(code: str) -> None:
    assert "asm" not in text_of(code)


def test_arrays_are_named_that_are_only_read() -> None:
    text = text_of(CHOICE)
    assert '  asm volatile("" :: "l"(a));\n  asm volatile("" :: "l"(c));\n' in text


def test_nvidias_opencl_has_the_same_compiler() -> None:
    text = text_of(CHOICE, lp.OpenCLTarget())
    assert '#define kgen_hide(A) asm volatile("" :: "l"(A))' in text
    assert "  kgen_hide(a);\n  kgen_hide(c);\n" in text


def test_values_of_two_instructions_may_come_from_two_arrays() -> None:
    code = """
        <> x = out[i] {id=first, dep=*}
        x = a[i] {id=other, dep=first, if=c[i] > 0}
        out[i] = x {dep=other}
    """
    assert "asm" in text_of(code)
