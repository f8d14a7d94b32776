"""loopy.transform.parameter: parameters."""

from __future__ import annotations

from typing import Any

from kgen.transforms.programs.params import assume, fix_used_parameters
from kgen.transforms.select import Program

__all__ = ["assume", "fix_parameters"]


def fix_parameters(program: Program, /, *, within: Any = None, **value_dict: Any) -> Program:
    """Replace parameters by numbers, as :func:`kgen.fix_parameters` does.

    Names that no kernel has are ignored: programs pass all their sizes to each of their kernels.

    >>> from kgen.frontend import make_kernel
    >>> knl = fix_parameters(make_kernel("{ [i]: 0<=i<n }", "a[i] = 1"), n=4, m=5)
    >>> print(knl.default_entrypoint.domains[0])
    { [i] : 0 <= i <= 3 }
    """
    return fix_used_parameters(program, value_dict, within)
