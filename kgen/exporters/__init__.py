"""Libraries in C for programs without Python: headers, kernels, launchers, build files."""
