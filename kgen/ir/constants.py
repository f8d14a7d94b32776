"""Names of constants of C and OpenCL: ``M_PI``, ``INT_MAX``, ``FLT_EPSILON``, ``INFINITY``, ..."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

__all__ = ["CONSTANTS"]

_PI: Final = math.pi
_MATH: Final = {
    "M_E": math.e,
    "M_LOG2E": 1.4426950408889634,
    "M_LOG10E": 0.4342944819032518,
    "M_LN2": 0.6931471805599453,
    "M_LN10": 2.302585092994046,
    "M_PI": _PI,
    "M_PI_2": _PI / 2,
    "M_PI_4": _PI / 4,
    "M_1_PI": 1 / _PI,
    "M_2_PI": 2 / _PI,
    "M_2_SQRTPI": 2 / math.sqrt(_PI),
    "M_SQRT2": math.sqrt(2),
    "M_SQRT1_2": math.sqrt(0.5),
}
_INTEGERS: Final = {"CHAR": "int8", "SHRT": "int16", "INT": "int32", "LONG": "int64"}


def _constants() -> dict[str, np.generic]:
    found: dict[str, np.generic] = {
        "HUGE_VAL": np.float64(math.inf),
        "INFINITY": np.float32(math.inf),
        "NAN": np.float32(math.nan),
    }
    for name, value in _MATH.items():
        found[name], found[f"{name}_F"] = np.float64(value), np.float32(value)
    for prefix, kind in (("FLT", np.float32), ("DBL", np.float64)):
        limits = np.finfo(kind)
        found[f"{prefix}_MAX"] = limits.max
        found[f"{prefix}_MIN"] = limits.tiny
        found[f"{prefix}_EPSILON"] = limits.eps
    for prefix, name in _INTEGERS.items():
        dtype = np.dtype(name)
        least, largest = np.iinfo(dtype).min, np.iinfo(dtype).max
        found[f"{prefix}_MIN"], found[f"{prefix}_MAX"] = dtype.type(least), dtype.type(largest)
    return found


#: The constants, numbers of the types that they have in OpenCL.
CONSTANTS: Final[Mapping[str, np.generic]] = _constants()
