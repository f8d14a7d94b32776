"""loopy.transform.subst: substitution rules."""

from kgen.transforms.expressions.make_rules import *
from kgen.transforms.expressions.rules import *
