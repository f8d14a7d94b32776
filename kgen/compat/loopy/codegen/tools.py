"""loopy.codegen.tools: tools of code generation; kgen has its own."""

from kgen.compat.renamed import refuser

__getattr__ = refuser("generate_code_v2(...).device_code() is the text")
