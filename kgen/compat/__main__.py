"""Run a program in which ``import loopy`` means kgen: ``python -m kgen.compat PROGRAM [ARGS]``.

``python -m kgen.compat -m MODULE [ARGS]`` runs a module, such as pytest.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import NoReturn

from kgen.compat import install

_USAGE = (
    "usage: python -m kgen.compat PROGRAM [ARGS]\n       python -m kgen.compat -m MODULE [ARGS]"
)


def main(arguments: Sequence[str]) -> None:
    """Run the program that the arguments of the command line name, as Python itself would."""
    is_module = arguments[:1] == ["-m"]
    program, *rest = arguments[is_module:] or [""]
    if not program or (program.startswith("-") and not is_module):
        sys.exit(_USAGE)
    install()
    sys.argv[:] = [program, *rest]
    try:
        if is_module:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            if not sys.flags.safe_path:
                sys.path[0] = os.path.dirname(os.path.abspath(program))
            runpy.run_path(program, run_name="__main__")
    except Exception as error:
        _report(error)


def _report(error: Exception) -> NoReturn:
    """Print an error as Python does: from the program's own lines on."""
    place: TracebackType | None = error.__traceback__
    while place is not None and _is_of_runner(place):
        place = place.tb_next
    sys.excepthook(type(error), error.with_traceback(place), place)
    sys.exit(1)


def _is_of_runner(place: TracebackType) -> bool:
    name = place.tb_frame.f_code.co_filename
    return name == __file__ or name == runpy.__file__ or name == "<frozen runpy>"


if __name__ == "__main__":
    main(sys.argv[1:])
