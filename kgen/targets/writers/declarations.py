"""Declarations of the variables of a function, and their placement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count
from typing import Any, Final

import cgen
import numpy as np
import pymbolic.primitives as p

from kgen.analysis.access import collect_accesses_to
from kgen.ast.nodes import (
    Block,
    Comment,
    DeviceFunction,
    For,
    If,
    Let,
    Node,
    Persistent,
    Run,
    map_runs,
)
from kgen.errors import CodegenError
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import Expr, variable_names
from kgen.ir.instruction import Assignment
from kgen.ir.kernel import LoopKernel
from kgen.ir.pieces import piece_names
from kgen.ir.stages import DeviceKernel
from kgen.ir.tags import LocalInameTagBase
from kgen.ir.tree import children_of, exprs_of
from kgen.ir.types import AddressSpace, NumpyType, auto
from kgen.targets.builder import ASTBuilderBase
from kgen.targets.limits import bytes_of, local_layout
from kgen.targets.preamble import Need, Rank
from kgen.targets.writers.allocations import allocated, allocated_length
from kgen.targets.writers.expressions import ExpressionWriter
from kgen.targets.writers.literals import table_entry

__all__ = [
    "declare_at_top",
    "needs_braces",
    "state_alignments",
    "table_need",
    "with_declarations",
]


def needs_braces(children: tuple[Node, ...], at: int) -> bool:
    """Tell whether child number *at* of a block defines a name that ends before the block."""
    return _leaves_name(children[at]) and at < len(children) - 1


def _leaves_name(node: Node) -> bool:
    """Tell whether the statements of *node* define a name to the end of the braces around."""
    if isinstance(node, Block):
        return bool(node.children) and _leaves_name(node.children[-1])
    return isinstance(node, Let) or (isinstance(node, Comment) and _leaves_name(node.body))


def with_declarations(kernel: DeviceKernel, function: DeviceFunction) -> DeviceFunction:
    """Decide where the temporaries of *function* are declared.

    A private scalar is declared at its first assignment, if the scope of that encloses all
    its other uses: the ``Run`` records this. A scalar that is only used in lanes is declared in
    each of their loops. The remaining ``temporaries`` are declared at the top.
    """
    if not function.temporaries:
        return function
    finder = _UseFinder(kernel, function.temporaries)
    finder.visit(function.body, ())
    first: dict[int | None, tuple[str, bool]] = {}
    top: list[str] = []
    for name in function.temporaries:
        uses = finder.uses_of(name)
        if all(use.first_assignment is not None and use.scope == use.first_scope for use in uses):
            first |= {use.first_assignment: (name, use.assignments == 1) for use in uses}
        else:
            top.append(name)
    numbers = count()  # in the order of the text, as in the finder

    def declaring(run: Run) -> Run:
        name, is_only = first.get(next(numbers), (None, False))
        return run if name is None else replace(run, declares=name, is_only=is_only)

    body = map_runs(function.body, declaring) if first else function.body
    return replace(function, body=body, temporaries=tuple(top))


_Scope = tuple[int, ...]


@dataclass
class _Use:
    """The uses of a variable: the scope around them, and the first assignment."""

    scope: _Scope
    first_scope: _Scope
    first_assignment: int | None
    assignments: int = 0


def _around(one: _Scope, other: _Scope) -> _Scope:
    """Return the innermost scope around two."""
    pairs = zip(one, other, strict=False)
    return one[: next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))]


def _together(first: _Use, later: _Use) -> _Use:
    return replace(
        first,
        scope=_around(first.scope, later.scope),
        assignments=first.assignments + later.assignments,
    )


class _UseFinder:
    """Visits a tree in the order of its text; a scope is the path of the braces around it."""

    def __init__(self, kernel: DeviceKernel, temporaries: tuple[str, ...]) -> None:
        self.kernel = kernel
        self.names = frozenset(temporaries)
        self.scalars = frozenset(name for name in temporaries if _is_scalar(kernel, name))
        #: by name, then by the scope of the loop over lanes around them, if there is one
        self.uses: dict[str, dict[_Scope | None, _Use]] = {name: {} for name in temporaries}
        self.lanes: _Scope | None = None
        self.runs = 0
        self.scopes = 0

    def uses_of(self, name: str) -> list[_Use]:
        """Return the uses of a variable: separately for each loop over lanes, or all together."""
        found = self.uses[name]
        if None not in found or len(found) == 1:
            return list(found.values())
        return [reduce(_together, found.values())]

    def _inner(self, scope: _Scope) -> _Scope:
        self.scopes += 1
        return (*scope, self.scopes)

    def visit(self, node: Node, scope: _Scope) -> None:
        match node:
            case For():
                self._loop(node, scope)
            case If():
                self._read(scope, node.condition)
                self.visit(node.body, self._inner(scope))
                if node.orelse is not None:
                    self.visit(node.orelse, self._inner(scope))
            case Let() | Comment():
                self._read(scope, *exprs_of(node))
                self.visit(node.body, scope)
            case Block():
                for at, child in enumerate(node.children):
                    braces = needs_braces(node.children, at)
                    self.visit(child, self._inner(scope) if braces else scope)
            case Run():
                self._run(node, scope)
            case Persistent():
                for part in children_of(node):
                    self.visit(part, self._inner(scope))

    def _loop(self, node: For, scope: _Scope) -> None:
        self._read(scope, node.first, node.stop)
        inner, outside = self._inner(scope), self.lanes
        if node.is_simd:
            self.lanes = inner
        self.visit(node.body, inner)
        self.lanes = outside

    def _read(self, scope: _Scope, *exprs: Expr) -> None:
        for name in variable_names(*exprs):
            if name in self.names:
                self._use(name, scope, None)

    def _run(self, node: Run, scope: _Scope) -> None:
        insn = self.kernel.id_to_insn[node.insn_id]
        reads = insn.read_dependency_names()
        for name in sorted(reads & self.names):
            self._use(name, scope, None)
        for name in insn.assignee_var_names():
            if name in self.names:
                is_plain = isinstance(insn, Assignment) and isinstance(insn.assignee, p.Variable)
                self._use(name, scope, self.runs if is_plain else None)
                self.uses[name][self.lanes].assignments += 1
        self.runs += 1

    def _use(self, name: str, scope: _Scope, assignment: int | None) -> None:
        known = self.uses[name].get(self.lanes)
        if known is None:
            if name not in self.scalars:
                assignment = None
            self.uses[name][self.lanes] = _Use(scope, scope, assignment)
            return
        known.scope = _around(known.scope, scope)


def _is_scalar(kernel: DeviceKernel, name: str) -> bool:
    temporary = kernel.temporary_variables[name]
    is_private = temporary.address_space == AddressSpace.PRIVATE
    has_own = temporary.initializer is None and temporary.base_storage is None
    return is_private and temporary.shape == () and has_own


# -- declarations ------------------------------------------------------------------------


def declare_at_top(
    builder: ASTBuilderBase, writer: ExpressionWriter, names: Iterable[str], *, has_lanes: bool
) -> Iterator[cgen.Generable]:
    """Declare temporaries, most without values; tables are defined before the code instead.

    In a function that *has_lanes*, large arrays are accessed by pointers, if the target wants that.
    """
    shared: dict[str, list[TemporaryVariable]] = {}
    names = tuple(names)
    most = writer.target.static_local_memory
    places, _ = local_layout(writer.kernel, names, most)
    if places:
        yield cgen.Line(writer.target.local_memory_of_launch)
    for name in names:
        temporary = writer.kernel.temporary_variables[name]
        if temporary.initializer is not None:
            writer.preamble.add(table_need(writer, temporary))
        elif name in places:
            yield from _placed(writer, temporary, places[name])
        elif temporary.base_storage is not None:
            shared.setdefault(temporary.base_storage, []).append(temporary)
        elif (length := allocated_length(writer, temporary)) is not None:
            yield from allocated(writer, temporary, length)
        else:
            if has_lanes and (pointer := _pointer_to_tile(builder, writer, temporary)):
                yield from pointer
                continue
            value = writer.target.first_value(temporary)
            for declaration in _declare(writer, temporary):
                declared = builder.get_temporary_decl(temporary, declaration)
                yield declared if value is None else cgen.Initializer(declared, value)
    yield from _storages(builder, writer, shared, places)


def _storages(
    builder: ASTBuilderBase,
    writer: ExpressionWriter,
    shared: Mapping[str, Sequence[TemporaryVariable]],
    places: Mapping[str, int],
) -> Iterator[cgen.Generable]:
    """Declare storages, each with the temporaries that share it."""
    for base, temporaries in shared.items():
        yield from _shared(builder, writer, base, temporaries, places.get(base))


def _shared(
    builder: ASTBuilderBase,
    writer: ExpressionWriter,
    base: str,
    temporaries: Sequence[TemporaryVariable],
    at: int | None,
) -> Iterator[cgen.Generable]:
    """Declare temporaries in one storage: a union, or, if it is *at* a place, a reference to it."""
    whole = writer.kernel.temporary_variables.get(base)
    members = temporaries if whole is None else [*temporaries, whole]
    parts = [part for member in members for part in _declare(writer, member)]
    if at is None:
        yield builder.get_temporary_decl(max(members, key=bytes_of), Union(base, parts))
        return
    kind = f"{base}_kind"
    place = _place(writer, kind, at)
    yield Union("", parts, kind)
    yield cgen.Initializer(cgen.Reference(cgen.Value(kind, base)), f"*{place}")


def _placed(
    writer: ExpressionWriter, temporary: TemporaryVariable, place: int
) -> Iterator[cgen.Generable]:
    """Declare a pointer to an array at a place in the local memory of a launch."""
    assert isinstance(temporary.dtype, NumpyType)
    type_name = writer.declared_type(temporary.name, temporary.dtype)
    size = bytes_of(temporary) // max(len(piece_names(temporary)), 1)
    for number, name in enumerate(piece_names(temporary)):
        pointer = _place(writer, type_name, place + number * size)
        if temporary.shape:
            yield cgen.Initializer(cgen.Value(type_name, f"*const {name}"), pointer)
        else:
            yield cgen.Initializer(cgen.Reference(cgen.Value(type_name, name)), f"*{pointer}")


def _place(writer: ExpressionWriter, type_name: str, place: int) -> str:
    return f"({type_name} *) &{writer.target.local_memory_name}[{place}]"


def state_alignments(writer: ExpressionWriter, names: Iterable[str]) -> Iterator[cgen.Generable]:
    """Tell the compiler the declared alignments of arrays, and require them of callers.

    ``x = __builtin_assume_aligned(x, 64);``
    """
    aligned, kernel = writer.target.aligned_pointer, writer.kernel
    for name in names:
        array = kernel.array_vars.get(name)
        if aligned is None or array is None or array.alignment is None or array.offset is auto:
            continue
        alignment = min(array.alignment, _CACHE_LINE)
        writer.accesses.alignments[name] = alignment
        for piece in piece_names(array):
            yield cgen.Assign(piece, f"{aligned}({piece}, {alignment})")


#: The bytes of a cache line, and of the longest vector.
_CACHE_LINE: Final = 64
#: Arrays with more bytes than registers hold are in memory.
_REGISTERS: Final = 2048


def _pointer_to_tile(
    builder: ASTBuilderBase, writer: ExpressionWriter, temporary: TemporaryVariable
) -> list[cgen.Generable] | None:
    """Declare a tile in memory that lanes use: its elements, and a pointer to them.

    gcc does not track pointers that it derives from an array, only those that it
    derives from a pointer. Only for these does it keep sums in registers while it reads the tile.
    """
    aligned = writer.target.aligned_pointer
    assert isinstance(temporary.dtype, NumpyType)
    is_plain = temporary.shape and len(piece_names(temporary)) == 1
    if aligned is None or not is_plain:
        return None
    size = _storage_size(temporary)
    if size * temporary.dtype.itemsize <= _REGISTERS:
        return None
    alignment = temporary.alignment or _CACHE_LINE
    elements = f"{temporary.name}_elements"
    while elements in writer.kernel.all_variable_names():
        elements += "_"
    type_name = writer.declared_type(temporary.name, temporary.dtype)
    array = cgen.ArrayOf(cgen.Value(type_name, elements), size)
    pointer = cgen.Value(type_name, f"*const {temporary.name}")
    return [
        builder.get_temporary_decl(temporary, cgen.AlignedAttribute(alignment, array)),
        cgen.Initializer(pointer, f"{aligned}({elements}, {alignment})"),
    ]


def _declare(writer: ExpressionWriter, temporary: TemporaryVariable) -> Iterator[cgen.Declarator]:
    assert isinstance(temporary.dtype, NumpyType)
    type_name = writer.declared_type(temporary.name, temporary.dtype)
    for name in piece_names(temporary):
        declaration: cgen.Declarator = cgen.Value(type_name, name)
        if temporary.shape:
            declaration = cgen.ArrayOf(declaration, _storage_size(temporary))
        alignment = writer.target.alignment_of(temporary)
        if alignment is not None:
            declaration = cgen.AlignedAttribute(alignment, declaration)
        yield declaration


class Union(cgen.Declarator):
    """Variables in one place; in C, writing one and reading another by its name is defined."""

    def __init__(self, name: str, members: Sequence[cgen.Declarator], kind: str = "") -> None:
        self.name = name
        self.members = tuple(members)
        self.kind = kind

    def get_decl_pair(self) -> tuple[list[str], str | None]:
        """Return the lines of the type, and its declarator."""
        lines = [f"  {line}" for member in self.members for line in member.generate()]
        return [f"union {self.kind}".rstrip(), "{", *lines, "}"], self.name


def _storage_size(temporary: TemporaryVariable) -> int:
    """Return the number of elements that an array is declared with."""
    size = temporary.n_stored
    if size is None:
        space = AddressSpace.stringify(temporary.address_space)
        raise CodegenError(
            f"the size of {space} temporary '{temporary.name}' is not a constant",
            because=str(temporary),
            hint="fix_parameters(kernel, n=...), a smaller tile by split_iname, or "
            f"set_temporary_address_space(kernel, '{temporary.name}', 'global')",
        )
    for stride in temporary.fixed_strides:
        if isinstance(stride, int) and stride < 0:
            raise CodegenError(
                f"temporary '{temporary.name}' has a negative stride, {stride}",
                because="its elements would lie before its storage",
                hint="leave strides out, or reverse the subscripts",
            )
    return size


#: Compilers take minutes for longer tables.
_MOST_ENTRIES = 1 << 24


def _is_uniform(kernel: LoopKernel, table: str) -> bool:
    """Tell whether the work-items of a group read the same entry of a table at a time."""
    accesses = collect_accesses_to(kernel, table)
    if any(access.index is None for access in accesses):
        return False
    names = {name for access in accesses for name in variable_names(*(access.index or ()))}
    loops = names & kernel.inames.keys()
    is_known = names <= loops | kernel.all_params()
    return is_known and not any(kernel.has_tag(name, LocalInameTagBase) for name in loops)


def table_need(writer: ExpressionWriter, table: TemporaryVariable) -> Need:
    """Return the definition of a table of constants."""
    target = writer.target
    assert isinstance(table.dtype, NumpyType)
    values: np.ndarray[Any, Any] = table.initializer
    if values.shape != table.shape:
        raise CodegenError(
            f"the initializer of '{table.name}' has shape {values.shape}, the temporary "
            f"{table.shape}"
        )
    size = _storage_size(table)
    if size > _MOST_ENTRIES:
        raise CodegenError(
            f"the table '{table.name}' has {size} entries, including the gaps between its elements",
            because=f"its strides are {', '.join(map(str, table.fixed_strides))}; "
            f"code holds at most {_MOST_ENTRIES} constants",
            hint="leave strides out, or pass the values as an argument",
        )
    flat = np.zeros(size, table.dtype.dtype)
    strides = [stride * flat.itemsize for stride in table.fixed_strides]
    np.lib.stride_tricks.as_strided(flat, table.shape, strides)[...] = values
    texts = ", ".join(table_entry(target, value, table.dtype) for value in flat)
    words = target.table_qualifier_for(
        flat.nbytes, is_uniform=_is_uniform(writer.kernel, table.name)
    )
    declaration: cgen.Declarator = cgen.Const(cgen.Value(target.type_name(table.dtype), table.name))
    if table.shape:
        declaration, texts = cgen.ArrayOf(declaration, flat.size), f"{{{texts}}}"
    declaration = cgen.DeclSpecifier(declaration, words)
    return Need(Rank.TABLE, table.name, str(cgen.Initializer(declaration, texts)))
