"""loopy.transform.arithmetic: equivalent expressions."""

from kgen.transforms.expressions.arithmetic import *
