"""Exported files are the same in every process, whatever its hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

#: Writes examples for each target, and a kernel with variants.
WRITE = """
import sys
import kgen as lp
from tests.exporters.calls import examples
from tests.exporters.kernels import rotated, steps, turned
names = ("compact", "spmv", "histogram")
for target in ("c", "opencl", "cuda"):
    programs = {name: examples()[f"{name}_{target}"] for name in names}
    programs |= {"rotated": rotated(), "steps": steps()}
    programs["turned"] = [lp.Variant(turned(), when="n >= 100"), turned()]
    lp.export(programs, f"{sys.argv[1]}/{target}", targets=target, namespace="demo", fortran=True)
"""


def written_under(seed: str, folder: Path) -> dict[str, bytes]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "examples")])
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WRITE, str(folder)],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
        check=True,
    )
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_files_are_equal(tmp_path: Path) -> None:
    with ThreadPoolExecutor(max_workers=2) as pool:
        one, other = pool.map(written_under, "12", (tmp_path / "one", tmp_path / "other"))
    assert one.keys() == other.keys() > {"c/demo.json", "opencl/src/demo_spmv_opencl.c"}
    assert [name for name in one if one[name] != other[name]] == []
    places = (str(tmp_path).encode(), str(ROOT).encode())
    assert [name for name in one if any(place in one[name] for place in places)] == []
