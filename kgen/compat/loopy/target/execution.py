"""loopy.target.execution: calls of kernels."""

from kgen.runtime.executor import *
