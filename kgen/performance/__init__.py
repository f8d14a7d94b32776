"""The roofline: what a kernel does, what its device can do, and how long it takes by that."""

from kgen.performance.device import Device
from kgen.performance.model import Roofline, roofline
from kgen.performance.peaks import measure_device

__all__ = ["Device", "Roofline", "measure_device", "roofline"]
