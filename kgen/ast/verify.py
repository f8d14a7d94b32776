"""Verification of the code tree: no barrier in divergent control flow."""

from __future__ import annotations

from kgen.ast.nodes import DeviceFunction, For, If, Let, Node
from kgen.errors import CodegenError
from kgen.ir.expr import Expr, LocalHardwareAxisIndex, to_text, variable_names, walk
from kgen.ir.tree import Barrier, children_of, has_barrier


def differs_in_group(expr: Expr) -> bool:
    """Tell whether *expr* reads the index of the work-item."""
    return any(isinstance(node, LocalHardwareAxisIndex) for node in walk(expr))


def verify_barriers(function: DeviceFunction) -> DeviceFunction:
    """Return *function* if all work-items of a group meet the same barriers.

    A barrier below a condition or a loop bound that differs between work-items is an error
    of the scheduler; generated code would hang.
    """
    if has_barrier(function.body):
        _visit(function, function.body, None, frozenset())
    return function


def _visit(
    function: DeviceFunction, node: Node, divergent: str | None, unequal: frozenset[str]
) -> None:
    """Check *node* and its children; values of *unequal* names differ between work-items."""

    def differs(*exprs: Expr) -> bool:
        named = unequal.intersection(variable_names(*exprs))
        return bool(named) or any(map(differs_in_group, exprs))

    match node:
        case Barrier() if divergent is not None:
            raise CodegenError(
                f"a barrier ({node.reason}) stands below '{divergent}', which is not the "
                "same for all work-items of a group",
                kernel=function.name,
                hint="move the barrier out of the condition, or use a bound that is uniform",
            )
        case If() if node.reads_data or differs(node.condition):
            divergent = divergent or f"if {to_text(node.condition)}"
        case For() if differs(node.first, node.stop):
            divergent = divergent or f"for {node.iname} < {to_text(node.stop)}"
            unequal = unequal | {node.iname}
        case Let() if differs(node.value):
            unequal = unequal | {node.name}
    for child in children_of(node):
        if has_barrier(child):
            _visit(function, child, divergent, unequal)
