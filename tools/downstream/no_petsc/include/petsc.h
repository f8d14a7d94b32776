/* A stand-in for PETSc's header: what wrappers of PyOP2 name without matrices. */
typedef int PetscInt;
typedef double PetscScalar;
typedef double PetscReal;
