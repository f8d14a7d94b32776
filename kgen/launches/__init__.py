"""Whole launches: the order of a kernel on its target, and values that outlive a launch."""
