"""Times of kernels: measured, and predicted from their work and the limits of the device."""

from kgen.performance.bench import Timing, bench
from kgen.performance.device import Device
from kgen.performance.explain import explain
from kgen.performance.feedback import Explanation
from kgen.performance.model import Roofline, roofline
from kgen.performance.peaks import measure_device

__all__ = [
    "Device",
    "Explanation",
    "Roofline",
    "Timing",
    "bench",
    "explain",
    "measure_device",
    "roofline",
]
