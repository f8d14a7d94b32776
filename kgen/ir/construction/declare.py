"""Declarations: kernel_data, temporaries declared by ``<>``, and inferred arguments."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pymbolic.primitives as p

from kgen.errors import KernelError, near_names
from kgen.ir.assignee import assignee_name, index_of
from kgen.ir.constants import CONSTANTS
from kgen.ir.construction.dependencies import where
from kgen.ir.data import (
    ArrayArg,
    ArrayBase,
    ConstantArg,
    GlobalArg,
    ImageArg,
    KernelArgument,
    TemporaryVariable,
    ValueArg,
)
from kgen.ir.expr import LinearSubscript, substitute, walk
from kgen.ir.instruction import Assignment, CallInstruction, CInstruction, InstructionBase
from kgen.ir.mentions import Mentions, mentions_of
from kgen.ir.sets.dims import involved_params
from kgen.ir.types import auto

if TYPE_CHECKING:
    from kgen.ir.kernel import LoopKernel

__all__ = [
    "Declared",
    "check_uses",
    "check_written",
    "complete_arguments",
    "declare_temporaries",
    "parameter_names",
    "read_kernel_data",
    "settle_names",
    "undeclared_names",
]


@dataclass
class Declared:
    """The declarations in *kernel_data*: entries in order; texts are names to be inferred."""

    entries: list[ArrayArg | ValueArg | str] = field(default_factory=list)
    temporaries: dict[str, TemporaryVariable] = field(default_factory=dict)
    #: whether ``...`` is among the entries, so that other names may be inferred
    is_open: bool = False

    def names(self) -> set[str]:
        """Return all declared names."""
        return {e if isinstance(e, str) else e.name for e in self.entries} | set(self.temporaries)

    def arrays(self) -> dict[str, ArrayBase]:
        """Return the declared arrays."""
        found: dict[str, ArrayBase] = {e.name: e for e in self.entries if isinstance(e, ArrayArg)}
        return {**found, **self.temporaries}


def read_kernel_data(given: Any, temporaries: Mapping[str, TemporaryVariable] | None) -> Declared:
    """Sort *kernel_data* into arguments, names and temporaries; ``None`` means ``[...]``."""
    declared = Declared()
    items: Iterable[Any]
    if given is None:
        items = [...]
    elif isinstance(given, str):
        items = [name.strip() for name in given.split(",") if name.strip()]
    elif isinstance(given, KernelArgument | TemporaryVariable) or given is ...:
        items = [given]
    elif isinstance(given, Iterable):
        items = given
    else:
        items = [given]
    seen: set[str] = set()
    for item in _one_by_one([*items, *(temporaries or {}).values()]):
        if item is ... or (isinstance(item, str) and item == "..."):
            declared.is_open = True
            continue
        name = _name_of(item)
        if name in seen:
            raise KernelError(f"'{name}' is declared twice in kernel_data")
        seen.add(name)
        if isinstance(item, TemporaryVariable):
            declared.temporaries[name] = item
        else:
            declared.entries.append(name if isinstance(item, str) else item)
    return declared


def _name_of(item: Any) -> str:
    """Return the name that an item of kernel_data declares, or reject the item."""
    if not isinstance(item, str | ArrayArg | ValueArg | TemporaryVariable):
        raise KernelError(
            f"{reprlib.repr(item)} in kernel_data declares nothing",
            hint="an item is a GlobalArg, ConstantArg, ValueArg or TemporaryVariable, a "
            "name, or '...' for all others",
        )
    name = item.strip() if isinstance(item, str) else item.name
    if not name.isidentifier():
        raise KernelError(f"'{name}' in kernel_data is not a name")
    return name


def _one_by_one(items: Iterable[Any]) -> Iterator[Any]:
    """Split declarations of several names: ``GlobalArg("a, b")`` is two arrays."""
    for item in items:
        name = getattr(item, "name", "")
        if isinstance(item, ArrayArg | ValueArg | TemporaryVariable) and "," in name:
            for part in name.split(","):
                yield item.copy(name=part.strip())
        else:
            yield item


def declare_temporaries(
    instructions: Sequence[InstructionBase],
    declared: Declared,
    order: Any,
) -> dict[str, TemporaryVariable]:
    """Return the declared temporaries and those that instructions create with ``<>``."""
    found = dict(declared.temporaries)
    makers: dict[str, InstructionBase] = {}
    arguments = declared.names() - set(found)
    for insn in instructions:
        if not isinstance(insn, Assignment | CallInstruction):
            continue
        for lhs, kind in zip(insn.assignees, insn.temp_var_types, strict=True):
            if not kind.has_value:
                continue
            name = assignee_name(lhs)
            if name in makers or name in declared.temporaries or name in arguments:
                first = (
                    f"by {where(makers[name])}"
                    if name in makers
                    else "as an argument"
                    if name in arguments
                    else "in kernel_data"
                )
                raise KernelError(
                    f"the temporary '{name}' exists already",
                    where=where(insn),
                    because=f"it is declared {first}",
                    hint="drop the '<>' to assign to it, or choose another name",
                )
            makers[name] = insn
            is_array = isinstance(lhs, p.Subscript | LinearSubscript)
            found[name] = TemporaryVariable(
                name,
                kind.value,
                auto if is_array else (),
                order=order if is_array and order is not auto else None,
            )
    return found


def complete_arguments(
    kernel: LoopKernel,
    declared: Declared,
    mentioned: Sequence[Mentions],
    *,
    order: Any,
    offset: Any,
) -> tuple[ArrayArg | ValueArg, ...]:
    """Return all arguments: those of kernel_data in order, then inferred ones by name.

    *mentioned* has the names in each instruction. A name that has subscripts or is written is
    an array in device memory, any other one a value. ``is_output`` is set for arrays that are
    written, ``is_input`` for those that are read or not used at all, unless declared otherwise.
    """
    written = dict.fromkeys(n for insn in kernel.instructions for n in insn.assignee_var_names())
    read = dict.fromkeys(name for found in mentioned for name in found.variables)
    ranks = {name: rank for found in mentioned for name, rank in found.ranks if rank}
    for insn in kernel.instructions:
        for lhs in insn.assignees:
            ranks[assignee_name(lhs)] = len(index_of(lhs))
    bounds = sorted(kernel.all_params())
    names = {*read, *written, *bounds, *_layout_names(declared.arrays().values())}
    taken = {*kernel.inames, *kernel.temporary_variables, *kernel.substitutions}
    undeclared = _not_explained(kernel, names - taken - declared.names())
    if not declared.is_open:
        # numbers may stay undeclared: fix_parameters, or a symbol mangler, may still define them
        unknown = [name for name in undeclared if name in ranks or name in written]
        if unknown:
            raise _undeclared(kernel, unknown, mentioned, declared.names() | taken)
        undeclared = []
    flow = _Flow(frozenset(read), frozenset(written))

    def guess(name: str) -> ArrayArg | ValueArg:
        is_array = name in ranks or name in written
        return _array(name, ranks[name], order, offset) if is_array else ValueArg(name)

    result: list[ArrayArg | ValueArg] = []
    for entry in declared.entries:
        if not isinstance(entry, str):
            result.append(_in_order(entry, order))
        elif entry in taken or entry not in names:
            raise _unusable(kernel, entry, names - taken)
        else:
            result.append(guess(entry))
    result.extend(guess(name) for name in undeclared)
    return tuple(flow.mark(arg) for arg in result)


def _array(name: str, rank: int, order: Any, offset: Any) -> ArrayArg:
    """Declare an array argument, given only its number of axes."""
    if order is auto and rank > 0:
        return GlobalArg(name, None, auto, ",".join(["stride:auto"] * rank), offset)
    return GlobalArg(name, None, auto, offset=offset, order=order if order in ("C", "F") else None)


def _in_order(arg: ArrayArg | ValueArg, order: Any) -> ArrayArg | ValueArg:
    """Return *arg* in the default order, if that is Fortran order and the array has no other."""
    if isinstance(arg, ValueArg) or arg.has_layout or order != "F":
        return arg
    return arg.copy(dim_tags=order)


def settle_names(kernel: LoopKernel) -> LoopKernel:
    """Substitute the values of undeclared names of constants, such as ``M_PI``.

    Raises :class:`KernelError` for a size or a number that nothing declares or explains.
    """
    names = undeclared_names(kernel)
    values = {n: CONSTANTS[n] for n in names if n in CONSTANTS and n not in kernel.all_params()}
    unknown = [name for name in names if name not in values]
    if unknown:
        declared = {*kernel.arg_dict, *kernel.temporary_variables, *kernel.inames}
        mentioned = [_mentions(kernel, insn) for insn in kernel.instructions]
        raise _undeclared(kernel, unknown, mentioned, declared)
    if not values:
        return kernel
    change = partial(substitute, replacements=values)
    insns = tuple(insn.with_transformed_expressions(change) for insn in kernel.instructions)
    return kernel.copy(instructions=insns)


def undeclared_names(kernel: LoopKernel) -> list[str]:
    """Return the sizes, and the numbers that instructions read, that are not declared."""
    declared = {*kernel.arg_dict, *kernel.temporary_variables, *kernel.inames}
    names = {*kernel.all_params(), *_layout_names(kernel.array_vars.values())}
    for insn in kernel.instructions:
        if not insn.mentioned <= declared:
            names.update(_mentions(kernel, insn).variables)
    return _not_explained(kernel, names - declared)


def _mentions(kernel: LoopKernel, insn: InstructionBase) -> Mentions:
    """Return the names in an instruction, also through rules."""
    return mentions_of(*insn.expressions(), rules=kernel.substitutions)


def parameter_names(kernel: LoopKernel) -> set[str]:
    """Return the names of sizes and numbers, which assumptions can constrain."""
    arrays = kernel.array_vars
    names = {*kernel.all_params(), *kernel.arg_dict, *arrays, *_layout_names(arrays.values())}
    return {name for name in names if name not in arrays or arrays[name].shape == ()}


def _not_explained(kernel: LoopKernel, names: Iterable[str]) -> list[str]:
    """Return the names that no symbol mangler knows, sorted."""
    manglers = kernel.symbol_manglers
    return sorted(n for n in names if not any(mangler(kernel, n) for mangler in manglers))


def _check_layouts(arrays: Mapping[str, ArrayBase]) -> None:
    """Reject shapes, strides and offsets that depend on elements of arrays."""
    for name, array in arrays.items():
        exprs = array.layout_exprs
        subscripted = {
            assignee_name(node)
            for node in (walk(*exprs) if exprs else ())
            if isinstance(node, p.Subscript | LinearSubscript)
        }
        for used in _layout_names((array,)):
            if used in subscripted or (used in arrays and arrays[used].shape != ()):
                raise KernelError(
                    f"the shape, strides or offset of array '{name}' name '{used}', which is "
                    "an array",
                    hint=f"pass the size as a number: ValueArg('size_of_{name}', numpy.int32)",
                )


def _layout_names(arrays: Iterable[ArrayBase]) -> list[str]:
    """Return the variables in shapes, strides and offsets."""
    return [name for array in arrays for name in array.layout_names]


def _undeclared(
    kernel: LoopKernel, names: list[str], mentioned: Sequence[Mentions], known: set[str]
) -> KernelError:
    place = next(
        (
            where(insn)
            for insn, found in zip(kernel.instructions, mentioned, strict=False)
            if names[0] in found.variables or names[0] in insn.assignee_var_names()
        ),
        "the bounds of the loops, or the shapes, strides and offsets of arrays",
    )
    return KernelError(
        "not declared: " + ", ".join(f"'{name}'" for name in names),
        where=place,
        hint=f"{near_names(names[0], known)} ('...' in kernel_data declares arguments "
        "automatically)",
    )


def _unusable(kernel: LoopKernel, name: str, used: set[str]) -> KernelError:
    is_other = name in {*kernel.inames, *kernel.temporary_variables, *kernel.substitutions}
    return KernelError(
        f"'{name}' in kernel_data is "
        + ("not an argument" if is_other else "not used, so its kind cannot be inferred"),
        hint=near_names(name, used) + f" Or declare it: GlobalArg('{name}', dtype, shape)",
    )


@dataclass(frozen=True)
class _Flow:
    read: frozenset[str]
    written: frozenset[str]

    def mark(self, arg: ArrayArg | ValueArg) -> ArrayArg | ValueArg:
        """Set the data flow directions of an array."""
        if isinstance(arg, ValueArg) or (arg.is_input is not None and arg.is_output is not None):
            return arg
        is_output = arg.name in self.written if arg.is_output is None else arg.is_output
        is_input = arg.is_input
        if is_input is None:
            is_input = arg.name in self.read or arg.name not in self.written
        return arg.copy(is_input=is_input, is_output=is_output)


def check_uses(kernel: LoopKernel, mentioned: Sequence[Mentions]) -> None:
    """Reject writes to constants, ambiguous names, and wrong subscripts."""
    _check_names(kernel)
    _check_assumptions(kernel)
    _check_rules(kernel)
    arrays = kernel.array_vars
    _check_layouts(arrays)
    seen: dict[str, tuple[int, InstructionBase]] = {}
    for insn, found in zip(kernel.instructions, mentioned, strict=True):
        for name in map(assignee_name, insn.assignees):
            check_written(kernel, insn, name)
        for name, rank in (*found.ranks, *_written_ranks(insn)):
            array = arrays.get(name)
            if array is None:
                if rank and (name in kernel.inames or name in kernel.arg_dict):
                    raise _wrong_rank(kernel, insn, name, rank, 0)
            elif rank >= 0:
                first, other = seen.setdefault(name, (rank, insn))
                wanted = len(array.shape) if isinstance(array.shape, tuple) else first
                if rank != wanted:
                    raise _wrong_rank(kernel, insn, name, rank, wanted, other)


def _written_ranks(insn: InstructionBase) -> Iterator[tuple[str, int]]:
    """Yield the names that an instruction writes, and how many subscripts: -1 for a linear one."""
    for lhs in insn.assignees:
        is_whole = isinstance(insn, CInstruction) and isinstance(lhs, p.Variable)
        if not is_whole:  # C code without subscripts writes all of an array
            rank = -1 if isinstance(lhs, LinearSubscript) else len(index_of(lhs))
            yield assignee_name(lhs), rank


def _check_names(kernel: LoopKernel) -> None:
    kinds = {
        "an iname": kernel.inames,
        "a temporary": kernel.temporary_variables,
        "an argument": kernel.arg_dict,
        "a substitution rule": kernel.substitutions,
    }
    seen: dict[str, str] = {}
    for kind, names in kinds.items():
        for name in names:
            if name in seen:
                raise KernelError(
                    f"'{name}' is both {seen[name]} and {kind}",
                    hint="rename one of them",
                )
            seen[name] = kind


def _check_rules(kernel: LoopKernel) -> None:
    """Reject uses of substitution rules with a wrong number of arguments."""
    rules = kernel.substitutions
    if not rules:
        return
    uses = [(insn.expressions(), where(insn)) for insn in kernel.instructions]
    uses += [((rule.expression,), f"the rule {rule}") for rule in rules.values()]
    for exprs, place in uses:
        for node in walk(*exprs):
            if isinstance(node, p.Call) and isinstance(node.function, p.Variable):
                rule = rules.get(node.function.name)
                if rule is not None and len(rule.arguments) != len(node.parameters):
                    wanted = _count(len(rule.arguments), "argument")
                    raise KernelError(
                        f"the substitution rule '{rule.name}' takes {wanted}, "
                        f"not {len(node.parameters)}",
                        where=place,
                        because=f"it is defined as {rule}",
                    )


def _check_assumptions(kernel: LoopKernel) -> None:
    known = parameter_names(kernel)
    for name in involved_params(kernel.assumptions):
        if name not in known:
            raise KernelError(
                f"the assumptions mention '{name}', which is not a parameter",
                because=f"they are {kernel.assumptions}",
                hint=near_names(name, known),
            )


def check_written(kernel: LoopKernel, insn: InstructionBase, name: str) -> None:
    """Reject an instruction that assigns *name*, which is no variable or is only read."""
    array = kernel.array_vars.get(name)
    hint = "assign to a temporary: <> name = ..."
    if name in kernel.inames:
        what = "is an iname: its values come from the domain"
    elif name in kernel.substitutions:
        what, hint = "is a substitution rule", "a rule is defined with ':='"
    elif name in kernel.all_params() and name not in kernel.temporary_variables:
        what = "is a parameter of the domain"
        hint = f"to compute it in the kernel, declare it as a temporary: <> {name} = ..."
    elif array is None:
        what = "is a value, not an array"
    elif isinstance(array, ConstantArg | ImageArg) or getattr(array, "read_only", False):
        what, hint = "is only read", "declare it as a GlobalArg, or without an initializer"
    else:
        return
    raise KernelError(
        f"'{name}' cannot be assigned to: it {what}",
        where=where(insn),
        hint=hint,
    )


def _wrong_rank(
    kernel: LoopKernel,
    insn: InstructionBase,
    name: str,
    rank: int,
    wanted: int,
    other: InstructionBase | None = None,
) -> KernelError:
    array = kernel.array_vars.get(name)
    because = None
    if array is not None and isinstance(array.shape, tuple):
        because = f"its shape is ({', '.join(map(str, array.shape))})"
    elif other is not None:
        because = f"it has {_count(wanted, 'subscript')} in {where(other)}"
    return KernelError(
        f"'{name}' is used with {_count(rank, 'subscript')}",
        where=where(insn),
        because=because,
        hint=f"give it {_count(wanted, 'subscript')}, or declare another shape",
    )


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
