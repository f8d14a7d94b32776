"""loopy.transform.instruction: instructions and their dependencies."""

from kgen.transforms.expressions.indices import *
from kgen.transforms.statements import *
from kgen.transforms.sync import *
