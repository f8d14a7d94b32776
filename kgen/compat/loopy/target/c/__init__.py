"""loopy.target.c: C."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kgen.codegen import generate_header
from kgen.compat.loopy.target.c import c_execution
from kgen.compat.loopy.target.c.c_execution import CCompiler
from kgen.errors import TypeInferenceFailure, near_names
from kgen.ir.callables import ScalarCallable
from kgen.ir.functions import FUNCTIONS
from kgen.ir.types import FLOAT32, FLOAT64
from kgen.targets.builder import ASTBuilderBase, CFamilyTarget
from kgen.targets.c import (
    CASTBuilder,
    CTarget,
    CWithGNULibcTarget,
    ExecutableCTarget,
    ExecutableCWithGNULibcTarget,
)
from kgen.targets.functions import C_FUNCTIONS

__all__ = [
    "CASTBuilder",
    "CCompiler",
    "CFamilyASTBuilder",
    "CFamilyTarget",
    "CMathCallable",
    "CTarget",
    "CWithGNULibcTarget",
    "ExecutableCTarget",
    "ExecutableCWithGNULibcTarget",
    "c_execution",
    "generate_header",
]

CFamilyASTBuilder: TypeAlias = ASTBuilderBase

#: C's names of the functions of its library.
_PATTERNS: Final = {
    name: pattern
    for name, pattern in C_FUNCTIONS.real.items()
    if name in FUNCTIONS and pattern in (name, name + "{f}")
}


@dataclass(frozen=True)
class CMathCallable(ScalarCallable):
    """A function of C's math library on real numbers, by its name there for float64.

    kgen's targets have these functions already. This one is for targets of one's own, in
    ``known_callables``, and to derive other functions from.

    >>> CMathCallable("fmax").specialized((FLOAT32, FLOAT32)).name_in_target
    'fmaxf'

    Raises :class:`TypeInferenceFailure` for a name that the library does not have, and for
    arguments that the function does not take.
    """

    def with_types(self, arg_id_to_dtype: Mapping[int | str, Any], clbl_inf_ctx: Any) -> Any:
        """Return the function for the type that all arguments have in common."""
        if self.name not in _PATTERNS:
            raise TypeInferenceFailure(
                f"C's math library has no function '{self.name}'",
                hint=near_names(self.name, _PATTERNS),
            )
        given = [
            arg_id_to_dtype[key] for key in range(len(arg_id_to_dtype)) if key in arg_id_to_dtype
        ]
        for dtype in given:
            if dtype.is_complex():
                raise TypeInferenceFailure(f"'{self.name}' takes real numbers, not {dtype.dtype}")
        reals = tuple(FLOAT64 if dtype.is_integral() else dtype for dtype in given)
        operands, results = FUNCTIONS[self.name].types_for(reals)
        types = {**dict(enumerate(operands)), **{-1 - k: dtype for k, dtype in enumerate(results)}}
        name = _PATTERNS[self.name].format(f="f" if operands[0] == FLOAT32 else "")
        return self.copy(arg_id_to_dtype=types, name_in_target=name), clbl_inf_ctx
