"""loopy.codegen.loop: code of loops; kgen has its own."""

from kgen.compat.renamed import refuser

__getattr__ = refuser("a class derived from ASTBuilderBase changes it: emit_sequential_loop")
