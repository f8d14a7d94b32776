"""Fetches ahead of their use: proofs that a loop could fetch the same values iterations earlier."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pymbolic.primitives as p
from constantdict import constantdict

from kgen.analysis.access import Access, collect_accesses
from kgen.analysis.address_space import infer_address_spaces
from kgen.analysis.dependences import loops_with_order
from kgen.analysis.instances import (
    Instances,
    bound,
    element_name,
    in_same_iteration,
    relate,
    relate_sides,
)
from kgen.analysis.loop_bounds import reads_in_bounds
from kgen.analysis.points import example
from kgen.errors import TransformError, counted
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.expr import variable_names
from kgen.ir.instruction import BarrierInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import Set, project_out_params, rename_param, with_params
from kgen.ir.sets.names import Side

__all__ = ["check_ahead", "check_kept", "check_neighbours", "rejected"]


def check_ahead(
    kernel: LoopKernel,
    loop: str,
    ahead: Mapping[str, int],
    windows: Mapping[str, int] = constantdict(),
) -> None:
    """Reject fetches, given by id, that cannot run some iterations *ahead* of a loop.

    Each is an assignment in the loop to a temporary that only such assignments write. It is
    moved to the start of the iteration, and the given number of iterations ahead. Elements must
    be used in the iteration that fetches them, except for *windows*: circular buffers, given with
    the axis on which plane ``z`` is ``z % planes``. Their planes may be read in later iterations.

    Raises :class:`TransformError`.
    """
    _Check(kernel, loop, ahead, "leave '{}' out of fetches", windows).check()


def check_kept(kernel: LoopKernel, loop: str, insn_id: str, count: int) -> None:
    """Reject a fetch whose elements cannot be kept for *count* more iterations of a loop.

    Raises :class:`TransformError`.
    """
    _Check(kernel, loop, {insn_id: count}, "leave out window='" + loop + "'").check_sources()


def check_neighbours(loop: str, values: Set) -> None:
    """Reject a loop with gaps, in which consecutive iterations do not have consecutive values.

    *values* is a named set. Raises :class:`TransformError`.
    """
    first, between, last = (
        rename_param(values, loop, side.of(loop))
        for side in (Side.FIRST, Side.BETWEEN, Side.SECOND)
    )
    gaps = relate(first, Side.FIRST.of(loop), Side.BETWEEN.of(loop), "lt_set")
    gaps = relate(gaps.intersect(last), Side.BETWEEN.of(loop), Side.SECOND.of(loop), "lt_set")
    gaps = gaps.subtract(between)
    if not gaps.is_empty():
        raise TransformError(
            f"elements fetched in loop '{loop}' cannot be kept between its iterations",
            because=f"the loop skips {example(gaps)[Side.BETWEEN.of(loop)]}, but tiles are "
            "numbered by iteration",
            hint=f"make its iterations consecutive: affine_map_inames(kernel, '{loop}', ...)",
        )


class _Check:
    def __init__(
        self,
        kernel: LoopKernel,
        loop: str,
        ahead: Mapping[str, int],
        hint: str,
        windows: Mapping[str, int] = constantdict(),
    ) -> None:
        self.kernel = kernel = infer_address_spaces(kernel.silencing("write_race*"))
        self.loop, self.ahead, self.hint, self.windows = loop, ahead, hint, windows
        self.fills = [kernel.id_to_insn[insn_id] for insn_id in ahead]
        self.arrays = {name for insn in self.fills for name in insn.assignee_var_names()}
        self.accesses = (*collect_accesses(kernel), *reads_in_bounds(kernel))
        self.instances = Instances(kernel, has_axes=True)

    def check(self) -> None:
        self.check_sources()
        for access in self.accesses:
            if access.array in self.arrays and not access.is_write:
                self._check_use(access)

    def check_sources(self) -> None:
        for insn in self.kernel.instructions:
            if isinstance(insn, BarrierInstruction) and self.loop in insn.within_inames:
                self._check_barrier(insn)
        for insn in self.fills:
            self._check_sources(insn)
            self._check_order(insn)

    def _check_barrier(self, insn: BarrierInstruction) -> None:
        if insn.is_global_barrier:
            raise TransformError(
                f"elements fetched in loop '{self.loop}' cannot be kept between its iterations",
                where=f"instruction '{insn}'",
                because="its global barrier ends the launch, and the fetched elements are lost",
            )

    def _check_order(self, insn: InstructionBase) -> None:
        """Reject a fetch that depends on anything in its iteration except other fetches."""
        for name in sorted(insn.depends_on - self.ahead.keys()):
            other = self.kernel.id_to_insn[name]
            if self.loop in other.within_inames:
                raise self._rejected(
                    insn,
                    f"it depends on '{name}', which is in the same loop",
                    f"fetch by values that are known before the loop; or {self._hint(insn)}",
                )

    def _check_sources(self, insn: InstructionBase) -> None:
        """Reject a fetch of elements that the loop writes in the skipped iterations."""
        for read in self.accesses:
            if read.insn_id != insn.id or read.is_write:
                continue
            for write in self.accesses:
                writer = self.kernel.id_to_insn[write.insn_id]
                if (
                    write.is_write
                    and write.array == read.array
                    and self.loop in writer.within_inames
                ):
                    self._check_pair(write, read, self.ahead[str(insn.id)])

    def _check_pair(self, write: Access, read: Access, ahead: int) -> None:
        """Reject a write that a fetch would precede."""
        fetch, writer = (self.kernel.id_to_insn[a.insn_id] for a in (read, write))
        is_later = fetch.id in ancestors(self.kernel, writer)
        around = self._loops(writer, fetch)
        pairs, _ = self.instances.meeting(write, read, around)
        pairs = in_same_iteration(pairs, (name for name in around if name != self.loop))
        pairs = relate_sides(pairs, self.loop, "lt_set" if is_later else "le_set")
        first, then = Side.FIRST.of(self.loop), Side.SECOND.of(self.loop)
        limit = p.Sum((p.Variable(first), ahead))
        pairs = bound(with_params(pairs, (first, then)), then, limit, "le_set")
        pairs = pairs.intersect_params(self.kernel.assumptions.params())
        if pairs.is_empty():
            return
        point = example(pairs)
        raise TransformError(
            f"loop '{self.loop}' carries a dependence through '{read.array}', which "
            f"'{fetch.id}' fetches",
            where=f"instruction '{writer}'",
            because=f"it writes '{write}' at {self.loop} = {point[first]}, and '{fetch.id}' "
            f"reads '{read}' at {self.loop} = {point[then]}; {counted(ahead, 'iteration')} "
            "earlier it is not yet written",
            hint=self._hint(fetch),
        )

    def _check_use(self, read: Access) -> None:
        """Reject a use of elements that were not fetched in the same iteration."""
        kernel = self.kernel
        user = kernel.id_to_insn[read.insn_id]
        fills = [insn for insn in self.fills if read.array in insn.assignee_var_names()]
        before = ancestors(kernel, user)
        if self.loop not in read.place.inames:
            raise self._rejected(fills[0], f"'{user.id}' reads it outside the loop")
        for insn in fills:
            if insn.id not in before:
                because = f"'{user.id}' reads it, and does not depend on '{insn.id}'"
                raise self._rejected(
                    insn, because, f"add_dependency(kernel, 'id:{user.id}', 'id:{insn.id}')"
                )
        loops = self._loops(user, *fills, more=read.place.inames)
        used, is_exact = self.instances.touched(self._plane_of(read), loops)
        if not is_exact and read.array not in self.windows:
            used = self._inside(read.array, used)
        for write in self.accesses:
            if write.is_write and write.array == read.array:
                filled, is_exact = self._filled(write, loops)
                if is_exact:
                    used = used.subtract(filled)
        used = used.intersect_params(kernel.assumptions.params())
        if not used.is_empty():
            point = example(used)
            at = ", ".join(f"{name} = {point[name]}" for name in loops)
            when = "by then" if read.array in self.windows else "in the same iteration"
            raise self._rejected(
                fills[0],
                f"'{user.id}' may read an element of '{read}' that is not filled {when}, at {at}",
            )

    def _filled(self, write: Access, loops: tuple[str, ...]) -> tuple[Set, bool]:
        """Return what a write has filled: a window in all iterations so far, or before the loop."""
        plane = self._plane_of(write)
        if write.array not in self.windows:
            return self.instances.touched(plane, loops)
        if self.loop not in write.place.inames:
            return self.instances.touched(plane, tuple(n for n in loops if n != self.loop))
        filled, is_exact = self.instances.touched(plane, loops)
        before = Side.FIRST.of(self.loop)
        filled = relate(rename_param(filled, self.loop, before), before, self.loop, "le_set")
        return project_out_params(filled, (before,)), is_exact

    def _plane_of(self, access: Access) -> Access:
        """Return an access to a window with the number of its plane, not the plane's place."""
        axis = self.windows.get(access.array)
        if axis is None or access.index is None:
            return access
        part = access.index[axis]
        assert isinstance(part, p.Remainder)
        index = (*access.index[:axis], part.numerator, *access.index[axis + 1 :])
        return replace(access, index=index)

    def _hint(self, insn: InstructionBase) -> str:
        return self.hint.format(insn.assignee_var_names()[0])

    def _inside(self, array: str, named: Set) -> Set:
        """Bound elements that depend on data by the shape of an array."""
        shape = self.kernel.array_vars[array].shape
        for axis, extent in enumerate(shape if isinstance(shape, tuple) else ()):
            name = element_name(axis)
            named = with_params(named, (name, *variable_names(extent)))
            named = bound(bound(named, name, 0, "ge_set"), name, extent, "lt_set")
        return named

    def _loops(self, *insns: InstructionBase, more: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the sequential loops around all of some instructions."""
        kernel = self.kernel
        sets = [insn.within_inames.union(more if n == 0 else ()) for n, insn in enumerate(insns)]
        shared = frozenset.intersection(*sets)
        return tuple(loops_with_order(kernel, kernel.in_order(shared)))

    def _rejected(
        self, insn: InstructionBase, because: str, hint: str | None = None
    ) -> TransformError:
        return rejected(self.loop, insn.assignee_var_names()[0], because, insn, hint)


def rejected(
    loop: str, name: str, because: str, insn: InstructionBase, hint: str | None = None
) -> TransformError:
    """Return the error of an instruction that cannot run iterations ahead."""
    return TransformError(
        f"'{name}' cannot be fetched ahead in loop '{loop}'",
        where=f"instruction '{insn}'",
        because=because,
        hint=hint,
    )
