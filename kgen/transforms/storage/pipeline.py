"""Software pipelining: tiles that a sequential loop fetches iterations ahead of their use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final, NamedTuple

import pymbolic.primitives as p

from kgen.analysis.ahead import check_ahead, rejected
from kgen.analysis.domains import domains_without
from kgen.errors import TransformError
from kgen.ir.affine import simplify
from kgen.ir.assignee import index_of
from kgen.ir.expr import Expr, subscript, substitute, to_text
from kgen.ir.instruction import Assignment, InstructionBase, NoOpInstruction
from kgen.ir.kernel import LoopKernel
from kgen.ir.ordered_set import OrderedSet
from kgen.ir.sets.dims import project_out_unused_params
from kgen.ir.tags import (
    ConcurrentTag,
    CopyCommitTag,
    CopyWaitTag,
    InameImplementationTag,
    LocalInameTagBase,
)
from kgen.transforms.array_accesses import ArrayAccessMapper, Index, reject_bounds
from kgen.transforms.expressions.rules import expand_expression
from kgen.transforms.select import new_names, transform
from kgen.transforms.storage.async_copies import of_all_items, with_axes_assigned, without_waits
from kgen.transforms.storage.iterations import require_sequential
from kgen.transforms.storage.pipelined_fetches import (
    Fetch,
    fetches_of,
    fills_of,
    find_fetches,
    users_of,
)
from kgen.transforms.storage.pipelined_tiles import Tile, TileLoops
from kgen.transforms.storage.stages import Buffers, Planes, Stages, planes_of

__all__ = ["pipeline"]


#: The maximum number of buffers of a temporary, more than fit in any on-chip memory.
_MOST_STAGES: Final = 1024


@transform
def pipeline(
    kernel: LoopKernel,
    loop: str,
    stages: int = 2,
    fetches: str | Iterable[str] | None = None,
    *,
    ahead: int | None = None,
) -> LoopKernel:
    """Fetch tiles of a sequential loop iterations ahead of their use: software pipelining.

    Each temporary gets an axis of *stages* buffers, ``tile[loop % stages]``. The first *ahead*
    tiles are fetched before the loop; each iteration fetches the tile that is used *ahead*
    iterations later, if there is one, and needs one barrier. If work-items share the tiles, an
    iteration stores the tile that the previous iteration loaded to registers, and loads the next
    one before it computes, so that loads overlap with computation.

    :arg loop: a sequential loop without gaps between its iterations, possibly of a reduction. It
        may have any number of iterations, even fewer than *stages*.
    :arg stages: the number of buffers; 1 leaves the kernel unchanged
    :arg fetches: temporaries that are filled in the loop, as by :func:`add_prefetch`, or
        the instructions that fill them; by default all those that can be filled ahead. A window
        (``add_prefetch(..., window=loop)``) gets more planes instead of an axis of buffers
    :arg ahead: how many iterations ahead tiles are fetched, ``stages - 1`` by default. With fewer,
        products of warpgroups (:func:`tensorize`) continue until those of the next iteration begin

    ::

        for k                              for k_prologue                # 0, 1
          t[x] = a[k, x]                     t[k_prologue, x] = a[k_prologue, x]
          b[k] = f(t)                      r = a[2, x]
        end k                              for k
                                    =>       t[(k + 2) % 3, x] = r       # while k + 2 < n
        pipeline(knl, "k", 3, "t")           r = a[k + 3, x]             # while k + 3 < n
                                             b[k] = f(t[k % 3])
                                           end k

    The loops that fetch are assigned to axes of work-items now, depending on the tags of other
    loops: tag those first. New names end in ``_prologue`` and ``_load``; the registers are
    called ``<temporary>_ahead``. There are loads and registers only on targets with work-items.

    Raises :class:`TransformError` for a loop that is parallel or has gaps, for a temporary that is
    also written elsewhere, or read outside the loop or before it is filled, and, with two
    iterations as an example, if the loop writes fetched elements.

    Source: M. Lam, Software Pipelining, PLDI 1988, for prologue, steady state and epilogue, and for
    the copies of variables that different iterations have in use.

    >>> from kgen.frontend import make_kernel
    >>> from kgen.transforms.storage.prefetch import add_prefetch
    >>> knl = make_kernel("{ [k,i]: 0<=k<n and 0<=i<16 }", "b[k, i] = a[k, i]*a[k, 15-i]")
    >>> knl = add_prefetch(knl, "a", "i", ["row", "x"], default_tag=None)
    >>> for insn in pipeline(knl, "k", 2).default_entrypoint.instructions:
    ...     print(insn)
    a_fetch[k_prologue % 2, x_prologue] = a[k_prologue, x_prologue]  {id=a_fetch_rule_prologue}
    a_fetch[(k + 1) % 2, x] = a[k + 1, x]  {id=a_fetch_rule}
    b[k, i] = a_fetch[k % 2, i]*a_fetch[k % 2, 15 - i]  {id=insn}
    """
    require_sequential(kernel, loop, "pipelined")
    if not 1 <= stages <= _MOST_STAGES:
        raise TransformError(
            f"a pipeline has from one to {_MOST_STAGES} stages, not {stages}", hint="stages=2"
        )
    plain = without_waits(kernel, kernel.temporary_variables)
    chosen = find_fetches(plain, loop, fetches)
    if stages == 1:
        return kernel
    if ahead is None:
        ahead = stages - 1
    if not 1 <= ahead < stages:
        raise TransformError(
            f"with {stages} stages, tiles can be fetched 1 to {stages - 1} iterations ahead, not "
            f"{ahead}",
            hint=f"ahead={stages - 1}",
        )
    kernel = without_waits(kernel, chosen)
    fills = [insn for name in chosen for insn in fills_of(kernel, loop, name)]
    return _Pipeline(with_axes_assigned(kernel, fills), loop, stages, ahead, chosen).result()


class _Commits(NamedTuple):
    """The instructions that commit groups of copies, before the loop and in it."""

    before: list[InstructionBase]
    steady: list[InstructionBase]


class _Pipeline:
    """Moves the instructions that fill temporaries to earlier iterations of a loop."""

    def __init__(
        self, kernel: LoopKernel, loop: str, stages: int, ahead: int, arrays: Sequence[str]
    ) -> None:
        self.kernel, self.loop, self.tiles_ahead = kernel, loop, ahead
        names = new_names(kernel)
        self.ids = kernel.get_instruction_id_generator()
        self.users = users_of(kernel)
        self.fetches = fetches_of(kernel, loop, arrays, names)
        self.buffers = {name: _buffers_of(kernel, loop, name, stages) for name in arrays}
        #: how many iterations ahead the loop reads each tile from memory
        self.ahead = {name: ahead + bool(f.registers) for name, f in self.fetches.items()}
        self.tiles = TileLoops(kernel, loop, names, self.users)
        #: by instruction, maps from the fetch's loops to their copies that access the registers
        self.copies: dict[str, list[Mapping[str, str]]] = {}
        #: the instructions that fetch the first tiles, and the later ones, by original instruction
        self.before: dict[str, list[Assignment]] = {}
        self.steady: dict[str, list[Assignment]] = {}

    def result(self) -> LoopKernel:
        """Return the kernel with a prologue, and with fetches of later tiles in the loop."""
        windows = {n: b.axis for n, b in self.buffers.items() if isinstance(b, Planes)}
        check_ahead(self.kernel, self.loop, self.ahead, windows)
        for insn_id, fetch in self.fetches.items():
            self.before[insn_id], self.steady[insn_id] = self._prologue_and_steady(fetch)
        result = self._assembled(self._commits())
        for fetch in self.fetches.values():
            if fetch.registers is not None or fetch.is_async:
                self._check_items(result, fetch)
        return result

    def _prologue_and_steady(self, fetch: Fetch) -> tuple[list[Assignment], list[Assignment]]:
        """Return the fetches of the first tiles before the loop, and of later ones in it."""
        ahead, tiles = self.tiles_ahead, self.tiles
        before = [self._copy(fetch, tile, "prologue") for tile in tiles.first(fetch, 0, ahead)]
        if fetch.is_async:
            return before, [self._wait(fetch), self._copy(fetch, tiles.ahead(fetch, ahead))]
        if fetch.registers is None:
            return before, [self._copy(fetch, tiles.ahead(fetch, ahead))]
        then = tiles.first(fetch, ahead, ahead + 1)
        before += [self._load(fetch, tile, "load_prologue") for tile in then]
        load = self._load(fetch, tiles.ahead(fetch, ahead + 1), "load")
        return before, [self._store(fetch, tiles.ahead(fetch, ahead)), load]

    def _check_items(self, kernel: LoopKernel, fetch: Fetch) -> None:
        """Reject work-item loops whose lower bounds differ between the loaded and stored tile.

        Otherwise, a work-item would store elements that another one loaded.
        """
        for name in (n for n in fetch.own if self.kernel.has_tag(n, LocalInameTagBase)):
            starts = {
                to_text(kernel.get_iname_bounds(copies[name]).lower)
                for copies in self.copies[str(fetch.insn.id)]
            }
            if len(starts) > 1:
                raise rejected(
                    self.loop,
                    fetch.array,
                    f"loop '{name}' over work-items starts at {' or '.join(sorted(starts))}, "
                    "depending on the tile, but a work-item keeps its loaded elements in its own "
                    "registers",
                    fetch.insn,
                    f"let '{name}' start at the same number for all '{self.loop}', and put the "
                    "rest into a condition",
                )

    # -- instructions -----------------------------------------------------------------------------

    def _copy(self, fetch: Fetch, tile: Tile, suffix: str = "") -> Assignment:
        """Return the instruction that fetches a tile to its buffer."""
        return self._in_tile(fetch, tile, suffix, self._buffer(fetch), fetch.insn.expression)

    def _store(self, fetch: Fetch, tile: Tile) -> Assignment:
        """Return the instruction that stores a tile from registers to its buffer."""
        return self._in_tile(fetch, tile, "", self._buffer(fetch), self._registers(fetch))

    def _load(self, fetch: Fetch, tile: Tile, suffix: str) -> Assignment:
        """Return the instruction that loads a tile to registers."""
        return self._in_tile(fetch, tile, suffix, self._registers(fetch), fetch.insn.expression)

    # -- asynchronous copies ----------------------------------------------------------------------

    def _wait(self, fetch: Fetch) -> Assignment:
        """Return the wait for the copies of the tile that an iteration uses."""
        buffer = self._buffer(fetch)
        wait = self._in_tile(fetch, self.tiles.ahead(fetch, 0), "wait", buffer, buffer)
        return wait.copy(tags=frozenset((CopyWaitTag(self.tiles_ahead - 1),)))

    def _commits(self) -> _Commits:
        """Return the commits of groups of copies before the loop, and in each iteration.

        Before the loop there are always *ahead* groups, even if the loop has fewer iterations.
        """
        fetches = [fetch for fetch in self.fetches.values() if fetch.is_async]
        if not fetches:
            return _Commits([], [])
        inames = [f.insn.within_inames.difference(f.own, (self.loop,)) for f in fetches]
        loops = [{n for n in each if not self.kernel.has_tag(n, ConcurrentTag)} for each in inames]
        for fetch, mine in zip(fetches, loops, strict=True):
            if mine != loops[0] or not fetch.tiles.is_equal(fetches[0].tiles):
                because = (
                    f"'{fetches[0].insn.id}' runs in other iterations, but both belong to one group"
                )
                raise rejected(self.loop, fetch.array, because, fetch.insn)
        around = of_all_items(self.kernel, frozenset[str]().union(*inames))
        copied = {str(i.id) for fetch in fetches for i in self.before[str(fetch.insn.id)]}
        first = self.tiles.first(fetches[0], 0, self.tiles_ahead)
        before = [self._commit(around | {tile.loop}, copied) for tile in first]
        before += [
            self._commit(around | {name}, copied.union(str(i.id) for i in before))
            for name in self.tiles.missing(fetches[0], self.tiles_ahead)
        ]
        steady = {str(self.steady[str(fetch.insn.id)][-1].id) for fetch in fetches}
        return _Commits(before, [self._commit(around | {self.loop}, steady)])

    def _commit(self, inames: frozenset[str], after: Iterable[str]) -> InstructionBase:
        return NoOpInstruction(
            self.ids("commit"),
            within_inames=inames,
            within_inames_is_final=True,
            depends_on=frozenset(after),
            tags=frozenset((CopyCommitTag(),)),
        )

    # -- registers --------------------------------------------------------------------------------

    def _buffer(self, fetch: Fetch) -> Expr:
        index = index_of(fetch.insn.assignee)
        return subscript(p.Variable(fetch.array), self.buffers[fetch.array].place(index))

    def _registers(self, fetch: Fetch) -> Expr:
        assert fetch.registers is not None
        return subscript(p.Variable(fetch.registers.name), fetch.index)

    def _in_tile(
        self, fetch: Fetch, tile: Tile, suffix: str, place: Expr, value: Expr
    ) -> Assignment:
        """Return a fetch of a tile, with copies of its loops and expressions for the tile."""
        insn = fetch.insn
        copies, conditions = self.tiles.copies(fetch, tile, suffix)
        if suffix != "prologue" or fetch.is_async:
            self.copies.setdefault(str(insn.id), []).append(copies)
        values = {self.loop: tile.value, **{old: p.Variable(new) for old, new in copies.items()}}

        def at_tile(expr: Expr) -> Expr:
            return simplify(substitute(expand_expression(self.kernel, expr), values))

        around = insn.within_inames.difference(fetch.own, (self.loop,))
        return insn.copy(
            id=self.ids(f"{insn.id}_{suffix}") if suffix else insn.id,
            assignee=at_tile(place),
            expression=at_tile(value),
            predicates=OrderedSet(conditions).union(map(at_tile, insn.predicates)),
            within_inames=around.union(copies.values(), (tile.loop,)),
            within_inames_is_final=True,
        )

    # -- the kernel -------------------------------------------------------------------------------

    def _assembled(self, commits: _Commits) -> LoopKernel:
        """Return the kernel with the new instructions in place of the fetches."""
        kernel = self.kernel
        loops = {name for fetch in self.fetches.values() for name in fetch.own}
        gone = {name for name in loops if self.users[name] <= self.fetches.keys()}
        domains = [
            left if left is domain else project_out_unused_params(left)
            for domain in kernel.domains
            for left in domains_without(domain, gone)
        ]
        nests = [tuple(n for n in chain if n not in gone) for chain in kernel.loop_priority]
        nests += self.tiles.nests
        registers = {f.registers.name: f.registers for f in self.fetches.values() if f.registers}
        variables = kernel.temporary_variables
        declared = {n: found.declared(variables[n]) for n, found in self.buffers.items()}

        def in_buffer(variable: p.Variable, index: Index) -> Expr:
            return subscript(variable, self.buffers[variable.name].place(index))

        mapper = ArrayAccessMapper(kernel, dict.fromkeys(self.buffers, in_buffer))
        reject_bounds(kernel, mapper.names)
        return kernel.copy(
            instructions=self._instructions(mapper, commits),
            substitutions={n: mapper.change_rule(r) for n, r in kernel.substitutions.items()},
            domains=(*domains, *self.tiles.domains),
            inames={n: i for n, i in kernel.inames.items() if n not in gone} | self.tiles.inames,
            loop_priority=tuple(
                n for n in dict.fromkeys((*nests, *self.tiles.nests)) if len(n) > 1
            ),
            temporary_variables={**variables, **declared, **registers},
            iname_slab_increments=self._slabs(),
        )

    def _slabs(self) -> dict[str, tuple[int, int]]:
        """Peel the last iterations, which have no later tiles to fetch."""
        slabs = dict(self.kernel.iname_slab_increments)
        if self.kernel.has_tag(self.loop, InameImplementationTag):
            return slabs
        first, last = slabs.get(self.loop, (0, 0))
        return {**slabs, self.loop: (first, max(last, *self.ahead.values()))}

    def _instructions(self, mapper: ArrayAccessMapper, commits: _Commits) -> list[InstructionBase]:
        """Return the instructions; new ones are placed where the first fetch was."""
        before = [insn for insns in self.before.values() for insn in insns]
        fills = [insns[0] for insns in self.steady.values()]
        loads = [insn for insns in self.steady.values() for insn in insns[1:]]
        groups = {str(commit.id) for commit in commits.before}
        made = [self._ordered(insn_id, groups) for insn_id in self.fetches]
        ordered = {insn.id: insn for insns in made for insn in insns}
        result: list[InstructionBase] = []
        waiting = [
            *(ordered[insn.id] for insn in before),
            *commits.before,
            *(ordered[insn.id] for insn in (*fills, *loads)),
            *commits.steady,
        ]
        for insn in self.kernel.instructions:
            if insn.id not in self.fetches:
                needed = self._copies(insn.depends_on)
                apart = self._apart(insn)
                result.append(mapper.change(insn, depends_on=needed, no_sync_with=apart))
            else:
                result += waiting
                waiting = []
        return result

    def _ordered(self, insn_id: str, groups: Set[str]) -> list[Assignment]:
        """Return the replacements of a fetch, with dependencies, also on *groups* of copies."""
        insn = self.fetches[insn_id].insn
        others = insn.depends_on - self.fetches.keys()
        fetches = insn.depends_on & self.fetches.keys()
        first = {str(i.id) for name in fetches for i in self.before[name]}
        made: list[Assignment] = [
            one.copy(depends_on=others | first) for one in self.before[insn_id]
        ]
        for one in self.steady[insn_id]:
            then = {str(i.id) for i in made} | groups | self._copies(insn.depends_on)
            made.append(one.copy(depends_on=then - {one.id}))
        return [one.copy(no_sync_with=self._apart(one)) for one in made]

    def _copies(self, names: Iterable[str]) -> frozenset[str]:
        """Return the ids of instructions, with fetches replaced by their replacements."""
        made = {name: (*self.before[name], *self.steady[name]) for name in self.fetches}
        return frozenset(
            copy
            for name in names
            for copy in ([str(i.id) for i in made[name]] if name in made else [name])
        )

    def _apart(self, insn: InstructionBase) -> frozenset[tuple[str, str]]:
        return frozenset((o, scope) for n, scope in insn.no_sync_with for o in self._copies((n,)))


def _buffers_of(kernel: LoopKernel, loop: str, name: str, stages: int) -> Buffers:
    """Return the buffers that replace a temporary: more planes of a window, or copies of it."""
    return planes_of(kernel, loop, name, stages) or Stages(loop, stages)
