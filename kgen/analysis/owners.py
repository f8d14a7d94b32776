"""Which work-items own the private and local values that instructions exchange."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from kgen.analysis.address_space import infer_address_spaces
from kgen.errors import KgenError, TransformError
from kgen.ir.expr import Expr, minus, to_text
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import AxisTag, GroupInameTag
from kgen.ir.types import AddressSpace

__all__ = ["check_owners_kept"]


def check_owners_kept(before: LoopKernel, after: LoopKernel, loops: Mapping[str, str]) -> None:
    """Reject parts of loops that begin at another work-item than the whole loop.

    A loop on a hardware axis begins at index 0. If a part of it begins at a later iteration, its
    iterations run on other work-items, which do not have the private values that other
    instructions wrote for them.

    :arg loops: for each new loop, the loop of *before* that it is a part of
    """
    shifts = {
        name: minus(axis.first, before.axes[loops.get(name, name)].first)
        for name, axis in after.axes.items()
        if loops.get(name, name) in before.axes
    }
    if len(set(shifts.values())) < 2:
        return
    for name, space in _spaces(after):
        for writer in after.writers.get(name, ()):
            for reader in after.readers.get(name, ()):
                for one, other, tag in _loops_on_one_axis(after, writer, reader, shifts):
                    is_own = space != AddressSpace.LOCAL or isinstance(tag, GroupInameTag)
                    if is_own and shifts[one] != shifts[other]:
                        part = one if loops.get(one, one) != one else other
                        raise _moved(after, name, writer, reader, part, after.axes[part].first)


def _spaces(kernel: LoopKernel) -> Iterator[tuple[str, Any]]:
    """Yield the temporaries that not all work-items share, and their address spaces."""
    with contextlib.suppress(KgenError):  # which later stages report
        kernel = infer_address_spaces(kernel)
    for name, variable in kernel.temporary_variables.items():
        if variable.address_space != AddressSpace.GLOBAL:
            yield name, variable.address_space


def _loops_on_one_axis(
    kernel: LoopKernel, writer: str, reader: str, shifts: Mapping[str, Expr]
) -> Iterator[tuple[str, str, AxisTag]]:
    """Yield the loops of both instructions on each axis that has loops of both."""
    of = kernel.id_to_insn
    for one in sorted(of[writer].within_inames & shifts.keys()):
        for other in sorted(of[reader].within_inames & shifts.keys()):
            if kernel.axes[one].tag == kernel.axes[other].tag:
                yield one, other, kernel.axes[one].tag


def _moved(
    kernel: LoopKernel, name: str, writer: str, reader: str, loop: str, first: Expr
) -> TransformError:
    return TransformError(
        f"iterations of '{loop}' would run on other work-items, with other values of '{name}'",
        kernel=kernel.name,
        where=f"'{writer}' writes '{name}', and '{reader}' reads it",
        because=f"'{loop}' begins at {to_text(first)}, and work-items count from there",
        hint=f"split the domain before '{name}' is made, or move it to other memory: "
        f"set_temporary_address_space(kernel, '{name}', 'global')",
    )
