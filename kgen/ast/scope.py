"""Scopes of loop variables: the code of a launch reads only those of loops around."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from kgen.ast.nodes import DeviceFunction, For, Let, Node, Run, runs_in
from kgen.errors import CodegenError
from kgen.ir.expr import variable_names
from kgen.ir.stages import DeviceKernel, PreparedKernel
from kgen.ir.tree import children_of, exprs_of
from kgen.schedule.tree import Schedule

__all__ = ["check_loops_around"]


def check_loops_around(
    whole: PreparedKernel,
    kernel: DeviceKernel,
    schedule: Schedule,
    functions: Sequence[DeviceFunction],
) -> None:
    """Reject code that reads the variable of a loop outside of the loop.

    In *whole*, host loops are loops; in *kernel*, their variables are arguments. A launch is
    passed the variables of the host loops around it only.
    """
    loops = frozenset(whole.inames)
    for function, (_, around) in zip(functions, schedule.launches_in_loops, strict=True):
        for node, name in _reads(kernel, function.body, loops, frozenset(around)):
            raise _error(kernel, function, name, node)
        for name in (*variable_names(*function.groups), *function.arguments):
            if name in loops.difference(around):
                raise _error(kernel, function, name, function.body)


def _reads(
    kernel: DeviceKernel, node: Node, loops: Set[str], around: Set[str]
) -> Iterator[tuple[Node, str]]:
    """Yield nodes that read variables of loops that are not *around* them, and the variables."""
    for name in _names_read(kernel, node, loops):
        if name in loops and name not in around:
            yield node, name
    inner = around | {node.name} if isinstance(node, For | Let) else around
    for child in children_of(node):
        yield from _reads(kernel, child, loops, inner)


def _names_read(kernel: DeviceKernel, node: Node, loops: Set[str]) -> list[str]:
    """Return the variables that a node itself reads, and the loop variables of an instruction."""
    names = list(variable_names(*exprs_of(node)))
    if isinstance(node, Run):
        insn = kernel.id_to_insn[node.insn_id]
        own = insn.reduction_inames() | insn.sub_array_ref_inames()
        names += sorted((insn.dependency_names() & loops) - own - node.values.keys())
        return [name for name in names if name not in node.over]
    return names


def _error(kernel: DeviceKernel, function: DeviceFunction, name: str, node: Node) -> CodegenError:
    insns = [kernel.id_to_insn[run.insn_id] for run in runs_in(node)]
    first = next((i for i in insns if name in i.dependency_names()), insns[0])
    return CodegenError(
        f"the code of launch '{function.name}' reads loop variable '{name}' outside of its loop",
        kernel=kernel.name,
        where=f"instruction '{first}'",
        because=f"'{first.id}' is not in loop '{name}', but its loops, conditions or subscripts "
        f"depend on '{name}'",
        hint=f"add_inames_to_insn(kernel, '{name}', 'id:{first.id}'); if '{first.id}' is in loop "
        f"'{name}' already, please report this as a bug in kgen",
    )
