"""Kernels and programs that are made, or copied, by hand, with fields of other types."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import kgen as lp
from kgen.ir.kernel import LoopKernel

MADE = lp.make_kernel("{ [i]: 0<=i<n }", "a[i] = 1", name="ones")
KERNEL = MADE.default_entrypoint
ODD: tuple[Any, ...] = (3, object(), [1], {1: None})
FIELDS = sorted({f.name for f in dataclasses.fields(LoopKernel)} - {"origin", "tags"})


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", ODD, ids=["number", "object", "list", "dict"])
def test_fields_of_kernels_are_checked(field: str, value: Any) -> None:
    fields = {"name": "k", "domains": (), "instructions": (), "target": KERNEL.target}
    with pytest.raises(lp.KgenError, match=f"LoopKernel: the field '{field}' is "):
        LoopKernel(**{**fields, field: value})


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", [3, object()], ids=["number", "object"])
def test_fields_of_copies_are_checked(field: str, value: Any) -> None:
    with pytest.raises(lp.KgenError, match=f"LoopKernel: the field '{field}' is "):
        KERNEL.copy(**{field: value})


@pytest.mark.parametrize("field", ["callables_table", "entrypoints", "target"])
@pytest.mark.parametrize("value", [3, object(), [1]], ids=["number", "object", "list"])
def test_fields_of_programs_are_checked(field: str, value: Any) -> None:
    with pytest.raises(lp.KgenError, match=f"TranslationUnit: the field '{field}' is "):
        dataclasses.replace(MADE, **{field: value})


def test_parts_of_kernels_are_copied_to_lists() -> None:
    kernel: Any = KERNEL
    insns = kernel.instructions.copy()
    insns.append(insns[0].copy(id="more"))
    changed = kernel.copy(instructions=insns, preambles=[("10_a", "#define A 1")])
    assert [insn.id for insn in changed.instructions] == ["insn", "more"]
    assert changed.preambles == (("10_a", "#define A 1"),)
    assert changed.silenced_warnings.copy() == ()
