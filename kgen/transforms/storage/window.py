"""Windows: elements that iterations of a sequential loop share are kept from one to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import pymbolic.primitives as p
from constantdict import constantdict
from pytools.tag import Tag

from kgen.analysis.access import Access
from kgen.analysis.ahead import check_kept
from kgen.analysis.domains import rename_params
from kgen.analysis.instances import bound, relate
from kgen.analysis.swept import Box
from kgen.errors import TransformError
from kgen.ir.affine import simplify
from kgen.ir.assignee import index_of
from kgen.ir.data import Iname
from kgen.ir.expr import Expr, minus, subscript, substitute, to_text, variable_names
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.ordered_set import OrderedSet
from kgen.ir.sets.dims import (
    BasicSet,
    Set,
    dim_names,
    from_named,
    has_param,
    project_out_params,
    project_out_unused_params,
    rename_param,
    to_named,
)
from kgen.ir.sets.domain import as_basic_set
from kgen.ir.sets.names import Side
from kgen.ir.sets.partition import disjoint_parts
from kgen.ir.sets.quasi_affine import conditions_of
from kgen.ir.tags import (
    AutoFitLocalInameTag,
    ConcurrentTag,
    InameImplementationTag,
    UnrollTag,
)
from kgen.ir.types import AddressSpace, auto
from kgen.transforms.array_accesses import ArrayAccessMapper, Index
from kgen.transforms.expressions.rules import expand_expression
from kgen.transforms.select import new_names
from kgen.transforms.storage.iterations import (
    at_iteration,
    iterations_of,
    known_of,
    later,
    step_in,
)
from kgen.transforms.uses import inames_used

__all__ = ["Window", "find_window", "slide"]

#: Registers of a work-item are named one by one, in unrolled loops, up to this number of them.
_MAX_REGISTERS: Final = 128
#: The maximum number of planes that are searched for elements that a later iteration needs.
_MAX_PLANES: Final = 256


@dataclass(frozen=True)
class Window:
    """The elements that a loop reads move along an axis, by ``step`` in each iteration."""

    loop: str
    axis: int
    step: int

    @property
    def fresh(self) -> int:
        """The number of planes that an iteration reads and the previous one did not."""
        return abs(self.step)

    def closed(self, footprint: Set, is_any: bool) -> Set:
        """Return the elements that an iteration reads, and those of its box that later ones read.

        With *is_any* these may include elements that only an iteration beyond the last one would
        read.
        """
        names = dim_names(footprint)
        axis, loop = names[self.axis], p.Variable(self.loop)
        move = p.Product((self.step, loop))
        absolute = to_named(footprint)
        shape = at_iteration(absolute, axis, p.Sum((p.Variable(axis), move)))
        shape = project_out_params(shape, (self.loop,)).coalesce()
        total = _closed(shape, names, axis, self.step)
        total = at_iteration(total, axis, minus(p.Variable(axis), move))
        if not is_any:
            total = total.intersect(project_out_params(absolute, (self.loop,)))
        return from_named(total.coalesce(), names)

    def check(self, box: Box, name: str) -> None:
        """Reject a box that shares no elements between iterations, or moves along several axes."""
        for axis, low in enumerate(box.lower):
            if axis == self.axis:
                low = simplify(p.Sum((low, p.Product((-self.step, p.Variable(self.loop))))))
            if self.loop in variable_names(low):
                raise _no_window(
                    self.loop, name, f"along axis {axis} it starts at '{to_text(box.lower[axis])}'"
                )
        if box.extents[self.axis] <= self.fresh:
            raise _no_window(self.loop, name, "no element is read in two iterations")

    def fits_registers(self, extents: Sequence[int], space: object) -> bool:
        """Tell whether the kept elements are in registers, whose subscripts must be constants.

        They must be few, and private whatever the tags of other loops will be.
        """
        is_private = space is AddressSpace.PRIVATE or (space is auto and len(extents) == 1)
        return is_private and prod(extents) <= _MAX_REGISTERS

    def spare(self, kernel: LoopKernel, space: object) -> int:
        """Return the number of planes in addition to those that are read.

        Work-items then fetch new ones while others read: one barrier is enough.
        """
        is_shared = kernel.target.has_work_items
        return self.fresh if is_shared and space is not AddressSpace.PRIVATE else 0


def find_window(loop: str, name: str, accesses: Sequence[Access]) -> Window:
    """Return the axis along which the accessed elements move, and the step."""
    found = dict.fromkeys(
        (axis, _step(loop, name, part))
        for access in accesses
        for axis, part in enumerate(access.index or ())
        if part is not None and loop in variable_names(part)
    )
    if not found:
        raise _no_window(loop, name, "no subscript depends on that loop")
    if len(found) > 1:
        shown = " and ".join(f"{step} along axis {axis}" for axis, step in found)
        raise _no_window(
            loop, name, f"from one iteration to the next, its elements move by {shown}"
        )
    ((axis, step),) = found
    return Window(loop, axis, step)


def _step(loop: str, name: str, part: Expr) -> int:
    step = step_in(loop, part)
    if not step:
        raise _no_window(
            loop, name, f"the subscript '{to_text(part)}' does not move at a constant rate"
        )
    return step


def _no_window(loop: str, name: str, because: str) -> TransformError:
    return TransformError(
        f"'{name}' has no window that moves with loop '{loop}'",
        because=because,
        hint="omit window, or choose other reads: within=..., or tags such as a$tag",
    )


def _closed(shape: Set, names: Sequence[str], axis: str, step: int) -> Set:
    """Add the elements between the ends of *shape* that it reaches as it moves."""
    ahead = project_out_params(shape, [name for name in names if name != axis])
    end = Side.BETWEEN.of(axis)
    ahead = relate(rename_param(ahead, axis, end), axis, end, "le_set" if step > 0 else "ge_set")
    ahead = project_out_params(ahead, (end,))
    for _ in range(_MAX_PLANES):
        moved = at_iteration(shape, axis, p.Sum((p.Variable(axis), -step))).intersect(ahead)
        if moved.is_subset(shape):
            break
        shape = shape.union(moved).coalesce()
    return shape


# -- the loop ------------------------------------------------------------------------------------


def slide(
    kernel: LoopKernel,
    window: Window,
    fetch: str,
    along: str,
    extent: int,
    *,
    in_registers: bool,
) -> LoopKernel:
    """Let the fetch of each iteration fetch only the new elements.

    The instruction *fetch* fills *extent* planes, by the loop *along* the axis of the window; the
    temporary may have more planes::

        for z                               for d
          for d                               t[d] = a[z_first + d]        # 0, 1
            t[d] = a[z + d]                 end d
          end d                     =>      for z
          b[z] = f(t[0], t[1], t[2])          t[(z + 2) % 3] = a[z + 2]
        end z                                 b[z] = f(t[z % 3], t[(z + 1) % 3], t[(z + 2) % 3])
                                            end z

    With *in_registers*, the elements move: ``t[0] = t[1]; t[1] = t[2]; t[2] = a[z + 2]``.
    """
    return _Sliding(kernel, window, fetch, along, extent, in_registers=in_registers).result()


class _Sliding:
    def __init__(
        self,
        kernel: LoopKernel,
        window: Window,
        fetch: str,
        along: str,
        extent: int,
        *,
        in_registers: bool,
    ) -> None:
        insn = kernel.id_to_insn[fetch]
        assert isinstance(insn, Assignment)
        self.kernel, self.window, self.insn = kernel, window, insn
        self.along, self.extent, self.in_registers = along, extent, in_registers
        (self.array,) = insn.assignee_var_names()
        self.own = tuple(variable_names(*index_of(insn.assignee)))
        self.axis = self.own.index(along)
        self.around = insn.within_inames.difference(self.own, (window.loop,))
        self.names = new_names(kernel)
        self.ids = kernel.get_instruction_id_generator()
        self.inames: dict[str, Iname] = {}
        self.domains: list[BasicSet] = []

    def result(self) -> LoopKernel:
        """Return the kernel with elements fetched before the loop, and the others in it."""
        kernel, window = self.kernel, self.window
        kept = self.extent - window.fresh
        check_kept(kernel, window.loop, str(self.insn.id), -(-kept // window.fresh))
        self._check_nest()
        low, new = (0, kept) if window.step > 0 else (window.fresh, 0)
        made = [self._prologue(first, low, kept) for first in self._first_iterations()]
        if self.in_registers:
            made.append(self._move(kept))
        made.append(self._fetch(new))
        return self._assembled(self._ordered(made))

    def _check_nest(self) -> None:
        """Reject a sequential loop around the fetch that cannot enclose the window's loop."""
        kernel, loop = self.kernel, self.window.loop
        users = {name: _users(kernel, name) for name in (*self.around, loop)}
        for name in kernel.in_order(self.around):
            is_inside = any(
                {name, loop} <= set(chain) and chain.index(loop) < chain.index(name)
                for chain in kernel.loop_priority
            )
            is_around = users[loop] <= users[name] and not is_inside
            if is_around or kernel.has_tag(name, ConcurrentTag):
                continue
            raise TransformError(
                f"'{self.array}' cannot be kept between iterations of '{loop}'",
                where=f"instruction '{self.insn}'",
                because=f"loop '{name}' is inside '{loop}', and each of its iterations fetches "
                "other elements",
                hint=f"also sweep '{name}', to keep the elements of all its iterations",
            )

    # -- instructions -----------------------------------------------------------------------------

    def _prologue(self, first: Set, low: int, count: int) -> Assignment:
        """Fetch the elements that the first iteration and later ones read."""
        loop = self.window.loop
        name = str(self.names(f"{loop}_prologue"))
        self._add_loops((name,), rename_param(first, loop, name))
        along = str(self.names(f"{self.along}_prologue"))
        at = simplify(p.Sum((p.Variable(along), low)))
        return self._fetch_planes("prologue", p.Variable(name), along, at, count)

    def _fetch(self, new: int) -> Assignment:
        """Fetch the elements that no earlier iteration has read."""
        loop = p.Variable(self.window.loop)
        if self.window.fresh == 1:
            return self._fetch_planes("", loop, None, new, 1)
        at = simplify(p.Sum((p.Variable(self.along), new)))
        return self._fetch_planes("", loop, self.along, at, self.window.fresh)

    def _move(self, count: int) -> Assignment:
        """Move the kept elements, first those whose new place is not read by any other move."""
        along = str(self.names(f"{self.along}_kept"))
        at: Expr = p.Variable(along)
        if self.window.step < 0:
            at = minus(self.extent - 1, at)
        return self._fetch_planes("kept", p.Variable(self.window.loop), along, simplify(at), count)

    def _fetch_planes(
        self, suffix: str, iteration: p.Variable, along: str | None, at: Expr, count: int
    ) -> Assignment:
        """Return the fetch of *count* planes *at* some numbers, in an *iteration*, by *along*."""
        insn, loop = self.insn, self.window.loop
        others = {
            name: str(self.names(f"{name}_{suffix}")) if suffix else name
            for name in self.own
            if name != self.along
        }
        loops = {**({self.along: along} if along else {}), **others}
        condition = self._add_box(loops, iteration, at, count)
        values: dict[str, Expr] = {n: p.Variable(new) for n, new in others.items()}
        values |= {self.along: at, loop: iteration}

        def there(expr: Expr) -> Expr:
            moved = substitute(expand_expression(self.kernel, expr), values)
            if not isinstance(moved, p.Subscript):
                return simplify(moved)
            return subscript(moved.aggregate, tuple(map(simplify, moved.index_tuple)))

        def element(number: Expr) -> Expr:
            index = [p.Variable(others.get(name, name)) for name in self.own]
            plane = self._plane(number, iteration)
            index[self.axis : self.axis + 1] = [simplify(plane)]
            return subscript(p.Variable(self.array), tuple(index))

        moved = p.Sum((at, self.window.step)) if self.in_registers and suffix else at
        return insn.copy(
            id=self.ids(f"{insn.id}_{suffix}") if suffix else insn.id,
            assignee=element(moved if suffix == "prologue" else at),
            expression=element(moved) if suffix == "kept" else there(insn.expression),
            predicates=OrderedSet(condition).union(map(there, insn.predicates)),
            within_inames=self.around.union(loops.values(), (iteration.name,)),
            within_inames_is_final=True,
        )

    def _plane(self, number: Expr, iteration: Expr) -> Expr:
        if self.in_registers:
            return number
        shape = self.kernel.temporary_variables[self.array].shape
        assert isinstance(shape, tuple)
        planes = shape[self.axis]
        turn = p.Product((self.window.step % planes, iteration))
        return p.Remainder(simplify(p.Sum((turn, number))), planes)

    # -- loops ------------------------------------------------------------------------------------

    def _first_iterations(self) -> list[Set]:
        loop = self.window.loop
        values = iterations_of(self.kernel, loop, self.around, self.insn)
        return disjoint_parts(values.subtract(later(values, loop, 1)))

    def _add_box(
        self, loops: Mapping[str, str], iteration: p.Variable, at: Expr, count: int
    ) -> frozenset[Expr]:
        """Add loops over *count* planes; returns conditions if no loop remains to contain them."""
        values = to_named(self.kernel.domains[self.kernel.home_domain[self.along]])
        values = at_iteration(values, self.along, at)
        along = loops.get(self.along)
        if along is not None:
            values = bound(bound(values, along, 0, "ge_set"), along, count, "lt_set")
        renamed = {old: new for old, new in loops.items() if old not in (self.along, new)}
        values = rename_params(values, renamed)
        if iteration.name != self.window.loop and has_param(values, self.window.loop):
            values = rename_param(values, self.window.loop, iteration.name)
        if loops:
            self._add_loops(tuple(loops.values()), values, loops)
            return frozenset()
        known = known_of(self.kernel, {*self.around, self.window.loop})
        return frozenset(conditions_of(values.gist(known)))

    def _add_loops(
        self, names: tuple[str, ...], values: Set, copied: Mapping[str, str] = constantdict()
    ) -> None:
        """Add loops with the joint values *values*; some have the tags of the loops they copy."""
        domain = as_basic_set(from_named(values.coalesce(), names))
        self.domains.append(project_out_unused_params(domain))
        tags = {new: self._tags(old) for old, new in copied.items()}
        self.inames.update((name, Iname(name, tags.get(name, frozenset()))) for name in names)

    def _tags(self, name: str) -> frozenset[Tag]:
        """Return the tags of a loop; those over registers are unrolled."""
        tags = self.kernel.inames[name].tags
        if not self.in_registers:
            return tags
        tags = frozenset(tag for tag in tags if not isinstance(tag, AutoFitLocalInameTag))
        is_plain = not any(isinstance(tag, InameImplementationTag) for tag in tags)
        return tags | {UnrollTag()} if is_plain else tags

    # -- the kernel -------------------------------------------------------------------------------

    def _ordered(self, made: Sequence[Assignment]) -> list[Assignment]:
        """Let each instruction depend on the previous ones."""
        first = self.insn.depends_on
        return [
            insn.copy(depends_on=first.union(str(i.id) for i in made[:number]))
            for number, insn in enumerate(made)
        ]

    def _assembled(self, made: Sequence[Assignment]) -> LoopKernel:
        kernel = self.kernel

        def read(variable: p.Variable, index: Index) -> Expr:
            plane = self._plane(index[self.axis], p.Variable(self.window.loop))
            return subscript(variable, (*index[: self.axis], plane, *index[self.axis + 1 :]))

        mapper = ArrayAccessMapper(kernel, {self.array: read})
        instructions: list[InstructionBase] = []
        for insn in kernel.instructions:
            instructions += made if insn is self.insn else (mapper.change(insn),)
        home = kernel.home_domain[self.along]
        inames = {name: iname for name, iname in kernel.inames.items() if name not in self.own}
        return kernel.copy(
            instructions=instructions,
            substitutions={n: mapper.change_rule(r) for n, r in kernel.substitutions.items()},
            domains=(*(d for k, d in enumerate(kernel.domains) if k != home), *self.domains),
            inames={**inames, **self.inames},
        )


def _users(kernel: LoopKernel, name: str) -> set[str]:
    """Return the instructions in a loop, and those that reduce over it."""
    return {str(insn.id) for insn in kernel.instructions if name in inames_used(kernel, insn)}
