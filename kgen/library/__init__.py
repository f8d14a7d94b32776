"""Kernels that are often needed: einsums and copies."""
