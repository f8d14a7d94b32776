"""Variables and kernels may have any name: what it means in the code's language does not matter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import kgen as lp
from kgen.errors import (
    CodegenError,
    InvocationError,
    KgenError,
    TypeInferenceFailure,
)
from kgen.targets.words import C_WORDS, CPP_WORDS
from tests.targets.support import call, compile_c, compile_cuda, merge_sources

if TYPE_CHECKING:
    import pyopencl as cl

    from kgen.targets.module import Module

_TEXT = """
    int float double long short char unsigned restrict register volatile struct union static
    const typedef sizeof goto default case main asm bool true false template class new delete
    this namespace operator private public virtual typename constexpr nullptr char16_t half
    kernel global local event_t sampler_t image2d_t float4 uint uchar2 size_t __constant
    __shared__ _Bool __attribute__ NULL NAN INFINITY HUGE_VAL M_PI INT_MAX FLT_EPSILON EOF errno
    int64_t uint8_t I complex linux unix printf abs floor sqrt fmin min max mad clamp dot select
    barrier get_local_id get_group_id gid lid threadIdx blockIdx warpSize dim3 std
    CLK_LOCAL_MEM_FENCE atomic_add j0 y1 gamma index self queue_t pow sin exp2 fma memset
"""
NAMES = _TEXT.split()
ROLES = ("iname", "reduced", "size", "scalar", "array", "out", "temporary", "table", "kernel")
WORDS_OF_DOMAINS = ("true", "false", "floor", "min", "max", "NAN", "INFINITY")
#: Each kernel gives its roles names that are far apart; all kernels together, each role each name.
STEP = 7


def named_kernel(start: int, target: Any, plain: str) -> tuple[Any, dict[str, str]]:
    r = {role: NAMES[(start + STEP * k) % len(NAMES)] for k, role in enumerate(ROLES)}
    for role in ("iname", "reduced", "size"):
        if r[role] in WORDS_OF_DOMAINS:
            r[role] += "_0"
    r[plain] = f"plain_{start}"
    domains = [
        f"{{[{r['iname']}]: 0 <= {r['iname']} < {r['size']}}}",
        f"{{[{r['reduced']}]: 0 <= {r['reduced']} < 4}}",
    ]
    unit = lp.make_kernel(
        domains,
        f"""
        <> {r['temporary']} = {r['scalar']}*{r['array']}[{r['iname']}]
        {r['out']}[{r['iname']}] = {r['temporary']} + {r['table']}[1] + \
            sum({r['reduced']}, {r['array']}[{r['iname']}]*{r['reduced']})
        """,
        [
            lp.GlobalArg(r["array"], "float32", shape=r["size"]),
            lp.GlobalArg(r["out"], "float32", shape=r["size"]),
            lp.ValueArg(r["scalar"], "int32"),
            lp.TemporaryVariable(
                r["table"], "float32", shape=(2,), initializer=np.array([1, 3], "float32"),
                read_only=True, address_space=lp.AddressSpace.PRIVATE,
            ),
            "...",
        ],
        name=r["kernel"],
        target=target,
    )  # fmt: skip
    return unit, r


def modules(target: Any, plain: str) -> list[tuple[Module, dict[str, str]]]:
    """Return kernels for one file, in which not both kernels and tables have those names."""
    kernels = (named_kernel(start, target, plain) for start in range(len(NAMES)))
    return [(lp.generate_code_v2(unit).modules[0], roles) for unit, roles in kernels]


@pytest.mark.parametrize("plain", ["kernel", "table"])
def test_any_name_in_any_role_on_the_host(plain: str, tmp_path: Path) -> None:
    found = modules(lp.CTarget(), plain)
    library = compile_c(merge_sources(module.device_source for module, _ in found), tmp_path)
    for module, r in found:
        array, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
        call(library, module, {r["array"]: array, r["out"]: out, r["scalar"]: 5, r["size"]: 4})
        np.testing.assert_array_equal(out, 5 * array + 3 + 6 * array)


@pytest.mark.parametrize("plain", ["kernel", "table"])
def test_any_name_in_any_role_in_opencl(plain: str, opencl_queue: cl.CommandQueue) -> None:
    pyopencl = pytest.importorskip("pyopencl")
    found = modules(lp.PyOpenCLTarget(), plain)
    source = merge_sources(module.device_source for module, _ in found)
    program = pyopencl.Program(opencl_queue.context, source).build()
    assert len(program.all_kernels()) == len(NAMES)


@pytest.mark.parametrize("plain", ["kernel", "table"])
def test_any_name_in_any_role_in_cuda(plain: str, nvcc: str, tmp_path: Path) -> None:
    found = modules(lp.CudaTarget(), plain)
    compile_cuda(merge_sources(module.device_source for module, _ in found), tmp_path, nvcc)


def test_all_keywords_are_among_those_that_are_renamed() -> None:
    for word in sorted(C_WORDS | CPP_WORDS):
        assert word in lp.CTarget().reserved_words
        assert word in lp.CudaTarget().reserved_words


@pytest.mark.parametrize("name", ["half", "int", "self", "linux", "floor", "event_t", "out_host"])
def test_calls_have_the_names_of_the_kernel(name: str, opencl_queue: Any) -> None:
    text = f"out[i] = {name}[i] + floor({name}[i])"
    for target, queue in ((lp.ExecutableCTarget(), ()), (lp.PyOpenCLTarget(), (opencl_queue,))):
        knl = lp.make_kernel("{[i]: 0<=i<n}", text, target=target, name="main")
        array = np.array([1.5, 2.25, -1.0], np.float32)
        if name == "out_host" and queue:
            with pytest.raises(InvocationError, match="argument 'out_host' has the name of an"):
                knl(*queue, **{name: array})
            continue
        _, (out,) = knl(*queue, **{name: array})
        np.testing.assert_array_equal(out, array + np.floor(array))


def test_an_argument_called_entrypoint_is_refused_by_name() -> None:
    knl = lp.make_kernel("{[i]: 0<=i<n}", "out[i] = entrypoint[i]", target=lp.ExecutableCTarget())
    with pytest.raises(InvocationError, match="an argument 'entrypoint': rename_argument"):
        knl(entrypoint=np.ones(3))


@pytest.mark.parametrize("text", ["out[i] = i", "out[i, n-1-i] = i", "out[i] = sum(j, 1.0*i)"])
@pytest.mark.parametrize("n", [-3, -1])
def test_negative_sizes_are_refused_by_name(text: str, n: int, opencl_queue: Any) -> None:
    domains = ["{[i]: 0<=i<n}", "{[j]: 0<=j<4}"]
    for target, queue in ((lp.ExecutableCTarget(), ()), (lp.PyOpenCLTarget(), (opencl_queue,))):
        knl = lp.make_kernel(domains, text, target=target)
        with pytest.raises(InvocationError, match=f"'out' has a negative extent, with n = {n}"):
            knl(*queue, n=n)


def test_negative_sizes_of_arrays_that_are_passed_are_no_iterations() -> None:
    knl = lp.make_kernel(
        "{[i]: 0<=i<n}", "out[i] = i", [lp.GlobalArg("out", "int32", shape="m"), "..."],
        target=lp.ExecutableCTarget(), assumptions="n <= m")  # fmt: skip
    out = np.full(3, 7, np.int32)
    knl(out=out, n=-3)
    assert (out == 7).all()


def test_names_in_c_code_are_the_users_and_refused() -> None:
    snippet = lp.CInstruction("i", "a[i] = half[i];", read_variables="half", assignees="a[i]")
    knl = lp.make_kernel(
        "{[i]: 0<=i<n}", [snippet], [lp.GlobalArg("a,half", "float32", shape="n"), "..."],
        target=lp.OpenCLTarget())  # fmt: skip
    with pytest.raises(KgenError, match=r"'half' .* in the C code of instruction"):
        lp.generate_code_v2(knl)


@pytest.mark.parametrize("name", WORDS_OF_DOMAINS)
def test_words_of_domains_are_no_loops(name: str) -> None:
    wanted = rf"'{name}' is a word of domains|{name} < n.* has no name"
    with pytest.raises(KgenError, match=wanted):
        lp.make_kernel(f"{{ [{name}]: 0 <= {name} < n }}", f"out[{name}] = 1")


def test_errors_name_what_the_user_wrote() -> None:
    knl = lp.make_kernel(
        "{[i]: 0<=i<n}", "half[i] = int[i]", [lp.GlobalArg("int", "M8[s]", shape="n"), "..."],
        target=lp.CTarget())  # fmt: skip
    with pytest.raises(CodegenError, match="C has no element type for datetime64"):
        lp.generate_code_v2(knl)
    knl = lp.make_kernel("{[i]: 0<=i<n}", "half[i] = int[i]", target=lp.CTarget())
    with pytest.raises(TypeInferenceFailure, match="the type of 'int' is not known"):
        lp.generate_code_v2(knl)


def test_a_kernel_may_have_the_name_of_its_argument() -> None:
    knl = lp.make_kernel(
        "{[i]: 0<=i<n}", "out[i] = k[i]", [lp.GlobalArg("k", "float32", shape="n"), "..."],
        name="k", target=lp.CTarget())  # fmt: skip
    assert "out[i] = k[i];" in lp.generate_body(knl)
