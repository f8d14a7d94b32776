"""Tunes with kernels and processes that fail: each costs one configuration."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
import unittest.mock
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.tuning.records import Records
from kgen.tuning.result import TuneResult
from tests.tuning.kernels import by_block, with_fault

ROOT = Path(__file__).parents[2]
PROBLEM: dict[str, Any] = {"sizes": {"n": 1000}, "types": {"a": "float32"}}
CRASHING = "#!/bin/sh\ncase $* in *--version*) echo crashing;; *) kill -SEGV $$;; esac\n"


FAULTS = {
    "writes outside": "bounds",
    "never ends": "timeout",
    "kills": "crash",
    "is wrong": "result",
    "is refused": "transformation",
    "crashes": "crash",
    "compiler crashes": "compilation",
}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> TuneResult:
    compiler = tmp_path_factory.mktemp("compiler") / "cc"
    compiler.write_text(CRASHING)
    compiler.chmod(stat.S_IRWXU)
    with pytest.warns(lp.KgenWarning, match="the tune continues"):
        return tune_faults(str(compiler))


def tune_faults(compiler: str) -> TuneResult:
    return lp.tune(
        with_fault,
        {"fault": ["none", *FAULTS], "compiler": [compiler]},
        strategy="exhaustive",
        **PROBLEM,
        timeout=3.0,
        records="/dev/full",
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_costs_one_configuration(faulty: TuneResult, fault: str) -> None:
    (record,) = (r for r in faulty.records if r.configuration["fault"] == fault)
    assert (record.status, record.cause, record.time) == ("failed", FAULTS[fault], None)
    assert record.message


def test_the_rest_is_measured_on_a_full_disk(faulty: TuneResult) -> None:
    assert faulty.best.configuration["fault"] == "none"
    assert sum(map(len, faulty.failures.values())) == len(FAULTS)
    assert "compilation" in faulty.table()


BLOCKS = {"block": [2, 4, 8, 16]}


def test_line_that_was_cut_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "records"
    file.write_text('{"event": "start", "atte')
    records = Records(file)
    records.start("one", {"block": 4})
    assert [json.loads(line)["attempt"] for line in file.read_text().splitlines()[1:]] == ["one"]


PROGRAM = """
    import sys
    import kgen as lp
    from tests.tuning.kernels import by_block

    lp.tune(
        by_block, {"block": [2, 4, 8, 16]}, strategy="exhaustive", sizes={"n": 1000},
        types={"a": "float32"}, records=sys.argv[1])
"""


def test_a_killed_tune_goes_on(tmp_path: Path) -> None:
    program, file = tmp_path / "program.py", tmp_path / "records"
    program.write_text(textwrap.dedent(PROGRAM))
    command = [sys.executable, str(program), str(file)]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}) as first:
        wait_for(lambda: len(results_in(file)) >= 1)
        first.kill()
    again = lp.tune(by_block, BLOCKS, strategy="exhaustive", records=file, **PROBLEM)
    assert len(again.searches[0].measured) in (3, 4)  # one may have run when the program died
    found = [line["configuration"]["block"] for line in results_in(file) if not line["is_best"]]
    assert sorted(found) == [2, 4, 8, 16]  # none was measured twice


def test_two_programs_share_a_file_and_measure_nothing_twice(tmp_path: Path) -> None:
    program, file = tmp_path / "program.py", tmp_path / "records"
    program.write_text(textwrap.dedent(PROGRAM))
    command = [sys.executable, str(program), str(file)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    both = [subprocess.Popen(command, env=environment) for _ in range(2)]
    assert [one.wait(timeout=120) for one in both] == [0, 0]
    found = [line["configuration"]["block"] for line in results_in(file) if not line["is_best"]]
    assert sorted(found) == [2, 4, 8, 16]


@pytest.mark.parametrize("text", ["import kgen\n", '{\n"cache": {}}', '{"cache": {}}', "1"])
def test_file_with_other_contents_is_kept(tmp_path: Path, text: str) -> None:
    file = tmp_path / "file"
    file.write_text(text)
    with pytest.raises(lp.KgenError, match="has other contents than records"):
        Records(file)
    with pytest.raises(lp.KgenError, match="has other contents than records"):
        lp.load_wisdom(file)
    assert file.read_text() == text


@pytest.mark.parametrize("name", ["a" * 300, "a\0", ""])
def test_file_that_cannot_be_made_ends_a_tune_at_its_start(tmp_path: Path, name: str) -> None:
    with pytest.raises(lp.KgenError, match="records cannot be written to"):
        Records(tmp_path / name)


def test_wisdom_is_opened_for_reading_only(tmp_path: Path) -> None:
    with pytest.raises(lp.KgenError, match="records cannot be read from"):
        lp.load_wisdom(tmp_path)
    (tmp_path / "records").touch()
    with unittest.mock.patch("builtins.open", side_effect=open) as opened:
        assert lp.load_wisdom(tmp_path / "records").records == ()
    assert {call.args[1] for call in opened.call_args_list} == {"rb"}


def test_what_another_process_runs_is_known(tmp_path: Path) -> None:
    records = Records(tmp_path / "records")
    records.start("one", {})
    line = json.loads((tmp_path / "records").read_text())
    (tmp_path / "records").write_text(json.dumps({**line, "pid": os.getppid()}) + "\n")
    assert Records(tmp_path / "records").is_running("one")
    records.refresh()
    assert not records.is_running("two")


@pytest.mark.parametrize(("age", "is_dead"), [(10, False), (10**4, True)])
def test_what_another_host_runs_has_not_crashed(tmp_path: Path, age: int, is_dead: bool) -> None:
    file = tmp_path / "records"
    Records(file).start("one", {})
    line = json.loads(file.read_text())
    file.write_text(json.dumps({**line, "host": "another", "at": line["at"] - age}) + "\n")
    assert Records(file).has_crashed("one") == is_dead
    assert not Records(file).is_running("one")


INTERRUPTED = """
    import sys
    import kgen as lp
    from tests.tuning.kernels import with_fault

    result = lp.tune(
        with_fault, {"fault": ["none", "never ends"]}, strategy="exhaustive",
        sizes={"n": 1000}, types={"a": "float32"}, timeout=100, records=sys.argv[1])
    print(result.is_interrupted, result.stopped, result.best.configuration["fault"])
"""


def test_ctrl_c_ends_a_tune_that_returns_what_it_has(tmp_path: Path) -> None:
    program, file = tmp_path / "program.py", tmp_path / "records"
    program.write_text(textwrap.dedent(INTERRUPTED))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(program), str(file)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as tune:
        wait_for(lambda: len(results_in(file)) >= 1)
        tune.send_signal(signal.SIGINT)
        printed, _ = tune.communicate(timeout=60)
    assert printed == "True interrupted none\n"


def results_in(file: Path) -> list[dict[str, Any]]:
    lines = file.read_text().splitlines() if file.exists() else []
    return [line for line in map(json.loads, lines) if line["event"] == "result"]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_ran_when_a_program_died_is_not_tried_again(tmp_path: Path) -> None:
    file = tmp_path / "records"
    records = Records(file)
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    records.start("one", {})
    line = json.loads(file.read_text())
    file.write_text(json.dumps({**line, "pid": gone.pid}) + "\n")
    assert Records(file).has_crashed("one")
    records.start("one", {})
    assert not Records(file).has_crashed("one")  # this process is alive
    records.abandon("one")
    assert not Records(file).has_crashed("one")


def test_two_tunes_share_a_file(tmp_path: Path) -> None:
    file = tmp_path / "records"

    def one(seed: int) -> TuneResult:
        return lp.tune(by_block, BLOCKS, strategy="random", seed=seed, records=file, **PROBLEM)

    with ThreadPoolExecutor(2) as threads:
        results = list(threads.map(one, range(2)))
    assert [len(result.searches[0].measured) for result in results] == [4, 4]
    assert {record.key for record in Records(file).all()} == {
        record.key for result in results for record in result.records
    }


def test_what_is_written_beside_an_array_of_opencl_is_found() -> None:
    pytest.importorskip("pyopencl")
    runtime = lp.PyOpenCLTarget().load_runtime()
    (queue,) = runtime.open_device()
    made = runtime.to_guarded(np.arange(100, dtype=np.float32), queue)
    assert (runtime.to_host(made.array, queue) == np.arange(100)).all()
    assert made.is_intact()
    knl = lp.make_kernel(
        "{ [i]: 0<=i<n }",
        [lp.CInstruction("i", "out[i + 97] = 1;", assignees="out[i]", id="beside")],
        [lp.GlobalArg("out", np.float32, shape="n"), ...],
        assumptions="n >= 1",
    )
    knl(queue, n=3, out=made.array[:3])
    assert made.is_intact()
    knl(queue, n=4, out=made.array[:4])
    assert not made.is_intact()
