"""Access sites: uses of precomputed values, and their replacement."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pymbolic.primitives as p
from constantdict import constantdict

from kgen.analysis.access import Access, Place
from kgen.analysis.swept import Axis, first_outside, swept_footprint
from kgen.errors import TransformError, counted
from kgen.ir.data import SubstitutionRule
from kgen.ir.expr import Expr, subscript, substitute, tags_of, variable_names
from kgen.ir.kernel import LoopKernel
from kgen.transforms.array_accesses import ArrayAccessMapper, Index, InsnT, Rewrite
from kgen.transforms.expressions.rules import expand_expression

__all__ = ["SiteRewriter", "Values", "with_rules_kept"]


@dataclass(frozen=True, kw_only=True)
class Values:
    """Values of a rule or an array that a kernel will store, and the sites that will read them.

    ``rule`` defines the values by position: a rule of the kernel, or ``a_fetch_rule(i) := a[i]``
    for fetches of an array. Instructions refer to ``name``, the rule or the array. The subscripts
    of ``sites`` are arguments of the rule, and use no rules themselves. ``rule_stays`` tells
    whether the kernel uses the rule at other places, too.

    If uses are *given*, they determine the values to store instead of the sites; ``None`` in a use
    stands for all *valid* arguments, conditions by argument. With *has_more*, values are defined
    for all valid arguments, and may be stored even if nothing uses them.
    """

    kernel: LoopKernel
    rule: SubstitutionRule
    name: str
    sites: tuple[Access, ...]
    rule_stays: bool = False
    given: tuple[Index, ...] = ()
    valid: Mapping[str, tuple[Expr, ...]] = constantdict()
    has_more: bool = False
    #: the kernel with the rules around the sites, where all uses of the values are sites
    unexpanded: LoopKernel | None = None

    def axis(self, argument: str, name: str) -> Axis:
        """Return the axis along an argument, called *name*, with the conditions on it."""
        renamed = {argument: p.Variable(name)}
        return Axis(name, tuple(substitute(c, renamed) for c in self.valid.get(argument, ())))

    def can_stay(self, mentioned: Collection[str]) -> bool:
        """Tell whether reads that mention some names can replace the uses in other rules.

        An argument of such a rule may not have a name that the reads mention.
        """
        kept = self.unexpanded.substitutions if self.unexpanded else {}
        changed = (r for n, r in kept.items() if self.kernel.substitutions.get(n) != r)
        names = {self.name, *mentioned}
        return all(names.isdisjoint(r.arguments) for r in changed if r != self.rule)

    def position(self, axes: Sequence[str], operands: Index) -> Index:
        """Return the position of a use along the axes of the storage: arguments or swept inames."""
        arguments = self.rule.arguments
        if len(operands) != len(arguments):
            what = (
                f"rule '{self.rule}' takes {counted(len(arguments), 'argument')}, not "
                f"{len(operands)}"
            )
            raise TransformError(what)
        at = dict(zip(arguments, operands, strict=True))
        return tuple(at[axis] if axis in at else p.Variable(axis) for axis in axes)

    def accesses(self, axes: Sequence[str]) -> tuple[Access, ...]:
        """Return the sites, with subscripts along the axes of the storage."""
        return tuple(replace(s, index=self.position(axes, s.index or ())) for s in self.sites)

    def given_accesses(self, axes: Sequence[str]) -> tuple[Access, ...]:
        """Return the accesses of the given uses, in all loops that they name."""
        found = []
        for operands in self.given:
            index = self.position(axes, operands)
            names = variable_names(*(i for i in index if i is not None))
            place = Place(self.kernel.in_order(self.kernel.iname_order.keys() & names))
            found.append(Access("", self.name, index, False, place))
        return tuple(found)

    def covered(
        self, axes: Sequence[str], given: Sequence[Access], outer: Collection[str]
    ) -> Values:
        """Remove the sites that *given* does not cover in each iteration of loops in *outer*.

        If it covers none, all sites stay, so that later checks report them.
        """
        dims = [self.axis(axis, f"{axis}'") for axis in axes]
        stored = swept_footprint(self.kernel, given, outer, dims)
        plain = [Axis(dim.name) for dim in dims]

        def is_covered(access: Access) -> bool:
            if not set(outer) <= set(access.place.inames):
                return False
            try:
                used = swept_footprint(self.kernel, [access], outer, plain)
            except TransformError:  # a subscript is not affine
                return False
            return first_outside(self.kernel, used, stored) is None

        pairs = zip(self.sites, self.accesses(axes), strict=True)
        left = {(site.insn_id, site.index) for site, access in pairs if not is_covered(access)}
        sites = tuple(site for site in self.sites if (site.insn_id, site.index) not in left)
        return replace(self, sites=sites, rule_stays=True) if left and sites else self


def with_rules_kept(kernel: LoopKernel, expanded: LoopKernel) -> LoopKernel | None:
    """Return *kernel* if *expanded* lacks some of its rules, else ``None``."""
    return None if kernel.substitutions == expanded.substitutions else kernel


class SiteRewriter(ArrayAccessMapper):
    """Rewrites the uses of a rule, or reads of an array, only at the sites of values."""

    def __init__(self, values: Values, rewrite: Rewrite, mentioned: Collection[str]) -> None:
        super().__init__(values.kernel, {values.name: rewrite}, keep_linear=True)
        #: the kernel whose instructions are rewritten
        self.written = self.kernel
        self.all_uses = False
        if values.unexpanded is not None and values.can_stay(mentioned):
            self.written, self.all_uses = values.unexpanded, True
        self.sites = {(site.insn_id, site.tags, site.index) for site in values.sites}
        self.stored_rules = self.names & self.kernel.substitutions.keys()
        self.insn_id = ""

    def change_reads(self, insn: InsnT, **changes: Any) -> InsnT:
        """Return an instruction with its sites rewritten, and other *changes*."""
        self.insn_id = str(insn.id)
        return super().change_reads(insn, **changes)

    def rules(self) -> dict[str, SubstitutionRule]:
        """Return the rules, with the uses of values in them rewritten."""
        return {name: self._in_rule(rule) for name, rule in self.written.substitutions.items()}

    def _in_rule(self, rule: SubstitutionRule) -> SubstitutionRule:
        """Return a rule with its uses of the values rewritten; all of them must be sites."""
        if not self.all_uses or rule.name in self.names:
            return rule
        expression = self(rule.expression)
        return rule if expression is rule.expression else rule.copy(expression=expression)

    def map_call(self, expr: p.Call, *args: Any) -> Expr:
        function = expr.function
        if isinstance(function, p.Variable) and function.name in self.stored_rules:
            return self._rewritten(expr, function, self.map_tuple(expr.parameters, *args))
        return super().map_call(expr, *args)

    def _rewritten(self, expr: Expr, variable: p.Variable, index: Index) -> Expr:
        if self.all_uses:
            return self.rewrites[variable.name](variable, index)
        is_call = isinstance(expr, p.Call)
        old = expr.parameters if is_call else expr.index_tuple if index else ()
        site = (
            self.insn_id,
            tags_of(variable),
            tuple(expand_expression(self.kernel, part) for part in old),
        )
        if site in self.sites:
            return self.rewrites[variable.name](variable, index)
        return p.Call(variable, index) if is_call else subscript(variable, index)
