"""Bound calls: a call is checked once, and launched many times."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from kgen.errors import InvocationError
from kgen.runtime.pyast import call
from kgen.runtime.wrapper import WrapperBuilder

__all__ = ["BoundCall", "Calls", "RecordingBuilder"]

#: For each launch, the function that makes it, and its arguments.
Calls = list[tuple[Any, tuple[Any, ...]]]


class BoundCall:
    """The launches of a call, with its arguments: ``bound = executor.bind(a=x, out=y)``.

    ``bound()`` repeats the launches without checks, on the current contents of the arrays. On CUDA
    it takes a stream of any library, and with ``event=True`` returns an event. On OpenCL it takes a
    queue and ``wait_for``, and returns the event of the last launch.
    ``outputs`` are the written arrays, by name.

    >>> import numpy as np
    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = 2*a[i]", target=lp.ExecutableCTarget())
    >>> a = np.arange(3.0)
    >>> bound = unit.executor().bind(a=a)
    >>> a[0] = 7
    >>> bound()
    >>> bound.outputs["out"]
    array([14.,  2.,  4.])
    """

    def __init__(
        self, launch: Callable[..., Any], outputs: Mapping[str, Any], kept: Mapping[str, Any]
    ) -> None:
        self._launch = launch
        self._kept = kept  # the memory that launches use
        self.outputs = outputs

    def __call__(self, *where: Any, **more: Any) -> Any:
        """Make all launches."""
        return self._launch(*where, **more)


class RecordingBuilder(WrapperBuilder):
    """Builds wrappers that record in ``calls`` the launches that they would make."""

    def __init__(self, calls: Calls, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.calls = calls
        if self.host.faults is not None:
            raise InvocationError(
                "a bound call does not report the subscripts that guard_accesses finds",
                kernel=self.host.kernel,
                hint="set_options(knl, guard_accesses=False), or call the kernel without bind",
            )

    def make_result(self, event: ast.expr) -> ast.stmt:
        """Return all variables instead of an event, to keep the memory of temporaries alive."""
        return super().make_result(call(self.known("locals", locals)))

    def through_host(self, /, *positional: Any, **arguments: Any) -> NoReturn:
        """Reject numpy arrays, which a launch on a device would have to copy."""
        raise InvocationError(
            "a bound call has arrays of its device only",
            kernel=self.host.kernel,
            because="it launches, and copies nothing",
            hint="pass arrays of the device for all arguments, and leave out_host alone",
        )
