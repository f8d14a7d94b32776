"""The report of a kernel: its parts, with and without arguments."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import kgen as lp
from tests.notebook.test_kernels import Linked, product

HOST = lp.Device(name="a host", bandwidth=1e10, cache_bandwidth=1e11, flops={"float32": 1e11})


def parts_of(page: str) -> dict[str, str]:
    titles = re.split(r"<h2>(.*?)</h2>", page)
    return dict(zip(titles[1::2], titles[2::2], strict=True))


def scale() -> lp.TranslationUnit:
    return lp.make_kernel(
        "{ [i]: 0 <= i < n }", "out[i] = 2*a[i]",
        [lp.GlobalArg("a, out", shape="n"), ...], target=lp.ExecutableCTarget(), name="scale",
    )  # fmt: skip


def test_report_of_a_call(tmp_path: Path) -> None:
    arguments = {"a": np.ones(1000, np.float32)}
    found = lp.report(scale(), arguments, tmp_path / "scale.html", device=HOST)
    assert (tmp_path / "scale.html").read_text() == str(found) == found._repr_html_()
    parts = parts_of(found.html)
    assert "out[i]" in parts["Kernel"]
    assert "└─ for i" in parts["Schedule"]
    assert "__kernel" in parts["Code for other targets"]
    assert "__global__" in parts["Code for other targets"]
    assert "contiguous along i" in parts["How it is implemented"]
    assert "load a (global memory)" in parts["Counts"]
    assert re.search(r"footprint bytes +8,000", parts["Roofline"])
    assert "measured time" in parts["Roofline"]
    assert "bounds" in parts["Checks"]
    assert "part of the speed of a copy" in parts["Times"]
    Linked(re.sub("<!DOCTYPE html>|<svg.*?</svg>", "", found.html, flags=re.DOTALL))


def test_report_without_arguments() -> None:
    parts = parts_of(lp.report(product()).html)
    assert "need the arguments of a call" in parts["Times"]
    assert "vector(16)" in parts["How it is implemented"]
    assert parts["Code for other targets"].count("<details>") == 2  # it is for OpenCL itself


def test_one_part_that_fails_leaves_the_others() -> None:
    parts = parts_of(lp.report(lp.make_kernel("{ [i]: 0<=i<n }", "b[i] = a[i]")).html)
    assert "no code: " in parts["Kernel"]
    assert "hint" in parts["Counts"]


def test_a_whole_program_is_inlined() -> None:
    f = lp.make_function("{ [i]: 0<=i<4 }", "y[i] = 2*x[i]", name="f", target=lp.CTarget())
    knl = lp.make_kernel(
        "{ [i, j]: 0<=i,j<4 }", "[i]: b[i] = f([j]: a[j])",
        [lp.GlobalArg("a", "float32", shape=4), ...], target=lp.CTarget(),
    )  # fmt: skip
    report = lp.report(lp.merge([knl, f]))
    assert isinstance(report, lp.KernelReport)
    assert report.kernel_name == "kgen_kernel"
    assert "2.0f" in parts_of(report.html)["Kernel"]
