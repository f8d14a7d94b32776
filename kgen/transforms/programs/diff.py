"""Differentiation: kernels that compute derivatives of other kernels' results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

import pymbolic.primitives as p

from kgen.analysis.infer import infer_types
from kgen.analysis.shapes import infer_argument_shapes, infer_temporary_shapes
from kgen.errors import TransformError, counted
from kgen.ir.checked import checked
from kgen.ir.closure import closure
from kgen.ir.data import ArrayArg, ArrayBase, GlobalArg, Iname, TemporaryVariable
from kgen.ir.expr import Expr, subscript, to_text, variable_names
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.domain import as_basic_set
from kgen.ir.unit import TranslationUnit
from kgen.transforms.expressions.derivative import Differentiator, reads_of
from kgen.transforms.expressions.rules import expand_subst
from kgen.transforms.select import (
    check_well_formed,
    new_names,
    require_argument,
    split_names,
)

__all__ = ["diff_kernel"]

Program = TypeVar("Program", LoopKernel, TranslationUnit)


@checked
def diff_kernel(
    kernel: Program,
    diff_outputs: str | Collection[str],
    by: str,
    diff_iname_prefix: str = "diff_i",
    batch_axes_in_by: Collection[int] = frozenset(),
    copy_outputs: str | Collection[str] = frozenset(),
) -> tuple[Program, Any]:
    """Return a kernel that computes derivatives, and their names.

    :arg diff_outputs: arguments that are written. The derivative of ``z`` by ``x``, ``z_dx``, has
        the axes of ``z``, followed by those of ``x``.
    :arg by: the argument to differentiate by, an array or a number
    :arg diff_iname_prefix: the new loops, over the elements of *by*
    :arg batch_axes_in_by: batch axes of *by*: ``z[k]`` depends on ``x[k]`` only.
        The derivative has no axes for them.
    :arg copy_outputs: outputs to compute in addition to the derivatives

    ::

        z[i] = sin(x[i])  =>  z_dx[i, d] = cos(x[i])*(1 if d == i else 0)

    Returns the name of the derivative for one output, a tuple of names for several; ``None`` stands
    for an output that does not depend on *by*. An output that updates its previous value (``z[i] =
    z[i] + ...``) needs the derivative of that value as the initial value of its derivative. For
    functions that are not smooth (``abs``, ``max``, conditions), the derivative is that of the
    branch taken. A derivative has the type of its output, if that is known already, else the type
    of its operands, which are only numbers for linear functions.

    Raises :class:`TransformError` for expressions that cannot be differentiated by *by*:
    C code, calls with several results, functions without a rule, products over loops.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<n }", "z[i] = sin(x[i])")
    >>> knl, name = diff_kernel(knl, "z", "x")
    >>> print(name, "|", knl.default_entrypoint.instructions[0])
    z_dx | z_dx[i, diff_i0] = cos(x[i])*(1.0 if diff_i0 == i else 0.0)  {id=insn_dx}
    """
    names = split_names(diff_outputs), split_names(copy_outputs)
    fixed = frozenset(batch_axes_in_by)
    if isinstance(kernel, TranslationUnit):
        changed, found = _diff(kernel.default_entrypoint, by, diff_iname_prefix, fixed, *names)
        return kernel.with_kernel(changed), found
    return _diff(kernel, by, diff_iname_prefix, fixed, *names)


def _diff(
    kernel: LoopKernel,
    by: str,
    diff_iname_prefix: str,
    batch_axes_in_by: frozenset[int],
    outputs: tuple[str, ...],
    copied: tuple[str, ...],
) -> tuple[LoopKernel, Any]:
    work = _Differentiation(kernel, by, diff_iname_prefix, batch_axes_in_by)
    result = work.result(outputs, copied)
    names = tuple(work.name_of(name) if name in work.active else None for name in outputs)
    return result, names[0] if len(names) == 1 else names


class _Differentiation:
    """The differentiation of one kernel: the variables that depend on *by*, and instructions."""

    def __init__(self, kernel: LoopKernel, by: str, prefix: str, batch: frozenset[int]) -> None:
        kernel = infer_types(expand_subst(kernel), complete=False)
        self.kernel = infer_temporary_shapes(infer_argument_shapes(kernel))
        self.by, self.prefix, self.batch = by, prefix, batch
        declared = require_argument(self.kernel, by)
        self.extents = self._shape_of(declared) if isinstance(declared, ArrayBase) else ()
        unknown = [axis for axis in batch if not 0 <= axis < len(self.extents)]
        if unknown:
            raise self._error(
                f"'{by}' has {counted(len(self.extents), 'axis', 'axes')}, none of number "
                f"{unknown[0]}"
            )
        if by in self.kernel.get_written_variables():
            raise self._error(f"'{by}' is written, so that there is no derivative by its values")
        self.new_names = new_names(self.kernel)
        self.ids = self.kernel.get_instruction_id_generator()
        self.active = self._depending()
        self.names: dict[str, str] = {}

    def _shape_of(self, array: ArrayBase) -> tuple[Expr, ...]:
        if not isinstance(array.shape, tuple) or None in array.shape:
            raise TransformError(
                f"the shape of '{array.name}' is not known",
                because="an array of derivatives has all its axes",
                hint=f"declare it: GlobalArg('{array.name}', shape=...)",
            )
        return array.shape

    def _error(self, what: str, insn: InstructionBase | None = None) -> TransformError:
        where = None if insn is None else f"instruction '{insn}'"
        return TransformError(what, kernel=self.kernel.name, where=where)

    def _depending(self) -> frozenset[str]:
        """Return the variables whose values depend on those of *by*."""
        flows = [(self._reads(i), i.assignee_var_names()) for i in self.kernel.instructions]
        return frozenset(
            closure(
                [self.by],
                lambda name: [n for read, written in flows if name in read for n in written],
            )
        )

    def _reads(self, insn: InstructionBase) -> frozenset[str]:
        if isinstance(insn, Assignment):
            own = insn.assignee_var_names() if insn.atomicity else ()
            return reads_of(insn.expression).union(own)
        return insn.read_dependency_names()

    def name_of(self, name: str) -> str:
        """Return the derivative of the variable *name*."""
        if name not in self.names:
            self.names[name] = str(self.new_names(f"{name}_d{self.by}"))
        return self.names[name]

    # -- the new kernel ----------------------------------------------------------------------

    def result(self, outputs: tuple[str, ...], copied: tuple[str, ...]) -> LoopKernel:
        """Return the kernel of the derivatives of *outputs*, which computes *copied* too."""
        kernel = self.kernel
        written = kernel.get_written_variables()
        for name in (*outputs, *copied):
            require_argument(kernel, name)
            if name not in written:
                raise self._error(f"'{name}' is not an output: nothing writes it")
        wanted = self._wanted(outputs)
        domains, inames = list(kernel.domains), dict(kernel.inames)
        derivatives: dict[str, Assignment] = {}
        for insn in kernel.instructions:
            if not wanted.isdisjoint(insn.assignee_var_names()):
                loops = self._loops()
                for iname, extent in loops.items():
                    domains.append(_domain(iname, extent))
                    inames[iname] = Iname(iname)
                derivatives[str(insn.id)] = self._derivative(insn, tuple(loops))
        kept = self._kept(derivatives, copied)
        instructions: list[InstructionBase] = []
        for insn in kernel.instructions:
            derivative = derivatives.get(str(insn.id))
            if derivative is not None:
                instructions.append(self._waiting(derivative, insn, derivatives, kept))
            if str(insn.id) in kept:
                instructions.append(self._waiting(insn, insn, derivatives, kept))
        changed = kernel.copy(
            instructions=tuple(instructions),
            domains=tuple(domains),
            inames=inames,
            origin=None,
            **self._declarations(wanted, instructions),
        )
        check_well_formed(changed)
        return changed

    def _wanted(self, outputs: tuple[str, ...]) -> frozenset[str]:
        """Return the variables whose derivatives are computed."""
        return frozenset(
            closure(
                self.active.intersection(outputs),
                lambda written: [
                    name
                    for writer in self.kernel.writers.get(written, ())
                    for name in self._reads(self.kernel.id_to_insn[writer]) & self.active
                    if name != self.by
                ],
            )
        )

    def _loops(self) -> dict[str, Expr]:
        """Return new loop variables, one for each axis that counts, and how long they are."""
        return {
            str(self.new_names(f"{self.prefix}{axis}")): extent
            for axis, extent in enumerate(self.extents)
            if axis not in self.batch
        }

    def _derivative(self, insn: InstructionBase, loops: tuple[str, ...]) -> Assignment:
        if not isinstance(insn, Assignment) or insn.atomicity:
            raise self._error("only plain assignments can be differentiated", insn)
        index = tuple(map(p.Variable, loops))
        axes = [axis for axis in range(len(self.extents)) if axis not in self.batch]

        def leaf(name: str, at: tuple[Expr, ...]) -> Expr:
            if name not in self.active:
                return 0
            if name != self.by:
                return subscript(p.Variable(self.name_of(name)), (*at, *index))
            matches = [p.Comparison(d, "==", at[k]) for d, k in zip(index, axes, strict=True)]
            if not matches:
                return 1.0
            is_same = matches[0] if len(matches) == 1 else p.LogicalAnd(tuple(matches))
            return p.If(is_same, 1.0, 0.0)

        place = insn.assignee
        at: tuple[Expr, ...] = ()
        if isinstance(place, p.Variable):
            name = place.name
        elif isinstance(place, p.Subscript) and isinstance(place.aggregate, p.Variable):
            name, at = place.aggregate.name, place.index_tuple
        else:
            raise self._error(f"'{to_text(place)}' has no derivative", insn)
        try:
            value = Differentiator(leaf)(insn.expression)
        except TransformError as err:
            raise self._error(str(err), insn) from None
        return insn.copy(
            id=str(self.ids(f"{insn.id}_d{self.by}")),
            assignee=subscript(p.Variable(self.name_of(name)), (*at, *index)),
            expression=value,
            within_inames=insn.within_inames.union(loops),
            temp_var_type=None,
        )

    def _kept(self, derivatives: Mapping[str, Assignment], copied: tuple[str, ...]) -> set[str]:
        """Return the instructions that compute values for derivatives, or copied outputs."""
        kernel = self.kernel

        def writers(names: Iterable[str]) -> list[str]:
            return [writer for name in names for writer in kernel.writers.get(name, ())]

        read = (derivative.read_dependency_names() for derivative in derivatives.values())
        starts = writers({*copied}.union(*read))
        return {*closure(starts, lambda n: writers(kernel.id_to_insn[n].read_dependency_names()))}

    def _waiting(
        self,
        new: InstructionBase,
        old: InstructionBase,
        derivatives: Mapping[str, Assignment],
        kept: Collection[str],
    ) -> InstructionBase:
        """Return *new*, made from *old*, with dependencies on what *old*'s dependencies became.

        A derivative reads what its instruction reads, before that overwrites any of it.
        """

        def became(dep: str) -> list[str]:
            own = [str(derivatives[dep].id)] if dep in derivatives else []
            return [dep, *own] if dep in kept else own

        def further(dep: str) -> Collection[str]:
            return () if became(dep) else self.kernel.id_to_insn[dep].depends_on

        waits = {new for dep in closure(old.depends_on, further) for new in became(dep)}
        own = derivatives.get(str(old.id))
        if own is not None and new is old:
            waits.add(str(own.id))
        apart = {
            (other, scope)
            for insn_id, scope in new.no_sync_with
            for other in (insn_id, str(derivatives[insn_id].id) if insn_id in derivatives else "")
            if other in kept or (other and other != insn_id)
        }
        return new.copy(depends_on=frozenset(waits), no_sync_with=frozenset(apart))

    def _declarations(
        self, wanted: frozenset[str], instructions: Collection[InstructionBase]
    ) -> dict[str, Any]:
        """Return the arguments and temporaries that are still used, and those of derivatives."""
        kernel = self.kernel
        used = {name for insn in instructions for name in insn.dependency_names()}
        extents = tuple(e for axis, e in enumerate(self.extents) if axis not in self.batch)
        written = kernel.get_written_variables()
        args = [arg for arg in kernel.args if arg.name in used or arg.name not in written]
        temporaries = {n: v for n, v in kernel.temporary_variables.items() if n in used}
        for name in sorted(wanted):
            new = self.name_of(name)
            if name in kernel.temporary_variables:
                old = kernel.temporary_variables[name]
                temporaries[new] = TemporaryVariable(
                    new,
                    old.dtype,
                    shape=(*self._shape_of(old), *extents),
                    address_space=old.address_space,
                )
            else:
                arg = kernel.arg_dict[name]
                assert isinstance(arg, ArrayArg)
                is_read = any(new in insn.read_dependency_names() for insn in instructions)
                args.append(
                    GlobalArg(
                        new,
                        arg.dtype,
                        shape=(*self._shape_of(arg), *extents),
                        is_input=is_read and arg.is_input is not False,
                        is_output=True,
                    )
                )
        return {"args": tuple(args), "temporary_variables": temporaries}


def _domain(iname: str, extent: Expr) -> Any:
    names = variable_names(extent)
    params = f"[{', '.join(names)}] -> " if names else ""
    return as_basic_set(f"{params}{{ [{iname}]: 0 <= {iname} < {to_text(extent)} }}")
