"""loopy.library.random123: random numbers, which kgen's functions generate."""

from kgen.compat.renamed import refuser

__getattr__ = refuser("call philox4x32, threefry2x32... in an expression; nothing is registered")
