"""What a call must satisfy: sizes found from arrays, checks, and why a call is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np
import pymbolic.primitives as p
from pymbolic.mapper.evaluator import evaluate

from kgen.analysis.range import PARAM_LIMIT
from kgen.errors import InvocationError, message, near_names
from kgen.ir.affine import linear_form
from kgen.ir.expr import Expr, is_constant, to_text, variable_names
from kgen.targets.module import ArgumentInfo, Module

__all__ = ["Contract", "SizeSource", "SizeStep", "solve_for", "strides_fit"]

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
    """Find *name*, unless it is known, from the first source that is at hand."""

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
        parts = atom.children if isinstance(atom, p.Product) else (atom,)
        others = [part for part in parts if part != p.Variable(name)]
        if name in variable_names(*others) or len(parts) - len(others) > 1:
            return None
        scaled = (coefficient, *others) if coefficient != 1 or not others else tuple(others)
        product = scaled[0] if len(scaled) == 1 else p.Product(scaled)
        (factors if len(others) < len(parts) else rest).append(product)
    if form.constant or not rest:
        rest.append(form.constant)
    return (_sum(factors), _sum(rest)) if factors else None


def _sum(terms: list[Expr]) -> Expr:
    return terms[0] if len(terms) == 1 else p.Sum(tuple(terms))


def strides_fit(
    shape: tuple[int, ...], strides: tuple[int, ...], expected: tuple[int, ...]
) -> bool:
    """Tell whether an array is laid out as *expected*, where its axes have a second entry."""
    return len(shape) == len(expected) and (
        0 in shape
        or all(
            extent == 1 or stride == wanted
            for extent, stride, wanted in zip(shape, strides, expected, strict=True)
        )
    )


@dataclass(frozen=True, kw_only=True)
class Contract:
    """The arguments of one compiled kernel, and what a call of it must satisfy.

    ``typed_by_call`` are the arguments whose types the caller chose: with other types the
    call is for another compiled kernel. ``parameters`` are the integers that appear in loop
    bounds, shapes, strides or launch grids.
    """

    kernel: str
    arguments: tuple[ArgumentInfo, ...]
    typed_by_call: frozenset[str] = frozenset()
    parameters: frozenset[str] = frozenset()
    conditions: tuple[Expr, ...] = ()

    @classmethod
    def of(
        cls,
        module: Module,
        typed_by_call: Iterable[str] = (),
        domain_parameters: Iterable[str] = (),
    ) -> Contract:
        """Return the contract of *module*, whose loops are bounded by *domain_parameters*."""
        exprs: list[Expr] = [size for launch in module.launches for size in launch.groups]
        for arg in module.arguments:
            exprs += [*(arg.shape or ()), *(arg.strides or ())]
        return cls(
            kernel=module.name,
            arguments=module.arguments,
            typed_by_call=frozenset(typed_by_call),
            parameters=frozenset((*domain_parameters, *variable_names(*exprs))),
            conditions=module.conditions,
        )

    # -- the arguments by kind ----------------------------------------------------------

    @cached_property
    def passed(self) -> tuple[ArgumentInfo, ...]:
        """What a caller may pass; the rest is allocated or computed here."""
        return tuple(arg for arg in self.arguments if not arg.is_temporary)

    @cached_property
    def arrays(self) -> tuple[ArgumentInfo, ...]:
        """The arrays that a caller may pass."""
        return tuple(arg for arg in self.passed if arg.is_array)

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
        """What a call returns."""
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

    # -- sizes ----------------------------------------------------------------------------

    @cached_property
    def size_steps(self) -> tuple[SizeStep, ...]:
        """How the integers that the caller leaves out are found, in order.

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

    # -- refusals -------------------------------------------------------------------------

    def refuse(self, what: str, *, because: str | None = None, hint: str | None = None) -> NoReturn:
        """Raise the error of a call."""
        raise InvocationError(message(what, kernel=self.kernel, because=because, hint=hint))

    def explain(self, given: Mapping[str, Any]) -> NoReturn:
        """Raise the error that says what is wrong with the arguments *given*.

        The quick checks of a call only find that something is; this looks for it.
        """
        sizes = self.check(given)
        self.refuse("the arguments do not fit the kernel", because=f"sizes are {sizes}")

    def check_types(self, dtypes: Mapping[str, np.dtype[Any]]) -> None:
        """Refuse types that the kernel was not generated for, though it was asked to be."""
        for name, dtype in dtypes.items():
            if self.by_name[name].dtype != dtype:
                self.refuse(f"argument '{name}' is {self.by_name[name].dtype}, not {dtype}")

    def check(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Refuse arguments that do not fit, saying why; return the sizes of those that do."""
        given = {name: value for name, value in given.items() if value is not None}
        self._explain_names(given)
        for arg in self.arrays:
            if arg.name in given:
                self._explain_type(arg, given[arg.name])
            elif self.is_required_array(arg):
                self._explain_missing_array(arg)
        sizes = self._explain_values(given)
        self._explain_conditions(sizes)
        for arg in self.arrays:
            if arg.name in given:
                self._explain_layout(arg, given[arg.name], sizes)
        return sizes

    def _explain_conditions(self, sizes: Mapping[str, Any]) -> None:
        """Refuse sizes that break an assumption of the kernel."""
        for condition in self.conditions:
            if not evaluate(condition, dict(sizes)):
                shown = ", ".join(f"{name} = {sizes[name]}" for name in variable_names(condition))
                self.refuse(
                    f"{shown} breaks the assumption '{to_text(condition)}'",
                    because="the code was generated for sizes that keep to it",
                    hint="make the kernel with weaker assumptions",
                )

    def _explain_names(self, given: Mapping[str, Any]) -> None:
        known = [arg.name for arg in self.passed]
        for name in given:
            if name not in known:
                self.refuse(f"there is no argument '{name}'", hint=near_names(name, known))

    def _explain_missing_array(self, arg: ArgumentInfo) -> NoReturn:
        if not arg.is_input:
            self.refuse(
                f"array argument '{arg.name}' is missing",
                because="its extent is not known, so that it cannot be allocated",
                hint=f"pass it, or declare its shape: GlobalArg('{arg.name}', shape=...)",
            )
        self.refuse(
            f"array argument '{arg.name}' is missing",
            because="the kernel reads it",
            hint=f"pass it, or declare it with is_input=False if all of '{arg.name}' that is "
            "read was written before"
            if arg.is_output
            else f"pass {arg.name}=...",
        )

    def _explain_type(self, arg: ArgumentInfo, array: Any) -> None:
        if not (hasattr(array, "dtype") and hasattr(array, "strides")):
            self.refuse(
                f"argument '{arg.name}' is an array, and {type(array).__name__} is none",
                hint="pass a numpy array, or an array of the device",
            )
        if array.dtype != arg.dtype:
            self.refuse(
                f"argument '{arg.name}' has elements of type {array.dtype}, not {arg.dtype}",
                hint=f"pass {arg.name}.astype(numpy.{arg.dtype.name}), or declare another type",
            )

    def _explain_values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return all sizes, or refuse one."""
        known: dict[str, Any] = {}
        for arg in self.values:
            if arg.name in given:
                known[arg.name] = self._explain_number(arg, given[arg.name])
        for step in self.size_steps:
            if step.name not in known:
                value = self._find_size(step, given, known)
                if value is not None:
                    known[step.name] = value
        for arg in self.values:
            if arg.name not in known:
                self._explain_missing_value(arg)
            self._explain_range(arg, known[arg.name])
        return known

    def _explain_number(self, arg: ArgumentInfo, value: Any) -> Any:
        """Return *value* as a number of the type of *arg*, or refuse it."""
        kinds = {"b": "biu", "i": "biu", "u": "biu", "f": "biuf", "c": "biufc"}[arg.dtype.kind]
        wanted = {"f": "a real number", "c": "a number"}.get(arg.dtype.kind, "an integer")
        try:
            number = np.asarray(value)
        except ValueError:
            number = np.empty(0, object)
        if number.shape != () or number.dtype.kind not in kinds + "O":
            self.refuse(f"argument '{arg.name}' is {wanted}, and {value!r} is none")
        if number.dtype.kind == "O" and not isinstance(value, int):
            self.refuse(f"argument '{arg.name}' is {wanted}, not a {type(value).__name__}")
        return int(value) if arg.dtype.kind in "biu" else value

    def _find_size(
        self, step: SizeStep, given: Mapping[str, Any], known: Mapping[str, Any]
    ) -> int | None:
        for source in step.sources:
            if source.array not in given or not known.keys() >= set(source.needs):
                continue
            array, arg = given[source.array], self.by_name[source.array]
            entries = getattr(array, source.attribute)
            if source.axis >= len(entries):
                self._explain_axes(arg, array)
            unit = arg.dtype.itemsize if source.attribute == "strides" else 1
            factor = evaluate(source.factor, known)
            if factor:
                rest = evaluate(source.rest, known)
                return int((entries[source.axis] // unit - rest) // factor)
        return None

    def _explain_missing_value(self, arg: ArgumentInfo) -> NoReturn:
        steps = [step for step in self.size_steps if step.name == arg.name]
        arrays = dict.fromkeys(source.array for step in steps for source in step.sources)
        shown = ", ".join(f"'{name}'" for name in arrays)
        self.refuse(
            f"argument '{arg.name}' is missing",
            because=f"it follows from the sizes of {shown}, which do not tell it in this call"
            if arrays
            else "it does not follow from the size of an array",
            hint=f"pass {arg.name}=...",
        )

    def _explain_range(self, arg: ArgumentInfo, value: Any) -> None:
        limits = self.range_of(arg)
        if limits is None or limits[0] <= value <= limits[1]:
            return
        wide = arg.name in self.parameters and arg.dtype.itemsize == 4
        self.refuse(
            f"argument '{arg.name}' is {value}; it must be in [{limits[0]}, {limits[1]}]",
            because=f"its type is {arg.dtype}",
            hint="make the kernel with index_dtype=np.int64"
            if wide
            else f"declare it with a wider type: ValueArg('{arg.name}', ...)",
        )

    def _explain_axes(self, arg: ArgumentInfo, array: Any) -> NoReturn:
        shape = arg.shape or arg.strides or ()
        self.refuse(
            f"argument '{arg.name}' has {len(array.shape)} axes, not {len(shape)}",
            because=f"its shape in the kernel is {_tuple_text(arg.shape or ())}" if shape else None,
        )

    def _explain_layout(self, arg: ArgumentInfo, array: Any, sizes: Mapping[str, Any]) -> None:
        shape = tuple(array.shape)
        if arg.shape is not None:
            if len(shape) != len(arg.shape):
                self._explain_axes(arg, array)
            wanted = tuple(evaluate(extent, sizes) for extent in arg.shape)
            if shape != wanted:
                self.refuse(
                    f"argument '{arg.name}' has shape {shape}, not {wanted}",
                    because=f"its shape in the kernel is {_tuple_text(arg.shape)}"
                    + _sizes_text(arg.shape, sizes),
                )
        if arg.strides is not None:
            if len(shape) != len(arg.strides):
                self._explain_axes(arg, array)
            unit = arg.dtype.itemsize
            wanted = tuple(unit * evaluate(stride, sizes) for stride in arg.strides)
            if not strides_fit(shape, array.strides, wanted):
                self.refuse(
                    f"argument '{arg.name}' has strides of {array.strides} bytes, not {wanted}",
                    because=f"the kernel's code is for strides of {_tuple_text(arg.strides)} "
                    f"elements{_sizes_text(arg.strides, sizes)}",
                    hint=_layout_hint(arg),
                )
        self._explain_offset(arg, array)

    def _explain_offset(self, arg: ArgumentInfo, array: Any) -> None:
        offset = getattr(array, "offset", 0)
        if offset and arg.offset is None:
            self.refuse(
                f"argument '{arg.name}' begins {offset} bytes into its buffer",
                because="the kernel's code is for arrays that begin where their buffers do",
                hint="pass a copy, or default_offset=kgen.auto to make_kernel",
            )
        if offset % arg.dtype.itemsize:
            self.refuse(
                f"argument '{arg.name}' begins {offset} bytes into its buffer",
                because=f"that is no multiple of its elements' {arg.dtype.itemsize} bytes",
                hint="pass a copy",
            )


def _layout_hint(arg: ArgumentInfo) -> str:
    strides = arg.strides or ()
    if len(strides) > 1 and is_constant(strides[0]) and strides[0] == 1:
        mend = f"pass numpy.asfortranarray({arg.name})"
    else:
        mend = f"make it contiguous: numpy.ascontiguousarray({arg.name})"
    names = ", ".join(f"s{axis}" for axis in range(len(strides)))
    return f"{mend}; or let it have any: GlobalArg('{arg.name}', strides='{names}', ...)"


def _tuple_text(exprs: tuple[Expr, ...]) -> str:
    texts = [to_text(expr) for expr in exprs]
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def _sizes_text(exprs: tuple[Expr, ...], sizes: Mapping[str, Any]) -> str:
    names = [name for name in variable_names(*exprs) if name in sizes]
    shown = ", ".join(f"{name} = {sizes[name]}" for name in names)
    return f", with {shown}" if shown else ""
