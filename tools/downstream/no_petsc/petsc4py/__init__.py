"""A stand-in for petsc4py: what PyOP2 and TSFC import, without matrices and vectors."""

__version__ = "3.26.0"
