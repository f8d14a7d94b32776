"""The limits of a device."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from kgen.errors import KernelError

__all__ = ["Device"]


@dataclass(frozen=True, kw_only=True)
class Device:
    """The limits of a device: measured by :func:`measure_device`, or given by a user.

    ``bandwidth`` and ``cache_bandwidth`` are in bytes per second: of the memory, and of the
    caches; ``local_bandwidth`` is the bandwidth of local memory, ``None`` if there is none;
    ``flops`` are operations per second by type.
    ``item_rate`` is the number of work-items per second of a kernel in which each reads and writes
    one number: it is limited by the number of work-items that can wait for memory at once.

    >>> host = Device(
    ...     name="host", bandwidth=1e10, cache_bandwidth=1e11, flops={"float32": 1e11})
    >>> Device.from_json(host.to_json()) == host
    True
    """

    name: str
    bandwidth: float
    cache_bandwidth: float
    local_bandwidth: float | None = None
    item_rate: float | None = None
    flops: Mapping[str, float] = field(default_factory=dict)
    #: the seconds of a call that does nothing
    overhead: float = 0.0

    def to_json(self) -> str:
        """Return the limits as JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Device:
        """Read what :meth:`to_json` wrote; raise :class:`KernelError` for anything else."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise KernelError(
                "this text is not the limits of a device",
                because=str(error),
                hint="Device(...).to_json() writes them, and measure_device finds them",
            ) from None
