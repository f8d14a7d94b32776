"""Random transformations of random kernels, and the programs that join both."""

from __future__ import annotations

import dataclasses
import itertools
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pymbolic.primitives as p

import kgen
from kgen.errors import (
    CodegenError,
    KgenError,
    KgenIndexError,
    KgenWarning,
    ScheduleError,
    TransformError,
    WriteRaceConditionWarning,
)
from kgen.ir.data import ArrayBase
from kgen.ir.expr import Expr, Reduction, variable_names, walk
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import AsyncCopyTag, AxisTag, InameImplementationTag, LocalInameTag
from kgen.ir.target import TargetBase
from kgen.ir.types import AddressSpace
from kgen.lowering import lower
from kgen.targets.c import CTarget
from kgen.targets.cuda import CudaTarget
from kgen.targets.opencl import OpenCLTarget
from kgen.transforms.select import NothingSelectedError
from kgen.transforms.storage.stages import is_window
from tests.random import choices
from tests.random.choices import Draw
from tests.random.fused import draw_fused_program
from tests.random.kernels import (
    Kernel,
    draw_fetch_kernel,
    draw_global_kernel,
    draw_kernel,
    draw_local_kernel,
    draw_saving_kernel,
    draw_scan_kernel,
)
from tests.random.large import draw_large_program
from tests.random.loops import Loop
from tests.random.program import ArrayDecl, Program, Step, reason
from tests.random.rows import draw_balanced_program, draw_row_program
from tests.random.tensors import draw_tensor_program, draw_warpgroup_program
from tests.random.turns import draw_turn_program
from tests.random.windows import draw_window_program

__all__ = [
    "STORING",
    "ahead_programs",
    "balanced_programs",
    "copy_programs",
    "device_programs",
    "fetch_programs",
    "global_programs",
    "host_programs",
    "lane_programs",
    "large_programs",
    "large_thread_programs",
    "local_programs",
    "pipeline_programs",
    "programs",
    "row_programs",
    "saving_programs",
    "scan_programs",
    "tensor_programs",
    "thread_programs",
    "turn_programs",
    "warpgroup_programs",
    "window_programs",
]

_HOST, _DEVICE = CTarget(), CudaTarget()
_THREADS = CTarget(threads=None)
#: A loop beside all others, on an axis that it shares with them.
_BESIDE = "beside"
#: What programs of devices run on besides.
_OTHERS = (CTarget(threads=1), _THREADS, OpenCLTarget())

#: Warnings of races of work-items.
_RACES = r".*(from several work-items|based on local IDs)"

#: Warnings that iterations which depend on each other may be separated or reordered.
_CHANGED = r".*(which (may )?change results|dependent iterations may be reordered)"

#: Transformations that store values ahead.
STORING = frozenset(("add_prefetch", "precompute", "buffer_array", "pipeline", "async_copy"))

#: Transformations whose new loops depend on the target.
_WITH_OTHER_NAMES = frozenset(("realize_reduction", "pipeline", "save_and_reload_temporaries"))

_SLABS = choices.sampled_from(((0, 0), (0, 0), (0, 1), (1, 0), (1, 1)))
#: Where values are stored that work-items share, and those that each computes for itself.
_SHARED = choices.sampled_from((None,) * 7 + (AddressSpace.LOCAL,) * 3 + tuple(AddressSpace))
_OWN = choices.sampled_from((None, None, AddressSpace.PRIVATE))


#: What affine maps add to a loop.
_SHIFTS = choices.sampled_from((0, 1, -2, 3))
#: Maps of a loop I, and of two loops I and J; some leave iterations out, and have to be refused.
_MAPS = (
    *("I_moved = 3 - I", "I_moved = 2*I + 1", "2*I_moved = I", "2*I_moved + 1 = I"),
    *("I_moved = I and I <= 4", "I_moved = 2*floor(I/2) + 1 - (I mod 2)"),
)
_PAIRS = (
    *("I_moved = I + J and J_moved = J", "I_moved = J and J_moved = I"),
    *("I_moved = I - J and J_moved = I", "I_moved = J and J_moved = 2*I + 1"),
    *("I_moved = I + J and J_moved = I - J", "I_moved = I and 2*J_moved = J - I"),
    *("I_moved = 2*I + J and J_moved = I + J",),
)


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
        self.short = [n for n in self.plain if _is_short(n, short)]
        #: those, and work-items, over which one can sweep
        self.swept = [
            n
            for n in sorted(kernel.inames)
            if n in self.short or (_is_short(n, short) and kernel.has_tag(n, LocalInameTag))
        ]
        self.has_axes = any(kernel.has_tag(n, LocalInameTag) for n in kernel.inames)

    def split_iname(self) -> Step | None:
        draw = self.draw
        name = draw(choices.sampled_from(self.plain))
        is_loop = name in self.loops
        others = ("ilp.seq", None) if is_loop else ()
        tags = ("unr", "ilp", "vec", None, *others)
        within = self._some_users(name) if is_loop and draw(choices.integers(0, 4)) == 0 else None
        drawn: tuple[tuple[str, Any], ...] = (
            ("inner_tag", draw(choices.sampled_from(tags))),
            ("slabs", draw(_SLABS)),
            ("within", within),
        )
        options = tuple((k, v) for k, v in drawn if v not in (None, (0, 0)))
        return Step("split_iname", (name, draw(choices.integers(2, 7))), options)

    def tag_inames(self) -> Step | None:
        if not self.short:
            return None
        name = self.draw(choices.sampled_from(self.short))
        tags = ("unr", "unr", "ilp", "ilp.seq", "ord")
        return Step("tag_inames", (f"{name}:{self.draw(choices.sampled_from(tags))}",))

    def _together(self) -> list[str]:
        """Choose loops around the same instructions."""
        if not self.loops:
            return []
        first = self.draw(choices.sampled_from(self.loops))
        return [n for n in self.loops if self.inside[n] == self.inside[first] != frozenset()]

    def prioritize_loops(self) -> Step | None:
        names = self._together()
        if len(names) < 2 or self.kernel.loop_priority:
            return None
        return Step("prioritize_loops", (",".join(self.draw(choices.permutations(names))),))

    def join_inames(self) -> Step | None:
        names = self._together()
        inner = [n for n in names if n in self.short]
        if len(names) < 2 or not inner:
            return None
        last = self.draw(choices.sampled_from(inner))
        first = self.draw(choices.sampled_from([n for n in names if n != last]))
        return Step("join_inames", ((first, last),))

    def _some_users(self, name: str) -> str | None:
        """Choose the last instructions in a loop, if that cuts no temporary off its users."""
        ids = [str(i.id) for i in self.kernel.instructions if name in i.within_inames]
        if not ids:
            return None
        chosen = set(ids[self.draw(choices.integers(0, len(ids) - 1)) :])
        for array in self.kernel.temporary_variables:
            users = {str(i.id) for i in self.kernel.instructions if array in i.dependency_names()}
            if users & chosen and users - chosen:
                return None
        return " or ".join(f"id:{n}" for n in sorted(chosen))

    def duplicate_inames(self) -> Step | None:
        """Give some instructions of a loop their own."""
        if not self.loops:
            return None
        name = self.draw(choices.sampled_from(self.loops))
        within = self._some_users(name)
        return None if within is None else Step("duplicate_inames", (name,), (("within", within),))

    def fuse_loops(self) -> Step | None:
        """Fuse two loops, neither of which is inside the other."""
        pairs = list(itertools.combinations(self.loops, 2))
        for names in self.draw(choices.permutations(pairs)) if pairs else ():
            try:
                found = kgen.get_kennedy_unweighted_fusion_candidates(self.kernel, names)
            except KgenError:
                continue
            if any(len(old) > 1 for old in found.values()):
                return Step(
                    "rename_inames_in_batch", ({n: frozenset(o) for n, o in found.items()},)
                )
        return None

    def rename_iname(self) -> Step | None:
        name = self.draw(choices.sampled_from(sorted(self.kernel.inames)))
        return Step("rename_iname", (name, f"{name}_new"))

    def split_domain(self) -> Step | None:
        """Give iterations of one or two loops their own, those in a set of some form."""
        draw, names = self.draw, self._together()[:2]
        if not names:
            return None
        one, other = names[0], names[-1]
        count = draw(choices.integers(1, 5))
        condition = draw(
            choices.sampled_from(
                (
                    f"{one} >= {count}",
                    f"{one} >= 1 and {other} < {count + 1}",
                    f"{one} < {count} or {other} > {count + 2}",
                    f"({one} + {other}) mod {count + 1} = 0",
                    f"{one} != {count}",
                    f"{one} + {count} <= 2*{other}",
                )
            )
        )
        users = [i for i in self.kernel.instructions if one in i.within_inames]
        kinds = ["instructions", "instructions"]
        if all(i.within_inames <= set(names) for i in users):  # else: loops on the host
            kinds.append("launches")
        into = draw(choices.sampled_from(kinds))
        subset = f"{{ [{', '.join(names)}]: {condition} }}"
        return Step("split_domain", (subset,), (("into", into),))

    def chunk_iname(self) -> Step | None:
        if not self.short:
            return None
        count = self.draw(choices.integers(1, 4))
        return Step("chunk_iname", (self.draw(choices.sampled_from(self.short)), count))

    def pad_inames(self) -> Step | None:
        if not self.plain:
            return None
        name = self.draw(choices.sampled_from(self.plain))
        return Step("pad_inames", (name, self.draw(choices.integers(2, 5))))

    def affine_map_inames(self) -> Step | None:
        return self._affine_map(self.draw(choices.sampled_from((1, 1, -1, -1, 2, -2, 3))))

    def move_iname(self) -> Step | None:
        """Shift or reverse a loop, which leaves the size of its values."""
        return self._affine_map(self.draw(choices.sampled_from((1, -1))))

    def _affine_map(self, factor: int) -> Step | None:
        if not self.loops:
            return None
        name = self.draw(choices.sampled_from(self.loops))
        new = f"{name}_moved"
        one, other = self.draw(choices.permutations((name, new)))
        equation = f"{one} = {factor}*{other} + {self.draw(_SHIFTS)}"
        return Step("affine_map_inames", (name, new, equation))

    def map_domain(self) -> Step | None:
        """Replace one or two loops by as many, by a map that not all iterations have to be in."""
        names = self._together()[:2]
        if not names:
            return None
        one, other = names[0], names[-1]
        maps = [f"[{one}] -> [{one}_moved]: {text}" for text in _MAPS]
        if one != other:
            maps += [f"[{one}, {other}] -> [{one}_moved, {other}_moved]: {t}" for t in _PAIRS]
        text = self.draw(choices.sampled_from(maps)).replace("I", one).replace("J", other)
        return Step("map_domain", (f"{{ {text} }}",))

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
        inames = self.draw(choices.sampled_from(reductions)).inames
        function = self.draw(
            choices.sampled_from(("split_reduction_inward", "split_reduction_outward"))
        )
        return Step(function, (self.draw(choices.sampled_from(inames)),))

    def _sweep(self, users: Iterable[str], uses: Iterable[Expr]) -> tuple[str, ...]:
        """Choose short loops around some of the given instructions, on which uses depend."""
        insns = [self.kernel.id_to_insn[n] for n in users]
        around = {n for insn in insns for n in insn.within_inames | insn.reduction_inames()}
        around &= set(variable_names(*uses))
        swept = [n for n in self.swept if n in around]
        if not swept:
            return ()
        return tuple(sorted(self.draw(choices.some_of(swept))))

    def _uses(self, name: str) -> tuple[list[str], list[Expr]]:
        """Return which instructions use an array or a rule, and the subscripts or arguments."""
        users, uses = dict[str, None](), list[Expr]()
        for insn in self.kernel.instructions:
            for expr in walk(*insn.read_exprs()):
                if isinstance(expr, p.Call) and expr.function == p.Variable(name):
                    uses += expr.parameters
                elif isinstance(expr, p.Subscript) and expr.aggregate == p.Variable(name):
                    uses += expr.index_tuple
                elif expr == p.Variable(name) and name in self.kernel.substitutions:
                    uses.append(self.kernel.substitutions[name].expression)
                else:
                    continue
                users[str(insn.id)] = None
        return list(users), uses

    def _fetch_options(self, users: Iterable[str], swept: tuple[str, ...]) -> dict[str, Any]:
        """Choose how values are fetched: tags of the loops, where they are, and for whom."""
        draw, kernel = self.draw, self.kernel
        axes = ("l.auto", "l.auto", "l.0", "l.1") if self.has_axes else ("l.auto",)
        users = sorted(users)
        around = {n for u in users for n in kernel.id_to_insn[u].within_inames} - set(swept)
        outer = draw(choices.integers(0, 5)) == 0 and draw(choices.permutations(sorted(around)))
        is_within = draw(choices.integers(0, 4)) == 0 and bool(users)  # a rule may be unused
        within = f"id:{draw(choices.sampled_from(users))}" if is_within else None
        tag = draw(choices.sampled_from((*axes, *axes, None, None, "unr")))
        is_shared = self.has_axes and str(tag).startswith("l.")
        return {
            "default_tag": tag,
            "outer": tuple(outer[: draw(choices.integers(0, len(outer)))]) if outer else None,
            "temporary_address_space": draw(_SHARED if is_shared else _OWN),
            "fetch_bounding_box": draw(choices.integers(0, 2)) == 0 or None,
            "within": within,
        }

    def add_prefetch(self) -> Step | None:
        """Fetch what short loops and work-items read of an argument that nobody writes."""
        kernel = self.kernel
        inputs = {arg.name for arg in kernel.args if isinstance(arg, ArrayBase)}
        found = [(n, *self._uses(n)) for n in sorted(inputs - set(kernel.writers))]
        found = [
            (n, users, uses)
            for n, users, uses in found
            if not set(self.swept).isdisjoint(variable_names(*uses))
        ]
        if not found:
            return None
        name, users, uses = self.draw(choices.sampled_from(found))
        swept = self._sweep(users, uses)
        if not swept:
            return None
        options = self._fetch_options(users, swept)
        options["fetch_outer_inames"] = options.pop("outer")
        return Step("add_prefetch", (name, swept), _given(options))

    def tag_arrays(self) -> Step | None:
        """Say of arguments, also of written ones, that their elements are read once."""
        names = sorted(arg.name for arg in self.kernel.args if isinstance(arg, ArrayBase))
        tagged = ", ".join(sorted(self.draw(choices.some_of(names)))) if names else ""
        return Step("tag_arrays", (tagged, "!streaming_load")) if tagged else None

    def add_window(self) -> Step | None:
        """Keep what iterations of a sequential loop read of an argument that nobody writes."""
        kernel, draw = self.kernel, self.draw
        inputs = {arg.name for arg in kernel.args if isinstance(arg, ArrayBase)}
        found = [
            (loop, name, users)
            for name in sorted(inputs - set(kernel.writers))
            for users, uses in (self._uses(name),)
            for loop in self.plain
            if loop in variable_names(*uses)
        ]
        if not found:
            return None
        loop, name, users = draw(choices.sampled_from(found))
        more = self._sweep(users, self._uses(name)[1]) if draw(choices.booleans()) else ()
        options = self._fetch_options(users, more)
        options["fetch_outer_inames"] = options.pop("outer")
        sweep = tuple(n for n in more if n != loop)
        return Step("add_prefetch", (name, sweep), (*_given(options), ("window", loop)))

    def async_copy(self) -> Step | None:
        """Let a copy of what nobody writes go on."""
        kernel = self.kernel
        inputs = {arg.name for arg in kernel.args if isinstance(arg, ArrayBase)}
        found = [
            str(insn.id)
            for insn in kernel.instructions
            for expr in insn.read_exprs()
            if isinstance(expr, p.Subscript) and not insn.tags_of_type(AsyncCopyTag)
            if variable_names(expr.aggregate)[0] in inputs - set(kernel.writers)
        ]
        return Step("async_copy", (self.draw(choices.sampled_from(found)),)) if found else None

    def precompute(self) -> Step | None:
        """Store the values of a rule."""
        if not self.kernel.substitutions:
            return None
        rule = self.draw(choices.sampled_from(sorted(self.kernel.substitutions)))
        users, uses = self._uses(rule)
        swept = self._sweep(users, uses)
        if not swept and self.kernel.substitutions[rule].arguments:
            return None
        options = self._fetch_options(users, swept)
        options["precompute_outer_inames"] = options.pop("outer")
        return Step("precompute", (rule, swept), _given(options))

    def pipeline(self) -> Step | None:
        """Fill a temporary some iterations ahead of a loop around all that use it."""
        found = [
            (loop, name)
            for name in sorted(self.kernel.temporary_variables)
            for loop in self.plain
            if self._is_filled_in(loop, name)
        ]
        if not found:
            return None
        loop, name = self.draw(choices.sampled_from(found))
        stages = self.draw(choices.integers(2, 4))
        options = (("ahead", 2),) if stages == 4 else ()
        return Step("pipeline", (loop, stages, name), options)

    def pipeline_window(self) -> Step | None:
        """Fetch the planes of a window some iterations ahead of its loop."""
        found = [
            (loop, name)
            for name in sorted(self.kernel.temporary_variables)
            for loop in self.plain
            if is_window(self.kernel, loop, name)
        ]
        if not found:
            return None
        loop, name = self.draw(choices.sampled_from(found))
        return Step("pipeline", (loop, self.draw(choices.integers(2, 4)), name))

    def _is_filled_in(self, loop: str, name: str) -> bool:
        """Tell whether an iteration fills a temporary, in loops of its own, and uses it."""
        kernel = self.kernel
        users = {str(i.id): i for i in kernel.instructions if name in i.dependency_names()}
        writers = [i for i in users.values() if name in i.assignee_var_names()]
        if any(loop in i.within_inames for i in writers):  # a window is filled before as well
            before = [i for i in writers if loop not in i.within_inames]
            writers = [i for i in writers if loop in i.within_inames]
            users = {n: i for n, i in users.items() if i not in before}
        around = (i.within_inames | i.reduction_inames() for i in users.values())
        own = {n for i in writers for n in i.within_inames if n in self.plain}
        ids = {str(i.id) for i in writers}
        return (
            bool(writers)
            and not any(name in i.read_dependency_names() for i in writers)
            and all(loop in names for names in around)
            and all(loop in i.within_inames for i in writers)
            and all(
                self.inside[loop] < self.inside[n] or self.inside[n] & self.inside[loop] <= ids
                for n in own - {loop}
            )
        )

    def buffer_array(self) -> Step | None:
        """Keep what instructions write in a temporary."""
        kernel = self.kernel
        outputs = sorted(n for n in kernel.writers if n in kernel.arg_dict)
        if not outputs:
            return None
        name = self.draw(choices.sampled_from(outputs))
        writers = [kernel.id_to_insn[n] for n in kernel.writers[name]]
        swept = self._sweep(kernel.writers[name], [place for w in writers for place in w.assignees])
        options = {
            "default_tag": self.draw(choices.sampled_from(("l.auto", None))),
            "init_expression": self.draw(choices.sampled_from((None, None, False))),
        }
        return Step("buffer_array", (name, swept), _given(options)) if swept else None

    def set_temporary_address_space(self) -> Step | None:
        names = sorted(self.kernel.temporary_variables)
        if not names:
            return None
        space = self.draw(choices.sampled_from(tuple(AddressSpace)))
        return Step("set_temporary_address_space", (self.draw(choices.sampled_from(names)), space))

    def tag_work_items(self) -> Step | None:
        """Let work-items share a loop, such as one that fetches."""
        if not self.short or not self.has_axes:
            return None
        name = self.draw(choices.sampled_from(self.short))
        return Step("tag_inames", (f"{name}:l.{self.draw(choices.integers(0, 1))}",))

    def separate_axes(self) -> Step | None:
        """Give the last instructions on some axes loops of their own on the same axes."""
        axes = {n: self._axes_of(n) for n in sorted(self.kernel.inames)}
        on_axes = [
            insn
            for insn in self.kernel.instructions
            if any(axes[n] and len(self.inside[n]) > 1 for n in insn.within_inames)
        ]
        if len(on_axes) < 2:
            return None
        chosen = on_axes[self.draw(choices.integers(1, len(on_axes) - 1)) :]
        around = frozenset[str].intersection(*(insn.within_inames for insn in chosen))
        names = [n for n in sorted(around) if axes[n]]
        if not names:
            return None
        if self.draw(choices.integers(0, 3)) == 0:
            names = [self.draw(choices.sampled_from(names))]
        within = " or ".join(f"id:{insn.id}" for insn in chosen)
        tags = {n: axes[n] for n in names}
        return Step("duplicate_inames", (tuple(names),), (("within", within), ("tags", tags)))

    def reuse_axis(self) -> Step | None:
        """Put a loop on an axis that a loop of other instructions is on."""
        on_axes: dict[str, set[str]] = {}
        for name in sorted(self.kernel.inames):
            if axis := self._axes_of(name):
                on_axes.setdefault(axis, set()).update(self.inside[name])
        pairs = [
            (loop, axis)
            for loop in self.loops
            for axis, insns in on_axes.items()
            if insns.isdisjoint(self.inside[loop])
        ]
        if not pairs:
            return None
        loop, axis = self.draw(choices.sampled_from(pairs))
        if loop in self.short and self.draw(choices.booleans()):
            return Step("tag_inames", (f"{loop}:{axis}",))
        return _split(loop, self.draw(choices.integers(2, 7)), *self._outer_or_inner(axis))

    def _outer_or_inner(self, axis: str) -> tuple[str | None, str | None]:
        return (axis, None) if axis.startswith("g") else (None, axis)

    def _axes_of(self, name: str) -> str:
        """Return the axis that a loop is on, as text; nothing if it is on none."""
        tags = self.kernel.iname_tags_of_type(name, AxisTag)
        return next((str(tag) for tag in tags if re.fullmatch(r"[gl]\.\d", str(tag))), "")

    def _sizes(self) -> list[str]:
        return sorted(self.kernel.all_params() & {"n", "m"})

    def fix_parameters(self) -> Step | None:
        if not self._sizes():
            return None
        return Step("fix_parameters", (), ((self.draw(choices.sampled_from(self._sizes())), 4),))

    def assume(self) -> Step | None:
        return Step("assume", (f"{self._sizes()[0]} >= 1",)) if self._sizes() else None

    def set_instruction_priority(self) -> Step | None:
        name = self.draw(choices.sampled_from(sorted(self.kernel.id_to_insn)))
        return Step("set_instruction_priority", (f"id:{name}", self.draw(choices.integers(1, 9))))

    # -- what a pipeline has besides ---------------------------------------------------------

    def fetch_anything(self) -> Step | None:
        """Fetch from any array, temporaries and written ones included."""
        kernel, draw = self.kernel, self.draw
        arrays = [*kernel.temporary_variables, *(a.name for a in kernel.args)]
        found = [(n, *self._uses(n)) for n in sorted(arrays)]
        found = [(n, users, uses) for n, users, uses in found if self._sweep(users, uses)]
        if not found:
            return None
        name, users, uses = draw(choices.sampled_from(found))
        swept = self._sweep(users, uses)
        if not swept:
            return None
        options = self._fetch_options(users, swept)
        if name in kernel.temporary_variables:  # a box may have elements that nothing has written
            options["fetch_bounding_box"] = None
        options["fetch_outer_inames"] = options.pop("outer")
        return Step("add_prefetch", (name, swept), _given(options))

    def assignment_to_subst(self) -> Step | None:
        return self._of_temporary("assignment_to_subst")

    def privatize_temporaries(self) -> Step | None:
        """Give each iteration of a loop a copy of its temporary."""
        names = sorted(self.kernel.temporary_variables)
        if not names or not self.short:
            return None
        name, iname = (self.draw(choices.sampled_from(x)) for x in (names, self.short))
        return Step("privatize_temporaries_with_inames", (iname, name))

    def _of_temporary(self, function: str, *more: Any) -> Step | None:
        names = sorted(self.kernel.temporary_variables)
        return Step(function, (self.draw(choices.sampled_from(names)), *more)) if names else None

    def expand_subst(self) -> Step | None:
        return Step("expand_subst") if self.kernel.substitutions else None

    def fold_constants(self) -> Step:
        return Step("fold_constants")

    def hoist_factors(self) -> Step | None:
        """Multiply a sum by what all of its terms have."""
        found = [
            ", ".join(expr.inames)
            for insn in self.kernel.instructions
            for expr in walk(*insn.read_exprs())
            if isinstance(expr, Reduction) and isinstance(expr.expr, p.Product)
        ]
        function = "hoist_invariant_multiplicative_terms_in_sum_reduction"
        return Step(function, (self.draw(choices.sampled_from(found)),)) if found else None

    def simplify_indices(self) -> Step:
        return Step("simplify_indices")

    def avoid_conflicts(self) -> Step | None:
        """Permute or pad what work-items share."""
        row = self.draw(choices.sampled_from((16, 32, 128, 0)))
        if row:
            return self._of_temporary("tag_array_axes", f"swizzle:{row}")
        return self._of_temporary("add_padding_to_avoid_bank_conflicts")

    def split_array_axis(self) -> Step | None:
        return self._of_temporary("split_array_axis", 0, self.draw(choices.integers(2, 3)))

    def alias_temporaries(self) -> Step | None:
        names = sorted(self.kernel.temporary_variables)
        if len(names) < 2:
            return None
        return Step("alias_temporaries", (tuple(self.draw(choices.permutations(names))[:2]),))

    def make_reduction_inames_unique(self) -> Step:
        return Step("make_reduction_inames_unique")

    def realize_reduction(self) -> Step:
        return Step("realize_reduction")


def _is_short(name: str, short: frozenset[str]) -> bool:
    name = re.sub(r"_(interior|boundary)(_\d+)?", "", name)
    is_made = name.endswith("_inner") or "_dim_" in name
    return name in short or (is_made and "_and_" not in name)


def _given(options: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Leave out what is None, but for the tag, whose default is another one."""
    return tuple((k, v) for k, v in options.items() if v is not None or k == "default_tag")


_KINDS: tuple[Callable[[Transformer], Step | None], ...] = (
    *(Transformer.split_iname,) * 6,
    *(Transformer.tag_inames,) * 3,
    *(Transformer.prioritize_loops,) * 2,
    *(Transformer.join_inames,) * 2,
    *(Transformer.duplicate_inames,) * 2,
    Transformer.fuse_loops,
    *(Transformer.split_domain,) * 2,
    *(Transformer.add_prefetch,) * 2,
    *(Transformer.precompute,) * 2,
    Transformer.buffer_array,
    *(Transformer.split_reduction,) * 2,
    Transformer.affine_map_inames,
    Transformer.map_domain,
    Transformer.rename_iname,
    Transformer.chunk_iname,
    Transformer.pad_inames,
    Transformer.fix_parameters,
    Transformer.set_instruction_priority,
    Transformer.assume,
    Transformer.tag_arrays,
)

#: What pipelines are made of.
_PIPELINES: tuple[Callable[[Transformer], Step | None], ...] = (
    *_KINDS,
    *(Transformer.fetch_anything,) * 4,
    *(Transformer.assignment_to_subst,) * 2,
    *(Transformer.privatize_temporaries,) * 2,
    Transformer.buffer_array,
    Transformer.tag_work_items,
    Transformer.separate_axes,
    Transformer.reuse_axis,
    Transformer.set_temporary_address_space,
    Transformer.expand_subst,
    Transformer.fold_constants,
    Transformer.hoist_factors,
    Transformer.simplify_indices,
    Transformer.split_array_axis,
    Transformer.avoid_conflicts,
    Transformer.alias_temporaries,
    Transformer.make_reduction_inames_unique,
    Transformer.realize_reduction,
)

#: What leaves sizes as they are.
_LARGE: tuple[Callable[[Transformer], Step | None], ...] = (
    *(Transformer.split_iname,) * 5,
    Transformer.tag_inames,
    Transformer.join_inames,
    Transformer.prioritize_loops,
    Transformer.move_iname,
    Transformer.add_prefetch,
)

_FETCHES: tuple[Callable[[Transformer], Step | None], ...] = (
    *(Transformer.add_prefetch,) * 4,
    *(Transformer.precompute,) * 3,
    Transformer.split_iname,
    Transformer.tag_work_items,
    Transformer.set_temporary_address_space,
    Transformer.tag_arrays,
)


_WINDOWS = (*_KINDS, *(Transformer.pipeline, Transformer.avoid_conflicts) * 4)


def _has_shapes(program: Program) -> bool:
    """Tell whether each shape that is left open can be inferred."""
    try:
        kernel = program.make().default_entrypoint
    except KgenError:  # one that has no single expression
        return False
    return all(isinstance(a.shape, tuple) for a in kernel.args if isinstance(a, ArrayBase))


def _fetches_boxes(step: Step) -> bool:
    return bool(dict(step.options).get("fetch_bounding_box"))


def _split(name: str, length: int, outer: str | None, inner: str | None) -> Step:
    tags = (("outer_tag", outer), ("inner_tag", inner))
    return Step("split_iname", (name, length), tuple((k, tag) for k, tag in tags if tag))


#: Ways to share the loop along which a scan runs, and more of them where its length is fixed.
_SCANS: tuple[Callable[[str, int], tuple[Step, ...]], ...] = (
    lambda i, _: (),
    lambda i, n: (_split(i, n, None, None),),
    lambda i, n: (_split(i, n, None, "l.0"),),
    lambda i, n: (_split(i, n, "g.0", None),),
    lambda i, n: (_split(i, n, "g.0", "l.0"),),
    lambda i, n: (_split(i, 2 * n, "g.0", None), _split(f"{i}_inner", 2, None, "l.0")),
    lambda i, n: (_split(i, 2 * n, "g.0", None), _split(f"{i}_inner", 2, "l.0", None)),
)
_FIXED_SCANS: tuple[Callable[[str, int], tuple[Step, ...]], ...] = (
    *_SCANS,
    lambda i, _: (Step("tag_inames", (f"{i}:l.0",)),),
    lambda i, n: (_split(i, n, "l.0", None),),
)


class _Attempts:
    """A kernel, and the transformations tried on it."""

    def __init__(
        self,
        draw: Draw,
        program: Program,
        loops: Iterable[Loop] = (),
        target: TargetBase = _DEVICE,
    ) -> None:
        self.draw = draw
        self.program = program
        self.short = frozenset(loop.name for loop in loops if loop.is_constant)
        self.target = target
        if not _has_shapes(self.program):
            self.program = self.program.declared()
        #: what the transformations made of the kernel, one after the other
        self.units = [self.program.make()]
        self.accepted: list[Step] = []
        self.refused: list[Step] = []
        self.unscheduled: list[str] = []

    @property
    def kernel(self) -> LoopKernel:
        """The kernel as it is by now."""
        return self.units[-1].default_entrypoint

    def make(self, step: Step) -> None:
        """Try a transformation. One that breaks down stays: then the program is wrong."""
        if not self._is_named_everywhere(step):
            self.refused.append(step)
            return
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("error", _CHANGED, KgenWarning)
                self.units.append(step(self.units[-1]))
        except (KgenError, KgenWarning):
            self.refused.append(step)
        except Exception:
            self.units.append(self.units[-1])
            self.accepted.append(step)
        else:
            self.accepted.append(step)

    def _is_named_everywhere(self, step: Step) -> bool:
        """Tell whether what a step names exists on the other targets that programs run on.

        Reductions become other loops there, pipelines load to registers only on devices, and values
        are saved in the loops that compute them where work-items are loops.
        """
        if not any(each.function in _WITH_OTHER_NAMES for each in self.accepted):
            return True
        return all(self._is_named_on(target, step) for target in _OTHERS)

    def _is_named_on(self, target: TargetBase, step: Step) -> bool:
        try:
            unit = self.program.make(target=target)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for each in (*self.accepted, step):
                    unit = each(unit)
        except NothingSelectedError:
            return False
        except Exception:
            return True  # which checks will find, or refuse
        return True

    def has_schedule(self) -> bool:
        """Tell whether there is a schedule, without a race that is warned of; note why not."""
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("error", _RACES, WriteRaceConditionWarning)
                lower(self.kernel.copy(target=self.target))
        except (ScheduleError, TransformError, WriteRaceConditionWarning) as error:
            self.unscheduled.append(reason(error))
            return False
        except Exception as error:
            if isinstance(error, CodegenError) and "more than the device allows" in str(error):
                self.unscheduled.append("tiles that are too large for the device")
                return False
            if isinstance(error, KgenIndexError) and any(map(_fetches_boxes, self.accepted)):
                self.unscheduled.append("boxes that are larger than the array")
                return False
            return True  # the program is wrong, which checks will find
        return True

    def undo_unscheduled(self) -> None:
        """Undo the last transformations until there is a schedule."""
        while self.accepted and not self.has_schedule():
            self.refused.append(self.accepted.pop())
            self.units.pop()

    def make_one_of(self, kinds: Sequence[Callable[[Transformer], Step | None]]) -> None:
        """Try one transformation."""
        choice = self.draw(choices.sampled_from(kinds))
        transformer = Transformer(self.draw, self.kernel, self.short)
        step = choice(transformer) if transformer.plain else None
        if step is not None:
            count = len(self.accepted)
            self.make(step)
            if step.function in STORING and len(self.accepted) > count:
                self.undo_unscheduled()

    def share_axes(self) -> None:
        """Try to put other loops on the axes that are in use; what has no schedule is undone."""
        for _ in range(self.draw(choices.sampled_from((0, 1, 1, 2)))):
            count = len(self.accepted)
            self.make_one_of((Transformer.separate_axes, Transformer.reuse_axis))
            if len(self.accepted) > count:
                self.undo_unscheduled()

    def make_some(
        self,
        counts: Sequence[int] = (3, 4, 5, 6, 2, 1, 0),
        kinds: Sequence[Callable[[Transformer], Step | None]] = _KINDS,
    ) -> Program:
        """Try up to six transformations, and return what came of all."""
        for _ in range(self.draw(choices.sampled_from(counts))):
            self.make_one_of(kinds)
        self.undo_unscheduled()
        return dataclasses.replace(
            self.program,
            steps=tuple(self.accepted),
            refused=tuple(self.refused),
            unscheduled=tuple(self.unscheduled),
        )

    def make_pipeline(self, wanted: int) -> Program:
        """Try transformations until that many are accepted, or too many were not."""
        for _ in range(4 * wanted):
            if len(self.accepted) < wanted:
                self.make_one_of(_PIPELINES)
        return self.make_some((0,))

    def put_reductions_on_axes(self, drawn: Kernel, used: int) -> None:
        """Let work-items share reductions that each statement has once: all else is refused."""
        draw = self.draw
        for loop in drawn.reductions:
            if (
                used < 3
                and draw(choices.booleans())
                and all(s.text.count(f"({loop.name},") == 1 for s in drawn.statements)
            ):
                kinds = ("split", "s", *(("g", "l") if loop.is_constant else ()))
                self.make(_on_axis(draw, loop.name, draw(choices.sampled_from(kinds)), used))
                used += 1


def _attempts_on(
    draw: Draw,
    drawn: Kernel,
    lowered_for: TargetBase = _DEVICE,
    *,
    target: str = "CTarget",
    beside: bool = False,
) -> _Attempts:
    loops = (*drawn.loops, *drawn.reductions)
    program = dataclasses.replace(drawn.program(), target=target)
    if beside and draw(choices.integers(0, 2)) == 0:
        program = _with_loop_beside(draw, program)
    return _Attempts(draw, program, loops, lowered_for)


def _with_loop_beside(draw: Draw, program: Program) -> Program:
    """Add a loop beside all others, of a length of its own."""
    length = draw(choices.sampled_from(("n", "m", "m + n", "m + 3", "6")))
    sizes = set(re.findall("[nm]", length)) - set(re.findall(r"\w+", program.assumptions))
    known = [program.assumptions] if program.assumptions else []
    return dataclasses.replace(
        program,
        domains=(*program.domains, f"{{ [{_BESIDE}] : 0 <= {_BESIDE} < {length} }}"),
        lines=(*program.lines, f"extra[{_BESIDE}] = 2*{_BESIDE} + 1 {{id=extra}}"),
        arrays=(*program.arrays, ArrayDecl("extra", "int32", (length,))),
        assumptions=" and ".join([*known, *(f"{name} >= 0" for name in sorted(sizes))]),
        parameters=tuple(name for name in program.parameters if name not in length),
    )


def programs(draw: Draw) -> Program:
    """Draw a kernel and up to six transformations; those that are refused are kept apart."""
    return _attempts_on(draw, draw_kernel(draw), _HOST).make_some()


def fused_programs(draw: Draw) -> Program:
    """Draw two kernels with loops of the same names, fuse them, and transform the result."""
    return _Attempts(draw, draw_fused_program(draw), target=_HOST).make_some()


def pipeline_programs(draw: Draw) -> Program:
    """Draw a kernel and three or more transformations of all kinds, for work-items or without."""
    drawn = draw(choices.sampled_from((draw_kernel, draw_fetch_kernel, draw_local_kernel)))(draw)
    attempts = _attempts_on(draw, drawn)
    outer = drawn.loops[0]
    if all(outer in s.path for s in drawn.statements) and draw(choices.booleans()):
        attempts.make(_on_axis(draw, outer.name, _kind_of_axis(draw, outer), 0))
    return attempts.make_pipeline(draw(choices.integers(3, 7)))


def row_programs(draw: Draw) -> Program:
    """Draw loops over rows whose bounds are data."""
    attempts = _Attempts(draw, draw_row_program(draw), ())
    attempts.short = frozenset("d")
    kind = draw(choices.sampled_from(("split", "split", "g", "s", None)))
    if kind is not None:
        attempts.make(_on_axis(draw, "i", kind, 0))
    if draw(choices.booleans()) and "d" in attempts.kernel.inames:
        attempts.make(Step("tag_inames", ("d:unr",)))
    return attempts.make_some((0, 1, 2, 3), _PIPELINES)


def balanced_programs(draw: Draw) -> Program:
    """Draw sums over rows of any length, which work-items share evenly."""
    program = draw_balanced_program(draw)
    attempts = _Attempts(draw, dataclasses.replace(program, steps=(), target="CudaTarget"))
    for step in program.steps:
        attempts.make(step)
    return attempts.make_some((0, 0, 0, 1))


def turn_programs(draw: Draw) -> Program:
    """Draw temporaries of two halves that take turns."""
    is_shared = draw(choices.booleans())
    program = draw_turn_program(draw, "local" if is_shared else "private")
    steps, program = program.steps, dataclasses.replace(program, steps=())
    attempts = _Attempts(draw, program, ())
    attempts.short = frozenset("kfgu")
    for step in steps:
        attempts.make(step)
    if is_shared:
        names = [n for n in sorted(attempts.kernel.inames) if n in "fgu"]
        attempts.make(Step("tag_inames", (", ".join(f"{name}:l.0" for name in names),)))
    if draw(choices.booleans()):
        attempts.make(_on_axis(draw, "i", draw(choices.sampled_from("gs")), 0))
    return attempts.make_some((0, 0, 1, 2, 3), _PIPELINES)


def large_programs(draw: Draw) -> Program:
    """Draw a kernel around large offsets."""
    attempts = _Attempts(draw, draw_large_program(draw), target=_HOST)
    return attempts.make_some((1, 2, 3, 4, 0), _LARGE)


def large_thread_programs(draw: Draw) -> Program:
    """Draw one whose outer loop runs on threads."""
    attempts = _Attempts(draw, draw_large_program(draw), target=_THREADS)
    attempts.make(_on_threads(draw, "i", 0))
    return attempts.make_some((0, 1, 2, 3), _LARGE)


def device_programs(draw: Draw) -> Program:
    """Draw a kernel with loops on hardware axes where it has loops that can be."""
    drawn = draw_kernel(draw)
    attempts = _attempts_on(draw, drawn, beside=True)
    shared = _independent(drawn)
    for axis, loop in enumerate(shared[: draw(choices.integers(1, 2))]):
        attempts.make(_on_axis(draw, loop.name, _kind_of_axis(draw, loop), axis))
    attempts.put_reductions_on_axes(drawn, len(attempts.accepted))
    if any(_BESIDE in domain for domain in attempts.program.domains):
        kind = draw(choices.sampled_from(("g", "s", "split")))
        attempts.make(_on_axis(draw, _BESIDE, kind, 0))
    attempts.share_axes()
    return attempts.make_some()


def _independent(drawn: Kernel) -> list[Loop]:
    """Return loops around all statements whose iterations write elements of their own."""
    return [
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


def thread_programs(draw: Draw) -> Program:
    """Draw a kernel with loops of work-groups, up to three, for the threads of the host."""
    drawn, loops = draw_kernel(draw), list[Loop]()
    while not loops:
        drawn = draw(choices.sampled_from((draw_kernel, draw_kernel, draw_fetch_kernel)))(draw)
        loops = _independent(drawn)[: draw(choices.integers(1, 3))]
    attempts = _attempts_on(draw, drawn, _THREADS, beside=True)
    for axis, loop in enumerate(loops):
        attempts.make(_on_threads(draw, loop.name, axis))
    attempts.put_reductions_on_axes(drawn, len(loops))
    if any(_BESIDE in domain for domain in attempts.program.domains):
        attempts.make(_on_threads(draw, _BESIDE, 0))
    attempts.share_axes()
    return attempts.make_some()


def lane_programs(draw: Draw) -> Program:
    """Draw a kernel with loops over lanes, of which the host's compiler makes vectors."""
    kinds = (draw_kernel, draw_kernel, draw_fetch_kernel)
    drawn = draw(choices.sampled_from(kinds))(draw)
    attempts = _attempts_on(draw, drawn, _HOST)
    for loop in (*drawn.loops, *drawn.reductions):
        if loop.name in attempts.kernel.inames and draw(choices.booleans()):
            attempts.make(_split(loop.name, draw(choices.integers(2, 9)), None, "vec"))
    return attempts.make_some((0, 0, 1, 2, 3))


def fetch_programs(draw: Draw) -> Program:
    """Draw a kernel whose work-items fetch what they read, and compute rules ahead."""
    return _fetch_program(draw, has_axes=True)


def host_programs(draw: Draw) -> Program:
    """Draw such a kernel without work-items."""
    return _fetch_program(draw, has_axes=False)


def ahead_programs(draw: Draw) -> Program:
    """Draw such a kernel, for work-items or without, whose loops fetch iterations ahead."""
    target = draw(choices.sampled_from(("CudaTarget", "CudaTarget", "CTarget")))
    has_axes = target != "CTarget"
    while True:
        attempts = _with_fetches(draw, has_axes=has_axes, target=target)
        for _ in range(3):
            attempts.make_one_of((Transformer.pipeline,))
        program = attempts.make_some((0, 0, 0, 1, 2))
        on_axes = any(attempts.kernel.has_tag(name, AxisTag) for name in attempts.kernel.inames)
        if on_axes == has_axes and any(step.function == "pipeline" for step in program.steps):
            return program


def copy_programs(draw: Draw) -> Program:
    """Draw such a kernel whose work-items copy, and go on until they wait."""
    while True:
        attempts = _with_fetches(draw, has_axes=True, target="CudaTarget")
        for kind in (*(Transformer.async_copy,) * 3, *(Transformer.pipeline,) * 2):
            attempts.make_one_of((kind,))
        program = attempts.make_some((0, 0, 0, 1, 2))
        if any(step.function == "async_copy" for step in program.steps):
            return program


def window_programs(draw: Draw) -> Program:
    """Draw a kernel that reads neighbours, and keeps them from one iteration to the next."""
    target = draw(choices.sampled_from(("CudaTarget", "CudaTarget", "CTarget")))
    has_axes = target != "CTarget"
    lowered_for = _DEVICE if has_axes else _HOST
    while True:
        program = dataclasses.replace(draw_window_program(draw), target=target)
        attempts = _Attempts(draw, program, target=lowered_for)
        attempts.short = frozenset("xr")
        if has_axes:
            attempts.make(_on_axis(draw, "x", draw(choices.sampled_from(("l", "split"))), 0))
        if draw(choices.integers(0, 3)) == 0:
            attempts.make(
                _split("z", draw(choices.integers(2, 4)), "g.1" if has_axes else None, None)
            )
        for _ in range(2):
            attempts.make_one_of((Transformer.add_window,))
        if draw(choices.booleans()):
            if target == "CudaTarget":
                attempts.make_one_of((Transformer.async_copy,))
            attempts.make_one_of((Transformer.pipeline_window,))
        program = attempts.make_some((0, 0, 0, 1, 2), _WINDOWS)
        if any("window" in dict(step.options) for step in program.steps):
            return program


def tensor_programs(draw: Draw) -> Program:
    """Draw a product that tensor cores compute, the factors of which may be fetched."""
    while True:
        program = draw_tensor_program(draw)
        steps, program = program.steps, dataclasses.replace(program, steps=())
        attempts = _Attempts(draw, program)
        attempts.short = frozenset("jk")
        for step in steps:
            attempts.make(step)
        for kind in (Transformer.add_prefetch, Transformer.async_copy, Transformer.pipeline):
            attempts.make_one_of((kind,))
        program = attempts.make_some((0, 0, 0, 1, 2))
        if any(step.function == "tensorize" for step in program.steps):
            return program


def warpgroup_programs(draw: Draw) -> Program:
    """Draw a product that warpgroups compute, the tiles of which may be fetched ahead."""
    program = draw_warpgroup_program(draw)
    steps, program = program.steps, dataclasses.replace(program, steps=())
    attempts = _Attempts(draw, program)
    for step in steps:
        attempts.make(step)
    if draw(choices.booleans()):
        attempts.make(Step("pipeline", ("k_outer", draw(choices.integers(2, 3)))))
    return attempts.make_some((0,))


def _fetch_program(draw: Draw, *, has_axes: bool) -> Program:
    return _with_fetches(draw, has_axes=has_axes).make_some((0, 0, 1, 2, 3))


def _with_fetches(draw: Draw, *, has_axes: bool, target: str = "CTarget") -> _Attempts:
    drawn = draw_fetch_kernel(draw)
    attempts = _attempts_on(draw, drawn, _DEVICE if has_axes else _HOST, target=target)
    if has_axes:
        count = draw(choices.sampled_from((1, 1, 2, 0)))
        loops = [x for x in drawn.loops[:count] if all(x in s.path for s in drawn.statements)]
        for axis, loop in enumerate(loops):
            attempts.make(_on_axis(draw, loop.name, _kind_of_axis(draw, loop), axis))
        attempts.put_reductions_on_axes(drawn, len(loops))
        attempts.share_axes()
    for loop in drawn.loops:
        if loop.name in attempts.kernel.inames and draw(choices.booleans()):
            attempts.make(Step("split_iname", (loop.name, draw(choices.integers(2, 7)))))
    attempts.undo_unscheduled()
    wanted = draw(choices.integers(1, 3))
    for _ in range(4 * wanted):
        if sum(step.function in STORING for step in attempts.accepted) < wanted:
            attempts.make_one_of(_FETCHES)
    return attempts


def local_programs(draw: Draw) -> Program:
    """Draw a kernel whose work-groups share tiles in local memory."""
    drawn = draw_local_kernel(draw)
    attempts = _attempts_on(draw, drawn)
    tiles = [loop.name for loop in drawn.loops if loop.name[0] in "fu"]
    attempts.make(Step("tag_inames", (", ".join(f"{name}:l.0" for name in tiles),)))
    if draw(choices.booleans()):
        attempts.make(_on_axis(draw, drawn.loops[0].name, draw(choices.sampled_from("gs")), 0))
    attempts.share_axes()
    return attempts.make_some()


def scan_programs(draw: Draw) -> Program:
    """Draw a kernel of running results, computed in order, by work-items or by work-groups."""
    drawn = draw_scan_kernel(draw)
    attempts = _attempts_on(draw, drawn, target="CudaTarget")
    row, along = drawn.loops[0], drawn.loops[-1]
    if row is not along and draw(choices.booleans()):
        attempts.make(_on_axis(draw, row.name, _kind_of_axis(draw, row), 1))
    schedules = _FIXED_SCANS if along.is_constant else _SCANS
    for step in draw(choices.sampled_from(schedules))(along.name, draw(choices.integers(2, 5))):
        attempts.make(step)
    attempts.make(Step("realize_reduction", (), (("force_scan", True),)))
    attempts.undo_unscheduled()
    return attempts.make_some((0, 0, 0, 1, 2))


def global_programs(draw: Draw) -> Program:
    """Draw a kernel of several launches, each with a loop on hardware axes."""
    drawn = draw_global_kernel(draw)
    attempts = _attempts_on(draw, drawn)
    for loop in drawn.loops:
        if loop.parent is None:
            attempts.make(_on_axis(draw, loop.name, draw(choices.sampled_from(("split", "g"))), 0))
    return attempts.make_some()


def saving_programs(draw: Draw) -> Program:
    """Draw a kernel of several launches, and save the values that later ones need."""
    drawn = draw_saving_kernel(draw)
    attempts = _attempts_on(draw, drawn, target="CudaTarget")
    outer = drawn.loops[0]
    attempts.make(_on_axis(draw, outer.name, _kind_of_axis(draw, outer), 0))
    attempts.make(Step("save_and_reload_temporaries"))
    return attempts.make_some((0, 0, 1, 2))


def _kind_of_axis(draw: Draw, loop: Loop) -> str:
    kinds = ("g", "l") if loop.is_constant else ("g",)
    return str(draw(choices.sampled_from((*kinds, "split", "split", "split"))))


def _on_threads(draw: Draw, name: str, axis: int) -> Step:
    """Put a loop, or its outer part, on an axis of work-groups."""
    inner = draw(choices.sampled_from(("all", None, f"l.{axis}", f"l.{axis}", "vec", "unr", "ilp")))
    if inner == "all":
        return Step("tag_inames", (f"{name}:g.{axis}",))
    return _split(name, draw(choices.integers(2, 7)), f"g.{axis}", inner)


def _on_axis(draw: Draw, name: str, kind: str, axis: int) -> Step:
    """Put a loop on an axis, or (*kind* ``split``) on both, or (``s``) its outer part only."""
    if kind in ("g", "l"):
        return Step("tag_inames", (f"{name}:{kind}.{axis}",))
    tags: tuple[tuple[str, Any], ...] = (("outer_tag", f"g.{axis}"),)
    if kind == "split":
        tags = (*tags, ("inner_tag", f"l.{axis}"))
    return Step("split_iname", (name, draw(choices.integers(2, 7))), tags)
