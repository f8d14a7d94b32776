"""Names of kinds of devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["DEVICE_TYPES", "MAKERS"]

#: Parts of the names of vendors of GPUs, by the word for their devices.
MAKERS: Final[Mapping[str, tuple[str, ...]]] = {
    "nvidia": ("nvidia",),
    "radeon": ("advanced micro devices", "amd"),
    "intel": ("intel",),
}

#: Words for devices: OpenACC's, and those for other vendors, kinds and interfaces; ``*`` is any.
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
