"""Running generated code: call wrappers, disk cache, one module per backend."""
