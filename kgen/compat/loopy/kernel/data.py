"""loopy.kernel.data: declarations, tags and address spaces."""

from kgen.ir.atomicity import *
from kgen.ir.atomicity import __all__ as _atomicity
from kgen.ir.callables import CallMangleInfo
from kgen.ir.data import *
from kgen.ir.data import __all__ as _data
from kgen.ir.instruction import *
from kgen.ir.instruction import __all__ as _instructions
from kgen.ir.tags import *
from kgen.ir.tags import __all__ as _tags
from kgen.ir.types import AddressSpace, auto

__all__ = [  # noqa: PLE0604
    *_atomicity,
    *_data,
    *_instructions,
    *_tags,
    "AddressSpace",
    "CallMangleInfo",
    "auto",
]
