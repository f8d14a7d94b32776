"""loopy.statistics: counts of operations, accesses and barriers."""

from __future__ import annotations

from kgen.statistics import (
    CountGranularity,
    MemAccess,
    Op,
    Sync,
    ToCountMap,
    ToCountPolynomialMap,
    count,
    gather_access_footprint_bytes,
    gather_access_footprints,
    get_mem_access_map,
    get_op_map,
    get_synchronization_map,
)

__all__ = [
    "CountGranularity",
    "MemAccess",
    "Op",
    "Sync",
    "ToCountMap",
    "ToCountPolynomialMap",
    "count",
    "gather_access_footprint_bytes",
    "gather_access_footprints",
    "get_mem_access_map",
    "get_op_map",
    "get_synchronization_map",
]
