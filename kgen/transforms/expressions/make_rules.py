"""Extracting substitution rules from assignments and from repeated expressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import pymbolic.primitives as p
from pymbolic.mapper.unifier import UnidirectionalUnifier

from kgen.analysis.access import Access, collect_accesses, collect_accesses_to
from kgen.analysis.dependences import by_priority, in_lexicographic_order, loops_with_order
from kgen.analysis.instances import Instances, in_same_iteration
from kgen.analysis.reaching import describe_other_value
from kgen.analysis.reduction_bounds import loops_of_bounds
from kgen.errors import TransformError
from kgen.ir.assignee import index_of, with_subscripts
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.data import ArrayArg, SubstitutionRule
from kgen.ir.expr import Expr, IdentityMapper, LinearSubscript, Reduction, to_text
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.expressions import parse
from kgen.ir.mentions import mentions_of
from kgen.transforms.array_accesses import ArrayAccessMapper, Index, renamed
from kgen.transforms.expressions.rules import expand_expression
from kgen.transforms.select import (
    NoSuchNameError,
    NothingSelectedError,
    matcher,
    new_names,
    require_inames,
    require_new_name,
    split_names,
    transform,
)
from kgen.transforms.statements import remove_instructions
from kgen.transforms.uses import inames_used, without_unused_inames

__all__ = ["assignment_to_subst", "extract_subst", "reduction_arg_to_subst_rule"]


# -- of assignments ------------------------------------------------------------------------------


@transform
def assignment_to_subst(
    kernel: LoopKernel,
    lhs_name: str,
    extra_arguments: str | Iterable[str] = (),
    within: Any = None,
    force_retain_argument: bool = False,
) -> LoopKernel:
    """Turn the assignments to a variable into a rule, used wherever the variable is read.

    The subscripts of the assignee become the arguments of the rule. The assignment, the variable,
    and the loops that only the assignment used are removed if no instruction and no loop bound
    reads the variable any more.

    :arg extra_arguments: further loop variables that the rule takes as arguments
    :arg within: use the rule in the instructions that match
    :arg force_retain_argument: keep a variable that is an argument of the kernel

    ::

        t[i] = 2*a[i]   {id=t}   =>   t_subst(i) := 2*a[i]
        b[i] = t[i] + 1               b[i] = t_subst(i) + 1

    Raises :class:`TransformError` for an assignment that is conditional or reads what it
    writes, for a read that another write, or none, may reach, with its iteration, and if
    variables that the assignment reads may have changed when the variable is read.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", ["<> t[i] = 2*a[i]", "b[i] = t[i] + 1"])
    >>> print(assignment_to_subst(knl, "t").default_entrypoint.instructions[0])
    b[i] = t_subst(i) + 1  {id=insn_0}
    """
    known = {**kernel.arg_dict, **kernel.temporary_variables}
    if lhs_name not in known:
        raise NoSuchNameError(kernel.name, "variable", lhs_name, known)
    if lhs_name not in kernel.writers:
        raise TransformError(f"nothing is assigned to '{lhs_name}'")
    names = new_names(kernel)
    extra = split_names(extra_arguments)
    test = matcher(kernel, within)
    rules: dict[str, SubstitutionRule] = {}
    changed: dict[str, InstructionBase] = {}
    accesses = collect_accesses_to(kernel, lhs_name)
    for insn_id in kernel.readers.get(lhs_name, ()):
        insn = kernel.id_to_insn[insn_id]
        if lhs_name not in insn.read_dependency_names() or not test(insn):
            continue
        writer = _definition(kernel, insn, lhs_name)
        rule = rules.get(str(writer.id))
        if rule is None:
            rule = _rule_of(kernel, writer, names(f"{lhs_name}_subst"), extra)
            rules[str(writer.id)] = rule
        _check_use(kernel, writer, insn, rule, accesses)
        depends_on = insn.depends_on | (writer.depends_on - {insn_id})
        changed[insn_id] = _use_rule(kernel, insn, lhs_name, rule).copy(depends_on=depends_on)
    result = kernel.copy(
        instructions=tuple(changed.get(str(i.id), i) for i in kernel.instructions),
        substitutions={**kernel.substitutions, **{rule.name: rule for rule in rules.values()}},
    )
    is_needed = (
        lhs_name in result.readers
        or lhs_name in result.bounding_names
        or any(lhs_name in rule.free_names for rule in result.substitutions.values())
        or any(len(result.id_to_insn[i].assignees) > 1 for i in result.writers[lhs_name])
    )
    if is_needed:
        return result
    return _drop(result, lhs_name, keep=force_retain_argument)


def _definition(kernel: LoopKernel, reader: InstructionBase, name: str) -> Assignment:
    """Return the last assignment to *name* before *reader*, or raise an error."""
    ids = [insn_id for insn_id in kernel.writers[name] if insn_id != reader.id]
    if len(ids) > 1:
        before = ancestors(kernel, reader)
        ids = [insn_id for insn_id in ids if insn_id in before]
        seen = {insn_id: ancestors(kernel, kernel.id_to_insn[insn_id]) for insn_id in ids}
        ids = [one for one in ids if all(other == one or other in seen[one] for other in ids)]
    writer = kernel.id_to_insn[ids[0]] if len(ids) == 1 else None
    if isinstance(writer, Assignment):
        return writer
    what = (
        "by more than one instruction, or none"
        if writer is None
        else f"by '{writer.id}', which is not an assignment"
    )
    raise TransformError(
        f"'{name}', which '{reader.id}' reads, is written {what}",
        because=f"its writers are {', '.join(map(repr, kernel.writers[name]))}",
        hint=f"add_dependency(kernel, 'id:{reader.id}', 'id:...') orders them",
    )


def _rule_of(
    kernel: LoopKernel, writer: Assignment, name: str, extra: tuple[str, ...]
) -> SubstitutionRule:
    """Return ``name(subscripts) := expression``, or raise an error."""
    index = index_of(writer.assignee)
    subscripts = tuple(v.name for v in index if isinstance(v, p.Variable))
    reason: str | None = None
    if writer.predicates:
        reason = "it is conditional"
    elif isinstance(writer.assignee, LinearSubscript):
        reason = f"'{to_text(writer.assignee)}' is an element by its number in storage"
    elif not kernel.inames.keys() >= set(subscripts) or len(set(subscripts)) < len(index):
        reason = f"the subscripts of '{to_text(writer.assignee)}' are not distinct loop variables"
    elif not set(writer.assignee_var_names()).isdisjoint(writer.read_dependency_names()):
        reason = "it reads what it writes"
    if reason is not None:
        raise TransformError(
            f"instruction '{writer.id}', which writes '{writer.assignee_name}', cannot become "
            "a rule",
            where=str(writer),
            because=reason,
        )
    return SubstitutionRule(name, tuple(dict.fromkeys((*subscripts, *extra))), writer.expression)


def _check_use(
    kernel: LoopKernel,
    writer: Assignment,
    reader: InstructionBase,
    rule: SubstitutionRule,
    accesses: Sequence[Access],
) -> None:
    """Reject a use where the rule would not have the assigned value.

    :arg accesses: all accesses to the variable
    """
    value = expand_expression(kernel, rule.expression)
    read = mentions_of(value).variables.keys() - set(rule.arguments)
    missing = sorted((read & kernel.inames.keys()) - reader.within_inames)
    if missing:
        raise TransformError(
            f"instruction '{reader.id}' is not inside '{missing[0]}', on which "
            f"'{to_text(writer.assignee)}' depends",
            where=str(writer),
        )
    _check_reductions(kernel, writer, reader, rule)
    other_value = describe_other_value(kernel, writer, reader, accesses)
    if other_value is not None:
        raise TransformError(
            f"'{reader.id}' may read another value of '{writer.assignee_name}' than the one that "
            f"'{writer.id}' assigned",
            where=str(writer),
            point=other_value,
            hint=f"leave '{writer.assignee_name}' an array, or select other readers by 'within'",
        )
    before_writer = ancestors(kernel, writer) | {str(writer.id)}
    for name in sorted(read & kernel.writers.keys()):
        for insn_id in kernel.writers[name]:
            other = kernel.id_to_insn[insn_id]
            # a loop around reader and other: what comes after is before the next iteration
            again = (other.within_inames & reader.within_inames) - writer.within_inames
            is_later = reader.id in ancestors(kernel, other) and not again
            is_before = insn_id in before_writer and not _is_rewritten(
                kernel, writer, other, reader, name
            )
            is_own = insn_id == reader.id and not _changes_for_itself(
                kernel, _use_rule(kernel, reader, writer.assignee_name, rule), rule, name
            )
            if not (is_before or is_later or is_own):
                raise TransformError(
                    f"'{name}' may have changed between '{writer.id}' and '{reader.id}'",
                    because=f"'{insn_id}' writes it, and '{writer.id}' reads it",
                )


def _check_reductions(
    kernel: LoopKernel, writer: Assignment, reader: InstructionBase, rule: SubstitutionRule
) -> None:
    """Reject a use where a reduction in the rule would run over different values than before."""
    value = expand_expression(kernel, rule.expression)
    bounding = loops_of_bounds(kernel, value, writer.within_inames)
    if not bounding:
        return
    for use in collect_accesses(kernel, (reader,)):
        if use.array != writer.assignee_name or use.is_write:
            continue
        given = dict(zip(rule.arguments, use.index or (), strict=False))
        for loop in sorted(bounding):
            if loop not in use.place.inames or given.get(loop, p.Variable(loop)) != p.Variable(
                loop
            ):
                raise TransformError(
                    f"'{use}' in instruction '{reader.id}' cannot be replaced by the value of "
                    f"'{to_text(writer.assignee)}'",
                    where=str(writer),
                    because=f"a reduction in it has bounds that depend on '{loop}', which is a "
                    "different loop there",
                    hint=f"use the loop '{loop}' around '{reader.id}' too, and read "
                    f"'{to_text(writer.assignee)}'",
                )


def _changes_for_itself(
    kernel: LoopKernel, user: InstructionBase, rule: SubstitutionRule, name: str
) -> bool:
    """Tell whether the *user* of a rule writes what it reads of *name* in another iteration."""
    if not isinstance(user, Assignment):
        return True
    kernel = kernel.copy(substitutions={**kernel.substitutions, rule.name: rule})
    user = user.with_transformed_expressions(partial(expand_expression, kernel))
    accesses = [x for x in collect_accesses(kernel, (user,)) if x.array == name]
    instances = Instances(kernel, has_axes=False)
    loops = tuple(sorted(user.within_inames))
    for read in accesses:
        for write in accesses:
            if write.is_write and not read.is_write:
                both, _ = instances.meeting(read, write, loops)
                if not both.subtract(in_same_iteration(both, loops)).is_empty():
                    return True
    return False


def _is_rewritten(
    kernel: LoopKernel,
    writer: Assignment,
    other: InstructionBase,
    reader: InstructionBase,
    name: str,
) -> bool:
    """Tell whether *other*, which runs before *writer*, writes what that has read once more.

    That is so in a later iteration of a loop around both, which *reader* is not inside of.
    """
    around = other.within_inames & writer.within_inames
    order = by_priority(
        kernel, loops_with_order(kernel, [n for n in kernel.iname_order if n in around])
    )
    if not set(order) - reader.within_inames:
        return False
    reads = (x for x in collect_accesses(kernel, (writer,)) if x.array == name)
    writes = [x for x in collect_accesses(kernel, (other,)) if x.array == name and x.is_write]
    instances = Instances(kernel, has_axes=False)
    for read in reads:
        for write in writes:
            both, _ = instances.meeting(read, write, tuple(order))
            both = in_same_iteration(both, reader.within_inames.intersection(order))
            if any(not x.is_empty() for x in in_lexicographic_order(both, order)):
                return True
    return False


def _use_rule(
    kernel: LoopKernel, insn: InstructionBase, name: str, rule: SubstitutionRule
) -> InstructionBase:
    """Read the array *name* through a rule of its subscripts, and of loop variables.

    Elements that are read by their number in storage are still read from the array.
    """

    def use(variable: p.Variable, index: Index) -> Expr:
        operands = (*index, *map(p.Variable, rule.arguments[len(index) :]))
        function = renamed(variable, rule.name)
        return p.Call(function, operands) if operands else function

    return ArrayAccessMapper(kernel, {name: use}, keep_linear=True).change_reads(insn)


def _drop(kernel: LoopKernel, name: str, *, keep: bool) -> LoopKernel:
    """Remove the assignments to a variable that nothing reads, and the variable."""
    is_argument = isinstance(kernel.array_vars.get(name), ArrayArg)
    result = remove_instructions(kernel, set(kernel.writers[name]))
    loops = (inames_used(kernel, kernel.id_to_insn[insn_id]) for insn_id in kernel.writers[name])
    result = without_unused_inames(result, frozenset[str]().union(*loops))
    if is_argument and keep:
        return result
    temporaries = {n: var for n, var in result.temporary_variables.items() if n != name}
    return result.copy(
        args=tuple(arg for arg in result.args if arg.name != name),
        temporary_variables=temporaries,
    )


# -- of expressions --------------------------------------------------------------------------------


@transform
def extract_subst(
    kernel: LoopKernel,
    subst_name: str,
    template: Any,
    parameters: str | Iterable[str] = (),
    within: Any = None,
) -> LoopKernel:
    """Make a rule of the expressions that match a template, and use it instead of them.

    :arg template: the expression of the rule, as text or nodes
    :arg parameters: the variables in it that match any expression: the rule's arguments
    :arg within: use the rule in the instructions that match; by default in all of them, and in
        the other rules, except where an argument has the name of a variable of the template

    ::

        a[i] = sin(2*b[i]) + sin(2*i)   =>   f(x) := sin(2*x)
                                             a[i] = f(b[i]) + f(i)

    Raises :class:`TransformError` if nothing matches the template, or if it is only a parameter.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", "a[i] = sin(2*b[i]) + sin(2*i)")
    >>> print(extract_subst(knl, "f", "sin(2*x)", "x").default_entrypoint.instructions[0])
    a[i] = f(b[i]) + f(i)  {id=insn}
    """
    require_new_name(kernel, subst_name)
    pattern = parse(template) if isinstance(template, str) else template
    arguments = split_names(parameters)
    unused = [name for name in arguments if name not in mentions_of(pattern).variables]
    if unused:
        raise TransformError(f"parameter '{unused[0]}' is not in the template '{to_text(pattern)}'")
    if isinstance(pattern, p.Variable) and arguments:
        raise TransformError(
            f"the template '{pattern.name}' is only a parameter, which matches every expression",
            hint=f"a template has operations, such as '2*{pattern.name}'; a variable is found "
            "without parameters",
        )
    rule = SubstitutionRule(subst_name, arguments, pattern)
    extractor = _Extractor(rule)
    test = matcher(kernel, within)
    places = partial(with_subscripts, f=extractor.rec)
    changed = kernel.map_instructions(
        lambda insn: (
            insn.with_transformed_expressions(extractor.rec, places) if test(insn) else insn
        )
    )
    rules = dict(kernel.substitutions)
    if within is None:
        free = set(mentions_of(pattern).variables).difference(arguments)
        for name, old in kernel.substitutions.items():
            if free.isdisjoint(old.arguments):
                rules[name] = old.copy(expression=extractor.rec(old.expression))
    if not extractor.count:
        raise NothingSelectedError(f"no expression looks like '{to_text(pattern)}'")
    return changed.copy(substitutions={**rules, subst_name: rule})


@transform
def reduction_arg_to_subst_rule(
    kernel: LoopKernel,
    inames: str | Iterable[str],
    insn_match: Any = None,
    subst_rule_name: str | None = None,
) -> LoopKernel:
    """Turn the operands of reductions over some loops into rules of the loop variables.

    Precomputing such a rule stores the operands.

    :arg inames: one loop, or several; other loops of the reductions stay variables
    :arg insn_match: only in the instructions that match
    :arg subst_rule_name: the name of the rule, if there is only one; by default ``red_i_arg``

    ::

        a = sum(i, 2*b[i])   =>   red_i_arg(i) := 2*b[i]
                                  a = sum(i, red_i_arg(i))

    Raises :class:`TransformError` if no reduction runs over the loops, and if one name is
    given for several rules.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", "a = sum(i, 2*b[i])")
    >>> knl = reduction_arg_to_subst_rule(knl, "i").default_entrypoint
    >>> print(*knl.substitutions.values(), *knl.instructions)
    red_i_arg(i) := 2*b[i] a = reduce(sum, [i], red_i_arg(i))  {id=insn}
    """
    names = require_inames(kernel, inames)
    maker = _OperandRules(kernel, names, subst_rule_name)
    test = matcher(kernel, insn_match)
    changed = kernel.map_instructions(
        lambda insn: insn.with_transformed_expressions(maker.rec) if test(insn) else insn
    )
    if not maker.rules:
        raise NothingSelectedError(f"no reduction runs over {' and '.join(map(repr, names))}")
    return changed.copy(substitutions={**kernel.substitutions, **maker.rules})


class _OperandRules(IdentityMapper):
    """Puts rules in the place of operands of reductions over *inames*, and collects the rules."""

    def __init__(self, kernel: LoopKernel, inames: tuple[str, ...], name: str | None) -> None:
        super().__init__()
        self.inames = inames
        self.name = name
        if name is not None:
            require_new_name(kernel, name)
        self.new_name = new_names(kernel)
        self.rules: dict[str, SubstitutionRule] = {}

    def map_reduction(self, expr: Reduction, *args: Any, **kwargs: Any) -> Expr:
        expr = super().map_reduction(expr, *args, **kwargs)
        if not set(self.inames) <= set(expr.inames):
            return expr
        return expr.over(expr.inames, tuple(map(self._use, expr.exprs)))

    def _use(self, operand: Expr) -> Expr:
        if self.name is not None and self.rules:
            raise TransformError(
                f"'{self.name}' is given as the name of several rules",
                because="there are several operands of reductions over these loops",
                hint="leave the name out, or choose one reduction: insn_match=...",
            )
        name = self.name or str(self.new_name(f"red_{'_'.join(self.inames)}_arg"))
        self.rules[name] = SubstitutionRule(name, self.inames, operand)
        return p.Variable(name)(*map(p.Variable, self.inames))


class _Unifier(UnidirectionalUnifier):
    """Finds the values of a template's parameters; nodes of kgen's own types must be equal.

    Operands are in order, except in sums and products: in any order in subscripts; elsewhere in the
    order of evaluation, in which the first two may change places: ``x + y`` is ``(a + b) + c`` or
    ``c + (a + b)``, not ``a + (b + c)``.
    """

    is_subscript = False

    def map_subscript(self, expr: p.Subscript, other: Expr, urecs: Any) -> Any:
        around, self.is_subscript = self.is_subscript, True
        found = super().map_subscript(expr, other, urecs)
        self.is_subscript = around
        return found

    def map_sum(self, expr: Any, other: Expr, urecs: Any) -> Any:
        if self.is_subscript:
            found: Any = super().map_sum(expr, other, urecs)  # type: ignore[no-untyped-call]
            return found
        surplus = len(other.children) - len(expr.children) if type(other) is type(expr) else -1
        if surplus < 0:
            return []
        first, *rest = other.children[surplus:]
        if surplus:
            first = type(expr)(other.children[: surplus + 1])
        orders = [(first, *rest), (rest[0], first, *rest[1:])] if rest else [(first,)]
        return [found for order in orders for found in self._in_order(expr.children, order, urecs)]

    map_product = map_sum

    def map_logical_and(self, expr: Any, other: Expr, urecs: Any) -> Any:
        if type(other) is not type(expr) or len(other.children) != len(expr.children):
            return []
        return self._in_order(expr.children, other.children, urecs)

    map_logical_or = map_logical_and
    map_bitwise_and = map_logical_and
    map_bitwise_or = map_logical_and
    map_bitwise_xor = map_logical_and
    map_min = map_logical_and
    map_max = map_logical_and

    def _in_order(self, children: Sequence[Expr], others: Sequence[Expr], urecs: Any) -> Any:
        for child, other in zip(children, others, strict=True):
            urecs = self.rec(child, other, urecs) if urecs else []
        return urecs

    def handle_unsupported_expression(self, expr: Expr, other: Expr, urecs: Any) -> Any:
        return urecs if expr == other else []


class _Extractor(IdentityMapper):
    """Replaces matches of a rule's expression by uses of the rule, outermost first."""

    def __init__(self, rule: SubstitutionRule) -> None:
        super().__init__()
        self.rule = rule
        self.unifier = _Unifier(set(rule.arguments))
        self.count = 0

    def rec(self, expr: Expr, *args: Any) -> Expr:
        found = self._match(expr)
        if found is None:
            return super().rec(expr, *args)
        self.count += 1
        name = p.Variable(self.rule.name)
        operands = tuple(self.rec(found[argument]) for argument in self.rule.arguments)
        return p.Call(name, operands) if operands else name

    __call__ = rec

    def _match(self, expr: Expr) -> Mapping[str, Expr] | None:
        if isinstance(expr, tuple):  # of subscripts, which a number of numpy compares one by one
            return None
        records = self.unifier(self.rule.expression, expr)
        if not records:
            return None
        found: Mapping[str, Expr] = records[0].lmap
        return found if found.keys() >= set(self.rule.arguments) else None
