"""Kernels with barriers, their mutants, and a machine that runs work-items in bad orders."""
