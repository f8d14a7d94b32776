"""Cooperative launches: several launches as one, in which work-groups wait for each other.

Source for CUDA: "CUDA C++ Programming Guide", "Cooperative Groups", "Grid Synchronization".
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import Any

import pymbolic.primitives as p

from kgen.ast.expr import conjunction
from kgen.ast.nodes import Block, DeviceFunction, If, Node, Persistent, Run, parts_of
from kgen.errors import CodegenError
from kgen.ir.expr import (
    Expr,
    GroupHardwareAxisIndex,
    LocalHardwareAxisIndex,
    is_constant,
    to_text,
    variable_names,
)
from kgen.ir.fields import replace
from kgen.ir.stages import DeviceKernel
from kgen.ir.tags import PublishTag
from kgen.ir.tree import Barrier, exprs_of, has_barrier, map_children, nodes_in
from kgen.ir.types import Memory, Reach

__all__ = ["as_one_launch"]

_GRID_BARRIER = Barrier(Memory.GLOBAL, "a global barrier", reach=Reach.DEVICE)


def as_one_launch(
    kernel: DeviceKernel,
    functions: Sequence[DeviceFunction],
    host: Node,
    host_inames: frozenset[str],
) -> DeviceFunction:
    """Return one function that runs *functions* as *host* does.

    For each launch of the host, all groups run the body of its function, and wait for each other.
    Host loops are loops of all groups. A function with fewer groups or work-items than
    the others has conditions around it.
    """
    first = functions[0]
    groups = tuple(map(_largest, zip_longest(*(f.groups for f in functions), fillvalue=1)))
    locals_ = tuple(map(max, zip_longest(*(f.locals for f in functions), fillvalue=1)))
    _check_groups(kernel, groups, host_inames)
    _check_look_backs(kernel, host_inames)
    bodies = {f.name: _guarded(kernel, f, groups, locals_) for f in functions}
    body = _without_last(_in_place(host, bodies))
    values = variable_names(*chain(*map(exprs_of, nodes_in(host))), *groups)
    arguments = {name for f in functions for name in f.arguments} | set(values)
    passed = [arg.name for arg in kernel.args if arg.name in arguments - host_inames]
    of_host = {arg.name for arg in kernel.args}
    return replace(
        first,
        body=body,
        groups=groups,
        locals=locals_,
        arguments=(*passed, *sorted(arguments - of_host - host_inames)),
        temporaries=tuple(sorted({name for f in functions for name in f.temporaries})),
        insn_ids=tuple(dict.fromkeys(name for f in functions for name in f.insn_ids)),
        is_cooperative=True,
    )


def _largest(sizes: Sequence[Expr]) -> Expr:
    """Return the largest of some sizes, which may be expressions."""
    different = tuple(dict.fromkeys(sizes))
    if all(map(is_constant, different)):
        return max(different)
    return different[0] if len(different) == 1 else p.Max(different)


def _check_groups(
    kernel: DeviceKernel, groups: Sequence[Expr], host_inames: frozenset[str]
) -> None:
    """Reject numbers of groups that change in a loop."""
    for axis, size in enumerate(groups):
        for iname in sorted(host_inames & set(variable_names(size))):
            raise CodegenError(
                f"the number of work-groups along g.{axis}, {to_text(size)}, depends on loop "
                f"'{iname}', but a cooperative launch needs the same number in all iterations",
                kernel=kernel.name,
                hint=f"give the loop on g.{axis} the same trip count in all iterations of "
                f"'{iname}' and guard its instructions, or set_options(knl, cooperative=False)",
            )


def _check_look_backs(kernel: DeviceKernel, host_inames: frozenset[str]) -> None:
    """Reject loops around publications: the words are zeroed only once, before the launch."""
    for insn in kernel.instructions if host_inames else ():
        if insn.tags_of_type(PublishTag):
            raise CodegenError(
                f"work-groups look back at values that '{insn.id}' publishes, in a launch with "
                "loops",
                kernel=kernel.name,
                where=f"instruction '{insn}'",
                because="they would read values that an earlier iteration published",
                hint="set_options(knl, cooperative=False)",
            )


def _guarded(
    kernel: DeviceKernel,
    function: DeviceFunction,
    groups: Sequence[Expr],
    locals_: Sequence[int],
) -> Node:
    """Return the body of a function, guarded for its groups and work-items."""
    of_groups = zip_longest(groups, function.groups, fillvalue=1)
    conditions: list[Any] = [
        p.Comparison(GroupHardwareAxisIndex(axis), "<", own)
        for axis, (all_of_them, own) in enumerate(of_groups)
        if own != all_of_them
    ]
    of_items = list(zip_longest(locals_, function.locals, fillvalue=1))
    waits = has_barrier(function.body) or isinstance(function.body, Persistent)
    if waits and any(own != most for most, own in of_items):
        sizes = " and ".join(str(tuple(s[k] for s in of_items)) for k in (1, 0))
        raise CodegenError(
            f"a cooperative launch has work-groups of one size, but its parts have {sizes} "
            "work-items",
            kernel=kernel.name,
            because="the smaller part has a barrier, which all work-items of a group must reach",
            hint="split the loops on l.0, l.1, l.2 into pieces of one size",
        )
    conditions += [
        p.Comparison(LocalHardwareAxisIndex(axis), "<", own)
        for axis, (most, own) in enumerate(of_items)
        if own != most
    ]
    return If(conjunction(conditions), function.body) if conditions else function.body


def _in_place(host: Node, bodies: dict[str, Node]) -> Node:
    """Return the host's tree, with the body of a function, and a barrier, for each launch."""
    if isinstance(host, Run):
        return Block((bodies[host.insn_id], _GRID_BARRIER))
    return map_children(host, lambda child: _in_place(child, bodies))


def _without_last(body: Node) -> Node:
    """Remove the barrier at the end."""
    parts = parts_of(body)
    return Block(tuple(parts[:-1])) if parts[-1] == _GRID_BARRIER else Block(tuple(parts))
