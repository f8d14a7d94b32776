"""loopy.frontend: other languages, of which kgen reads none."""

from kgen.compat.renamed import NO_FORTRAN, refuser

__getattr__ = refuser(NO_FORTRAN)
