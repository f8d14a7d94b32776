"""Index-set splitting: separate loops and instructions for the iterations in a set."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal

from kgen.analysis.owners import check_owners_kept
from kgen.errors import TransformError
from kgen.ir.checked import checked
from kgen.ir.data import ArrayArg
from kgen.ir.kernel import LoopKernel
from kgen.ir.unit import CallableKernel, TranslationUnit, kernel_of
from kgen.transforms.loops.inames import remove_unused_inames
from kgen.transforms.loops.pieces import Pieces
from kgen.transforms.select import (
    Meaning,
    Program,
    transform,
    transform_of,
)
from kgen.transforms.uses import rules_of

__all__ = ["split_domain"]


@checked
def split_domain(
    program: Program,
    subset: Any,
    *,
    within: Any = None,
    suffixes: Sequence[str] = ("interior", "boundary"),
    into: Literal["instructions", "launches", "kernels"] = "instructions",
) -> Program:
    """Give the iterations in a set their own loops and instructions: index-set splitting.

    The other iterations are divided into disjoint convex pieces, such as the four sides of a
    square, each with its own loops and instructions. Together, the pieces execute each original
    iteration once.

    :arg subset: an affine set of inames, as text or as an islpy set; it may have several
        pieces, quotients, parameters and integer arguments of the kernel, and loops around the
        split ones
    :arg within: split for the instructions that match; the others keep the old loops
    :arg suffixes: the endings of the names of copies, for iterations in *subset* and for the
        others: of loops, of instructions, and of temporaries that pieces do not share.
        The pieces of a side are numbered: ``i_boundary_0``, ``i_boundary_1``...
    :arg into: ``"instructions"`` of one launch, ``"launches"`` for either side, separated by
        global barriers, or ``"kernels"``: entry points ``<kernel>_<suffix>`` of the program, with
        the arguments of the kernel, to be called one after the other in any order

    Loops around the split ones enclose all pieces; loops inside them are copied.
    Copies have the tags, slabs and priorities of the old loops.

    ::

        for i  {0<=i<n}      split_domain(kernel,            for i_interior    {1<=i_interior<n-1}
          b[i] = 2*a[i]       "{ [i]: 1 <= i < n-1 }")  =>     b[i_interior] = 2*a[i_interior]
                                                             for i_boundary_0  {i_boundary_0=0}
                                                               b[i_boundary_0] = ...
                                                             for i_boundary_1  {i_boundary_1=n-1}
                                                               b[i_boundary_1] = ...

    Instructions get dependencies if an element is written in one piece and used in another. If
    the pieces need each other's values in both directions, there is a :class:`TransformError` that
    names two iterations; if that cannot be determined, as for ``a[b[i]]``, there is a
    warning. There are errors, too, for a set that contains all or none of the iterations, for
    instructions in some but not all of its loops, for kernels that would have to run in a certain
    order, and for pieces that would lose private values: of other work-items, or of iterations
    that share one private array.

    Source: M. Griebl, P. Feautrier, C. Lengauer, Index Set Splitting, International Journal of
    Parallel Programming 28 (2000), for the term; the pieces are those of set difference.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<n }", "b[i] = 2*a[i]", name="twice")
    >>> parts = split_domain(knl, "{ [i]: 1 <= i < n - 1 }")
    >>> for insn in parts.default_entrypoint.instructions:
    ...     print(insn)
    b[i_interior] = 2*a[i_interior]  {id=insn_interior}
    b[i_boundary_0] = 2*a[i_boundary_0]  {id=insn_boundary_0}
    b[i_boundary_1] = 2*a[i_boundary_1]  {id=insn_boundary_1}
    >>> sorted(split_domain(knl, "{ [i]: i >= 4 }", into="kernels").entrypoints)
    ['twice_boundary', 'twice_interior']
    """
    pair = _read_suffixes(suffixes)
    if into != "kernels":
        return _split_domain(program, subset, within, pair, into == "launches")
    if not isinstance(program, TranslationUnit):
        raise TransformError(
            "split_domain makes two kernels of one, which only a program can hold",
            kernel=program.name,
            hint="pass the program that make_kernel returns",
        )
    kernel = kernel_of(program)
    table = {name: item for name, item in program.callables_table.items() if name != kernel.name}
    for side in range(2):
        part = _only_side(kernel, subset, within, pair, side)
        if part.name in table:
            raise TransformError(
                f"there is a kernel '{part.name}' already", hint="pass other suffixes=..."
            )
        table[part.name] = CallableKernel(part)
    new = {f"{kernel.name}_{suffix}" for suffix in pair}
    return program.copy(callables_table=table, entrypoints=frozenset(new))


def _read_suffixes(given: Sequence[str]) -> tuple[str, str]:
    pair = () if isinstance(given, str) else tuple(given)
    if len(pair) == 2 and pair[0] != pair[1] and all(f"i_{name}".isidentifier() for name in pair):
        return pair
    raise TransformError(
        f"suffixes={given!r} must be two different suffixes of names",
        hint="suffixes=('interior', 'boundary')",
    )


@transform
def _split_domain(
    kernel: LoopKernel, subset: Any, within: Any, suffixes: tuple[str, str], in_launches: bool
) -> LoopKernel:
    split = Pieces(_without_idle_loops(kernel), subset, within, suffixes)
    result = split.with_launches() if in_launches else split.result
    loops = {new: old for piece in split.pieces for old, new in piece.inames.items()}
    check_owners_kept(split.kernel, result, loops)
    return result


@transform_of(Meaning.CHANGED)
def _only_side(
    kernel: LoopKernel, subset: Any, within: Any, suffixes: tuple[str, str], side: int
) -> LoopKernel:
    """Return one side of a split kernel as a kernel of its own."""
    split = Pieces(_without_idle_loops(kernel), subset, within, suffixes)
    split.require_free_sides()
    return _reduced(
        split.result.copy(name=f"{kernel.name}_{suffixes[side]}"),
        {insn_id for piece in split.pieces if piece.side == side for insn_id in piece.ids.values()},
    )


def _without_idle_loops(kernel: LoopKernel) -> LoopKernel:
    """Remove unused loops that are bounded by other loops; those may be renamed."""
    bounded = (n for n in kernel.inames if len(kernel.with_outer_inames(frozenset((n,)))) > 1)
    return remove_unused_inames(kernel, tuple(bounded))


def _reduced(kernel: LoopKernel, ids: Collection[str]) -> LoopKernel:
    """Restrict a kernel to the instructions *ids*, and the declarations that they use."""
    kept = [
        insn.copy(
            depends_on=insn.depends_on.intersection(ids),
            no_sync_with=frozenset(pair for pair in insn.no_sync_with if pair[0] in ids),
        )
        for insn in kernel.instructions
        if insn.id in ids
    ]
    rules = rules_of(kernel.substitutions, kept)
    kernel = remove_unused_inames(
        kernel.copy(
            instructions=kept, substitutions={name: kernel.substitutions[name] for name in rules}
        )
    )
    used = frozenset().union(
        kernel.bounding_names,
        *(insn.dependency_names() for insn in kept),
        *(kernel.substitutions[name].free_names for name in rules),
    )
    return kernel.copy(
        temporary_variables={
            name: one for name, one in kernel.temporary_variables.items() if name in used
        },
        args=tuple(
            arg.copy(is_input=True)
            if isinstance(arg, ArrayArg) and arg.name in kernel.writers
            else arg
            for arg in kernel.args
        ),
    )
