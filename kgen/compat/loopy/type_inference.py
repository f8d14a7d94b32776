"""loopy.type_inference: types of expressions, of variables, and of functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kgen.analysis.infer import *
from kgen.analysis.typing import ExpressionTyper, UnknownType
from kgen.ir.callables import InKernelCallable, ScalarCallable
from kgen.ir.expr import Expr
from kgen.ir.functions import Function, RegisteredFunction, find_function
from kgen.ir.kernel import LoopKernel


class TypeInferenceMapper:
    """Return the types of expressions in a kernel, as far as its declarations determine them.

    *clbl_inf_ctx* has functions that expressions may call beside those of the kernel.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "b[i] = a[i]", [lp.GlobalArg("a", "float32"), ...])
    >>> infer = TypeInferenceMapper(unit.default_entrypoint, unit.callables_table)
    >>> infer(lp.symbolic.parse("2*a[i] + 1")), infer(lp.symbolic.parse("i // 2"))
    (np:dtype('float32'), np:dtype('int32'))

    Raises :class:`TypeInferenceFailure` for a name without a type.
    """

    def __init__(self, kernel: LoopKernel, clbl_inf_ctx: Mapping[str, InKernelCallable]) -> None:
        self.kernel = kernel
        self.clbl_inf_ctx = clbl_inf_ctx

    def __call__(
        self, expr: Expr, *, return_tuple: bool = False, return_dtype_set: bool = False
    ) -> Any:
        """Return the type of an expression, with *return_tuple* a tuple: one for each result.

        With *return_dtype_set*, this is in a list, which is empty if the type of a variable is
        missing.
        """
        try:
            found = ExpressionTyper(self.kernel, find=self._find)(expr)
        except UnknownType as error:
            if return_dtype_set and self.kernel.variable(error.variable) is not None:
                return []
            raise
        if return_tuple and not isinstance(found, tuple):
            found = (found,)
        return [found] if return_dtype_set else found

    def _find(self, kernel: LoopKernel, name: str) -> Function | None:
        known = self.clbl_inf_ctx.get(name)
        if isinstance(known, ScalarCallable):
            return RegisteredFunction.of(known)
        return find_function(kernel, name)
