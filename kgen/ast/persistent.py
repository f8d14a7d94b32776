"""Persistent groups: few groups of a launch run all groups of a kernel that look back.

A group waits for the totals of all preceding groups before it can end its work. While it waits, it
loads nothing; if all resident groups wait, the memory is idle. Therefore each group of the launch
runs many groups of the kernel, one after the other, and publishes the total of the next one before
it waits in the current one. It also knows the total of everything up to the last group that it has
run, and waits only for the groups in between. Since groups are numbered in starting order, and each
publishes before it waits, the group with the smallest number that has not ended waits for none that
could wait for it.

K. Gupta, J. Stuart, J. Owens: A study of persistent threads style GPU programming for GPGPU
workloads, Innovative Parallel Computing 2012.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Final

import pymbolic.primitives as p

from kgen.ast.nodes import (
    Block,
    Comment,
    DeviceFunction,
    If,
    Let,
    Node,
    Persistent,
    Run,
    map_runs,
    runs_in,
)
from kgen.errors import CodegenError
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import Expr, subscript, variable_names
from kgen.ir.fields import replace
from kgen.ir.instruction import Assignment, CInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.text import parse_domain
from kgen.ir.stages import DeviceKernel, PreparedKernel
from kgen.ir.tags import LookBackTag, PublishTag
from kgen.ir.target import WARP_SIZE
from kgen.ir.tree import exprs_of, nodes_in
from kgen.ir.types import AddressSpace
from kgen.transforms.array_accesses import ArrayAccessMapper, Index, renamed
from kgen.transforms.storage.stages import Stages

__all__ = ["HALF", "KEPT", "with_persistent_groups"]

#: The variable that is 0 and 1 in turn: the half of local arrays that belongs to the next group.
HALF: Final = "kgen_half"
#: The beginning of the names of scalars that keep what the end of a group reads.
KEPT: Final = "kgen_kept_"
_HALVES: Final = parse_domain(f"{{ [{HALF}] : 0 <= {HALF} < 2 }}")


def with_persistent_groups(
    kernel: DeviceKernel,
    functions: Sequence[DeviceFunction],
    fits: Callable[[DeviceKernel, DeviceFunction], bool],
) -> tuple[DeviceKernel, tuple[DeviceFunction, ...]]:
    """Return a kernel and functions in which groups whose work-items look back together persist.

    ::

        begin(g); publish(g)            for another group n
        look_back(g); end(g)     =>       begin(n); publish(n)
                                          look_back(g); end(g)
                                          g = n

    What ``begin`` computes and ``end`` reads belongs to two groups at a time: local arrays have two
    halves, and private scalars a copy. If that is not possible, or no longer *fits* the device, a
    group ends before the next one begins.
    """
    changed = []
    for function in functions:
        own = [kernel.id_to_insn[name] for name in function.insn_ids]
        widths = {tag.width for insn in own for tag in insn.tags_of_type(LookBackTag)}
        if kernel.target.looks_back and max(widths, default=1) > 1:
            _check_warps(function, max(widths))
            kernel, function = _overlapped(kernel, function, functions, fits)
        changed.append(function)
    return kernel, tuple(changed)


def _check_warps(function: DeviceFunction, width: int) -> None:
    """Reject groups in which some warps do not look back with the others, which wait for them."""
    if width > WARP_SIZE and function.locals != (width,):
        raise CodegenError(
            f"{width} work-items look back together, in groups of {function.locals} work-items",
            kernel=function.name,
            because="work-items were added after realize_reduction",
            hint="transform the kernel before realize_reduction(..., force_scan=True)",
        )


def _overlapped(
    kernel: DeviceKernel,
    function: DeviceFunction,
    functions: Sequence[DeviceFunction],
    fits: Callable[[DeviceKernel, DeviceFunction], bool],
) -> tuple[DeviceKernel, DeviceFunction]:
    """Return a function with persistent groups, two of which overlap if that is possible."""
    alone = replace(function, body=Persistent(function.groups, function.body))
    cut = _Cut.of(kernel, function)
    if cut is None:
        return kernel, alone
    of_others = {n for other in functions if other is not function for n in other.temporaries}
    if cut.has_others(of_others):
        return kernel, alone
    both, overlapped = cut.apply()
    return (both, overlapped) if fits(both, overlapped) else (kernel, alone)


@dataclass(frozen=True)
class _Cut:
    """A function, cut before its first look-back, and the temporaries that both parts use."""

    kernel: DeviceKernel
    function: DeviceFunction
    begin: Node
    end: Node
    shared: tuple[TemporaryVariable, ...]

    @staticmethod
    def of(kernel: DeviceKernel, function: DeviceFunction) -> _Cut | None:
        """Cut a function; ``None`` if its parts cannot belong to different groups."""
        parts = _cut(kernel, function.body)
        if parts is None:
            return None
        begin, end = parts
        first, second = (_names_in(kernel, part) for part in parts)
        written = kernel.get_written_variables()
        names = [n for n in function.temporaries if n in first and n in second and n in written]
        shared = tuple(kernel.temporary_variables[name] for name in names)
        ids = [{run.insn_id for run in runs_in(part)} for part in parts]
        users = [insn for insn in kernel.instructions if not insn.mentioned.isdisjoint(names)]
        is_possible = (
            ids[0].isdisjoint(ids[1])
            and all(map(_can_have_copies, shared))
            and kernel.all_params().isdisjoint(names)
            and not any(_has_in_code(part, names) for part in parts)
            and not any(isinstance(insn, CInstruction) for insn in users)
        )
        return _Cut(kernel, function, begin, end, shared) if is_possible else None

    def has_others(self, names: Set[str]) -> bool:
        """Tell whether some temporaries of others are shared between the parts."""
        return any(one.name in names for one in self.shared)

    def apply(self) -> tuple[DeviceKernel, DeviceFunction]:
        """Return the kernel and the function with persistent groups."""
        kernel, function = self.kernel, self.function
        local = {one.name for one in self.shared if one.address_space == AddressSpace.LOCAL}
        kept = {one.name: f"{KEPT}{one.name}" for one in self.shared if one.name not in local}
        in_half = ArrayAccessMapper(kernel, dict.fromkeys(local, _in_half))
        of_last = ArrayAccessMapper(kernel, {n: _replacing(new) for n, new in kept.items()})
        ending = {run.insn_id for run in runs_in(self.end)}

        def change(insn: InstructionBase) -> InstructionBase:
            if insn.id in ending and not insn.mentioned.isdisjoint(kept):
                insn = of_last.change(insn)
            if insn.mentioned.isdisjoint(local):
                return insn
            return in_half.change(insn, within_inames=insn.within_inames | {HALF})

        keeping = [
            Assignment(
                p.Variable(new), p.Variable(name), id=f"{new}_insn", within_inames_is_final=True
            )
            for name, new in kept.items()
        ]
        variables = kernel.temporary_variables
        double = Stages(HALF, 2)
        changed = kernel.copy(
            instructions=[*map(change, kernel.instructions), *keeping],
            domains=(*kernel.domains, *(() if HALF in kernel.inames else (_HALVES,))),
            temporary_variables={
                **variables,
                **{name: double.declared(variables[name]) for name in local},
                **{new: variables[name].copy(name=new) for name, new in kept.items()},
            },
        )
        half: Expr = p.Variable(HALF)
        body = Persistent(
            function.groups,
            _in_halves(changed, self.begin, half),
            _in_halves(changed, self.end, p.Sum((1, p.Product((-1, half))))),
            Block(tuple(Run(str(insn.id), {}) for insn in keeping)) if keeping else None,
        )
        return DeviceKernel(PreparedKernel(changed)), replace(
            function,
            body=body,
            temporaries=(*function.temporaries, *kept.values()),
            insn_ids=(*function.insn_ids, *(str(insn.id) for insn in keeping)),
        )


def _can_have_copies(one: TemporaryVariable) -> bool:
    """Tell whether a temporary can belong to two groups at a time."""
    if one.base_storage is not None:
        return False
    return bool(one.address_space == AddressSpace.LOCAL or one.shape == ())


def _in_half(variable: p.Variable, index: Index) -> Expr:
    return subscript(variable, (p.Variable(HALF), *index))


def _replacing(name: str) -> Callable[[p.Variable, Index], Expr]:
    return lambda variable, index: renamed(variable, name)


def _in_halves(kernel: LoopKernel, node: Node, half: Expr) -> Node:
    """Return *node* with the half of local arrays that its instructions use."""

    def with_half(run: Run) -> Run:
        if HALF not in kernel.id_to_insn[run.insn_id].within_inames:
            return run
        return replace(run, values={**run.values, HALF: half})

    return map_runs(node, with_half)


def _has_in_code(node: Node, names: Iterable[str]) -> bool:
    """Tell whether conditions and bounds at *node* and below read some variables."""
    exprs = (expr for part in nodes_in(node) for expr in exprs_of(part))
    return not set(variable_names(*exprs)).isdisjoint(names)


def _names_in(kernel: DeviceKernel, node: Node) -> set[str]:
    """Return the variables that a node and those below read and write."""
    found: set[str] = set()
    for part in nodes_in(node):
        found.update(variable_names(*exprs_of(part)))
        if isinstance(part, Run):
            found.update(kernel.id_to_insn[part.insn_id].dependency_names())
    return found


def _cut(kernel: DeviceKernel, node: Node) -> tuple[Node, Node] | None:
    """Cut *node* where it has published totals; both parts have the conditions around.

    ``None`` if the look-back is in a loop, or under a condition on data.
    """
    match node:
        case Block():
            at = next(k for k, child in enumerate(node.children) if _looks_back(kernel, child))
            if not _publishes(kernel, node.children[at]):
                totals = [k for k in range(at) if _publishes(kernel, node.children[k])]
                at = max(totals, default=at - 1) + 1
                return Block(node.children[:at]), Block(node.children[at:])
            inner = _cut(kernel, node.children[at])
            return inner and (
                Block((*node.children[:at], inner[0])),
                Block((inner[1], *node.children[at + 1 :])),
            )
        case Let() | Comment():
            inner = _cut(kernel, node.body)
            return inner and (replace(node, body=inner[0]), replace(node, body=inner[1]))
        case If() if not node.reads_data:
            return _cut_branches(kernel, node)
    return None


def _cut_branches(kernel: DeviceKernel, node: If) -> tuple[Node, Node] | None:
    """Cut both branches of a condition; what does not look back begins."""
    cuts: list[tuple[Node, Node | None]] = []
    for branch in (node.body, node.orelse or Block(())):
        if not _looks_back(kernel, branch):
            cuts.append((branch, None))
        elif (inner := _cut(kernel, branch)) is not None:
            cuts.append(inner)
        else:
            return None
    (first, last), (other, other_last) = cuts
    return (
        replace(node, body=first, orelse=None if node.orelse is None else other),
        replace(node, body=last or Block(()), orelse=other_last),
    )


def _looks_back(kernel: DeviceKernel, node: Node) -> bool:
    return any(kernel.id_to_insn[run.insn_id].tags_of_type(LookBackTag) for run in runs_in(node))


def _publishes(kernel: DeviceKernel, node: Node) -> bool:
    """Tell whether a node publishes totals of its group."""
    insns = (kernel.id_to_insn[run.insn_id] for run in runs_in(node))
    return any(tag.is_total for insn in insns for tag in insn.tags_of_type(PublishTag))
