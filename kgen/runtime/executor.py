"""Executors: code per combination of argument types, compiled once and cached."""

from __future__ import annotations

import contextlib
import math
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, NoReturn, Self, TypeVar

import numpy as np

from kgen.analysis.access import subscript_names
from kgen.analysis.infer import size_names
from kgen.errors import (
    CodegenError,
    InvocationError,
    KgenError,
    TypeInferenceFailure,
    counted,
    near_names,
)
from kgen.host.program import HostProgram
from kgen.ir.constants import CONSTANTS
from kgen.ir.data import ArrayArg, ValueArg
from kgen.ir.pieces import separate_axes
from kgen.ir.types import read_type
from kgen.ir.unit import TranslationUnit
from kgen.lowering import generate_module
from kgen.runtime.bound import BoundCall, Calls, RecordingBuilder
from kgen.runtime.bundles import Bundles
from kgen.runtime.cache import ProcessCaches, process_caches
from kgen.runtime.edited import shown_and_edited, write_text
from kgen.runtime.foreign import host_array
from kgen.runtime.generated import Generated, code_of
from kgen.runtime.highlight import highlighted
from kgen.runtime.layouts import FreeLayout, with_free_layout
from kgen.runtime.pyast import PREFIX
from kgen.runtime.refusals import CallChecker, reject_masked
from kgen.runtime.wrapper import WrapperBuilder
from kgen.targets.module import Launch, Module

__all__ = ["Entry", "ExecutorBase", "reject_group_size", "remember"]

Dtypes = dict[str, np.dtype[Any]]
_Key = tuple[frozenset[tuple[str, np.dtype[Any]]], FreeLayout]
_USUAL = FreeLayout()
#: Python's number types, which numpy converts to types of its own.
_PYTHON = (bool, int, float, complex)
#: The types of most arguments; values of these types are not arrays of other libraries.
_USUAL_TYPES: Final = frozenset({*_PYTHON, np.ndarray, type(None)})
Executor = TypeVar("Executor", bound="ExecutorBase")

#: Kinds of numpy types that arguments have: numbers, and structures of them for vectors.
_KINDS = "biufcV"

#: The maximum number of executors that a program caches, one per entry point and device.
N_REMEMBERED = 16


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A kernel, compiled for one combination of types, and the function that calls it."""

    host: HostProgram
    invoke: Callable[..., Any]


def _suits(host: HostProgram, dtypes: Mapping[str, np.dtype[Any]]) -> bool:
    """Tell whether the code was generated for arguments of these types."""
    return all(host.by_name[n].dtype == dtype for n, dtype in dtypes.items())


#: Names of Python's constants, which variables cannot have.
_CONSTANTS: Final = ("None", "True", "False", "__debug__")


class ExecutorBase:
    """Runs one entry point of a program; created by ``knl.executor(...)``.

    The first call with arguments of certain types generates and compiles code for them; later
    calls with the same types only check and launch.

    Each executor is the only instance of a class of its own. Python looks ``__call__`` up in
    the class, so the class can hold the wrapper for the argument types of the last call directly.
    Forwarding the arguments through a method would take a tenth of a launch.

    >>> import numpy as np
    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = 2*a[i]", target=lp.ExecutableCTarget())
    >>> executor = unit.executor()
    >>> isinstance(executor, ExecutorBase)
    True
    >>> event, (out,) = executor(a=np.arange(3.0))
    >>> out
    array([0., 2., 4.])
    """

    #: The arguments of every call besides the kernel's own: positional ones, then keywords.
    positional: ClassVar[tuple[str, ...]] = ()
    optional: ClassVar[tuple[str, ...]] = ()
    #: The array types that wrappers take.
    own_arrays: ClassVar[tuple[type, ...]] = (np.ndarray,)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Return a new executor, the instance of a new class."""
        own = {"__doc__": cls.__doc__, "__module__": cls.__module__}
        return super().__new__(type(cls.__name__, (cls,), own))

    def __init__(
        self,
        unit: TranslationUnit,
        entrypoint: str,
        context: Any = None,
        *,
        caches: ProcessCaches = process_caches,
        calls: Calls | None = None,
    ) -> None:
        self.t_unit = unit
        self.entrypoint = entrypoint
        self.kernel = unit[entrypoint]
        self.context = context
        self.caches = caches
        #: where launches are recorded instead of made
        self.calls = calls
        self._bundles = Bundles(self.kernel)
        arguments = self._bundles.arguments
        self._untyped = {arg.name: arg for arg in arguments if arg.dtype is None}
        self._index_names = {*size_names(self.kernel), *subscript_names(self.kernel)}
        self._generated: dict[_Key, tuple[Generated, HostProgram]] = {}
        self._entries: dict[_Key, Entry] = {}
        self._compiled: dict[str, Any] = {}
        self._lock = threading.RLock()
        self._call_with(self._choose)
        caches.in_memory.add(self)

    def _check_names(self) -> None:
        """Reject kernel arguments whose names are reserved for arguments of every call."""
        taken = {*self.positional, *self.optional, "entrypoint", *_CONSTANTS}
        for name in (arg.name for arg in self._bundles.arguments):
            if name in taken or name.startswith(PREFIX):
                self._reject(
                    f"argument '{name}' has the name of an argument of every call"
                    if name not in _CONSTANTS
                    else f"argument '{name}' has the name of a constant of Python",
                    hint=f"rename_argument(knl, '{name}', ...)",
                )

    def _call_with(self, invoke: Callable[..., Any]) -> None:
        """Make calls of this executor run *invoke*."""
        self._invoke = invoke
        if self._bundles:
            invoke = self._bundles.wrap(invoke, self._output_names)
        type(self).__call__ = staticmethod(invoke)  # type: ignore[method-assign]

    def _output_names(self) -> tuple[str, ...]:
        """Return the names of the outputs, which are the same for all types."""
        _, host = next(iter(self._generated.values()))
        return tuple(arg.name for arg in host.outputs)

    def clear(self) -> None:
        """Forget all compiled code."""
        with self._lock:
            self._generated.clear()
            self._entries.clear()
            self._compiled.clear()
            self._call_with(self._choose)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel; return ``event, outputs``.

        Sizes that follow from arrays, and arrays that are only written, may be left out.
        Raises :class:`kgen.errors.InvocationError` if an argument is missing or invalid.
        """
        return self._choose(*args, **kwargs)

    @property
    def program(self) -> TranslationUnit:
        """The program: an earlier name of ``t_unit``."""
        return self.t_unit

    def leading_arguments(self) -> tuple[Any, ...]:
        """Return fresh values for the positional arguments of a call, such as a queue."""
        return ()

    def bind(self, /, *args: Any, **kwargs: Any) -> BoundCall:
        """Check a call once, and return its launcher: see :class:`BoundCall`.

        Outputs that are not passed are allocated once. Raises the errors of a call with these
        arguments, and :class:`kgen.errors.InvocationError` if it would copy arrays to a device.
        """
        calls: Calls = []
        outputs, kept = self.recording(calls).recorded(*args, **kwargs)
        return BoundCall(self.launcher(calls, *args), outputs, kept)

    def recorded(self, /, *args: Any, **kwargs: Any) -> tuple[Mapping[str, Any], Any]:
        """Record the launches of a call; return its outputs by name, and the memory they use."""
        kept, results = self(*args, **kwargs)
        names = (arg.name for arg in next(iter(self._generated.values()))[1].outputs)
        outputs = results if isinstance(results, dict) else dict(zip(names, results, strict=True))
        return outputs, kept

    def capture(self, /, *args: Any, **kwargs: Any) -> Any:
        """Check a call once, and return its launches as a CUDA graph.

        See :class:`kgen.runtime.cuda_graphs.CudaGraph`. Raises the errors of :meth:`bind`, and
        :class:`kgen.errors.InvocationError` on other targets, which have no graphs.
        """
        self._reject(
            f"{type(self.kernel.target).__name__} has no graphs of launches",
            hint="executor.bind(...) checks a call once, and launches it many times; graphs are "
            "for knl.copy(target=kgen.PyCudaTarget())",
        )

    # -- for the backends -------------------------------------------------------------------

    def compile(self, module: Module, source: str) -> Any:
        """Compile *source*, or load it from disk; return the object that wrappers call."""
        raise NotImplementedError

    @property
    def builders(self) -> tuple[type[WrapperBuilder], type[RecordingBuilder]]:
        """The classes that build wrappers: those that launch, and those that record launches."""
        raise NotImplementedError

    def builder(self, compiled: Any) -> Callable[..., WrapperBuilder]:
        """Return the factory of wrappers for the result of :meth:`compile`."""
        launching, recording = self.builders
        if self.calls is None:
            return partial(launching, compiled)
        return partial(recording, self.calls, compiled)

    def recording(self, calls: Calls) -> Self:
        """Return an executor that records in *calls* the launches that this one would make."""
        return type(self)(
            self.t_unit, self.entrypoint, self.context, caches=self.caches, calls=calls
        )

    def launcher(self, calls: Calls, *args: Any) -> Callable[..., Any]:
        """Return a launcher of *calls*; *args* are the positional arguments that they had."""
        raise NotImplementedError

    def mark(self, *leading: Any) -> Any:
        """Record a timestamp on the device, after everything enqueued."""
        raise NotImplementedError

    def seconds_since(self, mark: Any, event: Any) -> float:
        """Wait for a call; return the time on the device from a timestamp to its end."""
        raise NotImplementedError

    def seconds_of(self, event: Any) -> float | None:
        """Return the time on the device of a finished launch, if its event has one."""
        raise NotImplementedError

    # -- code ------------------------------------------------------------------------------

    def get_code(
        self, entrypoint: str | None = None, arg_to_dtype: Mapping[str, Any] | None = None
    ) -> str:
        """Return the device code for arguments of certain types."""
        if entrypoint is not None and entrypoint != self.entrypoint:
            raise InvocationError(f"this runs '{self.entrypoint}', not '{entrypoint}'")
        given = {
            name: read_type(t, f"argument '{name}'").numpy_dtype
            for name, t in (arg_to_dtype or {}).items()
        }
        return generate_module(self.t_unit, self.entrypoint, given).device_source

    def get_highlighted_code(
        self, entrypoint: str | None = None, arg_to_dtype: Mapping[str, Any] | None = None
    ) -> str:
        """Return the device code, coloured for a terminal if the options allow it."""
        code = self.get_code(entrypoint, arg_to_dtype)
        return highlighted(code) if self.kernel.options.allow_terminal_colors else code

    # -- choice of code ------------------------------------------------------------------

    def _choose(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the call with the code for its types, which the next call will try first."""
        if self._names_positional(args, kwargs):
            args = tuple(kwargs.pop(name) for name in self.positional)
        foreign = self._foreign(kwargs)
        if foreign:
            return self._with_views(self._choose, args, kwargs, foreign)
        self._check_call(args, kwargs)
        inputs, outputs = self._types_of(kwargs)
        entry = self._prepare(kwargs, inputs, outputs)
        for name, dtype in inputs.items():
            if not entry.host.by_name[name].is_array:
                kwargs[name] = dtype.type(kwargs[name])
        return entry.invoke(*args, **kwargs)

    def _names_positional(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Tell whether a call passes its positional arguments by name, and none by position."""
        return (
            bool(self.positional)
            and not any(arg is not None for arg in args)
            and (kwargs.keys() >= {*self.positional})
        )

    def _foreign(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the views of arguments that are arrays of other libraries."""
        views: dict[str, Any] = {}
        for arg in self._bundles.arguments:
            value = given.get(arg.name)
            if type(value) in _USUAL_TYPES or isinstance(value, (*self.own_arrays, np.generic)):
                continue
            try:
                found = self._view(value, given)
            except (BufferError, RuntimeError, TypeError, ValueError) as error:
                kind = f"{type(value).__module__}.{type(value).__name__}"
                self._reject(
                    f"the memory of argument '{arg.name}', a {kind}, cannot be used: {error}",
                    hint="pass a copy of it",
                )
            if found is not None:  # a scalar may be passed as an array without axes
                views[arg.name] = found[()] if isinstance(arg, ValueArg) else found
        return views

    def _with_views(
        self,
        invoke: Callable[..., Any],
        args: tuple[Any, ...],
        given: Mapping[str, Any],
        views: Mapping[str, Any],
    ) -> Any:
        """Call *invoke* with the views of arrays of other libraries, and return these arrays."""
        event, results = invoke(*args, **{**given, **views})
        return event, self._as_passed(results, {name: given[name] for name in views})

    def _as_passed(self, results: Any, passed: Mapping[str, Any]) -> Any:
        """Return the results of a call, with the *passed* arrays of other libraries for views."""
        if isinstance(results, dict):
            return {name: passed.get(name, value) for name, value in results.items()}
        _, host = next(iter(self._generated.values()))
        names = (arg.name for arg in host.outputs)
        return tuple(passed.get(n, value) for n, value in zip(names, results, strict=True))

    def _view(self, value: Any, given: Mapping[str, Any]) -> Any:
        """Return an array of another library as a view of a type that wrappers take, or ``None``.

        *given* are all arguments of the call.
        """
        return host_array(value)

    def prepare(self, /, **arguments: Any) -> None:
        """Generate and compile the code for a call with arguments of these types, without a call.

        >>> import numpy as np
        >>> import kgen as lp
        >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "b[i] = a[i]", target=lp.ExecutableCTarget())
        >>> unit.executor().prepare(a=np.zeros(3))
        """
        arguments = {**arguments, **self._foreign(arguments)}
        self._prepare(arguments, *self._types_of(arguments))

    def _prepare(self, given: Mapping[str, Any], inputs: Dtypes, outputs: Dtypes) -> Entry:
        """Generate the code for some types, which the next call will try first."""
        with self._lock:
            try:
                entry = self._entry_for(inputs, outputs)
            except TypeInferenceFailure as failure:
                self._blame_numbers(given, failure)
                raise
            self._call_with(entry.invoke)
        return entry

    def _types_of(self, given: Mapping[str, Any]) -> tuple[Dtypes, Dtypes]:
        """Return the types of untyped inputs, and of untyped arguments that are only written.

        Loop bounds have the kernel's index type, whatever integer type the caller passes. Python
        numbers have the types that numpy gives to them.
        """
        inputs: Dtypes = {}
        outputs: Dtypes = {}
        parameters = self.kernel.all_params()
        for name, arg in self._untyped.items():
            value = given.get(name)
            dtype = getattr(value, "dtype", None)
            if dtype is None and name not in self._index_names and isinstance(value, _PYTHON):
                dtype = np.asarray(value).dtype
            if dtype is None or name in parameters:
                continue
            if dtype.hasobject and isinstance(arg, ArrayArg) and separate_axes(arg):
                continue
            if np.dtype(dtype).kind not in _KINDS:
                self._reject(
                    f"argument '{name}' is of the type {dtype}, which kernels do not support",
                    hint="pass numbers: bool, int32, float32, complex64...",
                )
            is_pure_output = isinstance(arg, ArrayArg) and arg.is_output and not arg.is_input
            (outputs if is_pure_output else inputs)[name] = np.dtype(dtype)
        return inputs, outputs

    def _entry_for(self, inputs: Dtypes, outputs: Dtypes) -> Entry:
        """Return the code for some types.

        The types of outputs usually follow from those of inputs. If they do not, or differ from
        the inferred ones, they select the code as well. So calls with and without an output
        share their code.
        """
        if outputs:
            with contextlib.suppress(TypeInferenceFailure):
                _, host = self._generate(inputs)
                if _suits(host, outputs):
                    return self._entry(inputs)
        entry = self._entry({**inputs, **outputs})
        CallChecker(entry.host).check_types({**inputs, **outputs})
        return entry

    def _relayout(self, dtypes: Dtypes, free: FreeLayout, /, *args: Any, **kwargs: Any) -> Any:
        """Run a call whose arrays have other strides or offsets, with code for any layout.

        Calls still try the code for the usual layouts first.
        """
        given = {name: value for name, value in kwargs.items() if name not in self.optional}
        with self._lock:
            checker = CallChecker(self._generate(dtypes, free)[1])
            other = checker.other_layouts(given).of_arrays(self._bundles.array_of)
            if free | other == free:
                checker.explain(given)
            entry = self._entry(dtypes, free | other)
        for name, dtype in dtypes.items():
            if not entry.host.by_name[name].is_array:
                kwargs[name] = dtype.type(kwargs[name])
        return entry.invoke(*args, **kwargs)

    def _entry(self, dtypes: Dtypes, free: FreeLayout = _USUAL) -> Entry:
        key = frozenset(dtypes.items()), free
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = self._make_entry(dtypes, free)
        return entry

    def _generate(self, dtypes: Dtypes, free: FreeLayout = _USUAL) -> tuple[Generated, HostProgram]:
        key = frozenset(dtypes.items()), free
        found = self._generated.get(key)
        if found is None:
            unit = self.t_unit.with_kernel(with_free_layout(self.kernel, free))
            of_arrays = {self._bundles.array_of.get(name, name): t for name, t in dtypes.items()}
            code = code_of(self.caches)
            generated = code.find(self.caches.disk, unit, self.entrypoint, of_arrays)
            host = generated.hosts.get(key[0])
            if host is None:
                host = HostProgram.of(
                    generated.module,
                    dtypes,
                    self.kernel.all_params(),
                    restrict=self.kernel.options.restrict,
                )
                generated.hosts[key[0]] = host
            found = self._generated[key] = (generated, host)
        return found

    def _make_entry(self, dtypes: Dtypes, free: FreeLayout) -> Entry:
        generated, host = self._generate(dtypes, free)
        module = generated.module
        source = "\n\n".join(filter(None, (module.device_source, module.host_source)))
        compiled = self._compiled.get(source)
        if compiled is None:
            edited = shown_and_edited(source, self.kernel.options, self.entrypoint)
            compiled = self._compiled[source] = self.compile(module, edited)
        options = self.kernel.options
        builder = self.builder(compiled)(
            host,
            options,
            untyped=self._untyped,
            other=self._choose,
            relayout=partial(self._relayout, dtypes, free),
            explain=partial(self._explain, host),
            recover=partial(self._recover, host),
        )
        key = type(builder), frozenset(dtypes.items())
        wrapper = generated.wrappers.get(key)
        if wrapper is None:
            wrapper = generated.wrappers[key] = builder.write()
        if wrapper.text is not None:
            write_text(options.write_wrapper, wrapper.text)
        return Entry(host=host, invoke=builder.bind(wrapper))

    # -- refusals --------------------------------------------------------------------------

    def _check_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._check_names()
        n_passed = sum(arg is not None for arg in args)
        if n_passed != len(self.positional):
            wanted = ", ".join(self.positional)
            names = ", ".join(f"{arg.name}=..." for arg in self._bundles.arguments)
            self._reject(
                f"{counted(n_passed, 'argument is', 'arguments are')} passed by position"
                + (f", not {len(self.positional)}: {wanted}" if wanted else ""),
                hint=f"pass the kernel's arguments by name: {names or 'it has none'}",
            )
        for name in self.positional:
            if name in kwargs:
                self._reject(
                    f"argument '{name}' is passed by position and by name",
                    hint=f"leave out {name}=...",
                )
        given = {n: v for n, v in kwargs.items() if v is not None and n not in self.optional}
        self.check_arguments(given)
        arguments = {arg.name: arg for arg in self._bundles.arguments}
        for name, value in given.items():
            self._check_kind(arguments[name], value)
        for name, arg in arguments.items():
            if isinstance(arg, ArrayArg) and arg.is_input and name not in given:
                self._reject_missing(arg)

    def check_arguments(self, names: Iterable[str]) -> None:
        """Reject names that are not keyword arguments of calls."""
        known = (*(arg.name for arg in self._bundles.arguments), *self.optional)
        for name in names:
            if name not in known:
                self._reject(f"there is no argument '{name}'", hint=near_names(name, known))

    def _reject_missing(self, arg: ArrayArg) -> NoReturn:
        hint = f"pass {arg.name}=..."
        if arg.is_output:
            hint += (
                "; or declare it with is_input=False, if the kernel writes all elements before "
                "it reads them"
            )
        elif arg.name not in self.kernel.get_read_variables():
            hint += ", or remove unused declarations: remove_unused_arguments(kernel)"
        self._reject(f"array argument '{arg.name}' is missing", hint=hint)

    def _explain(self, host: HostProgram, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Raise the error that explains a failed call, if its arguments are wrong.

        A call with its positional arguments by name is run.
        """
        if self._names_positional(args, kwargs):
            return self._choose(**kwargs)
        self._check_call(args, kwargs)
        CallChecker(host).check({n: v for n, v in kwargs.items() if n not in self.optional})
        return None

    def _recover(self, host: HostProgram, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Rerun a failed call if it has arrays of other libraries; else raise its error."""
        foreign = self._foreign(kwargs)
        if foreign:
            return self._with_views(self._invoke, args, kwargs, foreign)
        if not isinstance(sys.exception(), KgenError):
            self._explain(host, args, kwargs)
        raise  # noqa: PLE0704

    def _check_kind(self, arg: ArrayArg | ValueArg, value: Any) -> None:
        """Reject numbers for arrays, arrays for numbers, masked arrays and swapped byte orders."""
        reject_masked(self._reject, **{arg.name: value})
        if isinstance(arg, ArrayArg) and not hasattr(value, "strides"):
            self._reject(
                f"argument '{arg.name}' is an array, not a value of type '{type(value).__name__}'",
                hint="pass a numpy array, or an array of the device",
            )
        if isinstance(arg, ValueArg) and getattr(value, "shape", ()) != ():
            self._reject(
                f"argument '{arg.name}' is a number, not an array of shape {value.shape}",
                hint=f"pass a number, or declare an array: GlobalArg('{arg.name}', shape=...)",
            )
        dtype = getattr(value, "dtype", None)
        if isinstance(dtype, np.dtype) and not dtype.isnative:
            self._reject(
                f"argument '{arg.name}' has elements of type {dtype.str}, in foreign byte order",
                hint=f"pass {arg.name}.astype({arg.name}.dtype.newbyteorder('='))",
            )

    def _blame_numbers(self, given: Mapping[str, Any], failure: TypeInferenceFailure) -> None:
        """Reject a missing number whose type is needed by type inference."""
        for name, arg in self._untyped.items():
            number = given.get(name)
            is_blamed = isinstance(arg, ValueArg) and f"'{name}'" in str(failure)
            if is_blamed and number is None:
                constant = "; it is the constant if kernel_data lists all arguments, without '...'"
                hint = f"pass {name}=..." + constant * (name in CONSTANTS)
                self._reject(f"argument '{name}' is missing", hint=hint)

    def _reject(self, what: str, *, hint: str) -> NoReturn:
        raise InvocationError(what, kernel=self.entrypoint, hint=hint)


def remember(memo: dict[Any, Any], key: Any, make: Callable[[], Executor]) -> Executor:
    """Return the executor that *memo* has for *key*, created on first use.

    The memo belongs to a program. It keeps only the newest executors, so that unused contexts
    and devices are released.
    """
    executor: Executor | None = memo.get(key)
    if executor is None:
        executor = memo[key] = make()
        for old in list(memo)[:-N_REMEMBERED]:
            del memo[old]
    return executor


def reject_group_size(launch: Launch, limit: int) -> None:
    """Reject work-groups that are larger than the device allows."""
    if math.prod(launch.locals) > limit:
        raise CodegenError(
            f"work-groups of {math.prod(launch.locals)} work-items {launch.locals} are too "
            "large for the device",
            kernel=launch.function,
            because=f"it runs at most {limit} work-items of this kernel in a group",
            hint="split the loops that have the tags l.0, l.1, l.2 into smaller pieces",
        )
