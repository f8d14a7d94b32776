"""Pictures of kernels: iterations, accesses, banks, tiles, schedules, dependences, rooflines."""

from kgen.draw.conflicts import Banks, banks
from kgen.draw.domains import Dependence, Iteration, Iterations, iterations
from kgen.draw.graphs import DependenceGraph, ScheduleTree, dependences, schedule
from kgen.draw.picture import Picture
from kgen.draw.prefetches import Prefetch, Tile, prefetch
from kgen.draw.roofs import Roof, roofline
from kgen.draw.traffic import Accesses, Request, Touch, accesses

__all__ = [
    "Accesses",
    "Banks",
    "Dependence",
    "DependenceGraph",
    "Iteration",
    "Iterations",
    "Picture",
    "Prefetch",
    "Request",
    "Roof",
    "ScheduleTree",
    "Tile",
    "Touch",
    "accesses",
    "banks",
    "dependences",
    "iterations",
    "prefetch",
    "roofline",
    "schedule",
]
