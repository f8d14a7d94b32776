"""The types of a PETSc of real numbers; whatever else is asked for does nothing."""

from unittest.mock import MagicMock

import numpy as np
from mpi4py import MPI

IntType, RealType, ScalarType, ComplexType = np.int32, np.float64, np.float64, np.complex128
COMM_WORLD, COMM_SELF = MPI.COMM_WORLD, MPI.COMM_SELF


class _Nothing(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock()


class Log(metaclass=_Nothing):
    """Profiling, switched off."""

    @staticmethod
    def EventDecorator(*args, **kwargs):
        """Return a function as it is, as a decorator with and without arguments."""
        return args[0] if args and callable(args[0]) else lambda function: function

    @staticmethod
    def isActive():
        """Tell that nothing is profiled."""
        return False


class Object(metaclass=_Nothing):
    """A class to derive from."""


Mat = Vec = Object


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return Object
