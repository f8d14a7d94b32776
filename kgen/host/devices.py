"""Names of kinds of devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["DEVICE_TYPES", "MAKERS"]

#: What the names of a maker of GPUs have, by the word for its devices.
MAKERS: Final[Mapping[str, tuple[str, ...]]] = {
    "nvidia": ("nvidia",),
    "radeon": ("advanced micro devices", "amd"),
    "intel": ("intel",),
}

#: OpenACC's words for devices, those for other makers, kinds and interfaces; ``*`` is any.
DEVICE_TYPES: Final = (
    *MAKERS,
    "host",
    "gpu",
    "cpu",
    "other",
    "c",
    "opencl",
    "cuda",
    "*",
)
