"""Constructing a kernel from domains, instructions and declarations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pytools.tag import Tag

from kgen.errors import KernelError, naming_kernel, near_names
from kgen.ir.assignee import index_of
from kgen.ir.construction.declare import (
    check_uses,
    complete_arguments,
    declare_temporaries,
    read_kernel_data,
)
from kgen.ir.construction.dependencies import in_sequence, make_ids, resolve_dependencies
from kgen.ir.construction.nesting import check_loops_of_rules, find_within_inames
from kgen.ir.construction.slices import check_slices, passes_slices, realize_slices
from kgen.ir.construction.subexpressions import realize_subexpressions
from kgen.ir.data import Declaration, Iname, SubstitutionRule, TemporaryVariable
from kgen.ir.instruction import Assignment, CallInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.expressions import read_expression
from kgen.ir.language.instructions import parse_instructions
from kgen.ir.layout import is_order
from kgen.ir.mentions import Mentions, mentions_of, resolve_reductions
from kgen.ir.options import make_options
from kgen.ir.reductions import REDUCTIONS
from kgen.ir.sets.dims import BasicSet, dim_names, param_names
from kgen.ir.sets.domain import as_basic_set
from kgen.ir.sets.text import parse_assumptions, parse_domains
from kgen.ir.tags import TagLike, reject_hints, to_tags
from kgen.ir.target import TargetBase
from kgen.ir.types import INT32, NumpyType, auto, read_type

__all__ = ["make_loop_kernel", "read_domains"]


def read_domains(given: Any) -> tuple[BasicSet, ...]:
    """Read one or several domains: texts, or islpy or namedisl sets."""
    items = list(given) if isinstance(given, list | tuple) else [given]
    domains: list[BasicSet] = []
    for item in items:
        domains.extend(parse_domains(item) if isinstance(item, str) else (as_basic_set(item),))
    return tuple(domains)


def make_loop_kernel(
    domains: Any,
    instructions: Any,
    kernel_data: Any = None,
    *,
    name: str,
    target: TargetBase,
    temporary_variables: Mapping[str, TemporaryVariable] | None = None,
    substitutions: Mapping[str, SubstitutionRule] | None = None,
    preambles: Iterable[tuple[str, str]] | None = (),
    preamble_generators: Iterable[Callable[..., Any]] | None = (),
    symbol_manglers: Iterable[Callable[..., Any]] | None = (),
    default_order: Any = None,
    default_offset: Any = None,
    assumptions: Any = None,
    silenced_warnings: str | Iterable[str] | None = (),
    options: Any = None,
    seq_dependencies: bool = False,
    index_dtype: Any = None,
    tags: TagLike | Iterable[str | Tag] = None,
    loop_priority: str | Iterable[str | Iterable[str]] | None = None,
    iname_slab_increments: Mapping[str, tuple[int, int]] | None = None,
    applied_iname_rewrites: Iterable[Mapping[Any, Any]] | None = (),
) -> LoopKernel:
    """Make a kernel; see :func:`kgen.make_kernel` for the arguments.

    Raises :class:`KgenSyntaxError` for a text that does not parse, :class:`KernelError` for
    parts that contradict each other.
    """
    _check_name(name)
    with naming_kernel(name):
        sets = read_domains(domains)
        insns, rules = parse_instructions(instructions)
        _check_named("temporary_variables", temporary_variables)
        _check_named("substitutions", substitutions)
        _add_rules(rules, substitutions or {})
        declared = read_kernel_data(kernel_data, temporary_variables)
        order = _order(default_order)
        arrays = declared.arrays()
        if any(passes_slices(insn, arrays, rules) for insn in insns):
            taken = {name, *declared.names(), *_names_in(sets, insns, rules)}
            insns, more = realize_slices(insns, arrays, rules, taken)
            sets = (*sets, *more)
        inames = {n: Iname(n) for n in _dims(sets)}
        shell = LoopKernel(
            name=name,
            domains=sets,
            instructions=tuple(insns),
            temporary_variables=declare_temporaries(insns, declared, order),
            inames=inames,
            substitutions={n: _rule_with_reductions(rule, inames) for n, rule in rules.items()},
            assumptions=parse_assumptions(assumptions),
            loop_priority=_priorities(loop_priority),
            iname_slab_increments=iname_slab_increments or {},
            applied_iname_rewrites=tuple(map(_rewrite, applied_iname_rewrites or ())),
            options=make_options(options),
            target=target,
            index_dtype=_index_dtype(index_dtype),
            silenced_warnings=_words(silenced_warnings),
            preambles=tuple(preambles or ()),
            preamble_generators=tuple(preamble_generators or ()),
            symbol_manglers=tuple(symbol_manglers or ()),
            tags=to_tags(tags),
        )
        reject_hints(shell.tags, "a kernel")
        insns, mentions = _with_mentions(insns, shell)
        places = zip(insns, make_ids(insns), find_within_inames(shell, mentions), strict=True)
        settled = [_settled(*place) for place in places]
        offset = _offset(default_offset)
        kernel = shell.copy(
            instructions=tuple(in_sequence(settled) if seq_dependencies else settled),
            args=complete_arguments(shell, declared, mentions, order=order, offset=offset),
        )
        check_uses(kernel, mentions)
        check_loops_of_rules(kernel)
        _check_slabs(kernel)
        return realize_subexpressions(resolve_dependencies(kernel))


def _check_named(where: str, given: Mapping[str, Declaration] | None) -> None:
    """Reject a declaration whose name differs from its key in a map."""
    for key, declared in (given or {}).items():
        if declared.name != key:
            raise KernelError(
                f"'{declared.name}' is named '{key}' in {where}",
                hint=f"{where}={{'{declared.name}': ...}}",
            )


def _add_rules(rules: dict[str, SubstitutionRule], more: Mapping[str, SubstitutionRule]) -> None:
    """Add the rules of ``substitutions=``; equal ones may be in the text as well."""
    for name, rule in more.items():
        if rules.setdefault(name, rule) != rule:
            raise KernelError(
                f"there are two substitution rules '{name}'",
                because=f"the text has '{rules[name]}', substitutions has '{rule}'",
                hint="drop or rename one of them",
            )


def _rewrite(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Read the values of loop variables that were replaced: names or variables, and expressions."""
    return {
        str(name): read_expression(value, f"value of '{name}' in applied_iname_rewrites")
        for name, value in values.items()
    }


def _check_slabs(kernel: LoopKernel) -> None:
    for name in kernel.iname_slab_increments:
        if name not in kernel.inames:
            raise KernelError(
                f"iname_slab_increments has '{name}', which is not an iname",
                hint=near_names(name, kernel.inames),
            )


def _check_name(name: str) -> None:
    if not name.isidentifier():
        raise KernelError(
            f"'{name}' is not a valid name for a kernel: it becomes the name of a function"
        )


def _dims(domains: Iterable[BasicSet]) -> list[str]:
    return [name for domain in domains for name in dim_names(domain)]


def _names_in(
    domains: Iterable[BasicSet],
    insns: Iterable[InstructionBase],
    rules: Mapping[str, SubstitutionRule],
) -> set[str]:
    """Return the names of dimensions, sizes, variables, functions and rules."""
    of_domains = (name for one in domains for name in (*dim_names(one), *param_names(one)))
    exprs = [expr for insn in insns for expr in insn.expressions()]
    found = mentions_of(*exprs, *(rule.expression for rule in rules.values()))
    used = (*found.variables, *found.functions, *found.reduced, *found.swept)
    return {*of_domains, *rules, *used}


# -- expressions ----------------------------------------------------------------------


def _with_mentions(
    insns: Iterable[InstructionBase], kernel: LoopKernel
) -> tuple[list[InstructionBase], list[Mentions]]:
    """Return instructions in which calls that reduce are reductions, and what each reads."""
    changed, mentions = [], []
    for insn in insns:
        found = _reads_of(insn, kernel.substitutions)
        if _may_reduce(found):
            insn = _with_reductions(insn, kernel.inames)
            found = _reads_of(insn, kernel.substitutions)
        check_slices(insn, found)
        changed.append(insn)
        mentions.append(found)
    return changed, mentions


def _with_reductions(insn: InstructionBase, inames: Iterable[str]) -> InstructionBase:
    """Turn calls such as ``max(i, a[i])`` into reductions if *i* is not a loop around *insn*."""
    places = mentions_of(*(index for lhs in insn.assignees for index in index_of(lhs)))
    free = set(inames) - set(places.variables) - insn.within_inames
    changes: dict[str, Any] = {}
    for condition in insn.predicates:
        free -= set(mentions_of(resolve_reductions(condition, free)).variables)
    if insn.predicates:
        changes["predicates"] = [resolve_reductions(c, free) for c in insn.predicates]
    if isinstance(insn, Assignment | CallInstruction):
        changes["expression"] = resolve_reductions(insn.expression, free)
    return insn.copy(**changes) if changes else insn


def _rule_with_reductions(rule: SubstitutionRule, inames: Mapping[str, Iname]) -> SubstitutionRule:
    if not _may_reduce(mentions_of(rule.expression)):
        return rule
    free = set(inames) - set(rule.arguments)
    return rule.copy(expression=resolve_reductions(rule.expression, free))


def _may_reduce(found: Mentions) -> bool:
    return not REDUCTIONS.keys().isdisjoint(found.functions)


def _reads_of(insn: InstructionBase, rules: Mapping[str, SubstitutionRule]) -> Mentions:
    """Return the names that *insn* reads: operands, predicates, subscripts; rules expanded."""
    return insn.reads_through(rules) if rules else insn.reads


def _settled(insn: InstructionBase, insn_id: str, within: frozenset[str]) -> InstructionBase:
    """Return *insn* with its id and loops; its declarations have been made."""
    changes: dict[str, Any] = {"id": insn_id, "within_inames": within}
    if isinstance(insn, Assignment):
        changes["temp_var_type"] = None
    elif isinstance(insn, CallInstruction):
        changes["temp_var_types"] = ()
    return insn.copy(**changes)


# -- settings -------------------------------------------------------------------------


def _index_dtype(given: Any) -> NumpyType:
    if given is None:
        return INT32
    found = read_type(given, "loop variables, the argument 'index_dtype'")
    if isinstance(found, NumpyType) and found.numpy_dtype.kind == "i":
        return found
    raise KernelError(
        f"loop variables are signed integers, and not of type {found}",
        hint="index_dtype=numpy.int32, or numpy.int64 for more than 2**31 - 1 iterations",
    )


def _order(given: Any) -> Any:
    if given is None or given is auto:
        return given
    if is_order(given):
        return given.upper()
    raise KernelError(f"default_order is 'C', 'F' or auto, not {given!r}")


def _offset(given: Any) -> Any:
    if given is None or given is auto:
        return 0 if given is None else given
    return read_expression(given, "argument 'default_offset'")


def _priorities(given: Any) -> tuple[tuple[str, ...], ...]:
    """Read nestings: a text ``"i,j"``, or several nestings of names."""
    if given is None:
        return ()
    nestings = [given] if isinstance(given, str) else sorted(map(_names, given))
    return tuple(filter(None, map(_names, nestings)))


def _names(given: Any) -> tuple[str, ...]:
    parts = given.split(",") if isinstance(given, str) else given
    return tuple(name for part in parts if (name := part.strip()))


def _words(given: str | Iterable[str] | None) -> tuple[str, ...]:
    words = given.split(";") if isinstance(given, str) else given or ()
    return tuple(word.strip() for word in words if word.strip())
