"""Storing the values of a substitution rule before they are used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pymbolic.primitives as p
from pytools.tag import Tag

from kgen.analysis.footprints import Footprints
from kgen.analysis.loop_bounds import bound_setters
from kgen.analysis.swept import Axis, box_of, swept_footprint, valid_elements
from kgen.errors import TransformError, message
from kgen.ir.affine import simplify
from kgen.ir.data import Iname
from kgen.ir.expr import Expr, TaggedVariable, subscript, substitute, to_text
from kgen.ir.instruction import Assignment
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.expressions import parse
from kgen.ir.tags import TagLike
from kgen.transforms.expressions.rules import expand_callers, expand_expression
from kgen.transforms.loops.tag import give_tags
from kgen.transforms.select import NoSuchNameError, require_iname, split_names, transform
from kgen.transforms.storage.stored_names import Names, check_covered, new_domains, tag_of
from kgen.transforms.storage.stored_order import Order, mentioned_inames, outer_inames
from kgen.transforms.storage.stored_uses import (
    given_access,
    leave_uncovered,
    mark_uses,
    stored_reader,
)
from kgen.transforms.storage.storing import Storage, Uses, check_left_out, free_names, ordered_axes
from kgen.transforms.uses import rules_of

__all__ = ["precompute", "store_rule"]


@transform
def precompute(
    kernel: LoopKernel,
    subst_use: Any,
    sweep_inames: str | Iterable[str] | None = None,
    within: Any = None,
    *,
    storage_axes: str | Iterable[str | int] | None = None,
    temporary_name: str | None = None,
    precompute_inames: str | Sequence[str] | None = None,
    precompute_outer_inames: str | Iterable[str] | None = None,
    storage_axis_to_tag: Mapping[str | int, TagLike] | None = None,
    default_tag: TagLike = None,
    dtype: Any = None,
    fetch_bounding_box: bool = False,
    temporary_address_space: Any = None,
    compute_insn_id: str | None = None,
) -> LoopKernel:
    """Compute the values of a substitution rule ahead, and store them in a temporary.

    What the uses of the rule need over all values of *sweep_inames* is computed by an
    instruction of its own, in loops of its own, which the uses wait for.

    :arg subst_use: the name of the rule, ``"name$tag"`` for tagged uses of it; or one or
        several uses such as ``"f(i, 0)"``, which then say what to store: only uses that need
        nothing else are replaced
    :arg within: a stack match: which uses are replaced
    :arg storage_axes: the order of the axes: names (or numbers) of arguments, and swept
        inames that the rule itself mentions. By default those inames, then the arguments.
        Axes of length 1 are left out.
    :arg precompute_inames: the loops that compute, one per axis; an existing one must have
        just the values that are needed
    :arg precompute_outer_inames: the loops around the new instruction; by default those on
        which the values depend
    :arg storage_axis_to_tag: tags of the new loops by axis; *default_tag* is for the others
    :arg fetch_bounding_box: compute all of the box around what is needed, where several
        uses together need less
    :arg temporary_address_space: an :class:`AddressSpace`; found automatically by default

    ::

        f(x) := sin(a[x])               for x
        for i, j               =>         f_0[x] = sin(a[x + 2])   {id=f}
          b[i, j] = f(i + 2)            end x
                                        for i, j
                                          b[i, j] = f_0[i]

    Raises :class:`StaticValueFindingError` where the number of values has no constant bound,
    and :class:`TransformError` where the values may change between the new instruction and
    a use, and, with an example, where what several uses need is no box.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i, j]: 0<=i<4 and 0<=j<5 }", ["f(x) := sin(a[x])", "b[i,j] = f(i+2)"])
    >>> for insn in precompute(knl, "f", "i").default_entrypoint.instructions:
    ...     print(insn)
    f_0[x] = sin(a[x + 2])  {id=f}
    b[i, j] = f_0[i]  {id=insn}
    """
    uses = _read_uses(kernel, subst_use, within)
    storage = Storage(
        sweep=split_names(sweep_inames or ()),
        axes=None if storage_axes is None else _read_axes(storage_axes),
        temporary=temporary_name,
        inames=split_names(precompute_inames or ()),
        outer=None if precompute_outer_inames is None else split_names(precompute_outer_inames),
        tags=dict(storage_axis_to_tag or {}),
        default_tag=default_tag,
        dtype=dtype,
        whole_box=fetch_bounding_box,
        address_space=temporary_address_space,
        insn_id=compute_insn_id,
    )
    return store_rule(kernel, uses, storage)


def _read_axes(given: str | Iterable[str | int]) -> tuple[str | int, ...]:
    return split_names(given) if isinstance(given, str) else tuple(given)


def _read_uses(kernel: LoopKernel, subst_use: Any, within: Any) -> Uses:
    """Read a rule's name, or uses of one rule, as text or nodes."""
    several = isinstance(subst_use, list | tuple | set | frozenset)
    read = [parse(u) if isinstance(u, str) else u for u in (subst_use if several else [subst_use])]
    names: dict[str, frozenset[Tag]] = {}
    given: list[tuple[Expr, ...]] = []
    for use in read:
        function = use.function if isinstance(use, p.Call) else use
        if not isinstance(function, p.Variable):
            raise TransformError(
                message(f"'{to_text(use)}' is not a use of a rule", kernel=kernel.name)
            )
        tags = function.tags if isinstance(function, TaggedVariable) else frozenset()
        names[function.name] = names.get(function.name, frozenset()) | tags
        if isinstance(use, p.Call):
            given.append(use.parameters)
    if len(names) != 1:
        raise TransformError(
            message(
                f"one rule is stored at a time, not {len(names)}: {', '.join(names)}",
                kernel=kernel.name,
            )
        )
    ((rule, tags),) = names.items()
    return Uses(rule=rule, tags=tags, within=within, given=tuple(given))


# -- the change --------------------------------------------------------------------------------


def store_rule(kernel: LoopKernel, uses: Uses, storage: Storage) -> LoopKernel:
    """Compute the values of a rule ahead; see :func:`precompute`."""
    rule = kernel.substitutions.get(uses.rule)
    if rule is None:
        raise NoSuchNameError(kernel.name, "rule", uses.rule, kernel.substitutions)
    for name in (*storage.sweep, *(storage.outer or ())):
        require_iname(kernel, name)
    kernel = expand_callers(kernel, (rule.name,))
    value = expand_expression(kernel, rule.expression)
    free = free_names(value, rule)
    axes = ordered_axes(kernel, rule, storage, free)
    marked = mark_uses(kernel, rule, uses, axes)
    needs = tuple(given_access(kernel, rule, axes, operands) for operands in uses.given)
    if needs:
        around = storage.outer or mentioned_inames(kernel, rule, needs, free, storage.sweep)
        marked = leave_uncovered(kernel, rule, uses, axes, marked, needs, around)
    accesses = Footprints.of(marked.kernel).accesses_to(marked.name)
    needs = needs or accesses
    order = Order(kernel, rule, value, accesses, storage.sweep)
    mentioned = mentioned_inames(kernel, rule, needs, free, storage.sweep)
    outer = outer_inames(kernel, storage, mentioned, order, accesses)

    rule_stays = marked.rule_stays and not uses.is_passing
    names = Names(kernel, rule, storage, rule_stays=rule_stays)
    dims = [
        Axis(name, uses.valid_along(a, name)) for name, a in zip(names.of(axes), axes, strict=True)
    ]
    what = f"the uses of '{rule.name}'"
    footprint = swept_footprint(marked.kernel, needs, outer, dims)
    box = box_of(
        marked.kernel,
        footprint,
        outer,
        whole_box=storage.whole_box,
        existing=valid_elements(kernel, footprint, dims),
        has_more=uses.has_more,
        what=what,
    )
    if uses.given:
        used = swept_footprint(marked.kernel, accesses, outer, [Axis(dim.name) for dim in dims])
        check_covered(kernel, used, footprint, what)
    check_left_out(kernel, rule, storage, axes, box)

    kept = [k for k, extent in enumerate(box.extents) if extent > 1]
    loops = {dims[k].name: axes[k] for k in kept}
    values = {
        axis: simplify(p.Sum((p.Variable(dim.name), low))) if extent > 1 else low
        for axis, dim, low, extent in zip(axes, dims, box.lower, box.extents, strict=True)
    }
    compute = Assignment(
        subscript(p.Variable(names.temporary), tuple(map(p.Variable, loops))),
        substitute(rule.expression if free.isdisjoint(storage.sweep) else value, values),
        id=names.insn_id,
        within_inames=outer.union(loops),
        within_inames_is_final=True,
        predicates=frozenset(box.conditions),
        depends_on=order.before | bound_setters(kernel, outer),
        depends_on_is_final=True,
    )
    reader = stored_reader(marked, names.temporary, [(k, box.lower[k]) for k in kept])
    users = {user.id for user in marked.users}
    instructions = [
        reader.change(insn, depends_on=insn.depends_on | {names.insn_id})
        if insn.id in users
        else insn
        for insn in marked.kernel.instructions
    ]
    at = next(k for k, insn in enumerate(instructions) if insn.id in users)
    instructions.insert(at, compute)
    temporary = names.declared(tuple(box.extents[k] for k in kept))
    rules = rules_of(kernel.substitutions, instructions)
    added = [name for name in loops if name not in kernel.inames]
    result = kernel.copy(
        instructions=instructions,
        temporary_variables={**kernel.temporary_variables, names.temporary: temporary},
        substitutions={name: r for name, r in kernel.substitutions.items() if name in rules},
        domains=(*kernel.domains, *new_domains(kernel, box, tuple(loops), outer)),
        inames={**kernel.inames, **{name: Iname(name) for name in added}},
    )
    return give_tags(result, {name: (tag_of(storage, rule, loops[name]),) for name in added})
