"""loopy.schedule.tree: trees of loops; kgen has its own."""

from kgen.compat.renamed import refuser

__getattr__ = refuser("linearize(kernel) gives the order as a list")
