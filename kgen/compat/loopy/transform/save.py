"""loopy.transform.save: temporaries that outlive a launch."""

from __future__ import annotations

from kgen.launches.save import (
    save_and_reload_temporaries,
)

__all__ = [
    "save_and_reload_temporaries",
]
