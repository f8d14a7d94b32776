"""The uses of loops and substitution rules by instructions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kgen.analysis.domains import domains_without
from kgen.ir.closure import closure
from kgen.ir.data import SubstitutionRule
from kgen.ir.expr import Expr
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.mentions import mentions_of
from kgen.ir.sets.dims import BasicSet, dim_names

__all__ = [
    "called_rules",
    "depends_on",
    "direct_rules",
    "inames_used",
    "rules_of",
    "without_unused_inames",
]


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


def without_unused_inames(kernel: LoopKernel, wanted: Collection[str]) -> LoopKernel:
    """Remove those of the *wanted* loops that no instruction uses and that bound no loop."""
    used = {name for insn in kernel.instructions for name in inames_used(kernel, insn)}
    unused = frozenset(wanted) - kernel.with_outer_inames(frozenset(used))
    # a loop that is kept needs those that bound it
    unused -= kernel.with_outer_inames(frozenset(kernel.inames) - unused)
    if not unused:
        return kernel
    domains: list[BasicSet] = []
    for domain in kernel.domains:
        names = dim_names(domain)
        domains += domains_without(domain, [name for name in names if name in unused])
    priority = dict.fromkeys(
        tuple(name for name in names if name not in unused) for names in kernel.loop_priority
    )
    slabs = kernel.iname_slab_increments
    return kernel.copy(
        domains=domains,
        inames={name: iname for name, iname in kernel.inames.items() if name not in unused},
        loop_priority=tuple(names for names in priority if len(names) > 1),
        iname_slab_increments={name: s for name, s in slabs.items() if name not in unused},
    )
