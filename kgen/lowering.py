"""The lowering pipeline: from a kernel to its code, one named stage after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from kgen.analysis.address_space import infer_address_spaces
from kgen.analysis.axes import has_axes
from kgen.analysis.bounds import check_bounds, check_loops_bounded
from kgen.analysis.divisors import check_divisors
from kgen.analysis.held import check_held
from kgen.analysis.infer import infer_types
from kgen.analysis.layouts import check_layouts, sizes_of_separate_elements
from kgen.analysis.operands import check_operands
from kgen.analysis.ordering import check_accesses_ordered
from kgen.analysis.shapes import infer_argument_shapes, infer_temporary_shapes
from kgen.analysis.written import allocated_outputs, find_unwritten
from kgen.ast.build import build_code
from kgen.ast.cooperative import as_one_launch
from kgen.ast.definite import check_definite_assignment
from kgen.ast.host import build_host
from kgen.ast.items import with_item_loops
from kgen.ast.lanes import lanes_in_scalars
from kgen.ast.masks import mask_lanes
from kgen.ast.nodes import DeviceFunction, Node, Run, print_tree
from kgen.ast.persistent import with_persistent_groups
from kgen.ast.registers import in_registers
from kgen.ast.scope import check_loops_around
from kgen.ast.verify import verify_barriers, verify_lanes
from kgen.errors import CodegenError, MissingBarrier, MissingBarrierError, ScheduleError
from kgen.ir.checked import checked
from kgen.ir.closure import closure
from kgen.ir.construction.declare import settle_names
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.pieces import piece_names
from kgen.ir.sets.effort import isl_limit, limited
from kgen.ir.stages import DeviceKernel, PreparedKernel
from kgen.ir.types import AddressSpace
from kgen.ir.unit import TranslationUnit
from kgen.schedule.definition import check_reads_defined
from kgen.schedule.host import on_device
from kgen.schedule.liveness import check_launch_values_defined
from kgen.schedule.nesting import LoopNesting
from kgen.schedule.place import schedule_kernel
from kgen.schedule.threads import check_values_stay, items_as_loops
from kgen.schedule.tree import Schedule
from kgen.targets.base import Target
from kgen.targets.limits import check_device_limits, find_exceeded_limits
from kgen.targets.module import ArgumentInfo, Faults, Module
from kgen.targets.names import Renaming, hidden_names, rename_reserved, with_original_names
from kgen.targets.writers.emit import emit_module
from kgen.transforms.expressions.positions import expand_positions
from kgen.transforms.expressions.rules import expand_subst
from kgen.transforms.guards import GuardTag, guard_accesses
from kgen.transforms.loops.auto_axes import assign_auto_axes
from kgen.transforms.programs.inline import inline_all_calls, inlined_kernel
from kgen.transforms.reductions.realize import realize_for_code
from kgen.transforms.storage.async_copies import begin_products_first
from kgen.transforms.storage.linear import subscript_axes
from kgen.transforms.storage.privatize import privatize_for_ilp
from kgen.transforms.storage.strides import name_open_strides
from kgen.transforms.sync import add_barrier
from kgen.work_items import with_work_items

#: Called with the name of a stage and its result, as text.
Observer: TypeAlias = Callable[[str, str], None]


@dataclass(frozen=True)
class Lowered:
    """A prepared, scheduled and translated kernel, ready to emit."""

    kernel: DeviceKernel
    schedule: Schedule
    functions: tuple[DeviceFunction, ...]
    #: the order of the functions, as host code
    host: Node
    #: the kernel with host loops; on the device, their variables are arguments
    whole: PreparedKernel


def prepare(kernel: LoopKernel, dtypes: Mapping[str, Any] | None = None) -> PreparedKernel:
    """Expand rules, infer shapes and types, and lower reductions: the input of scheduling."""
    return PreparedKernel(_prepare(kernel, dtypes, None))


def prepare_open(kernel: LoopKernel) -> PreparedKernel:
    """Prepare a kernel for scheduling; types stay unknown, unless reductions need them.

    Raises :class:`TypeInferenceFailure` if there is a reduction of an unknown type.
    """
    prepared = _prepare(kernel, None, None, complete=False)
    if any(insn.has_reductions for insn in prepared.instructions):
        return prepare(kernel)
    return PreparedKernel(prepared)


@limited("the preparation of code", CodegenError)
def _prepare(
    kernel: LoopKernel,
    dtypes: Mapping[str, Any] | None,
    observe: Observer | None,
    *,
    complete: bool = True,
) -> LoopKernel:
    """Run the stages of :func:`prepare`; if *complete*, all types must be known afterwards."""
    stages: tuple[tuple[str, Callable[[LoopKernel], LoopKernel]], ...] = (
        ("expand rules", lambda k: expand_subst(k) if k.substitutions else k),
        ("names", settle_names),
        ("ends of loops", check_loops_bounded),
        ("shapes of arguments", infer_argument_shapes),
        ("open strides", name_open_strides),
        ("positions", expand_positions),
        ("linear subscripts", subscript_axes),
        ("types", lambda k: infer_types(k, dtypes, complete=complete)),
        ("operands", check_operands),
        ("divisors", check_divisors),
        ("bounds", check_bounds),
        ("work-items", with_work_items),
        ("values of threads", check_values_stay),
        ("realize reductions", realize_for_code),
        ("order of copies", begin_products_first),
        ("automatic axes", assign_auto_axes),
        ("privatize", privatize_for_ilp),
        ("shapes of temporaries", infer_temporary_shapes),
        ("address spaces", infer_address_spaces),
        ("layouts", check_layouts),
        ("registers of work-items", check_held),
        ("guards", guard_accesses),
    )
    for name, stage in stages:
        kernel = stage(kernel)
        if observe is not None:
            observe(name, str(kernel))
    return kernel


@checked
def preprocess_kernel(t_unit: TranslationUnit | LoopKernel) -> Any:
    """Apply all steps before scheduling to every kernel of a program.

    Inlines called kernels, expands rules, infers shapes, types and
    address spaces, and lowers reductions to loops. Types that callers determine stay unknown, and
    reductions with operands of such types stay reductions, until code is generated.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out = sum(i, a[i])", [lp.GlobalArg("a", "float32"), ...])
    >>> for insn in preprocess_kernel(unit)["kgen_kernel"].instructions:
    ...     print(insn)
    acc_i = 0.0  {id=insn_i_init}
    acc_i = acc_i + a[i]  {id=insn_i_update}
    out = acc_i  {id=insn}
    """
    if isinstance(t_unit, TranslationUnit):
        return t_unit.map_kernels(lambda one: _preprocess(inline_all_calls(t_unit, one.name)))
    return _preprocess(t_unit)


def _preprocess(kernel: LoopKernel) -> LoopKernel:
    return _prepare(kernel, None, None, complete=False)


@limited("scheduling", ScheduleError)
def schedule_prepared(kernel: PreparedKernel, *, has_axes: bool) -> tuple[PreparedKernel, Schedule]:
    """Schedule a prepared kernel; insert missing global barriers if the options ask for it."""
    seen: set[MissingBarrier] = set()
    while True:
        try:
            return kernel, schedule_kernel(kernel, sequential_axes=not has_axes)
        except MissingBarrierError as err:
            if not kernel.options.insert_gbarriers or err.missing[0] in seen:
                raise
            for need in _unshared(kernel, err.missing):
                seen.add(need)
                kernel = PreparedKernel(_with_barrier(kernel, need))


def _unshared(kernel: LoopKernel, missing: Sequence[MissingBarrier]) -> list[MissingBarrier]:
    """Return needs, including the first, no two of which a single barrier can satisfy.

    These are between instructions of which some come after those of the others. Whether a barrier
    also satisfies other needs is found after its insertion.
    """
    before = {n: ancestors(kernel, kernel.id_to_insn[n]) | {n} for one in missing for n in one[:2]}
    chosen = [missing[0]]
    for one in missing[1:]:
        if all(
            not (one.loop or other.loop)
            and (other.second in before[one.first] or one.second in before[other.first])
            for other in chosen
        ):
            chosen.append(one)
    return chosen


def _with_barrier(kernel: PreparedKernel, need: MissingBarrier) -> LoopKernel:
    """Insert a barrier, after all loops inside the loop that carries a dependence."""
    first, second = (kernel.id_to_insn[name] for name in (need.first, need.second))
    loops = LoopNesting(kernel, sequential_axes=False).loops_around(first)
    shared = [name for name in loops if name in second.within_inames]
    end = shared.index(need.loop) + 1 if need.loop in shared else len(shared)
    around = shared[:end]
    after = [] if need.loop else _kept_after(kernel, first, second, around)
    later = " or ".join(f"id:{name}" for name in after)
    return add_barrier(kernel, f"id:{first.id}", later, within_inames=around)


def _kept_after(
    kernel: PreparedKernel,
    first: InstructionBase,
    second: InstructionBase,
    around: Sequence[str],
) -> list[str]:
    """Return *second*, and what must follow a barrier after *first* with it, in *around*.

    Values that are not in global memory, such as the initial value of an accumulator, do not
    outlive a launch. So their writers follow the barrier like their readers, unless *first* needs
    them.
    """
    users: dict[str, list[str]] = {}
    for insn in kernel.instructions:
        for name in insn.depends_on:
            users.setdefault(name, []).append(insn.id)
    before = ancestors(kernel, first) | {first.id}
    writers = {
        name: [
            writer
            for writer in kernel.writers.get(name, ())
            if writer not in before and kernel.id_to_insn[writer].within_inames.issuperset(around)
        ]
        for name, temporary in kernel.temporary_variables.items()
        if temporary.address_space != AddressSpace.GLOBAL
    }

    def with_it(name: str) -> Iterator[str]:
        yield from users.get(name, ())
        for read in kernel.id_to_insn[name].read_dependency_names() & writers.keys():
            yield from writers[read]

    moved = closure([second.id], with_it)
    reads = {read for name in moved for read in kernel.id_to_insn[name].read_dependency_names()}
    values = {writer for name in reads & writers.keys() for writer in writers[name]}
    return sorted({second.id} | values)


def is_cooperative(kernel: LoopKernel, schedule: Schedule) -> bool:
    """Tell whether all launches become one, in which work-groups wait for each other."""
    is_asked = kernel.options.cooperative and getattr(kernel.target, "grid_barrier", None)
    return bool(is_asked) and (len(schedule.launches) > 1 or bool(schedule.host_inames))


@limited("code generation", CodegenError)
def lower(
    kernel: LoopKernel,
    dtypes: Mapping[str, Any] | None = None,
    observe: Observer | None = None,
) -> Lowered:
    """Prepare, schedule and translate a kernel; *observe* gets the result of each stage."""
    target = kernel.target
    if not isinstance(target, Target):
        raise CodegenError(f"{type(target).__name__} does not generate code")
    kernel = PreparedKernel(_prepare(kernel, dtypes, observe))
    check_accesses_ordered(kernel)
    kernel = mask_lanes(kernel)
    on_axes = has_axes(kernel)
    kernel, schedule = schedule_prepared(kernel, has_axes=on_axes)
    kernel = items_as_loops(kernel) if on_axes else kernel
    kernel = lanes_in_scalars(kernel, schedule)
    if observe is not None:
        observe("schedule", str(schedule))
    host = build_host(kernel, schedule)
    whole, kernel = kernel, on_device(kernel, schedule.host_inames)
    check_launch_values_defined(kernel, schedule)
    unproved = check_reads_defined(whole, schedule, has_axes=on_axes)
    kernel = in_registers(kernel)
    functions = tuple(verify_barriers(f) for f in build_code(kernel, schedule))
    functions = tuple(verify_lanes(kernel, f) for f in functions)
    functions = tuple(check_definite_assignment(kernel, f, unproved) for f in functions)
    check_loops_around(whole, kernel, schedule, functions)
    limits = target.limits()
    kernel, functions = with_persistent_groups(
        kernel,
        functions,
        lambda k, f: limits is None or not any(find_exceeded_limits(k, (f,), limits)),
    )
    if is_cooperative(kernel, schedule):
        functions = (as_one_launch(kernel, functions, host, schedule.host_inames),)
        host = Run(functions[0].name, {})
    check_device_limits(kernel, functions, limits)
    if observe is not None:
        observe("code tree", "\n".join(print_tree(f.body) for f in functions))
    return Lowered(kernel, schedule, functions, host, whole)


def generate_module(
    unit: TranslationUnit | LoopKernel,
    entrypoint: str | None = None,
    dtypes: Mapping[str, np.dtype[Any]] | None = None,
    observe: Observer | None = None,
    *,
    for_calls: bool = False,
    statements: list[tuple[str, str]] | None = None,
) -> Module:
    """Generate the code of one entry point, for arguments of the given types.

    With *for_calls*, find the outputs that a call must fill, for which isl needs some time.
    *statements* receives ids of instructions and the text of their statements, in order.
    """
    unit = inlined_kernel(unit, entrypoint)
    lowered = lower(unit, dtypes, observe)
    renaming = rename_reserved(unit)
    module = (
        _emit(unit, lowered, statements)
        if renaming is None
        else _emit_renamed(unit, renaming, dtypes, statements)
    )
    hidden: frozenset[str] = frozenset()
    while more := hidden_names(unit, module) - hidden:
        hidden |= more
        renaming = rename_reserved(unit, hidden)
        assert renaming is not None
        module = _emit_renamed(unit, renaming, dtypes, statements)
    if for_calls:
        module = replace(module, arguments=_with_fills(lowered.kernel, module.arguments))
    if observe is not None:
        observe("code", module.device_source)
    return module


def _emit(
    kernel: LoopKernel, lowered: Lowered, statements: list[tuple[str, str]] | None = None
) -> Module:
    def note(insn_id: str, written: Sequence[object]) -> None:
        assert statements is not None
        statements.extend((insn_id, str(statement)) for statement in written)

    if statements is not None:
        statements.clear()
    with isl_limit("writing code", lowered.kernel, CodegenError):
        device, functions = lowered.kernel, lowered.functions
        if device.target.loops_over_items:
            device, functions = with_item_loops(device, functions)
        module = emit_module(
            device,
            functions,
            lowered.host,
            sizes_of_separate_elements(kernel),
            lowered.schedule.host_inames,
            None if statements is None else note,
        )
    if lowered.kernel.options.guard_accesses:
        module = replace(module, faults=_faults_of(lowered.kernel))
    return module


def _with_fills(
    kernel: LoopKernel, arguments: tuple[ArgumentInfo, ...]
) -> tuple[ArgumentInfo, ...]:
    """Record the outputs that the code may write only partially."""
    outputs = allocated_outputs(kernel)
    unwritten = [array for array in outputs if find_unwritten(kernel, array) is not None]
    filled = {name for array in unwritten for name in piece_names(array)}
    return tuple(replace(arg, is_filled=True) if arg.name in filled else arg for arg in arguments)


def _emit_renamed(
    kernel: LoopKernel,
    renaming: Renaming,
    dtypes: Mapping[str, np.dtype[Any]] | None,
    statements: list[tuple[str, str]] | None,
) -> Module:
    """Generate code in which variables have names that are unused in the target language.

    The kernel was lowered under its own names before, so errors use the user's names.
    """
    code_names = {old: new for new, old in renaming.original.items()}
    lowered = lower(renaming.kernel, {code_names.get(n, n): t for n, t in (dtypes or {}).items()})
    module = _emit(renaming.kernel, lowered, statements)
    return with_original_names(module, kernel.name, renaming.original)


def _faults_of(kernel: LoopKernel) -> Faults | None:
    """Return the record of the guards of subscripts."""
    tags = [tag for insn in kernel.instructions for tag in insn.tags_of_type(GuardTag)]
    return Faults(tags[0].faults, tuple(tags)) if tags else None
