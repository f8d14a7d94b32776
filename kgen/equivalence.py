"""Proving that two kernels compute the same."""

from __future__ import annotations

from kgen.ir.checked import checked
from kgen.ir.kernel import LoopKernel
from kgen.ir.unit import TranslationUnit
from kgen.transforms.programs.inline import inlined_kernel
from kgen.verification import Report, Status, verify

__all__ = ["verify_equivalent"]


@checked
def verify_equivalent(
    ref: TranslationUnit | LoopKernel, knl: TranslationUnit | LoopKernel
) -> Report:
    """Compare the results of two kernels, as :func:`verify` compares a kernel with its origin.

    *Proved* holds for all sizes and all data that the assumptions of both kernels allow; *violated*
    is a difference, with an element; *unknown* comes with the reason. The report also contains the
    violations that :func:`verify` finds in *knl*.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]",
    ...     [lp.GlobalArg("a", "float32", shape="n"), "..."])
    >>> print(lp.verify_equivalent(knl, lp.split_iname(knl, "i", 16)))
    kernel 'kgen_kernel'
    check   status  instruction  array  point
    ------  ------  -----------  -----  -----
    origin  proved
    """
    before, now = inlined_kernel(ref), inlined_kernel(knl)
    report = verify(now.copy(origin=before.copy(origin=None)))
    return Report(
        report.kernel,
        tuple(
            finding
            for finding in report.findings
            if finding.check == "origin" or finding.status is Status.VIOLATED
        ),
    )
