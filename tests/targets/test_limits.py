"""What a device has no room for is refused, with the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp


def tile(size: int, target: lp.TargetBase) -> lp.TranslationUnit:
    """Make a kernel whose groups of 8 have *size* numbers of 8 bytes in local memory."""
    knl = lp.make_kernel(
        "{ [g, j, l, m]: 0 <= g, j < 2 and 0 <= l, m < 8 }",
        "t[8*j + l] = j {id=w}\nout[g, m] = t[7 - m] {dep=w}",
        [
            lp.TemporaryVariable("t", np.float64, shape=size, address_space=lp.AddressSpace.LOCAL),
            lp.GlobalArg("out", np.float64, shape="2, 8"),
        ],
        target=target,
    )
    knl = lp.add_inames_to_insn(knl, "g", "id:w")
    return lp.tag_inames(knl, "g:g.0, l:l.0, m:l.0")


def groups(*sizes: int) -> lp.TranslationUnit:
    names = "ijk"[: len(sizes)]
    bounds = " and ".join(f"0 <= {n} < {s}" for n, s in zip(names, sizes, strict=True))
    index = ", ".join(names)
    knl = lp.make_kernel(
        f"{{ [{index}]: {bounds} }}",
        f"out[{index}] = 1",
        [lp.GlobalArg("out", np.float32, shape=sizes)],
        target=lp.CudaTarget(),
    )
    return lp.tag_inames(knl, {name: f"l.{axis}" for axis, name in enumerate(names)})


@pytest.mark.parametrize(
    ("sizes", "what"),
    [
        ((2048,), "work-groups of 2048 work-items"),
        ((32, 64), "work-groups of 2048 work-items"),
        ((2, 2, 128), "128 work-items along axis l.2"),
    ],
)
def test_a_group_is_no_larger_than_the_device_takes(sizes: tuple[int, ...], what: str) -> None:
    with pytest.raises(lp.CodegenError, match=what):
        lp.generate_code_v2(groups(*sizes))
    lp.generate_code_v2(groups(*(size // 8 or 1 for size in sizes)))


def test_local_memory_has_an_end() -> None:
    lp.generate_code_v2(tile(29056, lp.CudaTarget()))
    with pytest.raises(lp.CodegenError, match=r"232512 bytes of local memory \(t: 232512\)"):
        lp.generate_code_v2(tile(29064, lp.CudaTarget()))


def test_verify_says_so_as_well() -> None:
    report = lp.verify(tile(29064, lp.CudaTarget()))
    assert [finding.check for finding in report.violated] == ["device"]


def test_devices_of_opencl_are_asked(opencl_queue: Any) -> None:
    size = opencl_queue.device.local_mem_size // 8 + 8
    for target in (lp.PyOpenCLTarget(), lp.PyOpenCLTarget(opencl_queue.device)):
        with pytest.raises(lp.CodegenError, match="local memory"):
            tile(size - size % 8, target)(opencl_queue)


def test_the_size_of_arguments_has_a_limit_on_request() -> None:
    args = [lp.GlobalArg("a,b", np.float64, shape="n"), lp.ValueArg("s", np.float64), ...]
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "b[i] = s*a[i]", args)
    for limit, fits in ((28, True), (27, False)):
        changed = knl.copy(target=lp.PyOpenCLTarget(limit_arg_size_nbytes=limit))
        if fits:
            assert lp.generate_code_v2(changed).device_code()
            continue
        with pytest.raises(lp.CodegenError, match="the 4 arguments of 'kgen_kernel' take 28 bytes"):
            lp.generate_code_v2(changed)
    with pytest.raises(lp.KgenError, match="limit_arg_size_nbytes of a target"):
        lp.PyOpenCLTarget(limit_arg_size_nbytes=0)
