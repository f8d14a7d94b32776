"""Loops that are lengthened to a multiple of iterations, with terms of zero in sums."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import pymbolic.primitives as p

from kgen.analysis.domains import domains_without, set_where
from kgen.analysis.shapes import infer_argument_shapes, infer_temporary_shapes
from kgen.errors import TransformError
from kgen.ir.affine import simplify
from kgen.ir.data import SubstitutionRule, TemporaryVariable
from kgen.ir.expr import (
    Expr,
    IdentityMapper,
    Reduction,
    TypeCast,
    contains_reduction,
    is_zero,
    substitute,
    to_text,
    variable_names,
)
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.mentions import mentions_of
from kgen.ir.sets.dims import BasicSet, Set, dim_names, to_named
from kgen.ir.sets.domain import as_basic_set
from kgen.ir.types import AddressSpace, auto
from kgen.transforms.expressions.rules import expand_subst
from kgen.transforms.loops.split import is_box, positive_integer
from kgen.transforms.select import new_names, require_inames, transform

__all__ = ["pad_inames"]


@transform
def pad_inames(kernel: LoopKernel, inames: str | Iterable[str], multiple: int) -> LoopKernel:
    """Lengthen loops to a multiple of iterations, in which terms of sums are zero.

    Instructions in the loops are run under the condition that the iteration existed before. Sums
    in them are computed in all iterations: their factors become rules, which are zero in the new
    iterations of the loops that they depend on, so that no array is read there. This is for
    instructions that must run in whole tiles, such as those of :func:`tensorize`.

    :arg inames: loops from 0 that do not depend on each other; those whose length is such a
        multiple are left as they are
    :arg multiple: the number of iterations, of which the new length is a multiple

    ::

        for i                                  a_padded(i, k) := if(i < 35 and k < 35, a[i, k], 0)
          c[i] = sum(k, a[i, k]*b[k])    =>    b_padded(k) := if(k < 35, b[k], 0)
        end    # 0 <= i, k < 35                for i    # 0 <= i, k < 40
                                                 c_sum = sum(k, a_padded(i, k)*b_padded(k))
                                                 c[i] = c_sum    {if=i < 35}
                                               end

    The instruction that computes a sum has the name of the instruction with ``_sum`` behind it.
    :func:`precompute` stores the values of a rule in a temporary, with its zeros.

    Raises :class:`TransformError` for a loop that starts elsewhere or depends on another one, and
    for one of another reduction than a sum.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i, k]: 0<=i<n and 0<=k<35 }", "c[i] = sum(k, a[i, k]*b[k])")
    >>> knl = pad_inames(knl, "k", 8)
    >>> print(knl.default_entrypoint.domains[1])
    { [k] : 0 <= k <= 39 }
    >>> print(knl.default_entrypoint.instructions[0])
    c[i] = reduce(sum, [k], a_padded(i, k)*b_padded(k))  {id=insn}
    >>> for rule in knl.default_entrypoint.substitutions.values():
    ...     print(rule)
    a_padded(i, k) := a[i, k] if k < 35 else 0
    b_padded(k) := b[k] if k < 35 else 0
    """
    names = require_inames(kernel, inames)
    count = positive_integer(multiple, "multiple", names[0] if names else "")
    if any(not _free_names(rule).isdisjoint(names) for rule in kernel.substitutions.values()):
        kernel = expand_subst(kernel)
    lengths: dict[str, Expr] = {}
    longer: dict[str, BasicSet] = {}
    for name in names:
        bounds = kernel.get_iname_bounds(name)
        if bounds.lower != 0 or not is_box(kernel, name, bounds):
            raise TransformError(
                f"the loop '{name}' cannot be padded",
                because="it does not begin at 0, or its bounds depend on those of others",
                hint=f"affine_map_inames shifts a loop: let '{name}' begin at 0",
            )
        own = _lengthened(name, bounds.extent, count)
        if not _is_same(kernel, own, kernel.domain_of((name,))):
            lengths[name], longer[name] = bounds.extent, own
    domains: list[BasicSet] = []
    for domain in kernel.domains:
        domains += domains_without(domain, longer)
        domains += (longer[name] for name in dim_names(domain) if name in longer)
    return _Padding(_with_shapes(kernel, lengths), lengths).apply(tuple(domains))


def _free_names(rule: SubstitutionRule) -> set[str]:
    return set(variable_names(rule.expression)).difference(rule.arguments)


def _lengthened(name: str, length: Expr, count: int) -> BasicSet:
    """Return the values of a loop; in a domain of its own, for it may have none."""
    end = simplify(p.Product((count, p.FloorDiv(p.Sum((length, count - 1)), count))))
    loop = p.Variable(name)
    own = set_where((name,), (p.Comparison(loop, ">=", 0), p.Comparison(loop, "<", end)))
    return as_basic_set(own)


def _is_same(kernel: LoopKernel, one: BasicSet, other: Set) -> bool:
    sets = [to_named(domain).intersect_params(kernel.assumptions) for domain in (one, other)]
    return bool(sets[0].is_equal(sets[1]))


def _with_shapes(kernel: LoopKernel, loops: Collection[str]) -> LoopKernel:
    """Infer the shapes of arrays that the loops access, which more iterations would enlarge."""
    users = (i for i in kernel.instructions if not _loops_of(i).isdisjoint(loops))
    names = {name for insn in users for name in insn.dependency_names()}
    arrays = {name: kernel.array_vars[name] for name in names if name in kernel.array_vars}
    left_open = {
        name
        for name, array in arrays.items()
        if not isinstance(array.shape, tuple) or auto in array.shape
    }
    if not left_open:
        return kernel
    inferred = infer_temporary_shapes(infer_argument_shapes(kernel)).array_vars
    return kernel.with_declarations({name: inferred[name] for name in sorted(left_open)})


def _loops_of(insn: InstructionBase) -> frozenset[str]:
    return insn.within_inames | insn.reduction_inames()


class _Padding:
    """What the instructions in lengthened loops become."""

    def __init__(self, kernel: LoopKernel, lengths: dict[str, Expr]) -> None:
        self.kernel = kernel
        self.lengths = lengths
        self.new_name = new_names(kernel)
        self.new_id = kernel.get_instruction_id_generator()
        self.rules: dict[tuple[Expr, tuple[str, ...]], SubstitutionRule] = {}
        self.opened: set[str] = set()
        self.temporaries: dict[str, TemporaryVariable] = {}

    def apply(self, domains: tuple[BasicSet, ...]) -> LoopKernel:
        """Return the kernel with other domains, and with its instructions changed."""
        made = [new for insn in self.kernel.instructions for new in self._changed(insn)]
        made_rules = {rule.name: rule for rule in self.rules.values()}
        rules = {**self.kernel.substitutions, **made_rules}
        read = (expr for insn in made for expr in insn.expressions())
        used = mentions_of(*read, *(rule.expression for rule in rules.values()))
        return self.kernel.copy(
            domains=domains,
            instructions=made,
            substitutions={
                name: rule
                for name, rule in rules.items()
                if name not in self.opened or name in used.functions
            },
            temporary_variables={**self.kernel.temporary_variables, **self.temporaries},
        )

    def _changed(self, insn: InstructionBase) -> Iterator[InstructionBase]:
        """Yield the instructions of the sums of one, and the instruction with its condition."""
        around = [name for name in self.lengths if name in insn.within_inames]
        if not around and insn.reduction_inames().isdisjoint(self.lengths):
            yield insn
            return
        self._check(insn)
        guard = _Guard(self, insn)
        if not around or self._is_held(insn, around):
            yield insn.with_transformed_expressions(guard)
            return
        sums: list[Assignment] = []
        if isinstance(insn, Assignment):
            value = _SumsApart(self, insn, guard, sums)(insn.expression)
            before = {str(one.id) for one in sums}
            insn = insn.copy(expression=value, depends_on=insn.depends_on | before)
        conditions = {self.condition(name) for name in around}
        yield from sums
        yield insn.copy(predicates=insn.predicates | conditions)

    def _is_held(self, insn: InstructionBase, around: Collection[str]) -> bool:
        """Tell whether an instruction stores a sum in a variable that only these loops read."""
        name = insn.assignee_var_names()[0] if insn.assignee_var_names() else ""
        variable = self.kernel.temporary_variables.get(name)
        return (
            variable is not None
            and variable.shape == ()
            and variable.address_space in (auto, AddressSpace.PRIVATE)
            and isinstance(insn, Assignment)
            and isinstance(insn.expression, Reduction)
            and all(
                other.within_inames.issuperset(around)
                for other in self.kernel.instructions
                if name in other.dependency_names()
            )
        )

    def _check(self, insn: InstructionBase) -> None:
        parts = list(insn.expressions())
        if isinstance(insn, Assignment):
            parts.remove(insn.expression)
        if any(map(contains_reduction, (*parts, *insn.predicates))):
            raise TransformError(
                f"the loops of '{insn.id}' cannot be padded",
                where=f"instruction '{insn}'",
                because="it has reductions elsewhere than in the expression of an assignment",
                hint="store their values in variables first: <> t = sum(...)",
            )

    def condition(self, name: str) -> Expr:
        """Return the condition of the iterations that existed before."""
        return p.Comparison(p.Variable(name), "<", self.lengths[name])

    def zero_outside(self, factor: Expr, loops: tuple[str, ...]) -> Expr:
        """Return the use of a rule that is *factor*, and zero in new iterations of *loops*."""
        key = factor, loops
        if key not in self.rules:
            conditions, value = self._opened(factor)
            conditions = (*map(self.condition, loops), *conditions)
            read = (each for each in variable_names(value) if each in self.kernel.array_vars)
            name = str(self.new_name(f"{next(read, 'term')}_padded"))
            used = variable_names(value, *conditions)
            arguments = tuple(each for each in used if each in self.kernel.inames)
            condition = conditions[0] if len(conditions) == 1 else p.LogicalAnd(conditions)
            self.rules[key] = SubstitutionRule(name, arguments, p.If(condition, value, 0))
        rule = self.rules[key]
        return p.Variable(rule.name)(*map(p.Variable, rule.arguments))

    def _opened(self, factor: Expr) -> tuple[tuple[Expr, ...], Expr]:
        """Return the conditions and the value of a factor that was padded before."""
        if not isinstance(factor, p.Call) or not isinstance(factor.function, p.Variable):
            return (), factor
        rule = self.kernel.substitutions.get(factor.function.name)
        if (
            rule is None
            or not isinstance(rule.expression, p.If)
            or not is_zero(rule.expression.else_)
        ):
            return (), factor
        self.opened.add(rule.name)
        given = dict(zip(rule.arguments, factor.parameters, strict=True))
        body = substitute(rule.expression, given)
        is_all = isinstance(body.condition, p.LogicalAnd)
        return body.condition.children if is_all else (body.condition,), body.then


class _Guard(IdentityMapper):
    """Makes factors in reductions zero in new iterations of the loops they depend on."""

    def __init__(self, padding: _Padding, insn: InstructionBase) -> None:
        super().__init__()
        self.padding = padding
        self.insn = insn

    def map_reduction(self, expr: Reduction, *args: Any) -> Expr:
        expr = super().map_reduction(expr, *args)
        own = tuple(name for name in self.padding.lengths if name in expr.inames)
        if own and expr.operation.name != "sum":
            raise TransformError(
                f"the loop '{own[0]}' cannot be padded",
                where=f"instruction '{self.insn}'",
                because=f"'{to_text(expr)}' is a reduction over it that is not a sum",
                hint="only sums are padded, with zeros",
            )
        terms = tuple(self._guarded(term, own) for term in expr.exprs)
        return expr.over(expr.inames, terms)

    def _guarded(self, term: Expr, needed: tuple[str, ...]) -> Expr:
        """Guard the factors of a term; one of them is zero in new iterations of *needed* loops."""
        factors = list(_factors(term))
        used = [self._loops(factor) for factor in factors]
        rest = tuple(name for name in needed if not any(name in loops for loops in used))
        used[0] = tuple(n for n in self.padding.lengths if n in (*used[0], *rest))
        changed = iter(zip(factors, used, strict=True))
        return self._replaced(term, changed)

    def _replaced(self, term: Expr, changed: Iterator[tuple[Expr, tuple[str, ...]]]) -> Expr:
        if isinstance(term, p.Product):
            return p.Product(tuple(self._replaced(part, changed) for part in term.children))
        if isinstance(term, TypeCast):
            return TypeCast(term.type, self._replaced(term.child, changed))
        factor, loops = next(changed)
        if not loops:
            return factor
        if contains_reduction(factor):
            conditions = tuple(map(self.padding.condition, loops))
            return p.If(p.LogicalAnd(conditions), factor, 0)
        return self.padding.zero_outside(factor, loops)

    def _loops(self, factor: Expr) -> tuple[str, ...]:
        """Return the loops whose new iterations have no such factor.

        It depends on them, or on variables that instructions in these loops assign.
        """
        names = set(variable_names(factor))
        for insn in self.padding.kernel.instructions:
            if not names.isdisjoint(insn.assignee_var_names()):
                names |= insn.within_inames & self.insn.within_inames
        return tuple(name for name in self.padding.lengths if name in names)


def _factors(term: Expr) -> Iterator[Expr]:
    """Yield the factors of a product, in order, without casts around them."""
    if isinstance(term, p.Product):
        for part in term.children:
            yield from _factors(part)
    elif isinstance(term, TypeCast):
        yield from _factors(term.child)
    else:
        yield term


class _SumsApart(IdentityMapper):
    """Gives the outermost reductions of an assignment to instructions of their own."""

    def __init__(
        self, padding: _Padding, insn: Assignment, guard: _Guard, sums: list[Assignment]
    ) -> None:
        super().__init__()
        self.padding = padding
        self.insn = insn
        self.guard = guard
        self.sums = sums

    def map_reduction(self, expr: Reduction, *args: Any) -> Expr:
        insn = self.insn
        name = str(self.padding.new_name(f"{insn.assignee_var_names()[0]}_sum"))
        self.padding.temporaries[name] = TemporaryVariable(name, None, shape=())
        self.sums.append(
            Assignment(
                p.Variable(name),
                self.guard(expr),
                id=self.padding.new_id(f"{insn.id}_sum"),
                within_inames=insn.within_inames,
                within_inames_is_final=True,
                depends_on=insn.depends_on,
                depends_on_is_final=True,
                no_sync_with=insn.no_sync_with,
                predicates=insn.predicates,
                priority=insn.priority,
            )
        )
        return p.Variable(name)
