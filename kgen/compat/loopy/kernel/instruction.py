"""loopy.kernel.instruction: instructions."""

from __future__ import annotations

from typing import TypeAlias

from kgen.ir.atomicity import *
from kgen.ir.instruction import *
from kgen.ir.instruction import DataObliviousInstruction
from kgen.ir.tags import StringTag

LegacyStringInstructionTag: TypeAlias = StringTag
_DataObliviousInstruction: TypeAlias = DataObliviousInstruction
