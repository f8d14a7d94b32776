"""One problem of a tune, as data that is sent to other processes."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import cloudpickle
import numpy as np

from kgen.errors import KgenError, near_names
from kgen.ir.target import TargetBase
from kgen.ir.unit import TranslationUnit
from kgen.performance.device import Device
from kgen.runtime.cache import content_key
from kgen.runtime.generated import own_identity
from kgen.transforms.programs.inline import inlined_kernel
from kgen.transforms.storage.declarations import add_dtypes

__all__ = [
    "Builder",
    "Problem",
    "Reference",
    "Task",
    "Transformed",
    "as_builder",
    "load_task",
    "named_in",
]

#: The folder of kgen, whose modules are not a user's.
_OWN = (str(Path(__file__).parents[1]),)
#: Makes a transformed kernel of a configuration, or a kernel and a function of it.
Builder: TypeAlias = Callable[..., Any]
#: The reference of results: a kernel, or a function of the arguments of a call.
Reference: TypeAlias = TranslationUnit | Callable[..., Any]


@dataclass(frozen=True)
class Problem:
    """Sizes, and other numbers, of one call; and the types of arguments that have none.

    >>> print(Problem({"n": 1024}, {"a": "float32"}))
    n=1024, a: float32
    """

    sizes: Mapping[str, Any] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        numbers = [f"{name}={value}" for name, value in self.sizes.items()]
        return ", ".join([*numbers, *(f"{name}: {t}" for name, t in self.types.items())])


@dataclass(frozen=True)
class Transformed:
    """A builder that transforms one kernel: ``function(kernel, **configuration)``."""

    kernel: TranslationUnit
    function: Callable[..., TranslationUnit]

    def __call__(self, **configuration: Any) -> TranslationUnit:
        return self.function(self.kernel, **configuration)


def as_builder(build: Any) -> Builder:
    """Return the builder of kernels: *build*, or one from a pair of a kernel and a function."""
    if (
        isinstance(build, tuple | list)
        and len(build) == 2
        and isinstance(build[0], TranslationUnit)
    ):
        return Transformed(build[0], build[1])
    if isinstance(build, TranslationUnit):
        raise KgenError(
            "a kernel has no parameters to tune",
            hint="tune((kernel, function), tune_params), where function(kernel, **configuration) "
            "transforms it; or tune(auto_space(kernel))",
        )
    if not callable(build):
        raise KgenError(
            f"tune needs a function that makes a kernel of a configuration, not {build!r}",
            hint="build(**configuration), or a pair: (kernel, function(kernel, **configuration))",
        )
    return build  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class Task:
    """The common settings by which the kernels of one problem are built, verified and measured."""

    build: Builder
    problem: Problem = field(default_factory=Problem)
    arguments: Mapping[str, Any] | Callable[..., Mapping[str, Any]] | None = None
    reference: Reference | None = None
    #: the kernel to which all kernels must be equivalent
    written: TranslationUnit | None = None
    #: the target of all kernels, if not their own; and the one whose devices they run on
    target: TargetBase | None = None
    opening: TargetBase | None = None
    #: the limits of the device, for lower bounds of times
    limits: Device | None = None
    is_verified: bool = True
    is_checked: bool = True
    tolerance: float | None = None
    flushes_caches: bool = False
    metrics: tuple[str, ...] = ("time",)

    def kernel(self, configuration: Mapping[str, Any]) -> TranslationUnit:
        """Return the kernel of a configuration."""
        return self._build_kernel(configuration)[0]

    def kernel_as_written(self, configuration: Mapping[str, Any]) -> TranslationUnit:
        """Return the reference of all kernels: the user's, or the kernel before transformations.

        That is the kernel of a pair, or the one that the user wrote.
        """
        if isinstance(self.reference, TranslationUnit):
            return self.typed(self.reference)
        made, written = self._build_kernel(configuration)
        return written or _as_written(made)

    def _build_kernel(self, configuration: Mapping[str, Any]) -> tuple[TranslationUnit, Any]:
        """Return the kernel of a configuration, and its source kernel, if known."""
        made = self.build(**{**self._accepted(), **configuration})
        written = self.build.kernel if isinstance(self.build, Transformed) else None
        if isinstance(made, tuple) and len(made) == 2:
            written, function = made
            made = function(written)
        if not isinstance(made, TranslationUnit):
            raise KgenError(
                f"build returned {made!r}, not a kernel",
                hint="return a transformed kernel, or a kernel and a function of it",
            )
        return self.typed(made), None if written is None else self.typed(written)

    def given_arguments(self) -> dict[str, Any]:
        """Return the user's arguments."""
        if not callable(self.arguments):
            return dict(self.arguments or {})
        try:
            found = self.arguments(**named_in(self.arguments, self.problem.sizes))
        except Exception as error:
            raise KgenError(f"arguments= raises {type(error).__name__}: {error}") from error
        if not isinstance(found, Mapping):
            raise KgenError(
                f"arguments= returned {found!r}, not a dict",
                hint="return the arrays of a call by name, such as {'a': a}",
            )
        return dict(found)

    def _accepted(self) -> dict[str, Any]:
        """Return the sizes and types that the builder has parameters for."""
        return named_in(self._function, {**self.problem.types, **self.problem.sizes})

    def typed(self, unit: TranslationUnit) -> TranslationUnit:
        """Return a kernel for the target, and for the types of the problem."""
        if self.target is not None:
            unit = unit.copy(target=self.target)
        if not self.problem.types and self.arguments is None:
            return unit
        untyped = {a.name for k in unit.kernels() for a in k.args if a.dtype is None}
        known = {**self._types_given, **self.problem.types}
        return add_dtypes(unit, {name: t for name, t in known.items() if name in untyped})

    def check_problem(self, unit: TranslationUnit) -> None:
        """Reject sizes and types of names that nothing has, and types that a kernel contradicts.

        *unit* is the kernel as written. Sizes and types may also be parameters of functions.
        """
        functions = (self._function, self.arguments, self.reference)
        args = {arg.name: arg for one in unit.kernels() for arg in one.args}
        given = {**self.problem.sizes, **self.problem.types}
        for function in functions:
            if callable(function) and not isinstance(function, TranslationUnit):
                taken = named_in(function, given)
                given = {name: value for name, value in given.items() if name not in taken}
        for name, value in given.items():
            if name not in args and not any(name in one.all_params() for one in unit.kernels()):
                raise KgenError(
                    f"sizes= or types= has '{name}', which is no argument of kernel or build",
                    kernel=unit.default_entrypoint.name,
                    hint=near_names(name, args),
                )
            dtype = getattr(args.get(name), "dtype", None)
            declared = value if dtype is None else dtype.numpy_dtype.name
            if name in self.problem.types and declared != value:
                raise KgenError(
                    f"types= has {value} for '{name}', which is declared as {declared}",
                    kernel=unit.default_entrypoint.name,
                    hint="leave the type out, or declare the argument without one",
                )

    @property
    def _function(self) -> Callable[..., Any]:
        return self.build.function if isinstance(self.build, Transformed) else self.build

    @functools.cached_property
    def _types_given(self) -> dict[str, np.dtype[Any]]:
        """The types of the user's arguments, except sizes."""
        given = self.given_arguments()
        return {n: np.asarray(v).dtype for n, v in given.items() if not isinstance(v, int)}

    @functools.cached_property
    def digest(self) -> str:
        """The digest of what determines kernels besides a configuration, as far as known."""
        with _sent_by_value(self.build):
            return content_key(own_identity(), str(self.problem), _content(self.build))

    def dumps(self) -> bytes:
        """Return this as bytes, for :func:`load_task`."""
        try:
            with _sent_by_value(self.build, self.reference, self.arguments):
                found: bytes = cloudpickle.dumps(self)
        except Exception:  # something in the user's module has no value that can be sent
            found = self._by_name()
        return found

    def _by_name(self) -> bytes:
        try:
            found: bytes = cloudpickle.dumps(self)
        except Exception as error:
            raise KgenError(
                "the kernels cannot be built in another process",
                because=f"the function that builds them cannot be sent there: {error}",
                hint="build, arguments and reference may not hold queues, contexts or open files",
            ) from None
        return found


@functools.lru_cache(maxsize=8)
def load_task(content: bytes) -> Task:
    """Return the task that another process of this program has sent."""
    found: Task = cloudpickle.loads(content)
    return found


def named_in(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values for which a function has parameters, by name."""
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in values.items() if name in parameters}


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Writes kernels as their digests, and sets in an order: the same in every process."""

    def persistent_id(self, value: Any) -> str | None:
        if isinstance(value, TranslationUnit):
            return value.code_digest()
        return repr(sorted(map(repr, value))) if isinstance(value, set | frozenset) else None


def _content(build: Builder) -> bytes:
    """Return the content of a builder: its code, and the objects that the code refers to."""
    file = io.BytesIO()
    try:
        _Pickler(file).dump(build)
    except Exception:  # objects that cannot be pickled by value are identified by name
        return repr(getattr(build, "__qualname__", type(build))).encode()
    return file.getvalue()


_sending = threading.Lock()


@contextlib.contextmanager
def _sent_by_value(*functions: Any) -> Iterator[None]:
    """Send functions of the user's modules by value in a block, not by name.

    Other processes may not find these modules: they may be tests, programs, in a notebook.
    """
    with _sending:
        known = {_module_of(function) for function in functions} - {None}
        chosen = [m for m in known if m.__name__ not in cloudpickle.list_registry_pickle_by_value()]
        for module in chosen:
            cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            for module in chosen:
                cloudpickle.unregister_pickle_by_value(module)


def _module_of(function: Any) -> Any:
    """Return the module that defines a function, unless that is installed."""
    inner = function.function if isinstance(function, Transformed) else function
    module = inspect.getmodule(inner) if callable(inner) else None
    file = getattr(module, "__file__", None)
    if module is None or file is None or sys.modules.get(module.__name__) is not module:
        return None
    folders = (*map(sysconfig.get_path, ("purelib", "platlib", "stdlib")), *_OWN)
    return None if file.startswith(tuple(folders)) else module


def _as_written(unit: TranslationUnit) -> TranslationUnit:
    """Return a program as the user wrote it, before transformations."""
    kernel = inlined_kernel(unit)
    origin = kernel.origin or kernel
    return unit.with_kernel(origin.copy(name=kernel.name)).with_entrypoints(kernel.name)
