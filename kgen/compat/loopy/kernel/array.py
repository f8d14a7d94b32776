"""loopy.kernel.array: axes of arrays and their layouts."""

from kgen.ir.data import *
from kgen.ir.layout import *
