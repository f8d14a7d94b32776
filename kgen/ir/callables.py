"""Functions of a user's own: their types, and what they are called on each target."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from constantdict import constantdict

from kgen.errors import TypeInferenceFailure
from kgen.ir.types import NumpyType, to_kgen_type

__all__ = ["CallMangleInfo", "InKernelCallable", "ScalarCallable"]


class InKernelCallable:
    """Anything that an instruction can call.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = a[i]", name="copy")
    >>> isinstance(unit.callables_table["copy"], InKernelCallable)
    True
    """


@dataclass(frozen=True)
class ScalarCallable(InKernelCallable):
    """A function on numbers; make a subclass that says its types, and register that.

    :arg name: the name that calls use
    :arg arg_id_to_dtype: types by position: 0, 1... of arguments, -1, -2... of results
    :arg name_in_target: what the generated code calls; *name* when left out

    ::

        y[i] = hypotenuse(a[i], b[i])   =>   y[i] = my_hypot(a[i], b[i]);

    A function with several results returns the first one and takes pointers to the others
    after its arguments: ``s[i], c[i] = sincos(x[i])`` is ``s[i] = sincos(x[i], &c[i]);``.

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
    arg_id_to_dtype: Mapping[int | str, Any] | None = None
    arg_id_to_descr: Mapping[int | str, Any] | None = None
    name_in_target: str | None = None

    def __post_init__(self) -> None:
        for field in ("arg_id_to_dtype", "arg_id_to_descr"):
            value = getattr(self, field)
            if value is not None:
                object.__setattr__(self, field, constantdict(value))

    def copy(self, **changes: Any) -> Self:
        """Return this with some fields changed."""
        return dataclasses.replace(self, **changes)

    def with_types(
        self, arg_id_to_dtype: Mapping[int | str, Any], clbl_inf_ctx: Any
    ) -> tuple[ScalarCallable, Any]:
        """Return ``(this for the given types of arguments, clbl_inf_ctx)``.

        What is returned has the types of all arguments, as they are converted before the call,
        and of all results. It is asked again for the types that it returned.
        """
        if self.arg_id_to_dtype is None:
            raise TypeInferenceFailure(
                f"'{self.name}' has no types: {type(self).__name__} lacks with_types"
            )
        return self, clbl_inf_ctx

    def with_descrs(
        self, arg_id_to_descr: Mapping[int | str, Any], clbl_inf_ctx: Any
    ) -> tuple[ScalarCallable, Any]:
        """Return ``(this for the given shapes of arguments, clbl_inf_ctx)``: all are numbers."""
        return self.copy(arg_id_to_descr=arg_id_to_descr), clbl_inf_ctx

    def generate_preambles(self, target: Any) -> Iterable[tuple[str, str]]:
        """Yield pairs ``(key, code)`` that the code of *target* needs before it, each key once."""
        return ()

    def specialized(self, dtypes: tuple[NumpyType, ...]) -> ScalarCallable:
        """Return what is called for arguments of the types *dtypes*, or refuse."""
        found, _ = self.with_types(dict(enumerate(dtypes)), constantdict())
        types = found.arg_id_to_dtype or {}
        count = sum(isinstance(key, int) and key >= 0 for key in types)
        if count != len(dtypes):
            raise TypeInferenceFailure(f"'{self.name}' takes {count}, not {len(dtypes)} arguments")
        if -1 not in types:
            raise TypeInferenceFailure(f"'{self.name}' does not say the type of its result: -1")
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
class CallMangleInfo:
    """A function of fixed types: the name in the code, the types of results and arguments.

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
