"""loopy.kernel.tools: questions about kernels."""

from __future__ import annotations

from kgen.analysis.infer import (
    add_and_infer_dtypes,
)
from kgen.ir.graph import (
    get_dot_dependency_graph,
    show_dependency_graph,
)
from kgen.launches.linearize import (
    find_most_recent_global_barrier,
    get_global_barrier_order,
    get_subkernel_to_insn_id_map,
    get_subkernels,
)
from kgen.transforms.storage.declarations import (
    add_dtypes,
)

__all__ = [
    "add_and_infer_dtypes",
    "add_dtypes",
    "find_most_recent_global_barrier",
    "get_dot_dependency_graph",
    "get_global_barrier_order",
    "get_subkernel_to_insn_id_map",
    "get_subkernels",
    "show_dependency_graph",
]
