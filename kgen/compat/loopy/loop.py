"""loopy.loop: domains of loops; kgen has its own."""

from kgen.compat.renamed import refuser

__getattr__ = refuser(
    "kernel.domains are isl sets; transformations such as join_inames change loops"
)
