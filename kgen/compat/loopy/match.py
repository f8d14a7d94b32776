"""loopy.match: the language of matches, as classes."""

from kgen.ir.language.match import *
