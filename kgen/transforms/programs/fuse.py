"""Fusing several kernels into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import pymbolic.primitives as p
from pytools import UniqueNameGenerator

from kgen.analysis.domains import (
    difference,
    domain_of_copies,
    intersect_domains,
    rename_params,
)
from kgen.analysis.merging import check_order_kept
from kgen.errors import TransformError, assigned
from kgen.ir.checked import checked
from kgen.ir.data import ArrayArg, ValueArg
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import FixedStrideArrayDimTag
from kgen.ir.sets.dims import BasicSet, Set, dim_names
from kgen.ir.unit import CallableKernel, TranslationUnit, kernel_of
from kgen.transforms.expressions.variables import substitute_everywhere
from kgen.transforms.select import check_well_formed
from kgen.transforms.statements import redirected

__all__ = ["fuse_kernels", "joined_extras"]

V = TypeVar("V")
Flow = tuple[str, int, int]


@checked
def fuse_kernels(
    kernels: Sequence[LoopKernel | TranslationUnit],
    suffixes: Sequence[str] | None = None,
    data_flow: Sequence[Flow] | None = None,
) -> TranslationUnit:
    """Fuse several kernels into one.

    Loops with the same name become one loop; they must have the same values. Arguments with the
    same name become one argument, and must be declared alike. Temporaries are not shared: of two
    with the same name, the later one is renamed. The assumptions are combined.

    :arg suffixes: one for each kernel, appended to the names of its temporaries
    :arg data_flow: ``[("a", 0, 1), ...]``: accesses to ``a`` in ``kernels[1]`` depend on writes
        to it in ``kernels[0]``; by default, the kernels are independent

    ::

        first                  second                      first_and_second
          for i                  for i                       for i
            b[i] = 2*a[i]          c[i] = b[i] + 1   =>        b[i] = 2*a[i]
          end i                  end i                         c[i] = b[i] + 1

    Raises :class:`TransformError` for loops, arguments, rules or tags that have the same name and
    differ; for loops, with a point. Also for data that flow from a later iteration of a merged
    loop.

    >>> from kgen.frontend import make_kernel
    >>> one = make_kernel("{ [i]: 0<=i<n }", "b[i] = 2*a[i]", name="first")
    >>> two = make_kernel("{ [i]: 0<=i<n }", "c[i] = b[i] + 1", name="second")
    >>> fused = fuse_kernels([one, two], data_flow=[("b", 0, 1)])
    >>> for insn in fused.default_entrypoint.instructions:
    ...     print(insn)
    b[i] = 2*a[i]  {id=insn}
    c[i] = b[i] + 1  {id=insn_0}
    """
    parts = [kernel_of(program) for program in kernels]
    if not parts:
        raise TransformError("there are no kernels to fuse")
    marks = [""] * len(parts) if suffixes is None else list(suffixes)
    if len(marks) != len(parts):
        raise TransformError(f"suffixes has {len(marks)} items for {len(parts)} kernels")
    flow = [_read_flow(item, parts) for item in data_flow or ()]
    name = "_and_".join(part.name for part in parts)
    renamed = _with_own_names(parts, marks)
    fused = renamed[0]
    for part in renamed[1:]:
        fused = _fuse(fused, part)
    fused = _with_flow(fused.copy(name=name), renamed, flow).copy(origin=None)
    check_well_formed(fused)
    _check_order(fused, renamed, flow)
    table: dict[str, Any] = {name: CallableKernel(fused)}
    for program in kernels:
        if isinstance(program, TranslationUnit):
            called = set(program.callables_table) - program.entrypoints
            for other in sorted(called):
                table[other] = _same("function", other, table, program.callables_table, fused)
    return TranslationUnit(
        callables_table=table, entrypoints=frozenset({name}), target=fused.target
    )


def _check_order(fused: LoopKernel, parts: Sequence[LoopKernel], flow: Sequence[Flow]) -> None:
    """Reject loops that become one although an iteration needs a later one of another kernel."""
    orders = []
    for name, first, then in flow:
        for writer in _writers(parts[first], name):
            for user in _users(parts[then], name):
                shared = fused.id_to_insn[writer].within_inames
                shared &= fused.id_to_insn[user].within_inames
                orders.append(({writer}, {user}, [(iname, iname) for iname in sorted(shared)]))
    check_order_kept(fused, orders)


def _read_flow(item: Flow, parts: Sequence[LoopKernel]) -> Flow:
    name, first, then = item
    for index, users, verb in ((first, _writers, "writes"), (then, _users, "reads or writes")):
        if not 0 <= index < len(parts):
            raise TransformError(f"data_flow has {item}; there is no kernel {index}")
        if not users(parts[index], name):
            raise TransformError(
                f"data_flow has {item}; nothing {verb} '{name}'", kernel=parts[index].name
            )
    return name, first, then


def _writers(kernel: LoopKernel, name: str) -> tuple[str, ...]:
    return kernel.writers.get(name, ())


def _users(kernel: LoopKernel, name: str) -> tuple[str, ...]:
    return (*kernel.readers.get(name, ()), *_writers(kernel, name))


# -- names --------------------------------------------------------------------------------------


def _with_own_names(parts: Sequence[LoopKernel], suffixes: Sequence[str]) -> list[LoopKernel]:
    """Give temporaries and instructions names that no other kernel uses."""
    fixed = {
        name
        for part in parts
        for name in part.all_variable_names()
        if name not in part.temporary_variables
    }
    variables = UniqueNameGenerator(fixed)
    ids = UniqueNameGenerator()
    result: list[LoopKernel] = []
    for part, suffix in zip(parts, suffixes, strict=True):
        used = [var.base_storage for var in part.temporary_variables.values() if var.base_storage]
        names = {
            old: variables(f"{old}{suffix}")
            for old in dict.fromkeys((*part.temporary_variables, *used))
        }
        new_ids = {str(insn.id): ids(str(insn.id)) for insn in part.instructions}
        part = _rename_temporaries(part, {a: b for a, b in names.items() if a != b})
        result.append(_rename_instructions(part, {a: b for a, b in new_ids.items() if a != b}))
    return result


def _rename_instructions(kernel: LoopKernel, names: Mapping[str, str]) -> LoopKernel:
    if not names:
        return kernel
    lists = {old: [new] for old, new in names.items()}
    return kernel.map_instructions(
        lambda insn: redirected(insn, lists).copy(id=names.get(str(insn.id), insn.id))
    )


def _rename_temporaries(kernel: LoopKernel, names: Mapping[str, str]) -> LoopKernel:
    if not names:
        return kernel
    renamed = kernel.copy(
        temporary_variables={
            names.get(name, name): var.copy(
                name=names.get(name, name),
                base_storage=names.get(var.base_storage or "", var.base_storage),
            )
            for name, var in kernel.temporary_variables.items()
        },
        domains=tuple(rename_params(domain, names) for domain in kernel.domains),
    )
    return substitute_everywhere(renamed, {a: p.Variable(b) for a, b in names.items()})


# -- two kernels ----------------------------------------------------------------------------------


def _fuse(one: LoopKernel, two: LoopKernel) -> LoopKernel:
    """Append *two* to *one*; their instructions and temporaries have different names."""
    _check_kinds(one, two)
    both = one.assumptions.align_params(two.assumptions.get_space())
    assumptions = both.intersect(two.assumptions)
    _check_loops(one, two, assumptions)
    for field in ("target", "index_dtype", "options"):
        if getattr(one, field) != getattr(two, field):
            raise TransformError(
                f"'{one.name}' and '{two.name}' cannot be fused: their {field} differs",
                because=f"{getattr(one, field)}; {getattr(two, field)}",
            )
    fused = one.copy(
        instructions=(*one.instructions, *two.instructions),
        args=_joined_args(one, two),
        temporary_variables={**one.temporary_variables, **two.temporary_variables},
        inames=_joined("iname", one.inames, two.inames, one),
        substitutions=_joined("substitution rule", one.substitutions, two.substitutions, one),
        assumptions=assumptions,
        loop_priority=tuple(dict.fromkeys((*one.loop_priority, *two.loop_priority))),
        iname_slab_increments=_joined(
            "slabs of", one.iname_slab_increments, two.iname_slab_increments, one
        ),
        functions=_joined("function", one.functions, two.functions, one),
        tags=one.tags | two.tags,
        **joined_extras(one, two),
    )
    return _with_domains(fused, one, two)


def joined_extras(one: LoopKernel, two: LoopKernel) -> dict[str, Any]:
    """Return the fields of a kernel of the instructions of both that only list what they need."""
    names = ("silenced_warnings", "preambles", "preamble_generators", "symbol_manglers")
    return {
        name: tuple(dict.fromkeys((*getattr(one, name), *getattr(two, name)))) for name in names
    }


def _check_kinds(one: LoopKernel, two: LoopKernel) -> None:
    """Reject a name that is an array here and a loop there."""
    kinds_of_one, kinds_of_two = _kinds(one), _kinds(two)
    for name in sorted(kinds_of_one.keys() & kinds_of_two.keys()):
        here, there = kinds_of_one[name], kinds_of_two[name]
        if here != there:
            raise TransformError(
                f"'{name}' is {here} of '{one.name}' and {there} of '{two.name}'",
                hint="rename one of them: rename_iname, rename_argument",
            )


def _kinds(kernel: LoopKernel) -> dict[str, str]:
    kinds = dict.fromkeys(kernel.inames, "a loop")
    kinds.update(dict.fromkeys(kernel.arg_dict, "an argument"))
    kinds.update(dict.fromkeys(kernel.temporary_variables, "a temporary"))
    kinds.update(dict.fromkeys(kernel.substitutions, "a substitution rule"))
    return kinds


def _check_loops(one: LoopKernel, two: LoopKernel, assumptions: Set) -> None:
    """Reject loops of one name that run over different values."""
    shared = tuple(name for name in one.inames if name in two.inames)
    if not shared:
        return
    point = difference(one.domain_of(shared), two.domain_of(shared), {}, assumptions)
    if point is not None:
        raise TransformError(
            f"the loops over {', '.join(shared)} of '{one.name}' and '{two.name}' differ",
            point=assigned(point),
            because=f"{one.domain_of(shared)}; {two.domain_of(shared)}",
            hint=f"rename_iname(kernel, '{shared[0]}', ...) gives one of them its own loop",
        )


def _with_domains(fused: LoopKernel, one: LoopKernel, two: LoopKernel) -> LoopKernel:
    """Give *fused* the loops of both, such that each instruction runs where it did.

    Loops of *two* that are in a domain with loops of *one* are nested in these, or else the
    two domains become one. Either may make bounds that an instruction had not: ``n > 0``.
    """
    nested, joint = list(one.domains), list(one.domains)
    for domain in two.domains:
        names = dim_names(domain)
        new = {name: name for name in names if name not in one.inames}
        if len(new) == len(names):
            nested.append(domain)
            joint.append(domain)
        elif new:
            nested.append(domain_of_copies(domain, new, one.inames))
            _intersect_into(joint, domain)
    result = fused.copy(domains=nested)
    found = _moved(result, one, two)
    if found is not None and nested != joint:
        result = fused.copy(domains=joint)
        found = _moved(result, one, two)
    if found is not None:
        insn_id, point = found
        raise TransformError(
            f"'{one.name}' and '{two.name}' cannot be fused: loops of one bound the other",
            where=f"instruction '{insn_id}'",
            point=assigned(point),
            hint="say what holds for the sizes: assume(kernel, 'n >= 1')",
        )
    return result


def _intersect_into(domains: list[BasicSet], domain: BasicSet) -> None:
    """Merge *domain* with the domains that share loops with it."""
    inames = set(dim_names(domain))
    at = [k for k, other in enumerate(domains) if not inames.isdisjoint(dim_names(other))]
    joined = intersect_domains([*(domains[k] for k in at), domain])
    domains[at[0]] = joined
    for k in reversed(at[1:]):
        del domains[k]


def _moved(fused: LoopKernel, *parts: LoopKernel) -> tuple[str, dict[str, int]] | None:
    """Return an instruction whose set of instances has changed, and example values."""
    for part in parts:
        loops = [
            (insn, inames)  # without the loops of its sums, too: there, an empty sum is 0
            for insn in part.instructions
            for inames in (insn.within_inames, insn.within_inames | insn.reduction_inames())
        ]
        checked: set[frozenset[str]] = set()
        for insn, inames in loops:
            if inames in checked:
                continue
            checked.add(inames)
            names = tuple(sorted(inames))
            before, after = part.domain_of(names), fused.domain_of(names)
            point = difference(before, after, {}, fused.assumptions)
            if point is None and fused.with_outer_inames(inames) != inames:
                point = {}
            if point is not None:
                return str(insn.id), point
    return None


def _joined_args(one: LoopKernel, two: LoopKernel) -> tuple[ArrayArg | ValueArg, ...]:
    """Return the arguments of both. What the first kernel computes need not be passed."""
    result: list[ArrayArg | ValueArg] = []
    for arg in one.args:
        other = two.arg_dict.get(arg.name)
        result.append(arg if other is None else _joined_arg(one, two, arg, other))
    result.extend(arg for arg in two.args if arg.name not in one.arg_dict)
    return tuple(result)


def _joined_arg(
    one: LoopKernel, two: LoopKernel, arg: ArrayArg | ValueArg, other: ArrayArg | ValueArg
) -> ArrayArg | ValueArg:
    flows = [arg, other]
    if isinstance(arg, ArrayArg) and isinstance(other, ArrayArg):
        written = [arg.name in kernel.writers for kernel in (one, two)]
        read = [arg.name in kernel.readers for kernel in (one, two)]
        is_output = any(
            f.is_output if f.is_output is not None else w
            for f, w in zip((arg, other), written, strict=True)
        )
        is_input = arg.is_input if arg.is_input is not None else read[0] or not written[0]
        has_layout = arg.has_layout or other.has_layout
        flow = {"is_input": is_input, "is_output": is_output, "has_layout": has_layout}
        flows = [arg.copy(**flow), other.copy(**flow)]
    first, second = flows
    if first.dtype is None or second.dtype is None:
        dtype = first.dtype or second.dtype
        first, second = first.copy(dtype=dtype), second.copy(dtype=dtype)
    if isinstance(first, ArrayArg) and isinstance(second, ArrayArg):
        first, second = _with_known_shape(first, second), _with_known_shape(second, first)
    if first != second:
        raise TransformError(
            f"argument '{arg.name}' is declared differently in '{one.name}' and '{two.name}'",
            because=f"{arg}; {other}",
        )
    return first


def _with_known_shape(array: ArrayArg, other: ArrayArg) -> ArrayArg:
    """Return a declaration with the shape of the *other* one, if it has none itself.

    An array of unknown shape, ``b[p[i]]``, has one axis, whose elements are next to each other.
    """
    is_known = array.shape is not None or not isinstance(other.shape, tuple)
    if is_known or not (_has_one_axis(array) and _has_one_axis(other)):
        return array
    return array.copy(shape=other.shape, dim_tags=other.dim_tags)


def _has_one_axis(array: ArrayArg) -> bool:
    match array.dim_tags:
        case None | (FixedStrideArrayDimTag(stride=1),):
            return True
    return False


def _joined(
    kind: str, one: Mapping[str, V], two: Mapping[str, V], kernel: LoopKernel
) -> dict[str, V]:
    result = dict(one)
    for name in two:
        result[name] = _same(kind, name, result, two, kernel)
    return result


def _same(
    kind: str, name: str, one: Mapping[str, V], two: Mapping[str, V], kernel: LoopKernel
) -> V:
    if name in one and one[name] != two[name]:
        raise TransformError(
            f"the {kind} '{name}' differs from that of another kernel",
            kernel=kernel.name,
            because=f"{_text(one[name])}; {_text(two[name])}",
            hint="rename one of them, or make them equal",
        )
    return two[name]


def _text(value: Any) -> str:
    tags = getattr(value, "tags", None)
    return f"tagged {', '.join(sorted(map(str, tags)))}" if tags else str(value)


def _with_flow(fused: LoopKernel, parts: Sequence[LoopKernel], flow: Sequence[Flow]) -> LoopKernel:
    """Let readers and later writers wait for writers of another kernel."""
    more: dict[str, set[str]] = {}
    for name, first, then in flow:
        for user in _users(parts[then], name):
            more.setdefault(user, set()).update(_writers(parts[first], name))
    if not more:
        return fused
    return fused.map_instructions(
        lambda insn: (
            insn.copy(depends_on=insn.depends_on | more[str(insn.id)]) if insn.id in more else insn
        )
    )
