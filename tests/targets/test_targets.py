"""Targets as values."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from kgen.errors import CodegenError, KgenError
from kgen.ir.target import TargetBase
from kgen.ir.types import NumpyType
from kgen.targets.base import Target
from kgen.targets.builder import CFamilyTarget
from kgen.targets.c import (
    CTarget,
    CWithGNULibcTarget,
    ExecutableCTarget,
    ExecutableCWithGNULibcTarget,
)
from kgen.targets.cuda import CudaTarget, PyCudaTarget
from kgen.targets.opencl import OpenCLTarget, PyOpenCLTarget

TARGETS: list[type[CFamilyTarget]] = [
    CTarget,
    ExecutableCTarget,
    CWithGNULibcTarget,
    ExecutableCWithGNULibcTarget,
    OpenCLTarget,
    PyOpenCLTarget,
    CudaTarget,
    PyCudaTarget,
]


@pytest.mark.parametrize("kind", TARGETS)
def test_targets_are_values(kind: type[CFamilyTarget]) -> None:
    assert kind() == kind()
    assert hash(kind()) == hash(kind())
    assert [other() == kind() for other in TARGETS].count(True) == 1
    assert isinstance(kind(), Target)
    assert isinstance(kind(), TargetBase)
    with pytest.raises(dataclasses.FrozenInstanceError):
        kind().device = None  # type: ignore[attr-defined]


def test_what_runs_the_code() -> None:
    assert ExecutableCTarget.runtime_module == "kgen.runtime.c"
    assert ExecutableCWithGNULibcTarget.runtime_module == "kgen.runtime.c"
    assert PyOpenCLTarget.runtime_module == "kgen.runtime.opencl"
    assert PyCudaTarget.runtime_module == "kgen.runtime.cuda"
    assert (
        CTarget.runtime_module is OpenCLTarget.runtime_module is CudaTarget.runtime_module is None
    )


def test_fields_that_change_the_code_count() -> None:
    assert CudaTarget() != CudaTarget(extern_c=False)
    assert PyOpenCLTarget(atomics_flavor="cl1") == PyOpenCLTarget(atomics_flavor=None)
    with pytest.raises(KgenError, match="not 'any'"):
        PyOpenCLTarget(device="any")
    with pytest.raises(KgenError, match="no code for atomics of the flavor 'cl2'"):
        OpenCLTarget(atomics_flavor="cl2")


@pytest.mark.parametrize(
    ("dtype", "c", "cl", "cuda"),
    [
        ("int32", "int", "int", "int"),
        ("int64", "int64_t", "long", "long long"),
        ("uint8", "uint8_t", "uchar", "unsigned char"),
        ("float64", "double", "double", "double"),
        ("complex64", "float complex", "cfloat_t", "cuda::std::complex<float>"),
    ],
)
def test_type_names(dtype: str, c: str, cl: str, cuda: str) -> None:
    kind = NumpyType(np.dtype(dtype))
    assert CTarget().type_name(kind) == c
    assert OpenCLTarget().type_name(kind) == cl
    assert CudaTarget().type_name(kind) == cuda


def test_a_type_that_a_language_lacks_is_an_error() -> None:
    with pytest.raises(CodegenError, match="OpenCL C has no element type for datetime64"):
        OpenCLTarget().type_name(NumpyType(np.dtype("datetime64[s]")))


def test_types_of_a_target_have_names() -> None:
    names = [kind().dtype_to_typename("int64") for kind in (CTarget, OpenCLTarget, CudaTarget)]
    assert names == ["int64_t", "long", "long long"]
    registries = [kind().get_dtype_registry() for kind in (CTarget, OpenCLTarget, CudaTarget)]
    assert [registry.dtype_to_ctype(np.dtype("int64")) for registry in registries] == names
    vector = OpenCLTarget().vector_dtype(np.float32, 4)
    assert OpenCLTarget().is_vector_dtype(vector)
    assert not OpenCLTarget().is_vector_dtype(np.float32)
    with pytest.raises(CodegenError, match="has no vector of 4 numbers"):
        OpenCLTarget().vector_dtype(np.complex64, 4)


def test_an_unknown_kind_of_atomics_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="no code for atomics of the flavor 'cl9'"):
        OpenCLTarget(atomics_flavor="cl9")
