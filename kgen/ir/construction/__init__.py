"""From domains, instructions and declarations to a kernel: what is inferred on the way."""
