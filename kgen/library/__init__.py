"""What expressions can use, under the documented package name."""

from __future__ import annotations

from kgen.library import reduction

__all__ = ["reduction"]
