"""Every known function, on every type that it takes, compiled for every target."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import kgen as lp
from kgen.errors import CodegenError
from kgen.ir.functions import FUNCTIONS
from kgen.targets.builder import CFamilyTarget
from kgen.targets.c import CTarget, CWithGNULibcTarget
from kgen.targets.cuda import CudaTarget
from kgen.targets.module import Module
from kgen.targets.opencl import PyOpenCLTarget
from kgen.targets.writers.complex_functions import INVERSES
from tests.targets.support import (
    call,
    compile_c,
    compile_cuda,
    compile_cuda_for_host,
    merge_sources,
    module_of,
    value_of,
)

if TYPE_CHECKING:
    import pyopencl as cl

REALS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint32", "uint64")
TAKES_COMPLEX = {name for name in CTarget.functions.complex if name in FUNCTIONS}
TAKES_INTEGERS = {"abs", "max", "min", "pow"}
IN_DOUBLE = {name for name in FUNCTIONS if name.startswith("bessel")}


def types_of(name: str) -> tuple[str, ...]:
    if name in IN_DOUBLE:
        return ("float64",)
    complex_types = COMPLEX if name in TAKES_COMPLEX else ()
    return REALS + complex_types + (INTEGERS if name in TAKES_INTEGERS else ())


def call_of(name: str) -> str:
    count = FUNCTIONS[name].arg_count or 2
    operands = ["2", "a[i]"] if name in ("bessel_jn", "bessel_yn") else ["a[i]", "b[i]", "a[i]"]
    if name in ("ldexp", "scalbn"):
        operands = ["a[i]", "3"]
    return f"{name}({', '.join(operands[:count])})"


def modules_of(target: CFamilyTarget) -> Mapping[str, Module]:
    """Return for each type a kernel that calls all functions that take it."""
    found = {}
    for dtype in (*REALS, *COMPLEX, *INTEGERS):
        names = [
            name
            for name in FUNCTIONS
            if dtype in types_of(name)
            and (dtype not in COMPLEX or name in target.functions.complex or name in INVERSES)
        ]
        lines = [f"{name}_out[i] = {call_of(name)}" for name in names]
        found[dtype] = module_of(
            lines, {"a": dtype, "b": dtype}, target=target, name=f"all_{dtype}"
        )
    return found


def outputs_of(module: Module) -> dict[str, np.ndarray[Any, Any]]:
    return {info.name: np.zeros(3, info.dtype) for info in module.arguments if info.is_output}


def check_all(dtype: str, outputs: Mapping[str, np.ndarray[Any, Any]]) -> None:
    for name, values in outputs.items():
        check(name.removesuffix("_out"), dtype, values)


def arguments(dtype: str) -> dict[str, np.ndarray[Any, Any]]:
    """Return numbers in the domain of all functions, for the types that have fractions."""
    kind = np.dtype(dtype).kind
    values = np.array([0.25, 0.5, 0.75]) if kind in "fc" else np.array([1, 2, 3])
    imaginary = 0.5j if kind == "c" else 0
    return {"a": (values + imaginary).astype(dtype), "b": values[::-1].astype(dtype)}


def each(function: Callable[..., Any]) -> Callable[..., Any]:
    return np.vectorize(function, otypes=[float])


SPELLED_OTHERWISE: Mapping[str, Callable[..., Any]] = {
    "conj": np.conj,
    "acosh": lambda a: np.arccosh(a.astype(np.result_type(a, np.complex64))),
    "erf": each(math.erf),
    "erfc": each(math.erfc),
    "fabs": np.abs,
    "fdim": lambda a, b: np.maximum(a - b, 0),
    "fma": lambda a, b, c: a * b + c,
    "ilogb": lambda a: np.floor(np.log2(a)),
    "isnormal": np.isfinite,
    "ldexp": lambda a: a * 8,
    "lgamma": each(math.lgamma),
    "logb": lambda a: np.floor(np.log2(a)),
    "max": np.maximum,
    "min": np.minimum,
    "nearbyint": np.rint,
    "pow": np.power,
    "remainder": each(math.remainder),
    "round": lambda a: np.floor(a + 0.5),
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "scalbn": lambda a: a * 8,
    "tgamma": each(math.gamma),
}
BESSEL_OF_A_HALF = {
    "bessel_j0": 0.9384698072408,
    "bessel_j1": 0.2422684576749,
    "bessel_jn": 0.0306040234587,  # of order 2
    "bessel_y0": -0.4445187335067,
    "bessel_y1": -1.4714723926702,
    "bessel_yn": -5.4413708371741,
}
SAME_IN_NUMPY = {
    "acos": "arccos",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "llrint": "rint",
    "lrint": "rint",
}


def expected(name: str, dtype: str) -> Any:
    given = arguments(dtype)
    if name in ("llround", "lround"):
        return np.floor(given["a"] + 0.5)
    function = SPELLED_OTHERWISE.get(name) or getattr(np, SAME_IN_NUMPY.get(name, name))
    operands = [given["a"], given["b"], given["a"]][: FUNCTIONS[name].arg_count or 2]
    return function(operands[0]) if name in ("ldexp", "scalbn") else function(*operands)


def check(name: str, dtype: str, given: np.ndarray[Any, Any]) -> None:
    if name in IN_DOUBLE:
        assert given[1] == pytest.approx(BESSEL_OF_A_HALF[name], rel=1e-9)
        return
    wanted = expected(name, dtype)
    if name == "acosh" and dtype in REALS:  # of numbers below 1
        assert np.isnan(given).all()
        return
    is_single = dtype in ("float32", "complex64")
    np.testing.assert_allclose(
        given, wanted, rtol=2e-5 if is_single else 1e-12, err_msg=f"{name} of {dtype}"
    )


def test_c(tmp_path: Path) -> None:
    modules = modules_of(CWithGNULibcTarget())
    library = compile_c(merge_sources(m.device_source for m in modules.values()), tmp_path)
    for dtype, module in modules.items():
        outputs = outputs_of(module)
        call(library, module, {**arguments(dtype), **outputs, "n": 3})
        check_all(dtype, outputs)


def test_opencl(opencl_queue: cl.CommandQueue) -> None:
    pyopencl = pytest.importorskip("pyopencl")
    array = pytest.importorskip("pyopencl.array")
    modules = modules_of(PyOpenCLTarget())
    source = merge_sources(module.device_source for module in modules.values())
    program = pyopencl.Program(opencl_queue.context, source).build()
    for dtype, module in modules.items():
        host = arguments(dtype) | outputs_of(module)
        device = {name: array.to_device(opencl_queue, values) for name, values in host.items()}
        data = {name: values.data for name, values in device.items()} | {"n": np.int32(3)}
        kernel = getattr(program, module.launches[0].function)
        names = module.launches[0].parameters
        kernel(opencl_queue, (1,), (1,), *(data[name] for name in names))
        check_all(dtype, {name: device[name].get() for name in outputs_of(module)})


def test_cuda(nvcc: str, tmp_path: Path) -> None:
    sources = [module.device_source for module in modules_of(CudaTarget()).values()]
    compile_cuda(merge_sources(sources), tmp_path, nvcc)


def test_cuda_values(cuda_context: Any) -> None:
    compiler = pytest.importorskip("pycuda.compiler")
    gpuarray = pytest.importorskip("pycuda.gpuarray")
    modules = modules_of(CudaTarget())
    source = merge_sources(module.device_source for module in modules.values())
    built = compiler.SourceModule(source, no_extern_c=True)
    for dtype, module in modules.items():
        host = arguments(dtype) | outputs_of(module)
        device = {name: gpuarray.to_gpu(values) for name, values in host.items()}
        data = {name: values.gpudata for name, values in device.items()} | {"n": np.int32(3)}
        (launch,) = module.launches
        function = built.get_function(launch.function)
        function(*(data[name] for name in launch.parameters), grid=(1, 1), block=(1, 1, 1))
        check_all(dtype, {name: device[name].get() for name in outputs_of(module)})


@pytest.mark.parametrize(
    ("expression", "dtype", "target", "expected"),
    [
        ("sin(a[i])", "float32", CTarget(), "sinf(a[i])"),
        ("sin(a[i])", "float64", CTarget(), "sin(a[i])"),
        ("sin(a[i])", "complex64", CTarget(), "csinf(a[i])"),
        ("sin(a[i])", "float32", PyOpenCLTarget(), "sin(a[i])"),
        ("sin(a[i])", "complex128", PyOpenCLTarget(), "cdouble_sin(a[i])"),
        ("sin(a[i])", "float32", CudaTarget(), "sinf(a[i])"),
        ("sin(a[i])", "complex64", CudaTarget(), "cuda::std::sin(a[i])"),
        ("sin(a[i])", "int32", CTarget(), "sin((double) a[i])"),
        ("abs(a[i])", "int64", CTarget(), "llabs(a[i])"),
        ("abs(a[i])", "uint32", CTarget(), "a[i]"),
        ("abs(a[i]) * 2", "int32", PyOpenCLTarget(), "(int) abs(a[i]) * 2"),
        ("max(a[i], 3)", "int32", CTarget(), "kgen_max_int32(a[i], 3)"),
        ("max(a[i], 3)", "int32", CudaTarget(), "max(a[i], 3)"),
        ("max(a[i], 3, 4)", "float32", CTarget(), "fmaxf(fmaxf(a[i], 3.0f), 4.0f)"),
        ("2*rsqrt(a[i])", "float32", CTarget(), "2.0f * (1.0f / sqrtf(a[i]))"),
        ("real(a[i]) + imag(a[i])", "float32", CTarget(), "a[i] + 0.0f"),
    ],
)
def test_spelling(expression: str, dtype: str, target: CFamilyTarget, expected: str) -> None:
    assert value_of(expression, {"a": dtype}, target) == expected


def test_a_function_that_a_language_lacks_is_an_error() -> None:
    with pytest.raises(CodegenError, match=r"'bessel_jn'\n(.*\n)+.*GNU's library"):
        value_of("bessel_jn(2, a[i])", {"a": "float64"}, CTarget())


def numbers_of_all_sizes(dtype: str) -> np.ndarray[Any, Any]:
    """Return complex numbers of all sizes, on the cuts of inverse functions, and near to 1."""
    draw = np.random.default_rng(0)
    spread = 10.0 ** draw.integers(-6, 6, 2000)
    numbers = spread * (draw.normal(size=2000) + 1j * draw.normal(size=2000))
    zeros = [
        complex(*parts)
        for big in (-2.0, -0.5, 0.5, 2.0)
        for zero in (0.0, -0.0)
        for parts in ((big, zero), (zero, big))
    ]
    near_one = [1 - 1e-5 + 1e-6j, -1 + 1e-5 - 1e-6j, 1e-6 + (1 - 1e-5) * 1j, 1e-6 - 1.00001j]
    return np.array([*numbers, *zeros, *near_one]).astype(dtype)


def check_inverses(values: np.ndarray[Any, Any], results: Sequence[np.ndarray[Any, Any]]) -> None:
    tolerance = {"complex64": 1e-4, "complex128": 1e-12}[values.dtype.name]
    for name, found in zip(INVERSES, results, strict=True):
        right = getattr(np, f"arc{name[1:]}")(values.astype(np.complex128))
        assert np.max(np.abs(found - right) / np.abs(right)) < tolerance, name


@pytest.mark.parametrize("dtype", COMPLEX)
def test_inverse_functions_everywhere_and_on_their_cuts(dtype: str, device: Any) -> None:
    values = numbers_of_all_sizes(dtype)
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        [f"of_{name}[i] = {name}(a[i])" for name in INVERSES],
        [lp.GlobalArg("a", dtype, shape="n"), ...],
    )
    _, results = device(knl, a=values)
    check_inverses(values, results)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_inverse_functions_of_cuda_computed_on_the_host(
    dtype: str, nvcc: str, tmp_path: Path
) -> None:
    lines = [f"of_{name}[i] = {name}(a[i])" for name in INVERSES]
    module = module_of(lines, {"a": dtype}, target=CudaTarget())
    values = numbers_of_all_sizes(dtype)
    results = {f"of_{name}": np.empty_like(values) for name in INVERSES}
    library = compile_cuda_for_host(module.device_source, tmp_path, nvcc)
    call(library, module, {"a": values, "n": len(values), **results})
    check_inverses(values, list(results.values()))


@pytest.mark.parametrize("dtype", REALS)
def test_functions_with_several_results(dtype: str, device: Any, nvcc: str, tmp_path: Path) -> None:
    args: list[Any] = [lp.GlobalArg("a,b", dtype, shape="n"), ...]
    text = """
    m[i], e[i] = frexp(a[i])
    <> fraction, whole[i] = modf(a[i])  {id=modf}
    f[i] = fraction  {dep=modf}
    r[i], <> q = remquo(a[i], b[i])  {id=remquo}
    bits[i] = q & 7  {dep=remquo}
    """
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", text, args)
    values = np.array([0.3, -7.75, 1e5, 0.0, 2.5], dtype)
    divisors = np.array([0.11, 2.0, 3.0, 1.0, -1.5], dtype)
    mantissas, exponents = np.frexp(values)
    fractions, wholes = np.modf(values)
    quotients = [round(float(a) / float(b)) for a, b in zip(values, divisors, strict=True)]
    rests = [math.remainder(float(a), float(b)) for a, b in zip(values, divisors, strict=True)]
    right = {"m": mantissas, "e": exponents, "f": fractions, "whole": wholes, "r": rests}
    host = knl.copy(target=lp.ExecutableCTarget())
    for _, results in (device(knl, a=values, b=divisors), host(a=values, b=divisors)):
        names = [a.name for a in knl.default_entrypoint.args if a.name not in "abn"]
        found = dict(zip(names, results, strict=True))
        for name, expected_values in right.items():
            assert np.allclose(found[name], expected_values, rtol=1e-5), name
        # C wants no more than the sign and the lowest three bits
        signed = [abs(q) % 8 * (1 if q >= 0 else -1) for q in quotients]
        assert np.array_equal(found["bits"], np.array(signed) & 7)
    module = module_of(text.strip().split("\n"), {"a": dtype, "b": dtype}, target=CudaTarget())
    compile_cuda(module.device_source, tmp_path, nvcc)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("target", [lp.ExecutableCTarget(), PyOpenCLTarget()], ids=str)
def test_powers_of_a_complex_zero_are_those_of_numpy(
    dtype: str, target: CFamilyTarget, opencl_queue: cl.CommandQueue
) -> None:
    base = np.repeat([0, 2j, -0.0], 4).astype(dtype)
    exponent = np.tile([0, 2, 0.5, -0.0], 3).astype(dtype)
    given = [lp.GlobalArg("base, exponent, out", dtype, shape="n"), ...]
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "out[i] = base[i]**exponent[i]", given, target=target)
    queue = (opencl_queue,) if isinstance(target, PyOpenCLTarget) else ()
    _, (out,) = knl(*queue, base=base, exponent=exponent)
    np.testing.assert_allclose(out, base**exponent, rtol=3e-6, atol=1e-6)
