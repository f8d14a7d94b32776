"""The functions of a program: merging, renaming and registering kernels and functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pymbolic.primitives as p
from pytools import UniqueNameGenerator

from kgen.errors import TransformError, near_names
from kgen.ir.callables import CallMangleInfo, InKernelCallable, ScalarCallable
from kgen.ir.checked import checked
from kgen.ir.expr import Expr, IdentityMapper
from kgen.ir.kernel import LoopKernel
from kgen.ir.unit import CallableKernel, TranslationUnit
from kgen.transforms.programs.inline import order_of_calls

__all__ = ["merge", "register_callable", "rename_callable"]


@checked
def merge(translation_units: Sequence[TranslationUnit]) -> TranslationUnit:
    """Merge several programs into one, in which their kernels can call each other.

    ::

        caller: y[i] = f(x[i])
        f: out = 2*a                =>  both in one program, with the entry points of either

    Raises :class:`TransformError` for two different kernels with the same name, for different
    targets, and for recursive kernels.

    >>> from kgen.frontend import make_function, make_kernel
    >>> f = make_function("{ [i]: 0<=i<4 }", "y[i] = 2*x[i]", name="f")
    >>> knl = make_kernel("{ [i,j]: 0<=i,j<4 }", "[i]: b[i] = f([j]: a[j])")
    >>> unit = merge([knl, f])
    >>> sorted(unit.callables_table), sorted(unit.entrypoints)
    (['f', 'kgen_kernel'], ['kgen_kernel'])
    """
    if not translation_units:
        raise TransformError(
            "there are no programs to merge\n  hint: merge([caller, callee, ...]) takes programs"
        )
    first = translation_units[0]
    table: dict[str, InKernelCallable] = {}
    for unit in translation_units:
        if unit.target != first.target:
            raise TransformError(
                f"programs for {first.target} and for {unit.target} cannot be merged\n  hint: "
                "unit.copy(target=...) changes it for all kernels"
            )
        for name, item in unit.callables_table.items():
            if table.setdefault(name, item) != item:
                raise TransformError(
                    f"there are two different callables '{name}'\n"
                    f"  hint: rename_callable(unit, '{name}') gives one of them a new name"
                )
    functions = {name: f for name, f in table.items() if isinstance(f, ScalarCallable)}
    entrypoints = frozenset[str]().union(*(unit.entrypoints for unit in translation_units))
    merged = first.copy(callables_table=table, entrypoints=entrypoints)
    if functions:
        merged = merged.map_kernels(lambda kernel: kernel.copy(functions=functions))
    order_of_calls(merged)
    return merged


@checked
def rename_callable(
    t_unit: TranslationUnit,
    old_name: str,
    new_name: str | None = None,
    existing_ok: bool = False,
) -> TranslationUnit:
    """Rename a kernel or function, and its calls.

    :arg new_name: by default, a new name is generated
    :arg existing_ok: an equal callable with the new name may exist, and is then used

    ::

        y[i] = f(x[i])  =>  y[i] = g(x[i])

    Raises :class:`TransformError` if *old_name* does not exist, or *new_name* does.

    >>> from kgen.frontend import make_function
    >>> f = make_function("{ [i]: 0<=i<4 }", "y[i] = 2*x[i]", name="f")
    >>> sorted(rename_callable(f, "f", "double").callables_table)
    ['double']
    """
    table = dict(t_unit.callables_table)
    if old_name not in table:
        raise TransformError(
            f"there is nothing called '{old_name}'\n  hint: {near_names(old_name, table)}"
        )
    new = str(UniqueNameGenerator(set(table))(old_name)) if new_name is None else new_name
    item = _renamed(table.pop(old_name), new)
    if new in table and not (existing_ok and table[new] == item):
        raise TransformError(
            f"the name '{new}' is taken\n  hint: leave new_name out to choose one automatically"
        )
    table[new] = item
    mapper = _CallRenamer(old_name, new)
    entrypoints = frozenset(new if n == old_name else n for n in t_unit.entrypoints)
    return t_unit.copy(callables_table=table, entrypoints=entrypoints).map_kernels(mapper.kernel)


@checked
def register_callable(
    translation_unit: TranslationUnit,
    function_identifier: str,
    callable_: InKernelCallable | CallMangleInfo,
    redefining_not_ok: bool = True,
) -> TranslationUnit:
    """Register a function that the kernels of a program can call.

    :arg callable_: an instance of a subclass of :class:`ScalarCallable`, a
        :class:`CallableKernel`, or a :class:`CallMangleInfo`
    :arg redefining_not_ok: reject a name that is already in use in the program

    ::

        y[i] = f(x[i])    # f is not known  =>  y[i] = my_f(x[i]);

    Raises :class:`TransformError` for a name that is in use.

    >>> import numpy as np
    >>> from kgen.frontend import make_kernel
    >>> from kgen.targets.c import CTarget
    >>> from kgen.codegen import generate_body
    >>> from kgen.transforms.storage.declarations import add_dtypes
    >>> real = np.dtype(np.float64)
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", "y[i] = f(x[i])", target=CTarget())
    >>> knl = register_callable(knl, "f", CallMangleInfo("my_f", (real,), (real,)))
    >>> print(generate_body(add_dtypes(knl, {"x": real})))
      for (int i = 0; i < 4; ++i)
        y[i] = my_f(x[i]);
    """
    name = function_identifier
    table = dict(translation_unit.callables_table)
    item = callable_.as_callable(name) if isinstance(callable_, CallMangleInfo) else callable_
    item = _renamed(item, name)
    if redefining_not_ok and table.get(name, item) != item:
        raise TransformError(
            f"the name '{name}' is taken\n  hint: register_callable(..., redefining_not_ok=False)"
        )
    table[name] = item
    unit = translation_unit.copy(callables_table=table)
    if isinstance(item, ScalarCallable):
        return unit.map_kernels(lambda k: k.copy(functions={**k.functions, name: item}))
    order_of_calls(unit)
    return unit


def _renamed(item: InKernelCallable, name: str) -> InKernelCallable:
    if isinstance(item, CallableKernel):
        return item.copy(subkernel=item.subkernel.copy(name=name))
    return item


class _CallRenamer(IdentityMapper):
    def __init__(self, old: str, new: str) -> None:
        super().__init__()
        self.old, self.new = old, new

    def kernel(self, kernel: LoopKernel) -> LoopKernel:
        """Rename the calls in a kernel."""
        instructions = tuple(i.with_transformed_expressions(self) for i in kernel.instructions)
        rules = {
            name: dataclasses.replace(rule, expression=self(rule.expression))
            for name, rule in kernel.substitutions.items()
        }
        functions = {self._name(name): function for name, function in kernel.functions.items()}
        return kernel.copy(
            instructions=instructions, substitutions=rules, functions=functions, origin=None
        )

    def _name(self, name: str) -> str:
        return self.new if name == self.old else name

    def _function(self, function: Expr) -> Expr:
        return p.Variable(self._name(function.name)) if type(function) is p.Variable else function

    def map_call(self, expr: p.Call, *args: Any) -> Expr:
        parameters = tuple(self.rec(part, *args) for part in expr.parameters)
        return p.Call(self._function(expr.function), parameters)

    def map_call_with_kwargs(self, expr: p.CallWithKwargs, *args: Any) -> Expr:
        parameters = tuple(self.rec(part, *args) for part in expr.parameters)
        keywords = {name: self.rec(part, *args) for name, part in expr.kw_parameters.items()}
        return p.CallWithKwargs(self._function(expr.function), parameters, keywords)
