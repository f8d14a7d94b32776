"""Programs that say ``import loopy``: in this process, by a runner, by a second distribution."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(
    folder: Path, program: str, *options: str, arguments: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a program of its own, from the repository's sources, in a folder that is not its own."""
    path = folder / "program" / "main.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(textwrap.dedent(program))
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *options, str(path), *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def output_of(folder: Path, program: str, *options: str, arguments: tuple[str, ...] = ()) -> str:
    done = run(folder, program, *options, arguments=arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_modules_are_the_same_under_both_names(tmp_path: Path) -> None:
    program = """
        import importlib, pkgutil, sys
        import kgen.compat
        from kgen.compat.loopy import kernel as before
        kgen.compat.install()
        kgen.compat.install()
        import loopy, loopy.kernel.data
        from loopy.symbolic import parse
        assert loopy is kgen.compat.loopy and loopy.kernel is before
        assert sum(type(f).__module__ == "kgen.compat" for f in sys.meta_path) == 1
        names = [m.name for m in pkgutil.walk_packages(loopy.__path__, "loopy.")]
        for name in names:
            own = importlib.import_module("kgen.compat." + name)
            assert importlib.import_module(name) is own, name
            assert own.__name__ == own.__spec__.name == "kgen.compat." + name
        print(len(names) > 50, parse("i + 1"))
    """
    assert output_of(tmp_path, program) == "True i + 1\n"


def test_install_is_refused_where_loopy_is_loaded(tmp_path: Path) -> None:
    program = """
        import sys, types
        sys.modules["loopy"] = loopy = types.ModuleType("loopy")
        loopy.__file__ = "/there/loopy/__init__.py"
        import kgen.compat
        finders = list(sys.meta_path)
        try:
            kgen.compat.install()
        except kgen.KgenError as error:
            print(error)
        assert sys.modules["loopy"] is loopy and sys.meta_path == finders
    """
    text = output_of(tmp_path, program)
    assert "loopy itself is already imported, from /there/loopy/__init__.py" in text
    assert "hint: call kgen.compat.install() before" in text


def test_a_module_that_is_not_there_says_so(tmp_path: Path) -> None:
    program = """
        import kgen.compat
        kgen.compat.install()
        try:
            import loopy.library.cuda
        except ModuleNotFoundError as error:
            print(error.name, error)
    """
    expected = "loopy.library.cuda kgen, which 'import loopy' imports here, has no module"
    assert output_of(tmp_path, program).startswith(expected)


@pytest.mark.parametrize("name", ["LOOPY_NO_CACHE", "CG_NO_CACHE"])
def test_the_environment_turns_the_disk_cache_off(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "import kgen.compat.loopy as lp; print(lp.CACHING_ENABLED)"
    for value, printed in (("1", "False\n"), ("off", "True\n")):
        monkeypatch.setenv(name, value)
        assert output_of(tmp_path, program) == printed


PROGRAM = """
    import pickle, sys
    import helper
    import numpy as np
    import loopy as lp
    from loopy.kernel.data import GlobalArg
    from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2

    class Mine(lp.TranslationUnit):
        pass

    knl = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]", target=lp.ExecutableCTarget())
    assert pickle.loads(pickle.dumps(knl)) == knl
    assert pickle.loads(pickle.dumps(Mine)) is Mine
    if __name__ == "__main__":
        _, (out,) = knl(a=np.arange(3.0))
        print(knl.default_entrypoint.name, out, sys.argv[1:], helper.WHERE, flush=True)
        if sys.argv[1:]:
            lp.split_iname(knl, sys.argv[1], 4)
"""


def test_the_runner_runs_a_program(tmp_path: Path) -> None:
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "helper.py").write_text("WHERE = 'beside it'\n")
    text = output_of(tmp_path, PROGRAM, "-m", "kgen.compat", arguments=("i", "--more"))
    assert text == "loopy_kernel [0. 2. 4.] ['i', '--more'] beside it\n"


def test_errors_of_a_program_are_shown_as_python_shows_them(tmp_path: Path) -> None:
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "helper.py").write_text("WHERE = 'beside it'\n")
    done = run(tmp_path, PROGRAM, "-m", "kgen.compat", arguments=("j",))
    head, first, *_, last, hint = done.stderr.splitlines()
    assert done.returncode == 1
    assert head == "Traceback (most recent call last):"
    assert "main.py" in first
    assert "runpy" not in done.stderr
    assert "kgen/compat/__main__" not in done.stderr
    assert last.endswith("in kernel 'loopy_kernel': there is no iname 'j'")
    assert hint == "  hint: known names: 'i'"


def test_the_exit_status_is_the_programs(tmp_path: Path) -> None:
    done = run(tmp_path, "import sys; sys.exit(7)", "-m", "kgen.compat")
    assert (done.returncode, done.stderr) == (7, "")


def test_the_runner_runs_a_module(tmp_path: Path) -> None:
    (tmp_path / "tool.py").write_text("import sys, loopy; print(loopy.__name__, sys.argv[1:])")
    command = [sys.executable, "-m", "kgen.compat", "-m", "tool", "-x"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    text = subprocess.check_output(command, cwd=tmp_path, env=env, text=True)
    assert text == "kgen.compat.loopy ['-x']\n"


def test_the_runner_without_a_program_says_how_it_is_used(tmp_path: Path) -> None:
    done = run(tmp_path, "", "-m", "kgen.compat", "--help")
    assert done.returncode == 1
    assert done.stderr.startswith("usage: python -m kgen.compat PROGRAM [ARGS]")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Build the wheels of both distributions, from copies of what they are built from."""
    pytest.importorskip("setuptools", minversion="77")
    folder = tmp_path_factory.mktemp("wheels")
    build = "from setuptools.build_meta import build_wheel; print(build_wheel('.'))"
    found = {}
    for name, project in (("kgen", ROOT), ("loopy", ROOT / "compat")):
        source = folder / name
        shutil.copytree(project / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        for file in ("pyproject.toml", "README.md", "LICENSE"):
            if (project / file).exists():
                shutil.copy(project / file, source)
        text = subprocess.check_output([sys.executable, "-c", build], cwd=source, text=True)
        found[name] = source / text.splitlines()[-1]
    return found


def test_each_wheel_holds_its_package_alone(wheels: dict[str, Path]) -> None:
    for name, wheel in wheels.items():
        with zipfile.ZipFile(wheel) as archive:
            files = archive.namelist()
        packages = {file.partition("/")[0] for file in files if ".dist-info/" not in file}
        assert packages == {name}
        if name == "loopy":
            assert [file for file in files if ".dist-info/" not in file] == ["loopy/__init__.py"]


def test_the_second_distribution_makes_loopy_mean_kgen(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    program = f"""
        import sys
        sys.path.insert(0, {str(wheels["loopy"])!r})
        from loopy.symbolic import parse
        import loopy as lp, kgen.compat
        kgen.compat.install()
        from importlib.metadata import version
        print(lp is kgen.compat.loopy is sys.modules["loopy"], version("loopy"))
    """
    assert output_of(tmp_path, program) == "True 2026.1+kgen\n"
