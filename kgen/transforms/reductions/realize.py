"""Lowering reductions to loops with accumulators."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from kgen.analysis.infer import infer_types
from kgen.analysis.typing import ExpressionTyper, UnknownType
from kgen.errors import TransformError, naming_place
from kgen.ir.data import is_auto
from kgen.ir.expr import Reduction, walk
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.transforms.reductions.realizer import Realizer
from kgen.transforms.reductions.scan import ScanPolicy
from kgen.transforms.reductions.scan_launches import arrange_launches, keep_parallel
from kgen.transforms.select import require_instruction, split_names, transform

__all__ = ["realize_for_code", "realize_reduction"]


@transform
def realize_reduction(
    kernel: LoopKernel,
    insn_id_filter: str | Collection[str] | None = None,
    unknown_types_ok: bool = True,
    automagic_scans_ok: bool = False,
    force_scan: bool = False,
    force_outer_iname_for_scan: str | None = None,
) -> LoopKernel:
    """Lower every reduction to a loop that updates an accumulator.

    Reductions get their own loops: copies of their inames if these are used elsewhere. Reductions
    of one instruction over the same inames share a loop, and so do ``simul_reduce`` reductions.
    Rules that depend on loops are expanded in reductions.

    :arg insn_id_filter: the ids of the instructions whose outermost reductions are realized
    :arg unknown_types_ok: accept operands whose types are not declared and cannot be inferred;
        else reject them. The accumulators of ``sum``, ``product``, ``any`` and ``all`` then have no
        type either, and get that of what is added up, or float32 for numbers of 16 bits; an
        instruction with another reduction of such operands is left to code generation
    :arg automagic_scans_ok: compute outermost reductions as scans if their range only grows along
        the enclosing loops: each step adds its values to the result of the previous step
    :arg force_scan: the same, and reject those whose range does not only grow
    :arg force_outer_iname_for_scan: the loop along which a scan runs; by default all loops
        that bound the reduction, and a loop that another scan needs inside or around one of these.
        Along ``l.N``, work-items share the work; along ``g.N``, two launches first compute the
        total of the groups before each one (``force_scan`` only). On CUDA there is one launch, in
        which groups look back at the totals of preceding groups

    ::

        for i                            for i
          c[i] = sum(k, a[i,k])            acc_k = 0           {id=insn_k_init}
        end i                              for k
                                    =>       acc_k = acc_k + a[i,k]   {id=insn_k_update}
                                           end k
                                           c[i] = acc_k        {id=insn}
                                         end i

    ::

        for i                            acc_j = 0
          c[i] = sum(j, a[j])     =>     for i
        end i         # 0 <= j <= i        acc_j = acc_j + a[i]
                                           c[i] = acc_j
                                         end i                   with force_scan=True

    Partial results are combined as follows. Work-items (``l.N``) use a tree in local memory; on
    CUDA, the lanes of a warp use none. Work-groups (``g.N``) store theirs, and a second launch
    combines them, or each adds its own to the result of an
    ``{atomic}`` update. Interleaved copies (``ilp``) have separate accumulators. All work-items
    know the result; one of them writes it to shared memory.
    Targets without work-items run such loops sequentially.

    Raises :class:`TypeInferenceFailure` for unknown types that are needed;
    :class:`TransformError` for a reduction over ``vec``, over two loops on one hardware
    axis, for one that depends on an enclosing loop on the same axis or on values that differ
    between the work-items; :class:`StaticValueFindingError` for a number of work-items that
    is not constant; :class:`ReductionIsNotTriangularError` if *force_scan* is given for a
    reduction that is not a scan.

    >>> import numpy as np
    >>> from kgen.analysis.infer import infer_types
    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i,k]: 0<=i,k<4 }", "c[i] = sum(k, a[i,k])")
    >>> typed = infer_types(knl.default_entrypoint, {"a": np.float32})
    >>> for insn in realize_reduction(typed).instructions:
    ...     print(insn)
    acc_k = 0.0  {id=insn_k_init}
    acc_k = acc_k + a[i, k]  {id=insn_k_update}
    c[i] = acc_k  {id=insn}

    >>> knl = make_kernel("{ [i,j]: 0<=j<=i<n }", "c[i] = sum(j, a[j])")
    >>> typed = infer_types(knl.default_entrypoint, {"a": np.float32})
    >>> print(realize_reduction(typed, force_scan=True).domains[-1])
    [i] -> { [j_0] : j_0 = i }
    """
    chosen = None if insn_id_filter is None else split_names(insn_id_filter)
    for insn_id in chosen or ():
        require_instruction(kernel, insn_id)
    work = [insn for insn in kernel.instructions if insn.has_reductions]
    if chosen is not None:
        work = [insn for insn in work if insn.id in chosen]
    if len(_typed(kernel, work)) < len(work):
        kernel = infer_types(kernel, complete=False)
        if unknown_types_ok:
            work = _typed(kernel, work, or_starting_alike=True)
    wishes = ScanPolicy(automagic_scans_ok, force_scan, force_outer_iname_for_scan)
    return _replace(
        kernel, work, nested=chosen is None, wishes=wishes, types_needed=not unknown_types_ok
    )


def realize_for_code(kernel: LoopKernel) -> LoopKernel:
    """Replace all reductions of a typed kernel by loops, in nests that can be generated.

    If the loop of a reduction stores what it reads, such as tiles, once for all iterations of
    enclosing loops, the reduction gets an array of accumulators, one for each of these iterations.
    """
    has_any = any(insn.has_reductions for insn in kernel.instructions)
    return _realize_for_code(kernel) if has_any else kernel


@transform
def _realize_for_code(kernel: LoopKernel) -> LoopKernel:
    work = _typed(kernel, [insn for insn in kernel.instructions if insn.has_reductions])
    return _replace(kernel, work, nested=True, wishes=ScanPolicy(), makes_arrays=True)


def _replace(
    kernel: LoopKernel,
    work: Sequence[InstructionBase],
    *,
    nested: bool,
    wishes: ScanPolicy,
    types_needed: bool = True,
    makes_arrays: bool = False,
) -> LoopKernel:
    """Replace the reductions of some instructions."""
    if not work:
        return kernel
    realizer = Realizer(
        kernel, nested=nested, wishes=wishes, types_needed=types_needed, makes_arrays=makes_arrays
    )
    replaced: dict[Any, list[InstructionBase]] = {i.id: realizer.realize(i) for i in work}
    builder = realizer.builder
    replaced |= {name: [insn] for name, insn in builder.moved.items()}
    instructions = [new for insn in kernel.instructions for new in replaced.get(insn.id, (insn,))]
    instructions = [_wait_for_all(insn, realizer.parts) for insn in instructions]
    temporaries = {**kernel.temporary_variables, **builder.temporaries}
    result = kernel.copy(
        instructions=instructions, temporary_variables=temporaries, **builder.loops.changes()
    )
    result = arrange_launches(keep_parallel(kernel, result), builder.scans)
    turned = _find_interchanged(kernel, result) if builder.loops.has_orders else None
    if turned is None:
        return result
    again = partial(
        _replace, kernel, work, nested=nested, types_needed=types_needed, makes_arrays=makes_arrays
    )
    if wishes.together is None and wishes.outer_iname is None:
        with contextlib.suppress(TransformError):
            return again(wishes=dataclasses.replace(wishes, together=turned))
    if wishes.forced:
        raise _other_order(result, *turned)
    return again(wishes=ScanPolicy())


def _find_interchanged(before: LoopKernel, after: LoopKernel) -> tuple[str, str] | None:
    """Return two loops of which the first must enclose the second, but is now inside it.

    A scan along the inner one of two loops sets its accumulator in the outer one; if that is
    the inner one of another scan, neither order suits both.
    """
    around, inside = before.iname_to_insns(), after.iname_to_insns()
    for chain in after.loop_priority:
        for outer, inner in pairwise(chain):
            was_so = outer in around and inner in around and around[outer] < around[inner]
            is_new = not was_so or chain not in before.loop_priority
            if is_new and inside[outer] < inside[inner]:
                return outer, inner
    return None


def _other_order(kernel: LoopKernel, outer: str, inner: str) -> TransformError:
    inside = kernel.iname_to_insns()
    alone = min(inside[inner] - inside[outer])
    return TransformError(
        f"one scan needs loop '{outer}' around '{inner}', and another one needs the opposite",
        where=f"instruction '{kernel.id_to_insn[alone]}'",
        because=f"it is inside '{inner}', but not inside '{outer}'",
        hint="give the instruction of one of them loops of its own: duplicate_inames(kernel, "
        f"'{outer},{inner}', within='id:...')",
    )


def _lacks_types(kernel: LoopKernel) -> bool:
    declared = (*kernel.args, *kernel.temporary_variables.values())
    return any(is_auto(variable.dtype) for variable in declared)


def _typed(
    kernel: LoopKernel, insns: list[InstructionBase], *, or_starting_alike: bool = False
) -> list[InstructionBase]:
    """Return the instructions whose reductions have operands of known types.

    Or those that also have reductions whose accumulators start with one value for all types.
    """
    if not _lacks_types(kernel):
        return insns
    typer = ExpressionTyper(kernel)
    return [insn for insn in insns if _is_typed(typer, insn, or_starting_alike)]


def _is_typed(typer: ExpressionTyper, insn: InstructionBase, or_starting_alike: bool) -> bool:
    try:
        with naming_place("instruction", insn):
            for node in walk(*insn.expressions()):
                if not isinstance(node, Reduction):
                    continue
                if not (or_starting_alike and node.operation.untyped_start is not None):
                    typer(node)
    except UnknownType:
        return False
    return True


def _wait_for_all(insn: InstructionBase, parts: dict[str, tuple[str, ...]]) -> InstructionBase:
    """Let an instruction that depends on one with several results depend on all of these."""
    if not parts or insn.depends_on.isdisjoint(parts):
        return insn
    more = {part for name in insn.depends_on & parts.keys() for part in parts[name]}
    return insn.copy(depends_on=insn.depends_on | (more - {insn.id}))
