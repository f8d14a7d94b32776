"""Saving live private and local values in global memory between launches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pymbolic.primitives as p
from pytools import UniqueNameGenerator
from pytools.tag import Tag

from kgen.analysis.axes import has_item_loops
from kgen.analysis.instances import axis_name, element_name
from kgen.errors import TransformError
from kgen.ir.affine import simplify
from kgen.ir.data import Iname, TemporaryVariable
from kgen.ir.expr import Expr, subscript, substitute, variable_names
from kgen.ir.grid import Grid, grid_of
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import BasicSet, Set
from kgen.ir.sets.quasi_affine import aff_to_expr
from kgen.ir.stages import PreparedKernel
from kgen.ir.tags import AxisTag, GroupInameTag, LocalInameTag
from kgen.ir.types import AddressSpace
from kgen.lowering import prepare_open, schedule_prepared
from kgen.schedule.host import on_device
from kgen.schedule.liveness import Liveness, box_over, conditions_in, launch_axes
from kgen.schedule.tree import Schedule, insn_ids
from kgen.transforms.select import NoSuchNameError, transform

__all__ = ["save_and_reload_temporaries"]


@transform
def save_and_reload_temporaries(kernel: LoopKernel, entrypoint: str | None = None) -> LoopKernel:
    """Save private and local values that later launches need in global memory.

    A global barrier ends a launch, and the contents of private and local memory are lost. Each
    temporary with a value that is live across a barrier gets a slot in global memory: one entry
    per work-item (per work-group, if it is local) that writes it. It is saved in launches that
    write it, and reloaded in those that need it; a launch that overwrites only a part of
    the slot reloads the rest first. Launches in a host loop are followed by those of the
    next iteration. The kernel is prepared first, as for scheduling; types that calls determine
    stay open, unless it has reductions of them. New loops on hardware axes save and reload; where
    these axes are plain loops, the loops that compute a value do.

    ::

        for i                              for i
          tmp = arr[i]                       tmp = arr[i]
          ... gbarrier                       tmp_save_slot[i] = tmp
          arr[(i + 1) % n] = tmp    =>       ... gbarrier
                                             tmp = tmp_save_slot[i]
                                             arr[(i + 1) % n] = tmp

    Raises :class:`TransformError` on targets without work-items if instructions of a
    launch use a value in different loops, if the work-items that a value belongs to change
    between the iterations of a host loop; and raises the errors of scheduling.

    :arg entrypoint: the kernel of a program to change, by default all kernels

    >>> import numpy as np
    >>> from kgen.frontend import make_kernel
    >>> from kgen.ir.data import GlobalArg
    >>> knl = make_kernel(
    ...     "{ [i]: 0<=i<16 }",
    ...     '''<> t = a[i]    {id=load, dep=*}
    ...     ... gbarrier      {id=bar, dep=*load}
    ...     a[15 - i] = t     {dep=*bar}''',
    ...     [GlobalArg("a", np.float32, shape=16)],
    ... ).default_entrypoint
    >>> from kgen.transforms.loops.tag import tag_inames
    >>> for insn in save_and_reload_temporaries(tag_inames(knl, "i:g.0")).instructions:
    ...     print(insn)
    t = a[i]  {id=load}
    t_save_slot[t_save_hw_dim_0_kgen_kernel] = t  {id=t.save}
    ... gbarrier  {id=bar}
    t = t_save_slot[t_reload_hw_dim_0_kgen_kernel_0]  {id=t.reload}
    a[15 - i] = t  {id=insn}
    """
    if entrypoint is not None and kernel.name != entrypoint:
        raise NoSuchNameError(kernel.name, "kernel", entrypoint, (kernel.name,))
    prepared = prepare_open(kernel)
    sequential = has_item_loops(prepared)
    prepared, schedule = schedule_prepared(prepared, has_axes=not sequential)
    if len(schedule.launches) < 2:
        return kernel
    saver = _Saver(prepared, schedule, sequential)
    for name in sorted(prepared.temporary_variables):
        saver.treat(prepared.temporary_variables[name])
    return saver.result() if saver.moves else kernel


@dataclass(frozen=True)
class _Slot:
    """The slot of a temporary: first the axes of work-items, then its own."""

    temporary: TemporaryVariable
    name: str
    tags: tuple[AxisTag, ...]
    counts: tuple[Expr, ...]

    @property
    def box(self) -> dict[str, Expr]:
        """The extent along each hardware axis."""
        return {axis_name(tag): n for tag, n in zip(self.tags, self.counts, strict=True)}

    @property
    def is_local(self) -> bool:
        return bool(self.temporary.address_space == AddressSpace.LOCAL)

    def declared(self) -> TemporaryVariable:
        """Return the slot, in which adjacent work-items are adjacent, and groups are far apart."""
        shape = (*self.counts, *self.temporary.shape)
        elements = range(len(self.tags), len(shape))
        groups = [k for k, tag in enumerate(self.tags) if isinstance(tag, GroupInameTag)]
        items = [k for k in range(len(self.tags)) if k not in groups]
        level = {axis: n for n, axis in enumerate((*items, *reversed(elements), *groups))}
        return TemporaryVariable(
            self.name,
            dtype=self.temporary.dtype,
            shape=shape,
            dim_tags=[f"N{level[axis]}" for axis in range(len(shape))],
            address_space=AddressSpace.GLOBAL,
        )


@dataclass(frozen=True)
class _Loops:
    """The loops of a save or a reload: subscripts of the slot and the temporary, conditions."""

    slot_index: tuple[Expr, ...]
    index: tuple[Expr, ...]
    within: frozenset[str]
    conditions: tuple[Expr, ...]
    domain: BasicSet | None
    tags: Mapping[str, Tag | None]


@dataclass(frozen=True)
class _Move:
    """An instruction that saves or reloads a temporary, in a launch given by number."""

    name: str
    launch: int
    is_save: bool
    insn: Assignment


@dataclass
class _Saver:
    kernel: PreparedKernel
    schedule: Schedule
    sequential: bool
    moves: list[_Move] = field(default_factory=list)
    slots: list[_Slot] = field(default_factory=list)
    domains: list[BasicSet] = field(default_factory=list)
    inames: dict[str, Iname] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.launches = self.schedule.launches
        self.host_inames = self.schedule.host_inames
        self.device = on_device(self.kernel, self.host_inames)
        self.liveness = Liveness(self.device, self.schedule)
        self.insns = [insn_ids(launch.body) for launch in self.launches]
        self.new_name: UniqueNameGenerator = self.kernel.get_var_name_generator()
        self.new_id = self.kernel.get_instruction_id_generator()

    def treat(self, temporary: TemporaryVariable) -> None:
        """Add the instructions that save and reload one temporary, in all launches."""
        name = temporary.name
        slot: _Slot | None = None
        for number, flows in enumerate(self.liveness.flows):
            flow, live = flows.get(name), self.liveness.live[number].get(name)
            if flow is None:
                continue
            before = self.liveness.written_before(name, number)
            saved = None if live is None else flow.written.intersect(live)
            is_saved = saved is not None and not saved.is_empty()
            if not is_saved and flow.needed.intersect(before).is_empty():
                continue
            slot = slot or self._new_slot(temporary)
            needed = flow.needed
            if saved is not None and is_saved:
                needed = needed.union(saved.subtract(flow.certain))
            needed = needed.intersect(before)
            if not needed.is_empty():
                self._add(slot, number, needed, is_save=False)
            if saved is not None and is_saved:
                self._add(slot, number, saved, is_save=True)

    def _host_loops(self, number: int) -> frozenset[str]:
        """Return the host loops around a launch."""
        (some, *_) = self.insns[number]
        return self.kernel.id_to_insn[some].within_inames & self.host_inames

    def _reject_moving_axes(self, name: str, number: int) -> None:
        """Reject work-items that represent a different value of a loop in each launch."""
        for insn_id in self._users(name, self.insns[number]):
            inames = self.kernel.id_to_insn[insn_id].within_inames & self.device.axes.keys()
            for iname in sorted(inames):
                first = variable_names(self.device.axes[iname].first)
                moved = sorted(self.host_inames.intersection(first))
                if moved:
                    raise TransformError(
                        f"'{name}' cannot be reloaded in loop '{iname}', whose first value "
                        f"changes with '{moved[0]}'",
                        where=f"instruction '{insn_id}'",
                        because="each work-item then runs a different iteration",
                        hint=f"start '{iname}' at a fixed value and put the bound into a "
                        f"condition, or set_temporary_address_space(kernel, '{name}', "
                        "'global')",
                    )

    def _new_slot(self, temporary: TemporaryVariable) -> _Slot:
        kernel = self.kernel
        on_axes = [
            kernel.axes[iname]
            for insn_id in kernel.writers[temporary.name]
            for iname in sorted(kernel.id_to_insn[insn_id].within_inames & kernel.axes.keys())
        ]
        if temporary.address_space == AddressSpace.LOCAL:
            on_axes = [axis for axis in on_axes if isinstance(axis.tag, GroupInameTag)]
        grid = grid_of(kernel, on_axes)
        groups = sorted({a.tag.axis for a in on_axes if isinstance(a.tag, GroupInameTag)})
        items = sorted({a.tag.axis for a in on_axes if isinstance(a.tag, LocalInameTag)})
        counts = [self._extent(grid, k) for k in groups]
        slot = _Slot(
            temporary,
            self.new_name(f"{temporary.name}_save_slot"),
            (*map(GroupInameTag, groups), *map(LocalInameTag, items)),
            (*counts, *(grid.locals[k] for k in items)),
        )
        self.slots.append(slot)
        return slot

    def _extent(self, grid: Grid, axis: int) -> Expr:
        """Return a number of groups, as simple as the assumptions make it."""
        pieces = grid.group_counts[axis].gist_params(self.kernel.assumptions).get_pieces()
        return aff_to_expr(pieces[0][1]) if len(pieces) == 1 else grid.groups[axis]

    def _add(self, slot: _Slot, number: int, region: Set, *, is_save: bool) -> None:
        word = "save" if is_save else "reload"
        name = slot.temporary.name
        self._reject_moving_axes(name, number)
        make = self._own_loops if self.sequential else self._new_loops
        loops = make(slot, number, region, word)
        stored = subscript(p.Variable(slot.name), (*loops.slot_index, *loops.index))
        value = subscript(p.Variable(name), loops.index)
        insn = Assignment(
            stored if is_save else value,
            value if is_save else stored,
            id=self.new_id(f"{name}.{word}"),
            within_inames=loops.within | self._host_loops(number),
            within_inames_is_final=True,
            predicates=tuple(loops.conditions),
            depends_on_is_final=True,
        )
        if loops.domain is not None:
            self.domains.append(loops.domain)
        for iname, tag in loops.tags.items():
            self.inames[iname] = Iname(iname, frozenset(() if tag is None else (tag,)))
        self.moves.append(_Move(name, number, is_save, insn))

    # -- loops -------------------------------------------------------------------------------

    def _new_loops(self, slot: _Slot, number: int, region: Set, word: str) -> _Loops:
        """Make loops on the hardware axes of the launch, and others over elements."""
        prefix, launch = f"{slot.temporary.name}_{word}", self.launches[number].name
        tags: dict[str, Tag | None] = {}
        extents: dict[str, Expr] = {}
        values: dict[str, Expr] = {}
        box = dict(slot.box)

        def add(iname: str, extent: Expr, tag: Tag | None) -> Expr:
            extents[iname], tags[iname] = extent, tag
            return p.Variable(iname)

        def on_axis(tag: AxisTag, extent: Expr) -> Expr:
            iname: str = self.new_name(f"{prefix}_hw_dim_{len(tags)}_{launch}")
            return add(iname, extent, tag)

        for tag, count in zip(slot.tags, slot.counts, strict=True):
            values[axis_name(tag)] = on_axis(tag, count)
        axes = launch_axes(self.kernel, self.insns[number])
        free = [tag for tag in axes if tag not in slot.tags]
        items = [tag for tag in free if slot.is_local and isinstance(tag, LocalInameTag)]
        sizes = self.kernel.grid_of_launch(self.insns[number]).locals
        for axis, extent in reversed(tuple(enumerate(slot.temporary.shape))):
            element: str = self.new_name(f"{prefix}_axis_{axis}_{launch}")
            item = items.pop(0) if items else None
            size = extent if item is None else sizes[item.axis]
            box[element_name(axis)] = rounded = -(-extent // size) * size
            if item is None or extent <= size:
                box[element_name(axis)] = extent
                values[element_name(axis)] = add(element, extent, item)
            else:  # in strides
                outer = add(element, rounded // size, None)
                inner = add(self.new_name(f"{element}_inner"), size, item)
                values[element_name(axis)] = p.Sum((p.Product((size, outer)), inner))
            free = [tag for tag in free if tag != item]
        for tag in free:  # of work-items that have the same value, the first one
            if word == "save" or (slot.is_local and isinstance(tag, LocalInameTag)):
                on_axis(tag, 1)
        return self._loops(slot, region, box, values, frozenset(tags), extents, tags)

    def _loops(
        self,
        slot: _Slot,
        region: Set,
        box: Mapping[str, Expr],
        values: Mapping[str, Expr],
        within: frozenset[str],
        extents: Mapping[str, Expr],
        tags: Mapping[str, Tag | None],
    ) -> _Loops:
        """Combine the loops over axes and elements, which have *values*."""
        conditions = [
            substitute(condition, values)
            for condition in conditions_in(region, box, self.device.assumptions)
        ]
        if any(name.startswith(".") for name in variable_names(*conditions)):
            raise self._different_axes(slot)
        return _Loops(
            tuple(values[axis_name(tag)] for tag in slot.tags),
            tuple(values[element_name(axis)] for axis in range(len(slot.temporary.shape))),
            within,
            tuple(conditions),
            box_over(extents) if extents else None,
            tags,
        )

    def _different_axes(self, slot: _Slot) -> TransformError:
        name = slot.temporary.name
        users = [self._users(name, ids) for ids in self.insns]
        tags = [launch_axes(self.kernel, ids) for ids in self.insns]
        texts = [
            f"launch '{launch.name}' ({', '.join(some)}) has {', '.join(map(str, axes)) or 'none'}"
            for launch, some, axes in zip(self.launches, users, tags, strict=True)
            if some
        ]
        return TransformError(
            f"'{name}' cannot be saved and reloaded: the launches that use it have different "
            "hardware axes",
            because="; ".join(texts),
            hint=f"set_temporary_address_space(kernel, '{name}', 'global'), or move its writers "
            "into the loops on all axes: add_inames_to_insn(kernel, ...)",
        )

    def _own_loops(self, slot: _Slot, number: int, region: Set, word: str) -> _Loops:
        """Return the loops of the instructions that use the temporary, if axes are loops."""
        kernel, name = self.kernel, slot.temporary.name
        users = self._users(name, self.insns[number])
        own = [kernel.id_to_insn[user].within_inames & kernel.axes.keys() for user in users]
        by_tag = {kernel.axes[iname].tag: iname for iname in sorted(own[0])}
        odd = next((k for k, inames in enumerate(own) if inames != own[0]), None)
        if odd is not None or not by_tag.keys() >= set(slot.tags):
            raise TransformError(
                f"instructions '{users[0]}' and '{users[odd or 0]}' use '{name}' in "
                "different loops",
                because="on this target, hardware axes are loops, and a value is saved in the "
                "loop that computes it",
                hint="rename_iname the loops on one axis to the same name, or "
                f"set_temporary_address_space(kernel, '{name}', 'global')",
            )
        launch = self.launches[number].name
        values: dict[str, Expr] = {
            axis_name(tag): simplify(p.Variable(by_tag[tag]) - kernel.axes[by_tag[tag]].first)
            for tag in slot.tags
        }
        box, extents = dict(slot.box), dict[str, Expr]()
        for axis, extent in enumerate(slot.temporary.shape):
            element: str = self.new_name(f"{name}_{word}_axis_{axis}_{launch}")
            values[element_name(axis)] = p.Variable(element)
            box[element_name(axis)] = extents[element] = extent
        tags = dict.fromkeys(extents)
        return self._loops(slot, region, box, values, own[0].union(extents), extents, tags)

    # -- the kernel --------------------------------------------------------------------------

    def result(self) -> LoopKernel:
        """Return the kernel with all instructions, loops and slots."""
        kernel = self.kernel
        slots = {slot.name: slot.declared() for slot in self.slots}
        return kernel.copy(
            instructions=self._instructions(),
            domains=(*kernel.domains, *self.domains),
            inames={**kernel.inames, **self.inames},
            temporary_variables={**kernel.temporary_variables, **slots},
        )

    def _instructions(self) -> list[InstructionBase]:
        """Insert the moves next to the uses of their temporaries, and preserve all launches."""
        after: dict[str, frozenset[str]] = {}  # what each instruction has to wait for
        before: dict[str, list[InstructionBase]] = {}
        behind: dict[str, list[InstructionBase]] = {}
        order = {str(insn.id): at for at, insn in enumerate(self.kernel.instructions)}
        ids = [frozenset(insns) for insns in self.insns]
        for number, launch in enumerate(self.launches):
            barriers = frozenset(launch.barriers)
            done = frozenset[str]()
            if number:
                done = ids[number - 1] | self._moves_in(number - 1)
                after.update(dict.fromkeys(barriers, done))
            after.update(dict.fromkeys(ids[number], barriers or done))
        after.update(self._at_ends(ids))
        reloads: dict[tuple[int, str], str] = {}
        for move in self.moves:
            name = move.name
            users = sorted(self._users(name, ids[move.launch]), key=order.__getitem__)
            waits = after[users[0]]
            if move.is_save:
                writers = [u for u in users if u in self.kernel.writers[name]]
                reloaded = reloads.get((move.launch, name))
                waits = waits.union(writers, () if reloaded is None else (reloaded,))
                behind.setdefault(writers[-1], []).append(move.insn.copy(depends_on=waits))
            else:
                reloads[move.launch, name] = str(move.insn.id)
                before.setdefault(users[0], []).append(move.insn.copy(depends_on=waits))
                for user in users:
                    after[user] |= {str(move.insn.id)}
        result: list[InstructionBase] = []
        for insn in self.kernel.instructions:
            insn_id = str(insn.id)
            result += before.get(insn_id, ())
            result.append(insn.copy(depends_on=insn.depends_on | after.get(insn_id, frozenset())))
            result += behind.get(insn_id, ())
        return result

    def _moves_in(self, number: int) -> frozenset[str]:
        return frozenset(str(move.insn.id) for move in self.moves if move.launch == number)

    def _at_ends(self, ids: list[frozenset[str]]) -> dict[str, frozenset[str]]:
        """Return the instructions before barriers at the end of a loop, which no launch follows."""
        begun = {name for launch in self.launches for name in launch.barriers}
        return {
            str(insn.id): frozenset[str]().union(
                *(
                    self._moves_in(number)
                    for number, launch in enumerate(ids)
                    if launch & insn.depends_on
                )
            )
            for insn in self.kernel.instructions
            if insn.is_global_barrier and insn.id not in begun
        }

    def _users(self, name: str, insns: Iterable[str]) -> list[str]:
        """Return the instructions that use a temporary, in the bounds of their loops as well."""
        users = {access.insn_id for access in self.liveness.footprints.accesses.get(name, ())}
        return [n for n in insns if n in users]
