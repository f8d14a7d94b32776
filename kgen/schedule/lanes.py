"""Loops tagged ``vec`` that compilers vectorize: shared loops with independent iterations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pymbolic.primitives as p

from kgen.analysis.access import Access
from kgen.analysis.footprints import Footprints
from kgen.analysis.instances import elements_of, relate_sides
from kgen.analysis.points import describe_pair, example
from kgen.errors import is_silenced
from kgen.ir.analyses import Analysis
from kgen.ir.expr import is_constant, walk
from kgen.ir.functions import RandomFunction, find_function
from kgen.ir.instruction import Assignment, CallInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import param_names, project_out_params, rename_param
from kgen.ir.sets.names import Side
from kgen.ir.tags import FragmentTag, TensorTag, VectorizeTag
from kgen.ir.tree import map_children
from kgen.ir.types import AddressSpace
from kgen.schedule.tree import Loop, Node, Sequence, insn_ids, sequence

__all__ = [
    "dependence_in",
    "draws_random",
    "has_lanes",
    "is_factor",
    "is_fragment",
    "is_lane_call",
    "is_simd",
    "join_lanes",
]

#: Why iterations of a loop around some instructions must not run in parallel.
_DEPENDENCE = Analysis["str | None"](LoopKernel)


def is_simd(kernel: LoopKernel, iname: str) -> bool:
    """Tell whether a loop is tagged ``vec``, and the compiler vectorizes it."""
    return kernel.target.has_simd_loops and bool(kernel.has_tag(iname, VectorizeTag))


def has_lanes(kernel: LoopKernel) -> bool:
    """Tell whether the compiler vectorizes a loop tagged ``vec``."""
    return kernel.target.has_simd_loops and any(is_simd(kernel, name) for name in kernel.inames)


def is_fragment(kernel: LoopKernel, iname: str) -> bool:
    """Tell whether a loop is one of those that tensor cores run in one step."""
    return bool(kernel.has_tag(iname, (FragmentTag, TensorTag)))


def is_factor(kernel: LoopKernel, access: Access) -> bool:
    """Tell whether an access is to a factor on tensor cores, which other lanes load as well."""
    if not kernel.target.has_tensor_cores:
        return False
    inside = any(kernel.has_tag(name, TensorTag) for name in access.place.inames)
    return inside and access.array not in kernel.id_to_insn[access.insn_id].assignee_var_names()


def is_lane_call(kernel: LoopKernel, node: Any) -> bool:
    """Tell whether an expression is a call for which lanes use a vector library."""
    if isinstance(node, p.Power):
        return isinstance(node.exponent, float | np.floating) or not is_constant(node.exponent)
    is_named = isinstance(node, p.Call) and isinstance(node.function, p.Variable)
    return is_named and node.function.name in kernel.target.lane_functions


def draws_random(kernel: LoopKernel, insn: InstructionBase) -> bool:
    """Tell whether an instruction calls a stateless generator of random numbers."""
    if not (isinstance(insn, CallInstruction) and isinstance(insn.expression, p.Call)):
        return False
    return isinstance(find_function(kernel, str(insn.expression.function)), RandomFunction)


def join_lanes(kernel: LoopKernel, node: Node) -> Node:
    """Fuse adjacent loops over the same lanes if iterations are independent.

    ::

        simd v                simd v
          run load      =>      run load
        simd v                  run store
          run store
    """
    node = map_children(node, lambda child: join_lanes(kernel, child))
    if not isinstance(node, Sequence):
        return node
    children: list[Node] = []
    for child in node.children:
        joined = _joined(kernel, children[-1], child) if children else None
        if joined is None:
            children.append(child)
        else:
            children[-1] = joined
    return sequence(tuple(children))


def _joined(kernel: LoopKernel, first: Node, second: Node) -> Node | None:
    if not (isinstance(first, Loop) and isinstance(second, Loop) and first.iname == second.iname):
        return None
    together = Sequence((*_parts(first), *_parts(second)))
    ids = insn_ids(together)
    has_one_nest = len({kernel.id_to_insn[name].within_inames for name in ids}) == 1
    if not (is_simd(kernel, first.iname) and has_one_nest):
        return None
    if _has_call_and_condition(kernel, ids) or dependence_in(kernel, first.iname, ids) is not None:
        return None
    return Loop(first.iname, together, first.kind, first.slabs)


def _has_call_and_condition(kernel: LoopKernel, ids: tuple[str, ...]) -> bool:
    """Tell whether a loop would have both; gcc 12 does not vectorize these together."""
    insns = [kernel.id_to_insn[name] for name in ids]
    nodes = [node for insn in insns for node in walk(*insn.expressions())]
    has_condition = any(insn.predicates for insn in insns)
    has_condition = has_condition or any(isinstance(node, p.If) for node in nodes)
    return has_condition and any(is_lane_call(kernel, node) for node in nodes)


def _parts(loop: Loop) -> tuple[Node, ...]:
    return loop.body.children if isinstance(loop.body, Sequence) else (loop.body,)


# -- independent iterations --------------------------------------------------------------------


def dependence_in(kernel: LoopKernel, iname: str, ids: tuple[str, ...]) -> str | None:
    """Return why iterations of a loop around instructions must not run in parallel, or ``None``.

    They may if none accesses an element that another one writes. ``write_race(ID)`` in
    ``silenced_warnings`` states this for an instruction.
    """
    insns = [kernel.id_to_insn[name] for name in ids]
    return kernel.analyses.answer(
        _DEPENDENCE, (iname, ids), lambda: next(_dependences(kernel, iname, insns), None)
    )


def _dependences(kernel: LoopKernel, iname: str, insns: list[InstructionBase]) -> Iterator[str]:
    for insn in insns:
        if not (isinstance(insn, Assignment) or draws_random(kernel, insn)):
            yield f"'{insn.id}' is no assignment"
        elif isinstance(insn, Assignment) and insn.atomicity:
            yield f"'{insn.id}' is atomic"
    written = {name for insn in insns for name in insn.assignee_var_names()}
    if not kernel.options.restrict and not written <= kernel.temporary_variables.keys():
        yield "arrays may overlap (option 'restrict')"
    touched = {name for insn in insns for name in insn.dependency_names()}
    yield from _shared_storage(kernel, written, touched)
    footprints, ids = Footprints.of(kernel), {insn.id for insn in insns}
    for name in sorted(written & kernel.array_vars.keys()):
        if _is_of_one_lane(kernel, name):
            continue
        accesses = [each for each in footprints.accesses_to(name) if each.insn_id in ids]
        for one, other in combinations_with_replacement(accesses, 2):
            if (one.is_write or other.is_write) and not _is_stated(kernel, one, other):
                yield from _meeting(kernel, footprints, iname, one, other)


def _is_of_one_lane(kernel: LoopKernel, name: str) -> bool:
    """Tell whether each lane has its own scalar of that name; otherwise it has elements."""
    temporary = kernel.temporary_variables.get(name)
    if temporary is None or temporary.address_space != AddressSpace.PRIVATE:
        return False
    return bool(temporary.shape == ())


def _shared_storage(kernel: LoopKernel, written: set[str], touched: set[str]) -> Iterator[str]:
    """Yield the temporaries that are written while another one is in the same memory."""
    bases = {
        name: kernel.temporary_variables[name].base_storage
        for name in sorted(touched & kernel.temporary_variables.keys())
    }
    for name, base in bases.items():
        if base is not None and name in written and list(bases.values()).count(base) > 1:
            yield f"'{name}' is in the same memory as another temporary"


def _is_stated(kernel: LoopKernel, one: Access, other: Access) -> bool:
    """Tell whether the user stated that iterations of two instructions are independent."""
    ids = {one.insn_id, other.insn_id}
    return all(is_silenced(f"write_race({name})", kernel.silenced_warnings) for name in ids)


def _meeting(
    kernel: LoopKernel, footprints: Footprints, iname: str, one: Access, other: Access
) -> Iterator[str]:
    """Return where two accesses may overlap in different iterations, or ``None``."""
    sides = [
        rename_param(elements_of(kernel, footprints, access)[0], iname, side.of(iname))
        for access, side in ((one, Side.FIRST), (other, Side.SECOND))
    ]
    both = relate_sides(sides[0].intersect(sides[1]), iname, "ne_set")
    if both.is_empty():
        return
    is_exact = all(elements_of(kernel, footprints, access)[1] for access in (one, other))
    verb = "writes" if one.is_write else "reads"
    accesses = f"'{one.insn_id}' {verb} '{one}'"
    if one != other:
        accesses += f" and '{other.insn_id}' {'writes' if other.is_write else 'reads'} '{other}'"
    if not is_exact:
        yield f"whether iterations meet depends on data: {accesses}"
        return
    data = [name for name in param_names(both) if name in kernel.array_vars]
    point = describe_pair(example(project_out_params(both, data)), unit="an iteration")
    yield f"{accesses}: {point}"
