"""Replacing variables by expressions everywhere in a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import prod
from typing import Any

import pymbolic.primitives as p

from kgen.errors import TransformError
from kgen.ir.data import ArrayBase
from kgen.ir.expr import Expr, SubstitutionMapper
from kgen.ir.instruction import CInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.transforms.select import InstructionTest

__all__ = ["substitute_everywhere", "substitute_in_instructions"]


def substitute_everywhere(kernel: LoopKernel, values: Mapping[str, Expr]) -> LoopKernel:
    """Replace variables in instructions, rules, shapes, strides and offsets.

    Domains and assumptions are sets, and not changed. Raises :class:`TransformError` for a
    variable that a snippet of C names.
    """
    mapper = _FoldingMapper(values)
    rules = {}
    for name, rule in kernel.substitutions.items():
        visible = {key: value for key, value in values.items() if key not in rule.arguments}
        inner = mapper if len(visible) == len(values) else _FoldingMapper(visible)
        rules[name] = rule.copy(expression=inner(rule.expression))
    return substitute_in_instructions(kernel, values, lambda _: True).copy(
        args=tuple(
            arg.map_exprs(mapper) if isinstance(arg, ArrayBase) else arg for arg in kernel.args
        ),
        temporary_variables={
            name: var.map_exprs(mapper) for name, var in kernel.temporary_variables.items()
        },
        substitutions=rules,
    )


def substitute_in_instructions(
    kernel: LoopKernel, values: Mapping[str, Expr], matches: InstructionTest
) -> LoopKernel:
    """Replace variables in the instructions that match."""
    mapper = _FoldingMapper(values)
    names = frozenset(values)

    def change(insn: InstructionBase) -> InstructionBase:
        if names.isdisjoint(insn.dependency_names()) or not matches(insn):
            return insn
        _reject_in_c(insn, names)
        return insn.with_transformed_expressions(mapper)

    return kernel.map_instructions(change)


class _FoldingMapper(SubstitutionMapper):
    """Replaces variables; integers that meet become one: ``n - 1`` with 8 for ``n`` is 7."""

    def map_sum(self, expr: p.Sum, *args: Any) -> Expr:
        return _folded(super().map_sum(expr, *args), sum)

    def map_product(self, expr: p.Product, *args: Any) -> Expr:
        return _folded(super().map_product(expr, *args), prod)


def _folded(expr: Expr, combine: Callable[[Iterable[int]], int]) -> Expr:
    """Return the value of a sum or product of integers; other expressions unchanged."""
    children = getattr(expr, "children", ())
    if children and all(isinstance(child, int) for child in children):
        return combine(children)
    return expr


def _reject_in_c(insn: InstructionBase, names: frozenset[str]) -> None:
    if not isinstance(insn, CInstruction):
        return
    stuck = sorted(names & insn.read_variables.union(insn.assignee_var_names()))
    if stuck:
        raise TransformError(
            f"'{stuck[0]}' cannot be replaced in the C code of instruction '{insn.id}'",
            hint=f"pass it by a separate name: iname_exprs=[('x', '{stuck[0]}')]",
        )
