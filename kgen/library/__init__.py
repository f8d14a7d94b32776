"""Reductions and einsum, under loopy's package name."""

from __future__ import annotations

from kgen.library import reduction

__all__ = ["reduction"]
