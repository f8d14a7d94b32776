"""The C code that all launchers of a library share: statuses, messages, overflow checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["STATUSES", "Status"]


@dataclass(frozen=True)
class Status:
    """A status that calls return: its name and meaning."""

    name: str
    text: str


#: In the order of their numbers, of which none ever changes.
STATUSES: Final = (
    Status("success", "the kernel was launched"),
    Status("null_pointer", "an array is a null pointer"),
    Status("invalid_size", "a number is outside of its range, or an extent is negative"),
    Status("broken_assumption", "the sizes break an assumption that the kernel was made with"),
    Status("misaligned", "an array does not begin at a multiple of its alignment"),
    Status("overlap", "an array that is written overlaps with another one"),
    Status("out_of_memory", "there is no memory for temporary arrays"),
    Status("out_of_bounds", "a subscript read from an array is outside of the array it is for"),
    Status("opencl_error", "a function of OpenCL failed"),
    Status("cuda_error", "a function of CUDA failed"),
    Status("invalid_layout", "an array has another shape or other strides than the kernel's"),
)
