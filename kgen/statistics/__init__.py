"""Exact, symbolic counts of what a kernel does: operations, accesses, barriers."""

from kgen.statistics.count import count
from kgen.statistics.countmap import ToCountMap, ToCountPolynomialMap
from kgen.statistics.descriptors import CountGranularity, MemAccess, Op, Sync
from kgen.statistics.footprint import gather_access_footprint_bytes, gather_access_footprints
from kgen.statistics.interval import Interval
from kgen.statistics.memory import get_mem_access_map
from kgen.statistics.ops import get_op_map
from kgen.statistics.sync import get_synchronization_map

__all__ = [
    "CountGranularity",
    "Interval",
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
