"""loopy.transform.add_barrier: barriers between instructions."""

from kgen.transforms.sync import *
