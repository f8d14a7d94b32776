"""The uses of loops and substitution rules by instructions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kgen.ir.closure import closure
from kgen.ir.data import SubstitutionRule
from kgen.ir.expr import Expr
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.mentions import mentions_of

__all__ = ["called_rules", "depends_on", "direct_rules", "inames_used", "rules_of"]


def direct_rules(rules: Mapping[str, SubstitutionRule], exprs: Iterable[Expr]) -> tuple[str, ...]:
    """Return the substitution rules that *exprs* use themselves."""
    if not rules:
        return ()
    found = mentions_of(*exprs)
    return tuple(name for name in (*found.functions, *found.variables) if name in rules)


def called_rules(rules: Mapping[str, SubstitutionRule], exprs: Iterable[Expr]) -> tuple[str, ...]:
    """Return the substitution rules that *exprs* use, directly or through others."""
    return _with_inner(rules, direct_rules(rules, exprs))


def rules_of(
    rules: Mapping[str, SubstitutionRule], insns: Iterable[InstructionBase]
) -> tuple[str, ...]:
    """Return the substitution rules that instructions use, directly or through others."""
    if not rules:
        return ()
    direct = frozenset[str]().union(*(insn.mentioned & rules.keys() for insn in insns))
    return _with_inner(rules, sorted(direct))


def _with_inner(rules: Mapping[str, SubstitutionRule], direct: Iterable[str]) -> tuple[str, ...]:
    """Add the rules that rules use."""
    return tuple(closure(direct, lambda name: direct_rules(rules, (rules[name].expression,))))


def inames_used(kernel: LoopKernel, insn: InstructionBase) -> frozenset[str]:
    """Return the loops around *insn*, and those of its reductions and of the rules it uses."""
    used, reads = insn.within_inames, insn.reads
    if reads.reduced or reads.swept:
        used = used.union(reads.reduced, reads.swept)
    if not kernel.substitutions:
        return used
    names = {
        name
        for rule in rules_of(kernel.substitutions, (insn,))
        for name in kernel.substitutions[rule].free_names
    }
    return used | (names & kernel.inames.keys())


def depends_on(kernel: LoopKernel, insn: InstructionBase) -> frozenset[str]:
    """Return the inames that *insn* uses, and those on which their bounds depend."""
    return kernel.with_outer_inames(inames_used(kernel, insn))
