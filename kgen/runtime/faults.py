"""Out-of-bounds subscripts recorded by guards in the code, raised as errors of the call."""

from __future__ import annotations

from typing import Any

import numpy as np

from kgen.errors import KgenIndexError
from kgen.targets.module import NO_FAULT, Faults

__all__ = ["no_faults", "reject_faults"]


def no_faults(count: int) -> np.ndarray[Any, Any]:
    """Return the initial array in which guards record faults."""
    return np.full(count, NO_FAULT, np.int64)


def reject_faults(kernel: str, faults: Faults, noted: np.ndarray[Any, Any]) -> None:
    """Raise :class:`KgenIndexError` for a subscript that a guard has noted, if there is one."""
    for guard in faults.guards:
        value = int(noted[guard.number])
        if value != NO_FAULT:
            raise KgenIndexError(
                f"'{guard.access}' is outside of array '{guard.array}'",
                kernel=kernel,
                where=f"instruction '{guard.instruction}'",
                point=f"subscript {value} of axis {guard.axis}, which has {guard.extent} elements",
                because="a value that the kernel read is not a valid subscript of the array",
                hint=f"check the values that '{guard.access}' uses as subscripts; the results of "
                "this call are incomplete",
            )
