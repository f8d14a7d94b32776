"""loopy.auto_test: comparisons of a kernel with its original."""

from kgen.runtime.autotest import *
