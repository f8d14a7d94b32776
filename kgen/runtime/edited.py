"""Options that print code, write it to a file, or let the user edit it."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kgen.errors import InvocationError
from kgen.ir.options import Options
from kgen.runtime.highlight import highlighted

__all__ = ["shown_and_edited", "write_text"]


def shown_and_edited(source: str, options: Options, entrypoint: str) -> str:
    """Show or edit the code as the options request; return the code to compile."""
    if options.write_code:
        coloured = options.allow_terminal_colors and sys.stdout.isatty()
        to_terminal = options.write_code is True and coloured
        write_text(options.write_code, highlighted(source) if to_terminal else source)
    if options.edit_code:
        return _edited(options.edit_code, source, entrypoint)
    return source


def write_text(where: Any, text: str) -> None:
    """Print *text*, or write it to the file that an option names."""
    if where is True:
        print(text)
    else:
        with _file_of_an_option(where) as path:
            path.write_text(text + "\n", encoding="utf-8")


def _edited(where: Any, source: str, entrypoint: str) -> str:
    """Return *source* as edited in an editor or in the file *where*, created with *source*."""
    if where is True:
        return _from_editor(source, entrypoint)
    with _file_of_an_option(where) as path:
        if not path.exists():
            path.write_text(source, encoding="utf-8")
        return path.read_text(encoding="utf-8")


@contextlib.contextmanager
def _file_of_an_option(name: str) -> Iterator[Path]:
    """Yield the path of that name; errors of the operating system become errors of the call."""
    try:
        yield Path(name)
    except (OSError, UnicodeError) as err:
        raise InvocationError(
            f"the file '{name}', which an option names, can be neither written nor read",
            because=str(err),
        ) from None


def _from_editor(source: str, entrypoint: str) -> str:
    """Return *source* after the user edited it in the editor named by EDITOR."""
    command = os.environ.get("EDITOR", "")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{entrypoint}.c"
        file.write_text(source, encoding="utf-8")
        try:
            subprocess.run([*shlex.split(command), str(file)], check=True)
        except (OSError, ValueError, subprocess.CalledProcessError) as err:
            raise InvocationError(
                f"edit_code=True starts an editor, and '{command}' fails",
                kernel=entrypoint,
                because=str(err) if command else "the environment variable EDITOR is not set",
                hint="set EDITOR to a command, such as nano; or edit_code='path': the first call "
                "writes the code there, and later programs read the edited code",
            ) from None
        return file.read_text(encoding="utf-8")
