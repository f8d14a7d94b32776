"""Random transformations of random kernels, and the strategies that join both."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from kgen.errors import KgenError
from kgen.ir.expr import Reduction, walk
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import InameImplementationTag
from tests.random.kernels import Kernel, draw_global_kernel, draw_kernel, draw_local_kernel
from tests.random.loops import Draw
from tests.random.program import Program, Step

__all__ = ["device_programs", "global_programs", "local_programs", "programs"]

_SLABS = st.sampled_from(((0, 0), (0, 0), (0, 1), (1, 0), (1, 1)))


class Transformer:
    """Draws transformations that a user could mean, for the kernel as it stands."""

    def __init__(self, draw: Draw, kernel: LoopKernel, short: frozenset[str]) -> None:
        self.draw = draw
        self.kernel = kernel
        self.inside = kernel.iname_to_insns()
        reduced = {n for insn in kernel.instructions for n in insn.reduction_inames()}
        #: loops that are nothing but loops, and those of them that are no reductions
        self.plain = [
            n for n in sorted(kernel.inames) if not kernel.has_tag(n, InameImplementationTag)
        ]
        self.loops = [n for n in self.plain if n not in reduced]
        #: loops of few iterations, which may be unrolled
        self.short = [
            n for n in self.plain if n in short or (n.endswith("_inner") and "_and_" not in n)
        ]

    def split_iname(self) -> Step | None:
        draw = self.draw
        name = draw(st.sampled_from(self.plain))
        is_loop = name in self.loops
        tags = ("unr", "ilp", "ilp.seq", "vec", None, None) if is_loop else ("unr", "ilp", None)
        within = self._some_users(name) if is_loop and draw(st.integers(0, 4)) == 0 else None
        drawn: tuple[tuple[str, Any], ...] = (
            ("inner_tag", draw(st.sampled_from(tags))),
            ("slabs", draw(_SLABS)),
            ("within", within),
        )
        options = tuple((k, v) for k, v in drawn if v not in (None, (0, 0)))
        return Step("split_iname", (name, draw(st.integers(2, 7))), options)

    def tag_inames(self) -> Step | None:
        if not self.short:
            return None
        name = self.draw(st.sampled_from(self.short))
        tags = ("unr", "unr", "ilp", "ilp.seq", "ord")
        return Step("tag_inames", (f"{name}:{self.draw(st.sampled_from(tags))}",))

    def _together(self) -> list[str]:
        """Choose loops around the same instructions."""
        if not self.loops:
            return []
        first = self.draw(st.sampled_from(self.loops))
        return [n for n in self.loops if self.inside[n] == self.inside[first] != frozenset()]

    def prioritize_loops(self) -> Step | None:
        names = self._together()
        if len(names) < 2 or self.kernel.loop_priority:
            return None
        return Step("prioritize_loops", (",".join(self.draw(st.permutations(names))),))

    def join_inames(self) -> Step | None:
        names = self._together()
        inner = [n for n in names if n in self.short]
        if len(names) < 2 or not inner:
            return None
        last = self.draw(st.sampled_from(inner))
        first = self.draw(st.sampled_from([n for n in names if n != last]))
        return Step("join_inames", ((first, last),))

    def _some_users(self, name: str) -> str | None:
        """Choose the last instructions in a loop, if that cuts no temporary off its users."""
        ids = [str(i.id) for i in self.kernel.instructions if name in i.within_inames]
        if not ids:
            return None
        chosen = set(ids[self.draw(st.integers(0, len(ids) - 1)) :])
        for array in self.kernel.temporary_variables:
            users = {str(i.id) for i in self.kernel.instructions if array in i.dependency_names()}
            if users & chosen and users - chosen:
                return None
        return " or ".join(f"id:{n}" for n in sorted(chosen))

    def duplicate_inames(self) -> Step | None:
        """Give some instructions of a loop their own."""
        if not self.loops:
            return None
        name = self.draw(st.sampled_from(self.loops))
        within = self._some_users(name)
        return None if within is None else Step("duplicate_inames", (name,), (("within", within),))

    def rename_iname(self) -> Step | None:
        name = self.draw(st.sampled_from(sorted(self.kernel.inames)))
        return Step("rename_iname", (name, f"{name}_new"))

    def chunk_iname(self) -> Step | None:
        if not self.short:
            return None
        count = self.draw(st.integers(1, 4))
        return Step("chunk_iname", (self.draw(st.sampled_from(self.short)), count))

    def affine_map_inames(self) -> Step | None:
        if not self.loops:
            return None
        name = self.draw(st.sampled_from(self.loops))
        new = f"{name}_moved"
        equation = f"{new} = {self.draw(st.sampled_from(('', '-')))}{name} + 3"
        return Step("affine_map_inames", (name, new, equation))

    def split_reduction(self) -> Step | None:
        """Take some loops of a reduction over several out of it."""
        reductions = [
            expr
            for insn in self.kernel.instructions
            for expr in walk(*insn.read_exprs())
            if isinstance(expr, Reduction) and len(expr.inames) > 1
        ]
        if not reductions:
            return None
        inames = self.draw(st.sampled_from(reductions)).inames
        function = self.draw(st.sampled_from(("split_reduction_inward", "split_reduction_outward")))
        return Step(function, (self.draw(st.sampled_from(inames)),))

    def add_prefetch(self) -> Step | None:
        """Fetch what short loops read of an argument that nobody writes."""
        kernel = self.kernel
        inputs = sorted(
            n for n in kernel.readers if n in kernel.arg_dict and n not in kernel.writers
        )
        if not inputs or not self.short:
            return None
        name = self.draw(st.sampled_from(inputs))
        users = [kernel.id_to_insn[n] for n in kernel.readers[name]]
        around = {n for insn in users for n in insn.within_inames | insn.reduction_inames()}
        swept = sorted(around & set(self.short))
        if not swept:
            return None
        some = self.draw(st.lists(st.sampled_from(swept), min_size=1, unique=True))
        return Step("add_prefetch", (name, tuple(sorted(some))), (("default_tag", None),))

    def _sizes(self) -> list[str]:
        return sorted(self.kernel.all_params() & {"n", "m"})

    def fix_parameters(self) -> Step | None:
        if not self._sizes():
            return None
        return Step("fix_parameters", (), ((self.draw(st.sampled_from(self._sizes())), 4),))

    def assume(self) -> Step | None:
        return Step("assume", (f"{self._sizes()[0]} >= 1",)) if self._sizes() else None

    def set_instruction_priority(self) -> Step | None:
        name = self.draw(st.sampled_from(sorted(self.kernel.id_to_insn)))
        return Step("set_instruction_priority", (f"id:{name}", self.draw(st.integers(1, 9))))


_KINDS: tuple[Callable[[Transformer], Step | None], ...] = (
    *(Transformer.split_iname,) * 6,
    *(Transformer.tag_inames,) * 3,
    *(Transformer.prioritize_loops,) * 2,
    *(Transformer.join_inames,) * 2,
    *(Transformer.duplicate_inames,) * 2,
    *(Transformer.add_prefetch,) * 2,
    *(Transformer.split_reduction,) * 2,
    Transformer.affine_map_inames,
    Transformer.rename_iname,
    Transformer.chunk_iname,
    Transformer.fix_parameters,
    Transformer.set_instruction_priority,
    Transformer.assume,
)


class _Attempts:
    """A kernel, and the transformations tried on it."""

    def __init__(self, draw: Draw, drawn: Kernel) -> None:
        self.draw = draw
        self.drawn = drawn
        self.program = drawn.program()
        try:
            self.unit = self.program.make()
        except KgenError:  # a shape that has no single expression
            self.program = self.program.declared()
            self.unit = self.program.make()
        self.accepted: list[Step] = []
        self.refused: list[Step] = []

    def make(self, step: Step) -> None:
        """Try a transformation."""
        try:
            self.unit = step(self.unit)
        except KgenError:
            self.refused.append(step)
        else:
            self.accepted.append(step)

    def make_some(self) -> Program:
        """Try up to five transformations, and return what came of all."""
        loops = (*self.drawn.loops, *self.drawn.reductions)
        short = frozenset(loop.name for loop in loops if loop.is_constant)
        for _ in range(self.draw(st.sampled_from((3, 4, 5, 6, 2, 1, 0)))):
            choice = self.draw(st.sampled_from(_KINDS))
            transformer = Transformer(self.draw, self.unit.default_entrypoint, short)
            step = choice(transformer) if transformer.plain else None
            if step is not None:
                self.make(step)
        steps, refused = tuple(self.accepted), tuple(self.refused)
        return dataclasses.replace(self.program, steps=steps, refused=refused)


@st.composite
def programs(draw: Draw) -> Program:
    """Draw a kernel and up to five transformations; those that are refused are kept apart."""
    return _Attempts(draw, draw_kernel(draw)).make_some()


@st.composite
def device_programs(draw: Draw) -> Program:
    """Draw a kernel with loops on hardware axes where it has loops that can be."""
    drawn = draw_kernel(draw)
    attempts = _Attempts(draw, drawn)
    shared = [
        loop
        for loop in drawn.loops
        if all(
            loop in s.path
            and (
                drawn.arrays[s.write.array].home is not None
                or loop.name in {index.iname for index in s.write.indices}
            )
            for s in drawn.statements
        )
    ]
    for axis, loop in enumerate(shared[: draw(st.integers(1, 2))]):
        kinds = ("g", "l") if loop.is_constant else ("g",)
        kind = draw(st.sampled_from((*kinds, "split", "split", "split")))
        attempts.make(_on_axis(draw, loop.name, kind, axis))
    used = len(attempts.accepted)
    for loop in drawn.reductions:  # one that each statement uses once: all else is refused
        if (
            used < 3
            and draw(st.booleans())
            and all(s.text.count(f"({loop.name},") == 1 for s in drawn.statements)
        ):
            kind = draw(st.sampled_from(("split", "s", *(("g", "l") if loop.is_constant else ()))))
            attempts.make(_on_axis(draw, loop.name, kind, used))
            used += 1
    return attempts.make_some()


@st.composite
def local_programs(draw: Draw) -> Program:
    """Draw a kernel whose work-groups share tiles in local memory."""
    drawn = draw_local_kernel(draw)
    attempts = _Attempts(draw, drawn)
    tiles = [loop.name for loop in drawn.loops if loop.name[0] in "fu"]
    attempts.make(Step("tag_inames", (", ".join(f"{name}:l.0" for name in tiles),)))
    if draw(st.booleans()):
        attempts.make(_on_axis(draw, drawn.loops[0].name, draw(st.sampled_from("gs")), 0))
    return attempts.make_some()


@st.composite
def global_programs(draw: Draw) -> Program:
    """Draw a kernel of several launches, each with a loop on hardware axes."""
    drawn = draw_global_kernel(draw)
    attempts = _Attempts(draw, drawn)
    for loop in drawn.loops:
        if loop.parent is None:
            attempts.make(_on_axis(draw, loop.name, draw(st.sampled_from(("split", "g"))), 0))
    return attempts.make_some()


def _on_axis(draw: Draw, name: str, kind: str, axis: int) -> Step:
    """Put a loop on an axis, or (*kind* ``split``) on both, or (``s``) its outer part only."""
    if kind in ("g", "l"):
        return Step("tag_inames", (f"{name}:{kind}.{axis}",))
    tags: tuple[tuple[str, Any], ...] = (("outer_tag", f"g.{axis}"),)
    if kind == "split":
        tags = (*tags, ("inner_tag", f"l.{axis}"))
    return Step("split_iname", (name, draw(st.integers(2, 7))), tags)
