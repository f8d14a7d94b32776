"""Generated code is shared by the content of program and types, in the process and on disk."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import kgen as lp
from kgen.errors import InvocationError, KgenWarning, warn
from kgen.lowering import generate_module
from kgen.runtime import generated, wrapper
from kgen.runtime.c import CExecutor
from kgen.runtime.cache import DiskCache, ProcessCaches
from kgen.runtime.pyast import to_code

count: list[Any] = []


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    count.clear()

    def noted(*args: Any, **options: Any) -> Any:
        count.append(args)
        return generate_module(*args, **options)

    monkeypatch.setattr("kgen.runtime.generated.generate_module", noted)


def caches_in(folder: Path) -> ProcessCaches:
    """Return caches like those of a new process."""
    caches = ProcessCaches()
    caches.disk = DiskCache(folder)
    return caches


def scaled(factor: str = "2", **options: Any) -> lp.TranslationUnit:
    unit = lp.make_kernel(
        "{ [i]: 0<=i<n }", f"out[i] = {factor}*a[i]", target=lp.ExecutableCTarget()
    )
    return lp.set_options(unit, **options) if options else unit


def run(unit: lp.TranslationUnit, caches: ProcessCaches, dtype: str = "float64") -> list[float]:
    executor = CExecutor(unit, "kgen_kernel", caches=caches)
    _, (out,) = executor(a=np.arange(3, dtype=dtype))
    result: list[float] = out.tolist()
    return result


def test_code_is_generated_once_for_a_content(tmp_path: Path) -> None:
    caches = caches_in(tmp_path)
    for unit in (scaled(), scaled(), scaled("3"), scaled("3"), scaled("2.0"), scaled("2.0")):
        run(unit, caches)
    assert len(count) == 3
    run(scaled(), caches, "float32")
    run(scaled(guard_accesses=True), caches)
    assert len(count) == 5
    for _ in range(2):  # what another process finds
        again = caches_in(tmp_path)
        assert run(scaled("3"), again) == [0, 3, 6]
        assert run(scaled(guard_accesses=True), again) == [0, 2, 4]
    assert len(count) == 5


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b + b"x"])
def test_damaged_code_is_generated_anew(tmp_path: Path, damage: Any) -> None:
    run(scaled(), caches_in(tmp_path))
    for entry in tmp_path.glob("??/*"):
        if entry.read_bytes().startswith(b"{"):  # not the library, which is loaded
            entry.write_bytes(damage(entry.read_bytes()))
    assert run(scaled(), caches_in(tmp_path)) == [0, 2, 4]
    assert len(count) == 2
    run(scaled(), caches_in(tmp_path))
    assert len(count) == 2


def test_other_sources_of_kgen_are_other_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(scaled(), caches_in(tmp_path))
    monkeypatch.setattr(generated, "own_identity", lambda: "other")
    run(scaled(), caches_in(tmp_path))
    assert len(count) == 2


def test_warnings_are_given_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    def warning(*args: Any, **options: Any) -> Any:
        count.append(args)
        warn("something", KgenWarning, silencer="some")
        return generate_module(*args, **options)

    monkeypatch.setattr("kgen.runtime.generated.generate_module", warning)
    caches = caches_in(tmp_path)
    for used in (caches, caches, caches_in(tmp_path)):
        with pytest.warns(KgenWarning, match=r"something \(add 'some'"):
            run(scaled(), used)
    assert len(count) == 1


def test_functions_of_a_user_are_asked_each_time(tmp_path: Path) -> None:
    texts = ["/* one */", "/* two */"]
    unit = lp.register_preamble_generators(scaled(), [lambda info: [("key", texts[0])]])
    caches = caches_in(tmp_path)
    for _ in range(2):
        run(unit, caches)
        texts.reverse()
    assert len(count) == 2


def test_wrappers_are_compiled_once_and_hold_on_to_no_executor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiling = Mock(wraps=to_code)
    monkeypatch.setattr(wrapper, "to_code", compiling)
    caches = caches_in(tmp_path)
    first, second = (CExecutor(scaled(), "kgen_kernel", caches=caches) for _ in range(2))
    for executor, dtype in product((first, second), ("float32", "float64")):
        assert executor(a=np.arange(3, dtype=dtype))[1][0].tolist() == [0, 2, 4]
    assert compiling.call_count == 2
    gone = weakref.ref(first)
    del first, executor
    gc.collect()
    assert gone() is None
    with pytest.raises(InvocationError, match="argument 'a'"):
        second(a=np.arange(4.0).reshape(2, 2))
    assert second(a=np.arange(6.0)[::2])[1][0].tolist() == [0, 4, 8]
    assert second(a=np.arange(2.0))[1][0].tolist() == [0, 2]


def test_only_code_is_shared_by_programs_of_other_origin(tmp_path: Path) -> None:
    unit = scaled()
    other = unit.with_kernel(unit.default_entrypoint.copy(origin=scaled("3").default_entrypoint))
    assert unit.digest() != other.digest()
    caches = caches_in(tmp_path)
    assert run(unit, caches) == run(other, caches) == [0, 2, 4]
    assert len(count) == 1


SCRIPT = """
import sys, numpy as np, kgen as lp
from kgen.runtime import generated
n = [0]
f = generated.generate_module
generated.generate_module = lambda *a, **b: (n.append(1), f(*a, **b))[1]
u = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]", target=lp.ExecutableCTarget())
assert u(a=np.arange(3.0))[1][0].tolist() == [0, 2, 4]
print(len(n) - 1)
"""


def test_processes_share_the_disk(tmp_path: Path) -> None:
    found = []
    for seed in ("1", "2"):
        env = {**os.environ, "KGEN_CACHE_DIR": str(tmp_path), "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=env, check=True, capture_output=True, text=True
        )
        found.append(done.stdout.strip())
    assert found == ["1", "0"]


REGISTERED = """
import sys
import numpy as np
import pyopencl as cl
import pyopencl.tools
import kgen as lp
point = np.dtype([("x", np.float32), ("y", np.float64)], align=True)
queue = cl.CommandQueue(cl.create_some_context(interactive=False))
if sys.argv[1:]:
    cl.tools.get_or_register_dtype(sys.argv[1], point)
preambles = [("10_point", "typedef struct { float x; double y; } A;")] * len(sys.argv[2:])
data = [lp.GlobalArg("a, out", point, shape=4)]
knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", "out[i] = a[i]", data, preambles=preambles)
a = np.zeros(4, point)
a["x"] = range(4)
print(knl(queue, a=a)[1][0]["x"].tolist())
"""


def test_names_of_structures_are_part_of_the_content(opencl_queue: Any, tmp_path: Path) -> None:
    environment = {**os.environ, "KGEN_CACHE_DIR": str(tmp_path)}
    for words, works in ((["A"], False), ([], True), (["A", "declared"], True)):
        command = [sys.executable, "-c", REGISTERED, *words]
        shown = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
        assert (shown.stdout == "[0.0, 1.0, 2.0, 3.0]\n") == works, shown.stderr
