"""Names that loopy has renamed: the old ones work, with a warning once."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final, ParamSpec, TypeVar

from constantdict import constantdict

from kgen.errors import KgenError

__all__ = ["NotOfferedError", "refuser", "renamed", "warn_once"]

P = ParamSpec("P")
R = TypeVar("R")

_warned: set[str] = set()
_NO_HINTS: Final[Mapping[str, str]] = constantdict()


class NotOfferedError(KgenError, AttributeError):
    """A name of loopy that kgen does not have; the text names a replacement.

    >>> from kgen.compat import loopy as lp
    >>> lp.symbolic.TypedCSE
    Traceback (most recent call last):
        ...
    kgen.compat.renamed.NotOfferedError: kgen does not provide 'TypedCSE'
      hint: use pymbolic's CommonSubexpression(TypeCast(dtype, child), prefix)
    """

    def __init__(self, name: str, hint: str) -> None:
        super().__init__(f"kgen does not provide '{name}'", hint=hint)


def refuser(hint: str, hints: Mapping[str, str] = _NO_HINTS) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a module of which kgen does not have all names.

    *hint* names a replacement for all of them, *hints* for individual names.
    """

    def refuse(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotOfferedError(name, hints.get(name, hint))

    return refuse


def warn_once(old: str, new: str) -> None:
    """Give a DeprecationWarning that *old* is now *new*, the first time in a process."""
    if old not in _warned:
        _warned.add(old)
        warnings.warn(f"'{old}' is deprecated: use '{new}'", DeprecationWarning, stacklevel=3)


def renamed(old: str, function: Callable[P, R]) -> Callable[P, R]:
    """Return *function* under its former name *old*.

    >>> def split_words(text):
    ...     return text.split()
    >>> chop = renamed("chop", split_words)
    >>> with warnings.catch_warnings(record=True) as given:
    ...     warnings.simplefilter("always")
    ...     print(chop("a b"), chop("c"), *[one.message for one in given])
    ['a', 'b'] ['c'] 'chop' is deprecated: use 'split_words'
    """
    new = function.__name__

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        warn_once(old, new)
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = old
    call.__doc__ = f"Do what ``{new}`` does, whose earlier name this is."
    return call
