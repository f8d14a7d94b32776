"""A driver of CUDA that does nothing, and notes what it is asked for."""

from __future__ import annotations

import ctypes
from typing import Any


class FakeDriver:
    """Its functions return 0, or the error that is passed for their name; handles are numbered."""

    def __init__(self, **errors: int) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.errors = errors

    @property
    def names(self) -> list[str]:
        """The functions that were called, in order."""
        return [name for name, *_ in self.calls]

    def called(self, name: str) -> list[tuple[Any, ...]]:
        """Return the arguments of all calls of a function."""
        return [tuple(arguments) for called, *arguments in self.calls if called == name]

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> int:
            self.calls.append((name, *args))
            made = getattr(args[0], "_obj", None) if args else None
            if isinstance(made, ctypes.c_void_p | ctypes.c_int) and not made.value:
                made.value = {"cuStreamIsCapturing": 0}.get(name, 100 + len(self.calls))
            return self.errors.get(name, 0)

        return call


class FakeLaunches(FakeDriver):
    """Reads what launches pass, whose parameters are *types* of ctypes."""

    def __init__(self, *types: Any, **errors: int) -> None:
        super().__init__(**errors)
        self.types = types
        self.launches: list[dict[str, Any]] = []

    def cuLaunchKernelEx(self, config: int, function: int, parameters: int, extra: None) -> int:
        numbers = (ctypes.c_uint * 7).from_address(config)
        stream, attributes = (ctypes.c_void_p * 2).from_address(config + 32)
        n_attributes = ctypes.c_uint.from_address(config + 48).value
        places = (ctypes.c_void_p * len(self.types)).from_address(parameters)
        self.launches.append(
            {
                "grid": tuple(numbers[:3]),
                "block": tuple(numbers[3:6]),
                "local_memory": numbers[6],
                "stream": stream or 0,
                "attributes": [
                    (ctypes.c_int * 3).from_address((attributes or 0) + 72 * k)[::2]
                    for k in range(n_attributes)
                ],
                "parameters": [
                    kind.from_address(place).value
                    for kind, place in zip(self.types, places, strict=True)
                ],
            }
        )
        self.calls.append(("cuLaunchKernelEx", function))
        return self.errors.get("cuLaunchKernelEx", 0)
