"""Persistent groups in CUDA C++: a loop in which a group of a launch runs groups of the kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import cgen
import pymbolic.primitives as p
from pymbolic.mapper.stringifier import PREC_UNARY

from kgen.ast.nodes import DeviceFunction, Node, Persistent
from kgen.ast.persistent import HALF
from kgen.ir.expr import Expr, is_constant
from kgen.targets.definitions import constant
from kgen.targets.writers.expressions import ExpressionWriter
from kgen.targets.writers.look_back import (
    GROUP_NUMBERS,
    declare_look_backs,
    draw_ticket,
    numbers_of,
    ticket_of,
)
from kgen.targets.writers.site import EmissionSite

__all__ = ["groups_of_launch", "persistent_groups"]

#: The most groups of a launch whose groups are persistent: more than any device runs at a time.
_MOST: Final = 2048


def groups_of_launch(function: DeviceFunction) -> tuple[Expr, ...]:
    """Return the number of groups of a launch along each axis.

    The groups that a device does not run at first find none left to run.
    """
    if not isinstance(function.body, Persistent):
        return function.groups
    count = _product(function.groups)
    if is_constant(count):
        return (min(count, _MOST),)
    return (p.Min((count, _MOST)),)


def _product(sizes: Sequence[Expr]) -> Expr:
    return sizes[0] if len(sizes) == 1 else p.Product(tuple(sizes))


def persistent_groups(
    writer: ExpressionWriter,
    function: DeviceFunction,
    node: Persistent,
    array: str,
    emit: Callable[[Node, EmissionSite], list[cgen.Generable]],
) -> list[cgen.Generable]:
    """Write the loop of a persistent group; the first row of an *array* counts the groups.

    If there are not more groups than in the launch, each runs one, and draws no second number.
    """
    count = writer.integers.text(_product(node.groups))
    drawn = f"kgen_turn == 0 || gridDim.x < kgen_count ? {ticket_of(array)} : kgen_count"
    site = writer.site.inside(HALF, 0, 2)
    numbered = site._replace(indices=site.indices._replace(group=GROUP_NUMBERS))
    sizes = [writer.integers.text(size, PREC_UNARY) for size in node.groups]

    def of_group(number: str, body: Node) -> cgen.Generable:
        return cgen.Block([*numbers_of(number, sizes), *emit(body, numbered)])

    turn = [
        constant("int", HALF, "kgen_turn % 2"),
        *draw_ticket(writer, function.locals, f"kgen_tickets[{HALF}]", drawn),
        constant("unsigned int", "kgen_next", f"kgen_tickets[{HALF}]"),
        cgen.If(cgen.Line("kgen_next < kgen_count"), of_group("kgen_next", node.begin)),
    ]
    last = []
    if node.end is not None:
        last.append(cgen.Initializer(cgen.Value("unsigned int", "kgen_last"), "0"))
        turn.append(cgen.If(cgen.Line("kgen_turn > 0"), of_group("kgen_last", node.end)))
    turn.append(cgen.If(cgen.Line("kgen_next >= kgen_count"), cgen.Statement("break")))
    if node.end is not None:
        turn.append(cgen.Assign("kgen_last", "kgen_next"))
    if node.keep is not None:
        turn += emit(node.keep, site)
    return [
        *declare_look_backs(writer, function),
        cgen.Value("__shared__ unsigned int", "kgen_tickets[2]"),
        constant("unsigned int", "kgen_count", count),
        *last,
        cgen.For(
            cgen.Line("int kgen_turn = 0"), cgen.Line(), cgen.Line("++kgen_turn"), cgen.Block(turn)
        ),
    ]
