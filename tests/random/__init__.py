"""Random kernels with random transformations, and what they are held against."""
