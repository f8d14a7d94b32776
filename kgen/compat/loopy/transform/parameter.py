"""loopy.transform.parameter: parameters."""

from kgen.transforms.programs.params import *
