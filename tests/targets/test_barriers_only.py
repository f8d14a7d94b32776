"""Kernels of nothing but barriers, on each target: they run as nothing, or are refused."""

from __future__ import annotations

from typing import Any

import pytest

import kgen as lp

GLOBAL = {"one": "... gbarrier", "in a loop": "for i\n... gbarrier\nend"}
LOCAL = {
    "one": "... lbarrier",
    "in a loop": "for i\n... lbarrier\nend",
    "and a global one": "... lbarrier {id=a}\n... gbarrier {dep=a}",
}


def only(text: str, target: Any) -> lp.TranslationUnit:
    return lp.make_kernel("{ [i]: 0 <= i < 4 }", text, [], target=target)


@pytest.mark.parametrize("text", GLOBAL.values(), ids=GLOBAL.keys())
@pytest.mark.parametrize(
    "target", [lp.CTarget(), lp.OpenCLTarget(), lp.CudaTarget(), lp.ISPCTarget()], ids=str
)
def test_global_barriers_around_nothing_are_nothing(text: str, target: Any) -> None:
    assert lp.generate_code_v2(only(text, target)).device_code() == ""


@pytest.mark.parametrize("text", LOCAL.values(), ids=LOCAL.keys())
def test_local_barriers_alone_are_kept_or_refused(text: str) -> None:
    for target, barrier in (
        (lp.OpenCLTarget(), "barrier(CLK_LOCAL_MEM_FENCE);"),
        (lp.CudaTarget(), "__syncthreads();"),
        (lp.ISPCTarget(), "// lanes converge here"),
    ):
        assert lp.generate_code_v2(only(text, target)).device_code().count(barrier) == 1
    with pytest.raises(lp.CodegenError, match="remove the barriers of the kernel,"):
        lp.generate_code_v2(only(text, lp.CTarget()))


@pytest.mark.parametrize("text", GLOBAL.values(), ids=GLOBAL.keys())
def test_they_run_on_the_host(text: str) -> None:
    assert only(text, lp.ExecutableCTarget())()[1] == ()


@pytest.mark.parametrize("text", [*GLOBAL.values(), *LOCAL.values()])
def test_they_run_on_opencl(text: str, opencl_queue: Any) -> None:
    assert only(text, lp.PyOpenCLTarget())(opencl_queue)[1] == ()
