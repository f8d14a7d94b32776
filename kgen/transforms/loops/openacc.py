"""OpenACC's gangs, workers and vectors, with lengths that are given separately."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from kgen.errors import TransformError, near_names
from kgen.ir.kernel import LoopKernel
from kgen.transforms.loops.split import join_inames, split_iname
from kgen.transforms.loops.tag import tag_inames
from kgen.transforms.select import require_inames, transform

__all__ = ["parallelize"]

#: The levels of each loop, or of several: ``{"i": "gang worker", ("j", "k"): "vector(64)"}``.
Levels: TypeAlias = Mapping[Any, str | Iterable[str]]

#: From the outermost, as OpenACC nests them.
_LEVELS = ("gang", "worker", "vector")
_GROUP_AXES = 3
_CLAUSE = re.compile(r"\s*(\w+)\s*(?:\(\s*(\d+)\s*\))?\s*[,\s]?")


@transform
def parallelize(
    kernel: LoopKernel,
    levels: Levels,
    *,
    num_gangs: int | None = None,
    num_workers: int = 4,
    vector_length: int = 128,
) -> LoopKernel:
    """Distribute loops over gangs (work-groups), workers and vectors (work-items).

    :arg levels: the levels of each loop, of ``gang``, ``worker``, ``vector``, or ``seq``. A
        level may have a length, ``vector(64)``. Several loops, ``"i, j"`` or
        ``("i", "j")``, the fastest varying last, are collapsed into one, if all but the first
        have constant bounds
    :arg num_gangs: the number of work-groups; by default as many as there is work for
    :arg num_workers: work-items along the axis ``l.1``
    :arg vector_length: work-items along the axis ``l.0``, whose work-items are adjacent

    A loop of several levels is split: for ``gang worker vector`` its pieces are ``i_gang``
    (``g.0``), ``i_worker`` (``l.1``) and ``i_vector`` (``l.0``). If a level has fewer
    instances than iterations, the plain loop ``i_turn`` runs the rest. A loop with a constant
    length of at most that of its only level is not split, and keeps its name.

    If the bounds of collapsed loops are not constant, each loop but the last takes an axis of gangs
    (``g.0``, ``g.1``), and the last one takes all levels, so no index is divided. A triangle
    takes the gangs of its bounding box.
    With ``num_gangs``, the first loop is distributed cyclically over the gangs.

    ::

        for i                  {"i": "gang vector"}      for i_gang (g.0), i_vector (l.0)
          a[i] = 0                     =>                  a[i_vector + i_gang*128] = 0

        for i                  {"i": "gang", "j": "vector"},      for i (g.0), j_turn, j_vector
          for j                   vector_length=32                  ... j_vector + j_turn*32
            ...                        =>

    Raises :class:`TransformError` for unknown levels, ``seq`` with other levels, and loops
    of one instruction on the same level.

    >>> from kgen.frontend import make_kernel
    >>> knl = parallelize(make_kernel("{ [i]: 0<=i<n }", "a[i] = 0"), {"i": "gang vector"})
    >>> print(knl.default_entrypoint.instructions[0])
    a[i_vector + i_gang*128] = 0  {id=insn}
    """
    default = {"gang": num_gangs, "worker": num_workers, "vector": vector_length}
    _check_lengths(default)
    loops: list[tuple[tuple[str, ...], dict[str, int | None]]] = []
    for names, text in levels.items():
        clauses = _read_clauses(names, text)
        lengths = {level: n or default.get(level) for level, n in clauses.items()}
        loops.append((_require_loops(kernel, names), lengths))
    for inames, lengths in loops:
        kernel = _spread(kernel, inames, lengths)
    return kernel


def _require_loops(kernel: LoopKernel, names: str | Iterable[str]) -> tuple[str, ...]:
    loops = require_inames(kernel, names)
    if not loops:
        raise TransformError(f"{names!r} names no loop", hint=f"loops: {', '.join(kernel.inames)}")
    return loops


def _read_clauses(names: object, given: str | Iterable[str]) -> dict[str, int | None]:
    """Read ``gang worker(4)``: levels, with their lengths if given."""
    text = given if isinstance(given, str) else " ".join(given)
    clauses: dict[str, int | None] = {}
    at = 0
    while at < len(text.rstrip()):
        found = _CLAUSE.match(text, at)
        level = found[1] if found else text[at:].strip()
        if not found or level not in (*_LEVELS, "seq"):
            raise TransformError(
                f"'{level}' is not a level of loops",
                because=f"{names!r} has '{text}'",
                hint=near_names(level, (*_LEVELS, "seq")),
            )
        if level in clauses:
            raise TransformError(f"'{text}' names the level '{level}' twice")
        clauses[level] = int(found[2]) if found[2] else None
        if clauses[level] == 0:
            raise TransformError(f"the length in '{text}' is 0, and has to be positive")
        at = found.end()
    if "seq" in clauses and (len(clauses) > 1 or clauses["seq"] is not None):
        raise TransformError(f"'{text}': a loop that is 'seq' has no other level, and no length")
    if not clauses:
        raise TransformError(f"there is no level for {names!r}", hint="'seq' is a plain loop")
    return clauses


def _check_lengths(lengths: Mapping[str, Any]) -> None:
    argument = {"gang": "num_gangs", "worker": "num_workers", "vector": "vector_length"}
    for level, length in lengths.items():
        if length is None and level == "gang":
            continue
        if not isinstance(length, int) or isinstance(length, bool) or length < 1:
            raise TransformError(f"{argument[level]}={length!r} is not a positive number")


def _spread(
    kernel: LoopKernel, names: Sequence[str], clauses: Mapping[str, int | None]
) -> LoopKernel:
    """Collapse loops, and split the ones that there are then into their levels.

    *clauses* has the lengths of the levels that are wanted; ``None`` for as many gangs as there
    is work for.
    """
    name = names[-1]
    first = _first_to_join(kernel, names)
    if len(names) > first + 1:
        name = "_and_".join(reversed(names[first:]))
        kernel = join_inames(kernel, names[first:], name)
    apart = names[:first]
    if apart and clauses.get("gang", 0) is None:
        # gangs along axes of their own; the last one is for those of the last loop
        axes = range(len(apart))[: _GROUP_AXES - 1]
        kernel = tag_inames(kernel, {apart[axis]: f"g.{axis}" for axis in axes})
        return _split_levels(kernel, name, clauses, f"g.{len(axes)}")
    if apart and "gang" in clauses:
        kernel = _split_levels(kernel, apart[0], {"gang": clauses["gang"]}, "gang")
        clauses = {level: n for level, n in clauses.items() if level != "gang"}
    return _split_levels(kernel, name, clauses, "gang") if clauses else kernel


def _first_to_join(kernel: LoopKernel, names: Sequence[str]) -> int:
    """Return the first loop that can be joined: all later ones have constant bounds."""
    first = len(names) - 1
    while first and _extent(kernel, names[first]) is not None:
        first -= 1
    return first


def _split_levels(
    kernel: LoopKernel, name: str, clauses: Mapping[str, int | None], gang: str
) -> LoopKernel:
    """Split one loop into its levels; the loop over gangs is tagged *gang*."""
    tags = {**{level: level for level in _LEVELS}, "gang": gang}
    levels = [level for level in _LEVELS if level in clauses]
    if len(levels) == 1 and _fits(kernel, name, clauses[levels[0]]):
        return tag_inames(kernel, {name: tags[levels[0]]})
    rest = name
    for level in reversed(levels):
        length = clauses[level]
        if length is None:
            return tag_inames(kernel, {rest: tags[level]})
        outer = None  # a name for as long as it is not split itself
        if level == levels[0]:
            outer = f"{name}_turn"
        elif level == levels[1] and levels[0] == "gang" and clauses["gang"] is None:
            outer = f"{name}_gang"
        inner = f"{name}_{level}"
        kernel = split_iname(
            kernel, rest, length, outer_iname=outer, inner_iname=inner, inner_tag=tags[level]
        )
        rest = outer or f"{rest}_outer"
    return kernel


def _fits(kernel: LoopKernel, name: str, length: int | None) -> bool:
    """Tell whether all iterations of a loop are run at once."""
    extent = _extent(kernel, name)
    return length is None or (extent is not None and extent <= length)


def _extent(kernel: LoopKernel, name: str) -> int | None:
    """Return the trip count of a loop if it is constant, else ``None``."""
    bounds = kernel.get_iname_bounds(name)
    return int(bounds.extent) if bounds.is_constant else None
