"""Commands whose help has examples, and the group that turns errors into messages."""

from __future__ import annotations

import errno
import re
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import click

from kgen.errors import KgenError, KgenWarning, TypeInferenceFailure, message

__all__ = ["CommandGroup", "ExampleCommand", "Failure"]

#: The hint of errors about a missing size, with its name.
_SIZES = re.compile(r"hint: tune\(\.\.\., sizes=\{'(\w+)': 1024\}\)")


class ExampleCommand(click.Command):
    """A command whose help ends with *examples*, which are command lines."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples after the options and commands."""
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{example}\n")


class Failure(click.ClickException):
    """The end of a command with exit code 1, and a message on stderr."""

    exit_code = 1

    def show(self, file: Any = None) -> None:
        """Print the message unchanged: it describes what is wrong, and where."""
        click.echo(self.format_message(), file=file, err=file is None)


class CommandGroup(ExampleCommand, click.Group):
    """Commands whose errors are printed as messages, without a traceback.

    The message of an error that is not a :class:`KgenError` starts with its type. With
    ``--traceback``, errors are raised.
    """

    command_class = ExampleCommand
    group_class = type  # groups in a group are of this class as well

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command in the arguments."""
        with warnings.catch_warnings():
            warnings.showwarning = partial(_show_warning, warnings.showwarning)
            try:
                return super().invoke(ctx)
            except (click.ClickException, click.exceptions.Exit, click.Abort):
                raise
            except Exception as error:
                is_closed_pipe = isinstance(error, OSError) and error.errno == errno.EPIPE
                if is_closed_pipe or ctx.find_root().params.get("traceback"):
                    raise
                raise Failure(_text_of(error)) from None


def _text_of(error: Exception) -> str:
    """Return the message for an error."""
    if isinstance(error, TypeInferenceFailure) and "hint: add_dtypes(" in str(error):
        return f"{error}; on the command line: --type NAME=float32"
    if isinstance(error, KgenError):
        return _SIZES.sub(r"\g<0>; on the command line: --set \g<1>=1024", str(error))
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    hint = "kgen --traceback ... shows where this comes from"
    return message(f"{type(error).__name__}: {error}", hint=hint)


def _show_warning(
    usual: Callable[..., None],
    message: Warning | str,
    category: type[Warning],
    filename: str,
    *place: Any,
) -> None:
    """Print a warning of kgen without the line of kgen's code that issues it."""
    if issubclass(category, KgenWarning):
        click.echo(f"warning: {message}", err=True)
    else:
        usual(message, category, filename, *place)
