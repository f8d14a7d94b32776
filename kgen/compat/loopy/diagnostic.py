"""loopy.diagnostic: errors and warnings."""

from __future__ import annotations

from typing import TypeAlias

from kgen.errors import *
from kgen.errors import (
    ExpressionToAffineConversionError,
    KgenError,
    KgenWarning,
    TypeInferenceFailure,
    VectorizationWarning,
    warn,
)
from kgen.ir.kernel import LoopKernel

ExpressionNotAffineError: TypeAlias = ExpressionToAffineConversionError
LoopyAdvisory: TypeAlias = VectorizationWarning
LoopyError: TypeAlias = KgenError
LoopyTypeError: TypeAlias = TypeInferenceFailure
LoopyWarning: TypeAlias = KgenWarning
LoopyWarningBase: TypeAlias = KgenWarning
UnableToDetermineAccessRangeError: TypeAlias = ExpressionToAffineConversionError


def warn_with_kernel(
    kernel: LoopKernel,
    id: str,
    text: str,
    type: type[KgenWarning] = KgenWarning,
    stacklevel: int | None = None,
) -> None:
    """Issue a warning about *kernel*, unless its ``silenced_warnings`` contain *id*.

    *stacklevel* is that of :func:`warnings.warn`; by default, the warning is the caller's.
    """
    level = 3 if stacklevel is None else stacklevel + 1
    text = f"in kernel '{kernel.name}': {text}"
    warn(text, type, silencer=id, silenced=kernel.silenced_warnings, stacklevel=level)


class CannotBranchDomainTree(KgenError):
    """loopy's for domains that two others are inside of; kgen raises none."""


class DependencyTypeInferenceFailure(TypeInferenceFailure):
    """loopy's for types that depend on unknown ones; kgen raises their base class."""


class ParameterFinderWarning(KgenWarning):
    """loopy's for sizes that it cannot find from arrays; kgen raises an error for those."""
