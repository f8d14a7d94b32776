"""loopy.transform.batch: kernels that work on many sets of data."""

from kgen.transforms.programs.batch import *
