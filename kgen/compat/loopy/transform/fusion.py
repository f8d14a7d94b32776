"""loopy.transform.fusion: fusion of several kernels into one."""

from kgen.transforms.programs.fuse import *
