"""loopy.transform.loop_fusion: loops that can be fused."""

from kgen.transforms.loops.loop_fusion import *
from kgen.transforms.loops.rename import *
