"""Reasons to reject a call: each check of the arguments, with a message."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from sys import float_info
from typing import Any, Final, NoReturn

import numpy as np
from pymbolic.mapper.evaluator import evaluate

from kgen.errors import InvocationError, counted, near_names
from kgen.host.program import HostProgram, SizeStep, is_dense, strides_fit
from kgen.ir.expr import Expr, to_text, variable_names
from kgen.ir.options import Options
from kgen.ir.types import kind_of
from kgen.runtime.layouts import FreeLayout
from kgen.runtime.overlap import shared_pair
from kgen.targets.module import ArgumentInfo

__all__ = ["CallChecker", "reject_masked", "reject_read_only"]


#: The largest number that Python converts to a float.
_LARGEST: Final = int(float_info.max)


class CallChecker:
    """Checks arguments against a host program, and raises errors that explain what is wrong.

    The fast checks of a wrapper only detect that something is wrong; this finds what it is.
    """

    def __init__(self, host: HostProgram) -> None:
        self.host = host

    def reject(self, what: str, *, because: str | None = None, hint: str | None = None) -> NoReturn:
        """Raise the error of a call."""
        raise InvocationError(what, kernel=self.host.kernel, because=because, hint=hint)

    def explain(self, given: Mapping[str, Any]) -> NoReturn:
        """Raise the error that explains what is wrong with the arguments *given*."""
        sizes = self.check(given)
        shown = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        self.reject("the arguments do not fit the kernel", because=f"the sizes are {shown}")

    def check_types(self, dtypes: Mapping[str, np.dtype[Any]]) -> None:
        """Reject argument types other than those that the code was generated for."""
        for name, dtype in dtypes.items():
            if self.host.by_name[name].dtype != dtype:
                self.reject(
                    f"argument '{name}' is {dtype}, not {self.host.by_name[name].dtype}",
                    because="the code was generated for that type",
                    hint=f"pass {_as_type(name, self.host.by_name[name].dtype)}",
                )

    def check(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Reject invalid arguments with a reason; return the sizes of valid ones."""
        given = {name: value for name, value in given.items() if value is not None}
        sizes = self._check_all_but_layouts(given)
        for arg in self.host.arrays:
            if arg.name in given:
                self._explain_strides(arg, given[arg.name], sizes)
                self._explain_offset(arg, given[arg.name])
        return sizes

    def _check_all_but_layouts(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Check names, types, sizes and shapes; return the sizes."""
        self._explain_names(given)
        for arg in self.host.arrays:
            if arg.name in given:
                self._explain_type(arg, given[arg.name])
            elif self.host.is_required_array(arg):
                self._explain_missing_array(arg)
        sizes = self._explain_values(given)
        self._explain_conditions(sizes)
        for arg in self.host.arrays:
            if arg.name in given:
                self._explain_shape(arg, given[arg.name], sizes)
        for arg in self.host.optional_arrays:
            if arg.name not in given:
                self._explain_extents(arg, sizes)
        return sizes

    def _explain_conditions(self, sizes: Mapping[str, Any]) -> None:
        """Reject sizes that break an assumption of the kernel."""
        for condition in self.host.conditions:
            if not evaluate(condition, dict(sizes)):
                self._explain_layouts(sizes)
                shown = ", ".join(f"{name} = {sizes[name]}" for name in variable_names(condition))
                self.reject(
                    f"{shown} breaks the assumption '{to_text(condition)}'",
                    because="the code was generated for sizes that satisfy it",
                    hint="make the kernel with weaker assumptions; or, if it computes with loop "
                    "variables, with index_dtype=numpy.int64",
                )

    def _explain_layouts(self, sizes: Mapping[str, Any]) -> None:
        """Reject sizes for which elements of an output share memory."""
        for arg in self.host.outputs:
            extents, strides = arg.shape or (), arg.strides or ()
            shape = tuple(int(evaluate(extent, dict(sizes))) for extent in extents)
            steps = tuple(int(evaluate(stride, dict(sizes))) for stride in strides)
            if len(steps) != len(shape) or any(extent < 0 for extent in shape):
                continue
            pair = shared_pair(shape, steps)
            if pair is not None:
                one, other = (f"{arg.name}[{', '.join(map(str, index))}]" for index in pair)
                self.reject(
                    f"elements of array '{arg.name}' share memory, and the kernel writes "
                    f"'{arg.name}'{_sizes_text(extents, sizes)}",
                    because=f"{one} and {other} are in one place: its strides are "
                    f"{_tuple_text(strides)} elements, and its shape is {shape}",
                    hint=f"declare '{arg.name}' without strides, or with strides that grow with "
                    "its shape",
                )

    def _explain_names(self, given: Mapping[str, Any]) -> None:
        known = [arg.name for arg in self.host.passed]
        for name in given:
            if name not in known:
                self.reject(f"there is no argument '{name}'", hint=near_names(name, known))

    def _explain_missing_array(self, arg: ArgumentInfo) -> NoReturn:
        if not arg.is_input:
            self.reject(
                f"array argument '{arg.name}' is missing",
                because="its extent is not known, so that it cannot be allocated",
                hint=f"pass it, or declare its shape: GlobalArg('{arg.name}', shape=...)",
            )
        self.reject(
            f"array argument '{arg.name}' is missing",
            hint="pass it, or declare it with is_input=False if the kernel writes all elements "
            f"of '{arg.name}' before it reads them"
            if arg.is_output
            else f"pass {arg.name}=...",
        )

    def _explain_type(self, arg: ArgumentInfo, array: Any) -> None:
        if not (hasattr(array, "dtype") and hasattr(array, "strides")):
            self.reject(
                f"argument '{arg.name}' is an array, not a value of type '{type(array).__name__}'",
                hint="pass a numpy array, or an array of the device",
            )
        if array.dtype != arg.dtype:
            self.reject(
                f"argument '{arg.name}' has elements of type {array.dtype}, not {arg.dtype}",
                hint=f"pass {_as_type(arg.name, arg.dtype)}, or declare another type",
            )

    def _explain_values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return all sizes, or reject one."""
        known: dict[str, Any] = {}
        for arg in self.host.values:
            if arg.name in given:
                known[arg.name] = self._explain_number(arg, given[arg.name])
        for step in self.host.size_steps:
            if step.name not in known:
                value = self._find_size(step, given, known)
                if value is not None:
                    known[step.name] = value
        for arg in self.host.values:
            if arg.name not in known:
                self._explain_missing_value(arg)
            self._explain_range(arg, known[arg.name])
        return known

    def _explain_number(self, arg: ArgumentInfo, value: Any) -> Any:
        """Return *value* as a number of the type of *arg*, or reject it."""
        if kind_of(arg.dtype) == "V":
            if np.shape(value) != () or getattr(value, "dtype", None) != arg.dtype:
                self._reject_value(arg, "a vector", value)
            return value
        kinds = {"b": "biu", "i": "biu", "u": "biu", "f": "biuf", "c": "biufc"}[kind_of(arg.dtype)]
        wanted = {"f": "a real number", "c": "a number"}.get(kind_of(arg.dtype), "an integer")
        try:
            number = np.asarray(value)
        except ValueError:
            number = np.empty(0, object)
        if number.shape != () or kind_of(number.dtype) not in kinds + "O":
            self._reject_value(arg, wanted, value)
        if number.dtype.kind == "O" and not isinstance(value, int):
            self._reject_value(arg, wanted, value)
        if number.dtype.kind == "O" and kind_of(arg.dtype) in "fc" and abs(value) > _LARGEST:
            self.reject(
                f"argument '{arg.name}' is an integer that is larger than every {arg.dtype}",
                because=f"it has {value.bit_length()} bits",
                hint="pass float('inf') for infinity",
            )
        return int(value) if arg.dtype.kind in "biu" else value

    def _reject_value(self, arg: ArgumentInfo, wanted: str, value: Any) -> NoReturn:
        hint = None
        if arg.dtype.kind in "biu" and isinstance(value, float | np.floating):
            is_whole = arg.name in self.host.parameters or value == np.floor(value)
            hint = f"pass int({value!r})" if is_whole else _wider(arg, "float64")
        elif isinstance(value, complex | np.complexfloating):
            part = f"{arg.name}.real"
            hint = (
                f"pass a part of it, such as {f'int({part})' if arg.dtype.kind in 'biu' else part}"
            )
            if arg.name not in self.host.parameters:
                hint += f", or {_wider(arg, 'complex128')}"
        self.reject(
            f"argument '{arg.name}' is {wanted}, not {reprlib.repr(value)}",
            because=f"its type is {arg.dtype}",
            hint=hint,
        )

    def _find_size(
        self, step: SizeStep, given: Mapping[str, Any], known: Mapping[str, Any]
    ) -> int | None:
        for source in step.sources:
            if source.array not in given or not known.keys() >= set(source.needs):
                continue
            array, arg = given[source.array], self.host.by_name[source.array]
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
        steps = [step for step in self.host.size_steps if step.name == arg.name]
        arrays = dict.fromkeys(source.array for step in steps for source in step.sources)
        shown = ", ".join(f"'{name}'" for name in arrays)
        self.reject(
            f"argument '{arg.name}' is missing",
            because=f"it follows from the sizes of {shown}, which do not determine it in this call"
            if arrays
            else "it does not follow from the size of an array",
            hint=f"pass {arg.name}=...",
        )

    def _explain_range(self, arg: ArgumentInfo, value: Any) -> None:
        limits = self.host.range_of(arg)
        if limits is None or limits[0] <= value <= limits[1]:
            return
        wide = arg.name in self.host.parameters and arg.dtype.itemsize == 4
        self.reject(
            f"argument '{arg.name}' is {value}; it must be in [{limits[0]}, {limits[1]}]",
            because=f"its type is {arg.dtype}",
            hint="make the kernel with index_dtype=np.int64"
            if wide
            else f"declare it with a wider type: ValueArg('{arg.name}', ...)",
        )

    def _explain_axes(self, arg: ArgumentInfo, array: Any) -> NoReturn:
        shape = arg.shape or arg.strides or ()
        self.reject(
            f"argument '{arg.name}' has {counted(len(array.shape), 'axis', 'axes')}, "
            f"not {len(shape)}",
            because=f"its shape in the kernel is {_tuple_text(arg.shape or ())}" if shape else None,
        )

    def _explain_shape(self, arg: ArgumentInfo, array: Any, sizes: Mapping[str, Any]) -> None:
        shape = tuple(array.shape)
        if arg.shape is not None:
            if len(shape) != len(arg.shape):
                self._explain_axes(arg, array)
            wanted = tuple(evaluate(extent, sizes) for extent in arg.shape)
            if shape != wanted:
                self.reject(
                    f"argument '{arg.name}' has shape {shape}, not {wanted}",
                    because=f"its shape in the kernel is {_tuple_text(arg.shape)}"
                    + _sizes_text(arg.shape, sizes),
                )
        if arg.strides is not None and len(shape) != len(arg.strides):
            self._explain_axes(arg, array)
        is_open = arg.shape is None and arg.strides is None
        if is_open and not is_dense(shape, tuple(array.strides), arg.dtype.itemsize):
            self.reject(
                f"argument '{arg.name}' has gaps: strides of {array.strides} bytes between "
                f"elements of {arg.dtype.itemsize}",
                because="its shape in the kernel is not known, so elements are taken one after "
                "the other",
                hint=f"numpy.ascontiguousarray({arg.name}), or declare its shape and strides: "
                f"GlobalArg('{arg.name}', shape='n', strides='s')",
            )

    def _explain_extents(self, arg: ArgumentInfo, sizes: Mapping[str, Any]) -> None:
        """Reject sizes with which an output that the call allocates has a negative extent."""
        shape = tuple(evaluate(extent, sizes) for extent in arg.shape or ())
        if any(extent < 0 for extent in shape):
            names = variable_names(*(arg.shape or ()))
            self.reject(
                f"array '{arg.name}' has a negative extent{_sizes_text(arg.shape or (), sizes)}",
                because=f"its shape is {_tuple_text(arg.shape or ())}, here {shape}",
                hint=f"pass a larger value for {' or '.join(map(repr, names))}",
            )

    def fill_value(self, arg: ArgumentInfo, options: Options) -> np.ndarray[Any, Any]:
        """Return the option ``fill_value`` in the type of *arg*, or reject it."""
        converted = _converted(np.asarray(options.fill_value), arg.dtype)
        if converted is None:
            self.reject(
                f"argument '{arg.name}' of type {arg.dtype} cannot be filled with "
                f"{options.fill_value!r}",
                because="the kernel does not write all of its elements",
                hint=f"set_options(knl, fill_value=0), or pass {arg.name}=...",
            )
        return converted

    def _explain_strides(self, arg: ArgumentInfo, array: Any, sizes: Mapping[str, Any]) -> None:
        if self._has_other_strides(arg, array, sizes):
            strides = arg.strides or ()
            self.reject(
                f"argument '{arg.name}' has strides of {array.strides} bytes, and its elements "
                f"have {arg.dtype.itemsize}",
                because=f"the kernel's code is for strides of {_tuple_text(strides)} "
                f"elements{_sizes_text(strides, sizes)}",
                hint=f"make it contiguous: numpy.ascontiguousarray({arg.name})",
            )

    def _has_other_strides(self, arg: ArgumentInfo, array: Any, sizes: Mapping[str, Any]) -> bool:
        if arg.strides is None:
            return False
        unit = arg.dtype.itemsize
        wanted = tuple(unit * evaluate(stride, sizes) for stride in arg.strides)
        return not strides_fit(tuple(array.shape), array.strides, wanted)

    def other_layouts(self, given: Mapping[str, Any]) -> FreeLayout:
        """Return the arrays whose strides and offsets differ from those the code was generated for.

        All other errors in a call are rejected.
        """
        given = {name: value for name, value in given.items() if value is not None}
        arrays = {arg.name: arg for arg in self.host.arrays if arg.name in given}
        sizes = self._check_all_but_layouts(given)
        strides = frozenset(
            name
            for name, arg in arrays.items()
            if self._has_other_strides(arg, given[name], sizes)
            and all(stride % arg.dtype.itemsize == 0 for stride in given[name].strides)
        )
        offsets = frozenset(
            name
            for name, arg in arrays.items()
            if arg.offset is None
            and (getattr(given[name], "offset", 0) != 0 or not _is_aligned(arg, given[name]))
        )
        return FreeLayout(strides, offsets)

    def _explain_offset(self, arg: ArgumentInfo, array: Any) -> None:
        offset = 0 if isinstance(array, np.ndarray) else getattr(array, "offset", 0)
        if offset and arg.offset is None:
            self.reject(
                f"argument '{arg.name}' begins {offset} bytes into its buffer",
                because="the kernel's code is for arrays that begin where their buffers do",
                hint="pass a copy, or default_offset=kgen.auto to make_kernel",
            )
        if offset % arg.dtype.itemsize:
            self.reject(
                f"argument '{arg.name}' begins {offset} bytes into its buffer",
                because=f"that is not a multiple of the {arg.dtype.itemsize} bytes of an element",
                hint="pass a copy",
            )


def _wider(arg: ArgumentInfo, dtype: str) -> str:
    return f"declare it with a wider type: ValueArg('{arg.name}', numpy.{dtype})"


def reject_read_only(reject: Callable[..., Any], argument: str) -> None:
    """Reject a read-only array that the kernel writes."""
    reject(
        f"argument '{argument}' is read-only, and the kernel writes it",
        hint=f"pass {argument}.copy()",
    )


def reject_masked(reject: Callable[..., Any], /, **arrays: Any) -> None:
    """Reject masked arrays: kernels compute with all elements, and would lose the mask."""
    for argument, array in arrays.items():
        if isinstance(array, np.ma.MaskedArray):
            reject(
                f"argument '{argument}' is a masked array, which kernels do not support",
                hint=f"pass {argument}.filled(...), or {argument}.data and the mask as an array",
            )


def _tuple_text(exprs: tuple[Expr, ...]) -> str:
    texts = [to_text(expr) for expr in exprs]
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def _sizes_text(exprs: tuple[Expr, ...], sizes: Mapping[str, Any]) -> str:
    names = [name for name in variable_names(*exprs) if name in sizes]
    shown = ", ".join(f"{name} = {sizes[name]}" for name in names)
    return f", with {shown}" if shown else ""


def address_of(array: Any) -> int:
    """Return the address of a numpy or CUDA array; 0, which has any alignment, for others."""
    if isinstance(array, np.ndarray):
        return int(array.__array_interface__["data"][0])
    return int(getattr(array, "gpudata", None) or 0)


def _is_aligned(arg: ArgumentInfo, array: Any) -> bool:
    return address_of(array) % arg.alignment == 0


def _as_type(name: str, dtype: np.dtype[Any]) -> str:
    """Return what gives an array of some type."""
    if dtype.fields is not None:
        return "an array of this type"
    return f"{name}.astype(numpy.{dtype.name})"


def _converted(value: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any] | None:
    """Return a number in some type, in all fields of a structure; ``None`` if it does not fit."""
    if dtype.fields is not None:
        result = np.zeros((), dtype)
        for name, (kind, *_) in dtype.fields.items():
            part = _converted(value, kind)
            if part is None:
                return None
            result[name] = part
        return result
    kinds = {"b": "b", "i": "biu", "u": "biu", "f": "biuf"}.get(kind_of(dtype), "biufc")
    if value.shape != () or value.dtype.kind not in "biufc":
        return None
    with np.errstate(all="ignore"):
        converted = value.astype(dtype)
    is_rounded = value.dtype.kind in "fc" and value.dtype.kind in kinds
    return converted if is_rounded or value == converted else None
