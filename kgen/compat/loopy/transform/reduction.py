"""loopy.transform.reduction: what is reduced over loops."""

from kgen.transforms.expressions.factors import *
