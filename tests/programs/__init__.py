"""Programs as scientific codes have them, on the host and on OpenCL against numpy."""
