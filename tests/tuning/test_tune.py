"""Tunes of small kernels: problems, references, devices, executors."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.targets.limits import DeviceLimits
from kgen.tuning.compiling import ConfigurationError, compile_configuration
from kgen.tuning.derived import find_obstacle
from kgen.tuning.engines import run_step
from kgen.tuning.expected import difference
from kgen.tuning.measure import measure_kernel, prepare_task
from kgen.tuning.records import Records
from kgen.tuning.space import SearchSpace
from kgen.tuning.task import Problem, Task
from kgen.tuning.tune import untuned_row
from tests.tuning.kernels import by_block, in_groups, twice

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def one_worker() -> Iterator[ThreadPoolExecutor]:
    """Return an executor whose process for kernels is that of all tests."""
    with ThreadPoolExecutor(1) as executor:
        yield executor


def prepared(**settings: Any) -> Task:
    """Return a task, completed in this process."""
    task = Task(**{"build": by_block, "problem": Problem({"n": 100}, {"a": "float32"}), **settings})
    return prepare_task(task.dumps(), {"block": 4})


def measured(task: Task, configuration: Mapping[str, Any]) -> tuple[float, ...]:
    content = task.dumps()
    return measure_kernel(
        content, None, compile_configuration(content, None, configuration), None
    ).samples


def test_sizes_and_types_are_several_problems(one_worker: Executor) -> None:
    result = lp.tune(
        by_block,
        {"block": [4, 16]},
        sizes=[{"n": 100}, {"n": 2000}],
        types={"a": "float64"},
        strategy="exhaustive",
        executor=one_worker,
    )
    assert [str(search.problem) for search in result.searches] == [
        "n=100, a: float64",
        "n=2000, a: float64",
    ]
    assert len(result.records) == 4
    assert result.best.configuration["block"] in (4, 16)
    assert result.best_for(n=2000).time > 0
    knl = result.best_for(n=100).kernel
    _, (out,) = knl(a=np.arange(7.0))
    assert (out == 2 * np.arange(7.0)).all()


def test_opencl_with_an_executor_of_threads(one_worker: Executor, tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    file = tmp_path / "records"
    result = lp.tune(
        in_groups,
        {"block": [16, 1 << 20]},
        restrictions=["block > 8"],
        sizes={"n": 1000},
        types={"a": "float32"},
        metrics=["time", "registers"],
        executor=one_worker,
        records=file,
    )
    assert result.best.configuration == {"block": 16}
    assert list(result.failures) == ["restriction"]
    found = lp.load_wisdom(file).tuned(in_groups, {"block": 32})
    assert found.choose(n=1000).configuration == {"block": 16}


def test_what_runs_without_a_tune_is_tried_first(one_worker: Executor) -> None:
    def by_default(tile: int, block: int = 16) -> Any: ...

    space = SearchSpace({"block": [1, 4, 16], "tile": [1, 2]}, "block != tile")
    assert space[untuned_row(by_default, space)] == space[0]  # tile has no default
    assert untuned_row((twice(), lambda knl, block=16, tile=2: knl), space) == len(space) - 1
    assert untuned_row(lambda block=1, tile=1: None, space) == 0  # which is restricted
    found = lp.auto_space(lp.add_dtypes(twice(), {"a": "float32"}))
    result = lp.tune(
        found,
        restrictions=lambda config: True,
        sizes={"n": 10},
        evaluations=1,
        strategy="random",
        seed=3,
        executor=one_worker,
    )
    assert result.best.configuration == found.start != result.searches[0].space[0]


@pytest.mark.parametrize(
    ("strategy", "options"), [("heuristic", {"compared": 1}), ("orthogonal", {}), ("local", {})]
)
def test_strategies_know_the_kernels(
    one_worker: Executor, strategy: str, options: dict[str, Any]
) -> None:
    result = lp.tune(
        by_block,
        {"block": [4, 8, -1]},
        sizes={"n": 100},
        types={"a": "float32"},
        strategy=strategy,
        strategy_options=options,
        executor=one_worker,
    )
    assert len(result.searches[0].measured) == 2
    assert list(result.failures) == ["transformation"]


def test_builder_gets_sizes_that_it_has_parameters_for() -> None:
    def build(block: int, n: int, a: str) -> lp.TranslationUnit:
        knl = lp.fix_parameters(twice(), n=n)
        return lp.split_iname(lp.add_dtypes(knl, {"a": a}), "i", block)

    assert min(measured(prepared(build=build), {"block": 4})) > 0


def test_reference_may_be_a_function() -> None:
    assert min(measured(prepared(reference=lambda a: 2 * a), {"block": 4})) > 0
    with pytest.raises(ConfigurationError, match="'out' is wrong: relative difference") as info:
        measured(prepared(reference=lambda a: {"out": 3 * a}), {"block": 4})
    assert info.value.cause == "result"


def test_reference_may_be_a_kernel() -> None:
    other = lp.make_kernel(
        "{ [i]: 0<=i<n }",
        "out[i] = a[i] + a[i]",
        [lp.GlobalArg("a, out", shape="n"), ...],
        target=lp.ExecutableCTarget(),
    )
    assert min(measured(prepared(reference=other), {"block": 4})) > 0


def test_builder_may_return_a_kernel_and_a_function() -> None:
    def build(block: int) -> Any:
        return twice(), lambda knl: lp.split_iname(knl, "i", block)

    assert min(measured(prepared(build=build), {"block": 4})) > 0


def test_arguments_are_those_of_the_user() -> None:
    a = np.arange(100, dtype=np.int32)
    task = prepared(
        problem=Problem({"n": 100}),
        arguments=lambda n: {"a": a[:n]},
        reference=lambda a: 2 * np.arange(100),
    )
    assert min(measured(task, {"block": 4})) > 0


def test_size_that_is_missing_is_named() -> None:
    with pytest.raises(lp.KgenError, match=r"sizes=\{'n': 1024\}"):
        prepared(problem=Problem({}, {"a": "float32"}))


def test_another_result_is_found_by_proof() -> None:
    def build(block: int) -> lp.TranslationUnit:
        if block == 4:
            return twice()
        return lp.make_kernel(
            "{ [i]: 0<=i<n }",
            "out[i] = 3*a[i]",
            [lp.GlobalArg("a, out", shape="n"), ...],
            target=lp.ExecutableCTarget(),
            name="twice",
            assumptions="n >= 1",
        )

    with pytest.raises(ConfigurationError) as info:
        compile_configuration(prepared(build=build).dumps(), None, {"block": 8})
    assert info.value.cause == "verification"


LIMITS = DeviceLimits(
    name="small",
    work_items=64,
    sizes=(64, 64, 64),
    local_memory=1024,
    groups=(1000,),
    registers=255,
    registers_of_group=4096,
)


@pytest.mark.parametrize(
    ("block", "n", "reason"),
    [
        (128, 1000, "128 work-items"),
        (4, 10000, "2500 work-groups along axis g.0: at most 1000"),
        (16, 1000, None),
    ],
)
def test_group_limits_are_derived(block: int, n: int, reason: str | None) -> None:
    knl = lp.add_dtypes(in_groups(block), {"a": np.float32})
    found = find_obstacle(knl, {"n": n}, LIMITS)
    assert found is None if reason is None else reason in (found or "")


@pytest.mark.parametrize(
    ("space", "reason"),
    [("local", "4096 bytes of local memory"), ("private", "'t' takes 1024 registers")],
)
def test_memory_limits_are_derived(space: str, reason: str) -> None:
    knl = lp.make_kernel(
        "{ [i, j, k]: 0<=i<n and 0<=j,k<1024 }",
        """
        t[j] = a[j] {id=fill}
        out[i] = sum(k, t[k]) {dep=fill}
        """,
        [
            lp.TemporaryVariable(
                "t", np.float32, shape=1024, address_space=getattr(lp.AddressSpace, space.upper())
            ),
            lp.GlobalArg("a", np.float32, shape=1024),
            ...,
        ],
        target=lp.PyOpenCLTarget(),
    )
    knl = lp.tag_inames(knl, "i:g.0")
    assert reason in (find_obstacle(knl, {"n": 10}, LIMITS) or "")


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("place", [(0, 0), (700, 1), (999, 999)])
def test_difference_finds_one_element_in_any_piece(order: Any, place: tuple[int, int]) -> None:
    expected = np.ones((1000, 1000), order=order)
    result = expected.copy(order="K")
    result[place] = 1.5
    assert difference(expected.copy(), expected) is None
    assert f"0.5, at [{place[0]}, {place[1]}]" in (difference(result, expected) or "")


def test_difference_knows_nan_and_unwritten_elements() -> None:
    nan = np.array([1.0, np.nan])
    assert difference(nan, nan) is None
    assert difference(np.array([1.0, 2.0]), nan) is not None
    assert difference(np.array([np.inf]), np.array([1.0])) is not None
    assert "at [1]" in (difference(np.array([1, 2]), np.array([1, 3])) or "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"build": 3}, "needs a function"),
        ({"sizes": [3]}, "sizes= is a dict"),
        ({"sizes": []}, "empty list"),
        ({"metrics": ["heat"]}, "no metric 'heat'"),
        ({"evaluations": 0}, "evaluations=0"),
        ({"device": object()}, "device= is <object object"),
        ({"strategy": "guess"}, "no strategy 'guess'"),
        ({"strategy": 3}, "strategy= is 3, which is not a strategy"),
        ({"strategy_options": {"group": []}}, "Auto takes no option 'group'"),
        ({"tune_params": {}}, "at least one parameter"),
        ({"records": "/"}, "records cannot be written"),
        ({"executor": "dask"}, "executor= is a concurrent.futures.Executor"),
        ({"executor": threading.Lock()}, "get_executor"),
        ({"workers": 0}, "workers= is a positive number"),
        ({"timeout": 10**30}, "timeout= is a positive number of at most 1000000000"),
        ({"timeout": float("nan")}, "timeout= is a positive number"),
        ({"restrictions": float("nan")}, "restriction nan is neither text nor a function"),
        ({"types": {"a": "float33"}}, "float33"),
        ({"types": {"a": None}}, r"types\['a'\] is None, not a type"),
        ({"arguments": {"a": threading.Lock()}}, "cannot be built in another process"),
        ({"arguments": 5}, "argument 'arguments' is a dict"),
        ({"reference": 5}, "argument 'reference' is a function"),
        ({"target": "c"}, "argument 'target'"),
        ({"tolerance": -1.0}, "tolerance= is a number of at least 0"),
        ({"metrics": "time"}, r"metrics= is a list of names, not 'time'"),
        ({"sizes": {"n": None}}, r"sizes\['n'\] is None, not a number"),
        ({"sizes": {"n": [1, 2]}}, "several problems are a list of dicts"),
        ({"sizes": {"block": 8}}, "'block' is in tune_params, and in sizes="),
        ({"tune_params": {"blok": [4]}}, "cannot be called with the parameters 'blok'"),
        ({"build": twice()}, "a kernel has no parameters to tune"),
        (
            {"tune_params": {"block": [np.zeros(2), np.ones(2)]}},
            "values of parameter 'block' cannot",
        ),
    ],
)
def test_what_makes_no_sense_is_rejected(arguments: dict[str, Any], message: str) -> None:
    given = {"build": by_block, "tune_params": {"block": [4]}, **arguments}
    with pytest.raises(lp.KgenError, match=message):
        lp.tune(given.pop("build"), given.pop("tune_params"), **given)


# -- executors of other packages ----------------------------------------------------------------

DASK = """
    import os, signal
    import dask
    from dask.distributed import Client, LocalCluster
    import kgen as lp
    from tests.tuning.kernels import by_block

    def build(block):
        if block == 8:
            os.kill(os.getppid(), signal.SIGKILL)
        return by_block(block)

    if __name__ == "__main__":
        dask.config.set({"distributed.scheduler.allowed-failures": 0})
        options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
        with LocalCluster(**options) as cluster, Client(cluster) as client:
            result = lp.tune(
                build, {"block": [4, 8, 16]}, sizes={"n": 100}, types={"a": "float32"},
                executor=client.get_executor(), strategy="exhaustive")
        print([(r.configuration["block"], r.cause) for r in result.records if r.time is None])
"""
MPI = """
    from mpi4py.futures import MPIPoolExecutor
    import kgen as lp
    from tests.tuning.kernels import by_block

    if __name__ == "__main__":
        with MPIPoolExecutor() as executor:
            result = lp.tune(
                by_block, {"block": [4, 8]}, sizes={"n": 100}, types={"a": "float32"},
                executor=executor)
            print(executor.num_workers, len(result.searches[0].measured))
"""


def output_of(program: str, folder: Path, *command: str) -> str:
    file = folder / "program.py"
    file.write_text(textwrap.dedent(program))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [*command, str(file)],
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
    ).stdout


def test_death_of_a_worker_of_dask_costs_one_configuration(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    assert output_of(DASK, tmp_path, sys.executable) == "[(8, 'crash')]\n"


def test_mpi(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    mpiexec = Path(sys.executable).parent / "mpiexec"
    if not mpiexec.exists():
        pytest.skip("no mpiexec beside Python")
    command = (str(mpiexec), "-n", "3", sys.executable, "-m", "mpi4py.futures")
    assert output_of(MPI, tmp_path, *command) == "2 2\n"


class OtherDevices(Executor):
    """Measures every second configuration on a device of another name."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.count = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        step = args[2]
        self.count += step == "measure"
        is_renamed = self.count % 2 and step == "measure"
        return self.executor.submit(self.renamed if is_renamed else fn, *args)

    @staticmethod
    def renamed(*args: Any) -> Any:
        measurement, info = run_step(*args)
        return measurement, replace(info, name="another")


def test_devices_may_differ(one_worker: Executor, tmp_path: Path) -> None:
    file = tmp_path / "records"
    result = lp.tune(
        by_block,
        {"block": [4, 8]},
        sizes={"n": 100},
        types={"a": "float32"},
        executor=OtherDevices(one_worker),
        workers=1,
        records=file,
    )
    assert len(result.searches[0].measured) == 2
    assert len(result.elsewhere) == 2
    assert {record.device["name"] for record in result.elsewhere} == {"another"}
    assert len({record.device["name"] for record in Records(file).all()}) == 2


def test_executor_that_is_shut_down_is_named() -> None:
    with ThreadPoolExecutor(1) as executor:
        pass
    with pytest.raises(lp.KgenError, match="cannot schedule new futures after shutdown"):
        lp.tune(by_block, {"block": [4]}, sizes={"n": 8}, executor=executor)


def test_array_that_is_no_argument_is_an_error() -> None:
    arrays = {"a": np.ones(8, np.float32), "q": np.ones(8, np.float32)}
    with pytest.raises(lp.KgenError, match="array 'q', which is no argument"):
        lp.tune(by_block, {"block": [4]}, sizes={"n": 8}, arguments=arrays, progress=False)


def of_floats(block: int) -> lp.TranslationUnit:
    return lp.add_dtypes(by_block(block), {"a": np.float32})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"problem": Problem({"n": -1}, {"a": "float32"})}, r"'a' has the negative shape \(-1,\)"),
        ({"problem": Problem({"n": 9, "q": 1}, {"a": "float32"})}, "has 'q', which is no argument"),
        (
            {"problem": Problem({"n": 9}, {"a": "float32", "b": "int32"})},
            "has 'b', which is no arg",
        ),
        (
            {"build": of_floats, "problem": Problem({"n": 9}, {"a": "float64"})},
            "float64 for 'a', which is declared as float32",
        ),
        ({"arguments": lambda: None}, "arguments= returned None, not a dict"),
        ({"arguments": lambda: int("x")}, "arguments= raises ValueError"),
        ({"reference": lambda a: None}, "the reference returned None"),
        ({"reference": lambda a: a[:5]}, r"returned 'out' of shape \(5,\), not \(100,\)"),
    ],
)
def test_what_does_not_suit_the_kernel_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(lp.KgenError, match=message):
        prepared(**settings)


def test_hint_for_a_negative_size_names_the_sizes() -> None:
    with pytest.raises(lp.KgenError, match="check sizes="):
        lp.tune(by_block, {"block": [4]}, sizes={"n": -1}, types={"a": "f4"}, progress=False)
