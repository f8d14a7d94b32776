"""Times of kernels: measured, and what the work of a kernel and the limits of its device imply."""

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
