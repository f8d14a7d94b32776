"""The device of a call, by kind and vendor, for selecting a schedule."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEVICE_TYPES", "RunningOn"]


@dataclass(frozen=True, kw_only=True)
class RunningOn:
    """A device: ``api`` is ``c``, ``opencl``, ``cuda``; ``kind`` ``cpu``, ``gpu``, ``other``."""

    api: str
    kind: str
    vendor: str
    name: str

    def is_a(self, device_type: str) -> bool:
        """Tell whether this is of one of the :data:`DEVICE_TYPES`.

        >>> RunningOn(api="cuda", kind="gpu", vendor="NVIDIA", name="H200").is_a("nvidia")
        True
        """
        if device_type == "host":
            return self.kind == "cpu"
        makers = _MAKERS.get(device_type)
        if makers is not None:
            return self.kind == "gpu" and any(word in self.vendor.lower() for word in makers)
        return device_type in ("*", self.kind, self.api)


_MAKERS = {"nvidia": ("nvidia",), "radeon": ("advanced micro devices", "amd"), "intel": ("intel",)}

#: OpenACC's words for devices, those for other makers, kinds and interfaces; ``*`` is any.
DEVICE_TYPES = (
    "nvidia",
    "radeon",
    "intel",
    "host",
    "gpu",
    "cpu",
    "other",
    "c",
    "opencl",
    "cuda",
    "*",
)
