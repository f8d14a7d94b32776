"""Programs written for loopy: ``kgen.compat.loopy``, and ``import loopy`` as an alias of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Final

from kgen.compat import loopy
from kgen.errors import KgenError
from kgen.lazy import LoadedModule

__all__ = ["install", "loopy"]

_NAME: Final = "loopy"


def install() -> None:
    """Let ``import loopy`` mean :mod:`kgen.compat.loopy` from now on, in this process.

    Modules below ``loopy`` are those below ``kgen.compat.loopy``, the same objects under either
    name, so classes are the same and what is pickled under one name is read under the other. A
    second call does nothing. What other packages have imported before stays what it is: call this
    first.

    Raises :class:`KgenError` where loopy itself is loaded: its kernels would meet functions of
    kgen, which cannot work with them.

    >>> import sys
    >>> before = set(sys.modules), list(sys.meta_path)
    >>> install()
    >>> import loopy as lp
    >>> from loopy.kernel.data import GlobalArg
    >>> import kgen
    >>> lp.GlobalArg is GlobalArg is kgen.GlobalArg, lp.LoopyError is kgen.KgenError
    (True, True)
    >>> sys.meta_path[:] = before[1]
    >>> for name in set(sys.modules) - before[0]:
    ...     if name.partition(".")[0] == "loopy":
    ...         del sys.modules[name]
    """
    known = sys.modules.get(_NAME)
    if known is loopy:
        return
    if known is not None:
        raise KgenError(
            f"loopy itself is already imported, from {getattr(known, '__file__', None)}: 'import "
            "loopy' can no longer import kgen\n  hint: call kgen.compat.install() before "
            "anything imports loopy, or run the program by python -m kgen.compat PROGRAM"
        )
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    sys.modules[_NAME] = loopy


class _Finder(MetaPathFinder):
    """Find ``loopy.kernel.data`` as ``kgen.compat.loopy.kernel.data``."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_NAME + "."):
            return None
        own = f"{__name__}.{fullname}"
        if find_spec(own) is None:
            raise ModuleNotFoundError(
                f"kgen, which 'import loopy' imports here, has no module '{fullname}'; "
                "docs/porting.md lists those that it has",
                name=fullname,
            )
        return ModuleSpec(fullname, LoadedModule(own))
