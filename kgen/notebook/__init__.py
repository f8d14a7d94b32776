"""Kernels in notebooks and in reports of HTML."""
