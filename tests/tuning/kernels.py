"""Kernels that tests tune, also in programs of their own, which need no test framework."""

from __future__ import annotations

import os
import signal

import kgen as lp
from kgen.targets.c import CCompiler


def twice(target: lp.TargetBase | None = None) -> lp.TranslationUnit:
    """Return a kernel whose type follows from its argument."""
    return lp.make_kernel(
        "{ [i]: 0<=i<n }",
        "out[i] = 2*a[i] {id=set}",
        [lp.GlobalArg("a, out", shape="n"), ...],
        target=target or lp.ExecutableCTarget(),
        name="twice",
        assumptions="n >= 1",
    )


def by_block(block: int) -> lp.TranslationUnit:
    return lp.split_iname(twice(), "i", block)


def in_groups(block: int) -> lp.TranslationUnit:
    knl = twice(lp.PyOpenCLTarget())
    return lp.split_iname(knl, "i", block, outer_tag="g.0", inner_tag="l.0")


def _with_code(code: str) -> lp.TranslationUnit:
    """Return the kernel with a line of C behind it, of which nothing can be proved."""
    knl = twice().default_entrypoint
    extra = lp.CInstruction((), code, assignees="out[0]", depends_on=frozenset(["set"]), id="extra")
    return twice().with_kernel(knl.copy(instructions=[*knl.instructions, extra]))


def with_fault(fault: str, compiler: str = "") -> lp.TranslationUnit:
    """Return the kernel with something wrong in it, or around it."""
    if fault == "writes outside":
        return _with_code("out[-3] = 1;")
    if fault == "never ends":
        return _with_code("extern int usleep(unsigned); for (;;) usleep(100000);")
    if fault == "kills":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "is wrong":
        return _with_code("out[5] = 1;")
    if fault == "is refused":
        return lp.split_iname(twice(), "j", 4)
    if fault == "crashes":
        return _with_code("*(volatile int *) 16 = 1;")
    if fault == "compiler crashes":
        return twice().copy(target=lp.ExecutableCTarget(CCompiler(cc=compiler)))
    return twice()
