"""Kernels by name: ``FILE.py:NAME`` and ``module:NAME``."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NoReturn, TypeAlias

import click

from kgen.errors import KgenError
from kgen.exporters.requests import variants_by_name
from kgen.host.variants import Variant
from kgen.ir.unit import TranslationUnit
from kgen.runtime.schedules import DeviceSchedules
from kgen.tuning.tune import HasSpace

__all__ = ["Program", "load_program", "load_tunable", "load_variants"]

#: The object that a name refers to.
Program: TypeAlias = TranslationUnit | DeviceSchedules
#: Arguments of kgen.tune that a file may have as variables.
_TUNED_BY = ("tune_params", "restrictions", "sizes", "types", "arguments", "reference")


def load_program(name: str) -> Program:
    """Return the program that ``FILE.py:NAME`` or ``module:NAME`` refers to.

    NAME is a program, a table of schedules, or a function without parameters that returns one. It
    can import from the folder of the file, or, for a module, from the current folder.

    Raises :class:`KgenError` if there is no such program, or if the user's code fails.
    """
    found: Program = _Named.load(name).value_of(TranslationUnit, DeviceSchedules)
    return found


def load_variants(name: str) -> dict[str, tuple[Variant, ...]]:
    """Return the variants of each function to export for a name, by the names of functions.

    NAME may also be a list of variants of one function of that name, or a dict of such lists.

    Raises :class:`KgenError` as :func:`load_program` does.
    """
    named = _Named.load(name)
    found = named.value_of(TranslationUnit, DeviceSchedules, Variant, list, tuple, dict)
    if isinstance(found, list | tuple):
        found = {named.attribute: found}
    return dict(variants_by_name(found))


def load_tunable(name: str, params: Iterable[str]) -> tuple[Any, dict[str, Any]]:
    """Return the object to tune for a name, and the arguments of ``kgen.tune`` in its file.

    The object is a function that builds kernels, a pair of a kernel and a function, a space, or a
    program. The arguments are attributes of the function, or variables of the file, with the names
    that they have in ``kgen.tune``.

    :arg params: parameters of the function whose values are given elsewhere

    Raises :class:`KgenError` as :func:`load_program` does, and for a function whose parameters have
    no values.
    """
    named = _Named.load(name)
    given = {key: found for key in _TUNED_BY if (found := named.variable(key)) is not None}
    if _is_builder(named.value, {*given.get("tune_params", ()), *params}):
        return named.value, given
    if inspect.isfunction(named.value) and not _is_maker(named.value):
        first = next(iter(inspect.signature(named.value).parameters))
        raise KgenError(
            f"the parameters of '{named.attribute}' in {named.place} have no values to choose from",
            hint=f"tune_params = {{'{first}': [16, 32]}} in the file, or --param {first}=16,32",
        )
    return named.value_of(TranslationUnit, DeviceSchedules, HasSpace, tuple), given


def _is_builder(value: Any, params: Collection[str]) -> bool:
    """Tell whether *value* is a function with some parameters, or of any parameters."""
    if not (params and inspect.isfunction(value)):
        return False
    own = inspect.signature(value).parameters
    return not own.keys().isdisjoint(params) or any(p.kind is p.VAR_KEYWORD for p in own.values())


@dataclass(frozen=True)
class _Named:
    """The variable of a module that a name refers to."""

    name: str
    module: ModuleType
    place: str
    attribute: str

    @classmethod
    def load(cls, name: str) -> _Named:
        place, colon, attribute = name.rpartition(":")
        if not (colon and place and attribute):
            raise click.BadParameter(
                f"'{name}' is not the name of a kernel: write FILE.py:NAME or module:NAME",
                param_hint="KERNEL",
            )
        module = _load_file(Path(place)) if _is_file(place) else _load_module(place)
        return cls(name, module, place, attribute)

    @property
    def value(self) -> Any:
        return vars(self.module).get(self.attribute)

    def variable(self, name: str) -> Any:
        """Return an attribute of the function that is named, or else a variable of the module."""
        own = vars(self.value).get(name) if inspect.isfunction(self.value) else None
        return vars(self.module).get(name) if own is None else own

    def value_of(self, *kinds: type) -> Any:
        """Return the value, if it has one of the types *kinds*, or that of a function call."""
        value, place = self.value, self.place
        if isinstance(value, kinds):
            return value
        if value is None:
            raise KgenError(f"there is no '{self.attribute}' in {place}", hint=self._known)
        if not _is_maker(value):
            raise KgenError(
                f"'{self.attribute}' in {place} is neither a program nor a function without "
                f"parameters that returns one: it is of type {type(value).__name__}",
                hint=self._known,
            )
        made = _run(value, place, self.name)
        if not isinstance(made, kinds):
            raise KgenError(
                f"the function '{self.attribute}' in {place} returns a value of type "
                f"{type(made).__name__}, not a program",
                hint=self._known,
            )
        return made

    @property
    def _known(self) -> str:
        """The names in the module that can be used, similar ones first."""
        params = vars(self.module).get("tune_params", ())
        found = [
            (key, value)
            for key, value in vars(self.module).items()
            if not key.startswith("_")
            and (
                isinstance(value, TranslationUnit | DeviceSchedules)
                or (
                    (_is_maker(value) or _is_builder(value, params))
                    and value.__module__ == self.module.__name__
                )
            )
        ]
        if not found:
            return "there is no program in it, and no function without parameters"
        found.sort(key=lambda item: -SequenceMatcher(None, self.attribute, item[0]).ratio())
        texts = [f"'{key}'" + (" (a function)" * inspect.isfunction(value)) for key, value in found]
        return f"there is {', '.join(texts)}"


def _is_file(place: str) -> bool:
    return place.endswith(".py") or "/" in place or os.sep in place


def _is_maker(value: Any) -> bool:
    """Tell whether *value* is a function that can be called without arguments."""
    return inspect.isfunction(value) and all(
        parameter.default is not parameter.empty
        or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        for parameter in inspect.signature(value).parameters.values()
    )


class _SourceLoader(SourceFileLoader):
    """Compiles the file as it is now.

    Python's compiled files are also used for a text of the same length that was written in the same
    second.
    """

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise KgenError(
            f"there is no file '{path}'", hint="write FILE.py:NAME, relative to the current folder"
        )
    # Not the stem, which another module may have.
    name = str(path.resolve())
    loader = _SourceLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    _import_from(path.resolve().parent)
    _run(lambda: loader.exec_module(module), str(path), str(path))
    return module


def _load_module(name: str) -> ModuleType:
    _import_from(Path.cwd())
    try:
        found = importlib.util.find_spec(name)
    except (ModuleNotFoundError, ValueError):
        found = None
    if found is None:
        raise KgenError(f"there is no module '{name}'", hint="for a file, write FILE.py:NAME")
    module: ModuleType = _run(lambda: importlib.import_module(name), found.origin or "", name)
    return module


def _import_from(folder: Path) -> None:
    if not sys.flags.safe_path and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _run(function: Callable[[], Any], file: str, what: str) -> Any:
    """Call a user's function; errors name the line of the user's file that they come from."""
    try:
        return function()
    except (Exception, SystemExit) as error:
        context = click.get_current_context(silent=True)
        if context is not None and context.find_root().params.get("traceback"):
            raise
        _reject(error, file, what)


def _reject(error: BaseException, file: str, what: str) -> NoReturn:
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).resolve() == Path(file).resolve()
    ]
    if isinstance(error, SyntaxError) and error.filename is not None:
        file, lines = error.filename, [error.lineno]
    kind = "" if isinstance(error, KgenError) else f"{type(error).__name__}: "
    raise KgenError(
        f"{what} fails: {kind}{error}",
        where=f"{file}, line {lines[-1]}" if lines else None,
    ) from error
