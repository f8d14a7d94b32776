"""Generated CUDA C++ on threads of the host: groups begin in any order, few of them at once."""

from __future__ import annotations

import ctypes
import hashlib
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import kgen as lp
from kgen.host.program import n_bytes_of
from kgen.ir.expr import Expr
from kgen.lowering import generate_module
from kgen.runtime.pyast import define, from_expr, function_of, return_, to_code
from kgen.targets.module import HostIf, Launch, Module, Step

_HEADER = Path(__file__).with_name("cuda_host.h")
#: What tensor cores do, and what code has in its place.
_TENSOR_HEADER = Path(__file__).with_name("cuda_host_tensor.h")
_TENSOR_HELPER = re.compile(
    r"^(?:template <[^>]*>\n)?static __device__ inline [\w ]+ kgen_"
    r"(?:m\d+n|load_|pair|tf32|begin_|commit|finish_|see_stores|matrix).*?^}\n",
    re.MULTILINE | re.DOTALL,
)
_INCLUDED = re.compile(r"^#include <(?:cu\w+|cooperative_groups)\.h>\n", re.MULTILINE)
_POWER = 'asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"((float) a));'
_NOT = 'asm("not.b32 %0, %1;" : "=r"(before) : "r"((int) (0u - (unsigned int) a)));'
_LANE = 'asm("mov.u32 %0, %%laneid;" : "=r"(lane));'
_LOOKS = "  unsigned int state = 3;\n"  # at what another group has published
_LOCAL_MEMORY = lp.CudaTarget.local_memory_of_launch


@dataclass(frozen=True)
class LaunchMemoryTarget(lp.CudaTarget):
    """CUDA whose launches ask for all local memory, also for little."""

    static_local_memory: ClassVar[int | None] = 0


def evaluate(expr: Expr, values: Mapping[str, int]) -> int:
    """Return the value of an expression of the host, whose divisions may be those of C."""
    code = to_code(define("value", (), [], ("_more", "_unknown"), [return_(from_expr(expr))]))
    return int(function_of("value", code, values)())


class HostCuda:
    """A program, compiled for the host: its launches, with memory that they do not expect.

    *change* is applied to the text of the code.
    """

    def __init__(
        self,
        program: lp.TranslationUnit,
        folder: Path,
        change: Callable[[str], str] = lambda text: text,
    ) -> None:
        self.module: Module = generate_module(program.default_entrypoint)
        entries = [
            f'extern "C" int run_{launch.function}(unsigned int const *grid, unsigned int const '
            "*block, void **given, unsigned int const *order, int resident)\n"
            f"{{ return host::launch(host::Kernel<{launch.function}>::run, grid, block, given, "
            f"order, resident, {launch.local_memory}); }}\n"
            for launch in self.module.launches
        ]
        code = change(_INCLUDED.sub("", self.module.device_source))
        code = code.replace(_LOCAL_MEMORY, "unsigned char *const kgen_shared = host::local();")
        code = code.replace(_LANE, "lane = host::group->running % 32;")
        code = code.replace(_LOOKS, f"{_LOOKS}  host::pause();\n")
        code = code.replace(_POWER, "power = exp2f(a);")
        code = code.replace(_NOT, "before = a - 1;")
        headers = [_HEADER]
        if "kgen_m" in code:
            headers, code = [*headers, _TENSOR_HEADER], _TENSOR_HELPER.sub("", code)
        included = "".join(f'#include "{header}"\n' for header in headers)
        text = f"{included}{code}\n{''.join(entries)}"
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        source, library = folder / f"{name}.cpp", folder / f"{name}.so"
        source.write_text(text)
        flags = ("-std=c++17", "-w", "-shared", "-fPIC", "-pthread")
        subprocess.run(["g++", *flags, str(source), "-o", str(library)], check=True)
        self.library = ctypes.CDLL(str(library))

    def __call__(
        self,
        arguments: Mapping[str, Any],
        *,
        order: str = "last first",
        resident: int = 3,
        most_groups: int = 2**31 - 1,
    ) -> bool:
        """Make all launches; tell whether all groups end. Arrays are changed in place.

        Launches whose groups are persistent have at most *most_groups*.
        """
        given = dict(arguments)
        sizes = {name: value for name, value in given.items() if isinstance(value, int)}
        for arg in self.module.arguments:
            if arg.is_temporary and arg.name not in given:
                size = max(evaluate(n_bytes_of(arg), sizes), 0)
                given[arg.name] = np.full(size, 0x5A, np.uint8)
        return all(
            self._run(launch, given | values, sizes | values, order, resident, most_groups)
            for launch, values in _launches(self.module.steps, sizes)
        )

    def _run(
        self,
        launch: Launch,
        given: dict[str, Any],
        sizes: dict[str, int],
        order: str,
        resident: int,
        most_groups: int,
    ) -> bool:
        for name in launch.zeroed:
            given[name][:] = 0
        grid = [*(evaluate(size, sizes) for size in launch.groups), 1, 1, 1][:3]
        block = [*launch.locals, 1, 1, 1][:3]
        if min(grid) <= 0:
            return True
        if launch.zeroed and "kgen_tickets" in self.module.device_source:
            grid = [min(grid[0], most_groups), 1, 1]
        count = int(np.prod(grid))
        numbers = np.arange(count, dtype=np.uint32)
        if order == "last first":
            numbers = numbers[::-1].copy()
        elif order == "any":
            np.random.default_rng(count).shuffle(numbers)
        places = [_parameter(given[name]) for name in launch.parameters]
        pointers = (ctypes.c_void_p * len(places))(
            *(ctypes.cast(ctypes.byref(place), ctypes.c_void_p) for place in places)
        )
        run = getattr(self.library, f"run_{launch.function}")
        three = ctypes.c_uint * 3
        of_order = numbers.ctypes.data_as(ctypes.c_void_p)
        copies = [(value, value.copy()) for value in given.values() if hasattr(value, "ctypes")]
        self.library.keep_before(None, None, 0)
        for array, copy in copies:
            at = (ctypes.c_void_p(each.ctypes.data) for each in (array, copy))
            self.library.keep_before(*at, ctypes.c_size_t(array.nbytes))
        return bool(run(three(*grid), three(*block), pointers, of_order, resident))


def _parameter(value: Any) -> Any:
    """Return a number, whose first bytes are one of a shorter type, or the address of an array."""
    if isinstance(value, int):
        return ctypes.c_longlong(value)
    return ctypes.c_void_p(value.ctypes.data)


def _launches(
    steps: Iterable[Step], sizes: dict[str, int]
) -> Iterator[tuple[Launch, dict[str, int]]]:
    """Give launches in order, each with the values of loops of the host."""
    for step in steps:
        if isinstance(step, Launch):
            yield step, {}
        elif isinstance(step, HostIf):
            yield from _launches(step.steps if evaluate(step.condition, sizes) else (), sizes)
        else:
            for value in range(evaluate(step.first, sizes), evaluate(step.stop, sizes), step.step):
                own = {step.name: value}
                for launch, values in _launches(step.steps, sizes | own):
                    yield launch, own | values
