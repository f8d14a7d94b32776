"""A stand-in for petsctools: the C compiler, and the folders of a stand-in for PETSc's library."""

from pathlib import Path
from unittest.mock import MagicMock

_ROOT = Path(__file__).parent


def get_petscvariables():
    """Return the compilers."""
    return {"CC": "gcc", "CXX": "g++"}


def get_petsc_dirs(prefix="", subdir=""):
    """Return the folder ``include`` or ``lib`` of an installation."""
    return [f"{prefix}{_ROOT / subdir}"]


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return MagicMock()
