"""The IPython magic `%%kgen`, which `%load_ext kgen` registers."""

from __future__ import annotations

import argparse
import shlex
from typing import Any, NoReturn

from kgen.errors import KgenError
from kgen.ir.unit import TranslationUnit
from kgen.notebook.cells import TARGETS, kernel_of_cell

__all__ = ["load_ipython_extension"]


def load_ipython_extension(shell: Any) -> None:
    """Register the cell magic ``%%kgen``, which turns a notebook cell into a kernel.

    ::

        %load_ext kgen

        %%kgen scale --target opencl --type a=float32
        { [i]: 0 <= i < n }
        out[i] = 2*a[i]

    The cell defines the variable ``scale`` and shows the kernel. ``%%kgen?`` lists the options.

    >>> from types import SimpleNamespace
    >>> def register(function, kind, name):
    ...     print(kind, name)
    >>> load_ipython_extension(SimpleNamespace(register_magic_function=register))
    cell kgen

    Raises :class:`KgenError` if *ipython* is not an IPython shell.
    """
    if not hasattr(shell, "register_magic_function"):
        raise KgenError(
            f"a value of type '{type(shell).__name__}' is not a shell of IPython",
            hint="write %load_ext kgen in a notebook",
        )

    def kgen(line: str, cell: str) -> TranslationUnit | None:
        given = _parser().parse_args(shlex.split(line))
        knl = kernel_of_cell(
            cell,
            given.name,
            target=given.target,
            types=given.type,
            assumptions=given.assume,
            options=given.option,
            is_sequential=given.sequential,
        )
        shell.user_ns[given.name] = knl
        return None if given.quiet else knl

    kgen.__doc__ = _parser().format_help()
    shell.register_magic_function(kgen, "cell", "kgen")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise KgenError(f"%%kgen: {message}", hint="%%kgen? lists the options")


def _parser() -> _Parser:
    """Return the parser of the magic's line."""
    parser = _Parser(
        prog="%%kgen",
        add_help=False,
        description="Make a kernel of a cell: its domains, then its instructions.",
    )
    parser.add_argument(
        "name", nargs="?", default="kgen_kernel", help="of the kernel, and of its variable"
    )
    parser.add_argument("--target", default="c", help=f"one of {', '.join(TARGETS)}; c by default")
    several: dict[str, Any] = {"action": "append", "default": []}
    parser.add_argument("--type", metavar="ARG=TYPE", help="as in a=float32", **several)
    parser.add_argument("--assume", metavar="TEXT", help="as in 'n >= 1'", **several)
    parser.add_argument("--option", metavar="NAME=VALUE", help="of lp.Options", **several)
    parser.add_argument(
        "--sequential", action="store_true", help="run instructions in the order of the text"
    )
    parser.add_argument("--quiet", action="store_true", help="show nothing")
    return parser
