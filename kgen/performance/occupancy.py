"""How many warps of a kernel a multiprocessor of an NVIDIA device holds at a time."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from math import ceil, prod
from pathlib import Path

from kgen.errors import CompilationError, message
from kgen.ir.kernel import LoopKernel
from kgen.runtime.cache import content_key, process_caches
from kgen.runtime.toolchain import NVCC_FLAGS, compiler_version, find_nvcc
from kgen.targets.cuda import CudaTarget
from kgen.targets.generate import generate_module

__all__ = ["Occupancy", "find_occupancy", "occupancy_of"]

#: Of compute capability 9.0, in whose code kernels are compiled when nobody says otherwise.
_ARCHITECTURE = "sm_90"
_WARP, _MAX_WARPS, _MAX_GROUPS = 32, 64, 32
_REGISTERS, _REGISTERS_AT_ONCE = 65536, 256
_SHARED, _SHARED_OF_SYSTEM, _SHARED_AT_ONCE = 228 * 1024, 1024, 128


@dataclass(frozen=True)
class Occupancy:
    """The warps on a multiprocessor, as a part of those that it has room for.

    ``limit`` is what there is too little of for more: registers, shared memory, groups or warps.
    """

    fraction: float
    limit: str
    registers: int
    shared_bytes: int
    group_size: int

    def __str__(self) -> str:
        return (
            f"{100 * self.fraction:.0f} %, by {self.limit} ({self.registers} registers, "
            f"{self.shared_bytes} bytes shared, groups of {self.group_size})"
        )


def occupancy_of(registers: int, shared_bytes: int, group_size: int) -> Occupancy:
    """Calculate the occupancy of a kernel from what a work-item and a group of it need.

    >>> print(occupancy_of(64, 0, 256))
    50 %, by registers (64 registers, 0 bytes shared, groups of 256)
    """
    warps = ceil(group_size / _WARP)
    of_warp = ceil(registers * _WARP / _REGISTERS_AT_ONCE) * _REGISTERS_AT_ONCE
    shared = ceil((shared_bytes + _SHARED_OF_SYSTEM) / _SHARED_AT_ONCE) * _SHARED_AT_ONCE
    groups = {
        "warps": _MAX_WARPS // warps,
        "groups": _MAX_GROUPS,
        "registers": (_REGISTERS // max(of_warp, 1)) // warps,
        "shared memory": _SHARED // shared,
    }
    limit = min(groups, key=lambda name: groups[name])
    fraction = groups[limit] * warps / _MAX_WARPS
    return Occupancy(fraction, limit, registers, shared_bytes, group_size)


def find_occupancy(kernel: LoopKernel) -> Occupancy | None:
    """Ask the CUDA compiler what a kernel needs; ``None`` for others, and without a compiler.

    Of several launches it is the one with the least occupancy.
    """
    if not isinstance(kernel.target, CudaTarget):
        return None
    try:
        compiler = find_nvcc()
    except CompilationError:
        return None
    module = generate_module(kernel)
    flags = (*module.build_options, *kernel.options.build_options)
    needs = _resources((*compiler, *NVCC_FLAGS, *flags), module.device_source, kernel.name)
    found = [
        occupancy_of(*needs[launch.function], prod(launch.locals))
        for launch in module.launches
        if launch.function in needs
    ]
    return min(found, key=lambda occupancy: occupancy.fraction, default=None)


def _resources(command: tuple[str, ...], source: str, kernel: str) -> dict[str, tuple[int, int]]:
    """Return the registers of a work-item and the shared bytes of a group, by function.

    That is what the assembler says when it is asked to be verbose; it is kept on disk.
    """
    words = (*command, f"-arch={_ARCHITECTURE}", "-Xptxas", "-v", "-cubin")
    disk = process_caches.disk
    key = content_key("resources", source, compiler_version(command), *words)
    kept = disk.load(key)
    if kept is None:
        with tempfile.TemporaryDirectory(prefix="kgen-") as folder:
            code, product = Path(folder, "kernel.cu"), Path(folder, "kernel.cubin")
            code.write_text(source)
            words = (*words, "-o", str(product), str(code))
            result = subprocess.run(words, capture_output=True, text=True, check=False)
        if result.returncode:
            raise CompilationError(
                message(
                    "the compiler refuses the generated code", kernel=kernel, because=result.stderr
                )
            )
        kept = result.stderr.encode()
        disk.store(key, kept)
    found: dict[str, tuple[int, int]] = {}
    function = ""
    for line in kept.decode().splitlines():
        if entry := re.search(r"Compiling entry function '(\w+)'", line):
            function = entry[1]
        elif used := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            found[function] = (int(used[1]), int(shared[1]) if shared else 0)
    return found
