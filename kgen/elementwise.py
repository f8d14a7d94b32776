"""Elementwise operations from snippets of C, called like pyopencl's and pycuda's."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any

import numpy as np

from kgen.errors import InvocationError
from kgen.frontend import make_kernel
from kgen.ir.target import TargetBase
from kgen.ir.unit import TranslationUnit
from kgen.ready import schedules
from kgen.ready.arguments import context_first, read_arguments, reject_given
from kgen.ready.c_text import parse_preamble, with_macros
from kgen.ready.indices import Indices
from kgen.ready.passed import read_call
from kgen.ready.places import Place
from kgen.ready.shortcut import shortcut_for
from kgen.ready.snippet import Signature, call_options, fit, plain_arrays
from kgen.ready.statements import read_statements
from kgen.ready.tuned import Tunable, defaults_of

__all__ = ["ElementwiseKernel"]


class ElementwiseKernel(Tunable):
    """An operation on each element of some arrays, written in C.

    :arg context: optional, a pyopencl context; the arrays of a call determine where it runs
    :arg arguments: an argument list in C, ``"float a, float *x"``, or a list of pyopencl's or
        pycuda's ``VectorArg`` and ``ScalarArg``
    :arg operation: statements in C. ``i`` is the index, ``n`` the number of elements;
        ``PYOPENCL_ELWISE_CONTINUE`` skips the rest for an element
    :arg name: the name of the kernel
    :arg options: flags for the compiler
    :arg preamble: functions and macros in C that *operation* uses; they are inlined
    :arg loop_prep: statements before *operation*
    :arg schedule: parameters of the schedule, such as ``{"group_size": 128}``, see :meth:`build`
    :arg wisdom: records of :meth:`tune`, or their file, from which calls choose the schedule
    :arg keep: an argument of pycuda that must be false: there are no files to keep

    >>> import numpy as np
    >>> axpy = ElementwiseKernel("float a, float *x, float *y", "y[i] = a*x[i] + y[i]")
    >>> x, y = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    >>> axpy(2, x, y)
    >>> y
    array([1., 3., 5., 7.], dtype=float32)

    Values have the types and conversions of C. Operations that access only elements ``x[i]``
    also accept arrays of several axes and any strides. Raises :class:`kgen.errors.KgenError` for C
    that kgen does not support, with a suggestion what to write instead.
    """

    @context_first
    def __init__(
        self,
        context: Any,
        arguments: Any,
        operation: str,
        name: str = "elwise_kernel",
        options: Any = None,
        *,
        preamble: str = "",
        loop_prep: str = "",
        schedule: Mapping[str, Any] | None = None,
        wisdom: Any = None,
        keep: bool = False,
    ) -> None:
        reject_given(name, "print(generate_code_v2(knl.build(target)).device_code())", keep=keep)
        self.context = context
        self.name = name
        self.options = options
        self.schedule = dict(schedule or {})
        preamble, operation = with_macros(preamble, f"{loop_prep} {operation}")
        known = parse_preamble(preamble, operation, str(arguments))
        self.signature = Signature(name, read_arguments(arguments, known.types), known)
        self._operation = operation
        self._plain = plain_arrays(
            self.signature, lambda scope: read_statements(operation, "operation", scope, ["i"])
        )
        self._begin(wisdom, self.signature.arguments, preamble, operation)

    def build(
        self,
        target: TargetBase,
        *,
        rank: int = 1,
        step: int | None = None,
        restrict: bool = True,
        index_dtype: Any = np.int32,
        is_gpu: bool = True,
        **schedule: Any,
    ) -> TranslationUnit:
        """Return the kernel with its schedule, for arrays of *rank* axes.

        :arg step: the step of a range of indices from ``start``; ``None`` for all indices
        :arg restrict: no two arguments are the same array
        :arg is_gpu: for a GPU, with ``group_size`` work-items that each have ``items`` elements;
            else for a host, whose threads take ``chunk`` elements at a time
        :arg schedule: these parameters, to search for better ones

        >>> import kgen as lp
        >>> twice = ElementwiseKernel("float *x", "x[i] = 2*x[i]")
        >>> print(lp.generate_body(twice.build(lp.CudaTarget(), group_size=128, items=1)))
          if (128 * gid(x) + lid(x) < n)
            x[128 * gid(x) + lid(x)] = 2.0f * x[128 * gid(x) + lid(x)];
        """
        indices = Indices(self.signature.size, rank, step)
        scope = self.signature.scope(indices)
        taken = {*indices.inames, *indices.parameters}
        program = read_statements(self._operation, "operation", scope, indices.inames, taken)
        knl = make_kernel(
            [indices.domain, *program.domains],
            program.instructions,
            [*self.signature.declare(indices, self._plain, index_dtype)],
            temporary_variables=program.temporaries,
            seq_dependencies=True,
            name=self.name,
            target=target,
            index_dtype=index_dtype,
            assumptions=indices.assume(index_dtype),
            options={"restrict": restrict, "build_options": self.options or ()},
            preambles=self.signature.preambles(target),
            silenced_warnings=[
                f"write_race({name})" for name in program.scattered(indices.element)
            ],
        )
        settings = {**self.schedule, **schedule}
        return schedules.elementwise(knl, indices.inames, is_gpu=is_gpu, **settings)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Run the operation on the elements of arrays, all of them or those of a range.

        :arg args: the arguments in their order: arrays of numpy, pyopencl, pycuda and other
            libraries, and numbers
        :arg range: the indices, as a :class:`slice` of first, last and step
        :arg slice: the indices relative to the first array: ``slice(-3, None)``
        :arg queue, wait_for: an OpenCL queue other than that of the arrays, and events to wait for
        :arg stream: of CUDA

        Returns the event of OpenCL; ``None`` on the host and on CUDA.
        """
        done = self._like_before(args, options)
        return self._call(args, **options) if done is None else done[0]

    def _call(
        self,
        args: tuple[Any, ...],
        *,
        range: builtins.slice | None = None,
        slice: builtins.slice | None = None,
        queue: Any = None,
        wait_for: Any = None,
        stream: Any = None,
        capture_as: Any = None,
    ) -> Any:
        if capture_as is not None:
            raise InvocationError("capture_as is not supported", kernel=self.name)
        given, place, _ = read_call(self.signature, args, queue, stream)
        elements = fit(self.signature, self._plain, given, range, slice)
        index_dtype = place.index_dtype(elements.size)
        options = {
            "rank": elements.indices.rank,
            "step": elements.indices.step,
            "restrict": elements.restrict,
            "index_dtype": index_dtype,
        }
        more = call_options(wait_for=wait_for, stream=stream)
        event, _ = self._launch(place, options, elements.arguments, more)
        if elements.is_plain and not self.wisdom.records:
            executor = self._executor(place, "build", options)
            self._shortcut = shortcut_for(
                place,
                executor,
                self.signature,
                elements.arguments,
                place.sizes_of(index_dtype),
                again=self._again,
            )
        return event

    def _defaults(self, place: Place, options: Mapping[str, Any]) -> dict[str, int]:
        rows = ["rows"] if options["rank"] > 1 else []
        names = ["group_size", "items", *rows] if place.is_gpu else rows or ["chunk"]
        return defaults_of(schedules.elementwise, *names)
