"""A stand-in for pyop2.sparsity, which is compiled against PETSc."""


def __getattr__(name):
    raise AttributeError(f"{name}: there is no PETSc")
