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
)

ExpressionNotAffineError: TypeAlias = ExpressionToAffineConversionError
LoopyAdvisory: TypeAlias = VectorizationWarning
LoopyError: TypeAlias = KgenError
LoopyTypeError: TypeAlias = TypeInferenceFailure
LoopyWarning: TypeAlias = KgenWarning
LoopyWarningBase: TypeAlias = KgenWarning
UnableToDetermineAccessRangeError: TypeAlias = ExpressionToAffineConversionError


class CannotBranchDomainTree(KgenError):
    """loopy's for domains that two others are inside of; kgen raises none."""


class DependencyTypeInferenceFailure(TypeInferenceFailure):
    """loopy's for types that depend on unknown ones; kgen raises their base class."""


class ParameterFinderWarning(KgenWarning):
    """loopy's for sizes that it cannot find from arrays; kgen raises an error for those."""
