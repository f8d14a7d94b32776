"""loopy.target.ispc: ISPC."""

from kgen.targets.ispc.target import *
