"""What code generation hands to the runtime: texts, argument table, launches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kgen.ir.expr import Expr
from kgen.ir.types import AddressSpace


@dataclass(frozen=True)
class ArgumentInfo:
    """One argument of the kernel, as a caller sees it.

    Sizes are in elements. ``shape`` and ``strides`` are expressions of the value
    arguments; ``offset`` names the parameter, of type int64, by which the device function
    gets the array's offset, or is ``None`` when the array starts at its first element.
    ``shape`` is ``None`` for an array of unknown extent.
    """

    name: str
    dtype: np.dtype[Any]
    is_array: bool
    is_input: bool
    is_output: bool
    shape: tuple[Expr, ...] | None = None
    strides: tuple[Expr, ...] | None = None
    offset: str | None = None
    address_space: AddressSpace = AddressSpace.GLOBAL
    #: never passed by the caller: a global temporary, which the runtime allocates, or a
    #: number that it finds from the shapes and strides of arrays
    is_temporary: bool = False


@dataclass(frozen=True)
class Launch:
    """One device function: its parameters by name, in order, and its launch grid."""

    function: str
    parameters: tuple[str, ...]
    groups: tuple[Expr, ...]
    locals: tuple[int, ...]


@dataclass(frozen=True)
class Module:
    """Generated code with all that is needed to run it.

    ``arguments`` are in the caller's order; ``launches`` run one after the other.
    ``conditions`` on the value arguments are what the code was generated for.
    """

    name: str
    device_source: str
    host_source: str
    header: str
    arguments: tuple[ArgumentInfo, ...]
    launches: tuple[Launch, ...]
    build_options: tuple[str, ...] = ()
    conditions: tuple[Expr, ...] = ()
