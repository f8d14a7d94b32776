"""Software pipelining: tiles that a sequential loop fetches iterations ahead of their use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import pymbolic.primitives as p
from pytools.tag import Tag

from kgen.analysis.access import collect_accesses
from kgen.analysis.ahead import check_ahead
from kgen.analysis.domains import domains_without, drop_dims, rename_params
from kgen.errors import TransformError
from kgen.ir.affine import simplify
from kgen.ir.assignee import index_of
from kgen.ir.data import Iname, TemporaryVariable
from kgen.ir.expr import Expr, subscript, substitute, to_text
from kgen.ir.instruction import Assignment, InstructionBase, NoOpInstruction
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
from kgen.ir.tags import (
    AsyncCopyTag,
    AutoFitLocalInameTag,
    ConcurrentTag,
    CopyCommitTag,
    CopyWaitTag,
    GroupInameTag,
    InameImplementationTag,
    LocalInameTag,
    LocalInameTagBase,
    UnrollTag,
)
from kgen.ir.types import AddressSpace
from kgen.transforms.array_accesses import ArrayAccessMapper, Index, reject_bounds
from kgen.transforms.expressions.rules import expand_expression
from kgen.transforms.select import (
    NoSuchNameError,
    NothingSelectedError,
    new_names,
    split_names,
    transform,
)
from kgen.transforms.storage.async_copies import of_all_items, with_axes_assigned, without_waits
from kgen.transforms.storage.iterations import (
    at_iteration,
    iterations_of,
    later,
    require_sequential,
)
from kgen.transforms.storage.stages import Buffers, Planes, Stages, is_window, planes_of
from kgen.transforms.uses import inames_used

__all__ = ["pipeline"]

#: Registers of a work-item are named one by one, in unrolled loops, up to this number of them.
_MAX_UNROLLED = 64


#: Buffers of a temporary, more than any memory near a processor has room for.
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

    Each temporary gets an axis of *stages* buffers, ``tile[loop % stages]``. A prologue fetches the
    first *ahead* tiles; each iteration fetches the one that is used *ahead*
    iterations later, if there is one, and needs one barrier. If
    work-items share the tiles, an iteration stores the tile that the previous one loaded to
    registers, and loads the next tile before it computes, so loads overlap with computation.

    :arg loop: a sequential loop without gaps; it may be that
        of a reduction. It may have any number of iterations, also fewer than *stages*.
    :arg stages: the number of buffers; with 1 the kernel stays as it is
    :arg fetches: temporaries that are filled in the loop, as :func:`add_prefetch` does, or
        the instructions that fill them; by default all those that can be filled ahead. A window
        (``add_prefetch(..., window=loop)``) gets more planes instead of an axis of buffers
    :arg ahead: how many iterations ahead tiles are fetched, ``stages - 1`` by default. With less,
        products of warpgroups (:func:`tensorize`) continue until those of the next iteration start

    ::

        for k                              for k_prologue                # 0, 1
          t[x] = a[k, x]                     t[k_prologue, x] = a[k_prologue, x]
          b[k] = f(t)                      r = a[2, x]
        end k                              for k
                                    =>       t[(k + 2) % 3, x] = r       # while k + 2 < n
        pipeline(knl, "k", 3, "t")           r = a[k + 3, x]             # while k + 3 < n
                                             b[k] = f(t[k % 3])
                                           end k

    This fixes the work-item axes of the fetch loops, according to the tags of other loops: tag
    those first. The names of added instructions and loops end in ``_prologue`` and ``_load``; the
    registers are called ``<temporary>_ahead``.

    Raises :class:`TransformError` for a loop that is parallel or has gaps, for a temporary that is
    also written elsewhere, or read outside the loop or before it is filled, and if the fetched
    elements are written in the loop, with two iterations as an example.

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
    chosen = _find_fetches(plain, loop, fetches)
    if stages == 1:
        return kernel
    if ahead is None:
        ahead = stages - 1
    if not 1 <= ahead < stages:
        raise TransformError(
            f"{stages} stages let tiles be fetched 1 to {stages - 1} iterations ahead, not {ahead}",
            hint=f"ahead={stages - 1}",
        )
    kernel = without_waits(kernel, chosen)
    fills = [insn for name in chosen for insn in _fills(kernel, loop, name)]
    return _Pipeline(with_axes_assigned(kernel, fills), loop, stages, ahead, chosen).result()


# -- what is fetched -----------------------------------------------------------------------------


def _find_fetches(
    kernel: LoopKernel, loop: str, given: str | Iterable[str] | None
) -> tuple[str, ...]:
    """Return the temporaries that are meant."""
    if given is None:
        names = _fetched_in(kernel, loop)
        if not names:
            raise NothingSelectedError(
                f"nothing is fetched in loop '{loop}'",
                hint=f"add_prefetch(kernel, ..., fetch_outer_inames=[..., '{loop}'])",
            )
        return names
    known = {name: name for name in kernel.temporary_variables if name in kernel.writers}
    for insn in kernel.instructions:
        for name in insn.assignee_var_names():
            if name in kernel.temporary_variables:
                known.setdefault(str(insn.id), name)
    chosen = split_names(given)
    if not chosen:
        raise TransformError("'fetches' names nothing", hint="leave it out for all fetches")
    for name in chosen:
        if name not in known:
            raise NoSuchNameError(kernel.name, "fetch", name, known)
    return tuple(dict.fromkeys(known[name] for name in chosen))


def _fetched_in(kernel: LoopKernel, loop: str) -> tuple[str, ...]:
    """Return the temporaries that the loop fills for others in it, with what comes from outside."""
    inside = [i for i in kernel.instructions if loop in inames_used(kernel, i)]
    written = {name for insn in inside for name in insn.assignee_var_names()}
    found = []
    for name in kernel.temporary_variables:
        writers = [kernel.id_to_insn[n] for n in kernel.writers.get(name, ())]
        reads = _arrays_read(kernel, writers)
        is_in_loop = bool(writers) and all(loop in insn.within_inames for insn in writers)
        if not (is_in_loop or is_window(kernel, loop, name)):
            continue
        if reads and not reads & written:
            found.append(name)
    return tuple(found)


def _arrays_read(kernel: LoopKernel, insns: Iterable[InstructionBase]) -> frozenset[str]:
    return frozenset(a.array for a in collect_accesses(kernel, insns) if not a.is_write)


def _buffers_of(kernel: LoopKernel, loop: str, name: str, stages: int) -> Buffers:
    """Return what takes the place of a temporary: more planes of a window, or copies of it."""
    return planes_of(kernel, loop, name, stages) or Stages(loop, stages)


def _fills(kernel: LoopKernel, loop: str, name: str) -> tuple[Assignment, ...]:
    """Return the instructions that fill a temporary; rejects those that cannot run ahead.

    What fills a window before the loop stays there.
    """
    found = []
    may_be_before = is_window(kernel, loop, name)
    for insn in (kernel.id_to_insn[n] for n in kernel.writers[name]):
        because = None
        if loop not in insn.within_inames:
            if may_be_before:
                continue
            because = f"'{insn.id}' fills it outside of the loop"
        elif not isinstance(insn, Assignment) or insn.atomicity:
            because = f"'{insn.id}' is no plain assignment"
        elif name in _arrays_read(kernel, (insn,)):
            because = f"'{insn.id}' changes what it holds already"
        if because is not None:
            raise _rejected(loop, name, because, insn)
        assert isinstance(insn, Assignment)
        found.append(insn)
    return tuple(found)


def _rejected(
    loop: str, name: str, because: str, insn: InstructionBase, hint: str | None = None
) -> TransformError:
    return TransformError(
        f"'{name}' cannot be fetched ahead in loop '{loop}'",
        where=f"instruction '{insn}'",
        because=because,
        hint=hint,
    )


@dataclass(frozen=True)
class _Fetch:
    """An instruction that fills a temporary, and the loops that are different for each tile."""

    insn: Assignment
    array: str
    own: tuple[str, ...]
    #: the iterations of the pipelined loop, given those of the loops around it
    tiles: Set
    #: the registers that hold a tile on its way, and their subscripts, where there are any
    registers: TemporaryVariable | None = None
    index: Index = ()

    @property
    def is_async(self) -> bool:
        """Whether work-items go on while a tile is copied, and wait for it later."""
        return bool(self.insn.tags_of_type(AsyncCopyTag))


@dataclass(frozen=True)
class _Tile:
    """Which tile is meant in a loop, which runs over *known*."""

    loop: str
    value: Expr
    known: Set


# -- the pipeline --------------------------------------------------------------------------------


class _Pipeline:
    """Moves the instructions that fill temporaries to earlier iterations of a loop."""

    def __init__(
        self, kernel: LoopKernel, loop: str, stages: int, ahead: int, names: Sequence[str]
    ) -> None:
        self.kernel, self.loop, self.stages, self.tiles_ahead = kernel, loop, stages, ahead
        self.names = new_names(kernel)
        self.ids = kernel.get_instruction_id_generator()
        self.users = _users(kernel)
        self.bounding = kernel.with_outer_inames(frozenset((loop,)))
        fills = {name: _fills(kernel, loop, name) for name in names}
        self.chosen = {insn.id for insns in fills.values() for insn in insns}
        self.buffers = {name: _buffers_of(kernel, loop, name, stages) for name in names}
        fetches = [self._fetch(i, name) for name in names for i in fills[name]]
        self.fetches = {str(fetch.insn.id): fetch for fetch in fetches}
        #: the loops of prologues: over which tiles, from which to which
        self.first: list[tuple[Set, int, int, list[_Tile]]] = []
        self.inames: dict[str, Iname] = {}
        self.domains: list[BasicSet] = []
        self.nests: list[tuple[str, ...]] = []
        #: the loops through which registers are written and read, by the names of the old ones
        self.copies: dict[str, list[Mapping[str, str]]] = {}
        #: what fetches the first tiles, and the later ones, by the instruction that there was
        self.before: dict[str, list[Assignment]] = {}
        self.steady: dict[str, list[Assignment]] = {}
        #: what ends groups of copies, before the loop and in it
        self.commits: tuple[list[InstructionBase], list[InstructionBase]] = [], []

    def result(self) -> LoopKernel:
        """Return the kernel with a prologue, and with fetches of later tiles in the loop."""
        ahead = self.tiles_ahead
        self.ahead = {name: ahead + bool(f.registers) for name, f in self.fetches.items()}
        windows = {n: b.axis for n, b in self.buffers.items() if isinstance(b, Planes)}
        check_ahead(self.kernel, self.loop, self.ahead, windows)
        for insn_id, fetch in self.fetches.items():
            first = self._first_tiles(fetch, 0, ahead)
            before = [self._copy(fetch, tile, "prologue") for tile in first]
            if fetch.is_async:
                steady = [self._wait(fetch), self._copy(fetch, self._later(fetch, ahead))]
            elif fetch.registers is None:
                steady = [self._copy(fetch, self._later(fetch, ahead))]
            else:
                then = self._first_tiles(fetch, ahead, ahead + 1)
                before += [self._load(fetch, tile, "load_prologue") for tile in then]
                load = self._load(fetch, self._later(fetch, ahead + 1), "load")
                steady = [self._store(fetch, self._later(fetch, ahead)), load]
            self.before[insn_id], self.steady[insn_id] = before, steady
        self.commits = self._commits()
        result = self._assembled()
        for fetch in self.fetches.values():
            if fetch.registers is not None or fetch.is_async:
                self._check_items(result, fetch)
        return result

    def _check_items(self, kernel: LoopKernel, fetch: _Fetch) -> None:
        """Reject loops over work-items that start elsewhere for tiles that are loaded and stored.

        A work-item would store what another one has loaded.
        """
        for name in (n for n in fetch.own if self.kernel.has_tag(n, LocalInameTagBase)):
            starts = {
                to_text(kernel.get_iname_bounds(copies[name]).lower)
                for copies in self.copies[str(fetch.insn.id)]
            }
            if len(starts) > 1:
                raise _rejected(
                    self.loop,
                    fetch.array,
                    f"loop '{name}' over work-items starts at {' or '.join(sorted(starts))}, by "
                    "the tile, and a work-item keeps what it has loaded in its own registers",
                    fetch.insn,
                    f"let '{name}' start at the same number for all '{self.loop}', and put the "
                    "rest into a condition",
                )

    # -- what a fetch is --------------------------------------------------------------------------

    def _fetch(self, insn: Assignment, array: str) -> _Fetch:
        """Find the loops of a fetch that are different for each tile, and its registers."""
        kernel = self.kernel
        own = tuple(
            name
            for name in sorted(insn.within_inames, key=kernel.iname_order.__getitem__)
            if name != self.loop and not self._is_around(insn, array, name)
        )
        around = insn.within_inames.difference(own, (self.loop,))
        tiles = iterations_of(kernel, self.loop, around, insn)
        if insn.tags_of_type(AsyncCopyTag):
            self._require_alone(insn)
            return _Fetch(insn, array, own, tiles)
        has_items = getattr(kernel.target, "has_work_items", True)
        if not has_items or not any(kernel.has_tag(n, LocalInameTag) for n in insn.within_inames):
            return _Fetch(insn, array, own, tiles)
        plain = [name for name in own if not kernel.has_tag(name, LocalInameTagBase)]
        ranges = [self._range(insn, name) for name in plain]
        registers = TemporaryVariable(
            self.names(f"{array}_ahead"),
            dtype=kernel.temporary_variables[array].dtype,
            shape=tuple(count for _, count in ranges),
            address_space=AddressSpace.PRIVATE,
        )
        index = tuple(
            simplify(p.Sum((p.Variable(name), -low)))
            for name, (low, _) in zip(plain, ranges, strict=True)
        )
        return _Fetch(insn, array, own, tiles, registers, index)

    def _is_around(self, insn: Assignment, array: str, name: str) -> bool:
        """Tell whether a loop around a fetch is the same for all tiles; rejects one in the way."""
        kernel, loop = self.kernel, self.loop
        if kernel.has_tag(name, GroupInameTag) or name in self.bounding:
            return True
        if kernel.has_tag(name, ConcurrentTag):
            return not kernel.has_tag(name, AutoFitLocalInameTag) and self._is_same_always(name)
        if self.users[loop] < self.users[name] or self._is_prior(name):
            return True
        others = sorted((self.users[name] & self.users[loop]).difference(kernel.writers[array]))
        if others:
            raise _rejected(
                loop,
                array,
                f"'{others[0]}' is in loop '{name}' as well, which may be inside of '{loop}'",
                insn,
                f"duplicate_inames(kernel, '{name}', 'id:{insn.id}') gives the fetch its own "
                f"loop; or prioritize_loops(kernel, '{name},{loop}')",
            )
        return False

    def _is_prior(self, name: str) -> bool:
        """Tell whether a loop around the same instructions is said to be around the loop."""
        return self.users[self.loop] <= self.users[name] and any(
            {name, self.loop} <= set(chain) and chain.index(name) < chain.index(self.loop)
            for chain in self.kernel.loop_priority
        )

    def _is_same_always(self, name: str) -> bool:
        """Tell whether a loop has the same values in all iterations of the pipelined one."""
        both = to_named(self.kernel.domain_of((self.loop, name)))
        alone = project_out_params(both, [name]).intersect(project_out_params(both, [self.loop]))
        return bool(alone.is_subset(both))

    def _range(self, insn: Assignment, name: str) -> tuple[int, int]:
        """Return the least value of a loop, and the number of values, which are registers."""
        found = self.kernel.get_iname_bounds(name).interval
        if found.low is None or found.count is None:
            raise TransformError(
                f"'{insn.id}' cannot load to registers: loop '{name}' has no constant bounds",
                where=f"instruction '{insn}'",
                hint=f"split_iname(kernel, '{name}', ...), and fetch in the inner loop",
            )
        return found.low, found.count

    # -- tiles ------------------------------------------------------------------------------------

    def _later(self, fetch: _Fetch, ahead: int) -> _Tile:
        """Return the tile that is *ahead* of the one that an iteration uses."""
        value = simplify(p.Sum((p.Variable(self.loop), ahead)))
        return _Tile(self.loop, value, fetch.tiles)

    def _first_tiles(self, fetch: _Fetch, skipped: int, count: int) -> list[_Tile]:
        """Return the first *count* tiles, without the *skipped* first ones, in new loops."""
        for tiles, *numbers, found in self.first:
            if numbers == [skipped, count] and tiles.is_equal(fetch.tiles):
                return found
        moved = [later(fetch.tiles, self.loop, number) for number in (count, skipped)]
        first = fetch.tiles.subtract(moved[0]).intersect(moved[1])
        found = []
        for part in disjoint_parts(first):
            name = self.names(f"{self.loop}_{'load_' if skipped else ''}prologue")
            values = rename_param(part, self.loop, name)
            self._add_loops({name: frozenset()}, values)
            found.append(_Tile(name, p.Variable(name), values))
        self.first.append((fetch.tiles, skipped, count, found))
        return found

    def _add_loops(self, tags: Mapping[str, frozenset[Tag]], values: Set) -> None:
        """Add loops that take *values* together."""
        domain = as_basic_set(from_named(values.coalesce(), tuple(tags)))
        self.domains.append(project_out_unused_params(domain))
        self.inames.update((name, Iname(name, some)) for name, some in tags.items())

    # -- instructions -----------------------------------------------------------------------------

    def _copy(self, fetch: _Fetch, tile: _Tile, suffix: str = "") -> Assignment:
        """Return what fetches a tile to its buffer."""
        return self._made(fetch, tile, suffix, self._buffer(fetch), fetch.insn.expression)

    def _store(self, fetch: _Fetch, tile: _Tile) -> Assignment:
        """Return what stores a tile that is in registers."""
        return self._made(fetch, tile, "", self._buffer(fetch), self._registers(fetch))

    def _load(self, fetch: _Fetch, tile: _Tile, suffix: str) -> Assignment:
        """Return what loads a tile to registers."""
        return self._made(fetch, tile, suffix, self._registers(fetch), fetch.insn.expression)

    # -- copies that go on ------------------------------------------------------------------------

    def _require_alone(self, insn: Assignment) -> None:
        """Reject other copies that go on: waits count all groups of copies of a work-item."""
        others = [
            i.id
            for i in self.kernel.instructions
            if i.tags_of_type((AsyncCopyTag, CopyWaitTag)) and i.id not in self.chosen
        ]
        if others:
            raise TransformError(
                f"loop '{self.loop}' cannot be pipelined",
                where=f"instruction '{insn}'",
                because=f"'{others[0]}' is a copy that goes on, or waits for one, too, and a "
                "work-item waits for all copies in the order in which it began them",
                hint="pipeline all copies together, or copy the others without async_copy",
            )

    def _wait(self, fetch: _Fetch) -> Assignment:
        """Return what waits for the copies of the tile that an iteration uses."""
        buffer = self._buffer(fetch)
        wait = self._made(fetch, self._later(fetch, 0), "wait", buffer, buffer)
        return wait.copy(tags=frozenset((CopyWaitTag(self.tiles_ahead - 1),)))

    def _commits(self) -> tuple[list[InstructionBase], list[InstructionBase]]:
        """Return what ends the groups of copies before the loop, and in each iteration.

        There are as many groups before as there are tiles ahead, if the loop is shorter, too.
        """
        fetches = [fetch for fetch in self.fetches.values() if fetch.is_async]
        if not fetches:
            return [], []
        inames = [f.insn.within_inames.difference(f.own, (self.loop,)) for f in fetches]
        loops = [{n for n in each if not self.kernel.has_tag(n, ConcurrentTag)} for each in inames]
        for fetch, mine in zip(fetches, loops, strict=True):
            if mine != loops[0] or not fetch.tiles.is_equal(fetches[0].tiles):
                because = f"'{fetches[0].insn.id}' runs in other iterations, and both are a group"
                raise _rejected(self.loop, fetch.array, because, fetch.insn)
        around = of_all_items(self.kernel, frozenset[str]().union(*inames))
        copied = {str(i.id) for fetch in fetches for i in self.before[str(fetch.insn.id)]}
        first = self._first_tiles(fetches[0], 0, self.tiles_ahead)
        before = [self._commit(around | {tile.loop}, copied) for tile in first]
        before += [
            self._commit(around | {name}, copied.union(str(i.id) for i in before))
            for name in self._missing_tiles(fetches[0])
        ]
        steady = {str(self.steady[str(fetch.insn.id)][-1].id) for fetch in fetches}
        return before, [self._commit(around | {self.loop}, steady)]

    def _missing_tiles(self, fetch: _Fetch) -> list[str]:
        """Make loops over the first tiles that a loop which is shorter does not have."""
        loop, tiles = self.loop, fetch.tiles
        first = tiles.subtract(later(tiles, loop, 1))
        wanted = [later(first, loop, number) for number in range(1, self.tiles_ahead)]
        found = []
        for missing in (part for one in wanted for part in disjoint_parts(one.subtract(tiles))):
            name = self.names(f"{loop}_none")
            self._add_loops({name: frozenset()}, rename_param(missing, loop, name))
            found.append(str(name))
        return found

    def _commit(self, inames: frozenset[str], after: Iterable[str]) -> InstructionBase:
        return NoOpInstruction(
            self.ids("commit"),
            within_inames=inames,
            within_inames_is_final=True,
            depends_on=frozenset(after),
            tags=frozenset((CopyCommitTag(),)),
        )

    # -- registers --------------------------------------------------------------------------------

    def _buffer(self, fetch: _Fetch) -> Expr:
        index = index_of(fetch.insn.assignee)
        return subscript(p.Variable(fetch.array), self.buffers[fetch.array].place(index))

    def _registers(self, fetch: _Fetch) -> Expr:
        assert fetch.registers is not None
        return subscript(p.Variable(fetch.registers.name), fetch.index)

    def _made(
        self, fetch: _Fetch, tile: _Tile, suffix: str, place: Expr, value: Expr
    ) -> Assignment:
        """Return a fetch with the loops and the expressions for a tile."""
        insn = fetch.insn
        copies, conditions = self._loops(fetch, tile, suffix)
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
            predicates=conditions.union(map(at_tile, insn.predicates)),
            within_inames=around.union(copies.values(), (tile.loop,)),
            within_inames_is_final=True,
        )

    def _loops(
        self, fetch: _Fetch, tile: _Tile, suffix: str
    ) -> tuple[dict[str, str], frozenset[Expr]]:
        """Make the loops of a fetch for a tile, by the names of the old ones.

        Returns conditions as well, where the loops do not say already which tiles there are.
        """
        kernel = self.kernel
        copies = {name: self._name(fetch, name, suffix) for name in fetch.own}
        homes: dict[int, dict[str, str]] = {}
        for old, new in copies.items():
            homes.setdefault(kernel.home_domain[old], {})[old] = new
        known = tile.known
        for home, here in homes.items():
            values = self._values(kernel.domains[home], fetch, tile, copies)
            self._add_loops({new: self._tags(fetch, old) for old, new in here.items()}, values)
            known = known.intersect(project_out_params(values, copies.values()))
        self.nests += [
            tuple(copies[name] for name in chain if name in copies)
            for chain in kernel.loop_priority
        ]
        reached = _given(at_iteration(fetch.tiles, self.loop, tile.value), known)
        return copies, frozenset(conditions_of(reached))

    def _values(
        self, domain: BasicSet, fetch: _Fetch, tile: _Tile, copies: Mapping[str, str]
    ) -> Set:
        """Return what a domain says of the loops of a fetch for a tile."""
        outer = [name for name in dim_names(domain) if name not in copies]
        inside = [name for name in outer if name not in fetch.insn.within_inames]
        domain = drop_dims(domain, inside)
        values = at_iteration(to_named(domain), self.loop, tile.value)
        if len(outer) > len(inside):  # the loops around say the same
            values = _given(values, to_named(drop_dims(domain, copies)))
        return rename_params(values, {old: new for old, new in copies.items() if old != new})

    def _name(self, fetch: _Fetch, name: str, suffix: str) -> str:
        """Return the name of a copy: that of the loop itself, where nothing else uses it."""
        if not suffix and self.users[name] == {fetch.insn.id}:
            return name
        return str(self.names(f"{name}_{suffix}" if suffix else name))

    def _tags(self, fetch: _Fetch, name: str) -> frozenset[Tag]:
        tags = self.kernel.inames[name].tags
        shape = fetch.registers.shape if fetch.registers else (_MAX_UNROLLED + 1,)
        is_plain = not self.kernel.has_tag(name, InameImplementationTag)
        return tags | {UnrollTag()} if is_plain and prod(shape) <= _MAX_UNROLLED else tags

    # -- the kernel -------------------------------------------------------------------------------

    def _assembled(self) -> LoopKernel:
        """Return the kernel with all that has been made in the place of the fetches."""
        kernel = self.kernel
        loops = {name for fetch in self.fetches.values() for name in fetch.own}
        gone = {name for name in loops if self.users[name] <= self.fetches.keys()}
        domains = [
            left if left is domain else project_out_unused_params(left)
            for domain in kernel.domains
            for left in domains_without(domain, gone)
        ]
        nests = [tuple(n for n in chain if n not in gone) for chain in kernel.loop_priority]
        registers = {f.registers.name: f.registers for f in self.fetches.values() if f.registers}
        variables = kernel.temporary_variables
        declared = {n: found.declared(variables[n]) for n, found in self.buffers.items()}

        def in_buffer(variable: p.Variable, index: Index) -> Expr:
            return subscript(variable, self.buffers[variable.name].place(index))

        mapper = ArrayAccessMapper(kernel, dict.fromkeys(self.buffers, in_buffer))
        reject_bounds(kernel, mapper.names)
        return kernel.copy(
            instructions=self._instructions(mapper),
            substitutions={n: mapper.change_rule(r) for n, r in kernel.substitutions.items()},
            domains=(*domains, *self.domains),
            inames={n: i for n, i in kernel.inames.items() if n not in gone} | self.inames,
            loop_priority=tuple(n for n in dict.fromkeys((*nests, *self.nests)) if len(n) > 1),
            temporary_variables={**variables, **declared, **registers},
            iname_slab_increments=self._slabs(),
        )

    def _slabs(self) -> dict[str, tuple[int, int]]:
        """Give the last iterations, for which there are no later tiles, a loop of their own."""
        slabs = dict(self.kernel.iname_slab_increments)
        if self.kernel.has_tag(self.loop, InameImplementationTag):
            return slabs
        first, last = slabs.get(self.loop, (0, 0))
        return {**slabs, self.loop: (first, max(last, *self.ahead.values()))}

    def _instructions(self, mapper: ArrayAccessMapper) -> list[InstructionBase]:
        """Return the instructions, those for all tiles where the first fetch was."""
        before = [insn for insns in self.before.values() for insn in insns]
        fills = [insns[0] for insns in self.steady.values()]
        loads = [insn for insns in self.steady.values() for insn in insns[1:]]
        made = [self._ordered(insn_id) for insn_id in self.fetches]
        ordered = {insn.id: insn for insns in made for insn in insns}
        result: list[InstructionBase] = []
        first, then = self.commits
        waiting = [
            *(ordered[insn.id] for insn in before),
            *first,
            *(ordered[insn.id] for insn in (*fills, *loads)),
            *then,
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

    def _ordered(self, insn_id: str) -> list[Assignment]:
        """Return what is made of a fetch, with what each waits for."""
        insn = self.fetches[insn_id].insn
        others = insn.depends_on - self.fetches.keys()
        fetches = insn.depends_on & self.fetches.keys()
        first = {str(i.id) for name in fetches for i in self.before[name]}
        made: list[Assignment] = [
            one.copy(depends_on=others | first) for one in self.before[insn_id]
        ]
        groups = {str(commit.id) for commit in self.commits[0]}
        for one in self.steady[insn_id]:
            then = {str(i.id) for i in made} | groups | self._copies(insn.depends_on)
            made.append(one.copy(depends_on=then - {one.id}))
        return [one.copy(no_sync_with=self._apart(one)) for one in made]

    def _copies(self, names: Iterable[str]) -> frozenset[str]:
        """Return instructions with all that has been made of those that fetch."""
        made = {name: (*self.before[name], *self.steady[name]) for name in self.fetches}
        return frozenset(
            copy
            for name in names
            for copy in ([str(i.id) for i in made[name]] if name in made else [name])
        )

    def _apart(self, insn: InstructionBase) -> frozenset[tuple[str, str]]:
        return frozenset((o, scope) for n, scope in insn.no_sync_with for o in self._copies((n,)))


def _given(values: Set, known: Set) -> Set:
    """Leave out what is known; of values that do not occur nothing, since isl may then say less."""
    return values if values.is_disjoint(known) else values.gist(known)


def _users(kernel: LoopKernel) -> dict[str, set[str]]:
    """Return the instructions in each loop, and those that reduce over it."""
    found: dict[str, set[str]] = {name: set() for name in kernel.inames}
    for insn in kernel.instructions:
        for name in inames_used(kernel, insn):
            found[name].add(str(insn.id))
    return found
