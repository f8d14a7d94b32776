"""Rewriting the accesses to arrays, in all forms, everywhere in a kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias, TypeVar

import pymbolic.primitives as p
from constantdict import constantdict

from kgen.analysis.access import collect_accesses
from kgen.errors import TransformError, counted
from kgen.ir.assignee import with_subscripts
from kgen.ir.data import ArrayBase, SubstitutionRule
from kgen.ir.expr import (
    Expr,
    LinearSubscript,
    NameMapper,
    TaggedVariable,
    same_objects,
    subscript,
    to_text,
)
from kgen.ir.instruction import CInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import param_names

__all__ = [
    "ArrayAccessMapper",
    "Index",
    "InsnT",
    "Rewrite",
    "reject_bounds",
    "reject_elements_by_number",
    "renamed",
    "rewrite_accesses",
]

Index: TypeAlias = tuple[Expr, ...]

InsnT = TypeVar("InsnT", bound=InstructionBase)

#: Returns the replacement of an access, given the variable, tagged or not, and its rewritten
#: subscripts.
Rewrite: TypeAlias = Callable[[p.Variable, Index], Expr]


def renamed(variable: p.Variable, name: str) -> p.Variable:
    """Return a variable of another name with the tags of *variable*."""
    return dataclasses.replace(variable, name=name)


class ArrayAccessMapper(NameMapper):
    """Rewrite the accesses to some arrays; every transformation that changes accesses uses this.

    An access is ``a``, ``a[i, j]``, ``a$tag``, ``a$tag[i, j]`` or ``a[[k]]``, in operands,
    subscripts, conditions, reductions, arguments of calls, and on the left. Those that cannot be
    rewritten are rejected with the instruction and the array: C code that names the array,
    ``a[[k]]`` unless *keep_linear*, and an array that has axes but stands without subscripts.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", "b[i] = a$in[i] + a[a[i]]").default_entrypoint
    >>> mapper = ArrayAccessMapper(knl, {"a": lambda var, index: subscript(var, (0, *index))})
    >>> print(mapper.change(knl.instructions[0]))
    b[i] = a$in[0, i] + a[0, a[0, i]]  {id=insn}
    """

    def __init__(
        self, kernel: LoopKernel, rewrites: Mapping[str, Rewrite], *, keep_linear: bool = False
    ) -> None:
        super().__init__(*rewrites)
        self.kernel = kernel
        self.rewrites = rewrites
        self.keep_linear = keep_linear
        self.where = ""

    # -- what is rewritten -------------------------------------------------------------------

    def change(self, insn: InsnT, **changes: Any) -> InsnT:
        """Return an instruction with its accesses rewritten, and other *changes*."""
        if self.names.isdisjoint(insn.dependency_names()):
            return insn.copy(**changes)
        self.where = f"instruction '{insn.id}'"
        if isinstance(insn, CInstruction):
            named = self.names.intersection((*insn.read_variables, *insn.assignee_var_names()))
            if named:
                raise self._error(min(named), "its C code names it", "write it as an assignment")
        return insn.with_transformed_expressions(self, **changes)

    def change_reads(self, insn: InsnT, **changes: Any) -> InsnT:
        """Return an instruction with its reads rewritten, but not its writes."""
        self.where = f"instruction '{insn.id}'"
        places = {id(lhs) for lhs in insn.assignees}
        return insn.with_transformed_expressions(
            lambda expr: with_subscripts(expr, self) if id(expr) in places else self(expr),
            **changes,
        )

    def change_rule(self, rule: SubstitutionRule) -> SubstitutionRule:
        """Return a rule with its accesses rewritten; its arguments are not arrays."""
        if self.names.isdisjoint(rule.free_names):
            return rule
        visible = {n: f for n, f in self.rewrites.items() if n not in rule.arguments}
        inner = ArrayAccessMapper(self.kernel, visible, keep_linear=self.keep_linear)
        inner.where = f"rule '{rule}'"
        return rule.copy(expression=inner(rule.expression))

    # -- nodes -------------------------------------------------------------------------------

    def map_variable(self, expr: p.Variable, *args: Any) -> Expr:
        return self._rewritten(expr, expr, ()) if expr.name in self.names else expr

    def map_tagged_variable(self, expr: TaggedVariable, *args: Any) -> Expr:
        return self.map_variable(expr, *args)

    def map_subscript(self, expr: p.Subscript, *args: Any) -> Expr:
        array = expr.aggregate
        index = self.map_tuple(expr.index_tuple, *args)
        if isinstance(array, p.Variable):
            if array.name in self.names:
                return self._rewritten(expr, array, index)
        else:
            array = self.rec(array, *args)
        is_same = same_objects((array, *index), (expr.aggregate, *expr.index_tuple))
        return expr if is_same else subscript(array, index)

    def map_linear_subscript(self, expr: LinearSubscript, *args: Any) -> Expr:
        array = expr.aggregate
        if isinstance(array, p.Variable) and array.name in self.names:
            if not self.keep_linear:
                because = f"'{to_text(expr)}' subscripts an element by its number in storage"
                raise self._error(array.name, because)
            index = self.rec(expr.index, *args)
            return expr if index is expr.index else LinearSubscript(array, index)
        return super().map_linear_subscript(expr, *args)

    def map_call(self, expr: p.Call, *args: Any) -> Expr:
        operands = self.map_tuple(expr.parameters, *args)
        return expr if operands is expr.parameters else p.Call(expr.function, operands)

    def _rewritten(self, expr: Expr, variable: p.Variable, index: Index) -> Expr:
        array = self.kernel.array_vars.get(variable.name)
        shape = () if array is None else array.shape
        if isinstance(shape, tuple) and len(shape) != len(index):
            because = (
                f"'{to_text(expr)}' has {counted(len(index), 'subscript')}, and the array "
                f"{counted(len(shape), 'axis', 'axes')}"
            )
            raise self._error(variable.name, because)
        return self.rewrites[variable.name](variable, index)

    def _error(
        self, name: str, because: str, hint: str = "write it with one subscript for each axis"
    ) -> TransformError:
        what = f"the access to '{name}' in {self.where} cannot be rewritten"
        return TransformError(what, because=because, hint=hint)


# -- kernels -------------------------------------------------------------------------------------


def rewrite_accesses(
    kernel: LoopKernel, mapper: ArrayAccessMapper, declarations: Mapping[str, Any] = constantdict()
) -> LoopKernel:
    """Rewrite accesses in all instructions and rules, and put changed *declarations* in.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<4 }", "b[i] = a[i]").default_entrypoint
    >>> moved = ArrayAccessMapper(knl, {"a": lambda var, index: subscript(var, (index[0] + 1,))})
    >>> print(*rewrite_accesses(knl, moved).instructions)
    b[i] = a[i + 1]  {id=insn}
    """
    reject_bounds(kernel, mapper.names)
    return kernel.map_instructions(
        mapper.change,
        substitutions={n: mapper.change_rule(r) for n, r in kernel.substitutions.items()},
    ).with_declarations(declarations)


def reject_bounds(kernel: LoopKernel, names: Collection[str]) -> None:
    """Reject *names* that bound loops: domains have variables, not elements of arrays."""
    bounding = kernel.all_params().intersection(names)
    if not bounding:
        return
    name = min(bounding)
    bounds = {n: param_names(kernel.domains[at]) for n, at in kernel.home_domain.items()}
    loops = [iname for iname, names in bounds.items() if name in names]
    users = [insn.id for insn in kernel.instructions if not insn.within_inames.isdisjoint(loops)]
    raise TransformError(
        f"the accesses to '{name}' cannot be rewritten: it bounds loop '{min(loops)}'",
        where=f"instruction '{users[0]}'" if users else None,
        hint=f"copy it to a separate variable for the bounds: '<> bound = {name}'",
    )


def reject_elements_by_number(kernel: LoopKernel, old: ArrayBase, new: ArrayBase) -> None:
    """Reject layout changes of an array whose elements are accessed by linear index."""
    if not isinstance(old.shape, tuple) or old.dim_tags == new.dim_tags:
        return
    names = {old.name, *kernel.substitutions}
    insns = [insn for insn in kernel.instructions if not insn.mentioned.isdisjoint(names)]
    for access in collect_accesses(kernel, insns):
        if access.array == old.name and access.index is None:
            raise TransformError(
                f"the layout of '{old.name}' cannot change",
                where=f"instruction '{access.insn_id}'",
                because="it accesses an element by its number in storage",
                hint=f"write one subscript for each axis of '{old.name}'",
            )
