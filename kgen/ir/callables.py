"""User-defined functions: their types, and their names on each target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pymbolic.primitives as p
from constantdict import constantdict

from kgen.errors import TypeInferenceFailure, counted
from kgen.ir.arg_descriptors import ArgDescriptor
from kgen.ir.checked import unfit
from kgen.ir.expr import Expr, SubArrayRef
from kgen.ir.fields import Copyable
from kgen.ir.types import NumpyType, to_kgen_type

__all__ = ["CallMangleInfo", "InKernelCallable", "ScalarCallable"]


class InKernelCallable(Copyable):
    """Anything that an instruction can call.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = a[i]", name="copy")
    >>> isinstance(unit.callables_table["copy"], InKernelCallable)
    True
    """

    def get_called_callables(
        self, callables_table: Mapping[str, InKernelCallable], recursive: bool = True
    ) -> frozenset[str]:
        """Return the names in *callables_table* that this calls, or with *recursive* reaches.

        >>> ScalarCallable("f").get_called_callables({})
        frozenset()
        """
        return frozenset()

    def get_used_hw_axes(
        self, callables_table: Mapping[str, InKernelCallable]
    ) -> tuple[frozenset[int], frozenset[int]]:
        """Return the work-group and work-item axes that this and its callees use.

        >>> ScalarCallable("f").get_used_hw_axes({})
        (frozenset(), frozenset())
        """
        return frozenset(), frozenset()


@dataclass(frozen=True)
class ScalarCallable(InKernelCallable):
    """A user-defined function: derive a class with its types, and register an instance.

    :arg name: the name that calls use
    :arg arg_id_to_dtype: types by position: 0, 1... of arguments, -1, -2... of results
    :arg name_in_target: the name in the generated code, by default *name*

    ::

        y[i] = hypotenuse(a[i], b[i])   =>   y[i] = my_hypot(a[i], b[i]);

    A function with several results returns the first one and takes pointers to the others
    after its arguments: ``s[i], c[i] = sincos(x[i])`` is ``s[i] = sincos(x[i], &c[i]);``. Parts of
    arrays are passed as pointers to their first elements; results that are parts of arrays come
    after the arguments: ``[j]: y[j] = scaled(2.0, [j]: x[j])`` is ``scaled(2.0, &x[0], &y[0]);``.
    For other calls, override ``emit_call`` and ``emit_call_insn``.

    >>> import numpy as np
    >>> from kgen.ir.types import NumpyType
    >>> class Hypotenuse(ScalarCallable):
    ...     def with_types(self, arg_id_to_dtype, clbl_inf_ctx):
    ...         real = NumpyType(np.dtype(np.float64))
    ...         types = {-1: real, 0: real, 1: real}
    ...         return self.copy(arg_id_to_dtype=types, name_in_target="my_hypot"), clbl_inf_ctx
    ...     def generate_preambles(self, target):
    ...         yield "my_hypot", "#include <my_math.h>"
    >>> Hypotenuse("hypotenuse").specialized((to_kgen_type(np.int32),) * 2).name_in_target
    'my_hypot'
    """

    name: str
    arg_id_to_dtype: Any = None
    arg_id_to_descr: Any = None
    name_in_target: str | None = None

    def __post_init__(self) -> None:
        for field in ("arg_id_to_dtype", "arg_id_to_descr"):
            value = getattr(self, field)
            if not isinstance(value, Mapping | None):
                raise unfit(f"{field} of '{self.name}'", "a dict by number of argument", value)
            if value is not None:
                object.__setattr__(self, field, constantdict(value))

    def with_types(
        self, arg_id_to_dtype: Mapping[int | str, Any], clbl_inf_ctx: Any
    ) -> tuple[ScalarCallable, Any]:
        """Return ``(this for the given types of arguments, clbl_inf_ctx)``.

        The returned callable has the types of all arguments, as they are converted before the call,
        and of all results. It is called again with the types that it returned.
        """
        if self.arg_id_to_dtype is None:
            raise TypeInferenceFailure(
                f"'{self.name}' has no types: {type(self).__name__} lacks with_types"
            )
        return self, clbl_inf_ctx

    def with_descrs(
        self, arg_id_to_descr: Mapping[int | str, ArgDescriptor], clbl_inf_ctx: Any
    ) -> tuple[ScalarCallable, Any]:
        """Return ``(this for the given shapes of arguments, clbl_inf_ctx)``.

        Numbers are a :class:`~kgen.ir.arg_descriptors.ValueArgDescriptor`, parts of arrays
        an :class:`~kgen.ir.arg_descriptors.ArrayArgDescriptor`: shape and strides. Reject
        arguments that the function does not support here.
        """
        return self.copy(arg_id_to_descr=arg_id_to_descr), clbl_inf_ctx

    def emit_call(self, expression_to_code_mapper: Any, expression: Any, target: Any) -> Expr:
        """Return the expression for the call *expression* in the code of *target*.

        The result consists of pymbolic nodes, whose names are those of the code:
        ``var("fma")(x, y, 1)``. *expression_to_code_mapper* converts the kernel's expressions:
        ``rec(argument, None, dtype)`` is an argument converted to *dtype*.
        """
        rec = expression_to_code_mapper.rec
        pairs = zip(expression.parameters, self.operand_types, strict=True)
        arguments = tuple(rec(argument, None, dtype) for argument, dtype in pairs)
        return p.Call(p.Variable(self.name_in_target or self.name), arguments)

    def emit_call_insn(
        self, insn: Any, target: Any, expression_to_code_mapper: Any
    ) -> tuple[Any, bool]:
        """Return ``(call, assignee_is_returned)`` for an instruction that is a call.

        If the first result is returned, the code is ``a = f(x, &b);``, else ``f(x, &a, &b);``:
        all other results are among the arguments of *call*, which is built as in :meth:`emit_call`.
        ``expression_to_code_mapper(place).expr`` is an assignee as code, for a part of an array the
        address of its first element; ``var("&")(...)`` is the address of another assignee.
        """
        is_returned = bool(insn.assignees) and not isinstance(insn.assignees[0], SubArrayRef)
        stored = insn.assignees[1:] if is_returned else insn.assignees
        address = p.Variable("&")
        pointers = tuple(p.Call(address, (expression_to_code_mapper(o).expr,)) for o in stored)
        call: Any = self.emit_call(
            expression_to_code_mapper=expression_to_code_mapper,
            expression=insn.expression,
            target=target,
        )
        return p.Call(call.function, (*call.parameters, *pointers)), is_returned

    def generate_preambles(self, target: Any) -> Iterable[tuple[str, str]]:
        """Yield pairs ``(key, code)`` that the code of *target* needs before it, each key once."""
        return ()

    def with_name(self, name: str) -> ScalarCallable:
        """Return this for calls by *name*."""
        return self.copy(name=name)

    def is_type_specialized(self) -> bool:
        """Tell whether the types of the arguments are known."""
        return self.arg_id_to_dtype is not None

    def is_ready_for_codegen(self) -> bool:
        """Tell whether the types and shapes of the arguments are known."""
        return self.arg_id_to_dtype is not None and self.arg_id_to_descr is not None

    def specialized(self, dtypes: tuple[NumpyType, ...]) -> ScalarCallable:
        """Return the callable for arguments of the types *dtypes*, or raise an error."""
        result: Any = self.with_types(dict(enumerate(dtypes)), constantdict())
        if not (
            isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], ScalarCallable)
        ):
            raise TypeInferenceFailure(
                f"with_types of '{self.name}' returns {result!r}, not a pair of a callable and "
                "the context that it was given"
            )
        found: ScalarCallable = result[0]
        types = found.arg_id_to_dtype or {}
        count = sum(isinstance(key, int) and key >= 0 for key in types)
        if count != len(dtypes):
            raise TypeInferenceFailure(
                f"'{self.name}' takes {counted(count, 'argument')}, not {len(dtypes)}"
            )
        return found

    @property
    def operand_types(self) -> tuple[NumpyType, ...]:
        """The types that arguments are converted to."""
        return self._types(0, 1)

    @property
    def result_types(self) -> tuple[NumpyType, ...]:
        """The types of the results."""
        return self._types(-1, -1)

    def _types(self, position: int, step: int) -> tuple[NumpyType, ...]:
        types = self.arg_id_to_dtype or {}
        found = []
        while position in types:
            found.append(to_kgen_type(types[position]))
            position += step
        return tuple(found)


@dataclass(frozen=True)
class CallMangleInfo(Copyable):
    """A function with fixed types: its name in the code, and its result and argument types.

    >>> import numpy as np
    >>> real = np.dtype(np.float64)
    >>> CallMangleInfo("sqrt", (real,), (real,)).as_callable("root").operand_types
    (np:dtype('float64'),)
    """

    target_name: str
    result_dtypes: tuple[Any, ...]
    arg_dtypes: tuple[Any, ...]

    def as_callable(self, name: str) -> ScalarCallable:
        """Return the function as expressions call it by *name*.

        >>> import numpy as np
        >>> info = CallMangleInfo("j0", (np.dtype("f8"),), (np.dtype("f8"),))
        >>> info.as_callable("bessel").name_in_target
        'j0'
        """
        types: dict[int | str, Any] = dict(enumerate(map(to_kgen_type, self.arg_dtypes)))
        types.update((-1 - k, to_kgen_type(dtype)) for k, dtype in enumerate(self.result_dtypes))
        return ScalarCallable(name, types, None, self.target_name)
