"""Fetching the elements of an array before they are used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pymbolic.primitives as p
from pytools import UniqueNameGenerator
from pytools.tag import Tag

from kgen.analysis.footprints import Footprints
from kgen.errors import TransformError, message
from kgen.ir.data import ArrayBase, SubstitutionRule
from kgen.ir.expr import Expr, IdentityMapper, TaggedVariable, subscript, to_text
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.expressions import parse
from kgen.ir.tags import TagLike
from kgen.ir.types import auto
from kgen.transforms.expressions.make_rules import use_rule
from kgen.transforms.expressions.rules import expand_callers
from kgen.transforms.loops.rewrite import in_present_inames
from kgen.transforms.select import (
    NothingSelectedError,
    matcher,
    require_array,
    require_new_name,
    split_names,
    taken_names,
    transform,
)
from kgen.transforms.storage.precompute import store_rule
from kgen.transforms.storage.storing import Storage, Uses

__all__ = ["add_prefetch"]


@transform
def add_prefetch(
    kernel: LoopKernel,
    var_name: Any,
    sweep_inames: str | Iterable[str] | None = None,
    dim_arg_names: str | Sequence[str] | None = None,
    default_tag: TagLike = "l.auto",
    rule_name: str | None = None,
    temporary_name: str | None = None,
    temporary_address_space: Any = None,
    footprint_subscripts: Any = None,
    fetch_bounding_box: bool = False,
    fetch_outer_inames: str | Iterable[str] | None = None,
    prefetch_insn_id: str | None = None,
    within: Any = None,
) -> LoopKernel:
    """Copy what is read of an array to a temporary first, and read that.

    What the reads touch over all values of *sweep_inames* is fetched, by loops over the
    axes of the array along which that is more than one element.

    :arg var_name: the array; ``"a$tag"`` for tagged reads of it; or subscripted, such as
        ``"a[:, j]"``, which then says what to fetch, in the inames of now or of before they
        were split; only reads of that are replaced
    :arg dim_arg_names: the loops that fetch, one for each axis; ``<array>_dim_<k>`` by default
    :arg default_tag: how these run. By default the work-items share them, in strides where
        there are more elements than work-items; ``None`` makes them plain loops.
    :arg rule_name: the id of the new instruction is made of it; ``<array>_fetch_rule``
    :arg temporary_name: ``<array>_fetch`` by default
    :arg footprint_subscripts: tuples of subscripts that say what to fetch
    :arg fetch_bounding_box: fetch all of the box around what is touched, where several
        reads together touch less. Without it, that is done only for arrays that the kernel
        does not write, and where the box is provably inside of them; else conditions leave
        out the corners of a stencil, and holes are refused.
    :arg fetch_outer_inames: the loops around the fetch; by default those on which the
        subscripts depend and which are not swept
    :arg within: the instructions whose reads are replaced

    ::

        for i_outer, i_inner                 for i_outer
          b[16*i_outer + i_inner]     =>       for a_dim_0
            = a[16*i_outer + i_inner]            a_fetch[a_dim_0] = a[16*i_outer + a_dim_0]
                                               end a_dim_0
                                               for i_inner
                                                 b[16*i_outer + i_inner] = a_fetch[i_inner]

    Raises what :func:`precompute` raises.

    >>> from kgen.frontend import make_kernel
    >>> from kgen.transforms.loops.split import split_iname
    >>> knl = split_iname(make_kernel("{ [i]: 0<=i<n }", "b[i] = a[i]"), "i", 16)
    >>> for insn in add_prefetch(knl, "a", "i_inner").default_entrypoint.instructions:
    ...     print(insn)
    a_fetch[a_dim_0] = a[16*i_outer + a_dim_0]  {id=a_fetch_rule}
    b[i_inner + i_outer*16] = a_fetch[i_inner]  {id=insn}
    """
    name, tags, given = _read_variable(kernel, var_name)
    array = require_array(kernel, name)
    if footprint_subscripts is not None:
        given = (*given, *_read_subscripts(footprint_subscripts))
    given = tuple(
        tuple(None if i is None else in_present_inames(kernel, i) for i in subscripts)
        for subscripts in given
    )
    kernel = expand_callers(kernel, (name,))
    rule = _rule(kernel, array, rule_name, split_names(dim_arg_names or ()), given)
    kernel = _with_rule(kernel, rule, name, tags, within)
    valid = _valid(array, rule)
    uses = Uses(
        rule=rule.name,
        given=given,
        valid=valid,
        has_more=len(valid) == len(rule.arguments) and name not in kernel.writers,
        is_passing=True,
    )
    names = UniqueNameGenerator(set(taken_names(kernel)))
    outer = fetch_outer_inames
    storage = Storage(
        sweep=split_names(sweep_inames or ()),
        temporary=temporary_name or names(f"{name}_fetch"),
        outer=None if outer is None else split_names(outer),
        default_tag=default_tag,
        dtype=array.dtype,
        whole_box=fetch_bounding_box,
        address_space=temporary_address_space,
        insn_id=prefetch_insn_id,
    )
    return _without_rule(store_rule(kernel, uses, storage), rule, name)


def _read_variable(
    kernel: LoopKernel, given: Any
) -> tuple[str, frozenset[Tag], tuple[tuple[Expr, ...], ...]]:
    """Read ``a``, ``a$tag`` or ``a[:, j]``: name, tags, and the footprint if there is one."""
    expr = parse(given) if isinstance(given, str) else given
    footprints: tuple[tuple[Expr, ...], ...] = ()
    if isinstance(expr, p.Subscript):
        footprints = _read_subscripts(expr.index_tuple)
        expr = expr.aggregate
    if not isinstance(expr, p.Variable):
        raise TransformError(
            message(f"'{to_text(expr)}' is neither an array nor a part of one", kernel=kernel.name)
        )
    return expr.name, expr.tags if isinstance(expr, TaggedVariable) else frozenset(), footprints


def _read_subscripts(given: Any) -> tuple[tuple[Expr, ...], ...]:
    """Read one or several tuples of subscripts; ``None`` stands for a whole axis."""
    if isinstance(given, str):
        given = parse(f"a[{given}]").index_tuple
    items = tuple(given)
    if items and all(isinstance(item, tuple | list) for item in items):
        return tuple(footprint for item in items for footprint in _read_subscripts(tuple(item)))
    read = (parse(f"a[{i}]").index if isinstance(i, str) else i for i in items)
    return (tuple(None if i == p.Slice((None, None)) else i for i in read),)


def _rule(
    kernel: LoopKernel,
    array: ArrayBase,
    name: str | None,
    arguments: tuple[str, ...],
    given: tuple[tuple[Expr, ...], ...],
) -> SubstitutionRule:
    """Make ``a_fetch_rule(a_dim_0, ...) := a[a_dim_0, ...]``."""
    counts = {len(index) for index in (*given, *_subscripts(kernel, array.name))}
    if isinstance(array.shape, tuple):
        counts.add(len(array.shape))
    if len(counts) > 1:
        raise TransformError(
            message(
                f"array '{array.name}' is subscripted with {min(counts)} and "
                f"with {max(counts)} subscripts",
                kernel=kernel.name,
            )
        )
    naxes = max(counts, default=0)
    names = UniqueNameGenerator(set(taken_names(kernel)))
    for argument in arguments:
        names.add_name(require_new_name(kernel, argument))
    made = [names(f"{array.name}_dim_{k}") for k in range(len(arguments), naxes)]
    arguments = (*arguments, *made)[:naxes]
    value = subscript(p.Variable(array.name), tuple(map(p.Variable, arguments)))
    if name is not None:
        require_new_name(kernel, name)
    return SubstitutionRule(name or names(f"{array.name}_fetch_rule"), arguments, value)


def _subscripts(kernel: LoopKernel, name: str) -> tuple[tuple[Expr, ...], ...]:
    accesses = Footprints.of(kernel).accesses_to(name)
    return tuple(access.index for access in accesses if access.index is not None)


def _with_rule(
    kernel: LoopKernel, rule: SubstitutionRule, name: str, tags: frozenset[Tag], within: Any
) -> LoopKernel:
    """Read an array through a rule, in the instructions that match."""
    test = matcher(kernel, within)
    rules = {**kernel.substitutions, rule.name: rule}
    read = set(kernel.readers.get(name, ()))
    instructions = tuple(
        use_rule(kernel, insn, name, rule, tags) if insn.id in read and test(insn) else insn
        for insn in kernel.instructions
    )
    if not any(rule.name in insn.mentioned for insn in instructions):
        raise NothingSelectedError(
            message(
                f"no read of '{name}' is meant",
                kernel=kernel.name,
                hint="look at within=..., and at tags such as 'name$tag'",
            )
        )
    return kernel.copy(instructions=instructions, substitutions=rules)


def _without_rule(kernel: LoopKernel, rule: SubstitutionRule, name: str) -> LoopKernel:
    """Let the reads that are not fetched read the array again."""
    if rule.name not in kernel.substitutions:
        return kernel
    reader = _ArrayReader(rule.name, name)
    return kernel.copy(
        instructions=tuple(
            insn.with_transformed_expressions(reader.rec) for insn in kernel.instructions
        ),
        substitutions={n: r for n, r in kernel.substitutions.items() if n != rule.name},
    )


class _ArrayReader(IdentityMapper):
    """Replaces the uses of a rule by the elements of an array that they stand for."""

    def __init__(self, rule: str, array: str) -> None:
        super().__init__()
        self.rule = rule
        self.array = array

    def map_variable(self, expr: p.Variable, *args: Any) -> Expr:
        if expr.name != self.rule:
            return expr
        tags = expr.tags if isinstance(expr, TaggedVariable) else frozenset()
        return TaggedVariable(self.array, tags) if tags else p.Variable(self.array)

    map_tagged_variable = map_variable

    def map_call(self, expr: p.Call, *args: Any) -> Expr:
        operands = tuple(self.rec(arg, *args) for arg in expr.parameters)
        function = self.rec(expr.function, *args)
        is_element = function != expr.function
        return subscript(function, operands) if is_element else p.Call(function, operands)


def _valid(array: ArrayBase, rule: SubstitutionRule) -> dict[str, tuple[Expr, ...]]:
    """Return the conditions that the subscripts are inside of a declared shape."""
    if not isinstance(array.shape, tuple):
        return {}
    return {
        argument: (
            p.Comparison(p.Variable(argument), ">=", 0),
            p.Comparison(p.Variable(argument), "<", extent),
        )
        for argument, extent in zip(rule.arguments, array.shape, strict=True)
        if extent is not auto
    }
