"""loopy.transform.reduction: operands and loops of reductions."""

from kgen.transforms.expressions.factors import *
