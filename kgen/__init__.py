"""kgen turns loop kernels into fast C, OpenCL and CUDA."""

from kgen import lazy

__getattr__, __dir__, __all__ = lazy.public_names(
    __name__, hint="\n  hint: names that loopy alone has are in kgen.compat.loopy"
)
