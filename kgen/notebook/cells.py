"""Cells of notebooks as kernels: domains first, then instructions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kgen.errors import KgenError, KgenSyntaxError, near_names
from kgen.frontend import make_kernel
from kgen.ir.target import TargetBase
from kgen.ir.unit import TranslationUnit
from kgen.targets.c import CTarget, ExecutableCTarget
from kgen.targets.cuda import CudaTarget, PyCudaTarget
from kgen.targets.ispc.target import ISPCTarget
from kgen.targets.opencl import OpenCLTarget, PyOpenCLTarget
from kgen.transforms.programs.params import assume
from kgen.transforms.storage.declarations import add_dtypes, set_options

__all__ = ["TARGETS", "divide", "kernel_of_cell"]

#: The targets, by name; the last four only generate code.
TARGETS: Mapping[str, type[TargetBase]] = {
    "c": ExecutableCTarget,
    "pyopencl": PyOpenCLTarget,
    "pycuda": PyCudaTarget,
    "opencl": OpenCLTarget,
    "cuda": CudaTarget,
    "ispc": ISPCTarget,
    "c-code": CTarget,
}

#: The start of a domain, as opposed to a sub-array, ``[i]: y[i] = f(...)``.
_DOMAIN: Final = re.compile(r"(?:\[[^\]]*\]\s*->\s*)?\{")
#: A line that starts with a domain and its loops; options of an instruction also have braces.
_LATE: Final = re.compile(rf"^\s*{_DOMAIN.pattern}\s*\[.*", re.MULTILINE)


def divide(cell: str) -> tuple[list[str], str]:
    r"""Return the domains at the beginning of a cell, and the instructions below.

    A domain begins with a brace or with the brackets of its parameters, and may span lines.

    >>> divide("{ [i]:\n    0 <= i < n }\n[n] -> { [j]: 0 <= j < n }\na[i, j] = 1")
    (['{ [i]:\n    0 <= i < n }', '[n] -> { [j]: 0 <= j < n }'], 'a[i, j] = 1')
    """
    domains = []
    rest = without_remarks(cell)
    while _DOMAIN.match(rest):
        end = rest.find("}")
        if end < 0:
            raise KgenSyntaxError("the domain at the beginning of the cell is never closed")
        domains.append(rest[: end + 1])
        rest = without_remarks(rest[end + 1 :])
    if late := _LATE.search(rest):
        raise KgenSyntaxError(
            f"a domain is below instructions: '{late[0].strip()}'\n"
            "  hint: a cell begins with its domains; rules and instructions come after them"
        )
    return domains, rest


def without_remarks(text: str) -> str:
    """Strip empty lines and comments at the start, and whitespace at the end."""
    lines = text.rstrip().split("\n")
    while lines and (not lines[0].strip() or lines[0].lstrip().startswith("#")):
        del lines[0]
    return "\n".join(lines)


def kernel_of_cell(
    cell: str,
    name: str,
    *,
    target: str = "c",
    types: Sequence[str] = (),
    assumptions: Sequence[str] = (),
    options: Sequence[str] = (),
    is_sequential: bool = False,
) -> TranslationUnit:
    r"""Make the kernel of a cell.

    *types* and *options* are ``name=value``: types of arguments, fields of :class:`Options`.
    With *is_sequential*, instructions run in the order of the text.

    >>> knl = kernel_of_cell("{ [i]: 0<=i<4 }\nb[i] = 2*a[i]", "twice", types=["a=float32"])
    >>> print(knl["twice"].arg_dict["a"].dtype)
    np:dtype('float32')
    """
    if target not in TARGETS:
        raise KgenError(f"there is no target '{target}'", hint=near_names(target, TARGETS))
    domains, instructions = divide(cell)
    knl = make_kernel(
        domains or "{ : }",
        instructions,
        name=name,
        target=TARGETS[target](),
        seq_dependencies=is_sequential,
    )
    for text in assumptions:
        knl = assume(knl, text)
    knl = set_options(knl, **{key: value_of(value) for key, value in map(pair, options)})
    given = dict(map(pair, types))
    return add_dtypes(knl, given) if given else knl


def pair(text: str) -> tuple[str, str]:
    """Return the two sides of ``name=value``."""
    name, sign, value = text.partition("=")
    if not sign:
        raise KgenError(f"'{text}' has no '='", hint="write name=value, as in a=float32")
    return name.strip(), value.strip()


def value_of(text: str) -> Any:
    """Return the value of an option: a truth value, a number, a text.

    >>> value_of("true"), value_of("3"), value_of("x")
    (True, 3, 'x')
    """
    known = {"true": True, "false": False, "none": None}
    if text.lower() in known:
        return known[text.lower()]
    return int(text) if text.removeprefix("-").isdigit() else text
