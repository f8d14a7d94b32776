"""loopy.library.reduction: operations of reductions."""

from kgen.compat.renamed import refuser
from kgen.ir.reductions import *

__getattr__ = refuser("operations go by name: Reduction('sum', ...), str(operation) == 'sum'")
