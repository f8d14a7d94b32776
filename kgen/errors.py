"""The exceptions and warnings of kgen, one class per phase, and the layout of a message."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable

__all__ = [
    "AutomaticTestFailure",
    "CodegenError",
    "CompilationError",
    "DependencyCycleFound",
    "DirectCallUncachedWarning",
    "ExpressionToAffineConversionError",
    "InvocationError",
    "KgenError",
    "KgenIndexError",
    "KgenSyntaxError",
    "KgenWarning",
    "KernelError",
    "LoopyIndexError",
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
    "message",
    "near_names",
    "rows_of",
    "warn",
]


class KgenError(RuntimeError):
    """Any refusal of kgen: the kernel, what fails, a concrete point, and the mend."""


class KgenSyntaxError(KgenError):
    """A text (domain, instruction, match expression) that does not parse.

    ``line`` and ``column`` count from 1, where they are known.
    """

    def __init__(self, text: str, *, line: int | None = None, column: int | None = None) -> None:
        super().__init__(text)
        self.line, self.column = line, column


class KernelError(KgenError):
    """A kernel, or a part of one, that contradicts itself."""


class TransformError(KgenError):
    """A transformation that does not apply to the kernel it was given."""


class TypeInferenceFailure(KgenError):
    """A data type that cannot be found, or that contradicts a declaration."""


class StaticValueFindingError(KgenError):
    """A size or bound that has no single expression valid everywhere."""


class ExpressionToAffineConversionError(KgenError):
    """An expression that is not affine in inames and parameters."""


class KgenIndexError(KgenError):
    """A subscript outside of its array, or of the wrong number of axes."""


LoopyIndexError = KgenIndexError  # the documented name of the field's reference


class ScheduleError(KgenError):
    """Loops and dependencies that admit no order."""


class DependencyCycleFound(ScheduleError):
    """Instructions that wait for each other in a circle."""


class UnscheduledInstructionError(ScheduleError):
    """An instruction for which no place in the schedule exists."""


class MissingBarrierError(ScheduleError):
    """A dependency between work-items that nothing synchronizes."""


class MissingDefinitionError(ScheduleError):
    """A variable that is read where no value can have reached it."""


class WriteRaceError(ScheduleError):
    """A write of different values that several work-items do to one element."""


class VariableAccessNotOrdered(ScheduleError):
    """Two accesses to one variable of which neither waits for the other."""


class ReductionIsNotTriangularError(TransformError):
    """A reduction that was asked to be a scan without being a prefix sum."""


class CodegenError(KgenError):
    """A scheduled kernel that the chosen target cannot express."""


class CompilationError(KgenError):
    """Generated code that no compiler was found for, or that it refuses."""


class InvocationError(KgenError):
    """A call of a kernel with a missing, unknown or unfit argument."""


class AutomaticTestFailure(KgenError):
    """A transformed kernel whose results differ from its reference."""


class KgenWarning(UserWarning):
    """Something that may be intended; wrong code is never a warning."""


class WriteRaceConditionWarning(KgenWarning):
    """A write that several work-items may do to one element."""


class VectorizationWarning(KgenWarning):
    """A loop tagged ``vec`` whose lanes touch memory one by one."""


class DirectCallUncachedWarning(KgenWarning):
    """A call of a kernel object that had to generate code again."""


_LABELS = ("where", "at", "because", "hint")


def message(
    what: str,
    *,
    kernel: str | None = None,
    where: str | None = None,
    point: str | None = None,
    because: str | None = None,
    hint: str | None = None,
) -> str:
    """Lay out an error: one sentence, then labelled lines for whatever is known.

    >>> print(message("'j' is not an iname", kernel="mxm", hint="did you mean 'i'?"))
    in kernel 'mxm': 'j' is not an iname
      hint: did you mean 'i'?
    """
    head = f"in kernel '{kernel}': {what}" if kernel is not None else what
    rows = zip(_LABELS, (where, point, because, hint), strict=True)
    return "\n".join([head, *(f"  {label}: {text}" for label, text in rows if text)])


def rows_of(text: str) -> dict[str, str]:
    """Return the labelled lines of an error that :func:`message` laid out.

    >>> rows_of(message("'j' is not an iname", kernel="mxm", point="i = 3"))
    {'at': 'i = 3'}
    """
    rows = (line[2:].split(": ", maxsplit=1) for line in text.splitlines()[1:])
    return {row[0]: row[1] for row in rows if len(row) == 2 and row[0] in _LABELS}


def near_names(name: str, known: Iterable[str]) -> str:
    """Say which known names are near to *name*, as a hint.

    >>> near_names("i_iner", ["i_inner", "i_outer"])
    "did you mean 'i_inner', 'i_outer'?"
    """
    names = sorted(set(known))
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    if near:
        return "did you mean " + ", ".join(f"'{n}'" for n in near) + "?"
    if not names:
        return "there are none"
    shown = ", ".join(f"'{n}'" for n in names[:12])
    return f"known names: {shown}" + (", ..." if len(names) > 12 else "")


def warn(
    text: str,
    category: type[KgenWarning],
    *,
    silencer: str,
    silenced: Iterable[str] = (),
) -> None:
    """Emit a warning that names its *silencer*, unless *silenced* holds that."""
    if silencer in silenced or silencer.split("(", maxsplit=1)[0] in silenced:
        return
    warnings.warn(
        f"{text} (add '{silencer}' to silenced_warnings of the kernel to disable)",
        category,
        stacklevel=3,
    )
