"""Mappers that know the substitution rules around an expression, and change the rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pymbolic.primitives as p
from constantdict import constantdict

from kgen.errors import TransformError, counted
from kgen.ir.data import ArrayArg, SubstitutionRule
from kgen.ir.expr import Expr, TaggedVariable, substitute, tags_of
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.mappers import IdentityMapper
from kgen.ir.mentions import mentions_of

__all__ = [
    "ExpansionState",
    "RuleAwareIdentityMapper",
    "RuleAwareSubstitutionMapper",
    "SubstitutionRuleMappingContext",
]

#: Tells whether a place is selected, given a kernel, an instruction and the rules around it.
Within: TypeAlias = Callable[[LoopKernel, InstructionBase, tuple[Any, ...]], bool]


@dataclass(frozen=True)
class ExpansionState:
    """The place of an expression: the instruction, and the rules around it with their tags.

    ``arg_context`` has the values of the arguments of the innermost rule, in terms of the
    instruction's variables.
    """

    kernel: LoopKernel
    instruction: InstructionBase
    stack: tuple[tuple[str, frozenset[Any]], ...] = ()
    arg_context: Mapping[str, Expr] = constantdict()

    @property
    def insn_id(self) -> Any:
        """The id of the instruction."""
        return self.instruction.id

    def copy(self, **changes: Any) -> ExpansionState:
        """Return this with some fields changed."""
        return dataclasses.replace(self, **changes)

    def apply_arg_context(self, expr: Expr) -> Expr:
        """Write an expression of a rule in terms of the instruction's variables."""
        return substitute(expr, self.arg_context)


class SubstitutionRuleMappingContext:
    """Collects the rules into which mappers change the rules of a kernel."""

    def __init__(
        self,
        old_subst_rules: Mapping[str, SubstitutionRule],
        make_unique_var_name: Callable[[str], str],
    ) -> None:
        self.rules = dict(old_subst_rules)
        self.make_unique_var_name = make_unique_var_name
        self._made = {
            (rule.name, rule.arguments, rule.expression): rule.name
            for rule in old_subst_rules.values()
        }

    def register_subst_rule(self, original_name: str, args: tuple[str, ...], body: Expr) -> str:
        """Return the name of the changed rule *original_name*; a new rule gets a new name."""
        key = original_name, args, body
        if key not in self._made:
            name = self._made[key] = str(self.make_unique_var_name(original_name))
            self.rules[name] = SubstitutionRule(name, args, body)
        return self._made[key]

    def finish_kernel(self, kernel: LoopKernel) -> LoopKernel:
        """Return a mapped kernel with the rules that it uses now.

        If nothing uses the original version of a rule, its first changed version gets its name.
        """
        used = self._used_in(kernel)
        names: dict[str, str] = {}
        for old in sorted({original for original, _, _ in self._made}.difference(used)):
            made = [name for (original, _, _), name in self._made.items() if original == old]
            kept = [name for name in made if name in used]
            names.update(zip(kept, [old, *kept], strict=False))
        rename = _RuleRenamer(names)
        rules = [self.rules[name] for name in sorted(used)]
        if names:
            kernel = kernel.map_instructions(lambda insn: insn.with_transformed_expressions(rename))
            rules = [
                SubstitutionRule(
                    names.get(rule.name, rule.name), rule.arguments, rename(rule.expression)
                )
                for rule in rules
            ]
        return kernel.copy(substitutions={rule.name: rule for rule in rules})

    def _used_in(self, kernel: LoopKernel) -> set[str]:
        """Return the names of the rules that instructions use, also through other rules."""
        used: set[str] = set()
        open_exprs = [expr for insn in kernel.instructions for expr in insn.expressions()]
        while open_exprs:
            found = mentions_of(*open_exprs)
            names = {*found.variables, *found.functions} & self.rules.keys()
            open_exprs = [self.rules[name].expression for name in sorted(names - used)]
            used |= names
        return used


class _RuleRenamer(IdentityMapper):
    """Renames rules where they are used."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__()
        self.names = names

    def map_variable(self, expr: p.Variable, *args: Any) -> Expr:
        return p.Variable(self.names[expr.name]) if expr.name in self.names else expr

    def map_tagged_variable(self, expr: TaggedVariable, *args: Any) -> Expr:
        return TaggedVariable(self.names.get(expr.name, expr.name), expr.tags)

    def map_call(self, expr: p.Call, *args: Any) -> Expr:
        parameters = tuple(self.rec(part, *args) for part in expr.parameters)
        return p.Call(self.rec(expr.function, *args), parameters)


class RuleAwareIdentityMapper(IdentityMapper):
    """Copy the expressions of a kernel, inside of rules for each use by itself.

    A subclass changes what it defines: ``map_variable(self, expr, expn_state)``. If two uses of a
    rule are changed differently, they become uses of two rules. ::

        names = kernel.get_var_name_generator()
        context = SubstitutionRuleMappingContext(kernel.substitutions, names)
        kernel = context.finish_kernel(MyMapper(context).map_kernel(kernel))
    """

    def __init__(self, rule_mapping_context: SubstitutionRuleMappingContext) -> None:
        super().__init__()
        self.rule_mapping_context = rule_mapping_context

    def __call__(self, expr: Expr, kernel: LoopKernel, insn: InstructionBase) -> Expr:
        """Map one expression of an instruction."""
        return self.rec(expr, ExpansionState(kernel, insn))

    def map_variable(self, expr: p.Variable, expn_state: ExpansionState, *args: Any) -> Expr:
        if expr.name in expn_state.arg_context or expr.name not in expn_state.kernel.substitutions:
            return super().map_variable(expr, expn_state, *args)
        return self.map_substitution(expr.name, tags_of(expr), (), expn_state, *args)

    map_tagged_variable = map_variable

    def map_call(self, expr: p.Call, expn_state: ExpansionState, *args: Any) -> Expr:
        name = expr.function
        if not isinstance(name, p.Variable) or name.name not in expn_state.kernel.substitutions:
            return super().map_call(expr, expn_state, *args)
        return self.map_substitution(name.name, tags_of(name), expr.parameters, expn_state, *args)

    def map_substitution(  # type: ignore[override]
        self,
        name: str,
        tags: frozenset[Any],
        arguments: tuple[Expr, ...],
        expn_state: ExpansionState,
        *args: Any,
    ) -> Expr:
        """Map one use of a rule: what it passes, and what the rule is for this use."""
        rule = expn_state.kernel.substitutions[name]
        if len(arguments) != len(rule.arguments):
            raise TransformError(
                f"the rule '{name}' takes {counted(len(rule.arguments), 'argument')}, but is "
                f"used with {len(arguments)}"
            )
        passed = self.map_tuple(arguments, expn_state, *args)
        inner = expn_state.copy(
            stack=(*expn_state.stack, (name, tags)),
            arg_context=self.make_new_arg_context(rule.arguments, arguments, expn_state),
        )
        body = self.rec(rule.expression, inner, *args)
        name = self.rule_mapping_context.register_subst_rule(name, rule.arguments, body)
        new = TaggedVariable(name, tags) if tags else p.Variable(name)
        return p.Call(new, passed) if rule.arguments else new

    def make_new_arg_context(
        self, names: tuple[str, ...], arguments: tuple[Expr, ...], expn_state: ExpansionState
    ) -> Mapping[str, Expr]:
        """Return the values of the arguments of a rule, in terms of the instruction's variables."""
        values = map(expn_state.apply_arg_context, arguments)
        return constantdict(zip(names, values, strict=True))

    def map_instruction(self, kernel: LoopKernel, insn: InstructionBase) -> InstructionBase:
        """Change an instruction before its expressions are mapped, in subclasses."""
        return insn

    def map_kernel(
        self,
        kernel: LoopKernel,
        within: Within = lambda kernel, insn, stack: True,
        map_args: bool = True,
        map_tvs: bool = True,
    ) -> LoopKernel:
        """Map the instructions that are *within*, and the shapes of arguments and temporaries."""

        def of_declaration(expr: Expr) -> Expr:
            return self.rec(expr, ExpansionState(kernel, InstructionBase()))

        def mapped(insn: InstructionBase) -> InstructionBase:
            changed = self.map_instruction(kernel, insn)
            return changed.with_transformed_expressions(lambda expr: self(expr, kernel, insn))

        instructions = [
            mapped(insn) if within(kernel, insn, ()) else insn for insn in kernel.instructions
        ]
        changes: dict[str, Any] = {"instructions": instructions}
        if map_args:
            changes["args"] = [
                arg.map_exprs(of_declaration) if isinstance(arg, ArrayArg) else arg
                for arg in kernel.args
            ]
        if map_tvs:
            temporaries = kernel.temporary_variables
            changes["temporary_variables"] = {
                name: each.map_exprs(of_declaration) for name, each in temporaries.items()
            }
        return kernel.copy(**changes)


class RuleAwareSubstitutionMapper(RuleAwareIdentityMapper):
    r"""Replace variables at the places that *within* selects.

    *subst_func* gets a variable and returns its replacement, or ``None``.

    >>> import kgen as lp
    >>> knl = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "twice(x) := 2*a[x] + m\nout[i] = twice(i)").default_entrypoint
    >>> context = SubstitutionRuleMappingContext(knl.substitutions, knl.get_var_name_generator())
    >>> mapper = RuleAwareSubstitutionMapper(
    ...     context, {p.Variable("m"): p.Variable("k") + 1}.get, lambda *where: True)
    >>> changed = context.finish_kernel(mapper.map_kernel(knl))
    >>> print(*changed.substitutions.values(), *changed.instructions, sep="\n")
    twice(x) := 2*a[x] + (k + 1)
    out[i] = twice(i)  {id=insn}
    """

    def __init__(
        self,
        rule_mapping_context: SubstitutionRuleMappingContext,
        subst_func: Callable[[Expr], Expr | None],
        within: Within,
    ) -> None:
        super().__init__(rule_mapping_context)
        self.subst_func = subst_func
        self.within = within

    def map_variable(self, expr: p.Variable, expn_state: ExpansionState, *args: Any) -> Expr:
        state = expn_state
        if expr.name not in state.arg_context and self.within(
            state.kernel, state.instruction, state.stack
        ):
            found = self.subst_func(expr)
            if found is not None:
                return found
        return super().map_variable(expr, expn_state, *args)
