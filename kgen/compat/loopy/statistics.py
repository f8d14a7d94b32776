"""loopy.statistics: counts of operations, accesses and barriers."""

from kgen.statistics import *
