"""What differs between systems, as far as it can be tried on this one."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import kgen as lp
from kgen.ir.optional import load
from kgen.runtime import c, installation, system, toolchain

ROOT = Path(__file__).parents[2]


def groups() -> lp.TranslationUnit:
    """Return a kernel whose work-groups run on threads."""
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]", target=lp.ExecutableCTarget())
    return lp.split_iname(knl, "i", 16, outer_tag="g.0")


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


def test_kernels_run_without_the_modules_and_the_encoding_of_posix(tmp_path: Path) -> None:
    program = r"""
        import os, sys
        for module in ("fcntl", "pwd", "grp", "resource", "termios"):
            sys.modules[module] = None
        del os.sched_getaffinity
        import kgen as lp
        import kgen.cli.main
        snippet = lp.CInstruction("i", "out[i] = i; // gr\u00f6\u00dfer", assignees=("out[i]",))
        data = [lp.GlobalArg("out", "int32", shape="n", is_input=False), ...]
        knl = lp.make_kernel(
            "{ [i]: 0 <= i < n }", [snippet], data, target=lp.ExecutableCTarget())
        print(knl(n=3)[1][0], lp.tune.__name__, lp.load_wisdom.__name__)
    """
    words = [sys.executable, "-c", textwrap.dedent(program)]
    ascii_files = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    folders = {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path)}
    environment = {**os.environ, **ascii_files, **folders}
    text = subprocess.check_output(words, cwd=tmp_path, env=environment, text=True)
    assert text == "[0 1 2] tune load_wisdom\n"


#: A compiler like Apple's, around that of this system.
CLANG_OF_APPLE = """#!/bin/sh
case " $* " in
  *" -Xpreprocessor -fopenmp "*) ;;
  *" -fopenmp "*) echo "unsupported option '-fopenmp'" >&2; exit 1;;
esac
exec cc $(echo " $* " | sed 's/ -Xpreprocessor / /; s/ -lomp / /')
"""


def test_threads_with_the_compiler_of_macos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "clang"
    compiler.write_text(CLANG_OF_APPLE)
    compiler.chmod(0o755)
    choices = system.openmp_choices("darwin", [("/nowhere", "/"), (str(tmp_path), str(tmp_path))])
    monkeypatch.setattr(toolchain, "openmp_choices", lambda: choices)
    monkeypatch.setenv("CC", str(compiler))
    flags = toolchain.openmp_flags((str(compiler),))
    assert flags == choices[1]
    assert flags[-2:] == (f"-Wl,-rpath,{tmp_path}", "-lomp")
    a = np.arange(100.0)
    _, (out,) = groups()(a=a)  # warnings are errors: one says that there are no threads
    np.testing.assert_array_equal(out, 2 * a)


def test_the_processor_of_a_mac(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sysctl").write_text(
        '#!/bin/sh\n[ "$2" = machdep.cpu.brand_string ] && echo Apple M4\n'
    )
    (tmp_path / "sysctl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert system.processor.__wrapped__("darwin") == "model name: Apple M4"
    (tmp_path / "sysctl").unlink()
    assert platform.machine() in system.processor.__wrapped__("darwin")


def test_kernels_have_the_names_of_libraries_of_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    compiler = tmp_path / "gcc"
    compiler.write_text(f'#!/bin/sh\necho "$*" >> {log}\nexec cc "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setattr(c, "library_suffix", lambda: system.library_suffix("win32"))
    monkeypatch.setattr(c, "loadable", partial(system.loadable, posix=False))
    monkeypatch.setattr(toolchain, "words_of", partial(system.words_of, posix=False))
    monkeypatch.setenv("CC", f'"{compiler}" -DNAME="kgen"')
    a = np.arange(100.0)
    _, (out,) = groups()(a=a)
    np.testing.assert_array_equal(out, 2 * a)
    assert "/kernel.dll " in log.read_text()


@pytest.mark.parametrize(
    ("system_name", "command"),
    [("win32", "pacman -S mingw-w64-ucrt-x86_64-gcc"), ("darwin", "xcode-select --install")],
)
def test_commands_that_install_a_compiler(
    system_name: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "brew").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert installation.command_for("c", system_name) == command


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
