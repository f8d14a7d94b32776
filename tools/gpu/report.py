"""Print docs/gpu.md: what the tests did on the devices of this machine.

Usage: report.py opencl.xml cuda.xml (pytest's JUnit files)
"""

from __future__ import annotations

import datetime
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from pathlib import Path

HEAD = """\
# The tests on a GPU

Made by `tools/gpu/test.sh` on {date}{commit}, on: {devices}.
`tools/gpu/wheels.sh`, run on a host with a network, collects what a GPU host without one needs;
`tools/gpu/setup.sh` installs it there.

| backend | tests | passed | failed | skipped | seconds |
|---|---|---:|---:|---:|---:|"""


def ask(*command: str) -> str:
    """Return a command's output on one line; '' where it cannot be run."""
    try:
        run = subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return "; ".join(run.stdout.split("\n")).strip("; ")


def outcome_of(case: ET.Element) -> str:
    """Return 'passed', 'failed' or 'skipped'."""
    kinds = {child.tag for child in case}
    if kinds & {"failure", "error"}:
        return "failed"
    return "skipped" if "skipped" in kinds else "passed"


def rows_of(path: Path) -> list[str]:
    """Return the table's rows for one backend: a row for each test module, and their sum."""
    outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    seconds: defaultdict[str, float] = defaultdict(float)
    for case in ET.parse(path).iter("testcase"):
        for name in (case.get("classname", ""), "all"):
            outcomes[name][outcome_of(case)] += 1
            seconds[name] += float(case.get("time", 0))
    modules = [*sorted(outcomes.keys() - {"all"}), *(["all"] if outcomes else [])]
    return [
        f"| {path.stem} | {name} | {counts['passed']} | {counts['failed']} | {counts['skipped']}"
        f" | {seconds[name]:.1f} |"
        for name in modules
        for counts in (outcomes[name],)
    ]


def main() -> None:
    devices = ask("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    commit = ask("git", "rev-parse", "--short", "HEAD")
    today = datetime.datetime.now(datetime.UTC).date()
    at_commit = f", commit {commit}" if commit else ""
    print(HEAD.format(date=today, commit=at_commit, devices=devices or "an unknown device"))
    for name in sys.argv[1:]:
        print("\n".join(rows_of(Path(name))))


if __name__ == "__main__":
    main()
