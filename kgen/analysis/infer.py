"""Type inference for arguments and temporaries, from declarations, callers and instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from pytools.graph import compute_sccs

from kgen.analysis.access import subscript_names
from kgen.analysis.typing import ExpressionTyper, UnknownType
from kgen.errors import TypeInferenceFailure, counted, naming_place, near_names
from kgen.ir.checked import checked
from kgen.ir.data import ArrayBase, TemporaryVariable, ValueArg
from kgen.ir.expr import Expr, is_constant, variable_names
from kgen.ir.functions import Function, find_function
from kgen.ir.instruction import MultiAssignmentBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.promotion import UNDECIDED, Operand, common, settle
from kgen.ir.tags import AccumulatorTag
from kgen.ir.types import FLOAT32, NumpyType, read_type
from kgen.ir.unit import CallableKernel, TranslationUnit, inputs_and_outputs

__all__ = [
    "add_and_infer_dtypes",
    "infer_types",
    "infer_unknown_types",
    "size_names",
    "with_dtypes",
]

KernelOrUnit = TypeVar("KernelOrUnit", LoopKernel, TranslationUnit)


def infer_types(
    kernel: LoopKernel,
    given: Mapping[str, Any] | None = None,
    *,
    complete: bool = True,
    find: Callable[[LoopKernel, str], Function | None] = find_function,
) -> LoopKernel:
    """Fill in the types of arguments and temporaries; the same kernel when all are known.

    *given* are the types that a caller passes, by argument name. Sizes, offsets and
    other variables in subscripts get ``kernel.index_dtype``; variables that instructions write
    get the common type of all values written. With ``complete=False`` the others stay unknown,
    otherwise they are rejected: :class:`TypeInferenceFailure`, which is also raised if *given*
    contradicts a declaration.
    """
    if given:
        kernel = with_dtypes(kernel, given)
    _reject_fractional_sizes(kernel)
    declared = {**kernel.arg_dict, **kernel.temporary_variables}
    unknown = [name for name, variable in declared.items() if variable.dtype is None]
    if not unknown:
        return kernel
    inference = _Inference(kernel, unknown, find)
    found = inference.run(complete)
    if not found:
        return kernel
    typed = with_dtypes(kernel, found)
    inference.typer.leave_to(typed)
    return typed


def with_dtypes(kernel: LoopKernel, dtypes: Mapping[str, Any]) -> LoopKernel:
    """Set the types of arguments and temporaries, by name; declared types must agree.

    Raises :class:`TypeInferenceFailure` for another declared type, or an unknown name.
    """
    changed: dict[str, Any] = {}
    for name, given in dtypes.items():
        dtype = read_type(given, f"'{name}'")
        variable = kernel.variable(name)
        if variable is None:
            known = [*kernel.arg_dict, *kernel.temporary_variables]
            raise TypeInferenceFailure(
                f"a type was given for '{name}', which is not an argument or temporary",
                kernel=kernel.name,
                hint=near_names(name, known),
            )
        if variable.dtype is None and dtype is not None:
            changed[name] = variable.copy(dtype=dtype)
        elif dtype is not None and variable.dtype.numpy_dtype != dtype.numpy_dtype:
            raise TypeInferenceFailure(
                f"'{name}' is declared as {variable.dtype.numpy_dtype} but given as "
                f"{dtype.numpy_dtype}",
                kernel=kernel.name,
                hint=f"pass {variable.dtype.numpy_dtype}, or declare '{name}' without a type, to "
                "take that of each call",
            )
    return kernel.with_declarations(changed)


def _reject_fractional_sizes(kernel: LoopKernel) -> None:
    typed = [arg for arg in kernel.args if isinstance(arg, ValueArg) and arg.dtype is not None]
    fractional = {arg.name: arg.dtype for arg in typed if not arg.dtype.is_integral()}
    for name in size_names(kernel) if fractional else ():
        if name in fractional:
            raise TypeInferenceFailure(
                f"'{name}' is part of a loop bound, shape or offset and must be an "
                f"integer, not {fractional[name].numpy_dtype}",
                kernel=kernel.name,
                hint=f"ValueArg('{name}', numpy.int32)",
            )


def size_names(kernel: LoopKernel) -> tuple[str, ...]:
    """Return the variables of loop bounds, shapes, strides and offsets."""
    names: dict[str, None] = dict.fromkeys(sorted(kernel.all_params()))
    for array in kernel.array_vars.values():
        for expr in _layout_exprs(array):
            if not is_constant(expr):
                names.update(dict.fromkeys(variable_names(expr)))
    return tuple(names)


def _layout_exprs(array: ArrayBase) -> Iterator[Expr]:
    yield from array.layout_exprs
    if isinstance(array, TemporaryVariable):
        yield from array.storage_shape or ()
        yield from array.base_indices or ()


class _Inference:
    """Infers the types of *unknown* variables, in the order of their dependences."""

    def __init__(
        self,
        kernel: LoopKernel,
        unknown: Sequence[str],
        find: Callable[[LoopKernel, str], Function | None],
    ) -> None:
        self.kernel = kernel
        self.unknown = {name: k for k, name in enumerate(unknown)}
        self.types: dict[str, Operand] = {}
        self.typer = ExpressionTyper(kernel, self.types, find)
        self.writers: dict[str, list[tuple[MultiAssignmentBase, int]]] = {n: [] for n in unknown}
        for insn in kernel.instructions:
            if isinstance(insn, MultiAssignmentBase):
                for position, name in enumerate(insn.assignee_var_names()):
                    if name in self.writers:
                        self.writers[name].append((insn, position))

    def run(self, complete: bool) -> dict[str, NumpyType]:
        """Return the inferred types, of all variables if *complete*."""
        self._type_indices()
        needs = {name: self._needs(name) for name in self.unknown if name not in self.types}
        for component in compute_sccs(needs):
            first = component[0]
            if len(component) > 1 or first in needs[first]:
                self._solve_cycle(sorted(component, key=self.unknown.__getitem__))
            else:
                self._solve(first)
        missing = [name for name in needs if name not in self.types]
        if complete and missing:
            self._type_unused(missing)
            missing = [name for name in missing if name not in self.types]
        if missing and complete:
            raise self._failure(missing[0])
        return {name: settle(dtype) for name, dtype in self.types.items()}

    def _type_indices(self) -> None:
        values = [n for n in self.unknown if isinstance(self.kernel.arg_dict.get(n), ValueArg)]
        if not values:
            return
        sizes = set(size_names(self.kernel))
        if not sizes.issuperset(values):
            sizes |= subscript_names(self.kernel)
        self.types.update((name, self.kernel.index_dtype) for name in values if name in sizes)

    def _type_unused(self, names: Sequence[str]) -> None:
        """Give values that nothing reads the index type."""
        read = {n for insn in self.kernel.instructions for n in insn.read_dependency_names()}
        for name in names:
            if name not in read and isinstance(self.kernel.arg_dict.get(name), ValueArg):
                self.types[name] = self.kernel.index_dtype

    def _needs(self, name: str) -> tuple[str, ...]:
        reads: set[str] = set()
        for insn, _ in self.writers[name]:
            reads |= insn.read_dependency_names() & self.unknown.keys()
        return tuple(sorted(reads - self.types.keys()))

    def _solve(self, name: str) -> None:
        try:
            parts = self._written(name)
        except UnknownType:
            return
        if parts:
            self.types[name] = settle(common(*parts))

    def _solve_cycle(self, names: Sequence[str]) -> None:
        """Infer the types of variables that are computed from each other.

        Each starts undecided and takes the common type of the values written to it, which only
        widens, until nothing changes; ``acc = 0; acc = acc + a[i]`` has the type of ``a``.
        """
        self.types.update(dict.fromkeys(names, UNDECIDED))
        try:
            self._widen(names)
            for name in names:
                dtype = self.types.pop(name)
                if dtype != UNDECIDED:
                    self.types[name] = self._accumulated(name, settle(dtype))
            self._widen([name for name in names if name in self.types])
        except UnknownType:
            self.typer.forget()
            for name in names:
                self.types.pop(name, None)

    def _accumulated(self, name: str, dtype: NumpyType) -> NumpyType:
        """Return the type in which a variable holds values of a type."""
        variable = self.kernel.temporary_variables.get(name)
        tags = () if variable is None else variable.tags
        is_accumulator = any(isinstance(tag, AccumulatorTag) for tag in tags)
        return FLOAT32 if is_accumulator and dtype.is_half else dtype

    def _widen(self, names: Sequence[str]) -> None:
        changed = True
        while changed:
            changed = False
            self.typer.forget()
            for name in names:
                parts = [self.types[name], *self._written(name)]
                new = common(*[part for part in parts if part != UNDECIDED] or [UNDECIDED])
                if new != self.types[name]:
                    self.types[name] = new
                    changed = True
                    self.typer.forget()

    def _written(self, name: str) -> list[Operand]:
        """Return the types of the values that are written to a variable."""
        found = []
        for insn, position in self.writers[name]:
            with naming_place("instruction", insn):
                result = self.typer.result(insn.expression)
                results = result if isinstance(result, tuple) else (result,)
                if len(results) != len(insn.assignees):
                    verb = "is" if len(results) == 1 else "are"
                    raise self.typer.failure(
                        f"{counted(len(results), 'value')} {verb} assigned to "
                        f"{counted(len(insn.assignees), 'variable')}",
                        f"assign to {counted(len(results), 'variable')}: a, b, ... = ..."
                        if len(results) > 1
                        else "assign each value in an instruction of its own",
                    )
            found.append(results[position])
        return found

    def _failure(self, name: str) -> TypeInferenceFailure:
        try:
            self._written(name)
        except UnknownType as err:
            if err.variable != name:
                return err
        kind = type(self.kernel.get_var_descriptor(name)).__name__
        why = (
            "it is computed only from itself"
            if self.writers[name]
            else "no instruction determines it"
        )
        uses = (i for i in self.kernel.instructions if name in i.read_dependency_names())
        return TypeInferenceFailure(
            f"the type of '{name}' is not known: {why}",
            kernel=self.kernel.name,
            where=next((f"instruction '{use}'" for use in uses), None),
            hint=f"add_dtypes(kernel, {{'{name}': numpy.float64}}), or declare it: "
            f"{kind}('{name}', dtype=...)",
        )


@checked
def infer_unknown_types(t_unit: KernelOrUnit, expect_completion: bool = False) -> KernelOrUnit:
    """Infer types from declarations and instructions.

    Types that only a caller determines stay unknown; with *expect_completion* they are rejected:
    :class:`TypeInferenceFailure`. The arguments of a called kernel have the types that calls pass;
    they stay unknown if calls pass different ones.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = 2*a[i]", [lp.GlobalArg("a", "float32"), ...])
    >>> lp.infer_unknown_types(unit)["kgen_kernel"].arg_dict["out"].dtype
    np:dtype('float32')
    """
    if isinstance(t_unit, TranslationUnit):
        return _infer_unit(t_unit, expect_completion)
    return infer_types(t_unit, complete=expect_completion)


def _infer_unit(unit: TranslationUnit, complete: bool) -> TranslationUnit:
    """Infer the types of all kernels, those of callers first."""
    table = unit.callables_table
    names = sorted(kernel.name for kernel in unit.kernels())
    calls = {
        name: sorted(table[name].get_called_callables(table, recursive=False).intersection(names))
        for name in names
    }
    for name in (name for part in reversed(compute_sccs(calls)) for name in part):
        callers = [] if name in unit.entrypoints else [n for n in names if name in calls[n]]
        passed = [types for n in callers for types in _types_passed(unit, unit[n], name)]
        agreed = passed[0] if passed and all(types == passed[0] for types in passed) else {}
        is_open = bool(passed) and not agreed
        kernel = unit[name]
        typed = infer_types(kernel, agreed, complete=complete and not is_open, find=_finder(unit))
        if typed is not kernel:
            unit = unit.with_kernel(typed)
    return unit


def _types_passed(
    unit: TranslationUnit, caller: LoopKernel, callee: str
) -> list[dict[str, NumpyType]]:
    """Return the types that each call in *caller* passes, for arguments of *callee* without one."""
    found: list[dict[str, NumpyType]] = []

    def record(name: str, given: dict[str, NumpyType]) -> None:
        if name == callee:
            found.append(given)

    typer = ExpressionTyper(caller, {}, _finder(unit, record))
    for insn in caller.instructions:
        if isinstance(insn, MultiAssignmentBase):
            with suppress(TypeInferenceFailure):  # a call may have no result
                typer.result(insn.expression)
    return found


def _finder(
    unit: TranslationUnit, record: Callable[[str, dict[str, NumpyType]], None] | None = None
) -> Callable[[LoopKernel, str], Function | None]:
    """Return the lookup of functions, including the kernels of *unit*.

    *record* is called with the name of a called kernel, and the types that a call passes.
    """
    if len(unit.callables_table) == 1:
        return find_function

    def find(kernel: LoopKernel, name: str) -> Function | None:
        item = unit.callables_table.get(name)
        if not isinstance(item, CallableKernel):
            return find_function(kernel, name)
        callee = item.subkernel
        inputs, outputs = inputs_and_outputs(callee)

        def results(operands: tuple[NumpyType, ...]) -> tuple[NumpyType, ...]:
            given = dict(zip(inputs, operands, strict=False))
            declared = {a.name for a in callee.args if a.dtype is not None}
            given = {name: dtype for name, dtype in given.items() if name not in declared}
            if record is not None:
                record(name, given)
            typed = infer_types(callee, given, find=find)
            return tuple(typed.arg_dict[name].dtype for name in outputs)

        return Function(name, None, lambda dtypes: dtypes, results)

    return find


@checked
def add_and_infer_dtypes(
    prog: KernelOrUnit,
    dtype_dict: Mapping[str, Any],
    expect_completion: bool = False,
    kernel_name: str | None = None,
) -> KernelOrUnit:
    """Set the types of variables, and infer the remaining types.

    ``add_and_infer_dtypes(knl, {"a,b": numpy.float32})`` sets the types of two arguments of the
    only entry point, or of the kernel called *kernel_name*.

    >>> import numpy as np
    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = a[i] + b[i]")
    >>> unit = add_and_infer_dtypes(unit, {"a": np.float32, "b": np.float64})
    >>> unit["kgen_kernel"].arg_dict["out"].dtype
    np:dtype('float64')
    """
    dtypes = {
        name.strip(): dtype for names, dtype in dtype_dict.items() for name in names.split(",")
    }
    if isinstance(prog, TranslationUnit):
        kernel = prog[kernel_name] if kernel_name else prog.default_entrypoint
        prog = prog.with_kernel(with_dtypes(kernel, dtypes))
    else:
        prog = with_dtypes(prog, dtypes)
    return infer_unknown_types(prog, expect_completion)
