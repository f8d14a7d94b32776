"""Comparing a transformed kernel with its reference, by running both on the same random data."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

from kgen.errors import AutomaticTestFailure, InvocationError
from kgen.ir.checked import checked, unfit
from kgen.ir.unit import TranslationUnit
from kgen.lowering import generate_module
from kgen.runtime.samples import evaluated, random_data, values_of
from kgen.targets.module import ArgumentInfo, Module

__all__ = ["TOLERANCES", "auto_test_vs_ref", "fitted_data", "in_shapes_of"]

#: Relative tolerances of results, by the size of one real number in bytes.
TOLERANCES = {2: 1e-2, 4: 1e-4, 8: 1e-9}

Check = Callable[[np.ndarray[Any, Any], np.ndarray[Any, Any]], tuple[bool, str]]


@checked
def auto_test_vs_ref(
    ref_prog: TranslationUnit,
    ctx: Any = None,
    test_prog: TranslationUnit | None = None,
    op_count: Any = (),
    op_label: Any = (),
    parameters: Mapping[str, Any] | None = None,
    print_ref_code: bool = False,
    print_code: bool = True,
    warmup_rounds: int = 2,
    dump_binary: bool = False,
    fills_entire_output: bool | None = None,
    do_check: bool = True,
    check_result: Check | None = None,
    max_test_kernel_count: int | None = 1,
    quiet: bool = False,
    blacklist_ref_vendors: str | Collection[str] = (),
    ref_entrypoint: str | None = None,
    test_entrypoint: str | None = None,
) -> dict[str, Any]:
    """Run a reference and a transformed kernel on the same random data and compare.

    :arg ctx: a pyopencl context, or a queue; ``None`` for targets that need none
    :arg parameters: the value arguments, such as ``{"n": 1024}``; names that are not value
        arguments of a kernel (any more) are ignored there
    :arg op_count: operations of one run, in billions, one per *op_label*: rates are printed
    :arg check_result: ``f(result, reference) -> (is_good, explanation)``; by default results
        must agree to a tolerance that fits their type

    :arg max_test_kernel_count: at least 1; there is one schedule, which is tested
    :arg blacklist_ref_vendors: parts of the names of vendors and platforms on whose devices the
        reference must not run, as a text separated by commas, or a list

    If an array has another shape in the transformed kernel (:func:`split_array_axis`), it gets the
    elements of the reference's array in storage order, followed by zeros; its
    results are compared in that order.

    *fills_entire_output* is deprecated: both kernels start with the same outputs. *dump_binary*
    is not supported; ``generate_code_v2`` returns the code.

    Returns the seconds of one run, without compilation and copies to the device, as a dict:

    * ``elapsed_wall``, ``ref_elapsed_wall``: on the host, until the results are there
    * ``elapsed_event_marker``: on the device, from before the first launch to the end
    * ``elapsed_event``, ``ref_elapsed_event``: likewise; in OpenCL that of the launch alone, if
      there is only one
    * ``timing_rounds``: the number of runs that are timed, 1

    Raises :class:`AutomaticTestFailure` naming the first output that differs, and where.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = 2*a[i]", [lp.GlobalArg("a", "float64", shape="n"), ...],
    ...     target=lp.ExecutableCTarget())
    >>> tiled = lp.split_iname(unit, "i", 16)
    >>> times = auto_test_vs_ref(unit, None, tiled, parameters={"n": 100}, quiet=True)
    >>> sorted(times)
    ['elapsed_event', 'elapsed_event_marker', 'elapsed_wall', 'ref_elapsed_event', \
'ref_elapsed_wall', 'timing_rounds']
    """
    _reject_options(dump_binary, fills_entire_output, max_test_kernel_count)
    _reject_vendors(ctx, blacklist_ref_vendors)
    test_prog = ref_prog if test_prog is None else test_prog
    parameters = dict(parameters or {})
    reference = generate_module(ref_prog, ref_entrypoint)
    tested = generate_module(test_prog, test_entrypoint)
    if print_ref_code and not quiet:
        print(reference.device_source)
    if print_code and not quiet:
        print(tested.device_source)
    data = random_data(reference, parameters)
    expected, ref_times = _run(ref_prog, ref_entrypoint, reference, ctx, data, 0)
    fitted = fitted_data(reference, tested, data, parameters)
    got, times = _run(test_prog, test_entrypoint, tested, ctx, fitted, warmup_rounds)
    if do_check:
        got = in_shapes_of(reference, tested, got, parameters)
        for name, value in expected.items():
            _compare(tested.name, name, got.get(name), value, check_result or _is_near)
    if not quiet:
        _print_rates(times.wall, op_count, op_label)
    return {
        "elapsed_event": times.launch,
        "elapsed_event_marker": times.device,
        "elapsed_wall": times.wall,
        "timing_rounds": 1,
        "ref_elapsed_event": ref_times.launch,
        "ref_elapsed_wall": ref_times.wall,
    }


def _reject_options(
    dump_binary: bool, fills_entire_output: bool | None, max_test_kernel_count: int | None
) -> None:
    if dump_binary:
        raise InvocationError(
            "auto_test_vs_ref does not print binaries\n"
            "  hint: leave dump_binary out; generate_code_v2(program).device_code() is the code"
        )
    if max_test_kernel_count is not None and max_test_kernel_count < 1:
        raise InvocationError(
            f"max_test_kernel_count is {max_test_kernel_count}, but at least one kernel is "
            "tested\n  hint: leave it out"
        )
    if fills_entire_output is not None:
        warnings.warn(
            "fills_entire_output of auto_test_vs_ref is deprecated: both kernels start with the "
            "same outputs; leave it out",
            DeprecationWarning,
            stacklevel=3,
        )


def _reject_vendors(ctx: Any, names: str | Collection[str]) -> None:
    """Reject running the reference on a device of one of some vendors or platforms."""
    rejected = [n.strip() for n in (names.split(",") if isinstance(names, str) else names)]
    for device in getattr(ctx, "devices", None) or filter(None, [getattr(ctx, "device", None)]):
        if not hasattr(device, "vendor"):
            raise unfit("ctx", "a context, a queue or None", ctx)
        for maker in (device.vendor, device.platform.name):
            if any(name and name.lower() in maker.lower() for name in rejected):
                raise InvocationError(
                    f"the reference may not run on '{device.name}' of '{maker}'\n"
                    "  hint: pass a context of another device, or another blacklist_ref_vendors"
                )


def fitted_data(
    reference: Module, tested: Module, data: Mapping[str, Any], parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the data of the reference in the shapes of the transformed kernel."""
    before = {info.name: info for info in reference.arguments}
    fitted = {**data, **values_of(tested, parameters)}
    for info in tested.arguments:
        if info.name not in data or not info.is_array:
            continue
        value = data[info.name]
        shape = evaluated(info.shape or value.shape, parameters)
        if shape == value.shape:
            continue
        old, new = (_StorageOrder.of(one, parameters) for one in (before[info.name], info))
        if not new.holds(old):
            raise InvocationError(
                f"argument '{info.name}' has shape {value.shape} in the reference, and {shape} "
                "here, which does not have its elements in the same order",
                kernel=tested.name,
                hint="run both kernels and compare the intended elements",
            )
        fitted[info.name] = new.filled(old.elements(value))
    return fitted


class _StorageOrder(NamedTuple):
    """The storage order of an array: its axes by decreasing strides."""

    shape: tuple[int, ...]
    axes: tuple[int, ...]

    @classmethod
    def of(cls, info: ArgumentInfo, parameters: Mapping[str, Any]) -> _StorageOrder:
        """Return the order of an argument of known shape."""
        shape = evaluated(info.shape or (), parameters)
        strides = evaluated(info.strides or (0,) * len(shape), parameters)
        return cls(shape, tuple(sorted(range(len(shape)), key=lambda axis: -strides[axis])))

    @property
    def extents(self) -> tuple[int, ...]:
        """The lengths of the axes in this order."""
        return tuple(self.shape[axis] for axis in self.axes)

    def holds(self, other: _StorageOrder) -> bool:
        """Tell whether the elements of *other* fit, with padding only at the end."""
        mine, others = self.extents, other.extents
        if prod(mine) == prod(others):
            return True
        inner = prod(others[1:])
        return prod(mine) > prod(others) and any(
            prod(mine[axis:]) == inner for axis in range(len(mine) + 1)
        )

    def elements(self, value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the elements of an array in this order."""
        return value.transpose(self.axes).reshape(-1)

    def filled(self, elements: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return an array with *elements* in this order, padded with zeros or truncated."""
        stored = np.zeros(prod(self.shape), elements.dtype)
        count = min(len(stored), len(elements))
        stored[:count] = elements[:count]
        back = np.argsort(np.array(self.axes, dtype=np.intp))
        return stored.reshape(self.extents).transpose(tuple(map(int, back)))


def in_shapes_of(
    reference: Module,
    tested: Module,
    results: Mapping[str, np.ndarray[Any, Any]],
    parameters: Mapping[str, Any],
) -> dict[str, np.ndarray[Any, Any]]:
    """Return results of the transformed kernel in the shapes that the reference has."""
    before = {info.name: info for info in reference.arguments}
    after = {info.name: info for info in tested.arguments}
    changed = dict(results)
    for name, value in results.items():
        if name not in before or before[name].shape is None or after[name].shape is None:
            continue
        old, new = (_StorageOrder.of(info[name], parameters) for info in (before, after))
        if old.shape != value.shape == new.shape and new.holds(old):
            changed[name] = old.filled(new.elements(value))
    return changed


class _Times(NamedTuple):
    """The seconds of a run: on the host, on the device, and of its launch on the device."""

    wall: float
    device: float
    launch: float


def _run(
    program: TranslationUnit,
    entrypoint: str | None,
    module: Module,
    ctx: Any,
    data: Mapping[str, Any],
    warmups: int,
) -> tuple[dict[str, np.ndarray[Any, Any]], _Times]:
    """Run on copies of the data; return the outputs and the times of the last run."""
    names = {info.name for info in module.arguments if not info.is_temporary}
    outputs = [info.name for info in module.arguments if info.is_output and info.is_array]
    given = {name: value for name, value in data.items() if name in names}
    executor = program.executor(*(() if ctx is None else (ctx,)), entrypoint=entrypoint)
    executor.prepare(**given)
    leading = executor.leading_arguments()
    runtime = program.target.load_runtime()
    options = {"out_host": False} if program.target.has_work_items else {}
    for _ in range(warmups + 1):
        placed = {
            name: runtime.to_device(value.copy(order="K"), *leading)
            if isinstance(value, np.ndarray)
            else value
            for name, value in given.items()
        }
        mark = executor.mark(*leading)
        start = time.perf_counter()
        event, results = executor(*leading, **placed, **options)
        on_device = executor.seconds_since(mark, event)
        wall = time.perf_counter() - start
    is_one = module.steps == module.launches[:1]
    launch = executor.seconds_of(event) if is_one else None
    if not isinstance(results, dict):
        results = dict(zip(outputs, results, strict=True))
    found = {name: runtime.to_host(value, *leading) for name, value in results.items()}
    return found, _Times(
        wall=wall, device=on_device, launch=on_device if launch is None else launch
    )


def _is_near(result: np.ndarray[Any, Any], reference: np.ndarray[Any, Any]) -> tuple[bool, str]:
    if reference.dtype.kind in "iub":
        return bool((result == reference).all()), "integers differ"
    is_complex = reference.dtype.kind == "c"
    real = reference.dtype.itemsize // (2 if is_complex else 1)
    scale = float(np.abs(reference).max(initial=0)) or 1.0
    difference = float(np.abs(result - reference).max(initial=0)) / scale
    return difference <= TOLERANCES[real], f"relative difference {difference:.3g}"


def _compare(
    kernel: str,
    name: str,
    result: np.ndarray[Any, Any] | None,
    reference: np.ndarray[Any, Any],
    check: Check,
) -> None:
    if result is None:
        raise AutomaticTestFailure(
            f"output '{name}' of the reference is not an output of the kernel", kernel=kernel
        )
    if result.shape != reference.shape:
        raise AutomaticTestFailure(
            f"output '{name}' has shape {result.shape}, the reference {reference.shape}",
            kernel=kernel,
        )
    good, why = check(result, reference)
    if good:
        return
    difference = np.abs(np.nan_to_num(result - reference, nan=np.inf))
    worst = np.unravel_index(int(np.argmax(difference)), result.shape) if result.ndim else ()
    at = ", ".join(str(int(k)) for k in worst)
    raise AutomaticTestFailure(
        f"output '{name}' differs from the reference: {why}",
        kernel=kernel,
        point=f"{name}[{at}]: {result[worst]} instead of {reference[worst]}",
    )


def _print_rates(seconds: float, op_count: Any, op_label: Any) -> None:
    counts = op_count if isinstance(op_count, list | tuple) else (op_count,)
    labels = (op_label,) if isinstance(op_label, str) else op_label
    rates = ", ".join(
        f"{count / seconds:g} {label}/s" for count, label in zip(counts, labels, strict=False)
    )
    print(f"elapsed: {seconds:g} s" + (f", {rates}" if rates else ""))
