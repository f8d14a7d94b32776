"""Prefetching the elements of an array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pymbolic.primitives as p
from pytools.tag import Tag

from kgen.analysis.access import Access, collect_accesses_to
from kgen.analysis.shapes import infer_argument_shapes
from kgen.errors import KernelError, TransformError
from kgen.ir.data import ArrayBase, SubstitutionRule
from kgen.ir.expr import Expr, subscript, tags_of, to_text
from kgen.ir.instruction import CInstruction
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.expressions import parse, read_expression
from kgen.ir.layout import is_open_extent
from kgen.ir.tags import TagLike
from kgen.transforms.array_accesses import Index
from kgen.transforms.expressions.rules import expand_callers
from kgen.transforms.loops.rewrite import in_present_inames
from kgen.transforms.select import (
    NothingSelectedError,
    matcher,
    new_names,
    require_array,
    require_new_name,
    split_names,
    transform,
)
from kgen.transforms.storage.iterations import require_sequential
from kgen.transforms.storage.sites import Values, with_rules_kept
from kgen.transforms.storage.stored_names import Storage
from kgen.transforms.storage.storing import store

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
    temporary_scope: Any = None,
    footprint_subscripts: Any = None,
    fetch_bounding_box: bool = False,
    fetch_outer_inames: str | Iterable[str] | None = None,
    prefetch_insn_id: str | None = None,
    within: Any = None,
    window: str | None = None,
) -> LoopKernel:
    """Fetch elements of an array to a temporary ahead of their use.

    The elements that are read over all values of *sweep_inames* are fetched, by loops over the
    axes of the array with more than one of these elements.

    :arg var_name: the array; ``"a$tag"`` for tagged reads of it, whose new names begin with
        ``a_tag``; or subscripted, such as
        ``"a[:, j]"``, which then defines what to fetch, in current inames or those before
        splitting; only reads within that are replaced
    :arg dim_arg_names: the loops that fetch, one for each axis; ``<array>_dim_<k>`` by default.
        Along an axis of one element there is no loop; the name given here is then an iname
        of one value, which no instruction uses, and which may be tagged or split
    :arg default_tag: the tag of these loops. By default the work-items share them, with strides if
        there are more elements than work-items; ``None`` makes them plain loops.
    :arg rule_name: the prefix of the id of the new instruction; ``<array>_fetch_rule`` by default
    :arg temporary_name: ``<array>_fetch`` by default
    :arg temporary_scope: another name of *temporary_address_space*
    :arg footprint_subscripts: tuples of subscripts that define what to fetch
    :arg fetch_bounding_box: fetch the whole bounding box, if several
        reads together access less. Without it, that is done only for arrays that the kernel
        does not write, if the box is provably inside them; otherwise, conditions exclude
        the corners of a stencil, and holes are rejected.
    :arg fetch_outer_inames: the loops around the fetch; by default those on which the
        subscripts depend and which are not swept
    :arg within: the instructions whose reads are replaced
    :arg window: a sequential loop around the fetch, along which reads move, as in a stencil. Each
        iteration then fetches only elements that the previous one has not read; elements that the
        first iteration shares with later ones are fetched before, in loops called
        ``<loop>_prologue``. Work-items share a cyclic buffer, ``tile[(z + 2) % 4]``;
        up to 64 registers of a work-item shift, ``r[0] = r[1]; r[1] = r[2]; r[2] = a[z + 2]``.

    ::

        for i_outer, i_inner                 for i_outer
          b[16*i_outer + i_inner]     =>       for a_dim_0
            = a[16*i_outer + i_inner]            a_fetch[a_dim_0] = a[16*i_outer + a_dim_0]
                                               end a_dim_0
                                               for i_inner
                                                 b[16*i_outer + i_inner] = a_fetch[i_inner]

    Raises the errors of :func:`precompute`; with *window* also if the reads do not move along one
    axis by a constant, if no element is read in two iterations, and if the loop writes
    elements that are kept.

    Source of windows: P. Micikevicius, 3D finite difference computation on GPUs using CUDA,
    GPGPU-2, 2009.

    >>> from kgen.frontend import make_kernel
    >>> from kgen.transforms.loops.split import split_iname
    >>> knl = split_iname(make_kernel("{ [i]: 0<=i<n }", "b[i] = a[i]"), "i", 16)
    >>> for insn in add_prefetch(knl, "a", "i_inner").default_entrypoint.instructions:
    ...     print(insn)
    a_fetch[a_dim_0] = a[16*i_outer + a_dim_0]  {id=a_fetch_rule}
    b[i_inner + i_outer*16] = a_fetch[i_inner]  {id=insn}
    """
    name, tags, given = _read_variable(var_name)
    array = require_array(kernel, name)
    sweep = split_names(sweep_inames or ())
    if window is not None:
        require_sequential(kernel, window, "the loop of a window")
        if window in sweep:
            raise TransformError(
                f"iname '{window}' is both swept and the loop of the window",
                because="the elements of swept loops are fetched at once",
                hint=f"leave '{window}' out of the sweep inames",
            )
        array = infer_argument_shapes(kernel).array_vars[name]
    if footprint_subscripts is not None:
        given = (*given, *_read_subscripts(footprint_subscripts))
    given = tuple(
        tuple(None if i is None else in_present_inames(kernel, i) for i in subscripts)
        for subscripts in given
    )
    with_rules = kernel
    kernel = expand_callers(kernel, (name,))
    accesses = collect_accesses_to(kernel, name)
    prefix = "_".join((name, *sorted(map(str, tags))))
    arguments = split_names(dim_arg_names or ())
    rule = _rule(kernel, array, rule_name, prefix, arguments, given, accesses)
    valid = _valid(array, rule)
    sites = _sites(kernel, accesses, name, tags, within)
    is_whole = not given and len(sites) == sum(not access.is_write for access in accesses)
    values = Values(
        kernel=kernel,
        rule=rule,
        name=name,
        sites=sites,
        given=given,
        valid=valid,
        has_more=len(valid) == len(rule.arguments) and name not in kernel.writers,
        unexpanded=with_rules_kept(with_rules, kernel) if is_whole else None,
    )
    names = new_names(kernel, (rule.name, *rule.arguments))
    outer = fetch_outer_inames
    storage = Storage(
        sweep=sweep,
        axis_names=arguments,
        temporary=temporary_name or names(f"{prefix}_fetch"),
        outer=None if outer is None else split_names(outer),
        default_tag=default_tag,
        dtype=array.dtype,
        whole_box=fetch_bounding_box,
        address_space=temporary_address_space if temporary_scope is None else temporary_scope,
        insn_id=prefetch_insn_id,
        window=window,
    )
    return store(values, storage)


def _read_variable(given: Any) -> tuple[str, frozenset[Tag], tuple[Index, ...]]:
    """Read ``a``, ``a$tag`` or ``a[:, j]``: name, tags, and the footprint if there is one."""
    expr = parse(given) if isinstance(given, str) else given
    footprints: tuple[Index, ...] = ()
    if isinstance(expr, p.Subscript):
        footprints = _read_subscripts(expr.index_tuple)
        expr = expr.aggregate
    if not isinstance(expr, p.Variable):
        raise TransformError(f"'{to_text(expr)}' is neither an array nor a part of one")
    return expr.name, tags_of(expr), footprints


def _read_subscripts(given: Any) -> tuple[Index, ...]:
    """Read one or several tuples of subscripts; ``None`` stands for a whole axis."""
    if isinstance(given, str):
        given = _parse_subscripts(given)
    items = tuple(given) if isinstance(given, list | tuple) else (given,)
    if items and all(isinstance(item, tuple | list) for item in items):
        return tuple(footprint for item in items for footprint in _read_subscripts(tuple(item)))
    return (tuple(_read_axis(item) for item in items),)


def _parse_subscripts(text: str) -> tuple[Expr, ...]:
    index: tuple[Expr, ...] = parse(f"a[{text}]").index_tuple
    return index


#: The slice ``:``, all of an axis.
_WHOLE: Final = p.Slice((None, None))


def _read_axis(given: Any) -> Expr | None:
    """Read the subscript of one axis; ``None`` for all of it."""
    expr = _parse_subscripts(given) if isinstance(given, str) else (given,)
    if expr[0] is None or (isinstance(expr[0], p.Slice) and expr[0] == _WHOLE):
        return None
    if len(expr) != 1 or isinstance(expr[0], p.Slice):
        raise KernelError(
            f"'{given if isinstance(given, str) else to_text(given)}' in footprint_subscripts is "
            "not a subscript of one axis",
            hint="write an element such as 'j + 1', or ':' for all of the axis",
        )
    return read_expression(expr[0], "subscript of a footprint")


def _rule(
    kernel: LoopKernel,
    array: ArrayBase,
    name: str | None,
    prefix: str,
    arguments: tuple[str, ...],
    given: tuple[Index, ...],
    accesses: Iterable[Access],
) -> SubstitutionRule:
    """Make ``a_fetch_rule(a_dim_0, ...) := a[a_dim_0, ...]``; ``a`` in new names is *prefix*."""
    counts = {
        len(index)
        for index in (*given, *(access.index for access in accesses))
        if index is not None
    }
    if isinstance(array.shape, tuple):
        counts.add(len(array.shape))
    if len(counts) > 1:
        raise TransformError(
            f"array '{array.name}' is used with {min(counts)} and with {max(counts)} subscripts",
            because="the elements to fetch are those of one number of axes",
            hint="write the same number of subscripts in all instructions",
        )
    naxes = max(counts, default=0)
    names = new_names(kernel)
    for argument in arguments:
        names.add_name(require_new_name(kernel, argument))
    made = [names(f"{prefix}_dim_{k}") for k in range(len(arguments), naxes)]
    arguments = (*arguments, *made)[:naxes]
    value = subscript(p.Variable(array.name), tuple(map(p.Variable, arguments)))
    if name is not None:
        require_new_name(kernel, name)
    return SubstitutionRule(name or names(f"{prefix}_fetch_rule"), arguments, value)


def _sites(
    kernel: LoopKernel, accesses: Iterable[Access], name: str, tags: frozenset[Tag], within: Any
) -> tuple[Access, ...]:
    """Return the selected reads."""
    test = matcher(kernel, within)
    sites = tuple(
        access
        for access in accesses
        if not access.is_write
        and access.index is not None
        and tags <= access.tags
        and test(kernel.id_to_insn[access.insn_id])
    )
    if not sites:
        raise _nothing_to_fetch(kernel, accesses, name, tags, within)
    return sites


def _nothing_to_fetch(
    kernel: LoopKernel, accesses: Iterable[Access], name: str, tags: frozenset[Tag], within: Any
) -> NothingSelectedError:
    """Make the error for an array none of whose reads can be fetched."""
    readers = kernel.readers.get(name, ())
    test = matcher(kernel, within)
    chosen = [kernel.id_to_insn[insn_id] for insn_id in readers]
    chosen = [insn for insn in chosen if test(insn)]
    hint = None
    if not readers:
        because = "no instruction reads it"
    elif not chosen:
        because = f"within='{within}' matches none of its readers: {', '.join(readers)}"
        hint = f"leave within out, or write within='id:{readers[0]}'"
    elif isinstance(chosen[0], CInstruction):
        because, hint = "it is read in C code", "write it as an assignment"
    elif any(access.index is None for access in accesses):
        because = "an element is read by its number in storage"
        hint = f"write one subscript for each axis of '{name}' instead of {name}[[...]]"
    else:
        because = f"no read has a tag {', '.join(map(str, sorted(map(str, tags))))}"
        hint = f"leave the tag out, or write {name}$tag[...] in the instruction"
    return NothingSelectedError(
        f"there is no read of '{name}' to prefetch",
        where=f"instruction '{chosen[0]}'" if chosen else None,
        because=because,
        hint=hint,
    )


def _valid(array: ArrayBase, rule: SubstitutionRule) -> dict[str, tuple[Expr, ...]]:
    """Return the conditions for the subscripts to be inside a declared shape."""
    if not isinstance(array.shape, tuple):
        return {}
    return {
        argument: (
            p.Comparison(p.Variable(argument), ">=", 0),
            p.Comparison(p.Variable(argument), "<", extent),
        )
        for argument, extent in zip(rule.arguments, array.shape, strict=True)
        if not is_open_extent(extent)
    }
