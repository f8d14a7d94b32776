"""Products on tensor cores: loops over fragments become one step of a warp."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

from kgen.analysis.held import is_held
from kgen.analysis.products import TensorLoops, is_of_warpgroup, tensor_factors, tensor_loops
from kgen.analysis.typing import ExpressionTyper
from kgen.ast.nodes import Block, DeviceFunction, For, If, Node, Run, runs_in
from kgen.errors import ScheduleError
from kgen.ir.expr import variable_names
from kgen.ir.fields import replace
from kgen.ir.instruction import Assignment, InstructionBase, NoOpInstruction
from kgen.ir.kernel import LoopKernel
from kgen.ir.stages import DeviceKernel, PreparedKernel
from kgen.ir.tags import CopyWaitTag, FragmentTag, TensorTag
from kgen.ir.tree import Barrier, map_children, nodes_in
from kgen.ir.types import AddressSpace, NumpyType, Reach
from kgen.schedule.conflicts import Conflicts

__all__ = [
    "check_warps",
    "count_meanwhile",
    "is_tensor",
    "loops_with_overlap",
    "tensors_at_once",
]


def tensors_at_once(node: Node, kernel: DeviceKernel) -> Node:
    """Turn the loops around an instruction for tensor cores into one step.

    ::

        for i_reg = 0 .. 2                            update(k_outer=k_outer) over i_reg, j_reg, k
          for j_reg = 0 .. 2                     =>
            for k = 0 .. 16
              update(k_outer=k_outer, ...)
    """
    tensors = any(kernel.has_tag(name, TensorTag) for name in kernel.inames)
    return _at_once(node, kernel) if tensors and kernel.target.has_tensor_cores else node


def _at_once(node: Node, kernel: DeviceKernel) -> Node:
    if isinstance(node, For) and _is_around_products(node, kernel):
        names: list[str] = []
        inner: Node = node
        while isinstance(inner, For):
            _check_whole(inner, kernel)
            names.append(inner.iname)
            inner = inner.body
        if not isinstance(inner, Run) or not any(kernel.has_tag(n, TensorTag) for n in names):
            raise _not_at_once(node, kernel, "there are conditions between the loops")
        values = {name: value for name, value in inner.values.items() if name not in names}
        if set(names) & set(variable_names(*values.values())):
            raise _not_at_once(node, kernel, "a loop has been replaced by another")
        return replace(inner, values=values, over=tuple(names))
    return map_children(node, lambda child: _at_once(child, kernel))


def _is_around_products(node: For, kernel: DeviceKernel) -> bool:
    """Tell whether a loop is over a fragment, around an instruction for tensor cores."""
    if node.iname not in kernel.inames:
        return False
    if not kernel.has_tag(node.iname, (FragmentTag, TensorTag)):
        return False
    inames = (kernel.id_to_insn[run.insn_id].within_inames for run in runs_in(node.body))
    return any(kernel.has_tag(name, TensorTag) for names in inames for name in names)


def _check_whole(loop: For, kernel: DeviceKernel) -> None:
    """Reject a loop that does not run from end to end, or is not over a fragment."""
    if not kernel.has_tag(loop.iname, (FragmentTag, TensorTag)):
        raise _not_at_once(loop, kernel, f"loop '{loop.iname}' is between the loops of a fragment")
    extent = kernel.get_iname_bounds(loop.iname).extent
    if (loop.first, loop.stop, loop.step) != (0, extent, 1):
        raise _not_at_once(loop, kernel, f"loop '{loop.iname}' has fewer iterations in some cases")


def _not_at_once(node: For, kernel: DeviceKernel, because: str) -> ScheduleError:
    ids = ", ".join(dict.fromkeys(f"'{run.insn_id}'" for run in runs_in(node)))
    return ScheduleError(
        f"tensor cores cannot compute {ids} as one step",
        kernel=kernel.name,
        because=because,
        hint="state that sizes are multiples of the tiles: assume(kernel, 'n mod 64 = 0'); do "
        "not transform the loops that tensorize creates",
    )


def is_tensor(kernel: LoopKernel, insn_id: str) -> bool:
    """Tell whether tensor cores compute an instruction."""
    inames = kernel.id_to_insn[insn_id].within_inames
    return kernel.target.has_tensor_cores and any(kernel.has_tag(n, TensorTag) for n in inames)


def count_meanwhile(kernel: LoopKernel, insn_id: str, nodes: Sequence[Node]) -> int:
    """Return how many of *nodes*, which follow steps, run before work-items wait for the steps.

    They wait before a barrier, before other steps, and before any use of the sums. Stores to
    arrays of the factors before that write other elements: all lanes read each element, so
    a barrier precedes each overwrite.
    """
    insn = kernel.id_to_insn[insn_id]
    if not is_of_warpgroup(kernel, insn):
        return 0
    sums = _storages(kernel, insn.assignee_var_names())
    return len(list(takewhile(lambda node: _is_free(kernel, insn, sums, node), nodes)))


def _is_free(kernel: LoopKernel, steps: InstructionBase, sums: set[str], node: Node) -> bool:
    """Tell whether *node* neither waits for others nor uses *sums*."""
    nodes = nodes_in(node)
    if any(
        isinstance(each, Barrier) or (isinstance(each, If) and each.reads_data) for each in nodes
    ):
        return False
    for insn in (kernel.id_to_insn[run.insn_id] for run in runs_in(node)):
        is_plain = isinstance(insn, Assignment | NoOpInstruction)
        if not is_plain or is_of_warpgroup(kernel, insn) or _are_exempt(steps, insn):
            return False
        if not sums.isdisjoint(_storages(kernel, insn.dependency_names())):
            return False
    return True


def loops_with_overlap(kernel: LoopKernel, body: Node) -> frozenset[int]:
    """Return, by ``id``, the loops whose steps may run until those of the next iteration start.

    Stores that overwrite the factors come after the steps in each iteration,
    and at least two iterations later; in between, work-items wait for the steps, and at a barrier.
    """
    if not any(is_of_warpgroup(kernel, insn) for insn in kernel.instructions):
        return frozenset()
    loops = [node for node in nodes_in(body) if isinstance(node, For)]
    conflicts = Conflicts(PreparedKernel(kernel))
    return frozenset(id(loop) for loop in loops if _may_overlap(conflicts, loop))


def _may_overlap(conflicts: Conflicts, loop: For) -> bool:
    kernel = conflicts.kernel
    children = loop.body.children if isinstance(loop.body, Block) else (loop.body,)
    at = [n for n, child in enumerate(children) if isinstance(child, Run) and child.over]
    steps = {run.insn_id for run in runs_in(loop.body) if run.over}
    if len(steps) != 1 or not any(map(_is_barrier_of_group, children)):
        return False
    insn = kernel.id_to_insn[steps.pop()]
    n_steps = sum(run.insn_id == insn.id for run in runs_in(loop.body))
    if not is_of_warpgroup(kernel, insn) or n_steps != len(at) or at[-1] - at[0] != n_steps - 1:
        return False
    others = [
        (run.insn_id, n > at[-1])
        for n, child in enumerate(children)
        for run in runs_in(child)
        if run.insn_id != insn.id and not _is_wait(kernel, run.insn_id)
    ]
    sums = _storages(kernel, insn.assignee_var_names())
    return all(
        sums.isdisjoint(_storages(kernel, kernel.id_to_insn[name].dependency_names()))
        and _stores_later(conflicts, str(insn.id), name, loop.iname, is_behind=is_behind)
        for name, is_behind in dict.fromkeys(others)
    )


def _is_barrier_of_group(node: Node) -> bool:
    return isinstance(node, Barrier) and node.reach >= Reach.GROUP


def _is_wait(kernel: LoopKernel, insn_id: str) -> bool:
    """Tell whether an instruction only waits for copies that others have started."""
    tags = kernel.id_to_insn[insn_id].tags_of_type(CopyWaitTag)
    return bool(tags) and bool(kernel.target.async_copies)


def _stores_later(
    conflicts: Conflicts, steps: str, other: str, loop: str, *, is_behind: bool
) -> bool:
    """Tell whether an instruction stores no factors, or only those of two iterations before."""
    return all(
        is_behind
        and conflicts.between(one, two, (loop,), None) is None
        and conflicts.are_distant(one, two, (), loop, (steps,))
        for one in conflicts.accesses.get(steps, ())
        for two in conflicts.accesses.get(other, ())
        if two.is_write and conflicts.storage(one) == conflicts.storage(two)
    )


def _are_exempt(one: InstructionBase, other: InstructionBase) -> bool:
    """Tell whether the user states that two instructions need no synchronization."""
    return any(
        second.id in {name for name, _ in first.no_sync_with}
        for first, second in ((one, other), (other, one))
    )


def _storages(kernel: LoopKernel, names: Iterable[str]) -> set[str]:
    arrays = (kernel.temporary_variables.get(name) for name in names)
    return {array.base_storage or array.name for array in arrays if array is not None}


def check_warps(kernel: LoopKernel, function: DeviceFunction) -> tuple[str, ...]:
    """Return the instructions for tensor cores, all of which must be supported.

    Raises :class:`ScheduleError` if transformations have changed the product, or there are no
    warps.
    """
    found = tuple(insn_id for insn_id in function.insn_ids if is_tensor(kernel, insn_id))
    for insn_id in found:
        insn = kernel.id_to_insn[insn_id]
        loops = tensor_loops(kernel, insn)
        if loops is None:
            raise _refuse(kernel, insn, "it is inside of loops over the fragments of several")
        items = loops.items
        if function.locals[: len(items)] != items:
            unit = "warpgroup" if loops.shape.is_of_warpgroup else "warp"
            names = " and ".join(f"'{name}'" for name in loops.lanes)
            wanted = " and ".join(f"l.{axis} {n}" for axis, n in enumerate(items))
            raise _refuse(
                kernel,
                insn,
                f"the {loops.shape.lanes} lanes {names} are no {unit} of work-groups of "
                f"{function.locals} work-items",
                f"let {wanted.replace(' ', ' have ', 1)} work-items: put other loops on "
                f"{' and '.join(f'l.{axis}' for axis in range(len(items), 3))}",
            )
        _check_operands(kernel, insn, loops)
    return found


def _check_operands(kernel: LoopKernel, insn: InstructionBase, loops: TensorLoops) -> None:
    """Reject instructions that are no product, private values as factors, and other sums."""
    shape = loops.shape
    factors = tensor_factors(loops, insn, ExpressionTyper(kernel))
    if factors is None:
        raise _refuse(
            kernel,
            insn,
            "it does not sum products of a factor per row and a factor per column, in "
            f"{shape.held_as}",
        )
    for name in variable_names(*factors):
        array = kernel.temporary_variables.get(name)
        is_private = array is not None and array.address_space == AddressSpace.PRIVATE
        if is_private and not is_held(kernel, name):
            raise _refuse(
                kernel,
                insn,
                f"'{name}' is in registers, but other lanes need its values",
                f"set_temporary_address_space(kernel, '{name}', 'local')",
            )
    (name,) = insn.assignee_var_names()
    space = kernel.array_vars[name].address_space
    if shape.is_of_warpgroup and space != AddressSpace.PRIVATE:
        raise _refuse(
            kernel,
            insn,
            f"its sums, '{name}', are in {AddressSpace.stringify(space)} memory, but lanes must "
            "keep them in registers during the product",
            "accumulate in a temporary, and store it after the loops",
        )
    dtype = kernel.array_vars[name].dtype
    if not isinstance(dtype, NumpyType) or dtype.dtype.name != shape.sums:
        raise _refuse(
            kernel,
            insn,
            f"its sums have type {dtype}, but {shape} has sums of type {shape.sums}",
            f"declare '{name}' as {shape.sums}",
        )


def _refuse(
    kernel: LoopKernel, insn: InstructionBase, because: str, hint: str | None = None
) -> ScheduleError:
    return ScheduleError(
        f"tensor cores cannot compute '{insn.id}'",
        kernel=kernel.name,
        where=f"instruction '{insn}'",
        because=because,
        hint=hint
        or "omit tensorize, or apply it after the transformations that change the product",
    )
