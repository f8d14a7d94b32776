"""Resource use of a kernel, as reported by compilers and drivers."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Resources", "read_assembler"]


@dataclass(frozen=True, kw_only=True)
class Resources:
    """The resources of a launch: registers and private bytes of a work-item, local bytes.

    ``largest_group`` is the maximum number of work-items in a group of this kernel; their number
    should be a multiple of ``multiple``. ``None`` is unknown.
    """

    function: str
    group_size: int
    local_bytes: int
    registers: int | None = None
    private_bytes: int | None = None
    largest_group: int | None = None
    multiple: int | None = None
    #: the compute capability of an NVIDIA device
    capability: tuple[int, int] | None = None

    def __str__(self) -> str:
        parts = [
            "" if self.registers is None else f"{self.registers} registers",
            "" if self.private_bytes is None else f"{self.private_bytes} bytes private",
            f"{self.local_bytes} bytes local",
            f"groups of {self.group_size}"
            + ("" if self.largest_group is None else f" of at most {self.largest_group}"),
            "" if self.multiple is None else f"in multiples of {self.multiple}",
        ]
        return ", ".join(filter(None, parts))


def read_assembler(log: str) -> dict[str, tuple[int, int]]:
    """Return registers of a work-item and bytes that a group shares, by function.

    These are in the verbose output of NVIDIA's assembler.

    >>> read_assembler('''
    ... ptxas info    : Compiling entry function 'axpy' for 'sm_90'
    ... ptxas info    : Used 16 registers, 1024 bytes smem, 544 bytes cmem[0]
    ... ''')
    {'axpy': (16, 1024)}
    """
    found: dict[str, tuple[int, int]] = {}
    function = ""
    for line in log.splitlines():
        if entry := re.search(r"Compiling entry function '(\w+)'", line):
            function = entry[1]
        elif used := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            found[function] = (int(used[1]), int(shared[1]) if shared else 0)
    return found
