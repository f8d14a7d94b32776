"""Run tests of packages that use loopy, with kgen.compat and with loopy: make downstream.

The newest releases on PyPI are installed into two environments below ``.cache/downstream``: one
in which ``import loopy`` means this kgen, one with loopy. The chosen tests (``packages.py``) run in
both, with caches that begin empty. Prints a table, and exits with 1 if a test fails with kgen that
passes with loopy.

``--only NAME`` runs one package, ``--without-loopy`` kgen alone.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.downstream.packages import NOT_RUN, PACKAGES, REQUIREMENTS, Package

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
WORK = ROOT / ".cache" / "downstream"
SIDES = ("kgen", "loopy")
SECONDS = 280  # of one package's tests


@dataclass(frozen=True)
class Outcome:
    """The results of the tests of a package: those that passed, all tests, and seconds.

    These are processor time, including compilers, which varies less than wall time on a busy
    machine.
    """

    passed: frozenset[str]
    run: frozenset[str]
    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{len(self.passed)} of {len(self.run)}, {times(self.wall, self.cpu)}"


def times(wall: float, cpu: float) -> str:
    return f"{wall:.0f} s ({cpu:.0f} s of CPU)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=[package.name for package in PACKAGES])
    parser.add_argument("--without-loopy", action="store_true")
    given = parser.parse_args()
    sides = SIDES[:1] if given.without_loopy else SIDES
    chosen = [package for package in PACKAGES if given.only in (None, package.name)]
    sources = {name: fetch(name) for name in sorted({p.distribution for p in chosen})}
    for side in sides:
        install(side, chosen, sources)
    print(f"\n| package | version | {' | '.join(sides)} |\n|---|---|{'---|' * len(sides)}")
    total = dict.fromkeys(sides, (0.0, 0.0))
    lost: list[str] = []
    for package in chosen:
        source = sources[package.distribution]
        found = {side: outcome(side, package, source) for side in sides}
        cells = " | ".join(str(found[side]) for side in sides)
        print(f"| {package.name} | {version_of(source)} | {cells} |", flush=True)
        for side in sides:
            wall, cpu = total[side]
            total[side] = (wall + found[side].wall, cpu + found[side].cpu)
        expected = found["loopy"].passed if "loopy" in found else found["kgen"].run
        lost += [f"{package.name}: {name}" for name in sorted(expected - found["kgen"].passed)]
    print(f"| all | | {' | '.join(times(*total[side]) for side in sides)} |")
    for name, reason in () if given.only else NOT_RUN:
        print(f"| {name} | not run: {reason} |{' |' * len(sides)}")
    sys.exit("\n".join(["", "failed with kgen:", *lost]) if lost else 0)


def fetch(distribution: str) -> Path:
    """Return the unpacked newest source distribution of PyPI."""
    folder = WORK / "sources" / distribution
    folder.mkdir(parents=True, exist_ok=True)
    unpacked = [path for path in folder.glob(f"{distribution}-*") if path.is_dir()]
    if unpacked:
        return unpacked[0]
    tool = environment("tool", "uv")
    if distribution == "firedrake":  # pip would build it, for which it wants PETSc
        cache = WORK / "uv-cache"
        command: list[str | Path] = [
            tool.parent / "uv",
            "pip",
            "install",
            "--python",
            tool,
            "--no-deps",
        ]
        command += ["--no-build-isolation", "--no-binary", distribution, "--cache-dir", cache]
        subprocess.run([*command, distribution], check=False, capture_output=True)
        kept = next(cache.glob(f"sdists-*/pypi/{distribution}/*/*/src"), None)
        if kept is None:
            sys.exit(f"uv has not fetched {distribution}")
        return kept.rename(folder / f"{distribution}-{kept.parent.parent.name}")
    options = ("--quiet", "--no-binary", ":all:", "--no-deps", "--dest", str(folder))
    run(tool, "-m", "pip", "download", *options, distribution)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return next(path for path in folder.glob(f"{distribution}-*") if path.is_dir())


def version_of(source: Path) -> str:
    return source.name.rpartition("-")[2]


def environment(name: str, *requirements: str) -> Path:
    """Return the Python of a virtual environment, which is created if necessary."""
    python = WORK / name / "bin" / "python"
    if not python.exists():
        run(Path(sys.executable), "-m", "venv", str(WORK / name))
        run(python, "-m", "pip", "install", "--quiet", *requirements)
    return python


def install(side: str, chosen: Sequence[Package], sources: dict[str, Path]) -> None:
    """Install the tested package, with loopy or with its replacement."""
    python = environment(side, *REQUIREMENTS, *(["loopy"] if side == "loopy" else []))
    site = next((WORK / side / "lib").glob("python*")) / "site-packages"
    if side == "kgen":
        run(python, "-m", "pip", "install", "--quiet", "--editable", str(ROOT))
        (site / "compat.pth").write_text(f"{ROOT / 'compat'}\n")
    for package in chosen:
        if package.beside:
            run(python, "-m", "pip", "install", "--quiet", "--no-deps", *package.beside)
        for module in package.modules:
            shutil.copytree(
                sources[package.distribution] / module, site / module, dirs_exist_ok=True
            )
            change(site / module, package.changes)
        if "pyop2" in package.modules:
            shutil.copy(HERE / "no_petsc" / "sparsity.py", site / "pyop2")


def change(folder: Path, changes: Sequence[tuple[str, str]]) -> None:
    for path in folder.rglob("*.py") if changes else ():
        old = new = path.read_text()
        for text, instead in changes:
            new = new.replace(text, instead)
        if new != old:
            path.write_text(new)


def outcome(side: str, package: Package, source: Path) -> Outcome:
    """Run the chosen tests of *package*."""
    caches = WORK / "caches" / side
    shutil.rmtree(caches, ignore_errors=True)
    caches.mkdir(parents=True)
    where = HERE / "suites" if package.is_ours else source / "test"
    report = WORK / f"{package.name}-{side}.xml"
    report.unlink(missing_ok=True)
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    command += ["--timeout=120", "-W", "ignore", "-c", os.devnull, "--rootdir", str(where)]
    command += ["-k", package.choice] if package.choice else []
    settings = {
        "PYTHONPATH": str(HERE / "no_petsc"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "POCL_CACHE_DIR": str(caches / "pocl"),
        "PYOP2_CACHE_DIR": str(caches / "pyop2"),
        "XDG_CACHE_HOME": str(caches),
    }
    start, used = time.perf_counter(), cpu_of_children()
    with (WORK / f"{package.name}-{side}.log").open("w") as log:
        try:
            subprocess.run(
                [WORK / side / "bin" / "python", *command, *package.tests],
                cwd=where,
                env={**os.environ, **settings},
                stdout=log,
                stderr=log,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"{package.name}: stopped after {SECONDS} s", file=sys.stderr)
    wall, cpu = time.perf_counter() - start, cpu_of_children() - used
    tests = dict(cases(report)) if report.exists() else {}
    passed = frozenset(name for name, is_passed in tests.items() if is_passed)
    return Outcome(passed, frozenset(tests), wall, cpu)


def cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def cases(report: Path) -> Iterator[tuple[str, bool]]:
    """Yield each test that was not skipped, and whether it passed."""
    for case in ET.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        if "skipped" not in kinds:
            yield f"{case.get('classname')}.{case.get('name')}", not kinds & {"failure", "error"}


def run(*command: str | Path) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
