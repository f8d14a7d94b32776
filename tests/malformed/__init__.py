"""Malformed kernels, transformations and calls: mutants of what the suite itself writes."""
