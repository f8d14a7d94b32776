"""Arguments that are passed in another form: separate arrays, vector types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, NoReturn

import numpy as np

from kgen.analysis.shapes import infer_argument_shapes
from kgen.errors import InvocationError
from kgen.ir.data import ArrayArg, ArrayBase, ValueArg
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import VectorArrayDimTag
from kgen.ir.pieces import piece_names, pieces_of, separate_axes, separate_extents
from kgen.ir.types import auto
from kgen.transforms.expressions.rules import expand_subst

__all__ = ["Bundles"]


class Bundles:
    """The arguments of a kernel that callers pass in another form than the code takes.

    * An array with axes tagged ``sep`` is passed as one array, of which the code takes slices, or
      as a list, a tuple, or an object array of its pieces, ``a=[a0, a1, a2]``; for several such
      axes, these are nested. Pieces beyond the extent of the axis are ignored. The code takes
      ``a_s0``, ``a_s1``, ``a_s2``; these are the results, if they are written.
    * An array whose last axis is tagged ``vec`` may be passed as an array of a vector type, such
      as ``pyopencl.cltypes.float4``, without that axis.
    """

    def __init__(self, kernel: LoopKernel) -> None:
        self.kernel = kernel.name
        if any(_is_open(arg) for arg in kernel.args):
            kernel = infer_argument_shapes(expand_subst(kernel))
        arrays = [arg for arg in kernel.args if isinstance(arg, ArrayArg)]
        self.separate = {arg.name: arg for arg in arrays if separate_axes(arg)}
        self.vectors = {arg.name: arg for arg in arrays if _ends_in_lanes(arg)}
        #: The arguments that the code takes.
        self.arguments: tuple[ArrayArg | ValueArg, ...] = tuple(
            piece  # type: ignore[misc]
            for arg in kernel.args
            for piece in (pieces_of(arg) if isinstance(arg, ArrayArg) else (arg,))
        )
        self.array_of = {
            name: array.name for array in self.separate.values() for name in piece_names(array)
        }

    def __bool__(self) -> bool:
        """Tell whether there is anything to do."""
        return bool(self.separate or self.vectors)

    def wrap(
        self, invoke: Callable[..., Any], outputs: Callable[[], Sequence[str]]
    ) -> Callable[..., Any]:
        """Return a function that calls *invoke* with the arguments that the code takes.

        *outputs* gives the names of the results of a call, once there was one.
        """

        def call(*args: Any, **kwargs: Any) -> Any:
            given, originals = self.unpack(kwargs)
            event, results = invoke(*args, **given)
            if isinstance(results, dict):
                return event, self.pack(results, originals)
            named = dict(zip(outputs(), results, strict=True))
            return event, tuple(self.pack(named, originals).values())

        return call

    def unpack(self, kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arguments that the code takes, and the arrays of vectors passed instead."""
        given: dict[str, Any] = {}
        originals: dict[str, Any] = {}
        for name, value in kwargs.items():
            if value is not None and name in self.separate:
                given.update(self._pieces(self.separate[name], value))
            elif getattr(value, "dtype", None) is not None and name in self.vectors:
                given[name] = self._lanes(self.vectors[name], value)
                originals[name] = value
            else:
                given[name] = value
        return given, originals

    def _pieces(self, array: ArrayArg, value: Any) -> dict[str, Any]:
        extents = separate_extents(array)
        pieces = _slices(value, array) if _is_whole(value, array) else _flattened(value, extents)
        names = piece_names(array)
        shape = " x ".join(map(str, extents))
        if len(pieces) != len(names):
            self._reject(
                f"argument '{array.name}' is kept in {shape} separate arrays, and "
                f"{len(pieces)} are passed",
                f"pass a list of them: {array.name}=[...]",
            )
        dtypes = {getattr(piece, "dtype", None) for piece in pieces}
        if len(dtypes) > 1:
            self._reject(
                f"the separate arrays of argument '{array.name}' have several types",
                "pass arrays of one type",
            )
        return dict(zip(names, pieces, strict=True))

    def _lanes(self, array: ArrayArg, value: Any) -> Any:
        """View an array of vectors as one of numbers, with an axis more."""
        fields = getattr(value.dtype, "fields", None)
        if not fields:
            return value
        base = next(iter(fields.values()))[0]
        count = array.shape[-1]
        room = value.dtype.itemsize // base.itemsize
        if room != (4 if count == 3 else count):
            self._reject(
                f"argument '{array.name}' has vectors of {room} numbers, not of {count}",
                "pass vectors of the length of the axis 'vec'",
            )
        return value.view(base).reshape((*value.shape, room))[..., :count]

    def pack(self, results: Mapping[str, Any], originals: Mapping[str, Any]) -> dict[str, Any]:
        """Return the results by the names and in the forms that the caller knows."""
        packed: dict[str, Any] = {}
        for name, value in results.items():
            is_view = name in originals and getattr(originals[name].dtype, "fields", None)
            packed[name] = originals[name] if is_view else value
        return packed

    def _reject(self, what: str, hint: str) -> NoReturn:
        raise InvocationError(what, kernel=self.kernel, hint=hint)


def _is_open(arg: ArrayArg | ValueArg) -> bool:
    """Tell whether the extents of separate axes, or of lanes, are to be found yet."""
    if not isinstance(arg, ArrayArg) or not (separate_axes(arg) or _ends_in_lanes(arg)):
        return False
    return not isinstance(arg.shape, tuple) or auto in arg.shape


def _ends_in_lanes(array: ArrayBase) -> bool:
    tags = array.dim_tags if isinstance(array.dim_tags, tuple) else ()
    return bool(tags) and isinstance(tags[-1], VectorArrayDimTag)


def _is_whole(value: Any, array: ArrayArg) -> bool:
    """Tell whether *value* is one array of numbers with all axes, the separate ones included."""
    dtype = getattr(value, "dtype", None)
    rank = len(array.shape) if isinstance(array.shape, tuple) else None
    return dtype is not None and dtype.kind != "O" and len(getattr(value, "shape", ())) == rank


def _slices(value: Any, array: ArrayArg) -> list[Any]:
    """Return the parts of an array along its separate axes, as many as it has of them."""
    axes = dict(zip(separate_axes(array), separate_extents(array), strict=True))
    index: list[Iterable[Any]] = [
        range(min(axes[axis], length)) if axis in axes else (slice(None),)
        for axis, length in enumerate(value.shape)
    ]
    return [value[at] for at in product(*index)]


def _flattened(value: Any, extents: Sequence[int]) -> list[Any]:
    """Return the entries of nested sequences, as many per level as there are pieces."""
    if not extents or not isinstance(value, list | tuple | np.ndarray):
        return [value]
    return [piece for part in value[: extents[0]] for piece in _flattened(part, extents[1:])]
