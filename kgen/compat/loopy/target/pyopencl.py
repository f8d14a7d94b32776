"""loopy.target.pyopencl: OpenCL that pyopencl runs."""

from __future__ import annotations

from typing import TypeAlias

from kgen.targets.opencl import *
from kgen.targets.opencl_functions import OpenCLCallable

PyOpenCLCASTBuilder: TypeAlias = OpenCLCASTBuilder
PyOpenCLCallable: TypeAlias = OpenCLCallable
