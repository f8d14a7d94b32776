"""Inlining kernels at their calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pymbolic.primitives as p

from kgen.analysis.domains import set_params, set_where
from kgen.errors import KgenError, TransformError, counted, near_names
from kgen.ir.affine import simplify
from kgen.ir.assignee import assignee_name, index_of
from kgen.ir.checked import checked
from kgen.ir.data import ArrayArg, TemporaryVariable, ValueArg
from kgen.ir.expr import (
    Expr,
    SubArrayRef,
    SubstitutionMapper,
    TypeCast,
    is_constant,
    is_zero,
    substitute,
    to_text,
    variable_names,
    walk,
)
from kgen.ir.instruction import Assignment, CallInstruction, CInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.pending import Pending
from kgen.ir.sets.dims import BasicSet, param_names, rename_dims
from kgen.ir.tags import UseStreamingLoadTag
from kgen.ir.unit import CallableKernel, TranslationUnit, inputs_and_outputs
from kgen.transforms.expressions.rules import expand_subst
from kgen.transforms.loops.inames import remove_unused_inames
from kgen.transforms.programs.fuse import joined_extras
from kgen.transforms.select import check_well_formed, new_names

__all__ = [
    "Passed",
    "called_kernels",
    "calls_of",
    "inline_callable_kernel",
    "inline_calls",
    "order_of_calls",
    "passed_by",
    "inline_all_calls",
]


@checked
def inline_callable_kernel(
    translation_unit: TranslationUnit, function_name: str
) -> TranslationUnit:
    """Inline a kernel at all its calls.

    The loops of the kernel are nested inside those around the call, and keep their tags. The names
    of its temporaries and loops get the first four letters of its name and ``_`` as a prefix; calls
    that are inlined during code generation keep unused names.

    ::

        [i]: y[k,i] = double([j]: x[k,j])     =>     for doub_i
                                                       y[k,doub_i] = 2*x[k,doub_i]
                                                     end doub_i

    Raises :class:`TransformError` if nothing calls it, if the arguments of a call do not
    match, and for recursive kernels.

    >>> from kgen.frontend import make_function, make_kernel
    >>> from kgen.transforms.programs.callables import merge
    >>> double = make_function("{ [i]: 0<=i<4 }", "y[i] = 2*x[i]", name="double")
    >>> knl = make_kernel("{ [i,j,k]: 0<=i,j,k<4 }", "[i]: y[k,i] = double([j]: x[k,j])")
    >>> knl = inline_callable_kernel(merge([knl, double]), "double")
    >>> print(knl["kgen_kernel"].instructions[0])
    y[k, doub_i] = 2*x[k, doub_i]  {id=insn}
    """
    unit = translation_unit
    order = order_of_calls(unit)
    if not isinstance(unit.callables_table.get(function_name), CallableKernel):
        raise TransformError(
            f"there is no kernel '{function_name}' to inline\n  hint: "
            f"{near_names(function_name, order)}"
        )
    callee = unit[function_name]
    found = False

    def change(kernel: LoopKernel) -> LoopKernel:
        nonlocal found
        if function_name not in called_kernels(unit, kernel):
            return kernel
        found = True
        return inline_calls(kernel, {function_name: callee}, with_labels=True)

    changed = unit.map_kernels(change)
    if not found:
        raise TransformError(
            f"no kernel of the program calls '{function_name}'\n  hint: merge([...]) puts the "
            "kernel that calls it and this one into one program"
        )
    table = dict(changed.callables_table)
    if function_name not in unit.entrypoints:
        del table[function_name]
    return changed.copy(callables_table=table)


def calls_of(kernel: LoopKernel) -> Iterator[tuple[InstructionBase, str]]:
    """Yield the instructions that assign the results of a call, with the called kernels."""
    for insn in kernel.instructions:
        if isinstance(insn, Assignment | CallInstruction):
            call = insn.expression
            if isinstance(call, p.Call | p.CallWithKwargs) and isinstance(
                call.function, p.Variable
            ):
                yield insn, call.function.name


def called_kernels(unit: TranslationUnit, kernel: LoopKernel) -> tuple[str, ...]:
    """Return the names of the kernels that *kernel* calls, each once."""
    table = unit.callables_table
    names = dict.fromkeys(name for _, name in calls_of(kernel))
    return tuple(name for name in names if isinstance(table.get(name), CallableKernel))


def order_of_calls(unit: TranslationUnit) -> tuple[str, ...]:
    """Return the kernels of a program, those that are called before those that call them.

    Raises :class:`TransformError` with the circle, for kernels that call themselves.
    """
    done: dict[str, None] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            circle = " -> ".join((*path[path.index(name) :], name))
            raise TransformError(
                f"kernels call themselves: {circle}\n  hint: use a loop instead of recursion"
            )
        if name not in done:
            for callee in called_kernels(unit, unit[name]):
                visit(callee, (*path, name))
            done[name] = None

    for kernel in unit.kernels():
        visit(kernel.name, ())
    return tuple(done)


def inlined_kernel(
    program: TranslationUnit | LoopKernel, entrypoint: str | None = None
) -> LoopKernel:
    """Return a kernel of a program with all calls inlined; a standalone kernel unchanged."""
    if isinstance(program, LoopKernel):
        return program
    return inline_all_calls(program, entrypoint or program.default_entrypoint.name)


def inline_calls(
    kernel: LoopKernel, callees: Mapping[str, LoopKernel], *, with_labels: bool = False
) -> LoopKernel:
    """Inline called kernels in *kernel*, and in its origin as they were written.

    *with_labels*: the first letters of a kernel's name stand in front of its names.
    """
    result = _inline_calls(kernel, callees, with_labels)
    if all(one.written is one for one in (kernel, *callees.values())):
        return result.with_origin(None)

    def inlined(origin: LoopKernel) -> LoopKernel:
        written = {name: callee.origin or callee for name, callee in callees.items()}
        return _inline_calls(origin, written, with_labels).with_origin(None)

    return result.with_origin(Pending(kernel.written, inlined))


def _inline_calls(
    kernel: LoopKernel, callees: Mapping[str, LoopKernel], with_labels: bool
) -> LoopKernel:
    expanded = {name: expand_subst(callee) for name, callee in callees.items()}
    swept: set[str] = set()
    for insn_id, name in [(str(insn.id), name) for insn, name in calls_of(kernel)]:
        if name in expanded:
            insn = kernel.id_to_insn[insn_id]
            swept |= insn.sub_array_ref_inames()
            kernel = _Inlining(kernel, insn, expanded[name], with_label=with_labels).result()
    check_well_formed(kernel)
    return remove_unused_inames(kernel, sorted(swept)) if swept else kernel


def inline_all_calls(unit: TranslationUnit, name: str) -> LoopKernel:
    """Return a kernel of a program with all kernels that it calls in their places."""
    kernel = unit[name]
    if not called_kernels(unit, kernel):
        return kernel
    done: dict[str, LoopKernel] = {}
    for called in order_of_calls(unit):
        inner = unit[called]
        callees = {other: done[other] for other in called_kernels(unit, inner)}
        done[called] = inline_calls(inner, callees) if callees else inner
    return done[name]


@dataclass(frozen=True)
class Passed:
    """What a call passes: the *values* of scalars, and the *places* of arrays."""

    values: Mapping[str, Expr]
    places: Mapping[str, Expr]


def passed_by(kernel: LoopKernel, insn: InstructionBase, callee: LoopKernel) -> Passed:
    """Return the operands of a call by the names of the called kernel's arguments.

    Raises :class:`TransformError` if they do not match.
    """
    inlining = _Inlining(kernel, insn, callee)
    return Passed(inlining.values, inlining.places)


class _Inlining:
    """One call replaced: names, values of scalars, places of arrays, instructions."""

    def __init__(
        self,
        kernel: LoopKernel,
        insn: InstructionBase,
        callee: LoopKernel,
        *,
        with_label: bool = False,
    ) -> None:
        self.kernel = kernel
        self.insn = insn
        self.callee = callee
        self.names = new_names(kernel)
        self.ids = kernel.get_instruction_id_generator()
        self.temporaries: dict[str, TemporaryVariable] = {}
        self.first: list[InstructionBase] = []
        local = (*callee.iname_order, *callee.temporary_variables)
        label = f"{callee.name[:4]}_" if with_label else ""
        self.renamed = {name: str(self.names(f"{label}{name}")) for name in local}
        values, self.places = self._bind()
        self.values = {name: self._value(name, value) for name, value in values.items()}
        self._reject_missing()

    # -- arguments ------------------------------------------------------------------------

    def _bind(self) -> tuple[dict[str, Expr], dict[str, Expr]]:
        """Return the operands for scalars, and for arrays, by argument of the callee."""
        callee, insn = self.callee, self.insn
        assert isinstance(insn, Assignment | CallInstruction)
        call = insn.expression
        inputs, outputs = inputs_and_outputs(callee)
        if not insn.assignees and set(outputs) <= set(inputs):
            outputs = []  # what is passed is changed in its place
        if len(call.parameters) > len(inputs) or len(insn.assignees) != len(outputs):
            raise self._error(
                f"'{callee.name}' takes ({', '.join(inputs)}) and gives ({', '.join(outputs)}), "
                f"but the call passes {len(call.parameters)} and assigns {len(insn.assignees)}"
            )
        passed = dict(zip(inputs, call.parameters, strict=False))
        for name, value in getattr(call, "kw_parameters", {}).items():
            if name not in inputs or name in passed:
                raise self._error(
                    f"'{callee.name}' has no further argument '{name}'", near_names(name, inputs)
                )
            passed[name] = value
        missing = [name for name in inputs if name not in passed]
        if missing:
            raise self._error(f"the call of '{callee.name}' lacks '{missing[0]}'")
        for name, place in zip(outputs, insn.assignees, strict=True):
            if passed.setdefault(name, place) != place and not self._same_place(
                passed[name], place
            ):
                raise self._error(
                    f"'{callee.name}' reads and writes '{name}', which is "
                    f"'{to_text(passed[name])}' before and '{to_text(place)}' after the call"
                )
        scalars = {a.name for a in callee.args if isinstance(a, ValueArg)}
        return (
            {name: value for name, value in passed.items() if name in scalars},
            {name: value for name, value in passed.items() if name not in scalars},
        )

    def _same_place(self, one: Expr, other: Expr) -> bool:
        """Tell whether two sub-arrays are equal up to the names of their loop variables."""
        if not (isinstance(one, SubArrayRef) and isinstance(other, SubArrayRef)):
            return False
        names = {
            old.name: new for old, new in zip(other.swept_inames, one.swept_inames, strict=False)
        }
        if len(one.swept_inames) != len(other.swept_inames):
            return False
        place = substitute(other.subscript, names)
        return place == one.subscript or (
            assignee_name(place) == assignee_name(one.subscript)
            and len(index_of(place)) == len(index_of(one.subscript))
            and all(map(self._is_equal, index_of(place), index_of(one.subscript)))
        )

    def _is_equal(self, one: Expr, other: Expr) -> bool:
        """Tell whether two subscripts have equal values in all iterations of their loops."""
        kernel = self.kernel
        inames = tuple(n for n in kernel.iname_order if n in set(variable_names(one, other)))
        domain = kernel.domain_of(inames)
        try:
            apart = [set_where(inames, (p.Comparison(one, relation, other),)) for relation in "<>"]
        except KgenError:  # not affine
            return False
        return all(domain.intersect(part).is_empty() for part in apart)

    def _value(self, name: str, value: Expr) -> Expr:
        """Return the replacement of a scalar: the operand, or a temporary that holds it."""
        kernel, insn = self.kernel, self.insn
        declared = self.callee.arg_dict[name].dtype
        constant = kernel.all_params() | kernel.inames.keys()
        constant |= {arg.name for arg in kernel.args if isinstance(arg, ValueArg)}
        constant -= kernel.get_written_variables()
        is_constant_here = all(
            is_constant(node)
            or isinstance(node, p.Sum | p.Product)
            or (isinstance(node, p.Variable) and node.name in constant)
            for node in walk(value)
        )
        if is_constant_here:
            is_index = declared is None or (declared.is_integral() and self._is_integral(value))
            return value if is_index else TypeCast(declared, value)
        held = str(self.names(name))
        self.temporaries[held] = TemporaryVariable(held, dtype=declared, shape=())
        self.first.append(
            Assignment(
                p.Variable(held),
                value,
                id=self.ids(f"{insn.id}_{name}"),
                within_inames=insn.within_inames,
                within_inames_is_final=True,
                predicates=insn.predicates,
                depends_on=insn.depends_on,
                depends_on_is_final=True,
                no_sync_with=insn.no_sync_with,
                span=insn.span,
            )
        )
        return p.Variable(held)

    def _is_integral(self, value: Expr) -> bool:
        """Tell whether a sum of products of numbers and arguments is an integer."""
        for node in walk(value):
            if isinstance(node, p.Variable):
                arg = self.kernel.arg_dict.get(node.name)
                if arg is not None and arg.dtype is not None and not arg.dtype.is_integral():
                    return False
            elif is_constant(node) and not isinstance(node, int | np.integer):
                return False
        return True

    def _reject_missing(self) -> None:
        """Reject parameters of the callee that are not among its arguments."""
        for domain in self.callee.domains:
            for name in param_names(domain):
                if name not in self.values and name not in self.renamed:
                    raise self._error(
                        f"'{self.callee.name}' is bounded by '{name}', which is not one of its "
                        "arguments",
                        f"declare it: ValueArg('{name}')",
                    )

    # -- the changed kernel ----------------------------------------------------------------

    def result(self) -> LoopKernel:
        """Return the kernel without the call."""
        kernel, callee, insn = self.kernel, self.callee, self.insn
        mapper = _ArgumentMapper(self)
        new_ids = {
            str(other.id): (str(insn.id) if k == 0 else str(self.ids(str(insn.id))))
            for k, other in enumerate(callee.instructions)
        }
        body = [self._moved(other, mapper, new_ids) for other in callee.instructions]
        waited_for = {name for other in body for name in other.depends_on}
        last = frozenset(str(other.id) for other in body) - waited_for
        instructions: list[InstructionBase] = []
        for other in kernel.instructions:
            if other is insn:
                instructions += [*self.first, *body]
            elif insn.id in other.depends_on:
                depends_on = other.depends_on - {str(insn.id)} | last
                instructions.append(other.copy(depends_on=depends_on))
            else:
                instructions.append(other)
        renamed = self.renamed
        temporaries = {
            renamed[name]: var.map_exprs(mapper).copy(name=renamed[name])
            for name, var in callee.temporary_variables.items()
        }
        slabs = {renamed[name]: s for name, s in callee.iname_slab_increments.items()}
        return kernel.copy(
            args=self._hinted(kernel.args),
            domains=(*kernel.domains, *chain.from_iterable(map(self._domains, callee.domains))),
            instructions=instructions,
            temporary_variables={**kernel.temporary_variables, **self.temporaries, **temporaries},
            inames={
                **kernel.inames,
                **{
                    renamed[name]: iname.copy(name=renamed[name])
                    for name, iname in callee.inames.items()
                },
            },
            loop_priority=(
                *kernel.loop_priority,
                *(tuple(renamed[name] for name in names) for names in callee.loop_priority),
            ),
            iname_slab_increments={**kernel.iname_slab_increments, **slabs},
            functions={**callee.functions, **kernel.functions},
            **joined_extras(kernel, callee),
        )

    def _hinted(self, args: Iterable[ArrayArg | ValueArg]) -> tuple[ArrayArg | ValueArg, ...]:
        """Return the arguments of the caller with the hints of those that they are passed for."""
        hint = UseStreamingLoadTag()
        names = {
            assignee_name(place)
            for name, place in self.places.items()
            if hint in self.callee.arg_dict[name].tags
        }
        return tuple(
            arg.copy(tags=arg.tags | {hint})
            if isinstance(arg, ArrayArg) and arg.name in names
            else arg
            for arg in args
        )

    def _moved(
        self, other: InstructionBase, mapper: _ArgumentMapper, new_ids: Mapping[str, str]
    ) -> InstructionBase:
        """Return an instruction of the callee, rewritten for the caller."""
        insn = self.insn
        if isinstance(other, CInstruction):
            named = other.read_variables.union(other.assignee_var_names())
            stuck = sorted(named & (self.places.keys() | self.values.keys()))
            if stuck:
                raise self._error(
                    f"the C code of instruction '{other.id}' in '{self.callee.name}' names its "
                    f"argument '{stuck[0]}'"
                )
        before = frozenset(new_ids[name] for name in other.depends_on)
        before |= {str(first.id) for first in self.first}
        if not other.depends_on:
            before |= insn.depends_on
        moved = other.with_transformed_expressions(mapper)
        return moved.copy(
            id=new_ids[str(other.id)],
            within_inames=insn.within_inames.union(self.renamed[n] for n in other.within_inames),
            within_inames_is_final=True,
            depends_on=before,
            depends_on_is_final=True,
            predicates=moved.predicates | insn.predicates,
            groups=other.groups | insn.groups,
            conflicts_with_groups=other.conflicts_with_groups | insn.conflicts_with_groups,
            no_sync_with=insn.no_sync_with.union(
                (new_ids.get(name, name), scope) for name, scope in other.no_sync_with
            ),
            tags=other.tags | insn.tags,
        )

    def _domains(self, domain: BasicSet) -> tuple[BasicSet, ...]:
        """Return a domain of the callee with the names and values of the call."""
        inner = {name: f"{name}'" for name in self.values}
        changed = rename_dims(domain, {**self.renamed, **inner})
        try:
            return set_params(changed, {inner[name]: v for name, v in self.values.items()})
        except KgenError as err:
            raise self._error(
                f"a loop of '{self.callee.name}' cannot be bounded by what is passed: {err}"
            ) from None

    def element(self, name: str, index: tuple[Expr, ...]) -> Expr:
        """Return the element of the caller's array that *name* has at *index* in the callee."""
        place = self.places[name]
        if isinstance(place, SubArrayRef):
            swept = [var.name for var in place.swept_inames]
            if len(swept) == len(index):
                at = {
                    name: _plus(part, self._start(place, name))
                    for name, part in zip(swept, index, strict=True)
                }
                return substitute(place.subscript, at)
        elif isinstance(place, p.Variable) and index and not self._is_scalar(place.name):
            return p.Subscript(place, index if len(index) > 1 else index[0])
        elif all(i == 0 for i in index):
            return place
        raise self._error(
            f"'{to_text(place)}' is passed for '{name}', which has "
            f"{counted(len(index), 'axis', 'axes')} in "
            f"'{self.callee.name}'",
            "pass as many loop variables as it has axes: [i, j]: a[i, j]",
        )

    def _start(self, place: SubArrayRef, iname: str) -> Expr:
        """Return the first value of a loop over a part of an array: that of element 0."""
        bounds = self.kernel.get_iname_bounds(iname)
        if bounds.interval.low == 0:
            return 0
        start = bounds.lower
        within = self.kernel.all_params() | self.insn.within_inames
        if not within.issuperset(variable_names(start)):
            raise self._error(
                f"the loop '{iname}' of '{to_text(place)}' starts at '{to_text(start)}', which is "
                "not known around the call"
            )
        return start

    def _is_scalar(self, name: str) -> bool:
        """Tell whether a variable of the caller has no axes."""
        array = self.kernel.array_vars.get(name)
        return array is None or array.shape == ()

    def _error(self, what: str, hint: str | None = None) -> TransformError:
        where = f"instruction '{self.insn}'"
        return TransformError(what, kernel=self.kernel.name, where=where, hint=hint)


def _plus(index: Expr, start: Expr) -> Expr:
    return index if is_zero(start) else simplify(p.Sum((index, start)))


class _ArgumentMapper(SubstitutionMapper):
    """Rewrites expressions of the callee in terms of the operands of a call."""

    def __init__(self, inlining: _Inlining) -> None:
        names = {old: p.Variable(new) for old, new in inlining.renamed.items()}
        super().__init__({**names, **inlining.values})
        self.inlining = inlining

    def map_subscript(self, expr: p.Subscript, *args: Any) -> Expr:
        name = assignee_name(expr)
        if name not in self.inlining.places:
            return super().map_subscript(expr, *args)
        return self.inlining.element(name, tuple(self.rec(i, *args) for i in expr.index_tuple))

    def map_linear_subscript(self, expr: Any, *args: Any) -> Expr:
        name = assignee_name(expr)
        place = self.inlining.places.get(name)
        if place is None or isinstance(place, p.Variable):
            return super().map_linear_subscript(expr, *args)
        return self.inlining.element(name, (self.rec(expr.index, *args),))

    def map_variable(self, expr: p.Variable, *args: Any) -> Expr:
        place = self.inlining.places.get(expr.name)
        if place is None:
            return super().map_variable(expr, *args)
        return place if isinstance(place, p.Variable) else self.inlining.element(expr.name, ())

    map_tagged_variable = map_variable
