"""loopy.check: checks of kernels, which kgen makes during code generation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kgen.compat.renamed import refuser
from kgen.ir.kernel import LoopKernel
from kgen.lowering import prepare

__all__ = ["pre_schedule_checks"]

__getattr__ = refuser("generate_code_v2 makes all checks, and reports violations")


def pre_schedule_checks(
    kernel: LoopKernel, callables_table: Mapping[str, Any] | None = None
) -> None:
    """Raise an error for what is wrong with a kernel whatever its order: types, bounds, names.

    Functions and kernels that it calls are its own, whatever *callables_table* has.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<9 }", "out[i] = a[i+1]", [lp.GlobalArg("a", "f4", shape=9), ...])
    >>> pre_schedule_checks(unit.default_entrypoint)
    Traceback (most recent call last):
        ...
    kgen.errors.KgenIndexError: in kernel 'kgen_kernel': 'a[i + 1]' is outside of array 'a'...
    """
    prepare(kernel)
