"""Names that mean something else in C are rejected, before a compiler sees them."""

from __future__ import annotations

import numpy as np
import pytest

import kgen as lp
from kgen.exporters.export import library_files


def kernel(name: str = "twice", array: str = "a") -> lp.TranslationUnit:
    args = [lp.GlobalArg(f"{array}, out", np.float32, shape="n"), ...]
    return lp.make_kernel("{ [i]: 0 <= i < n }", f"out[i] = 2*{array}[i]", args, name=name)


def rejected(*programs: lp.TranslationUnit) -> str:
    with pytest.raises(lp.CodegenError) as info:
        library_files(programs, targets="c", namespace="demo")
    return str(info.value)


@pytest.mark.parametrize(
    "name", ["new", "int64_t", "M_PI", "bool", "I", "kg_a", "kgen_min", "demo_a", "double_it"]
)
def test_arguments(name: str) -> None:
    text = rejected(kernel("double_it", name))
    assert f"an exported function cannot have an argument '{name}'" in text
    assert f"rename_argument(knl, '{name}', ...)" in text


@pytest.mark.parametrize("name", ["status", "success", "fail", "status_text", "library"])
def test_kernels_have_no_names_of_the_library(name: str) -> None:
    assert f"'demo_{name}', which is one of the library itself" in rejected(kernel(name))


def test_kernels_have_no_names_of_other_functions() -> None:
    text = rejected(kernel("one"), kernel("demo_one"))
    assert "in kernel 'demo_one'" in text
    assert "of kernel 'one', has this name" in text


def test_the_workspace_is_no_argument() -> None:
    code = """
    t[i] = 2*workspace[i] {id=first}
    ... gbarrier {id=wait, dep=first}
    out[j] = t[n - 1 - j] {dep=wait}
    """
    temporary = lp.TemporaryVariable("t", shape="n", address_space=lp.AddressSpace.GLOBAL)
    args = [lp.GlobalArg("workspace, out", np.float32, shape="n"), temporary, ...]
    knl = lp.make_kernel("{ [i, j]: 0 <= i, j < n }", code, args, name="turned")
    assert "'workspace'" in rejected(knl)
    assert library_files(kernel(array="workspace"), targets="c", namespace="demo")


@pytest.mark.parametrize("name", ["class", "linux", "offsetof", "_Complex", "_Bool", "__linux__"])
def test_kernels_have_no_names_that_compilers_keep(name: str) -> None:
    assert f"cannot have the name '{name}'" in rejected(kernel(name))


@pytest.mark.parametrize("name", ["min", "floor", "half", "kernel", "global", "float4", "_a"])
def test_kernels_may_have_names_of_functions_and_of_other_languages(name: str) -> None:
    assert library_files(kernel(name), targets="c", namespace="demo")
