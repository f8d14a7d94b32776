"""The parameters of a kernel, and the memory that the runtime allocates for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kgen.analysis.access import index_sources
from kgen.ir.data import ArrayArg, ArrayBase, ImageArg, ValueArg
from kgen.ir.fields import replace
from kgen.ir.pieces import piece_names, without_separate
from kgen.ir.tags import FoundInCallTag
from kgen.ir.types import AddressSpace, NumpyType, auto
from kgen.targets.module import ArgumentInfo
from kgen.targets.writers.access import is_pointer
from kgen.targets.writers.expressions import ExpressionWriter

__all__ = ["argument_infos"]


def argument_infos(
    writer: ExpressionWriter, passed: Sequence[ArrayArg | ValueArg]
) -> Iterable[ArgumentInfo]:
    """Describe a caller's arguments, then the global temporaries that the runtime allocates."""
    kernel = writer.kernel
    written = kernel.get_written_variables()
    has_integers = any(isinstance(arg, ArrayArg) and arg.dtype.is_integral() for arg in passed)
    indices = index_sources(kernel) if has_integers else frozenset()
    for arg in passed:
        assert isinstance(arg.dtype, NumpyType)
        if isinstance(arg, ValueArg):
            yield ArgumentInfo(
                arg.name,
                arg.dtype.dtype,
                False,
                True,
                False,
                is_temporary=FoundInCallTag() in arg.tags,
            )
            continue
        is_output = arg.name in written if arg.is_output is None else arg.is_output
        is_input = arg.is_input
        if is_input is None:
            is_input = arg.name in kernel.get_read_variables() or not is_output
        for info in _array_infos(writer, arg, is_input, is_output, is_temporary=False):
            yield replace(info, is_index=True) if arg.name in indices else info
    temporaries = kernel.temporary_variables
    storages = {t.base_storage: t.base_storage for t in temporaries.values() if t.base_storage}
    for _, temporary in sorted(temporaries.items()):
        if is_pointer(temporary):
            shared = storages.get(temporary.base_storage or temporary.name)
            for info in _array_infos(writer, temporary, False, False, is_temporary=True):
                yield replace(info, storage=shared)


def _array_infos(
    writer: ExpressionWriter,
    array: ArrayBase,
    is_input: bool,
    is_output: bool,
    *,
    is_temporary: bool,
) -> Iterable[ArgumentInfo]:
    """Describe an array, or each of its separate pieces."""
    assert isinstance(array.dtype, NumpyType)
    has_axes = isinstance(array.shape, tuple) and auto not in array.shape
    has_shape = has_axes and None not in array.shape
    has_strides = has_axes and not isinstance(array, ImageArg)
    space = array.address_space if isinstance(array, ArrayArg) else AddressSpace.GLOBAL
    for name in piece_names(array):
        yield ArgumentInfo(
            name=name,
            dtype=array.dtype.dtype,
            is_array=True,
            is_input=is_input,
            is_output=is_output,
            shape=without_separate(array, array.shape) if has_shape else None,
            strides=without_separate(array, array.fixed_strides) if has_strides else None,
            offset=writer.accesses.offsets.get(name),
            address_space=space,
            is_temporary=is_temporary,
            alignment=writer.accesses.alignments.get(array.name, 1),
        )
