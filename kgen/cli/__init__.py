"""The command line of kgen: one module per command, registered in ``main``."""

from kgen.cli.main import main

__all__ = ["main"]
