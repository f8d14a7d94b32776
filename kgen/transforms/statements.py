"""Instructions: dependencies, priorities, tags and ids; adding and removing instructions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from pytools.tag import Tag

from kgen.errors import TransformError, naming_place
from kgen.ir.checked import checked
from kgen.ir.construction.declare import check_written
from kgen.ir.expr import variable_names
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.expressions import check_operands, read_expression
from kgen.ir.tags import TagLike, to_tags
from kgen.ir.unit import TranslationUnit, kernels_of
from kgen.transforms.select import (
    Meaning,
    NothingSelectedError,
    matcher,
    require_instruction,
    split_names,
    transform,
    transform_of,
)

__all__ = [
    "add_dependency",
    "find_instructions",
    "inames_outside",
    "map_instructions",
    "redirected",
    "remove_instructions",
    "remove_predicates_from_insn",
    "replace_instruction_ids",
    "set_instruction_priority",
    "tag_instructions",
]


@checked
def find_instructions(
    program: LoopKernel | TranslationUnit, insn_match: Any
) -> list[InstructionBase]:
    """Return the instructions that match, in program order.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", ["a[i] = 0 {id=one}", "b[i] = 1 {id=two}"])
    >>> [insn.id for insn in find_instructions(knl, "writes:b")]
    ['two']
    """
    kernels = kernels_of(program)
    return [i for one in kernels for i in filter(matcher(one, insn_match), one.instructions)]


def found(kernel: LoopKernel, insn_match: Any) -> list[InstructionBase]:
    """Return the instructions that match, or raise an error when none does."""
    insns = find_instructions(kernel, insn_match)
    if not insns:
        raise NothingSelectedError(f"no instruction matches '{insn_match}'")
    return insns


@transform_of(Meaning.NEW)
def map_instructions(
    kernel: LoopKernel, insn_match: Any, f: Callable[[InstructionBase], InstructionBase]
) -> LoopKernel:
    """Replace each matching instruction by the result of *f*.

    What *f* raises is passed on. Raises :class:`TransformError` if *f* returns something else than
    an instruction, or an instruction that uses a loop variable outside of its loop, and
    :class:`KernelError` if the instruction assigns a loop variable or a parameter.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", "a[i] = 0")
    >>> knl = map_instructions(knl, None, lambda insn: insn.copy(priority=7))
    >>> knl.default_entrypoint.instructions[0].priority
    7
    """
    test = matcher(kernel, insn_match)

    def changed(insn: InstructionBase) -> InstructionBase:
        new = f(insn)
        if not isinstance(new, InstructionBase):
            raise TransformError(
                f"the function returns {new!r} for instruction '{insn.id}'",
                hint="return an instruction: insn.copy(...), or insn itself",
            )
        check_operands(new.expressions(), f"instruction '{new}'")
        _check_loops(kernel, insn, new)
        return new

    return kernel.map_instructions(lambda insn: changed(insn) if test(insn) else insn)


def _check_loops(kernel: LoopKernel, old: InstructionBase, new: InstructionBase) -> None:
    """Reject a changed instruction that misuses loop variables or parameters."""
    for name in set(new.assignee_var_names()) - set(old.assignee_var_names()):
        if name not in kernel.array_vars:
            check_written(kernel, new, name)
    outside = inames_outside(kernel, new) - inames_outside(kernel, old)
    if outside and new.within_inames <= kernel.inames.keys():
        name = min(outside)
        raise TransformError(
            f"instruction '{new}' uses '{name}', and is not inside of this loop",
            hint=f"insn.copy(within_inames=insn.within_inames | {{'{name}'}})",
        )


def inames_outside(kernel: LoopKernel, insn: InstructionBase) -> frozenset[str]:
    """Return the inames that occur in an instruction, except those of its loops and reductions."""
    used = frozenset(variable_names(*insn.expressions()))
    return (used & kernel.inames.keys()) - insn.within_inames - insn.reduction_inames()


@transform
def set_instruction_priority(kernel: LoopKernel, insn_match: Any, priority: int) -> LoopKernel:
    """Set priorities: where dependencies leave a choice, higher ones run first.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", ["a[i] = 0 {id=one}", "b[i] = 1 {id=two}"])
    >>> print(set_instruction_priority(knl, "id:two", 5).default_entrypoint.id_to_insn["two"])
    b[i] = 1  {id=two, priority=5}
    """
    return map_instructions(kernel, insn_match, lambda insn: insn.copy(priority=priority))


@transform
def tag_instructions(kernel: LoopKernel, new_tag: TagLike, within: Any = None) -> LoopKernel:
    """Add a tag to the matching instructions, for later use in ``within="tag:..."``.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", "a[i] = 0")
    >>> print(tag_instructions(knl, "store").default_entrypoint.instructions[0])
    a[i] = 0  {id=insn, tags=store}

    Raises :class:`KernelError` for a hint that is not for instructions.
    """
    tags: frozenset[Tag] = to_tags(new_tag)

    def tagged(insn: InstructionBase) -> InstructionBase:
        with naming_place("instruction", insn):
            return insn.copy(tags=insn.tags | tags)

    return map_instructions(kernel, within, tagged)


# -- dependencies ------------------------------------------------------------------------------


@transform_of(Meaning.STATED)
def add_dependency(kernel: LoopKernel, insn_match: Any, depends_on: Any) -> LoopKernel:
    """Make the matching instructions depend on those that match *depends_on*.

    ::

        a[i] = 0   {id=one}      add_dependency(kernel,       a[i] = 0   {id=one}
        b[i] = 1   {id=two}        "id:two", "id:one")   =>   b[i] = 1   {id=two,dep=one}

    Raises :class:`TransformError` if one of the two selects nothing.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", ["a[i] = 0 {id=one}", "b[i] = 1 {id=two}"])
    >>> knl = add_dependency(knl, "id:two", "id:one")
    >>> knl.default_entrypoint.id_to_insn["two"].depends_on
    frozenset({'one'})
    """
    first = frozenset(str(insn.id) for insn in found(kernel, _id_or_match(kernel, depends_on)))
    then = {insn.id for insn in found(kernel, insn_match)}
    return kernel.map_instructions(
        lambda insn: (
            insn.copy(depends_on=insn.depends_on | (first - {insn.id})) if insn.id in then else insn
        )
    )


def _id_or_match(kernel: LoopKernel, given: Any) -> Any:
    """Read a plain id as a match expression."""
    if isinstance(given, str) and given in kernel.id_to_insn:
        return f"id:{given}"
    return given


@transform_of(Meaning.NEW)
def remove_instructions(kernel: LoopKernel, insn_ids: str | Collection[str] | Any) -> LoopKernel:
    """Remove instructions; dependencies through them are kept.

    :arg insn_ids: ids, or a match expression

    ::

        a[i] = 0  {id=one}                                     a[i] = 0  {id=one}
        b[i] = 1  {id=two,dep=one}      remove_instructions(   c[i] = 2  {id=three,dep=one}
        c[i] = 2  {id=three,dep=two}     kernel, {"two"})  =>

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", ["a[i] = 0 {id=one}", "b[i] = 1 {id=two,dep=one}"])
    >>> [insn.id for insn in remove_instructions(knl, {"two"}).default_entrypoint.instructions]
    ['one']
    """
    if isinstance(insn_ids, str) or callable(insn_ids):
        gone = {insn.id for insn in found(kernel, _id_or_match(kernel, insn_ids))}
    else:
        gone = {require_instruction(kernel, insn_id).id for insn_id in split_names(insn_ids)}
    if not gone:
        return kernel
    inherited = _dependencies_beyond(kernel, gone)
    return kernel.copy(
        instructions=tuple(
            _without(insn, gone, inherited) for insn in kernel.instructions if insn.id not in gone
        )
    )


def _dependencies_beyond(
    kernel: LoopKernel, gone: Collection[str | None]
) -> dict[str, frozenset[str]]:
    """Return, for each removed instruction, its direct and indirect remaining dependencies."""
    result: dict[str, frozenset[str]] = {}
    for start in kernel.instructions:  # in program order: mostly, what is needed is known
        if start.id not in gone or start.id in result:
            continue
        seen, stack, beyond = {str(start.id)}, [str(start.id)], set[str]()
        while stack:
            for name in kernel.id_to_insn[stack.pop()].depends_on:
                if name in result:
                    beyond |= result[name]
                elif name not in gone:
                    beyond.add(name)
                elif name not in seen:
                    seen.add(name)
                    stack.append(name)
        result[str(start.id)] = frozenset(beyond)
    return result


def _without(
    insn: InstructionBase,
    gone: Collection[str | None],
    inherited: Mapping[str, frozenset[str]],
) -> InstructionBase:
    depends_on, no_sync_with = insn.depends_on, insn.no_sync_with
    lost = [name for name in depends_on if name in gone]
    if lost:
        depends_on = depends_on.difference(lost).union(*(inherited[name] for name in lost))
    pairs = frozenset(pair for pair in no_sync_with if pair[0] not in gone)
    if not lost and pairs == no_sync_with:
        return insn
    return insn.copy(depends_on=depends_on - {insn.id}, no_sync_with=pairs)


@transform
def replace_instruction_ids(
    kernel: LoopKernel, replacements: Mapping[str, Sequence[str]]
) -> LoopKernel:
    """Replace instructions by others where instructions refer to them: ``{"old": ["one", "two"]}``.

    Instructions that depend on ``old`` then depend on all ids in the list instead, and those that
    need no barrier with it need none with these. Instructions keep their own ids, and ``old`` need
    not be one of them: a transformation may have removed it.

    >>> from kgen.frontend import make_kernel
    >>> text = ["a[i] = 0 {id=one}", "b[i] = 1 {id=two}", "c[i] = 2 {dep=one}"]
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", text)
    >>> knl = replace_instruction_ids(knl, {"one": ["two"]})
    >>> knl.default_entrypoint.instructions[2].depends_on
    frozenset({'two'})
    """
    for old, new in replacements.items():
        if not new:
            raise TransformError(
                f"instruction '{old}' is given no new id",
                hint="remove instructions with remove_instructions(kernel, ...)",
            )

    def change(insn: InstructionBase) -> InstructionBase:
        result = redirected(insn, replacements)
        depends_on = result.depends_on - {insn.id}
        return result if depends_on == result.depends_on else result.copy(depends_on=depends_on)

    return kernel.map_instructions(change)


def redirected(insn: InstructionBase, new_ids: Mapping[str, Sequence[str]]) -> InstructionBase:
    """Return an instruction that refers to others by new ids."""
    if not new_ids.keys() & {*insn.depends_on, *(name for name, _ in insn.no_sync_with)}:
        return insn
    names = (new for name in insn.depends_on for new in new_ids.get(name, (name,)))
    pairs = [
        (new, scope) for name, scope in insn.no_sync_with for new in new_ids.get(name, (name,))
    ]
    return insn.copy(depends_on=frozenset(names), no_sync_with=frozenset(pairs))


@transform_of(Meaning.NEW)
def remove_predicates_from_insn(
    kernel: LoopKernel, predicates: Iterable[Any], insn_match: Any
) -> LoopKernel:
    """Remove predicates from the matching instructions.

    :arg predicates: the conditions, as expressions or text

    ::

        if i > 3               =>  a[i] = 0
          a[i] = 0

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<9 }", "a[i] = 0 {id=one, if=i>3}")
    >>> knl = remove_predicates_from_insn(knl, ["i > 3"], "id:one")
    >>> knl.default_entrypoint.instructions[0].predicates
    frozenset()
    """
    given = predicates if isinstance(predicates, list | tuple | set | frozenset) else [predicates]
    gone = frozenset(read_expression(condition, "condition") for condition in given)
    chosen = {insn.id for insn in found(kernel, insn_match)}
    return map_instructions(
        kernel,
        lambda _, insn: insn.id in chosen,
        lambda insn: insn.copy(predicates=insn.predicates - gone),
    )
