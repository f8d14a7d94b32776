"""The generated text of every benchmark and example kernel is the same in every process.

Each process has its own hash seed, and so its own order of sets; two have the same seed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kernels import CASES

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted(
    path for path in (ROOT / "examples").glob("*.py") if "def kernels(" in path.read_text()
)
SEEDS = ["0", "0", "1", "2", "3", "4", "5"]
SIZE_LIMIT = 60

# Prints {name: text} of every kernel; an example gives its kernels by a function of this name.
PRINT_TEXTS = f"""
import json, runpy, sys
import kgen as lp
from kernels import CASES, code_text
texts = {{name: code_text(lp, case, min(case.size, {SIZE_LIMIT})) for name, case in CASES.items()}}
for path in sys.argv[1:]:
    for name, kernel in runpy.run_path(path)["kernels"]().items():
        texts[path + ": " + name] = lp.generate_code_v2(kernel).all_code()
print(json.dumps(texts))
"""


def texts_under(seed: str) -> dict[str, str]:
    path = os.pathsep.join(map(str, (ROOT, ROOT / "benchmarks", ROOT / "examples")))
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PRINT_TEXTS, *map(str, EXAMPLES)],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    texts: dict[str, str] = json.loads(run.stdout)
    return texts


@pytest.fixture(scope="module")
def texts_of_processes() -> list[dict[str, str]]:
    with ThreadPoolExecutor(max_workers=2) as pool:
        return list(pool.map(texts_under, SEEDS))


def test_every_kernel_is_there(texts_of_processes: list[dict[str, str]]) -> None:
    names = texts_of_processes[0].keys()
    assert CASES.keys() <= names
    assert {name.partition(": ")[0] for name in names - CASES.keys()} == set(map(str, EXAMPLES))
    assert all(texts_of_processes[0].values())


def test_texts_are_equal(texts_of_processes: list[dict[str, str]]) -> None:
    first, *others = texts_of_processes
    for texts in others:
        assert [name for name in first if first[name] != texts[name]] == []
