"""loopy.transform.fusion: one kernel of several."""

from kgen.transforms.programs.fuse import *
