"""kgen turns loop kernels into fast C, OpenCL and CUDA."""

from kgen import lazy

# programs written for loopy also use names that only loopy has: its packages, lp.to_loopy_type, ...
__getattr__, __dir__, __all__ = lazy.public_names(__name__, more="kgen.compat.loopy")
