"""Splitting a loop into two, and joining loops into one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pymbolic.primitives as p

from kgen.analysis.domains import AffineRow, domains_without, set_where
from kgen.errors import TransformError
from kgen.ir.affine import simplify
from kgen.ir.expr import Expr, is_zero, to_text
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import BasicSet, param_names, project_out_params, to_named
from kgen.ir.sets.domain import as_basic_set, keep_dims
from kgen.ir.sets.loop_range import LoopRange
from kgen.ir.tags import AutoFitLocalInameTag, InameImplementationTag, TagLike, parse_tag
from kgen.transforms.loops.rewrite import Replacement, Selection, replace_in_domains, replace_inames
from kgen.transforms.loops.tag import add_tags
from kgen.transforms.select import (
    matcher,
    new_names,
    require_iname,
    require_inames,
    require_new_name,
    transform,
)

__all__ = ["chunk_iname", "is_box", "join_inames", "positive_integer", "split_iname"]


@transform
def split_iname(
    kernel: LoopKernel,
    split_iname: str,
    inner_length: Any,
    *,
    outer_iname: str | None = None,
    inner_iname: str | None = None,
    outer_tag: TagLike = None,
    inner_tag: TagLike = None,
    slabs: Sequence[int] = (0, 0),
    do_tagged_check: bool = True,
    within: Any = None,
) -> LoopKernel:
    """Split a loop into pieces of a fixed length: ``old = inner + inner_length*outer``.

    :arg outer_iname: the new names are ``<old>_outer`` and ``<old>_inner`` by default;
        neither inherits the tags of the old iname
    :arg slabs: how many first and last iterations of the outer loop get their own code,
        so that the others need no bounds checks
    :arg do_tagged_check: reject splitting a loop that has an implementation tag, except ``l.auto``,
        which other tags replace
    :arg within: split for the instructions that match; the others keep the old loop

    ::

        for i             =>  for i_outer, i_inner
          a[i] = 0              a[i_inner + i_outer*16] = 0

    Raises :class:`TransformError` for a length that is not a positive integer: the bounds
    of the new loops would not be affine.

    >>> from kgen.frontend import make_kernel
    >>> knl = split_iname(make_kernel("{ [i]: 0<=i<n }", "a[i] = 0"), "i", 16)
    >>> print(knl.default_entrypoint.instructions[0])
    a[i_inner + i_outer*16] = 0  {id=insn}
    """
    length = positive_integer(inner_length, "inner_length", split_iname)
    names = _new_pair(kernel, split_iname, outer_iname, inner_iname, do_tagged_check)
    tags = (outer_tag, inner_tag)
    return _split(kernel, split_iname, names, tags, range(length), slabs, within, limit_outer=None)


@transform
def chunk_iname(
    kernel: LoopKernel,
    split_iname: str,
    num_chunks: int,
    outer_iname: str | None = None,
    inner_iname: str | None = None,
    outer_tag: TagLike = None,
    inner_tag: TagLike = None,
    slabs: Sequence[int] = (0, 0),
    do_tagged_check: bool = True,
    within: Any = None,
) -> LoopKernel:
    """Split a loop into a given number of pieces, whose lengths differ by at most one.

    The arguments are those of :func:`split_iname`. For ``n`` iterations, the first ``n % count``
    pieces have one more than the others.

    ::

        for i  {0<=i<64}  =>  for i_outer, i_inner   {0<=i_outer<4, 0<=i_inner<16}
          a[i] = 0              a[i_inner + i_outer*16] = 0

    If the trip count is a parameter, a piece starts at the sum of the lengths of the pieces
    before it, with as many terms. If bounds of other loops depend on this one,
    or it is strided, all pieces have the same length, except shorter or empty last ones.

    Raises :class:`TransformError` for such loops if the trip count is not constant:
    the bounds of the other loops would not be affine.

    >>> from kgen.frontend import make_kernel
    >>> knl = chunk_iname(make_kernel("{ [i]: 0<=i<64 }", "a[i] = 0"), "i", 4)
    >>> print(knl.default_entrypoint.instructions[0])
    a[i_inner + i_outer*16] = 0  {id=insn}
    >>> knl = chunk_iname(make_kernel("{ [i]: 0<=i<n }", "a[i] = 0"), "i", 2)
    >>> print(knl.default_entrypoint.instructions[0])
    a[i_inner + ((n + 1) // 2 if i_outer >= 1 else 0)] = 0  {id=insn}
    """
    count = positive_integer(num_chunks, "num_chunks", split_iname)
    names = _new_pair(kernel, split_iname, outer_iname, inner_iname, do_tagged_check)
    tags = (outer_tag, inner_tag)
    bounds = kernel.get_iname_bounds(split_iname)
    is_even = isinstance(bounds.extent, int) and bounds.extent % count == 0
    if not is_even and is_box(kernel, split_iname, bounds):
        return _split_evenly(kernel, split_iname, names, tags, bounds, count, slabs, within)
    bounds = _constant_bounds(
        kernel,
        split_iname,
        f"{count} chunks",
        f"split_iname(kernel, '{split_iname}', length) needs no constant bounds",
    )
    chunk = range(bounds.lower, bounds.lower + max(-(-bounds.extent // count), 1))
    return _split(kernel, split_iname, names, tags, chunk, slabs, within, limit_outer=count)


def is_box(kernel: LoopKernel, iname: str, bounds: LoopRange) -> bool:
    """Tell whether a loop takes all values between its bounds, independently of other loops."""
    if any(iname in param_names(domain) for domain in kernel.domains):
        return False
    var = p.Variable(iname)
    end = p.Sum((bounds.lower, bounds.extent))
    between = (p.Comparison(var, ">=", bounds.lower), p.Comparison(var, "<", end))
    own = to_named(set_where((iname,), between))
    whole = to_named(kernel.domains[kernel.home_domain[iname]])
    if whole.is_empty():  # which has no bounds to be between
        return False
    apart = project_out_params(whole, (iname,)).intersect(own)
    assumed = kernel.assumptions
    return bool(apart.intersect_params(assumed).is_equal(whole.intersect_params(assumed)))


#: Chunks of a loop whose length is a parameter: code has a condition for each.
_MOST_CHUNKS = 1024


def _split_evenly(
    kernel: LoopKernel,
    old: str,
    names: tuple[str, str],
    tags: tuple[TagLike, TagLike],
    bounds: LoopRange,
    count: int,
    slabs: Sequence[int],
    within: Any,
) -> LoopKernel:
    """Make ``old = lower + inner + start(outer)``, for lengths that differ by one at most."""
    outer, inner = map(p.Variable, names)
    starts = _starts_of_chunks(old, outer, bounds.extent, count)
    change = Replacement({old: p.Sum((inner, *starts, *_nonzero(bounds.lower)))}, names)
    box = _values_of_chunks(kernel, old, names, bounds.extent, count)

    def new_domains(select: Selection) -> tuple[BasicSet, ...]:
        home = kernel.home_domain[old]
        rest = kernel.domains[home : home + 1]
        if old not in select.kept:
            rest = domains_without(kernel.domains[home], (old,))
        return (*kernel.domains[:home], *rest, box, *kernel.domains[home + 1 :])

    result = replace_inames(kernel, change, matcher(kernel, within), new_domains=new_domains)
    return _finish(result, names, tags, slabs)


def _starts_of_chunks(old: str, outer: p.Variable, extent: Expr, count: int) -> tuple[Expr, ...]:
    """Return the terms of the number of iterations that are before the chunk *outer*."""
    if isinstance(extent, int):
        length, longer = divmod(extent, count)
        return *((_times(outer, length),) if length else ()), p.Min((outer, longer))
    if count > _MOST_CHUNKS:
        raise TransformError(
            f"'{old}' has {extent} iterations, which {count} chunks cannot share evenly",
            because="the start of each chunk is a sum with a term for each of them",
            hint=f"use at most {_MOST_CHUNKS} chunks, or fix_parameters(kernel, ...) first",
        )
    return tuple(  # the lengths of those before
        p.If(
            p.Comparison(outer, ">=", chunk),
            p.FloorDiv(simplify(p.Sum((extent, count - chunk))), count),
            0,
        )
        for chunk in range(1, count)
    )


def _values_of_chunks(
    kernel: LoopKernel, old: str, names: tuple[str, str], extent: Expr, count: int
) -> BasicSet:
    """Return the values of the two new loops in the domain of the old one."""
    outer, inner = map(p.Variable, names)
    last = p.Sum((p.Product((count, inner)), outer))
    own = set_where(
        names,
        (
            p.Comparison(outer, ">=", 0),
            p.Comparison(outer, "<", count),
            p.Comparison(inner, ">=", 0),
            p.Comparison(last, "<", extent),
        ),
    )
    # what it takes for the loop to run: of parameters, and of loops that its bounds name
    sizes = keep_dims(kernel.domains[kernel.home_domain[old]], (old,)).params()
    within_sizes = own.intersect_params(sizes)
    return as_basic_set(own if own.is_subset(within_sizes) else within_sizes)


def _new_pair(
    kernel: LoopKernel, old: str, outer: str | None, inner: str | None, check_tags: bool
) -> tuple[str, str]:
    """Return the names of the two new loops, outer and inner, or raise an error."""
    iname = require_iname(kernel, old)
    tags = [
        tag
        for tag in iname.tags
        if isinstance(tag, InameImplementationTag) and not isinstance(tag, AutoFitLocalInameTag)
    ]
    if check_tags and tags:
        raise TransformError(
            f"iname '{old}' cannot be split, since it is implemented as '{tags[0]}'",
            hint="split first and tag the new inames, or pass do_tagged_check=False",
        )
    names = new_names(kernel)
    outer = require_new_name(kernel, outer) if outer else names(f"{old}_outer")
    inner = require_new_name(kernel, inner) if inner else names(f"{old}_inner")
    if outer == inner:
        raise TransformError(f"both new inames are called '{outer}'")
    return outer, inner


def _split(
    kernel: LoopKernel,
    old: str,
    names: tuple[str, str],
    tags: tuple[TagLike, TagLike],
    chunk: range,
    slabs: Sequence[int],
    within: Any,
    *,
    limit_outer: int | None,
) -> LoopKernel:
    """Make ``old = lower + inner + length*outer``; *limit_outer* bounds the outer loop."""
    outer, inner = names
    length = len(chunk)
    positive: list[AffineRow] = [{inner: 1}, {inner: -1, 1: length - 1}]
    if limit_outer is not None:
        positive += [{outer: 1}, {outer: -1, 1: limit_outer - 1}]
    value = p.Sum((p.Variable(inner), _times(p.Variable(outer), length), *_nonzero(chunk.start)))
    change = Replacement({old: value}, names)
    new_domains = partial(replace_in_domains, kernel, change, positive=positive)
    result = replace_inames(kernel, change, matcher(kernel, within), new_domains=new_domains)
    return _finish(result, names, tags, slabs)


def _finish(
    kernel: LoopKernel,
    names: tuple[str, str],
    tags: tuple[TagLike, TagLike],
    slabs: Sequence[int],
) -> LoopKernel:
    """Set the slabs and tags of the two new loops."""
    slab = _read_slabs(slabs)
    if slab != (0, 0):
        kernel = kernel.copy(iname_slab_increments={**kernel.iname_slab_increments, names[0]: slab})
    return add_tags(kernel, {name: [parse_tag(tag)] for name, tag in zip(names, tags, strict=True)})


def _times(expr: Expr, factor: int) -> Expr:
    return expr if factor == 1 else p.Product((expr, factor))


def _nonzero(expr: Expr) -> tuple[Expr, ...]:
    return () if is_zero(expr) else (expr,)


def _read_slabs(slabs: Any) -> tuple[int, int]:
    first, last = slabs if isinstance(slabs, tuple | list) and len(slabs) == 2 else (-1, -1)
    if first < 0 or last < 0:
        raise TransformError(
            f"slabs={slabs} is not two numbers of iterations",
            hint="slabs=(0, 1) separates the last iteration of the outer loop",
        )
    return first, last


#: What a loop variable of the usual type counts to.
_MOST_ITERATIONS: Final = 2**31 - 1


def positive_integer(value: Any, what: str, iname: str) -> int:
    """Return the length of a piece of a loop; raise an error for what is none."""
    is_number = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if is_number and 0 < value <= _MOST_ITERATIONS:
        return int(value)
    shown = to_text(value) if isinstance(value, p.ExpressionNode) else repr(value)
    names_parameter = isinstance(value, p.ExpressionNode) or (
        isinstance(value, str) and value.isidentifier()
    )
    raise TransformError(
        f"{what}={shown} is not a fixed integer from 1 to 2**31 - 1",
        because=f"the bounds of the loops that '{iname}' is split into would not be affine"
        if names_parameter
        else None,
        hint="fix_parameters(kernel, ...) makes a parameter a number"
        if names_parameter
        else f"pass a number, such as {what}=16",
    )


def _constant_bounds(kernel: LoopKernel, iname: str, purpose: str, other: str) -> LoopRange:
    bounds = kernel.get_iname_bounds(iname)
    if bounds.is_constant:
        return bounds
    raise TransformError(
        f"iname '{iname}' has no constant number of iterations for {purpose}",
        because=f"it runs over {kernel.domain_of((iname,))}",
        hint=f"fix_parameters(kernel, ...) makes a parameter a number; {other}",
    )


@transform
def join_inames(
    kernel: LoopKernel,
    inames: str | Sequence[str],
    new_iname: str | None = None,
    tag: TagLike = None,
    within: Any = None,
) -> LoopKernel:
    """Collapse loops: ``new = i*length(j) + j`` for ``join_inames(kernel, "i,j")``.

    :arg inames: the fastest varying last; all but the first need constant bounds; a single one
        gets a new name
    :arg new_iname: ``<j>_and_<i>`` by default
    :arg within: join for the instructions that match; the others keep the old loops

    ::

        for i, j  {0<=i<n, 0<=j<8}  =>  for j_and_i   {0<=j_and_i<8*n}
          a[i, j] = 0                     a[j_and_i // 8, j_and_i % 8] = 0

    Raises :class:`TransformError` for an instruction inside some but not all of them, and for
    bounds that are not constant: the bound of the new loop would be a product of parameters, which
    is not affine.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i,j]: 0<=i<n and 0<=j<8 }", "a[i,j] = 0")
    >>> print(join_inames(knl, "i,j").default_entrypoint.instructions[0])
    a[j_and_i // 8, j_and_i % 8] = 0  {id=insn}
    """
    names = require_inames(kernel, inames)
    if not names:
        raise TransformError("no inames to join", hint="join_inames(kernel, ['i', 'j'])")
    taken = new_names(kernel)
    new = require_new_name(kernel, new_iname) if new_iname else taken("_and_".join(reversed(names)))
    values: dict[str, Expr] = {}
    stride = 1
    for name in reversed(names[1:]):
        bounds = _constant_bounds(
            kernel,
            name,
            f"joining it with '{names[0]}'",
            f"keep the loops separate, and tag each: tag_inames(kernel, {{'{names[0]}': 'g.0', "
            f"'{name}': 'g.1'}})",
        )
        digit: Expr = p.Variable(new) if stride == 1 else p.FloorDiv(p.Variable(new), stride)
        digit = p.Remainder(digit, bounds.extent)
        values[name] = digit if not bounds.lower else p.Sum((digit, bounds.lower))
        stride *= max(bounds.extent, 1)
    values[names[0]] = p.FloorDiv(p.Variable(new), stride) if stride > 1 else p.Variable(new)
    change = Replacement({name: values[name] for name in names}, (new,))
    result = replace_inames(kernel, change, matcher(kernel, within))
    return add_tags(result, {new: [parse_tag(tag)]})
