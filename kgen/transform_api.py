"""The functions and classes for writing transformations outside kgen."""

from __future__ import annotations

from kgen.analysis.access import Access, collect_accesses_to
from kgen.analysis.footprints import Footprints
from kgen.errors import TransformError, message, near_names
from kgen.ir.expr import subscript
from kgen.transforms.array_accesses import ArrayAccessMapper, rewrite_accesses
from kgen.transforms.loops.rewrite import Replacement, replace_inames
from kgen.transforms.select import (
    Meaning,
    NoSuchNameError,
    NothingSelectedError,
    Transform,
    check_well_formed,
    matcher,
    require_argument,
    require_array,
    require_iname,
    require_instruction,
    require_new_name,
    split_names,
    transform,
    transform_of,
)

__all__ = [
    "Access",
    "ArrayAccessMapper",
    "Footprints",
    "Meaning",
    "NoSuchNameError",
    "NothingSelectedError",
    "Replacement",
    "Transform",
    "TransformError",
    "check_well_formed",
    "collect_accesses_to",
    "matcher",
    "message",
    "near_names",
    "replace_inames",
    "require_argument",
    "require_array",
    "require_iname",
    "require_instruction",
    "require_new_name",
    "rewrite_accesses",
    "split_names",
    "subscript",
    "transform",
    "transform_of",
]
