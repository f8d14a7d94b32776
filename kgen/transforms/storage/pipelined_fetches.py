"""Fetches of a pipeline: instructions that fill temporaries in a sequential loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pymbolic.primitives as p
from pytools import UniqueNameGenerator

from kgen.analysis.access import collect_accesses
from kgen.analysis.ahead import rejected
from kgen.errors import TransformError
from kgen.ir.affine import simplify
from kgen.ir.data import TemporaryVariable
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets import dims
from kgen.ir.sets.dims import project_out_params, to_named
from kgen.ir.tags import (
    AsyncCopyTag,
    AutoFitLocalInameTag,
    ConcurrentTag,
    CopyWaitTag,
    GroupInameTag,
    LocalInameTag,
    LocalInameTagBase,
)
from kgen.ir.types import AddressSpace
from kgen.transforms.array_accesses import Index
from kgen.transforms.select import NoSuchNameError, NothingSelectedError, split_names
from kgen.transforms.storage.iterations import iterations_of
from kgen.transforms.storage.stages import is_window
from kgen.transforms.uses import inames_used

__all__ = ["Fetch", "fetches_of", "fills_of", "find_fetches", "users_of"]


@dataclass(frozen=True)
class Fetch:
    """An instruction that fills a temporary, and the loops that differ from tile to tile."""

    insn: Assignment
    array: str
    own: tuple[str, ...]
    #: the iterations of the pipelined loop, in terms of the loops around it
    tiles: dims.Set
    #: the registers that hold a tile between load and store, and their subscripts, if any
    registers: TemporaryVariable | None = None
    index: Index = ()

    @property
    def is_async(self) -> bool:
        """Whether the tile is copied asynchronously, with a later wait."""
        return bool(self.insn.tags_of_type(AsyncCopyTag))


def find_fetches(
    kernel: LoopKernel, loop: str, given: str | Iterable[str] | None
) -> tuple[str, ...]:
    """Return the temporaries that *fetches* selects."""
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
    """Return the temporaries that the loop fills from outside arrays for other instructions."""
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


def fills_of(kernel: LoopKernel, loop: str, name: str) -> tuple[Assignment, ...]:
    """Return the instructions that fill a temporary; rejects those that cannot run ahead.

    Instructions that fill a window before the loop are left out.
    """
    found = []
    may_be_before = is_window(kernel, loop, name)
    for insn in (kernel.id_to_insn[n] for n in kernel.writers[name]):
        because = None
        if loop not in insn.within_inames:
            if may_be_before:
                continue
            because = f"'{insn.id}' fills it outside the loop"
        elif not isinstance(insn, Assignment) or insn.atomicity:
            because = f"'{insn.id}' is not a plain assignment"
        elif name in _arrays_read(kernel, (insn,)):
            because = f"'{insn.id}' updates its existing values"
        if because is not None:
            raise rejected(loop, name, because, insn)
        assert isinstance(insn, Assignment)
        found.append(insn)
    return tuple(found)


def users_of(kernel: LoopKernel) -> dict[str, set[str]]:
    """Return, for each loop, the instructions inside it and those that reduce over it."""
    found: dict[str, set[str]] = {name: set() for name in kernel.inames}
    for insn in kernel.instructions:
        for name in inames_used(kernel, insn):
            found[name].add(str(insn.id))
    return found


def fetches_of(
    kernel: LoopKernel, loop: str, arrays: Iterable[str], names: UniqueNameGenerator
) -> dict[str, Fetch]:
    """Return the fetches of *arrays* by instruction id; *names* makes names of registers."""
    fills = {name: fills_of(kernel, loop, name) for name in arrays}
    chosen = frozenset(str(insn.id) for insns in fills.values() for insn in insns)
    bounding = kernel.with_outer_inames(frozenset((loop,)))
    finder = _Finder(kernel, loop, names, users_of(kernel), bounding, chosen)
    return {
        str(insn.id): finder.fetch(insn, name) for name, insns in fills.items() for insn in insns
    }


@dataclass(frozen=True)
class _Finder:
    """Finds the fetches of a loop."""

    kernel: LoopKernel
    loop: str
    names: UniqueNameGenerator
    #: the instructions in each loop
    users: Mapping[str, set[str]]
    #: the loop, and those that bound it
    bounding: frozenset[str]
    #: the instructions that fetch
    chosen: frozenset[str]

    def fetch(self, insn: Assignment, array: str) -> Fetch:
        """Find the loops of a fetch that differ from tile to tile, and its registers."""
        kernel = self.kernel
        own = tuple(
            name
            for name in kernel.in_order(insn.within_inames)
            if name != self.loop and not self._is_around(insn, array, name)
        )
        around = insn.within_inames.difference(own, (self.loop,))
        tiles = iterations_of(kernel, self.loop, around, insn)
        if insn.tags_of_type(AsyncCopyTag):
            self._require_alone(insn)
            return Fetch(insn, array, own, tiles)
        has_items = kernel.target.has_work_items
        if not has_items or not any(kernel.has_tag(n, LocalInameTag) for n in insn.within_inames):
            return Fetch(insn, array, own, tiles)
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
        return Fetch(insn, array, own, tiles, registers, index)

    def _is_around(self, insn: Assignment, array: str, name: str) -> bool:
        """Tell whether a loop around a fetch is common to all tiles; rejects loops in between."""
        kernel, loop = self.kernel, self.loop
        if kernel.has_tag(name, GroupInameTag) or name in self.bounding:
            return True
        if kernel.has_tag(name, ConcurrentTag):
            return not kernel.has_tag(name, AutoFitLocalInameTag) and self._is_same_always(name)
        if self.users[loop] < self.users[name] or self._is_prior(name):
            return True
        others = sorted((self.users[name] & self.users[loop]).difference(kernel.writers[array]))
        if others:
            raise rejected(
                loop,
                array,
                f"'{others[0]}' is also in loop '{name}', which may be inside '{loop}'",
                insn,
                f"duplicate_inames(kernel, '{name}', 'id:{insn.id}') gives the fetch its own "
                f"loop; or prioritize_loops(kernel, '{name},{loop}')",
            )
        return False

    def _is_prior(self, name: str) -> bool:
        """Tell whether a loop with the same instructions has priority over the pipelined one."""
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
        """Return the least value of a loop, and its trip count, the number of registers."""
        found = self.kernel.get_iname_bounds(name).interval
        if found.low is None or found.count is None:
            raise TransformError(
                f"'{insn.id}' cannot load to registers: loop '{name}' has no constant bounds",
                where=f"instruction '{insn}'",
                hint=f"split_iname(kernel, '{name}', ...), and fetch in the inner loop",
            )
        return found.low, found.count

    def _require_alone(self, insn: Assignment) -> None:
        """Reject other asynchronous copies: waits count all groups of copies of a work-item."""
        others = [
            i.id
            for i in self.kernel.instructions
            if i.tags_of_type((AsyncCopyTag, CopyWaitTag)) and i.id not in self.chosen
        ]
        if others:
            raise TransformError(
                f"loop '{self.loop}' cannot be pipelined",
                where=f"instruction '{insn}'",
                because=f"'{others[0]}' is also an asynchronous copy, or waits for one, and a "
                "work-item waits for all copies in the order in which it began them",
                hint="pipeline all copies together, or omit async_copy for the others",
            )
