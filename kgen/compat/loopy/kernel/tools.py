"""loopy.kernel.tools: questions about kernels."""

from kgen.analysis.infer import *
from kgen.ir.graph import *
from kgen.launches.linearize import *
from kgen.transforms.storage.declarations import *
