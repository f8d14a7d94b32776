"""What code generation returns."""

from __future__ import annotations

import numpy as np

import kgen as lp


def program() -> lp.TranslationUnit:
    one, two = (
        lp.make_kernel(
            "{ [i]: 0 <= i < n }",
            f"out[i] = {factor}*a[i]",
            [lp.GlobalArg("a", np.float32), ...],
            name=f"times_{factor}",
            target=lp.CTarget(),
        )
        for factor in (2, 3)
    )
    return lp.merge([two, one])


def test_each_entry_point_has_its_code() -> None:
    result = lp.generate_code_v2(program())
    assert isinstance(result, lp.CodeGenerationResult)
    assert [p.name for p in result.device_programs] == ["times_2", "times_3"]
    assert result.device_code() == "\n\n".join(p.code for p in result.device_programs)
    assert sorted(result.host_programs) == ["times_2", "times_3"]


def test_code_and_arguments_of_one_kernel() -> None:
    knl = program().with_entrypoints("times_3")
    code, args = lp.generate_code(knl)
    assert code == lp.generate_code_v2(knl).device_code()
    assert [arg.name for arg in args] == ["a", "n", "out"]
