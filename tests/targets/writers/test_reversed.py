"""Subscripts with negative multiples: nvcc reads other elements if they have 32 bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kgen as lp
from tests.backends import Backend
from tests.targets.support import compile_cuda

TARGETS = [lp.CudaTarget(), lp.OpenCLTarget()]
#: A NaN, for what nvcc takes for an element that nothing has written.
UNWRITTEN = "0f7FC00000"


def reads_backwards(first: int, target: lp.TargetBase) -> lp.TranslationUnit:
    code = f"""
        for i, j
            t[f] = n {{id=set}}
            if a[j] > 0
                out[j, i, u - ({first})] = 2*t[{first + 1} - u] + t[0] {{dep=set}}
            end
        end
    """
    domains = ["{ [i, j, f]: 0 <= i < n and i <= j < n and 0 <= f < 2 }"]
    domains.append(f"{{ [u]: {first} <= u < {first + 2} }}")
    private = lp.TemporaryVariable("t", "float32", shape=2, address_space=lp.AddressSpace.PRIVATE)
    arrays = (
        lp.GlobalArg("out", "float32", shape="n, n, 2"),
        lp.GlobalArg("a", "float32", shape="n"),
    )
    data = [private, *arrays, ...]
    unit = lp.make_kernel(domains, code, data, target=target, assumptions="n mod 6 = 0")
    unit = lp.split_iname(unit, "i", 7, outer_tag="g.0", inner_tag="l.0")
    return lp.tag_inames(lp.split_iname(unit, "j", 6, inner_tag="ilp"), "f:unr")


@pytest.mark.parametrize("first", [-2, 0])
def test_nvcc_reads_what_is_written(first: int, nvcc: str, tmp_path: Path) -> None:
    text = lp.generate_code_v2(reads_backwards(first, TARGETS[0])).device_code()
    compile_cuda(text, tmp_path, nvcc)
    assert UNWRITTEN not in (tmp_path / "code.ptx").read_text()


@pytest.mark.parametrize("first", [-2, 0])
def test_devices_read_what_is_written(first: int, device: Backend) -> None:
    out = np.zeros((12, 12, 2), np.float32)
    device(reads_backwards(first, device.target()), out=out, a=np.ones(12, np.float32))
    assert np.array_equal(out[..., 0], 36 * np.tril(np.ones((12, 12))))
    assert np.array_equal(out[..., 1], out[..., 0])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("index", "is_wide"), [("6 - 2*i", True), ("n - 2*i", False), ("3 - i", False), ("2*i", False)]
)
def test_multiples_have_64_bits_if_they_are_negative(
    index: str, is_wide: bool, target: lp.TargetBase
) -> None:
    text = f"a[{index}] = i\nout[i] = a[{index}] {{dep=insn}}"
    data = [lp.GlobalArg("a, out", "float32", shape=lp.auto), ...]
    domain = "{ [i]: 0 <= i < 4 and 0 <= 2*i <= n }"
    unit = lp.make_kernel(domain, text, data, target=target, assumptions="6 <= n < 1000")
    assert ("long" in lp.generate_code_v2(unit).device_code()) == is_wide


def test_arrays_that_are_only_read_keep_32_bits() -> None:
    unit = lp.make_kernel("{ [i]: 0 <= i < 4 }", "out[i] = a[6 - 2*i]", target=TARGETS[0])
    unit = lp.add_dtypes(unit, {"a": "float32"})
    assert "long" not in lp.generate_code_v2(unit).device_code()


def test_variables_for_subscripts_are_hidden() -> None:
    code = "<> m = 6 - 2*i\na[m] = i\nout[i] = a[m] {dep=insn_0}"
    unit = lp.make_kernel("{ [i]: 0 <= i < 4 }", code, target=TARGETS[0])
    unit = lp.add_dtypes(unit, {"a": "float32", "out": "float32"})
    assert "m = kgen_signed(" in lp.generate_code_v2(unit).device_code()
