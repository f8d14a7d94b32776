"""Targets of a user's own: builders that make other code of the same statements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import cgen
import numpy as np
import pytest

import kgen as lp
from kgen.targets.base import Dtype
from kgen.targets.opencl import OpenCLCASTBuilder
from kgen.targets.preamble import PreambleInfo

DOUBLE = lp.NumpyType(np.dtype(np.float64))


def generate(target: lp.CFamilyTarget, code: str = "out[i] = 2*a[i]", **args: Any) -> str:
    dtypes = {"a": np.float32, **args}
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        code,
        [*(lp.GlobalArg(name, dtype, shape="n") for name, dtype in dtypes.items()), ...],
        target=target,
    )
    return lp.generate_code_v2(knl).device_code()


class PlainBuilder(lp.ASTBuilderBase):
    """Declares functions with an attribute, arrays without restrict, and braces of loops."""

    def get_function_declaration(self, function: Any, parameters: Any) -> Any:
        declaration = super().get_function_declaration(function, parameters)
        return cgen.DeclSpecifier(declaration, "__attribute__((hot))")

    def get_array_arg_decl(self, array: Any, element: Any, **options: Any) -> Any:
        return super().get_array_arg_decl(array, element, **{**options, "restrict": False})

    def emit_sequential_loop(self, *texts_and_body: Any) -> Any:
        iname, type_name, first, stop, step, body = texts_and_body
        block = cgen.Block([body])
        return super().emit_sequential_loop(iname, type_name, first, stop, step, block)

    def emit_assignment(self, insn: Any, place: str, value: str) -> Any:
        return cgen.Statement(f"STORE({place}, {value})")

    def preamble_generators(self) -> Any:
        def store(info: PreambleInfo) -> Any:
            if info.kernel.get_written_variables():
                yield "store", "#define STORE(PLACE, VALUE) ((PLACE) = (VALUE))"

        return [store]


@dataclass(frozen=True)
class PlainTarget(lp.ExecutableCTarget):
    def get_device_ast_builder(self) -> lp.ASTBuilderBase:
        return PlainBuilder(self)


def test_hooks_change_declarations_and_statements() -> None:
    assert (
        generate(PlainTarget())
        == """\
#define STORE(PLACE, VALUE) ((PLACE) = (VALUE))

__attribute__((hot)) void kgen_kernel(float const *a, int const n, float *out)
{
  for (int i = 0; i < n; ++i)
  {
    STORE(out[i], 2.0f * a[i]);
  }
}"""
    )


def test_what_a_changed_target_makes_runs() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]", target=PlainTarget())
    a = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(knl(a=a)[1][0], 2 * a)


class Rsqrt(lp.ScalarCallable):
    """A reciprocal square root that only one device has."""

    def with_types(self, arg_id_to_dtype: Any, clbl_inf_ctx: Any) -> Any:
        return self.copy(arg_id_to_dtype={0: DOUBLE, -1: DOUBLE}), clbl_inf_ctx


class DeviceBuilder(OpenCLCASTBuilder):
    @property
    def known_callables(self) -> Mapping[str, lp.ScalarCallable]:
        return {name: Rsqrt(name, name_in_target="native_rsqrt") for name in ("rsqrt", "fast")}

    def emit_barrier(self, text: str, reason: str) -> Any:
        return cgen.Statement("wait_for_group()")

    def get_temporary_decl(self, temporary: Any, declaration: Any) -> Any:
        return cgen.AlignedAttribute(64, super().get_temporary_decl(temporary, declaration))


@dataclass(frozen=True)
class DeviceTarget(lp.OpenCLTarget):
    type_names: ClassVar[Mapping[Dtype, str]] = {
        **lp.OpenCLTarget.type_names,
        np.dtype(np.float64): "real",
    }

    def get_device_ast_builder(self) -> lp.ASTBuilderBase:
        return DeviceBuilder(self)


def test_a_target_has_functions_and_types_of_its_own() -> None:
    code = generate(DeviceTarget(), "out[i] = rsqrt(a[i]) + fast(a[i])")
    assert "__global real *__restrict__ out" in code
    assert "out[i] = native_rsqrt((real) a[i]) + native_rsqrt((real) a[i]);" in code


def test_barriers_and_temporaries_of_a_target() -> None:
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i, j < 16 }",
        "t[i] = a[i]  {id=t}\nout[j] = t[15 - j]  {dep=t}",
        [
            lp.GlobalArg("a", np.float32, shape=16),
            lp.TemporaryVariable("t", shape=16, address_space=lp.AddressSpace.LOCAL),
            ...,
        ],
        target=DeviceTarget(),
    )
    code = lp.generate_body(lp.tag_inames(knl, "i:l.0, j:l.0"))
    assert (
        code
        == """\
  __local float t[16] __attribute__ ((aligned (64)));

  t[lid(0)] = a[lid(0)];
  wait_for_group();
  out[lid(0)] = t[15 - lid(0)];"""
    )


def test_conditions_and_first_values() -> None:
    class Builder(lp.ASTBuilderBase):
        def emit_if(self, condition: str, body: Any, orelse: Any = None) -> Any:
            return super().emit_if(f"LIKELY({condition})", body, orelse)

        def emit_initializer(self, *texts: str, is_const: bool) -> Any:
            return super().emit_initializer(*texts, is_const=False)

        def emit_update(self, insn: Any, place: str, operator: str, value: str) -> Any:
            return self.emit_assignment(insn, place, f"{place} {operator} {value}")

        def emit_comment(self, text: str) -> Any:
            return cgen.Comment(text)

    class Target(lp.CTarget):
        def get_device_ast_builder(self) -> lp.ASTBuilderBase:
            return Builder(self)

    code = generate(
        Target(), "<> t = a[i]  {id=t}\nb[i] = b[i] + t  {dep=t, if=t > 0}", b=np.float32
    )
    assert (
        code.split("\n", 4)[4]
        == """\
    float t = a[i];
    if (LIKELY(t > 0.0f))
      b[i] = b[i] + t;
  }
}"""
    )


@pytest.mark.parametrize(
    ("target", "name"),
    [(lp.CTarget(), "sqrtf"), (lp.OpenCLTarget(), "sqrt"), (lp.CudaTarget(), "sqrtf")],
)
def test_builders_list_the_functions_of_their_targets(target: Any, name: str) -> None:
    known = target.get_device_ast_builder().known_callables
    assert {"sin", "atan2", "max", "isnan", "pow"} <= known.keys()
    single, complex_ = map(lp.to_kgen_type, (np.float32, np.complex64))
    found = known["sqrt"].specialized((single,))
    assert (found.name_in_target, found.result_types) == (name, (single,))
    assert known["sqrt"].specialized((complex_,)).result_types == (complex_,)


def test_functions_are_added_to_those_of_a_target() -> None:
    class Builder(lp.ASTBuilderBase):
        @property
        def known_callables(self) -> Mapping[str, lp.ScalarCallable]:
            return {**super().known_callables, "sin": Rsqrt("sin", name_in_target="fast_sin")}

    class Target(lp.CTarget):
        def get_device_ast_builder(self) -> lp.ASTBuilderBase:
            return Builder(self)

    args = [lp.GlobalArg("a", np.float64), ...]
    text = "out[i] = sin(a[i]) + cos(a[i])"
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", text, args, target=Target())
    assert "fast_sin(a[i]) + cos(a[i])" in lp.generate_code_v2(knl).device_code()
