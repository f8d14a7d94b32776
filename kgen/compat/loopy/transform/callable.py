"""loopy.transform.callable: kernels and functions that are called."""

from kgen.transforms.programs.callables import *
from kgen.transforms.programs.inline import *
