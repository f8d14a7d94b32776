"""loopy.transform.callable: called kernels and functions."""

from kgen.transforms.programs.callables import *
from kgen.transforms.programs.inline import *
