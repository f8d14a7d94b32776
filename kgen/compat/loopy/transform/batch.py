"""loopy.transform.batch: kernels for several sets of data."""

from kgen.transforms.programs.batch import *
