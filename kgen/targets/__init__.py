"""Targets: from typed expressions and code trees to C, OpenCL and CUDA."""
