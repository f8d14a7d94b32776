"""Transformations of whole programs: calls, fusion, inlining, batches, parameters."""
