"""Rows of entries: loops between consecutive elements of an array of row starts, and row totals."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import pymbolic.primitives as p

from kgen.analysis.access import Access, collect_accesses
from kgen.analysis.dependences import share_iterations
from kgen.analysis.infer import infer_types
from kgen.analysis.typing import ExpressionTyper, UnknownType
from kgen.errors import (
    KgenError,
    StaticValueFindingError,
    TransformError,
)
from kgen.ir.affine import linear_form, simplify
from kgen.ir.assignee import assignee_name
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.data import ArrayArg, TemporaryVariable
from kgen.ir.expr import (
    Expr,
    IdentityMapper,
    Reduction,
    SubstitutionMapper,
    TypeCast,
    minus,
    substitute,
    to_text,
    variable_names,
    walk,
)
from kgen.ir.instruction import Assignment, CallInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.expressions import parse
from kgen.ir.reductions import parse_reduction_op
from kgen.ir.sets.dims import to_named
from kgen.ir.sets.text import parse_set
from kgen.ir.tags import InameImplementationTag
from kgen.ir.types import NumpyType
from kgen.ir.updates import besides
from kgen.transforms.expressions.rules import expand_expression
from kgen.transforms.select import new_names, require_iname

__all__ = ["Rows", "Total", "find_rows"]

#: Functions that are steps of reductions of the same name.
_UPDATES: Final = ("max", "min")


@dataclass(frozen=True)
class Total:
    """A reduction over the entries of a row.

    ``operands`` are expressions of the row and of ``Rows.entry``, the number of an entry;
    ``types`` are those of the results, ``widths`` those in which they are computed.
    """

    reduction: Reduction
    operands: tuple[Expr, ...]
    types: tuple[NumpyType, ...]
    widths: tuple[NumpyType, ...]


@dataclass(frozen=True)
class Rows:
    """Rows of entries, and the instructions that use the totals of each.

    ``first`` and ``count`` describe the range of rows, ``starts`` is the first entry of the row
    ``row``, of the type ``dtype``, and ``most`` an upper bound of the number of entries: a new name
    for the length of the array ``sized``, if there is one. *results* are the instructions that run
    once for each row; they depend on those of ``waits``. ``gone`` are all original instructions of
    the rows.
    """

    row: str
    entry: str
    first: Expr
    count: Expr
    starts: Expr
    dtype: NumpyType
    most: Expr
    sized: str | None
    totals: tuple[Total, ...]
    results: tuple[InstructionBase, ...]
    waits: frozenset[str]
    gone: frozenset[str]

    def start(self, number: Expr) -> Expr:
        """Return the first entry of a row, counted from the first row."""
        return _at(self.starts, self.row, p.Sum((self.first, number)))

    def depends_on_row(self, total: Total) -> bool:
        """Tell whether operands need the row in addition to the number of the entry."""
        return self.row in variable_names(*total.operands)


def find_rows(kernel: LoopKernel, row: str, k: str, entries: str | int | None) -> Rows:
    """Return the rows over which *row* runs, with their entries *k*, or raise an error."""
    return _Finder(kernel, row, k).rows(entries)


class _Finder:
    def __init__(self, kernel: LoopKernel, row: str, k: str) -> None:
        self.row, self.k = row, k
        for name in (row, k):
            require_iname(kernel, name)
            for tag in kernel.iname_tags_of_type(name, InameImplementationTag):
                raise TransformError(
                    f"loop '{name}' has the tag '{tag}'",
                    because="balance distributes both loops itself",
                    hint=f"call balance before '{name}' is tagged or split",
                )
        self.kernel = _with_expanded_rules(kernel, row)
        self.inside = [i for i in self.kernel.instructions if row in i.within_inames]
        self._check_loops()
        self.written = {name for insn in self.inside for name in insn.assignee_var_names()}
        self._check_other_loops()
        self.typed = infer_types(self.kernel, complete=False)
        self.typer = ExpressionTyper(self.typed)
        self.definitions = self._definitions()
        self._sum_up_updates()

    def rows(self, entries: str | int | None) -> Rows:
        """Return the rows."""
        starts, shift = self._starts()
        first, count = self._range()
        entry = f"{self.k}_entry"
        reductions = self._reductions()
        totals = tuple(self._total(node, entry, shift) for node in reductions)
        self._check_rows_apart(reductions)
        found = self._most(totals, entry) if entries is None else (self._size(entries), None)
        most, sized = found
        ids = frozenset(str(insn.id) for insn in self.inside)
        waits = frozenset(name for insn in self.inside for name in insn.depends_on) - ids
        return Rows(
            row=self.row,
            entry=entry,
            first=first,
            count=count,
            starts=starts,
            dtype=self._type_of(starts)[0],
            most=most,
            sized=sized,
            totals=totals,
            results=self._results(),
            waits=waits,
            gone=ids,
        )

    # -- loops --------------------------------------------------------------------------------

    def _check_loops(self) -> None:
        uses_k = [
            insn
            for insn in self.kernel.instructions
            if self.k in insn.within_inames | insn.reduction_inames()
        ]
        if not uses_k:
            raise TransformError(f"no instruction runs over '{self.k}'")
        for insn in uses_k:
            if self.row not in insn.within_inames:
                raise TransformError(
                    f"instruction '{insn.id}' runs over '{self.k}' outside loop '{self.row}'",
                    where=str(insn),
                    hint=f"give it a loop of its own: duplicate_inames(kernel, '{self.k}', "
                    f"within='id:{insn.id}')",
                )
        for insn in self.inside:
            others = insn.within_inames - {self.row, self.k}
            if others:
                raise TransformError(
                    f"instruction '{insn.id}' is also inside loop '{min(others)}'",
                    where=str(insn),
                    because=f"balance supports only loops '{self.row}' and '{self.k}'",
                    hint=f"write a kernel without '{min(others)}', and call it for each of its "
                    "iterations",
                )
            if not isinstance(insn, Assignment | CallInstruction):
                raise TransformError(
                    f"instruction '{insn.id}' in loop '{self.row}' is not an assignment",
                    where=str(insn),
                    hint="write it as an assignment, or move it out of the loop",
                )

    def _check_other_loops(self) -> None:
        """Reject loops whose bounds depend on names that would be removed."""
        for iname in self.kernel.inames:
            needed = {self.row, self.k, *self.written}.intersection(
                self.kernel.domain_parameters(iname)
            )
            if needed and iname not in (self.row, self.k):
                raise TransformError(
                    f"loop '{iname}' depends on '{min(needed)}', and therefore on the row",
                    where=str(self.kernel.restricted(iname)),
                    because=f"balance supports only loops '{self.row}' and '{self.k}'",
                    hint=f"reduce over '{self.k}' instead, if it is the same loop; else move its "
                    f"instructions to a separate loop '{self.row}'",
                )

    def _range(self) -> tuple[Expr, Expr]:
        """Return the first row and the number of rows."""
        found = self._bounds(self.row)
        names = self.written.intersection(variable_names(*found))
        if names or not self.kernel.inames.keys().isdisjoint(variable_names(*found)):
            raise self._unsupported(self.row, "its bounds change", "sizes as bounds")
        return found

    def _bounds(self, iname: str) -> tuple[Expr, Expr]:
        """Return the first value of a loop and the number of values, without gaps."""
        domain = self.kernel.restricted(iname)
        try:
            found = self.kernel.get_iname_bounds(iname)
            first, extent = found.lower, found.extent
        except StaticValueFindingError as err:
            wanted = "one lower and one upper bound"
            raise self._unsupported(iname, "its bounds are several expressions", wanted) from err
        end = to_text(p.Sum((first, extent)))
        rebuilt = to_named(parse_set(f"{{ [{iname}]: {to_text(first)} <= {iname} < {end} }}"))
        if iname != self.row:
            rebuilt = rebuilt.intersect(self.kernel.restricted(self.row))
        else:
            rebuilt = rebuilt.intersect_params(self.kernel.assumptions)
        if not rebuilt.is_subset(domain):
            raise self._unsupported(
                iname, "it leaves out values between its bounds", "no conditions"
            )
        return first, extent

    def _unsupported(self, iname: str, because: str, wanted: str) -> TransformError:
        return TransformError(
            f"loop '{iname}' cannot be balanced",
            where=str(self.kernel.restricted(iname)),
            because=because,
            hint=f"balance needs {wanted}: rows '0 <= {self.row} < n', and entries "
            f"'first <= {self.k} < last' with first = starts[{self.row}] and "
            f"last = starts[{self.row} + 1]",
        )

    def _starts(self) -> tuple[Expr, Expr]:
        """Return the first entry of a row, and the offset of ``k`` from the number of an entry."""
        first, extent = (self._resolved(bound) for bound in self._bounds(self.k))
        form = linear_form(extent)
        terms = dict(form.terms)
        start, end = terms.get(-1), terms.get(1)
        if len(form.terms) != 2 or form.constant or not isinstance(start, p.Subscript):
            raise self._unsupported(
                self.k,
                f"it has '{to_text(form.to_expr())}' iterations, which is not the difference of "
                "two elements of one array",
                "the starts of rows in one array",
            )
        following = _at(start, self.row, p.Variable(self.row) + 1)
        if end != following or self.row not in variable_names(start):
            raise self._unsupported(
                self.k,
                f"a row ends at '{to_text(end)}', but the next one begins at "
                f"'{to_text(following)}'",
                "contiguous rows",
            )
        shift = simplify(minus(first, start))
        return start, shift

    def _resolved(self, expr: Expr) -> Expr:
        """Replace what the rows define in a bound."""
        bound = substitute(expr, self.definitions)
        changing = self.written.intersection(variable_names(bound))
        if changing:
            name = min(changing)
            raise self._unsupported(
                self.k,
                f"'{name}' in its bounds is not a value that a plain assignment sets once in "
                "each row, and that only the row reads",
                "such bounds",
            )
        return _PlainIntegers()(bound)

    # -- definitions in the rows --------------------------------------------------------------

    def _definitions(self) -> dict[str, Expr]:
        """Return the variables that stand for expressions in values that the rows do not change."""
        kernel = self.kernel
        inside = {insn.id for insn in self.inside}
        found: dict[str, Assignment] = {}
        for insn in self.inside:
            name = insn.assignee_var_names()[0]
            if (
                isinstance(insn, Assignment)
                and isinstance(insn.assignee, p.Variable)
                and isinstance(kernel.array_vars.get(name), TemporaryVariable)
                and not insn.predicates
                and not insn.reduction_inames()
                and kernel.writers[name] == (insn.id,)
                and inside.issuperset(kernel.readers.get(name, ()))
            ):
                found[name] = insn
        left = -1
        while left != len(found):
            left = len(found)
            changing = self.written - found.keys()
            found = {n: i for n, i in found.items() if changing.isdisjoint(_reads(i.expression))}
        resolved: dict[str, Expr] = {}
        for name, insn in found.items():
            resolved[name] = substitute(self._as_declared(name, insn.expression), resolved)
        return resolved

    def _as_declared(self, name: str, expr: Expr) -> Expr:
        """Convert a value to the type of the variable that it was assigned to."""
        dtype = self.typed.temporary_variables[name].dtype
        if dtype is None or not isinstance(dtype, NumpyType) or self._type_of(expr)[0] == dtype:
            return expr
        return TypeCast(dtype, expr)

    def _type_of(self, expr: Expr) -> tuple[NumpyType, ...]:
        try:
            found = self.typer(expr)
        except UnknownType as err:
            raise TransformError(
                f"the type of '{to_text(expr)}' is not known",
                because=f"'{err.variable}' has no type yet",
                hint=f"add_dtypes(kernel, {{'{err.variable}': np.float32}}), or another type",
            ) from err
        return found if isinstance(found, tuple) else (found,)

    # -- plain loops --------------------------------------------------------------------------

    def _sum_up_updates(self) -> None:
        """Make updates in a plain loop ``k`` reductions: ``acc = acc + sum(k, ...)``."""
        changed = []
        for insn in self.inside:
            if self.k in insn.within_inames and _defined(insn) not in self.definitions:
                insn = self._reduced(insn)
            changed.append(insn)
        self.inside = changed

    def _reduced(self, insn: InstructionBase) -> InstructionBase:
        found = _update_of(insn)
        if found is None or self.k in variable_names(insn.assignees[0]):
            raise self._no_update(insn, "it does not combine a value with its previous value")
        place, name, operand = found
        operation = parse_reduction_op(name)
        for other in self.inside:
            reads = _reads(*other.expressions()) | set(other.assignee_var_names())
            is_beside = other.id != insn.id and self.k in other.within_inames
            if is_beside and assignee_name(place) in reads:
                raise self._no_update(insn, f"'{other.id}' uses the value that it updates")
        dtype = self._type_of(place)[0]
        operand = substitute(operand, self.definitions)
        (own,) = self._type_of(operand)
        if np.result_type(own.numpy_dtype, dtype.numpy_dtype) != dtype.numpy_dtype:
            names = f"{own.numpy_dtype} to {dtype.numpy_dtype}"
            raise self._no_update(insn, f"it converts a result from {names} in each iteration")
        if insn.predicates:
            (neutral,) = operation.neutral((dtype,))
            condition = functools.reduce(lambda a, b: a.and_(b), insn.predicates)
            operand = p.If(substitute(condition, self.definitions), operand, neutral)
        total = Reduction(operation, (self.k,), operand)
        return insn.copy(
            expression=operation.combine((place,), (total,), (dtype,))[0],
            within_inames=insn.within_inames - {self.k},
            predicates=frozenset(),
        )

    def _no_update(self, insn: InstructionBase, because: str) -> TransformError:
        return TransformError(
            f"instruction '{insn.id}' in loop '{self.k}' is not a reduction",
            where=str(insn),
            because=because,
            hint=f"write it as a reduction, 'acc = sum({self.k}, ...)', or as an update, 'acc = "
            "acc + ...' with +, *, max or min",
        )

    # -- totals and results -------------------------------------------------------------------

    def _reductions(self) -> tuple[Reduction, ...]:
        """Return the reductions over ``k``, each once."""
        found: dict[Reduction, None] = {}
        for insn in self._kept():
            for node in walk(*insn.expressions()):
                if isinstance(node, Reduction) and self.k in node.inames:
                    self._check_reduction(insn, node)
                    found[node] = None
        return tuple(found)

    def _check_reduction(self, insn: InstructionBase, node: Reduction) -> None:
        inner = any(isinstance(part, Reduction) for part in walk(*node.exprs))
        if node.inames != (self.k,) or inner:
            raise TransformError(
                f"instruction '{insn.id}' also reduces over loops other than '{self.k}'",
                where=str(insn),
                hint="use split_reduction_outward, or put the other loops into separate "
                "instructions",
            )
        if not node.operation.is_commutative:
            raise TransformError(
                f"'{node.operation.name}' in instruction '{insn.id}' cannot be balanced",
                where=str(insn),
                because="work-items combine parts of a row in another order",
                hint="use sum, product, max, min, any, all, argmin, argmax",
            )
        if insn.predicates:
            raise TransformError(
                f"instruction '{insn.id}' reduces on a condition",
                where=str(insn),
                hint="assign the reduction to a temporary without a condition",
            )

    def _total(self, node: Reduction, entry: str, shift: Expr) -> Total:
        types = self._type_of(_replaced(node, self.definitions))
        exprs = _replaced(node, self.definitions).exprs
        at_entry = _AtEntry({self.k: p.Sum((p.Variable(entry), shift))})
        operands = tuple(at_entry(expr) for expr in exprs)
        widths = tuple(cast("Sequence[NumpyType]", node.operation.accumulators(types)))
        return Total(node, operands, types, widths)

    def _most(self, totals: Sequence[Total], entry: str) -> tuple[Expr, str | None]:
        """Return the length of an array that has an element for each entry.

        An unknown length gets a name; the array is then returned, too.
        """
        one, always, unknown = p.Variable(entry), _Unconditional(), None
        for node in walk(*(always(operand) for total in totals for operand in total.operands)):
            if not isinstance(node, p.Subscript) or one not in node.index_tuple:
                continue
            array = self.kernel.arg_dict.get(to_text(node.aggregate))
            shape = getattr(array, "shape", None)
            if isinstance(shape, tuple) and shape[node.index_tuple.index(one)] is not None:
                return shape[node.index_tuple.index(one)], None
            if unknown is None and isinstance(array, ArrayArg) and len(node.index_tuple) == 1:
                unknown = array.name
        if unknown is not None:
            return p.Variable(new_names(self.kernel)(f"n_{self.row}_entries")), unknown
        raise TransformError(
            f"the number of entries of the rows over '{self.row}' cannot be inferred",
            because="no array is subscripted unconditionally by the entry, as in "
            f"'values[{self.k}]'",
            hint="pass it as an expression of sizes: balance(..., entries='entries')",
        )

    def _size(self, given: str | int) -> Expr:
        """Read the number of entries: an affine expression of sizes."""
        try:
            size = parse(str(given))
            unknown = set(variable_names(size)) - self.kernel.get_unwritten_value_args()
            parse_set(f"{{ [q]: 0 <= q < {to_text(size)} }}")
        except KgenError as err:
            raise _no_size(given, str(err).splitlines()[0]) from err
        if unknown:
            raise _no_size(given, f"'{min(unknown)}' is not a number that callers pass")
        return size

    def _kept(self) -> list[InstructionBase]:
        """Return the instructions of a row, without definitions used only for its entries."""
        read = {
            name
            for insn in self.inside
            if _defined(insn) not in self.definitions
            for name in _reads_outside(insn, self.k)
        }
        kept: list[InstructionBase] = []
        for insn in reversed(self.inside):
            name = _defined(insn)
            if self.k not in insn.within_inames and (name not in self.definitions or name in read):
                read |= _reads_outside(insn, self.k)
                kept.append(insn)
        return kept[::-1]

    def _results(self) -> tuple[InstructionBase, ...]:
        """Return the instructions of a row, each after its dependencies."""
        left, found = self._kept(), []
        before = {insn.id: ancestors(self.kernel, insn) for insn in left}
        while left:
            waiting = {insn.id for insn in left}
            insn = next(i for i in left if waiting.isdisjoint(before[i.id]))
            left.remove(insn)
            found.append(insn)
        return tuple(found)

    # -- legality -----------------------------------------------------------------------------

    def _check_rows_apart(self, reductions: Sequence[Reduction]) -> None:
        """Reject dependences between rows."""
        for node in reductions:
            for name in sorted(_reads(*_replaced(node, self.definitions).exprs) & self.written):
                raise self._dependent(name, f"'{to_text(node)}' reads it, but the rows write it")
        results = [plain for insn in self._results() for plain in _without_totals(insn, self.k)]
        accesses: dict[str, list[Access]] = {}
        for access in collect_accesses(self.kernel, results):
            if access.array in self.written:
                accesses.setdefault(access.array, []).append(access)
        for name, some in accesses.items():
            if isinstance(self.kernel.array_vars[name], TemporaryVariable):
                self._check_set_in_row(name, results)
            elif not all(share_iterations(self.row, some[0], other) for other in some):
                raise self._dependent(name, f"rows may meet at elements of '{name}'")

    def _check_set_in_row(self, name: str, results: Sequence[InstructionBase]) -> None:
        outside = {*self.kernel.readers.get(name, ()), *self.kernel.writers[name]}
        outside -= {str(insn.id) for insn in self.inside}
        users = [
            insn
            for insn in results
            if name in insn.assignee_var_names() or name in _reads(*insn.expressions())
        ]
        first = users[0]
        is_set = not first.predicates and name not in _reads(*first.read_exprs())
        if outside or not is_set or self.kernel.temporary_variables[name].shape:
            raise self._dependent(
                name, f"'{name}' is not a scalar that each row sets before it reads it"
            )

    def _dependent(self, name: str, because: str) -> TransformError:
        return TransformError(
            f"rows depend on each other through '{name}'",
            because=because,
            hint=f"let each row write its own elements, '{name}[{self.row}]', and read others "
            "from another array",
        )


# -- parts of instructions -----------------------------------------------------------------------


def _no_size(given: str | int, because: str) -> TransformError:
    return TransformError(
        f"'{given}' is not a number of entries",
        because=because,
        hint="pass an affine expression of sizes that callers pass: entries='n_entries'",
    )


def _with_expanded_rules(kernel: LoopKernel, row: str) -> LoopKernel:
    if not kernel.substitutions:
        return kernel
    return kernel.map_instructions(
        lambda insn: (
            insn.with_transformed_expressions(lambda expr: expand_expression(kernel, expr))
            if row in insn.within_inames
            else insn
        )
    )


def _defined(insn: InstructionBase) -> str:
    return insn.assignee_var_names()[0]


def _reads(*exprs: Expr) -> set[str]:
    return set(variable_names(*exprs))


def _without_totals(insn: InstructionBase, k: str) -> list[InstructionBase]:
    """Return an instruction without reductions over *k*; one for each result if it has several."""
    value = getattr(insn, "expression", None)
    if isinstance(value, Reduction) and k in value.inames:
        return [Assignment(place, 0, id=insn.id) for place in insn.assignees]
    return [insn.with_transformed_expressions(_WithoutTotals(k))]


def _reads_outside(insn: InstructionBase, k: str) -> set[str]:
    """Return the names that an instruction reads outside the operands of reductions over *k*."""
    plain = _without_totals(insn, k)
    return {name for new in plain for name in _reads(*new.read_exprs())}


class _WithoutTotals(IdentityMapper):
    def __init__(self, k: str) -> None:
        super().__init__()
        self.k = k

    def map_reduction(self, expr: Reduction, *args: Any) -> Expr:
        if self.k in expr.inames:
            return 0
        return super().map_reduction(expr, *args)


class _Unconditional(IdentityMapper):
    """Leaves out parts that are evaluated only under a condition."""

    def map_if(self, expr: p.If, *args: Any) -> Expr:
        return self.rec(expr.condition, *args)

    def map_logical_and(self, expr: p.LogicalAnd | p.LogicalOr, *args: Any) -> Expr:
        return self.rec(expr.children[0], *args)

    map_logical_or = map_logical_and


class _PlainIntegers(IdentityMapper):
    """Leaves out conversions between integers in bounds."""

    def map_type_cast(self, expr: TypeCast, *args: Any) -> Expr:
        child = self.rec(expr.child, *args)
        return child if expr.type.kind in "iu" else TypeCast(expr.type, child)


class _AtEntry(SubstitutionMapper):
    """Replaces the loop over the entries of a row, and simplifies subscripts."""

    def map_subscript(self, expr: p.Subscript, *args: Any, **kwargs: Any) -> Expr:
        index = tuple(simplify(self.rec(part, *args, **kwargs)) for part in expr.index_tuple)
        return p.Subscript(expr.aggregate, index if len(index) > 1 else index[0])

    def map_variable(self, expr: p.Variable, *args: Any, **kwargs: Any) -> Expr:
        new = super().map_variable(expr, *args, **kwargs)
        return new if new is expr else simplify(new)


def _replaced(node: Reduction, definitions: dict[str, Expr]) -> Reduction:
    return node.over(node.inames, tuple(substitute(part, definitions) for part in node.exprs))


def _at(start: Expr, row: str, value: Expr) -> Expr:
    """Return the start of another row."""
    index = tuple(simplify(substitute(part, {row: value})) for part in start.index_tuple)
    return p.Subscript(start.aggregate, index if len(index) > 1 else index[0])


def _update_of(insn: InstructionBase) -> tuple[Expr, str, Expr] | None:
    """Return the variable, the operation and the other operand of an update."""
    if not isinstance(insn, Assignment):
        return None
    place = insn.assignee
    for name, operands, joined in _operations(insn.expression):
        rest = besides(operands, place)
        if rest is None:
            continue
        other = rest[0] if len(rest) == 1 else joined(rest)
        if assignee_name(place) not in _reads(other, *insn.predicates):
            return place, name, other
    return None


def _operations(value: Expr) -> Iterator[tuple[str, tuple[Expr, ...], Any]]:
    """Yield the reduction that an expression is a step of, and its operands."""
    if isinstance(value, p.Sum):
        yield "sum", value.children, p.Sum
    elif isinstance(value, p.Product):
        yield "product", value.children, p.Product
    elif isinstance(value, p.Call) and len(value.parameters) == 2:
        name = to_text(value.function)
        if name in _UPDATES:
            yield name, value.parameters, tuple
