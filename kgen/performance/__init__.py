"""The roofline model: the work of a kernel, the limits of its device, and the time these imply."""

from kgen.performance.device import Device
from kgen.performance.explain import explain
from kgen.performance.feedback import Explanation
from kgen.performance.model import Roofline, roofline
from kgen.performance.peaks import measure_device

__all__ = ["Device", "Explanation", "Roofline", "explain", "measure_device", "roofline"]
