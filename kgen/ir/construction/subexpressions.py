"""Common subexpressions that users mark: computed once, in temporaries."""

from __future__ import annotations

import pymbolic.primitives as p
from pytools import UniqueNameGenerator

from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import Expr, IdentityMapper, Reduction, SubArrayRef, variable_names
from kgen.ir.instruction import Assignment, CallInstruction, InstructionBase, assign_beside
from kgen.ir.kernel import LoopKernel
from kgen.ir.mentions import mentions_of

__all__ = ["realize_subexpressions"]


def realize_subexpressions(kernel: LoopKernel) -> LoopKernel:
    """Compute pymbolic's ``CommonSubexpression`` nodes once each, in temporaries.

    ::

        a[i] = CSE(b[i] + 1)*CSE(b[i] + 1)   =>   cse = b[i] + 1
                                                  a[i] = cse*cse

    Instructions in the same loops share one, if nothing can change its value in between.
    Expressions that are not always evaluated, or are evaluated in each step of a reduction, stay
    where they are, without the mark; so do predicates, subscripts of assignees, and rules.
    """
    marked = any(insn.reads.has(p.CommonSubexpression) for insn in kernel.instructions)
    rules = {
        name: rule.copy(expression=_Unmarker()(rule.expression))
        for name, rule in kernel.substitutions.items()
        if mentions_of(rule.expression).has(p.CommonSubexpression)
    }
    if not marked and not rules:
        return kernel
    realizer = _Realizer(kernel)
    for insn in kernel.instructions:
        realizer.add(insn)
    return kernel.copy(
        instructions=tuple(realizer.instructions),
        temporary_variables={**kernel.temporary_variables, **realizer.temporaries},
        substitutions={**kernel.substitutions, **rules},
    )


class _Unmarker(IdentityMapper):
    """Removes the marks from marked expressions."""

    def map_common_subexpression(self, expr: p.CommonSubexpression, *args: object) -> Expr:
        return self.rec(expr.child, *args)


class _Realizer:
    """Rebuilds the instructions of a kernel, with those that compute subexpressions."""

    def __init__(self, kernel: LoopKernel) -> None:
        self.kernel = kernel
        self.instructions: list[InstructionBase] = []
        self.temporaries: dict[str, TemporaryVariable] = {}
        self.new_name = UniqueNameGenerator(set(kernel.all_variable_names()))
        self.new_id = UniqueNameGenerator(set(kernel.id_to_insn))
        self.shared: dict[object, str] = {}
        self.made_by: dict[str, str] = {}

    def add(self, insn: InstructionBase) -> None:
        """Add *insn*, after the instructions that compute its subexpressions."""
        if not insn.reads.has(p.CommonSubexpression):
            self.instructions.append(insn)
            return
        if not isinstance(insn, Assignment | CallInstruction):
            self.instructions.append(insn.with_transformed_expressions(_Unmarker()))
            return
        hoister = _Hoister(self, insn)
        expression = hoister(insn.expression, False)
        waits = insn.depends_on.union(self.made_by[name] for name in hoister.names.values())
        self.instructions.append(
            insn.with_transformed_expressions(_Unmarker()).copy(
                expression=expression, depends_on=waits
            )
        )

    def name_of(self, insn: InstructionBase, node: p.CommonSubexpression, value: Expr) -> str:
        """Return the temporary that holds *value* for *insn*, creating it if necessary."""
        waits = self._waits_for(insn, value)
        key = (value, insn.within_inames, insn.predicates, insn.tags)
        if waits is not None and key in self.shared:
            return self.shared[key]
        name = self.new_name(f"cse_{node.prefix}" if node.prefix else "cse")
        self.temporaries[name] = TemporaryVariable(name, shape=())
        maker = assign_beside(
            insn,
            p.Variable(name),
            value,
            self.new_id(name),
            depends_on=insn.depends_on if waits is None else waits,
            predicates=tuple(map(_Unmarker(), insn.predicates)),
        )
        self.instructions.append(maker)
        self.made_by[name] = str(maker.id)
        if waits is not None:
            self.shared[key] = name
        return name

    def _waits_for(self, insn: InstructionBase, value: Expr) -> frozenset[str] | None:
        """Return the only writers of the names in *value*, if *insn* depends on all of them.

        ``None`` if these names may have other values elsewhere in the same loops.
        """
        if insn.groups or insn.conflicts_with_groups or insn.no_sync_with:
            return None
        waits: set[str] = set()
        read = mentions_of(value, *insn.predicates, rules=self.kernel.substitutions)
        for name in read.variables:
            if name in self.made_by:
                waits.add(self.made_by[name])
                continue
            writers = self.kernel.writers.get(name, ())
            if len(writers) > 1 or not insn.depends_on.issuperset(writers):
                return None
            waits.update(writers)
        return frozenset(waits)


class _Hoister(IdentityMapper):
    """Replaces marked expressions by temporaries, except where they are conditionally evaluated."""

    def __init__(self, realizer: _Realizer, insn: InstructionBase) -> None:
        super().__init__()
        self.realizer = realizer
        self.insn = insn
        self.names: dict[Expr, str] = {}

    def map_common_subexpression(self, expr: p.CommonSubexpression, maybe: bool) -> Expr:
        name = self.names.get(expr.child)
        if name is None:
            value = self.rec(expr.child, maybe)
            if maybe or isinstance(value, p.Variable) or not variable_names(value):
                return value
            name = self.names[expr.child] = self.realizer.name_of(self.insn, expr, value)
        return p.Variable(name)

    def map_if(self, expr: p.If, maybe: bool) -> Expr:
        return p.If(
            self.rec(expr.condition, maybe), self.rec(expr.then, True), self.rec(expr.else_, True)
        )

    def map_logical_and(self, expr: p.LogicalAnd | p.LogicalOr, maybe: bool) -> Expr:
        return type(expr)(
            tuple(self.rec(child, maybe or k > 0) for k, child in enumerate(expr.children))
        )

    map_logical_or = map_logical_and

    def map_reduction(self, expr: Reduction, maybe: bool) -> Expr:
        return super().map_reduction(expr, True)

    def map_sub_array_ref(self, expr: SubArrayRef, maybe: bool) -> Expr:
        return super().map_sub_array_ref(expr, True)
