"""Variants of a kernel behind one function: by types, by sizes, by devices."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.exporters.export import library_files
from tests.exporters.libraries import load
from tests.exporters.test_opencl import Device


def axpy(dtype: Any = np.float32, factor: int = 1, **changes: Any) -> lp.TranslationUnit:
    """Make ``y = y + factor*a*x``: the factor tells variants apart."""
    args = [
        lp.GlobalArg("x", dtype, shape=changes.get("shape", "n")),
        lp.GlobalArg("y", dtype, shape="n"),
        lp.ValueArg("a", dtype),
        lp.ValueArg(changes.get("size", "n"), np.int32),
    ]
    code = f"y[i] = y[i] + {factor}*a*x[i]"
    return lp.make_kernel("{ [i]: 0 <= i < n }", code, [*args, ...], name=f"axpy_{factor}")


def through_temporary() -> lp.TranslationUnit:
    """Make ``y = y + 3*a*x`` by two launches, with a temporary between them."""
    code = """
    t[i] = 3*a*x[i] {id=first}
    ... gbarrier {id=wait, dep=first}
    y[j] = y[j] + t[j] {dep=wait}
    """
    temporary = lp.TemporaryVariable("t", shape="n", address_space=lp.AddressSpace.GLOBAL)
    args = [lp.GlobalArg("x, y", np.float32, shape="n"), lp.ValueArg("a", np.float32), temporary]
    return lp.make_kernel("{ [i, j]: 0 <= i, j < n }", code, [*args, "..."], name="launches")


def files_of(*variants: Any, targets: Any = "c") -> dict[str, str]:
    return library_files({"axpy": variants}, targets=targets, namespace="demo")


def test_settings_of_the_target_are_kept() -> None:
    target = lp.ExecutableCTarget(schedule="dynamic, 4", threads=2)
    knl = lp.tag_inames(axpy().copy(target=target), "i:g.0")
    code = "".join(files_of(knl).values())
    assert "schedule(dynamic, 4)" in code
    assert "num_threads(kgen_share(2))" in code


one = ctypes.c_float(1)


def factor_of(library: Any, n: int) -> int:
    x, y = np.ones(n, np.float32), np.zeros(n, np.float32)
    arrays = (ctypes.c_void_p(array.ctypes.data) for array in (x, y))
    workspace = (None,) if hasattr(library, "demo_axpy_workspace") else ()
    assert library.demo_axpy(*arrays, one, n, *workspace) == 0
    assert (y == y[0]).all()
    return int(y[0])


def test_sizes_choose(tmp_path: Path) -> None:
    variants: list[Any] = [
        lp.Variant(axpy(factor=3), when="n >= 100 and n < 1000"),
        lp.Variant(axpy(factor=2), when="n % 2 == 0"),
        axpy(factor=1),
    ]
    library = load(tmp_path, {"axpy": variants}, "c")
    assert [factor_of(library, n) for n in (1, 2, 99, 100, 999, 1000, 1001)] == [
        1,
        2,
        1,
        3,
        3,
        2,
        1,
    ]
    assert library.demo_axpy(None, None, one, 5) != 0
    assert library.demo_last_message().startswith(b"axpy: array 'x' is a null pointer")


def test_one_of_the_variants_has_temporaries(tmp_path: Path) -> None:
    variants: list[Any] = [lp.Variant(through_temporary(), when="n >= 8"), axpy()]
    library = load(tmp_path, {"axpy": variants}, "c")
    assert [factor_of(library, n) for n in (7, 8)] == [1, 3]
    n_bytes = ctypes.c_size_t()
    for n, wanted in ((7, 0), (8, 64)):
        assert library.demo_axpy_workspace(one, n, ctypes.byref(n_bytes)) == 0
        assert n_bytes.value == wanted
    assert library.demo_axpy_workspace(one, 8, None) != 0


def test_types_are_in_the_names_in_c() -> None:
    made = files_of(axpy(np.float32), axpy(np.float64))
    header = made["include/demo.h"]
    assert "demo_axpy_float32(float const *x, float *y, float a, int32_t n);" in header
    assert "demo_axpy_float64(double const *x, double *y, double a, int32_t n);" in header
    assert re.search(r"\baxpy\(", made["include/demo.hpp"])


def test_devices_choose_where_only_a_call_knows_them() -> None:
    variants = [lp.Variant(axpy(factor=2), device="gpu"), axpy(factor=1)]
    made = files_of(*variants, targets=("c", "opencl", "cuda"))
    text = made["src/demo_axpy_opencl.c"]
    assert 'if (kgen_opencl_is_a(queue, "gpu"))\n    return demo_axpy_variant0_opencl(' in text
    assert text.endswith(
        "  return demo_axpy_variant1_opencl(queue, x, y, a, n, n_wait, wait, done);\n}\n"
    )
    assert "* 2" not in made["src/demo_axpy.c"]  # the host is no GPU
    assert "axpy_2(" in made["src/demo_axpy.cu"]
    targets = json.loads(made["demo.json"])["kernels"][0]["targets"]
    assert [v["device"] for v in targets["opencl"]["variants"]] == ["gpu", None]


def test_tables_of_schedules_are_variants() -> None:
    table = lp.per_device(
        axpy(), {"gpu": lambda knl: lp.split_iname(knl, "i", 64), "*": lambda k: k}
    )
    made = library_files(table, targets=("c", "opencl"), namespace="demo")
    assert "kgen_opencl_is_a" in made["src/demo_axpy_1_opencl.c"]
    assert "_outer" not in made["src/demo_axpy_1.c"]


WRONG: dict[str, list[Any]] = {
    "two variants have different arguments.*n; the other x, y, a, m, n": [axpy(), axpy(size="m")],
    "'shape' of 'x' is .n. in one, and .n \\+ 1. in the other": [axpy(), axpy(shape="n + 1")],
    "'m' in the condition 'm > 3' is not an integer argument": [
        lp.Variant(axpy(), when="m > 3"),
        axpy(),
    ],
    "no variant handles all calls on c.*without when= and device= last": [
        lp.Variant(axpy(), when="n > 3")
    ],
    "no variant handles all calls on c\n": [lp.Variant(axpy(), device="gpu")],
    "no variant handles all calls on opencl": [
        lp.Variant(axpy(), device="host"),
        lp.Variant(axpy(), device="gpu"),
    ],
}


@pytest.mark.parametrize("text", WRONG)
def test_what_does_not_fit_together_is_rejected(text: str) -> None:
    with pytest.raises(lp.CodegenError, match=f"(?s){text}"):
        files_of(*WRONG[text], targets=("c", "opencl") if "opencl" in text else "c")


def test_a_variant_is_of_a_known_device_and_condition() -> None:
    with pytest.raises(lp.KgenError, match="'gpuu' is not a kind of device"):
        lp.Variant(axpy(), device="gpuu")
    with pytest.raises(lp.KgenError):
        lp.Variant(axpy(), when="n >=")


def test_a_variant_has_one_entry_point() -> None:
    both = lp.merge([axpy(factor=1), axpy(factor=2)])
    with pytest.raises(lp.CodegenError, match="one entry point, not 'axpy_1', 'axpy_2'"):
        files_of(both)


@pytest.mark.parametrize(("kind", "factor"), [("cpu", 2), ("other", 1), ("radeon", 1)])
def test_the_device_of_the_queue_chooses(
    kind: str, factor: int, tmp_path: Path, opencl_queue: Any, opencl_headers: tuple[str, ...]
) -> None:
    variants: list[Any] = [lp.Variant(axpy(factor=2), when="n < 9", device=kind), axpy(factor=1)]
    library = load(tmp_path, {"axpy": variants}, "opencl", *opencl_headers)
    device = Device(opencl_queue)
    x = np.ones(5, np.float32)
    arrays = [device.buffer(x), device.buffer(np.zeros_like(x))]
    handles = [ctypes.c_void_p(array.int_ptr) for array in arrays]
    status = library.demo_axpy_opencl(device.handle, *handles, one, 5, 0, None, None)
    assert status == 0, library.demo_last_message()
    if kind == "cpu" and not opencl_queue.device.type & device.cl.device_type.CPU:
        factor = 1
    assert (device.read(arrays[1], x) == factor).all()
    assert library.demo_axpy_opencl(None, *handles, one, 5, 0, None, None) != 0


@pytest.mark.parametrize("thing", [axpy().default_entrypoint, 5, [5], {"axpy": 5}])
def test_what_is_no_program_is_rejected(thing: Any) -> None:
    with pytest.raises(lp.CodegenError, match="cannot be exported: it is not a program"):
        library_files(thing, targets="c", namespace="demo")


def test_nothing_is_no_library() -> None:
    with pytest.raises(lp.CodegenError, match="nothing to export"):
        library_files([], targets="c", namespace="demo")


def test_names_are_those_of_functions() -> None:
    with pytest.raises(lp.CodegenError, match="'a-b' is not a valid name of a function"):
        library_files({"a-b": axpy()}, targets="c", namespace="demo")


CALL_BOTH = """
#include "demo.hpp"
#include <cstdio>
#include <vector>
int main()
{
  std::vector<float> x(3, 1.0f), y(3, 0.0f);
  std::vector<double> u(3, 2.0), v(3, 0.0);
  demo::axpy(x, y, 1.0f);
  demo::axpy(u, v, 0.5);
  std::printf("%g %g", y[2], v[2]);
}
"""


def test_types_are_overloads_in_cxx(tmp_path: Path) -> None:
    variants: list[Any] = [axpy(np.float32), axpy(np.float64)]
    library = load(tmp_path, {"axpy": variants}, "c")
    (tmp_path / "main.cpp").write_text(CALL_BOTH)
    command = ["g++", "-std=c++17", f"-I{tmp_path / 'include'}", "main.cpp", library._name]
    subprocess.run([*command, "-o", "main"], cwd=tmp_path, check=True, timeout=60)
    done = subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True)
    assert done.stdout == "1 1"
