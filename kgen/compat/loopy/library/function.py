"""loopy.library.function: functions, which kgen finds by their names in expressions."""

from kgen.compat.renamed import refuser

__getattr__ = refuser("register_callable makes a function known; those of all targets are")
