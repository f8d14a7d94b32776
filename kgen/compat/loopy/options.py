"""loopy.options: options of kernels."""

from kgen.ir.options import *
