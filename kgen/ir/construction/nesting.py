"""The loops around each instruction."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pymbolic.primitives as p

from kgen.errors import InvalidValueError, KernelError, near_names
from kgen.ir.assignee import assignee_name, index_of
from kgen.ir.construction.dependencies import where
from kgen.ir.data import SubstitutionRule
from kgen.ir.expr import Expr, Reduction, WalkMapper, to_text, variable_names, walk
from kgen.ir.instruction import InstructionBase
from kgen.ir.mentions import Mentions, mentions_of

if TYPE_CHECKING:
    from kgen.ir.kernel import LoopKernel

__all__ = ["check_loops_of_rules", "find_within_inames"]


def find_within_inames(kernel: LoopKernel, mentioned: Sequence[Mentions]) -> list[frozenset[str]]:
    """Return the loops around each instruction of *kernel*.

    These are the requested loops, those whose variables the instruction uses, and,
    unless ``within_inames_is_final``, those in which the values that it reads are computed:
    for every variable read, the loops that all its writers share, except if the loop variable
    is in the written subscript, also through temporaries or rules, or the reader
    reduces over it. Loops that bounds depend on are added.
    """
    inames = frozenset(kernel.inames)
    own = []
    for insn, found in zip(kernel.instructions, mentioned, strict=True):
        unknown = sorted(insn.within_inames - inames)
        if unknown:
            raise InvalidValueError(
                f"'{unknown[0]}' is not an iname",
                where=where(insn),
                hint=near_names(unknown[0], inames),
            )
        used = inames.intersection(found.variables)
        own.append(kernel.with_outer_inames(insn.within_inames | used))
    result = _inherit(kernel, mentioned, own, inames)
    for insn, found, within in zip(kernel.instructions, mentioned, result, strict=True):
        _check_bound(kernel, insn, found, within)
    return result


def _inherit(
    kernel: LoopKernel,
    mentioned: Sequence[Mentions],
    own: list[frozenset[str]],
    inames: frozenset[str],
) -> list[frozenset[str]]:
    writers: dict[str, list[tuple[int, frozenset[str]]]] = {}
    for k, insn in enumerate(kernel.instructions):
        for lhs in insn.assignees:
            found = mentions_of(*index_of(lhs), rules=kernel.substitutions)
            writers.setdefault(assignee_name(lhs), []).append((k, frozenset(found.variables)))
    writers = {
        name: [(k, _loops_named(index, writers, own) & inames) for k, index in places]
        for name, places in writers.items()
    }
    if all(own[k] <= subscript for places in writers.values() for k, subscript in places):
        return own
    sources = [
        [] if insn.within_inames_is_final else _written_inputs(kernel, found, own[k], writers)
        for k, (insn, found) in enumerate(zip(kernel.instructions, mentioned, strict=True))
    ]
    readers: dict[str, list[int]] = {}
    for k, names in enumerate(sources):
        for name in names:
            readers.setdefault(name, []).append(k)
    result = list(own)
    queue = deque(k for k, names in enumerate(sources) if names)
    queued = set(queue)
    while queue:
        k = queue.popleft()
        queued.discard(k)
        more = result[k]
        for name in sources[k]:
            shared = [result[w] - subscript for w, subscript in writers[name]]
            more = more | frozenset.intersection(*shared).difference(
                mentioned[k].reduced, mentioned[k].swept
            )
        if more != result[k]:
            result[k] = kernel.with_outer_inames(more)
            for name in kernel.instructions[k].assignee_var_names():
                again = [r for r in readers.get(name, ()) if r not in queued]
                queue.extend(again)
                queued.update(again)
    return result


def _loops_named(
    index: frozenset[str],
    writers: Mapping[str, Sequence[tuple[int, frozenset[str]]]],
    own: Sequence[frozenset[str]],
) -> frozenset[str]:
    """Return the variables in a subscript, and the loops in which these are computed."""
    return index.union(*(own[k] for name in index for k, _ in writers.get(name, ())))


def _written_inputs(
    kernel: LoopKernel,
    found: Mentions,
    own: frozenset[str],
    writers: Mapping[str, object],
) -> list[str]:
    """Return the names that an instruction reads and some instruction writes, also in bounds."""
    names = dict.fromkeys(name for name in found.variables if name in writers)
    for iname in sorted(own.union(found.reduced) & set(kernel.home_domain)):
        for name in kernel._domain_params[kernel.home_domain[iname]]:
            if name in writers:
                names[name] = None
    return list(names)


def _check_bound(
    kernel: LoopKernel, insn: InstructionBase, found: Mentions, within: frozenset[str]
) -> None:
    for verb, bound in (("reduces over", found.reduced), ("passes all of", found.swept)):
        for name in bound:
            if name not in kernel.inames:
                raise KernelError(
                    f"'{name}', which the instruction {verb}, is not an iname",
                    where=where(insn),
                    hint=near_names(name, kernel.inames),
                )
            if name in within:
                raise KernelError(
                    f"the instruction {verb} '{name}' and is inside the loop over it",
                    where=where(insn),
                    because=f"its loops are {', '.join(sorted(within))}",
                    hint="use another loop variable for one of them, declared in the domain",
                )


# -- reductions in rules ------------------------------------------------------------------


def check_loops_of_rules(kernel: LoopKernel) -> None:
    """Reject uses of rules inside a reduction over a loop over which the rule reduces, too.

    The arguments of such a use must not depend on the loop. ``max(j, y)`` in the rule, which may be
    meant as a function of the ``j`` around, is always rejected.
    """
    if not kernel.substitutions:
        return
    for insn in kernel.instructions:
        check = _LoopsOfRules(kernel.substitutions, where(insn))
        for expr in insn.expressions():
            check(expr, frozenset())
    for rule in kernel.substitutions.values():
        _LoopsOfRules(kernel.substitutions, str(rule))(rule.expression, frozenset())


class _LoopsOfRules(WalkMapper):
    """Visits expressions with the loop variables of the reductions around."""

    def __init__(self, rules: Mapping[str, SubstitutionRule], where: str) -> None:
        super().__init__()
        self.rules, self.where = rules, where

    def map_reduction(self, expr: Reduction, around: frozenset[str]) -> None:
        for part in expr.exprs:
            self.rec(part, around.union(expr.inames))

    def map_variable(self, expr: p.Variable, around: frozenset[str]) -> None:
        if around and expr.name in self.rules:
            self._check(expr.name, (), around)

    def map_call(self, expr: p.Call, around: frozenset[str]) -> None:
        if around and isinstance(expr.function, p.Variable) and expr.function.name in self.rules:
            self._check(expr.function.name, expr.parameters, around)
        for part in expr.parameters:
            self.rec(part, around)

    def _check(self, name: str, operands: tuple[Expr, ...], around: frozenset[str]) -> None:
        given = variable_names(*operands)
        for reduction in self._reductions(name, ()):
            is_function = reduction.operation.name in ("min", "max")
            for iname in sorted(around.intersection(reduction.inames)):
                if iname in given or is_function:
                    raise self._failure(name, reduction, iname)

    def _failure(self, name: str, reduction: Reduction, iname: str) -> KernelError:
        return KernelError(
            f"rule '{name}' reduces over '{iname}' and is used inside a reduction over '{iname}'",
            where=self.where,
            because=f"the rule has {to_text(reduction)}",
            hint="use another loop variable in the rule, declared in the domain; or make "
            f"'{iname}' an argument of the rule, if it is that of the reduction around",
        )

    def _reductions(self, name: str, stack: tuple[str, ...]) -> list[Reduction]:
        """Return the reductions in a rule and in those that it uses."""
        found: list[Reduction] = []
        for node in walk(self.rules[name].expression):
            if isinstance(node, Reduction):
                found.append(node)
            used = node.function if isinstance(node, p.Call) else node
            other = used.name if isinstance(used, p.Variable) else name
            if other in self.rules and other not in (name, *stack):
                found += self._reductions(other, (*stack, name))
        return found
