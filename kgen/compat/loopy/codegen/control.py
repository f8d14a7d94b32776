"""loopy.codegen.control: guards and loop nests; kgen has its own."""

from kgen.compat.renamed import refuser

__getattr__ = refuser("generate_code_v2 makes them")
