"""The campaign of random programs: processes that die, records that go on, verdicts that count."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import kgen as lp
from tests.random.choices import Draw
from tests.random.program import ArrayDecl, Program, Step
from tests.random.steps import Transformer, _Attempts
from tests.reference import Reference
from tools.fuzz.record import Record
from tools.fuzz.trial import Outcome, Task, try_program
from tools.fuzz.workers import Pool

_RIGHT = Outcome("programs:1:0", "programs", "c", "", "proved", "right")


def _attempt(task: Task) -> Iterator[Outcome | str]:
    """Die for the first program, hang for the second one."""
    outcome = replace(_RIGHT, task=str(task))
    yield replace(outcome, run="died")
    if task.number == 0:
        os._exit(7)
    if task.number == 1:
        time.sleep(60)
    yield outcome


def test_a_process_that_dies_or_hangs_costs_its_program_only() -> None:
    pool = Pool(1, _attempt, limit=2.0)
    tasks = [Task("programs", 1, number) for number in range(4)]
    try:
        found = list(pool.run(tasks, time.monotonic() + 60))
    finally:
        pool.stop()
    outcomes = [message for _, message in found if isinstance(message, Outcome)]
    assert [outcome.run for outcome in outcomes] == ["crashed", "crashed", "right", "right"]
    assert [outcome.detail for outcome in outcomes[:2]] == [
        "the process ended with 7",
        "no end in sight",
    ]
    assert [task for task, message in found if message is None] == tasks


@pytest.mark.parametrize(
    ("verify", "run", "mutation", "is_failure"),
    [
        ("proved", "right", "", False),
        ("proved", "wrong", "", True),
        ("violated", "right", "", True),
        ("proved", "crashed", "", True),
        ("violated", "refused", "", False),
        ("proved", "wrong", "dependency", True),
        ("violated", "wrong", "dependency", False),
        ("violated", "right", "dependency", False),
    ],
)
def test_a_failure_is_what_verdict_and_run_disagree_on(
    verify: str, run: str, mutation: str, is_failure: bool
) -> None:
    outcome = replace(_RIGHT, verify=verify, run=run, mutation=mutation)
    assert outcome.is_failure == is_failure


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    record, path = Record(), tmp_path / "record.json"
    record.add(_RIGHT)
    record.add(replace(_RIGHT, run="wrong", text="knl"))
    for number in (0, 1, 2, 5):
        record.finish(Task("programs", 1, number))
    record.save(path)
    loaded = Record.load(path)
    assert loaded == record
    assert loaded.is_done(Task("programs", 1, 5))
    assert not loaded.is_done(Task("programs", 1, 3))
    loaded.merge(record)
    assert "| proved | 2 | 2 |" in loaded.tables()


def test_programs_are_tried_and_their_mutants() -> None:
    tried = [o for n in range(4) for o in try_program(Task("programs", 3, n), ("c", "tree"))]
    outcomes = [outcome for outcome in tried if outcome.run != "died"]
    assert {outcome.run for outcome in outcomes if not outcome.mutation} == {"right"}
    assert any(o.mutation and "violated" in (o.verify, o.run) for o in outcomes)


def test_kernels_of_other_names_have_the_same_loops() -> None:
    """Steps name loops; the names of those that save values include the kernel's."""
    lines = ("<> t = i {id=set}", "... gbarrier {id=wait, dep=set}", "a[i] = t {dep=wait}")
    steps = (Step("tag_inames", ("i:g.0",)), Step("save_and_reload_temporaries"))
    array = ArrayDecl("a", "int32", ("4",))
    program = Program(("{ [i]: 0 <= i < 4 }",), lines, (array,), steps=steps, target="CudaTarget")
    kernel = program.transformed("k1").default_entrypoint
    assert kernel.name == "k1"
    assert "t_save_hw_dim_0_k" in kernel.inames


def test_programs_name_loops_that_all_targets_have() -> None:
    arrays = (ArrayDecl("a", "int32", ("n", "8")), ArrayDecl("b", "int32", ("8", "n")))
    line = "b[i, k] = a[k, i]"
    program = Program(("{ [k, i]: 0 <= k < n and 0 <= i < 8 }",), (line,), arrays)
    attempts = _Attempts(Draw("any"), replace(program, target="CudaTarget"))
    attempts.make(Step("tag_inames", ("i:l.0",)))
    attempts.make(Step("add_prefetch", ("a", ("i",)), (("default_tag", "l.auto"),)))
    attempts.make(Step("pipeline", ("k",)))
    assert "k_load_prologue" in attempts.kernel.inames
    attempts.make(Step("rename_iname", ("k_load_prologue", "first")))
    assert len(attempts.accepted) == 3
    attempts.make(Step("rename_iname", ("k_prologue", "first")))
    assert len(attempts.accepted) == 4


def test_rules_that_nothing_uses_may_be_precomputed() -> None:
    text = "value := 2.0\na[i] = 1.0"
    kernel = lp.make_kernel("{ [i]: 0 <= i < 2 }", text).default_entrypoint
    steps = [Transformer(Draw(f"{n}"), kernel, frozenset()).precompute() for n in range(20)]
    assert {step.function for step in steps if step is not None} == {"precompute"}


def test_reads_out_of_bounds_count_where_something_uses_their_values() -> None:
    for value, is_there in (("1", True), ("x", False)):
        text = f"<> x = a[7] {{id=x}}\nout[i] = {value} {{dep=x}}"
        knl = lp.make_kernel("{ [i]: 0 <= i < 2 }", text).default_entrypoint
        reference = Reference(knl, {}, {"a": {}, "out": {(0,): 0, (1,): 0}})
        if is_there:
            assert reference.run()["out"] == {(0,): 1, (1,): 1}
        else:
            with pytest.raises(AssertionError, match="not there"):
                reference.run()


def test_a_campaign_goes_on_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "fuzz.json"
    command = [sys.executable, "-m", "tools.fuzz", "--kinds", "programs", "--targets", "c"]
    command += ["--jobs", "1", "--mutants", "0", "--out", str(path)]
    for count in (1, 2):
        run = subprocess.run(
            [*command, "--count", str(count)], capture_output=True, text=True, check=True
        )
        assert f"| programs | c | {count} | 0 | 0 | 0 | 0 |" in run.stdout
    assert Record.load(path).done == {("programs", 1): {0, 1}}
