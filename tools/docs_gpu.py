"""Pages of the examples for GPUs: what bounds each, its schedule, its CUDA code, its rates.

Rates are shown where ``benchmarks/gpu.py --json benchmarks/gpu.json`` has left them.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kgen as lp

if TYPE_CHECKING:
    from case import Case

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "examples" / "gpu"
RATES = ROOT / "benchmarks" / "gpu.json"
#: The most lines of code that a page shows.
MAX_LINES = 100
_CODE = """\
.. dropdown:: CUDA code of {title!r}, n = {size}

   {count} lines, :download:`as a file <{file}>`.

   .. literalinclude:: {file}
      :language: cuda
      :lines: 1-{shown}
"""


def figures_in(file: Path = RATES) -> Mapping[str, Any]:
    """Return what the benchmark has measured."""
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return found


def cases_of(path: Path) -> tuple[Case, ...]:
    """Return the cases of an example."""
    sys.path.insert(0, str(path.parent))
    found: tuple[Case, ...] = importlib.import_module(path.stem).CASES
    sys.path.remove(str(path.parent))
    return found


def parts_of(path: Path, figures: Mapping[str, Any]) -> dict[str, str]:
    """Return what a page shows below the program, as reST, and the files with CUDA code.

    The page's part is under the empty name.
    """
    if "\nCASES = " not in path.read_text():
        return {"": ""}
    files, text = {}, []
    for number, case in enumerate(cases_of(path)):
        file = f"{path.stem}-{number}.cu"
        program = case.scheduled(case.size, lp.CudaTarget())
        files[file] = code = lp.generate_code_v2(program).device_code()
        count = code.count("\n") + 1
        code_part = _CODE.format(
            title=case.title, size=case.size, count=count, file=file, shown=min(count, MAX_LINES)
        )
        title = f"{case.title}\n{'-' * len(case.title)}\n"
        text.append("\n".join([title, *rates_of(case, figures), code_part]))
    return {"": "\n".join(text), **files}


def rates_of(case: Case, figures: Mapping[str, Any]) -> Iterator[str]:
    """Give the table of the rates of a case, if there are any."""
    seconds = figures.get("seconds", {}).get(case.title)
    if seconds is None:
        return
    is_traffic = case.unit == "GB/s"
    yield f".. list-table:: {figures['device']}, n = {case.size}\n   :header-rows: 1\n"
    yield f"   * -\n     - {case.unit}\n     - {'of a copy' if is_traffic else 'of PyTorch'}"
    for name, time in seconds.items():
        rate = case.work(case.size) / time
        limit = figures["rates"]["copy"] if is_traffic else _rate_of_peer(case, seconds)
        part = f"{rate / limit:.2f}" if limit else ""
        yield f"   * - {name}\n     - {rate / (1e9 if is_traffic else 1e12):.4g}\n     - {part}"
    yield ""


def _rate_of_peer(case: Case, seconds: Mapping[str, float]) -> float:
    return case.work(case.size) / seconds["PyTorch"] if "PyTorch" in seconds else 0
