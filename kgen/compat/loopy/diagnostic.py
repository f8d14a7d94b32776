"""loopy.diagnostic: errors and warnings."""

from __future__ import annotations

from kgen.errors import (
    AutomaticTestFailure,
    CodegenError,
    CompilationError,
    DependencyCycleFound,
    DirectCallUncachedWarning,
    ExpressionToAffineConversionError,
    InvocationError,
    KernelError,
    KgenError,
    KgenIndexError,
    KgenSyntaxError,
    KgenWarning,
    LoopyIndexError,
    MissingBarrierError,
    MissingDefinitionError,
    ReductionIsNotTriangularError,
    ScheduleError,
    StaticValueFindingError,
    TransformError,
    TypeInferenceFailure,
    UnscheduledInstructionError,
    VariableAccessNotOrdered,
    VectorizationWarning,
    WriteRaceConditionWarning,
    WriteRaceError,
)
from kgen.errors import (
    ExpressionToAffineConversionError as ExpressionNotAffineError,
)
from kgen.errors import (
    KgenError as LoopyError,
)
from kgen.errors import (
    KgenWarning as LoopyWarning,
)
from kgen.errors import (
    TypeInferenceFailure as LoopyTypeError,
)

__all__ = [
    "AutomaticTestFailure",
    "CodegenError",
    "CompilationError",
    "DependencyCycleFound",
    "DirectCallUncachedWarning",
    "ExpressionNotAffineError",
    "ExpressionToAffineConversionError",
    "InvocationError",
    "KernelError",
    "KgenError",
    "KgenIndexError",
    "KgenSyntaxError",
    "KgenWarning",
    "LoopyError",
    "LoopyIndexError",
    "LoopyTypeError",
    "LoopyWarning",
    "MissingBarrierError",
    "MissingDefinitionError",
    "ReductionIsNotTriangularError",
    "ScheduleError",
    "StaticValueFindingError",
    "TransformError",
    "TypeInferenceFailure",
    "UnscheduledInstructionError",
    "VariableAccessNotOrdered",
    "VectorizationWarning",
    "WriteRaceConditionWarning",
    "WriteRaceError",
]
