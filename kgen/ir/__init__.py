"""The intermediate representation: domains, expressions, declarations, instructions, kernels."""
