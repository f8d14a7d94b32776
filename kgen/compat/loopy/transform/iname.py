"""loopy.transform.iname: loop variables."""

from __future__ import annotations

from kgen.transforms.loops.affine import (
    affine_map_inames,
    map_domain,
)
from kgen.transforms.loops.inames import (
    add_inames_for_unused_hw_axes,
    add_inames_to_insn,
    get_iname_duplication_options,
    has_schedulable_iname_nesting,
    remove_inames_from_insn,
    remove_unused_inames,
)
from kgen.transforms.loops.rename import (
    duplicate_inames,
    rename_iname,
    rename_inames,
)
from kgen.transforms.loops.split import (
    chunk_iname,
    join_inames,
    split_iname,
)
from kgen.transforms.loops.tag import (
    find_unused_axis_tag,
    prioritize_loops,
    tag_inames,
    untag_inames,
)
from kgen.transforms.reductions.nesting import (
    make_reduction_inames_unique,
    split_reduction_inward,
    split_reduction_outward,
)
from kgen.transforms.statements import (
    remove_predicates_from_insn,
)

__all__ = [
    "add_inames_for_unused_hw_axes",
    "add_inames_to_insn",
    "affine_map_inames",
    "chunk_iname",
    "duplicate_inames",
    "find_unused_axis_tag",
    "get_iname_duplication_options",
    "has_schedulable_iname_nesting",
    "join_inames",
    "make_reduction_inames_unique",
    "map_domain",
    "prioritize_loops",
    "remove_inames_from_insn",
    "remove_predicates_from_insn",
    "remove_unused_inames",
    "rename_iname",
    "rename_inames",
    "split_iname",
    "split_reduction_inward",
    "split_reduction_outward",
    "tag_inames",
    "untag_inames",
]
