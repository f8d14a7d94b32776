"""OpenCL C that compiles without additional files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import ClassVar, Final

import numpy as np

from kgen.targets.base import Dtype
from kgen.targets.limits import DeviceLimits
from kgen.targets.opencl import OpenCLTarget
from kgen.targets.preamble import Need, Rank

__all__ = ["StandaloneOpenCLTarget"]

_SUPPORT: Final = files("kgen.exporters").joinpath("support")
_FLOAT: Final = _SUPPORT.joinpath("kgen_complex.cl").read_text("utf-8").rstrip()
_DOUBLE: Final = _FLOAT.replace("cfloat", "cdouble").replace("float", "double")
_FP64: Final = OpenCLTarget.type_needs[np.dtype(np.float64)]


@dataclass(frozen=True)
class StandaloneOpenCLTarget(OpenCLTarget):
    """OpenCL C that has the functions on complex numbers in its preamble.

    ``device_limits`` are the limits of the device, if known.

    >>> import kgen as lp
    >>> arg = lp.GlobalArg("a", "complex64", shape="n")
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "a[i] = 2*a[i]", [arg, ...], target=StandaloneOpenCLTarget())
    >>> "cfloat_new(float real" in lp.generate_code_v2(unit).device_code()
    True
    """

    device_limits: DeviceLimits | None = field(default=None, kw_only=True, repr=False)

    type_needs: ClassVar[Mapping[Dtype, tuple[Need, ...]]] = {
        **OpenCLTarget.type_needs,
        np.dtype(np.complex64): (Need(Rank.INCLUDE, "complex64", _FLOAT),),
        np.dtype(np.complex128): (*_FP64, Need(Rank.INCLUDE, "complex128", _DOUBLE)),
    }

    def limits(self) -> DeviceLimits | None:
        """Return the limits of the device, if known."""
        return self.device_limits
