"""The host's part of a call, as data: the source of the launcher in each language."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import pymbolic.primitives as p
from constantdict import constantdict

from kgen.analysis.range import PARAM_LIMIT
from kgen.ir.affine import linear_form, simplify
from kgen.ir.expr import Expr, is_constant, is_zero, variable_names
from kgen.targets.module import (
    ArgumentInfo,
    Faults,
    HostLoop,
    Launch,
    Module,
    Step,
    steps_of,
)

__all__ = [
    "Buffer",
    "HostProgram",
    "SizeSource",
    "SizeStep",
    "has_no_gaps",
    "is_dense",
    "n_bytes_of",
    "solve_for",
    "strides_fit",
    "variable_extents",
]

Attribute: TypeAlias = Literal["shape", "strides"]


@dataclass(frozen=True, kw_only=True)
class SizeSource:
    """An equation for a size: entry *axis* of *array*'s attribute is ``factor*size + rest``.

    Strides are in elements here.
    """

    array: str
    attribute: Attribute
    axis: int
    factor: Expr
    rest: Expr

    @property
    def needs(self) -> tuple[str, ...]:
        """The other sizes that must be known before."""
        return variable_names(self.factor, self.rest)


@dataclass(frozen=True, kw_only=True)
class SizeStep:
    """Find *name*, unless it is known, from the first available source."""

    name: str
    sources: tuple[SizeSource, ...]


def solve_for(expr: Expr, name: str) -> tuple[Expr, Expr] | None:
    """Return ``(factor, rest)`` with ``expr == factor*name + rest``, or ``None``.

    >>> from pymbolic import parse
    >>> solve_for(parse("2*n + m"), "n")
    (2, Variable('m'))
    >>> solve_for(parse("n // 16"), "n")
    """
    factors: list[Expr] = []
    rest: list[Expr] = []
    form = linear_form(expr)
    for coefficient, atom in form.terms:
        if name not in variable_names(atom):
            rest.append(_product([coefficient, atom]))
            continue
        parts = atom.children if isinstance(atom, p.Product) else (atom,)
        inside = [part for part in parts if name in variable_names(part)]
        others = [coefficient, *(part for part in parts if name not in variable_names(part))]
        solved = _solve_atom(inside[0], name) if len(inside) == 1 else None
        if solved is None:
            return None
        factors.append(_product([*others, solved[0]]))
        rest.append(_product([*others, solved[1]]))
    rest.append(form.constant)
    return (simplify(_sum(factors)), simplify(_sum(rest))) if factors else None


def _solve_atom(atom: Expr, name: str) -> tuple[Expr, Expr] | None:
    if isinstance(atom, p.Variable):
        return 1, 0
    return solve_for(atom, name) if isinstance(atom, p.Sum) else None


def _product(factors: list[Expr]) -> Expr:
    return p.Product(tuple(factors))


def _sum(terms: list[Expr]) -> Expr:
    return p.Sum(tuple(terms))


def strides_fit(
    shape: tuple[int, ...], strides: tuple[int, ...], expected: tuple[int, ...]
) -> bool:
    """Tell whether an array has the *expected* strides along axes with several entries."""
    return len(shape) == len(expected) and (
        0 in shape
        or all(
            extent == 1 or stride == wanted
            for extent, stride, wanted in zip(shape, strides, expected, strict=True)
        )
    )


def is_dense(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Tell whether an array's elements are contiguous in memory, in any order of axes.

    >>> is_dense((2, 3), (8, 16), 8), is_dense((3,), (16,), 8), is_dense((3,), (-8,), 8)
    (True, False, False)
    """
    if 0 in shape:
        return True
    expected = itemsize
    for stride, extent in sorted(zip(strides, shape, strict=True)):
        if extent > 1:
            if stride != expected:
                return False
            expected *= extent
    return True


@dataclass(frozen=True, kw_only=True)
class Buffer:
    """Memory that a call needs, for one temporary in global memory or several that share it.

    ``n_bytes`` is an expression of the numbers of a call; it may be negative if sizes are 0.
    """

    temporaries: tuple[ArgumentInfo, ...]
    n_bytes: Expr


@dataclass(frozen=True, kw_only=True)
class HostProgram:
    """The actions of the host in one call of a kernel, in this order.

    1. The integers that the caller leaves out follow from shapes and strides: ``size_steps``.
    2. All integers are within ``range_of`` their arguments, and satisfy ``conditions``.
    3. Arrays have the shape, strides and alignment of their :class:`ArgumentInfo`, and no two
       of ``restricted_pairs`` overlap.
    4. ``optional_arrays`` that are not passed and ``buffers`` are allocated.
    5. ``steps`` run: launches, in loops and conditions of the host. Empty launches are left
       out.
    6. Recorded ``faults`` are an error.

    The wrapper in Python and the exported launchers in C are generated from this. ``typed_by_call``
    are the arguments whose types the caller chose: a call with other types runs another compiled
    kernel. ``parameters`` are the integers that appear in loop bounds, shapes, strides or launch
    grids.
    """

    kernel: str
    arguments: tuple[ArgumentInfo, ...]
    steps: tuple[Step, ...] = ()
    typed_by_call: frozenset[str] = frozenset()
    parameters: frozenset[str] = frozenset()
    conditions: tuple[Expr, ...] = ()
    faults: Faults | None = None
    #: the code relies on arrays that do not overlap
    restrict: bool = True

    @classmethod
    def of(
        cls,
        module: Module,
        typed_by_call: Iterable[str] = (),
        domain_parameters: Iterable[str] = (),
        *,
        restrict: bool = True,
    ) -> HostProgram:
        """Return the host program of *module*, whose loops are bounded by *domain_parameters*."""
        exprs: list[Expr] = [size for launch in module.launches for size in launch.groups]
        for loop in module.host_loops:
            exprs += [loop.first, loop.stop]
        for arg in module.arguments:
            exprs += [*(arg.shape or ()), *(arg.strides or ())]
        return cls(
            kernel=module.name,
            arguments=module.arguments,
            steps=tuple(_nonempty(module.steps)),
            typed_by_call=frozenset(typed_by_call),
            parameters=frozenset((*domain_parameters, *variable_names(*exprs))),
            conditions=module.conditions,
            faults=module.faults,
            restrict=restrict,
        )

    # -- launches -----------------------------------------------------------------------

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """All launches, in the order of the text."""
        return steps_of(Launch, self.steps)

    @cached_property
    def host_variables(self) -> Mapping[str, np.dtype[Any]]:
        """The types of the variables of host loops, which are passed to launches."""
        return constantdict({loop.name: loop.dtype for loop in steps_of(HostLoop, self.steps)})

    # -- the arguments by kind ----------------------------------------------------------

    @cached_property
    def passed(self) -> tuple[ArgumentInfo, ...]:
        """The arguments that a caller may pass; others are allocated or computed here."""
        return tuple(arg for arg in self.arguments if not arg.is_temporary)

    @cached_property
    def arrays(self) -> tuple[ArgumentInfo, ...]:
        """The arrays that a caller may pass."""
        return tuple(arg for arg in self.passed if arg.is_array)

    @cached_property
    def optional_arrays(self) -> tuple[ArgumentInfo, ...]:
        """The arrays that a call allocates if they are not passed."""
        return tuple(arg for arg in self.arrays if not self.is_required_array(arg))

    @cached_property
    def values(self) -> tuple[ArgumentInfo, ...]:
        """The numbers, those that are computed included, but not the offsets of arrays."""
        return tuple(arg for arg in self.arguments if not arg.is_array)

    @cached_property
    def temporaries(self) -> tuple[ArgumentInfo, ...]:
        """The arrays that are allocated for each call."""
        return tuple(arg for arg in self.arguments if arg.is_array and arg.is_temporary)

    @cached_property
    def outputs(self) -> tuple[ArgumentInfo, ...]:
        """The outputs, which a call returns."""
        return tuple(arg for arg in self.arrays if arg.is_output)

    @cached_property
    def offsets(self) -> Mapping[str, str]:
        """The array that each offset belongs to."""
        return {arg.offset: arg.name for arg in self.arguments if arg.offset is not None}

    @cached_property
    def by_name(self) -> Mapping[str, ArgumentInfo]:
        """All arguments by name."""
        return {arg.name: arg for arg in self.arguments}

    def parameter_dtype(self, text: str) -> np.dtype[Any] | None:
        """Return the type of a number that a device function takes; ``None`` for an array."""
        if text in self.offsets:
            return np.dtype(np.int64)
        if text in self.host_variables:
            return self.host_variables[text]
        arg = self.by_name[text]
        return None if arg.is_array else arg.dtype

    def range_of(self, arg: ArgumentInfo) -> tuple[int, int] | None:
        """Return the least and the greatest value of an integer; ``None`` for other types.

        Index expressions are proved to fit into 32 bits for parameters up to ``PARAM_LIMIT``.
        """
        if arg.dtype.kind == "b":
            return 0, 1
        if arg.dtype.kind not in "iu":
            return None
        info = np.iinfo(arg.dtype)
        if arg.name in self.parameters and arg.dtype.itemsize == 4:
            return max(int(info.min), -PARAM_LIMIT), PARAM_LIMIT
        return int(info.min), int(info.max)

    # -- memory ---------------------------------------------------------------------------

    @cached_property
    def buffers(self) -> tuple[Buffer, ...]:
        """The memory of temporaries; those that share a storage have one, as large as the largest.

        It does not include the record of guards, whose size is constant.
        """
        groups: dict[str, list[ArgumentInfo]] = {}
        for arg in self.temporaries:
            if self.faults is not None and arg.name == self.faults.name:
                continue
            # a storage may have the name of a temporary that is not in it
            key = f"array {arg.name}" if arg.storage is None else f"storage {arg.storage}"
            groups.setdefault(key, []).append(arg)
        return tuple(
            Buffer(temporaries=tuple(group), n_bytes=_largest(map(n_bytes_of, group)))
            for group in groups.values()
        )

    @cached_property
    def restricted_pairs(self) -> tuple[tuple[ArgumentInfo, ArgumentInfo], ...]:
        """The pairs of arrays that must not overlap: the kernel writes the first one of each."""
        return tuple(self._written_pairs()) if self.restrict else ()

    def _written_pairs(self) -> Iterator[tuple[ArgumentInfo, ArgumentInfo]]:
        for k, one in enumerate(self.arrays):
            for other in self.arrays[k + 1 :]:
                if one.is_output or other.is_output:
                    yield (one, other) if one.is_output else (other, one)

    # -- sizes ----------------------------------------------------------------------------

    @cached_property
    def size_steps(self) -> tuple[SizeStep, ...]:
        """The steps that find the integers that the caller omits, in order.

        A source may need sizes that other steps find, or that the caller passes.
        """
        sources = self._sources()
        values = [arg.name for arg in self.values if arg.dtype.kind in "iu"]
        known = {name for name in values if name not in sources}
        steps: list[SizeStep] = []
        while sources:
            ready: dict[str, list[SizeSource]] = {}
            for name, candidates in sources.items():
                usable = [s for s in candidates if known.issuperset(s.needs)]
                if usable:
                    ready[name] = usable
            if not ready:  # they need each other: whatever the caller passes gives the rest
                known.update(values)
                continue
            for name, usable in ready.items():
                steps.append(SizeStep(name=name, sources=tuple(usable)))
                sources[name] = [s for s in sources[name] if s not in usable]
                if not sources[name]:
                    del sources[name]
            known.update(ready)
        return tuple(steps)

    def _sources(self) -> dict[str, list[SizeSource]]:
        """Return all equations for each integer: shapes first, inputs before outputs."""
        integers = {arg.name for arg in self.values if arg.dtype.kind in "iu"}
        ordered = sorted(self.arrays, key=lambda arg: not self.is_required_array(arg))
        found: dict[str, list[SizeSource]] = {}
        attributes: tuple[Attribute, ...] = ("shape", "strides")
        for attribute in attributes:
            for arg in ordered:
                for axis, expr in enumerate(getattr(arg, attribute) or ()):
                    for name in variable_names(expr):
                        solved = solve_for(expr, name) if name in integers else None
                        if solved is not None and integers.issuperset(variable_names(*solved)):
                            source = SizeSource(
                                array=arg.name,
                                attribute=attribute,
                                axis=axis,
                                factor=solved[0],
                                rest=solved[1],
                            )
                            found.setdefault(name, []).append(source)
        return found

    @staticmethod
    def is_required_array(arg: ArgumentInfo) -> bool:
        """Tell whether the array *arg* cannot be allocated by a call."""
        return arg.is_input or arg.shape is None


def has_no_gaps(arg: ArgumentInfo) -> bool:
    """Tell whether an array of the declared layout has no gaps between its elements."""
    if arg.shape is None or arg.strides is None:
        return False
    axes = list(zip(arg.shape, arg.strides, strict=True))
    for ordered in (axes, axes[::-1]):
        size: Any = 1
        for extent, stride in reversed(ordered):
            if not is_zero(simplify(stride - size)):
                break
            size = size * extent
        else:
            return True
    return False


def _nonempty(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield the steps without empty launches, and without loops around nothing else."""
    for step in steps:
        if isinstance(step, Launch):
            if not step.is_empty:
                yield step
        elif inside := tuple(_nonempty(step.steps)):
            yield replace(step, steps=inside)


def variable_extents(launch: Launch) -> tuple[Expr, ...]:
    """Return the numbers of work-groups along axes that depend on sizes: one may be 0."""
    return tuple(size for size in launch.groups if not is_constant(size))


def n_bytes_of(arg: ArgumentInfo) -> Expr:
    """Return the bytes from the start of an array's first element to the end of its last one.

    They are not positive if an extent is 0.
    """
    if has_no_gaps(arg):
        return simplify(p.Product((arg.dtype.itemsize, *(arg.shape or ()))))
    axes = zip(arg.shape or (), arg.strides or (), strict=True)
    last = [p.Product((p.Sum((extent, -1)), stride)) for extent, stride in axes]
    return simplify(p.Product((arg.dtype.itemsize, p.Sum((1, *last)))))


def _largest(values: Iterable[Expr]) -> Expr:
    distinct = tuple(dict.fromkeys(values))
    return distinct[0] if len(distinct) == 1 else p.Max(distinct)
