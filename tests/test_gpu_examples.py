"""Schedules of examples/gpu compute the same as numpy, on small sizes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import all_pairs
import derivatives
import flash_attention
import fused_mlp
import numpy as np
import product
import pytest
import running_sums
import small_matrices
import softmax
import sparse_rows
import stencils
import steps_of_product
import streams
import tensor_product
import warpgroup_product
from case import Case, main, outputs_of

import kgen as lp
from tests.cuda_host import HostCuda

MODULES = (
    all_pairs,
    derivatives,
    flash_attention,
    fused_mlp,
    product,
    running_sums,
    small_matrices,
    softmax,
    sparse_rows,
    stencils,
    streams,
    tensor_product,
    warpgroup_product,
)
CASES: dict[str, Case] = {case.title: case for module in MODULES for case in module.CASES}
STEPS = {step.title: step for step in steps_of_product.STEPS}
FOLDER = Path(__file__).parents[1] / "examples" / "gpu"
#: Those that PoCL compiles at once.
SHORT = (
    "z = 2x + y",
    "sum",
    "transposition",
    "sparse matrix (CSR), 5 in a row",
    "sparse matrix (CSR), a power law",
)


@pytest.mark.parametrize("title", SHORT)
def test_on_opencl(title: str, opencl_queue: Any) -> None:
    case = CASES[title]
    assert case.error_of_small(lp.PyOpenCLTarget(), opencl_queue) <= case.tolerance


@pytest.mark.parametrize(
    ("title", "launches"),
    [
        ("running sums", 1),
        ("product, float64", 1),
        ("product, float32 in two parts", 1),
        ("25 points", 1),
        ("N-body, all pairs", 2),
        ("sparse matrix (CSR), a power law", 3),
    ],
)
def test_code_for_cuda_on_the_host(title: str, launches: int, tmp_path: Path) -> None:
    case = CASES[title]
    knl = case.scheduled(case.small, lp.CudaTarget())
    run = HostCuda(knl, tmp_path)
    given = case.inputs(np.random.default_rng(1), case.small)
    outputs = {n: np.zeros(arg.shape, arg.dtype.dtype) for n, arg in outputs_of(knl).items()}
    entries = {"entries": len(given["values"])} if "values" in given else {}
    assert run({**given, **outputs, **entries}, order="any")
    assert len(run.module.launches) == launches
    assert case.error(outputs[case.result], given) <= case.tolerance


def test_derivatives_on_tensor_cores_on_the_host(tmp_path: Path) -> None:
    """Few elements, in two turns of a group, some of whose warps have none in the second one."""
    knl = derivatives.on_tensor_cores(derivatives.derivatives(64, lp.CudaTarget()), groups=1)
    case = CASES["derivatives of DG, in two parts"]
    given, out = case.inputs(np.random.default_rng(1), 64), np.zeros((3, 4, 64, 35), np.float32)
    assert HostCuda(knl, tmp_path)({**given, "out": out}, order="any")
    assert case.error(out, given) <= 1e-6
    text = lp.generate_body(knl)
    assert (text.count("__syncthreads"), text.count("__syncwarp")) == (1, 4)


def test_attention_for_cuda_on_the_host(tmp_path: Path) -> None:
    """Few numbers a head, as code for many takes long."""
    knl = flash_attention.make_attention(128, lp.CudaTarget(), heads=1, width=16)
    rng = np.random.default_rng(1)
    given = {name: rng.standard_normal((1, 128, 16)).astype(np.float16) for name in "qkv"}
    out = np.zeros((1, 128, 16), np.float16)
    assert HostCuda(flash_attention.schedule(knl), tmp_path)({**given, "out": out}, order="any")
    assert np.max(np.abs(out[0, :64] - flash_attention.expected(given))) < 1e-3


@pytest.mark.usefixtures("cuda_context")
@pytest.mark.parametrize("title", CASES)
def test_on_cuda(title: str) -> None:
    case = CASES[title]
    assert case.error_of_small(lp.PyCudaTarget()) <= case.tolerance


def test_every_file_has_a_case_and_is_listed() -> None:
    listed = (FOLDER / "README.md").read_text()
    names = {path.stem for path in FOLDER.glob("*.py")}
    others = {"case", "steps_of_product"}
    assert names == others | {module.__name__ for module in MODULES}
    assert all(f"[{name}.py]({name}.py)" in listed for name in names)


def test_errors_are_seen() -> None:
    case = CASES["sum"]
    given = case.inputs(np.random.default_rng(1), 16)
    assert case.error(np.array(given["a"].sum() + 1), given) > case.tolerance


def test_case_prints_the_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["case.py", "sparse_rows"])
    main()
    assert "__global__" in capsys.readouterr().out


def error_of(step: steps_of_product.Step, n: int, target: Any, *queue: Any) -> float:
    a, b = np.random.default_rng(1).random((2, n, n)).astype(step.dtype)
    _, (out,) = step.scheduled(n, target)(*queue, a=a, b=b)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    return float(np.max(np.abs(np.asarray(out) / expected - 1)))


@pytest.mark.parametrize("title", ["shared memory", "vectors"])
def test_steps_on_opencl(title: str, opencl_queue: Any) -> None:
    assert error_of(STEPS[title], 128, lp.PyOpenCLTarget(), opencl_queue) < 1e-5


@pytest.mark.usefixtures("cuda_context")
@pytest.mark.parametrize("title", STEPS)
def test_steps_on_cuda(title: str) -> None:
    n = 260 if "border" in title else 256
    assert error_of(STEPS[title], n, lp.PyCudaTarget()) < 1e-4


def test_page_quotes_the_functions() -> None:
    text = (FOLDER.parents[1] / "docs" / "product.md").read_text()
    quoted = re.findall(r"^```py\n(.*?)```$", text, re.DOTALL | re.MULTILINE)
    code = "".join(path.read_text() for path in FOLDER.glob("*product.py"))
    assert len(quoted) > 10
    assert [part for part in quoted if part not in code] == []
