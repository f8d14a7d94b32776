"""What ``import kgen`` brings in, seen in a fresh interpreter, and what it costs."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

import kgen

ROOT = Path(__file__).parent.parent
OPTIONAL = {"IPython", "click", "matplotlib", "pycuda", "pyopencl", "rich"}
PROBE = """
import json, sys, time
start = time.perf_counter()
import kgen
seconds = time.perf_counter() - start
{then}
packages = sorted({{name.partition(".")[0] for name in sys.modules}})
print(json.dumps({{"seconds": seconds, "packages": packages, "modules": sorted(sys.modules)}}))
"""


def in_fresh_process(then: str = "") -> Any:
    code = PROBE.format(then=then)
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return json.loads(run.stdout)


def test_nothing_is_imported_before_it_is_used(
    record_property: Callable[[str, object], None],
) -> None:
    found = in_fresh_process()
    # On record, not asserted: another load on the machine must not fail a test.
    record_property("import kgen", f"{found['seconds']:.2f} s")
    assert {name for name in found["modules"] if name.startswith("kgen")} == {"kgen", "kgen.lazy"}
    assert {*OPTIONAL, "islpy", "numpy", "pymbolic"}.isdisjoint(found["packages"])


def test_what_few_need_is_not_imported_with_all_names() -> None:
    found = in_fresh_process("from kgen import *; assert callable(make_kernel)")
    assert {"kgen.tuning.tune", "kgen.autoscheduler.find"} <= set(found["modules"])
    assert OPTIONAL.isdisjoint(found["packages"])


def test_modules_of_loopy_are_modules_of_kgen_that_are_not_listed() -> None:
    found = in_fresh_process(
        "from kgen.kernel.data import GlobalArg\n"
        "from kgen.version import LOOPY_USE_LANGUAGE_VERSION_2018_2\n"
        "from kgen.schedule import CallKernel, tree\n"
        "from kgen.library.reduction import SumReductionOperation\n"
        "import kgen.schedule.tools\n"
        "assert kgen.GlobalArg is GlobalArg and kgen.diagnostic.LoopyError is kgen.KgenError\n"
        "assert kgen.kernel is kgen.compat.loopy.kernel and tree.__name__ == 'kgen.schedule.tree'\n"
        "assert kgen.CACHING_ENABLED; kgen.set_caching_enabled(False)\n"
        "assert not kgen.CACHING_ENABLED\n"
        "assert {'kernel', 'CACHING_ENABLED'}.isdisjoint(dir(kgen))"
    )
    assert "kgen.compat.loopy.kernel.data" in found["modules"]
    with pytest.raises(AttributeError, match=r"module 'kgen\.schedule' has no attribute 'place_'"):
        attrgetter("schedule.place_")(kgen)
    with pytest.raises(AttributeError, match="does not provide 'TypedCSE'"):
        attrgetter("symbolic.TypedCSE")(kgen)


def test_a_name_of_loopy_is_not_listed_after_its_use() -> None:
    found = in_fresh_process(
        'kgen.set_array_dim_names; assert "set_array_dim_names" not in dir(kgen)'
    )
    assert "kgen.compat.loopy" in found["modules"]


def test_a_kernel_needs_no_generator_before_its_code() -> None:
    found = in_fresh_process('kgen.make_kernel("{[i]: 0<=i<8}", "a[i] = i")')
    assert not {"kgen.lowering", "kgen.tuning", "kgen.statistics"} & set(found["modules"])


def test_names_for_type_checkers_are_those_at_run_time() -> None:
    stub = ast.parse((ROOT / "kgen" / "__init__.pyi").read_text())
    (listed,) = (node.value for node in stub.body if isinstance(node, ast.Assign))
    assert sorted(ast.literal_eval(listed)) == sorted(kgen.__all__)
    assert {*kgen.__all__, "symbolic", "tuning"} <= set(dir(kgen))


def test_modules_are_attributes() -> None:
    found = in_fresh_process("kgen.transform_api.transform; kgen.linalg.matmul")
    assert {"kgen.transform_api", "kgen.linalg"} <= set(found["modules"])


def test_unknown_names_are_no_attributes() -> None:
    with pytest.raises(AttributeError, match="module 'kgen' has no attribute 'make_kernels'"):
        getattr(kgen, "make_kernels")  # noqa: B009


def test_a_name_that_neither_kgen_nor_loopy_has() -> None:
    with pytest.raises(AttributeError, match="module 'kgen' has no attribute 'Nonsense'") as caught:
        getattr(kgen, "Nonsense")  # noqa: B009
    assert (caught.value.name, caught.value.obj) == ("Nonsense", kgen)
