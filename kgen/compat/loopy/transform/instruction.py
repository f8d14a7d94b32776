"""loopy.transform.instruction: instructions and their dependencies."""

from __future__ import annotations

from kgen.transforms.expressions.indices import (
    simplify_indices,
)
from kgen.transforms.statements import (
    add_dependency,
    find_instructions,
    map_instructions,
    remove_instructions,
    replace_instruction_ids,
    set_instruction_priority,
    tag_instructions,
)
from kgen.transforms.sync import (
    add_nosync,
)

__all__ = [
    "add_dependency",
    "add_nosync",
    "find_instructions",
    "map_instructions",
    "remove_instructions",
    "replace_instruction_ids",
    "set_instruction_priority",
    "simplify_indices",
    "tag_instructions",
]
