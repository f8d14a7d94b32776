"""Ready kernels: elementwise operations, reductions, scans, sorting, products of arrays."""
