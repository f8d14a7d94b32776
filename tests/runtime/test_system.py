"""What differs between systems, as far as it can be tried on this one."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import kgen as lp
from kgen.ir.optional import load
from kgen.runtime import system

ROOT = Path(__file__).parents[2]


def test_a_process_of_a_new_group_is_ended() -> None:
    for posix in (True, False):
        words = [sys.executable, "-c", "input()"]
        group = system.new_group(posix=posix) if posix else {}  # flags that POSIX rejects
        process = subprocess.Popen(words, stdin=subprocess.PIPE, text=True, **group)
        with process:
            system.kill_group(process, posix=posix)
        assert process.returncode == -9


def test_who_can_change_a_file(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert system.can_be_changed_by_others(tmp_path.stat()) == "others may write to it"
    tmp_path.chmod(0o700)
    assert system.can_be_changed_by_others(tmp_path.stat()) is None


def test_processors_where_the_system_has_no_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert system.n_processors() == os.cpu_count()


def test_kernels_run_without_the_modules_of_posix(tmp_path: Path) -> None:
    program = """
        import os, sys
        for module in ("fcntl", "pwd", "grp", "resource", "termios"):
            sys.modules[module] = None
        del os.sched_getaffinity
        import kgen as lp
        import kgen.cli.main
        knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = i", target=lp.ExecutableCTarget())
        print(knl(n=3)[1][0], lp.tune.__name__, lp.load_wisdom.__name__)
    """
    words = [sys.executable, "-c", textwrap.dedent(program)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    text = subprocess.check_output(words, cwd=tmp_path, env=environment, text=True)
    assert text == "[0 1 2] tune load_wisdom\n"


def test_locks_of_one_file_exclude_each_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("w") as first, path.open() as second:
        system.lock(first.fileno(), shared=True)
        system.lock(second.fileno(), shared=True)
    with path.open("w") as first:
        system.lock(first.fileno())
        words = ["flock", "--nonblock", str(path), "true"]
        assert subprocess.run(words, check=False).returncode == 1


def test_hints_name_the_distribution() -> None:
    assert 'name = "kgen-loops"' in (ROOT / "pyproject.toml").read_text()
    with pytest.raises(lp.KgenError, match=r"pip install 'kgen-loops\[tune\]'"):
        load("no_such_module", "tune")
