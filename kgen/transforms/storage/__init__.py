"""Transformations of storage: layouts, temporaries, buffers, prefetching and precomputing."""
