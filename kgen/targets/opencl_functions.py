"""A class for functions of OpenCL C that users register."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import pymbolic.primitives as p

from kgen.errors import TypeInferenceFailure
from kgen.ir.callables import ScalarCallable
from kgen.ir.expr import TypeCast, TypedLiteral, is_constant
from kgen.ir.promotion import common, settle
from kgen.ir.types import FLOAT32, FLOAT64

__all__ = ["OpenCLCallable"]


@dataclass(frozen=True)
class OpenCLCallable(ScalarCallable):
    """A function of OpenCL C on numbers of one type, to which its arguments are converted.

    The type is real, with ``only_float32`` always float32; with ``takes_integers`` it may be an
    integer.

    >>> OpenCLCallable("mix", arg_count=3).specialized((FLOAT32, FLOAT64, FLOAT32)).result_types
    (np:dtype('float64'),)
    """

    arg_count: int = 1
    takes_integers: bool = False
    only_float32: bool = False

    def with_types(self, arg_id_to_dtype: Mapping[int | str, Any], clbl_inf_ctx: Any) -> Any:
        """Return the function for the common type of all arguments."""
        given = [dtype for key, dtype in arg_id_to_dtype.items() if int(key) >= 0]
        if len(given) != self.arg_count:
            raise TypeInferenceFailure(
                f"'{self.name}' takes {self.arg_count} arguments, not {len(given)}"
            )
        return self._of(given), clbl_inf_ctx

    def emit_call(self, expression_to_code_mapper: Any, expression: Any, target: Any) -> Any:
        """Call the function with arguments that are cast: overloads are found by exact types."""
        pairs = zip(expression.parameters, self.operand_types, strict=True)
        exact = tuple(
            TypedLiteral(argument, dtype) if is_constant(argument) else TypeCast(dtype, argument)
            for argument, dtype in pairs
        )
        called = p.Call(expression.function, exact)
        return super().emit_call(expression_to_code_mapper, called, target)

    def _of(self, given: list[Any]) -> Self:
        for dtype in given:
            if dtype.kind not in "biuf":
                raise TypeInferenceFailure(
                    f"'{self.name}' takes real numbers, not {dtype.numpy_dtype}"
                )
        joined = settle(common(*given))
        if joined.is_integral() and not self.takes_integers:
            joined = FLOAT32 if self.only_float32 else FLOAT64
        if self.only_float32 and joined != FLOAT32:
            raise TypeInferenceFailure(
                f"'{self.name}' takes float32, not {joined.numpy_dtype}\n"
                f"  hint: convert the arguments: cast(np.float32, ...)"
            )
        types = dict.fromkeys((*range(self.arg_count), -1), joined)
        return self.copy(arg_id_to_dtype=types)
