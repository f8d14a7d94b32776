"""The report of a kernel: everything that kgen knows about it, as one HTML file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from constantdict import constantdict

from kgen.draw.graphs import schedule
from kgen.draw.picture import Picture
from kgen.draw.roofs import Roof
from kgen.errors import KgenError, writing
from kgen.host.program import HostProgram
from kgen.html import page, table
from kgen.ir.checked import checked
from kgen.ir.data import ArrayArg, ValueArg
from kgen.ir.kernel import LoopKernel
from kgen.ir.optional import load
from kgen.ir.target import TargetBase
from kgen.ir.types import NumpyType, auto
from kgen.ir.unit import CallableKernel, TranslationUnit
from kgen.lowering import generate_module
from kgen.notebook.kernels import code_html, kernel_html, lines_or_reason, linked
from kgen.performance.bench import Timing, bench
from kgen.performance.explain import explain
from kgen.performance.model import Roofline, roofline
from kgen.performance.timing import in_units
from kgen.runtime.refusals import CallChecker
from kgen.statistics.descriptors import MemAccess, Op, Sync
from kgen.statistics.memory import get_mem_access_map
from kgen.statistics.ops import get_op_map
from kgen.statistics.sync import get_synchronization_map
from kgen.targets.c import CTarget
from kgen.targets.cuda import CudaTarget
from kgen.targets.opencl import OpenCLTarget
from kgen.transforms.programs.inline import inlined_kernel
from kgen.transforms.storage.declarations import add_dtypes
from kgen.verification import verify

__all__ = ["KernelReport", "report"]

#: The languages of a report, in addition to that of the kernel's own target.
_TARGETS: Mapping[str, Callable[[], TargetBase]] = {
    "C": CTarget,
    "OpenCL": OpenCLTarget,
    "CUDA": CudaTarget,
}


@dataclass(frozen=True)
class KernelReport:
    """A self-contained HTML page; ``str()`` is its text, and notebooks display it.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<4 }", "a[i] = 2*i", target=lp.CTarget())
    >>> lp.report(knl).html.startswith("<!DOCTYPE html>")
    True
    """

    kernel_name: str
    html: str

    def __str__(self) -> str:
        return self.html

    def _repr_html_(self) -> str:
        return self.html

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the page to a file."""
        with writing(file):
            Path(file).write_text(self.html, encoding="utf-8")


@checked
def report(
    program: TranslationUnit | LoopKernel,
    arguments: Mapping[str, Any] | None = None,
    file: str | os.PathLike[str] | None = None,
    *,
    device: Any = None,
    queue: Any = None,
    entrypoint: str | None = None,
) -> KernelReport:
    """Write everything that is known about a kernel on one page of HTML.

    The page has the kernel and its code, with highlighting of corresponding lines; the
    schedule; the code for other targets; the output of ``explain``; counts of operations, accesses
    and barriers; the checks of ``verify``; and, if *arguments* are given, the roofline and the
    times of calls. A part that cannot be computed is replaced by the reason.

    :arg arguments: those of a call, or only the numbers: arrays are then generated
    :arg file: where to write the page; by default nowhere, :meth:`KernelReport.save` does that
    :arg device: a :class:`Device` with the limits for the roofline; by default they are measured
    :arg queue: an OpenCL queue, for kernels that run there

    >>> import numpy as np
    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]",
    ...     [lp.GlobalArg("a", shape="n"), ...], target=lp.CTarget())
    >>> page = lp.report(knl, {"a": np.zeros(100, np.float32)})
    >>> [title for title in ("Schedule", "Counts", "Checks") if f"<h2>{title}</h2>" in page.html]
    ['Schedule', 'Counts', 'Checks']
    """
    given = dict(arguments or {})
    kernel = with_types(inlined_kernel(program, entrypoint), given)
    found = KernelReport(
        kernel.name, page(kernel.name, _Writer(kernel, given, device, queue).parts())
    )
    if file is not None:
        found.save(file)
    return found


def with_types(kernel: LoopKernel, arguments: Mapping[str, Any]) -> LoopKernel:
    """Give untyped arguments the types of the passed values."""
    dtypes = {
        arg.name: np.asarray(arguments[arg.name]).dtype
        for arg in kernel.args
        if arg.dtype in (None, auto)
        and (isinstance(arg, ArrayArg) and hasattr(arguments.get(arg.name), "dtype"))
    }
    return add_dtypes(kernel, dtypes) if dtypes else kernel


class _Writer:
    """Writes the parts of a report."""

    def __init__(
        self, kernel: LoopKernel, arguments: Mapping[str, Any], device: Any, queue: Any
    ) -> None:
        self.kernel = kernel
        table = constantdict({kernel.name: CallableKernel(kernel)})
        self.program = TranslationUnit(
            callables_table=table, entrypoints=frozenset({kernel.name}), target=kernel.target
        )
        self.arguments = arguments
        self.device = device
        self.queue = queue

    def parts(self) -> Iterator[str]:
        """Yield the headings and the contents below them."""
        yield f"<h1>{escape(self.kernel.name)}</h1>"
        yield from self._part("Kernel", self._kernel)
        yield from self._part("Schedule", self._schedule)
        yield from self._part("Code for other targets", self._codes)
        yield from self._part("How it is implemented", lambda: explain(self.kernel)._repr_html_())
        yield from self._part("Counts", self._counts)
        yield from self._part("Roofline", self._roofline)
        yield from self._part("Checks", self._checks)
        yield from self._part("Times", self._times)

    def _part(self, title: str, write: Callable[[], str]) -> Iterator[str]:
        yield f"<h2>{escape(title)}</h2>"
        try:
            yield write()
        except KgenError as err:
            yield f"<pre>{escape(str(err))}</pre>"

    def _kernel(self) -> str:
        return kernel_html(self.kernel, lines_or_reason(self.kernel))

    def _schedule(self) -> str:
        found = schedule(self.kernel)
        return f"{picture_html(found)}<pre>{escape(str(found))}</pre>"

    def _codes(self) -> str:
        """Return the code for other languages, in collapsed parts."""
        ids = [str(insn.id) for insn in self.kernel.instructions]
        parts = []
        for language, target in _TARGETS.items():
            if not isinstance(self.kernel.target, type(target())):
                code = lines_or_reason(self.kernel.copy(target=target()))
                text = (
                    f"<pre>{escape(code)}</pre>" if isinstance(code, str) else code_html(code, ids)
                )
                parts.append(f"<details><summary>{language}</summary>\n{text}\n</details>")
        return linked("\n".join(parts), ids)

    def _counts(self) -> str:
        """Return the numbers of operations, accesses and barriers, for all sizes."""
        maps = (
            get_op_map(self.kernel, subgroup_size="guess"),
            get_mem_access_map(self.kernel, subgroup_size="guess"),
            get_synchronization_map(self.kernel),
        )
        rows = ((*_cells(key), str(count)) for found in maps for key, count in found.items())
        return table(("what", "type", "counted for each", "how often"), rows)

    def _roofline(self) -> str:
        if not self.arguments:
            return "<p>The roofline needs the arguments of a call.</p>"
        device = self.device if self.device is not None else self.queue
        found: Roofline = roofline(self.program, self._sizes(), device)
        with suppress(KgenError):  # it is said below why there are no times
            found = replace(found, measured_s=self._timing.median_s)
        return f"{picture_html(Roof(rooflines=(found,)))}<pre>{escape(str(found))}</pre>"

    def _sizes(self) -> dict[str, int]:
        """Return the sizes that follow from the arguments."""
        module = generate_module(self.kernel)
        host = HostProgram.of(module, (), self.kernel.all_params())
        passed = {info.name for info in module.arguments}
        given = {name: value for name, value in self.arguments.items() if name in passed}
        needed = {arg.name for arg in self.kernel.args if isinstance(arg, ValueArg)}
        if needed <= given.keys():
            return {name: int(given[name]) for name in needed}
        sizes = CallChecker(host).check(given)
        return {name: int(size) for name, size in sizes.items()}

    def _checks(self) -> str:
        found = verify(self.kernel)
        rows = (
            (f.check, f.status.value, f.instruction or "", f.array or "", f.message)
            for f in found.findings
        )
        return table(("check", "status", "instruction", "array", "message"), rows)

    @cached_property
    def _timing(self) -> Timing:
        """The times of calls."""
        return bench(self.program, self.arguments, self.queue)

    def _times(self) -> str:
        if not self.arguments:
            return "<p>Times need the arguments of a call.</p>"
        found = self._timing
        rows = [
            ("device", found.device),
            ("median", in_units(found.median_s)),
            ("rounds", ", ".join(in_units(seconds) for seconds in found.seconds)),
            ("bytes of all arrays", f"{found.bytes:,}"),
            ("part of the speed of a copy", f"{100 * found.of_copy:.0f} %"),
        ]
        return table(("what", "value"), rows)


def _cells(key: Op | MemAccess | Sync) -> tuple[str, str, str]:
    """Return the counted operation, its type, and the unit that executes it once."""
    match key:
        case Op():
            return str(key.name), _type(key.dtype), str(key.count_granularity or "")
        case MemAccess():
            what = f"{key.direction} {key.variable} ({key.mtype} memory)"
            return what, _type(key.dtype), str(key.count_granularity or "")
        case Sync():
            return str(key.kind), "", ""


def _type(dtype: object) -> str:
    return str(dtype.numpy_dtype) if isinstance(dtype, NumpyType) else ""


def picture_html(picture: Picture) -> str:
    """Return a picture as SVG, or nothing if matplotlib is not installed."""
    try:
        load("matplotlib", "plot")
        return picture.svg()
    except KgenError:
        return ""
