"""loopy.transform.data: arrays, arguments and temporaries."""

from __future__ import annotations

from kgen.compat.renamed import renamed
from kgen.transforms.expressions.make_rules import reduction_arg_to_subst_rule
from kgen.transforms.storage.aliasing import (
    alias_temporaries,
    allocate_temporaries_for_base_storage,
)
from kgen.transforms.storage.banks import add_padding_to_avoid_bank_conflicts
from kgen.transforms.storage.declarations import (
    remove_unused_arguments,
    rename_argument,
    set_argument_order,
    set_array_axis_names,
    set_temporary_address_space,
    tag_array_axes,
)
from kgen.transforms.storage.images import change_arg_to_image
from kgen.transforms.storage.prefetch import add_prefetch

__all__ = [
    "add_padding_to_avoid_bank_conflicts",
    "add_prefetch",
    "alias_temporaries",
    "allocate_temporaries_for_base_storage",
    "change_arg_to_image",
    "reduction_arg_to_subst_rule",
    "remove_unused_arguments",
    "rename_argument",
    "set_argument_order",
    "set_array_axis_names",
    "set_array_dim_names",
    "set_temporary_address_space",
    "set_temporary_scope",
    "tag_array_axes",
    "tag_data_axes",
]

set_array_dim_names = renamed("set_array_dim_names", set_array_axis_names)
set_temporary_scope = renamed("set_temporary_scope", set_temporary_address_space)
tag_data_axes = renamed("tag_data_axes", tag_array_axes)
