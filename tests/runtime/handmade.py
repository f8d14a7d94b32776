"""Modules written by hand, in the place of generated ones, and programs that run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from pymbolic import parse

from kgen.ir.data import ArrayArg, GlobalArg, ValueArg
from kgen.ir.kernel import LoopKernel
from kgen.ir.options import Options
from kgen.ir.target import TargetBase
from kgen.ir.types import auto
from kgen.ir.unit import CallableKernel, TranslationUnit
from kgen.runtime.cache import DiskCache
from kgen.runtime.generated import Generated
from kgen.targets.module import ArgumentInfo, GeneratedProgram, Launch, Module

Dtypes = Mapping[str, np.dtype[Any]]


def array(name: str, dtype: Any, shape: str | None, flow: str = "in", **more: Any) -> ArgumentInfo:
    """Describe an array; *flow* is ``in``, ``out`` or ``inout``, *shape* is like ``n,m``.

    Strides are those of C's order unless they are given, as a text like the shape.
    """
    extents = None if shape is None else tuple(map(parse, filter(None, shape.split(","))))
    strides = more.pop("strides", None)
    if strides is not None:
        strides = tuple(map(parse, strides.split(",")))
    elif extents is not None:
        step: Any = 1
        strides = ()
        for extent in reversed(extents):
            strides, step = (step, *strides), step * extent
    return ArgumentInfo(
        name=name,
        dtype=np.dtype(dtype),
        is_array=True,
        is_input="in" in flow,
        is_output="out" in flow,
        shape=extents,
        strides=strides,
        **more,
    )


def value(name: str, dtype: Any = np.int32, **more: Any) -> ArgumentInfo:
    """Describe a number."""
    return ArgumentInfo(
        name=name, dtype=np.dtype(dtype), is_array=False, is_input=True, is_output=False, **more
    )


def module(
    source: str,
    *arguments: ArgumentInfo,
    groups: str = "",
    local: tuple[int, ...] = (),
    launches: tuple[Launch, ...] = (),
) -> Module:
    """Return a module with one function, ``f``, of all arguments and their offsets in order."""
    grid = tuple(map(parse, filter(None, groups.split(","))))
    names = tuple(n for arg in arguments for n in (arg.name, arg.offset) if n is not None)
    return Module(
        name="f",
        preamble="",
        device_programs=(GeneratedProgram("f", True, source),),
        host_source="",
        declarations="",
        arguments=arguments,
        steps=launches or (Launch("f", names, grid, local),),
    )


def program(
    target: TargetBase,
    made: Module | Callable[[Dtypes], Module],
    monkeypatch: pytest.MonkeyPatch,
    *,
    untyped: tuple[str, ...] = (),
    **options: Any,
) -> TranslationUnit:
    """Return a program whose code is *made*, or what *made* returns for the types of a call."""
    make = (lambda dtypes: made) if isinstance(made, Module) else made
    known: Dtypes = dict.fromkeys(untyped, np.dtype(np.float32))
    kernel = LoopKernel(
        name="f",
        domains=(),
        instructions=(),
        args=tuple(
            _declare(arg, None if arg.name in untyped else arg.dtype)
            for arg in make(known).arguments
            if not arg.is_temporary
        ),
        options=Options().copy(**options),
        target=target,
    )

    class Handmade:
        def find(
            self, disk: DiskCache, unit: TranslationUnit, entrypoint: str, dtypes: Dtypes
        ) -> Generated:
            assert unit[entrypoint] is kernel
            return Generated(module=make(dtypes))

    monkeypatch.setattr("kgen.runtime.executor.code_of", lambda caches: Handmade())
    return TranslationUnit(
        callables_table={"f": CallableKernel(kernel)}, entrypoints=frozenset(["f"]), target=target
    )


def _declare(arg: ArgumentInfo, dtype: np.dtype[Any] | None) -> ArrayArg | ValueArg:
    if not arg.is_array:
        return ValueArg(arg.name, dtype)
    return GlobalArg(arg.name, dtype, shape=auto, is_input=arg.is_input, is_output=arg.is_output)
