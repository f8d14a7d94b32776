"""loopy.version: the version of kgen, of its language, and of what it keeps on disk."""

from __future__ import annotations

from typing import Final

from kgen.runtime.generated import own_identity
from kgen.version import MOST_RECENT_LANGUAGE_VERSION, VERSION, VERSION_TEXT

__all__ = [
    "DATA_MODEL_VERSION",
    "FALLBACK_LANGUAGE_VERSION",
    "LANGUAGE_VERSION_SYMBOLS",
    "LOOPY_USE_LANGUAGE_VERSION_2018_1",
    "LOOPY_USE_LANGUAGE_VERSION_2018_2",
    "MOST_RECENT_LANGUAGE_VERSION",
    "VERSION",
    "VERSION_STATUS",
    "VERSION_TEXT",
]

VERSION_STATUS: Final = ""
#: Another text as soon as kgen, or what it is built on, may write other code or other pickles:
#: a part of the keys of what a program keeps on disk.
DATA_MODEL_VERSION: Final = f"{VERSION_TEXT}-{own_identity()}"

# There is one language; programs choose it by importing its name.
FALLBACK_LANGUAGE_VERSION: Final = MOST_RECENT_LANGUAGE_VERSION
LOOPY_USE_LANGUAGE_VERSION_2018_1: Final = MOST_RECENT_LANGUAGE_VERSION
LOOPY_USE_LANGUAGE_VERSION_2018_2: Final = MOST_RECENT_LANGUAGE_VERSION
LANGUAGE_VERSION_SYMBOLS: Final = [
    "LOOPY_USE_LANGUAGE_VERSION_2018_2",
    "LOOPY_USE_LANGUAGE_VERSION_2018_1",
]
