"""loopy.transform.arithmetic: expressions of the same value."""

from kgen.transforms.expressions.arithmetic import *
