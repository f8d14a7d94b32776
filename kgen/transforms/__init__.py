"""Transformations: each takes a kernel and returns a changed, valid one, or raises an error."""
