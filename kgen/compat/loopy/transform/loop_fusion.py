"""loopy.transform.loop_fusion: loops that can be fused."""

from __future__ import annotations

from kgen.transforms.loops.loop_fusion import (
    get_kennedy_unweighted_fusion_candidates,
)
from kgen.transforms.loops.rename import (
    rename_inames_in_batch,
)

__all__ = [
    "get_kennedy_unweighted_fusion_candidates",
    "rename_inames_in_batch",
]
