"""The start of a run that is watched: a module as ``python -m`` runs it."""

from __future__ import annotations

import os
import runpy
import sys

if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)  # compilers run as ever
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
