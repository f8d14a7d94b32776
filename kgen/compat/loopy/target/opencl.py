"""loopy.target.opencl: OpenCL."""

from kgen.targets.opencl import *
from kgen.targets.opencl_functions import *
