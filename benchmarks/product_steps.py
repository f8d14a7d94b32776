"""Time the steps of docs/product.md on an NVIDIA GPU, and cuBLAS through torch.matmul.

Prints a row of the page's table for each step of examples/gpu/steps_of_product.py: TFLOP/s by the
least time of many launches, and the fraction of cuBLAS in the same run. Checks each result on a
sample of rows. Needs pycuda, ml_dtypes and a device; torch for the comparison. ``--code FOLDER``
writes the CUDA code of all steps, and needs no device.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import kgen as lp

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "gpu"))
steps = importlib.import_module("steps_of_product")

if TYPE_CHECKING:
    from steps_of_product import Step


def write_code(folder: Path, size: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, step in enumerate(steps.STEPS, 1):
        program = step.scheduled(step.size or size, lp.CudaTarget())
        (folder / f"{number}.cu").write_text(lp.generate_code_v2(program).device_code())


def _times_of(launch: Callable[[], object], rounds: int) -> list[float]:
    found: list[float] = importlib.import_module("gpu").times_of(launch, rounds)
    return found


def on_device(array: np.ndarray[Any, Any]) -> Any:
    """Copy an array to the device; pycuda knows no bfloat16."""
    gpuarray = importlib.import_module("pycuda.gpuarray")
    if array.dtype.kind == "f":
        return gpuarray.to_gpu(array)
    raw = gpuarray.to_gpu(array.view(f"u{array.dtype.itemsize}"))
    return raw.view(array.dtype)


def rate(step: Step, given: Mapping[str, np.ndarray[Any, Any]], rounds: int) -> float:
    """Return TFLOP/s of a step, after a look at the last rows of its result."""
    size = len(given["a"])
    program = step.scheduled(size, lp.PyCudaTarget())
    (name,) = (a.name for a in program.default_entrypoint.args if getattr(a, "is_output", False))
    arrays = {key: on_device(value) for key, value in given.items()}
    arrays[name] = out = on_device(np.full((size, size), np.nan, np.float32))
    executor = program.executor()
    time = min(_times_of(lambda: executor(**arrays), rounds))
    a, b = (given[key].astype(np.float64) for key in "ab")
    np.testing.assert_allclose(out.get()[-10:], a[-10:] @ b, rtol=1e-3)
    return float(2 * size**3 / time / 1e12)


def rate_of_torch(given: Mapping[str, np.ndarray[Any, Any]], rounds: int) -> float:
    """Return TFLOP/s of torch.matmul, without TF32; with bfloat16 the result has that type too."""
    torch = importlib.import_module("torch")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.cuda.set_stream(torch.cuda.default_stream())
    dtype = getattr(torch, given["a"].dtype.name)
    a, b = (torch.from_numpy(given[k].astype(np.float32)).to("cuda", dtype) for k in "ab")
    out = torch.empty_like(a)
    time = min(_times_of(lambda: torch.matmul(a, b, out=out), rounds))
    return float(2 * len(a) ** 3 / time / 1e12)


def inputs(size: int, dtype: np.dtype[Any]) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(1)
    return {name: rng.random((size, size)).astype(dtype) for name in "ab"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--code", type=Path)
    options = parser.parse_args()
    if options.code is not None:
        write_code(options.code, options.size)
        return
    importlib.import_module("pycuda.autoprimaryctx")
    peers: dict[str, float] = {}
    print("| step | type | n | TFLOP/s | of cuBLAS |\n|---|---|--:|--:|--:|")
    for step in steps.STEPS:
        size, kind = step.size or options.size, step.dtype.name
        if kind not in peers and importlib.util.find_spec("torch"):
            peers[kind] = rate_of_torch(inputs(options.size, step.dtype), options.rounds)
        found = rate(step, inputs(size, step.dtype), options.rounds)
        of = f"{found / peers[kind]:.2f}" if peers else ""
        print(f"| {step.title} | {kind} | {size} | {found:.3g} | {of} |", flush=True)
    for kind, found in peers.items():
        print(f"| cuBLAS, by torch.matmul | {kind} | {options.size} | {found:.3g} | 1 |")


if __name__ == "__main__":
    main()
