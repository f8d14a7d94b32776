"""loopy.codegen.bounds: bounds of loops; kgen has its own."""

from kgen.compat.renamed import refuser

__getattr__ = refuser("generate_code_v2 finds them")
