"""Common kernels: einsums and copies."""
