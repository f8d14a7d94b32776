"""Constructing kernels from domains, instructions and declarations."""
