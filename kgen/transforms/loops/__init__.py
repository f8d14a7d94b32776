"""Transformations of loops: tags, splits, affine maps, renaming, fusion."""
