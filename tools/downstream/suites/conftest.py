"""What the suites here need: PyOP2 without the vectors of PETSc, which count changes of its own."""

import sys

import pytest


@pytest.fixture(autouse=True)
def _no_vectors_of_petsc(monkeypatch):
    carriers = sys.modules.get("pyop2.types.data_carrier")
    if carriers is not None:
        made = carriers.VecAccessMixin.__init__
        monkeypatch.setattr(
            carriers.VecAccessMixin, "__init__", lambda self, petsc_counter=None: made(self, False)
        )
