"""loopy.target.cuda: CUDA."""

from kgen.targets.cuda import *
