"""What the tests of transformations share: text of kernels, equal sets, equal results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import islpy as isl
import numpy as np

import kgen as lp
from kgen.ir.sets.dims import Set, dim_names, from_named, to_named


def kernel_of(program: lp.LoopKernel | lp.TranslationUnit) -> lp.LoopKernel:
    return program.default_entrypoint if isinstance(program, lp.TranslationUnit) else program


def instructions(program: lp.LoopKernel | lp.TranslationUnit) -> list[str]:
    """Return each instruction as text, the loops around it before it."""
    kernel = kernel_of(program)
    return [
        f"{','.join(sorted(insn.within_inames))}: {str(insn).partition('  {')[0]}"
        for insn in kernel.instructions
    ]


def dependencies(program: lp.LoopKernel | lp.TranslationUnit) -> dict[str, str]:
    return {
        str(insn.id): ",".join(sorted(insn.depends_on))
        for insn in kernel_of(program).instructions
        if insn.depends_on
    }


def domain(program: lp.LoopKernel | lp.TranslationUnit, inames: str) -> Set:
    """Return the values of *inames*, a text such as ``"i,j"``, in this order."""
    return kernel_of(program).domain_of(tuple(inames.split(",")))


def same_set(one: Set, text: str) -> bool:
    """Tell whether *one* is the set that *text* describes, whatever the order of names."""
    other = isl.Set(text)
    return bool(from_named(to_named(one), dim_names(other)).is_equal(other))


def run(program: lp.TranslationUnit, **arguments: Any) -> dict[str, Any]:
    """Run *program* on the host; return its outputs by name."""
    program = lp.set_options(program.copy(target=lp.ExecutableCTarget()), return_dict=True)
    _, outputs = program(**arguments)
    return dict(outputs)


def assert_same_results(
    one: lp.TranslationUnit, other: lp.TranslationUnit, arguments: Mapping[str, Any]
) -> None:
    """Run both programs on copies of the same data and compare."""
    expected, found = (
        run(program, **{k: np.copy(v) for k, v in arguments.items()}) for program in (one, other)
    )
    assert expected.keys() == found.keys()
    assert expected, "the kernels have no output"
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-12, err_msg=name)
