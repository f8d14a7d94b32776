"""loopy.frontend.fortran: Fortran, which kgen does not read."""

from kgen.compat.renamed import NO_FORTRAN, refuser

__getattr__ = refuser(NO_FORTRAN)
