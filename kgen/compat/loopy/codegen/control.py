"""loopy.codegen.control: guards and nests of loops, of which kgen has its own."""

from kgen.compat.renamed import refuser

__getattr__ = refuser("generate_code_v2 makes them")
