"""Occupancy: the number of warps that a multiprocessor of an NVIDIA device holds."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from math import ceil, prod
from pathlib import Path
from typing import Any

from kgen.errors import CompilationError
from kgen.ir.kernel import LoopKernel
from kgen.ir.target import WARP_SIZE
from kgen.lowering import generate_module
from kgen.runtime.cache import content_key, process_caches
from kgen.runtime.resources import Resources, read_assembler
from kgen.runtime.toolchain import NVCC_FLAGS, compiler_version, find_nvcc, run_compiler

__all__ = ["Occupancy", "find_occupancy", "find_resources", "occupancy_of"]

#: The default architecture for which kernels are compiled.
_CAPABILITY = (9, 0)
_REGISTERS, _REGISTERS_AT_ONCE = 65536, 256

#: Warps, groups and KiB of shared memory of a multiprocessor, by compute capability: table
#: "Technical Specifications per Compute Capability" of the CUDA C++ Programming Guide.
_MULTIPROCESSORS = {
    (5, 0): (64, 32, 64),
    (5, 2): (64, 32, 96),
    (6, 0): (64, 32, 64),
    (6, 1): (64, 32, 96),
    (7, 0): (64, 32, 96),
    (7, 5): (32, 16, 64),
    (8, 0): (64, 32, 164),
    (8, 6): (48, 16, 100),
    (8, 7): (48, 16, 164),
    (8, 9): (48, 24, 100),
    (9, 0): (64, 32, 228),
    (10, 0): (64, 32, 228),
    (12, 0): (48, 24, 100),
}


@dataclass(frozen=True)
class Occupancy:
    """The warps on a multiprocessor, as a fraction of the maximum.

    ``limit`` is the resource that limits them: registers, shared memory, groups or warps.
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


def occupancy_of(
    registers: int,
    shared_bytes: int,
    group_size: int,
    capability: tuple[int, int] = _CAPABILITY,
) -> Occupancy:
    """Calculate the occupancy of a kernel from the resources of a work-item and a group.

    The limits are those of the given compute capability, or of the last known one before it.

    >>> print(occupancy_of(64, 0, 256))
    50 %, by registers (64 registers, 0 bytes shared, groups of 256)
    >>> print(occupancy_of(32, 0, 1024, (8, 6)))
    67 %, by warps (32 registers, 0 bytes shared, groups of 1024)
    """
    known = max(key for key in _MULTIPROCESSORS if key <= max(capability, min(_MULTIPROCESSORS)))
    max_warps, max_groups, shared_kib = _MULTIPROCESSORS[known]
    of_system, at_once = (1024, 128) if known >= (8, 0) else (0, 256)
    warps = ceil(group_size / WARP_SIZE)
    of_warp = ceil(registers * WARP_SIZE / _REGISTERS_AT_ONCE) * _REGISTERS_AT_ONCE
    shared = ceil((shared_bytes + of_system) / at_once) * at_once
    groups = {
        "warps": max_warps // warps,
        "groups": max_groups,
        "registers": (_REGISTERS // max(of_warp, 1)) // warps,
        "shared memory": shared_kib * 1024 // max(shared, 1),
    }
    limit = min(groups, key=lambda name: groups[name])
    fraction = groups[limit] * warps / max_warps
    return Occupancy(fraction, limit, registers, shared_bytes, group_size)


def find_occupancy(resources: tuple[Resources, ...]) -> Occupancy | None:
    """Return the least occupancy of several launches; ``None`` if registers are not known."""
    found = [
        occupancy_of(
            needs.registers, needs.local_bytes, needs.group_size, needs.capability or _CAPABILITY
        )
        for needs in resources
        if needs.registers is not None
    ]
    return min(found, key=lambda occupancy: occupancy.fraction, default=None)


def find_resources(kernel: LoopKernel, queue: Any = None) -> tuple[Resources, ...]:
    """Return the resources of launches, from the driver of an OpenCL *queue* or CUDA's compiler.

    Nothing for other targets, without a queue, and without a compiler.
    """
    target = kernel.target
    if target.runs_in_queue and queue is not None:
        module = generate_module(kernel)
        flags = (*module.build_options, *kernel.options.build_options)
        found: tuple[Resources, ...] = target.load_runtime().resources_of(
            process_caches.disk, queue, module, flags, kernel.name
        )
        return found
    if not target.is_compiled_by_nvcc:
        return ()
    try:
        compiler = find_nvcc()
    except CompilationError:
        return ()
    module = generate_module(kernel)
    flags = (*module.build_options, *kernel.options.build_options)
    needs = _resources((*compiler, *NVCC_FLAGS, *flags), module.device_source, kernel.name)
    launches = {launch.function: launch for launch in module.launches}
    return tuple(
        Resources(
            function=name,
            group_size=prod(launch.locals),
            registers=needs[name][0],
            local_bytes=needs[name][1],
            capability=_CAPABILITY,
        )
        for name, launch in launches.items()
        if name in needs
    )


def _resources(command: tuple[str, ...], source: str, kernel: str) -> dict[str, tuple[int, int]]:
    """Return the registers of a work-item and the shared bytes of a group, by function.

    These are in the verbose output of the assembler, and cached on disk.
    """
    architecture = "sm_{}{}".format(*_CAPABILITY)
    words = (*command, f"-arch={architecture}", "-Xptxas", "-v", "-cubin")
    disk = process_caches.disk
    key = content_key("resources", source, compiler_version(command), *words)
    kept = disk.load(key)
    if kept is None:
        with tempfile.TemporaryDirectory(prefix="kgen-") as folder:
            code, product = Path(folder, "kernel.cu"), Path(folder, "kernel.cubin")
            code.write_text(source, encoding="utf-8")
            words = (*words, "-o", str(product), str(code))
            result = run_compiler(words, code.parent)
        if result.returncode:
            raise CompilationError(
                "the compiler rejects the generated code", kernel=kernel, because=result.stderr
            )
        kept = result.stderr.encode()
        disk.store(key, kept)
    return read_assembler(kept.decode())
