"""From a kernel to its schedule: loop tree, order, launches, hardware axes, isl tree."""
