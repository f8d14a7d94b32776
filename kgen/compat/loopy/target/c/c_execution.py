"""loopy.target.c.c_execution: calls of functions in C."""

from __future__ import annotations

from typing import TypeAlias

from kgen.runtime.c import CExecutor
from kgen.targets.c import CCompiler

__all__ = ["CCompiler", "CExecutor", "CKernelExecutor"]

CKernelExecutor: TypeAlias = CExecutor
