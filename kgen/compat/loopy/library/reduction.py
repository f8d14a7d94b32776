"""loopy.library.reduction: operations of reductions."""

from kgen.ir.reductions import *
