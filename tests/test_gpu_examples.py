"""Schedules of examples/gpu compute the same as numpy, on small sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import all_pairs
import derivatives
import numpy as np
import product
import pytest
import running_sums
import small_matrices
import softmax
import sparse_rows
import stencils
import streams
from case import Case, outputs_of

import kgen as lp
from tests.cuda_host import HostCuda

MODULES = (
    all_pairs,
    derivatives,
    product,
    running_sums,
    small_matrices,
    softmax,
    sparse_rows,
    stencils,
    streams,
)
CASES: dict[str, Case] = {case.title: case for module in MODULES for case in module.CASES}
#: Those that PoCL compiles at once.
SHORT = ("z = 2x + y", "sum", "transposition", "sparse matrix (CSR), 5 in a row")


@pytest.mark.parametrize("title", SHORT)
def test_on_opencl(title: str, opencl_queue: Any) -> None:
    case = CASES[title]
    assert case.error_of_small(lp.PyOpenCLTarget(), opencl_queue) <= case.tolerance


@pytest.mark.parametrize("title", ["running sums", "product, float64"])
def test_code_for_cuda_on_the_host(title: str, tmp_path: Path) -> None:
    case = CASES[title]
    knl = case.scheduled(case.small, lp.CudaTarget())
    run = HostCuda(knl, tmp_path)
    given = case.inputs(np.random.default_rng(1), case.small)
    outputs = {n: np.zeros(arg.shape, arg.dtype.dtype) for n, arg in outputs_of(knl).items()}
    assert run({**given, **outputs}, order="any")
    assert len(run.module.launches) == 1
    assert case.error(outputs[case.result], given) <= case.tolerance


@pytest.mark.usefixtures("cuda_context")
@pytest.mark.parametrize("title", CASES)
def test_on_cuda(title: str) -> None:
    case = CASES[title]
    assert case.error_of_small(lp.PyCudaTarget()) <= case.tolerance


def test_every_file_has_a_case_and_is_listed() -> None:
    folder = Path(__file__).parents[1] / "examples" / "gpu"
    listed = (folder / "README.md").read_text()
    names = {path.stem for path in folder.glob("*.py")}
    assert names == {"case", "tensor_product"} | {module.__name__ for module in MODULES}
    assert all(f"[{name}.py]({name}.py)" in listed for name in names)


def test_errors_are_seen() -> None:
    case = CASES["sum"]
    given = case.inputs(np.random.default_rng(1), 16)
    assert case.error(np.array(given["a"].sum() + 1), given) > case.tolerance
