"""Types that are known by their names alone: arguments that calls of user functions pass on."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import kgen as lp
import kgen.compat.loopy.types
from kgen.ir.codec import decode, encode
from kgen.ir.types import OpaqueType

MAT, REAL = OpaqueType("Mat"), lp.NumpyType(np.dtype(np.float64))


class Foreign(lp.ScalarCallable):
    """A function of a library's, for any arguments; its result, if there is one, is a float64."""

    def with_types(self, arg_id_to_dtype: Any, clbl_inf_ctx: Any) -> Any:
        types = {**arg_id_to_dtype} if self.name == "insert" else {**arg_id_to_dtype, -1: REAL}
        return self.copy(arg_id_to_dtype=types, name_in_target=self.name), clbl_inf_ctx

    def generate_preambles(self, target: Any) -> Any:
        yield "petsc", "#include <petsc.h>"


def body_of(text: str, target: lp.TargetBase) -> str:
    unit = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        text,
        [
            lp.ValueArg("mat", MAT),
            lp.ValueArg("vec", OpaqueType("Vec")),
            lp.GlobalArg("a", np.float64, shape="n"),
            ...,
        ],
        target=target,
    )
    for name in ("insert", "norm"):
        unit = lp.register_callable(unit, name, Foreign(name))
    return lp.generate_code_v2(unit).device_code()


@pytest.mark.parametrize("target", [lp.CTarget(), lp.CudaTarget()])
def test_a_call_passes_it_on(target: lp.TargetBase) -> None:
    text = body_of("insert(mat, 3, i, vec, a[i])", target)
    assert "Mat const mat, Vec const vec" in text
    assert "insert(mat, 3, i, vec, a[i]);" in text


@pytest.mark.parametrize(
    ("call", "line"),
    [
        ("insert(mat)", "insert(mat);"),
        ("insert(mat, vec)", "insert(mat, vec);"),
        ("a[i] = norm(mat, 1, a[i])", "a[i] = norm(mat, 1, a[i]);"),
        ("a[i] = 2*norm(vec)", "a[i] = 2.0 * norm(vec);"),
    ],
)
def test_other_arguments_have_their_types(call: str, line: str) -> None:
    assert line in body_of(call, lp.CTarget())


@pytest.mark.parametrize(
    "text",
    [
        "a[i] = mat",
        "a[i] = mat + 1",
        "a[i] = a[mat]",
        "a[i] = 2 if mat else 1",
        "a[i] = sin(mat)",
        "insert(mat + 1)",
        "a[i] = 1 {if=mat}",
    ],
)
def test_nothing_else_can_be_done_with_it(text: str) -> None:
    with pytest.raises(lp.TypeInferenceFailure, match="'mat' has an opaque type"):
        body_of(text, lp.CTarget())


def test_it_has_no_storage() -> None:
    with pytest.raises(lp.KgenError, match=r"'t': OpaqueType\('Mat'\) has no storage"):
        body_of("<> t = mat", lp.CTarget())
    for make in (lp.GlobalArg, lp.TemporaryVariable):
        with pytest.raises(lp.KgenError, match=r"'b': OpaqueType\('Mat'\) has no storage"):
            make("b", MAT, shape=4)


def test_python_cannot_pass_it() -> None:
    unit = lp.make_kernel(
        "{ [i]: 0 <= i < 4 }", "b[i] = i", [lp.ValueArg("mat", MAT), ...],
        target=lp.ExecutableCTarget(),
    )  # fmt: skip
    with pytest.raises(lp.InvocationError, match="cannot be passed"):
        unit(mat=3)


def test_it_is_its_name() -> None:
    assert MAT == OpaqueType("Mat") != OpaqueType("Vec")
    assert pickle.loads(pickle.dumps(MAT)) == MAT  # noqa: S301
    assert kgen.compat.loopy.types.OpaqueType is OpaqueType
    one, other = (lp.ValueArg("m", OpaqueType(name)) for name in ("Mat", "Vec"))
    units = [lp.make_kernel("{ [i]: 0 <= i < 4 }", "b[i] = i", [arg, ...]) for arg in (one, other)]
    assert units[0].digest() != units[1].digest()
    assert decode(encode(units[0])) == units[0]
    assert "dtype=OpaqueType(name='Mat')" in lp.t_unit_to_python(units[0])
    with pytest.raises(lp.KgenError, match="'struct a' is not a valid name of a type"):
        OpaqueType("struct a")
