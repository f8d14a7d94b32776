"""Random loops of few iterations around large offsets, for index arithmetic that may overflow."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

from kgen.analysis.range import PARAM_LIMIT
from kgen.targets.module import Module
from tests.random import choices
from tests.random.choices import Draw
from tests.random.compiled import Arrays, call, keep_on_one_thread
from tests.random.program import ArrayDecl, Program

__all__ = ["OVERFLOW_FLAGS", "draw_large_program", "overflows"]

#: Sizes ``n`` and ``m``: ``m <= n <= m + SPREAD``.
SPREAD = 12
_SIZES = tuple((PARAM_LIMIT - k, PARAM_LIMIT - k - d) for k, d in ((0, 0), (0, 12), (1, 7), (5, 3)))

#: Signed overflow ends the process.
OVERFLOW_FLAGS = ("-fsanitize=signed-integer-overflow", "-fsanitize-undefined-trap-on-error")


def _outer(draw: Draw) -> tuple[str, str]:
    """Draw the bounds of ``i``, and a subscript from 0 to ``SPREAD`` that is its own."""
    factor, rest = draw(choices.integers(2, 9)), draw(choices.integers(0, 1))
    kinds = (
        ("m <= i < n", "i - m"),
        ("m <= i < n", "n - 1 - i"),
        (f"m <= i < n and i mod {factor} = {rest}", "i - m"),
        (f"m <= {factor}*i < n", f"{factor}*i - m"),
        ("-n <= i < -m", "i + n"),
        ("n - 5 <= i <= n", "i - n + 5"),
        ("0 <= i < n - m", "i"),
    )
    drawn: tuple[str, str] = draw(choices.sampled_from(kinds))
    return drawn


def _inner(draw: Draw) -> tuple[str, str]:
    """Draw the same for ``j`` inside of ``i``."""
    kinds = (
        ("i <= j < i + 3", "j - i"),
        ("i - 2 <= j <= i + 1", "j - i + 2"),
        ("0 <= j < 4", "j"),
        ("m <= j <= n", "j - m"),
        ("n - 3 <= 2*j < n", "2*j - n + 3"),
    )
    drawn: tuple[str, str] = draw(choices.sampled_from(kinds))
    return drawn


def draw_large_program(draw: Draw) -> Program:
    """Draw a kernel whose loop variables are near to the largest size that a call may pass."""
    bounds, subscript = _outer(draw)
    domains, inames, subscripts = [f"{{ [i]: {bounds} }}"], ["i"], [subscript]
    if draw(choices.booleans()):
        bounds, subscript = _inner(draw)
        domains.append(f"{{ [j]: {bounds} }}")
        inames.append("j")
        subscripts.append(subscript)
    shape = (str(SPREAD + 1),)
    product = f"{draw(choices.integers(2, 9))}*{inames[-1]}"
    bounded = (f"max(0, min({product}, {SPREAD}))", f"abs({product}) % {SPREAD}")
    of_reads = (*subscripts, *subscripts, draw(choices.sampled_from(bounded)))
    reads = [f"a[{draw(choices.sampled_from(of_reads))}]" for _ in range(2)]
    quotient = f"({inames[-1]} + {draw(choices.integers(0, 3))}) % {draw(choices.integers(2, 7))}"
    value = draw(choices.sampled_from((reads[0], " + ".join(reads), f"{reads[0]} + {quotient}")))
    test = draw(choices.sampled_from(("", "", f", if={inames[-1]} % 3 < 2", ", if=i + 4 >= n")))
    line = f"out[{', '.join(subscripts)}] = {value} {{id=s, inames={':'.join(inames)}{test}}}"
    arrays = (ArrayDecl("a", "int32", shape), ArrayDecl("out", "int32", shape * len(inames)))
    return Program(
        tuple(domains), (line,), arrays, f"0 <= m <= n <= m + {SPREAD}", ("n", "m"), sizes=_SIZES
    )


def overflows(
    library: ctypes.CDLL, module: Module, parameters: Mapping[str, int], arrays: Arrays
) -> bool:
    """Tell whether a call ends its process, a child of this one; threads are not there."""
    child = os.fork()
    if not child:
        try:
            keep_on_one_thread(library)
            call(library, module, parameters, arrays)
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] != 0
