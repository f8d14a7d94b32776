"""loopy.transform.diff: derivatives."""

from kgen.transforms.programs.diff import *
