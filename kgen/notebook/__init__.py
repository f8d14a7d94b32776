"""Kernels in notebooks and in HTML reports."""
