"""From a kernel to its schedule: loop tree, order, launches, hardware axes, isl tree."""

from typing import TYPE_CHECKING

from kgen.lazy import more_names

if not TYPE_CHECKING:  # programs written for loopy use its names, too
    __getattr__ = more_names(__name__, "kgen.compat.loopy.schedule")
