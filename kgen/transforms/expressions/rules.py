"""Substitution rules: expanding their uses, and finding them by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from fnmatch import fnmatchcase
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeAlias

import pymbolic.primitives as p

from kgen.errors import TransformError, counted
from kgen.ir.checked import checked
from kgen.ir.data import SubstitutionRule
from kgen.ir.expansion import RuleExpander
from kgen.ir.expr import Expr, substitute, tags_of, to_text
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.match import ConcreteMatchable, StackMatch, parse_stack_match
from kgen.ir.mentions import mentions_of
from kgen.ir.unit import TranslationUnit, kernel_of, kernels_of
from kgen.transforms.select import NoSuchNameError, transform
from kgen.transforms.uses import called_rules, direct_rules, rules_of

__all__ = [
    "expand_callers",
    "expand_expression",
    "expand_subst",
    "find_one_rule_matching",
    "find_rules_matching",
]

#: The rules that enclose an expression, outermost first.
_Stack: TypeAlias = tuple[ConcreteMatchable, ...]


@transform
def expand_subst(kernel: LoopKernel, within: Any = None) -> LoopKernel:
    """Expand uses of substitution rules.

    :arg within: which uses; a stack match such as ``id:insn > id:rule``. Rules that are used
        elsewhere stay. A use inside another rule is expanded in a copy of that rule,
        unless it is selected for all uses of that rule.

    ::

        f(x) := 2*x            =>  a[i] = 2*b[i]
        a[i] = f(b[i])

    Raises :class:`TransformError` for rules that use each other cyclically, and for a use
    with a wrong number of arguments.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", ["f(x) := 2*x", "a[i] = f(b[i])"])
    >>> print(expand_subst(knl).default_entrypoint.instructions[0])
    a[i] = 2*b[i]  {id=insn}
    """
    rules = kernel.substitutions
    if not rules:
        return kernel
    order = _dependencies_first(kernel)
    expander = _Expander(kernel, None if within is None else parse_stack_match(within))
    if within is None:
        for name in order:
            expander.bodies[name] = expander.rec(expander.rules[name].expression, ())
    return _expanded(kernel, expander)


def expand_callers(kernel: LoopKernel, names: Collection[str]) -> LoopKernel:
    """Expand the rules that use a rule or an array in *names*, directly or through others."""
    rules = kernel.substitutions
    callers: set[str] = set()
    for name in _dependencies_first(kernel) if rules else ():
        found = mentions_of(rules[name].expression)
        if not callers.union(names).isdisjoint((*found.functions, *found.variables)):
            callers.add(name)
    if not callers:
        return kernel
    return _expanded(kernel, _Expander(kernel, lambda _, __, stack: stack[-1].id in callers))


def expand_expression(kernel: LoopKernel, expr: Expr) -> Expr:
    """Expand all rules in an expression."""
    return _Expander(kernel, None).rec(expr, ())


def _expanded(kernel: LoopKernel, expander: _Expander) -> LoopKernel:
    """Expand in all instructions, and drop the rules that nothing uses any more."""
    rules = kernel.substitutions
    instructions = tuple(expander.expand_in(insn) for insn in kernel.instructions)
    rules = {**rules, **expander.variants}
    used = rules_of(rules, instructions)
    return kernel.copy(
        instructions=instructions,
        substitutions={name: rule for name, rule in rules.items() if name in used},
    )


class _Expander(RuleExpander):
    """Replaces uses of rules; ``rec(expr, stack)`` knows inside which rules *expr* stands.

    ``bodies`` holds rules that are expanded already, ``variants`` those that differ from a
    rule of the kernel by what was expanded inside.
    """

    def __init__(self, kernel: LoopKernel, test: StackMatch | None) -> None:
        super().__init__(_without_capture(kernel))
        self.kernel = kernel
        self.test = test
        self.bodies: dict[str, Expr] = {}
        self.insn: InstructionBase | None = None
        self.variants: dict[str, SubstitutionRule] = {}
        self._n_changes = 0
        self._variant_names: dict[tuple[str, str], str] = {}

    @cached_property
    def _new_name(self) -> Callable[[str], str]:
        return self.kernel.get_var_name_generator()

    def expand_in(self, insn: InstructionBase) -> InstructionBase:
        """Expand the rules that *insn* uses."""
        if insn.mentioned.isdisjoint(self.kernel.substitutions):
            return insn
        self.insn = insn
        return insn.with_transformed_expressions(lambda expr: self.rec(expr, ()))

    def use(self, expr: Expr, name: p.Variable, operands: tuple[Expr, ...], stack: _Stack) -> Expr:
        """Return the expansion of a use; raises :class:`TransformError` for wrong operands."""
        rule = self.rules[name.name]
        inner = (*stack, ConcreteMatchable(rule.name, tags_of(name)))
        if not self._is_meant(inner):
            new = self._variant(rule, inner)
            self._n_changes += new != rule.name
            return self._with_name(expr, new)
        self._n_changes += 1
        body = self.bodies.get(rule.name)
        if body is None:
            body = self.rec(rule.expression, inner)
        if len(operands) != len(rule.arguments):
            raise TransformError(
                f"rule '{rule}' takes {counted(len(rule.arguments), 'argument')}, not "
                f"{len(operands)}",
                where=None if self.insn is None else f"instruction '{self.insn.id}'",
            )
        return substitute(body, dict(zip(rule.arguments, operands, strict=True)))

    def _variant(self, rule: SubstitutionRule, inner: _Stack) -> str:
        """Return the name of a variant of *rule* with the selected uses inside expanded."""
        before = self._n_changes
        body = self.rec(rule.expression, inner)
        if self._n_changes == before:
            return rule.name
        key = (rule.name, to_text(body))
        if key not in self._variant_names:
            new = self._variant_names[key] = self._new_name(rule.name)
            self.variants[new] = dataclasses.replace(rule, name=new, expression=body)
        return self._variant_names[key]

    @staticmethod
    def _with_name(use: Expr, new: str) -> Expr:
        """Return *use*, a variable or a call, of the rule *new* instead."""
        name = use.function if isinstance(use, p.Call) else use
        assert isinstance(name, p.Variable)
        if name.name == new:
            return use
        name = dataclasses.replace(name, name=new)
        return dataclasses.replace(use, function=name) if isinstance(use, p.Call) else name

    def _is_meant(self, stack: _Stack) -> bool:
        if self.test is None or self.insn is None:
            return True
        return self.test(self.kernel, self.insn, stack)


def _without_capture(kernel: LoopKernel) -> dict[str, SubstitutionRule]:
    """Rename arguments of rules that have the name of something in a rule that they use.

    Rules are expanded inside of others before arguments get values: in ``g(i) := f(i)`` with
    ``f(x) := a[i, x]``, the first subscript is the loop around the use of ``g``.
    """
    rules = dict(kernel.substitutions)
    for name, rule in kernel.substitutions.items():
        inner = called_rules(rules, (rule.expression,)) if rule.arguments else ()
        taken = rules.keys() | frozenset().union(*(rules[one].free_names for one in inner))
        if taken.isdisjoint(rule.arguments):
            continue
        new_name = kernel.get_var_name_generator()
        new = {one: new_name(one) for one in rule.arguments if one in taken}
        rules[name] = dataclasses.replace(
            rule,
            arguments=tuple(new.get(one, one) for one in rule.arguments),
            expression=substitute(rule.expression, {one: p.Variable(new[one]) for one in new}),
        )
    return rules


def _dependencies_first(kernel: LoopKernel) -> tuple[str, ...]:
    """Order the rules so that each follows the rules that it uses; rejects recursion."""
    rules = kernel.substitutions
    uses = {
        name: [one for one in direct_rules(rules, (rule.expression,)) if one not in rule.arguments]
        for name, rule in rules.items()
    }
    try:
        return tuple(TopologicalSorter(uses).static_order())
    except CycleError as err:
        cycle = " -> ".join(reversed(err.args[1]))
        raise TransformError(
            "substitution rules use each other in a circle",
            because=cycle,
            hint="a rule stands for an expression and cannot call itself",
        ) from None


@checked
def find_rules_matching(kernel: LoopKernel | TranslationUnit, pattern: str) -> list[str]:
    """Return the names of the rules that match a pattern with ``*`` and ``?``, sorted.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", ["f1(x) := 2*x", "f2(x) := x", "a[i] = f1(f2(i))"])
    >>> find_rules_matching(knl, "f*")
    ['f1', 'f2']
    """
    names = {name for one in kernels_of(kernel) for name in one.substitutions}
    return sorted(name for name in names if fnmatchcase(name, pattern))


@checked
def find_one_rule_matching(program: LoopKernel | TranslationUnit, pattern: str) -> str:
    """Return the name of the only rule that matches a pattern.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", ["f1(x) := 2*x", "f2(x) := x", "a[i] = f1(f2(i))"])
    >>> find_one_rule_matching(knl, "*2")
    'f2'
    """
    found = find_rules_matching(program, pattern)
    if len(found) == 1:
        return found[0]
    if found:
        raise TransformError(
            f"{len(found)} rules fit '{pattern}': {', '.join(found)}\n  hint: name one of them"
        )
    raise NoSuchNameError(
        kernel_of(program).name, "rule", pattern, find_rules_matching(program, "*")
    )
