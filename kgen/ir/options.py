"""User options for the code and the calls of a kernel."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kgen.errors import InvalidValueError, KgenError, near_names
from kgen.ir.checked import unfit

__all__ = ["Options", "make_options"]


class _Named(type):
    """The metaclass of :class:`Options`: accepts earlier names, rejects unknown names."""

    def __call__(cls, **settings: Any) -> Any:
        return super().__call__(**_by_current_names(settings))


@dataclass(kw_only=True, unsafe_hash=True)
class Options(metaclass=_Named):
    """Settings of a kernel, changed with ``set_options(kernel, name=value)``.

    The options of a kernel are constant. ``kernel.options.copy()`` returns options that you can
    assign to (``options.no_numpy = True``) until a kernel is made with them.

    * ``return_dict``: a call returns its outputs as a dict by name
    * ``no_numpy``: reject numpy arrays on devices (no hidden transfers); device arrays only
    * ``cl_exec_manage_array_events``: wait for and record events of device arrays
    * ``write_code``, ``write_wrapper``: print the generated code / the Python that calls it
    * ``edit_code``: path of a file that replaces the generated code, for experiments; with
      ``True``, the first call opens the code in the editor ``EDITOR``
    * ``build_options``: list of flags for the compiler
    * ``skip_arg_checks``: do not check types and shapes of arguments in calls
    * ``trace_assignments``, ``trace_assignment_values``: print from within the kernel
    * ``annotate_inames``: a comment at the start of each loop
    * ``enforce_variable_access_ordered``: reject unordered accesses; ``"no_check"`` skips
    * ``enforce_array_accesses_within_bounds``: reject out-of-bounds; ``"no_check"`` skips
    * ``guard_accesses``: check unproved subscripts at run time; a call
      with an out-of-bounds one raises ``KgenIndexError``
    * ``fill_value``: the value of the elements that a kernel leaves unwritten in outputs that a
      call allocates; a number, such as ``nan``
    * ``check_dep_resolution``: reject a ``dep=name`` that matches no instruction, else ignore it
    * ``insert_gbarriers``: insert missing global barriers instead of rejecting the kernel
    * ``disable_global_barriers``, ``allow_fp_reordering``: accepted, without effect. A
      ``... gbarrier`` always ends a launch, and only transformations reorder sums
    * ``ignore_boostable_into``: accepted, without effect; loops are chosen without such hints
    * ``cooperative``: on CUDA, a kernel with global barriers is one launch, whose work-groups wait
      for each other; without it, and on other targets, a global barrier ends a launch
    * ``restrict``: declare to the compiler that array arguments do not overlap
    * ``allow_terminal_colors``: colour printed code

    >>> Options(return_dict=True).copy(build_options="-O2 -g").build_options
    ('-O2', '-g')
    """

    annotate_inames: bool = False
    trace_assignments: bool = False
    trace_assignment_values: bool = False
    enforce_variable_access_ordered: Any = True
    enforce_array_accesses_within_bounds: Any = True
    guard_accesses: bool = False
    fill_value: Any = 0
    check_dep_resolution: bool = True
    insert_gbarriers: bool = False
    skip_arg_checks: bool = False
    no_numpy: bool = False
    cl_exec_manage_array_events: bool = True
    return_dict: bool = False
    write_wrapper: Any = False
    write_code: Any = False
    edit_code: Any = False
    build_options: tuple[str, ...] = ()
    allow_terminal_colors: bool = True
    disable_global_barriers: bool = False
    allow_fp_reordering: bool = True
    ignore_boostable_into: bool = False
    cooperative: bool = False
    restrict: bool = True

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return an option by a former name."""
            if name not in _OLD_NAMES:
                raise AttributeError(f"there is no option '{name}'", name=name, obj=self)
            return getattr(self, _OLD_NAMES[name])

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an option, unless the options belong to a kernel."""
        if "_is_held" in vars(self):
            raise KgenError(
                f"the options of a kernel are constant: '{name}' cannot be assigned to\n  hint: "
                f"kernel = set_options(kernel, {name}={value!r}), or change kernel.options.copy()"
            )
        name = _known_name(name)
        object.__setattr__(self, name, _read(name, value))

    def held(self) -> Options:
        """Return these options as constants, for a kernel."""
        if "_is_held" in vars(self):
            return self
        held = copy.copy(self)
        vars(held)["_is_held"] = True
        return held

    def copy(self, **changes: Any) -> Options:
        """Return these options with some settings changed; rejects unknown names."""
        return dataclasses.replace(self, **_by_current_names(changes))


_FIELDS: Mapping[str, Any] = {field.name: field for field in dataclasses.fields(Options)}


def _read(name: str, value: Any) -> Any:
    """Return the stored value of an option, or reject it."""
    if _FIELDS[name].type == "bool":
        if not (isinstance(value, int | np.bool_) and value in (False, True)):
            raise unfit(f"option '{name}'", "True or False", value)
        return bool(value)
    if name.startswith("enforce_") and not isinstance(value, int | str):
        raise unfit(f"option '{name}'", "True, False or 'no_check'", value)
    if name in ("write_code", "write_wrapper", "edit_code"):
        if value is None or (isinstance(value, int | np.bool_) and value in (False, True)):
            return bool(value)
        if not isinstance(value, str | os.PathLike):
            raise unfit(f"option '{name}'", "True, False or the name of a file", value)
        return os.fspath(value)
    if name == "build_options":
        flags = value.split() if isinstance(value, str) else value
        if not isinstance(flags, list | tuple) or not all(isinstance(f, str) for f in flags):
            raise unfit("option 'build_options'", "text, or a list of texts", flags)
        return tuple(flags)
    return value


def _known_name(name: str) -> str:
    """Return the current name of an option; reject one that does not exist."""
    name = _OLD_NAMES.get(name, name)
    if name not in _FIELDS:
        raise InvalidValueError(f"there is no option '{name}'", hint=near_names(name, _FIELDS))
    return name


def _by_current_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options by their current names."""
    settings: dict[str, Any] = {}
    for old, value in given.items():
        name = _known_name(old)
        other = settings.setdefault(name, value)
        if other is not value and other != value:
            raise KgenError(f"the option '{name}' is given two values, by two of its names")
    return settings


#: Documented earlier spellings.
_OLD_NAMES = {
    "write_cl": "write_code",
    "edit_cl": "edit_code",
    "highlight_cl": "allow_terminal_colors",
    "highlight_code": "allow_terminal_colors",
    "highlight_wrapper": "allow_terminal_colors",
    "cl_build_options": "build_options",
}


_DEFAULTS = Options().held()

_SWITCHES = {"0": False, "False": False, "false": False, "1": True, "True": True, "true": True}


def make_options(options_arg: Any, base: Options | None = None) -> Options:
    """Read options from ``None``, an :class:`Options`, a dict, or text ``"a,b,c=0,d=file.c"``.

    Missing options have their values in *base*.
    """
    base = base or _DEFAULTS
    if options_arg is None:
        return base
    if isinstance(options_arg, Options):
        return options_arg
    if isinstance(options_arg, dict):
        return base.copy(**{str(name): value for name, value in options_arg.items()})
    if isinstance(options_arg, str):
        settings: dict[str, Any] = {}
        value: Any
        for item in filter(None, (part.strip() for part in options_arg.split(","))):
            name, has_value, value = item.partition("=")
            text = value.strip() if has_value else "1"
            value = _SWITCHES.get(text, text)
            if settings.setdefault(name.strip(), value) != value:
                raise KgenError(
                    f"the option '{name.strip()}' is given two values in '{options_arg}'"
                )
        return base.copy(**settings)
    raise KgenError(f"options are an Options, a dict or text, not {type(options_arg).__name__}")
