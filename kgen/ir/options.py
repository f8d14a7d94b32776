"""User options for the code and the calls of a kernel."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from kgen.errors import KgenError, near_names
from kgen.ir.checked import unfit


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of a kernel, changed with ``set_options(kernel, name=value)``.

    * ``return_dict``: a call returns its outputs as a dict by name
    * ``no_numpy``: refuse numpy arrays on devices (no hidden transfers); device arrays only
    * ``cl_exec_manage_array_events``: wait for and record events of device arrays
    * ``write_code``, ``write_wrapper``: print the generated code / the Python that calls it
    * ``edit_code``: path of a file that replaces the generated code, for experiments
    * ``build_options``: list of flags for the compiler
    * ``skip_arg_checks``: trust the caller; no checks of dtypes and shapes in calls
    * ``trace_assignments``, ``trace_assignment_values``: print from within the kernel
    * ``annotate_inames``: a comment at the start of each loop
    * ``enforce_variable_access_ordered``: refuse unordered accesses; ``"no_check"`` skips
    * ``enforce_array_accesses_within_bounds``: refuse out-of-bounds; ``"no_check"`` skips
    * ``guard_accesses``: look at subscripts that cannot be proved while the kernel runs; a call
      with a stray one raises ``KgenIndexError``
    * ``fill_value``: the value of the elements that a kernel leaves unwritten in outputs that a
      call allocates; a number, such as ``nan``
    * ``check_dep_resolution``: refuse ``dep=name`` that matches no instruction, else ignore it
    * ``insert_gbarriers``: put in missing global barriers instead of refusing
    * ``disable_global_barriers``, ``allow_fp_reordering``: for programs that pass them. A
      ``... gbarrier`` always ends a launch, and sums are reordered by transformations alone
    * ``restrict``: promise the compiler that array arguments do not overlap
    * ``allow_terminal_colors``: colour printed code, where Pygments is installed (the extra
      ``color``)

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
    restrict: bool = True

    def __post_init__(self) -> None:
        for option in dataclasses.fields(self):
            value = getattr(self, option.name)
            if option.type == "bool":
                is_switch = isinstance(value, int | np.bool_) and value in (False, True)
                if not is_switch:
                    raise unfit(f"option '{option.name}'", "True or False", value)
                object.__setattr__(self, option.name, bool(value))
            elif option.name.startswith("enforce_") and not isinstance(value, int | str):
                raise unfit(f"option '{option.name}'", "True, False or 'no_check'", value)
        flags: Any = self.build_options
        flags = tuple(flags.split()) if isinstance(flags, str) else flags
        if not isinstance(flags, list | tuple) or not all(isinstance(f, str) for f in flags):
            raise unfit("option 'build_options'", "text, or a list of texts", flags)
        object.__setattr__(self, "build_options", tuple(flags))

    def copy(self, **changes: Any) -> Options:
        """Return this with some settings changed; refuses a name that does not exist."""
        known = {field.name for field in dataclasses.fields(self)}
        settings: dict[str, Any] = {}
        for name, value in changes.items():
            name = _OLD_NAMES.get(name, name)
            if name not in known:
                raise KgenError(f"there is no option '{name}'\n  hint: {near_names(name, known)}")
            other = settings.setdefault(name, value)
            if other is not value and other != value:
                raise KgenError(f"the option '{name}' is given two values, by two of its names")
        return dataclasses.replace(self, **settings)


#: Documented earlier spellings.
_OLD_NAMES = {
    "write_cl": "write_code",
    "edit_cl": "edit_code",
    "highlight_cl": "allow_terminal_colors",
    "highlight_code": "allow_terminal_colors",
    "cl_build_options": "build_options",
}


_SWITCHES = {"0": False, "False": False, "false": False, "1": True, "True": True, "true": True}


def make_options(given: Any, base: Options | None = None) -> Options:
    """Read options from ``None``, an :class:`Options`, a dict, or text ``"a,b,c=0,d=file.c"``.

    What is not given has the value that it has in *base*.
    """
    base = base or Options()
    if given is None:
        return base
    if isinstance(given, Options):
        return given
    if isinstance(given, dict):
        return base.copy(**{str(name): value for name, value in given.items()})
    if isinstance(given, str):
        settings: dict[str, Any] = {}
        value: Any
        for item in filter(None, (part.strip() for part in given.split(","))):
            name, has_value, value = item.partition("=")
            text = value.strip() if has_value else "1"
            value = _SWITCHES.get(text, text)
            if settings.setdefault(name.strip(), value) != value:
                raise KgenError(f"the option '{name.strip()}' is given two values in '{given}'")
        return base.copy(**settings)
    raise KgenError(f"options are an Options, a dict or text, not {type(given).__name__}")
