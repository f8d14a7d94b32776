"""loopy: all public names of kgen, and additional names of loopy."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pytools import strtobool

from kgen import *
from kgen import __all__ as _own_names
from kgen.compat.loopy import (
    auto_test,
    check,
    codegen,
    diagnostic,
    frontend,
    isl_helpers,
    kernel,
    library,
    loop,
    match,
    options,
    preprocess,
    schedule,
    statistics,
    symbolic,
    target,
    tools,
    transform,
    translation_unit,
    type_inference,
    types,
    typing,
    version,
)
from kgen.compat.loopy.codegen.result import GeneratedProgram
from kgen.compat.loopy.diagnostic import LoopyError, LoopyWarning
from kgen.compat.loopy.frontend.fortran import (
    c_preprocess,
    parse_fortran,
    parse_transformed_fortran,
)
from kgen.compat.loopy.kernel import KernelState
from kgen.compat.loopy.kernel.creation import make_copy_kernel, make_function, make_kernel
from kgen.compat.loopy.kernel.instruction import LegacyStringInstructionTag
from kgen.compat.loopy.preprocess import preprocess_program
from kgen.compat.loopy.schedule import generate_loop_schedules
from kgen.compat.loopy.transform.data import (
    set_array_dim_names,
    set_temporary_scope,
    tag_data_axes,
)
from kgen.compat.loopy.transform.iname import set_loop_priority
from kgen.compat.loopy.transform.padding import split_arg_axis, split_array_dim
from kgen.compat.loopy.transform.parameter import fix_parameters
from kgen.compat.loopy.translation_unit import make_program
from kgen.compat.loopy.types import LoopyType, ToLoopyTypeConvertible, to_loopy_type
from kgen.compat.renamed import NotOfferedError
from kgen.errors import near_names
from kgen.frontend import set_default_target
from kgen.runtime.cache import process_caches

__all__ = [  # noqa: PLE0604
    *_own_names,
    "GeneratedProgram",
    "KernelState",
    "LegacyStringInstructionTag",
    "LoopyError",
    "LoopyType",
    "LoopyWarning",
    "ToLoopyTypeConvertible",
    "auto_test",
    "c_preprocess",
    "check",
    "codegen",
    "diagnostic",
    "fix_parameters",
    "frontend",
    "generate_loop_schedules",
    "isl_helpers",
    "kernel",
    "library",
    "loop",
    "make_copy_kernel",
    "make_function",
    "make_kernel",
    "make_program",
    "match",
    "options",
    "parse_fortran",
    "parse_transformed_fortran",
    "preprocess",
    "preprocess_program",
    "schedule",
    "set_array_dim_names",
    "set_default_target",
    "set_loop_priority",
    "set_temporary_scope",
    "split_arg_axis",
    "split_array_dim",
    "statistics",
    "symbolic",
    "tag_data_axes",
    "target",
    "to_loopy_type",
    "tools",
    "transform",
    "translation_unit",
    "type_inference",
    "types",
    "typing",
    "version",
]

if any(strtobool(os.environ.get(name), False) for name in ("LOOPY_NO_CACHE", "CG_NO_CACHE")):
    set_caching_enabled(False)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Return what can change, or say of a name what to use in its place."""
        if name == "CACHING_ENABLED":
            return process_caches.disk.enabled
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotOfferedError(name, near_names(name, __all__))
