"""Whether two kernels compute the same from the same, as far as that can be proved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kgen.analysis.dataflow import Flow, UndecidedError, flows_of
from kgen.analysis.points import example
from kgen.errors import KernelError, KgenError, message
from kgen.ir.checked import checked
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.domain import Set
from kgen.ir.sets.effort import STEP, answer
from kgen.ir.sets.names import SetName
from kgen.ir.unit import TranslationUnit
from kgen.transforms.expressions.rules import expand_subst
from kgen.verification import Finding, Report, Status, verify

__all__ = ["verify_equivalent"]


@checked
def verify_equivalent(
    ref: TranslationUnit | LoopKernel, knl: TranslationUnit | LoopKernel
) -> Report:
    """Compare two kernels: each element of a result comes from the same elements in the same way.

    For the elements of each written argument, isl compares what they are computed from, with
    temporaries replaced by what was assigned to them. That decides it where transformations
    split, join, reorder, tag, rename, or fetch into temporaries, under the assumptions of
    both. Violated is a difference, with an element. Unknown, with the reason, is what
    depends on data, on the order of writes to one element, or was written in another way.
    The report has what :func:`verify` finds to be violated in *knl*, too; that evaluates both
    kernels for some sizes, and proves what is unknown else where these are all.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]",
    ...     [lp.GlobalArg("a", "float32", shape="n"), "..."])
    >>> print(lp.verify_equivalent(knl, lp.split_iname(knl, "i", 16)))
    kernel 'kgen_kernel'
    check      status  instruction  array  point
    ---------  ------  -----------  -----  -----
    instances  proved               out
    """
    before, now = _kernel_of(ref), _kernel_of(knl)
    one, other = (expand_subst(kernel) for kernel in (before, now))
    findings = answer(lambda: list(_compare(one, other)), STEP)
    if findings is None:
        text = "isl needs too long to compare the instances"
        findings = [Finding(check="instances", status=Status.UNKNOWN, message=text)]
    report = verify(now.copy(origin=before.copy(origin=None)))
    is_same = any(f.check == "origin" and f.status is Status.PROVED for f in report.findings)
    return Report(
        other.name,
        tuple(
            replace(f, status=Status.PROVED, message=f"{f.message}; all results are the same")
            if is_same and f.status is Status.UNKNOWN
            else f
            for f in findings
        )
        + report.violated,
    )


def _kernel_of(unit: TranslationUnit | LoopKernel) -> LoopKernel:
    return unit.default_entrypoint if isinstance(unit, TranslationUnit) else unit


def _compare(ref: LoopKernel, knl: LoopKernel) -> Iterator[Finding]:
    try:
        flows = [_by_array(kernel) for kernel in (ref, knl)]
    except UndecidedError as err:
        yield Finding(check="instances", status=Status.UNKNOWN, message=str(err))
        return
    context = ref.assumptions.intersect(knl.assumptions)
    for name in dict.fromkeys((*flows[0], *flows[1])):
        reason = _why_unknown(ref, name, flows[0].get(name, ()), flows[1].get(name, ()))
        if reason is not None:
            yield _finding(Status.UNKNOWN, name, reason)
            continue
        yield _same_relation(knl, name, context, flows[0][name], flows[1][name])


def _by_array(kernel: LoopKernel) -> dict[str, tuple[Flow, ...]]:
    found: dict[str, list[Flow]] = {}
    for flow in flows_of(kernel):
        found.setdefault(flow.array, []).append(flow)
    return {name: tuple(some) for name, some in found.items()}


def _why_unknown(
    kernel: LoopKernel, name: str, mine: tuple[Flow, ...], theirs: tuple[Flow, ...]
) -> str | None:
    if len(mine) != 1 or len(theirs) != 1:
        return f"{len(mine)} and {len(theirs)} instructions write '{name}'"
    if any(read in kernel.writers for read in _arrays_in(mine[0])):
        return f"'{name}' comes from an array that is written: the order is not compared"
    if mine[0].text != theirs[0].text:
        return f"'{name}' is '{mine[0].text}' in one, and '{theirs[0].text}' in the other"
    if not (mine[0].is_exact and theirs[0].is_exact):
        return f"instances that compute '{name}' cannot be told apart by what they read"
    return None


def _arrays_in(flow: Flow) -> list[str]:
    """Return the arrays that a flow reads."""
    return [part.split()[-1].split("(")[-1] for part in flow.text.split("[]")[:-1]]


def _same_relation(
    knl: LoopKernel, name: str, context: Set, mine: tuple[Flow, ...], theirs: tuple[Flow, ...]
) -> Finding:
    one, other = (some[0].relation.intersect_params(context) for some in (mine, theirs))
    for verb, difference in (
        ("is not computed", one.subtract(other)),
        ("is computed, and was not", other.subtract(one)),
    ):
        if difference.is_empty():
            continue
        point = example(difference)
        element = [value for key, value in sorted(point.items()) if SetName.ELEMENT.names(key)]
        values = [value for key, value in point.items() if SetName.VALUE.names(key)]
        sizes = {key: v for key, v in point.items() if not key.startswith(".")}
        shown = ", ".join(f"{key} = {value}" for key, value in sizes.items())
        where = f"{name}[{', '.join(map(str, element))}]"
        error: KgenError = KernelError(
            message(
                f"an instance of '{name} = {mine[0].text}' {verb}",
                kernel=knl.name,
                point=f"{shown}: {where} from subscripts {', '.join(map(str, values))}",
                hint="undo the last transformations one by one, and compare again",
            )
        )
        return Finding(
            check="instances",
            status=Status.VIOLATED,
            message=str(error),
            array=name,
            point=f"{shown}: {where}",
            error=error,
        )
    return _finding(Status.PROVED, name, f"'{name}' is computed from the same")


def _finding(status: Status, array: str, text: str) -> Finding:
    return Finding(check="instances", status=status, message=text, array=array)
