"""Transformations of expressions: substitution rules, arithmetic, subscripts, derivatives."""
