"""loopy.codegen.instruction: code of instructions; kgen has its own."""

from kgen.compat.renamed import refuser

__getattr__ = refuser("a class derived from ASTBuilderBase changes it")
