"""The loops of a pipeline: prologues over the first tiles, and copies of the loops of fetches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

import pymbolic.primitives as p
from pytools import UniqueNameGenerator
from pytools.tag import Tag

from kgen.analysis.domains import copies_by_home, drop_dims, rename_params
from kgen.ir.affine import simplify
from kgen.ir.data import Iname
from kgen.ir.expr import Expr
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import (
    BasicSet,
    Set,
    dim_names,
    from_named,
    project_out_params,
    project_out_unused_params,
    rename_param,
    to_named,
)
from kgen.ir.sets.domain import as_basic_set
from kgen.ir.sets.partition import disjoint_parts
from kgen.ir.sets.quasi_affine import conditions_of
from kgen.ir.tags import InameImplementationTag, UnrollTag
from kgen.transforms.storage.iterations import at_iteration, later
from kgen.transforms.storage.pipelined_fetches import Fetch

__all__ = ["Tile", "TileLoops"]

#: Loops over the registers of a work-item are unrolled up to this number of registers.
_MAX_UNROLLED: Final = 64


@dataclass(frozen=True)
class Tile:
    """The tile that is fetched in an iteration of a loop whose values are *known*."""

    loop: str
    value: Expr
    known: Set


class TileLoops:
    """Makes the loops that a pipeline adds; collects ``inames``, ``domains`` and ``nests``."""

    def __init__(
        self,
        kernel: LoopKernel,
        loop: str,
        names: UniqueNameGenerator,
        users: Mapping[str, set[str]],
    ) -> None:
        self.kernel, self.loop, self.names, self.users = kernel, loop, names, users
        self.inames: dict[str, Iname] = {}
        self.domains: list[BasicSet] = []
        self.nests: list[tuple[str, ...]] = []
        #: the loops over first tiles made so far, with their tiles and range
        self._first: list[tuple[Set, int, int, list[Tile]]] = []

    def ahead(self, fetch: Fetch, count: int) -> Tile:
        """Return the tile that is *count* ahead of the one that an iteration uses."""
        value = simplify(p.Sum((p.Variable(self.loop), count)))
        return Tile(self.loop, value, fetch.tiles)

    def first(self, fetch: Fetch, skipped: int, count: int) -> list[Tile]:
        """Return tiles *skipped* up to *count* from the start, in new loops."""
        for tiles, *numbers, found in self._first:
            if numbers == [skipped, count] and tiles.is_equal(fetch.tiles):
                return found
        moved = [later(fetch.tiles, self.loop, number) for number in (count, skipped)]
        first = fetch.tiles.subtract(moved[0]).intersect(moved[1])
        found = []
        for part in disjoint_parts(first):
            name = self.names(f"{self.loop}_{'load_' if skipped else ''}prologue")
            values = rename_param(part, self.loop, name)
            self._add_loops({name: frozenset()}, values)
            found.append(Tile(name, p.Variable(name), values))
        self._first.append((fetch.tiles, skipped, count, found))
        return found

    def missing(self, fetch: Fetch, count: int) -> list[str]:
        """Make loops over those of the first *count* tiles that are missing in a short loop."""
        loop, tiles = self.loop, fetch.tiles
        first = tiles.subtract(later(tiles, loop, 1))
        wanted = [later(first, loop, number) for number in range(1, count)]
        found = []
        for missing in (part for one in wanted for part in disjoint_parts(one.subtract(tiles))):
            name = self.names(f"{loop}_none")
            self._add_loops({name: frozenset()}, rename_param(missing, loop, name))
            found.append(str(name))
        return found

    def copies(
        self, fetch: Fetch, tile: Tile, suffix: str
    ) -> tuple[dict[str, str], frozenset[Expr]]:
        """Copy the loops of a fetch for a tile; return the new names by the old ones.

        Also return the conditions for the tile to exist that the loops do not imply.
        """
        kernel = self.kernel
        copies = {name: self._name(fetch, name, suffix) for name in fetch.own}
        known = tile.known
        for home, here in copies_by_home(kernel, copies).items():
            values = self._values(kernel.domains[home], fetch, tile, copies)
            self._add_loops({new: self._tags(fetch, old) for old, new in here.items()}, values)
            known = known.intersect(project_out_params(values, copies.values()))
        self.nests += [
            tuple(copies[name] for name in chain if name in copies)
            for chain in kernel.loop_priority
        ]
        reached = _given(at_iteration(fetch.tiles, self.loop, tile.value), known)
        return copies, frozenset(conditions_of(reached))

    def _values(self, domain: BasicSet, fetch: Fetch, tile: Tile, copies: Mapping[str, str]) -> Set:
        """Return the constraints of a domain on the loops of a fetch, for a tile."""
        outer = [name for name in dim_names(domain) if name not in copies]
        inside = [name for name in outer if name not in fetch.insn.within_inames]
        domain = drop_dims(domain, inside)
        values = at_iteration(to_named(domain), self.loop, tile.value)
        if len(outer) > len(inside):  # enclosing loops imply the constraints without the copies
            values = _given(values, to_named(drop_dims(domain, copies)))
        return rename_params(values, {old: new for old, new in copies.items() if old != new})

    def _name(self, fetch: Fetch, name: str, suffix: str) -> str:
        """Return the name of a copy: the loop's own name if nothing else uses it."""
        if not suffix and self.users[name] == {fetch.insn.id}:
            return name
        return str(self.names(f"{name}_{suffix}" if suffix else name))

    def _tags(self, fetch: Fetch, name: str) -> frozenset[Tag]:
        tags = self.kernel.inames[name].tags
        shape = fetch.registers.shape if fetch.registers else (_MAX_UNROLLED + 1,)
        is_plain = not self.kernel.has_tag(name, InameImplementationTag)
        return tags | {UnrollTag()} if is_plain and prod(shape) <= _MAX_UNROLLED else tags

    def _add_loops(self, tags: Mapping[str, frozenset[Tag]], values: Set) -> None:
        """Add loops with the joint values *values*."""
        domain = as_basic_set(from_named(values.coalesce(), tuple(tags)))
        self.domains.append(project_out_unused_params(domain))
        self.inames.update((name, Iname(name, some)) for name, some in tags.items())


def _given(values: Set, known: Set) -> Set:
    """Drop known constraints, unless the set is then empty: isl's gist may lose constraints."""
    return values if values.is_disjoint(known) else values.gist(known)
