"""Matrix products by tensor cores: PTX's ``mma.sync``, and the fragments of its operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import cgen
import pymbolic.primitives as p
from pymbolic.mapper.stringifier import PREC_NONE

from kgen.analysis.alignment import unaligned_part
from kgen.analysis.products import TensorLoops
from kgen.analysis.split_values import HALF, KEPT, parts_of
from kgen.ast.nodes import Run
from kgen.ir.affine import linear_form, simplify
from kgen.ir.assignee import assignee_name
from kgen.ir.expr import Expr, minus, substitute, variable_names
from kgen.ir.fragments import Fragment
from kgen.ir.types import AddressSpace, NumpyType
from kgen.targets.preamble import Need, Rank
from kgen.targets.writers.access import is_pointer
from kgen.targets.writers.expressions import ExpressionWriter
from kgen.targets.writers.tensor_steps import Step, device_function, numbers_of, step_of
from kgen.targets.writers.tensor_sums import PartialSums, split_steps_in_turn, step_statement
from kgen.targets.writers.warpgroups import warpgroup_statements

__all__ = ["tensor_statements"]

#: The maximum alignment, in bytes, that callers can be asked for, to load pairs.
_PAIR_BYTES: Final = 4
#: The number of 2-byte elements in a row that ``ldmatrix`` loads, and their bytes.
_ROW: Final = 8
_ROW_BYTES: Final = 16
_LANE: Final = p.Variable("lane")


def tensor_statements(
    writer_of: Callable[[Run], ExpressionWriter], runs: Sequence[Run]
) -> tuple[list[cgen.Generable], list[cgen.Generable]]:
    """Write consecutive steps of one instruction; fragments that they share are loaded once.

    Also write the wait for asynchronous steps.

    ::

        c[i_reg, j_reg] += a[lane // 4 + 8*i_reg, k]   =>   unsigned a_lanes[4];
                * b[k, 2*(lane % 4) + j_reg]                kgen_load_4x8x8(a_lanes, &a[...]);
                                                            unsigned const b_lanes[2] = {...};
                                                            kgen_m16n8k16_float16(c[0], c[1], ...);
    """
    steps = [step_of(writer_of(run), run) for run in runs]
    if steps[0].shape.is_of_warpgroup:
        return warpgroup_statements(steps)
    lines: list[cgen.Generable] = []
    fragments = _Fragments(lines)
    if not steps[0].shape.is_split:
        for step in steps:
            (a,), (b,) = fragments.of(step)
            lines.append(step_statement(step, step.sums, a, b))
        return [cgen.Block(lines)], []
    partial_sums = PartialSums()
    for few in split_steps_in_turn(steps):
        for step in few:
            partial_sums.add(step, *fragments.of(step))
        lines += partial_sums.finish()
    return [cgen.Block(lines)], []


class _Fragments:
    """The fragments of the factors of steps; statements added to *lines* load each once."""

    def __init__(self, lines: list[cgen.Generable]) -> None:
        self._lines = lines
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._loads: dict[object, _Load] = {}

    def of(self, step: Step) -> list[tuple[str, ...]]:
        """Return the names of both fragments; split ones consist of two parts."""
        return [self._named(each, step.values) for each in _operands_of(step)]

    def _named(self, operand: _Operand, values: Mapping[str, Expr]) -> tuple[str, ...]:
        used = variable_names(operand.factor)
        of = operand.name, *((name, values[name]) for name in used if name in values)
        if of not in self._loads:
            self._loads[of] = operand.load()
        load = self._loads[of]
        if load.key not in self._names:
            self._names[load.key] = self._fresh(operand)
            self._lines += load.statements(*self._names[load.key])
        return self._names[load.key]

    def _fresh(self, operand: _Operand) -> tuple[str, ...]:
        """Return names for a fragment: of its elements, and of what remains of split ones."""
        name = operand.name
        taken = operand.writer.kernel.all_variable_names()
        number = sum(each[0].startswith(f"{name}_lanes") for each in self._names.values())
        called = [f"{name}_lanes{number or ''}", f"{name}_rest{number or ''}"]
        while taken.intersection(called):
            called = [f"{each}_" for each in called]
        return tuple(called) if operand.loops.shape.is_split else (called[0],)


@dataclass(frozen=True)
class _Load:
    """How a lane loads its part of a matrix: a statement that fills registers, or their values."""

    type_name: str
    count: int
    key: tuple[str, ...]
    function: str | None = None

    def statements(self, *names: str) -> Iterator[cgen.Generable]:
        """Write the load; *names*: of the registers, and of those with what remains of factors."""
        name = names[0]
        if self.function is None:
            for n, each in enumerate(names):
                declared = cgen.Const(cgen.Value(self.type_name, f"{each}[{self.count}]"))
                own = self.key[n * self.count : (n + 1) * self.count]
                yield cgen.Initializer(declared, f"{{{', '.join(own)}}}")
        elif len(names) > 1:
            yield from (cgen.Value(self.type_name, f"{each}[{self.count}]") for each in names)
            yield cgen.Statement(f"{self.function}({', '.join((*names, *self.key))})")
        else:
            yield cgen.Value(self.type_name, f"{name}[{self.count}]")
            yield cgen.Statement(f"{self.function}({name}, {self.key[0]})")


@dataclass(frozen=True)
class _Operand:
    """A factor, of which each lane holds several elements."""

    writer: ExpressionWriter
    name: str
    factor: Expr
    fragment: Fragment
    loops: TensorLoops
    dtype: NumpyType

    @property
    def is_rows(self) -> bool:
        """Tell whether the factor has rows, instead of columns."""
        return self.name == "a"

    def at(self, depth: Expr, group: Expr, half: Expr = 0) -> Expr:
        """Return the factor of a term, of row ``group + 8*half`` or of column ``group``.

        The lane that uses it has other loop variables than the lane that loads it.
        """
        values = self.loops.at_factor(depth, group, half, is_rows=self.is_rows)
        lane = {"lane": self.loops.lane}
        return substitute(
            self.factor, {name: substitute(value, lane) for name, value in values.items()}
        )

    def element(self, number: int) -> Expr:
        """Return the element with a number among those that a lane holds."""
        return substitute(self.factor, self.loops.at_element(number, is_rows=self.is_rows))

    def load(self) -> _Load:
        """Return how a lane loads its elements."""
        count = self.fragment.count
        if not self.dtype.is_half:
            elements = [self.element(n) for n in range(count)]
            if self.loops.shape.is_split and (parts := self._parts(elements)):
                return _Load("unsigned", count, parts)
            values = tuple(map(self._text, elements))
            if self.dtype.itemsize == 8:
                return _Load("double", count, values)
            if self.loops.shape.is_split:
                self.writer.preamble.add(need := _split_need(count))
                return _Load("unsigned", count, values, need.key)
            self.writer.preamble.add(_ROUND)
            return _Load("unsigned", count, tuple(f"{_ROUND.key}({text})" for text in values))
        rows = self._rows()
        if rows is not None:
            text, is_transposed = rows
            self.writer.preamble.add(_load_need(count // 2, is_transposed=is_transposed))
            name = _load_name(count // 2, is_transposed=is_transposed)
            return _Load("unsigned", count // 2, (text,), name)
        pairs = tuple(self._pair(n) for n in range(0, count, 2))
        return _Load("unsigned", count // 2, pairs)

    def _parts(self, elements: Sequence[Expr]) -> tuple[str, ...] | None:
        """Write the first parts of elements, and then the second ones, if they are stored so."""
        found = [parts_of(self.writer.kernel, element) for element in elements]
        if None in found:
            return None
        parts = chain.from_iterable(zip(*filter(None, found), strict=True))
        return tuple(f"__float_as_uint({self._text(part)})" for part in parts)

    def _text(self, expr: Expr) -> str:
        return self.writer.converted(expr, self.dtype, PREC_NONE)

    # -- types of 16 bits ---------------------------------------------------------------------

    def _pair(self, number: int) -> str:
        """Write two consecutive elements along the depth, as one number."""
        first, second = self.element(number), self.element(number + 1)
        if self._is_aligned(lambda n: (first, second)[n], 2, _PAIR_BYTES):
            pointer = f"(unsigned const *) &{self.writer.located(first)}"
            return self.writer.loaded(assignee_name(first), pointer)
        self.writer.preamble.add(_pair_need(self.dtype, self.writer.type_name(self.dtype)))
        return f"kgen_pair({self._text(first)}, {self._text(second)})"

    def _rows(self) -> tuple[str, bool] | None:
        """Write the rows of 8x8 matrices in local memory, one for each lane, if they are there.

        Also tells whether these rows are columns of the fragment.
        """
        count = self.fragment.count // 2
        matrix = simplify(p.Remainder(p.FloorDiv(_LANE, _ROW), count))
        row = p.Remainder(_LANE, _ROW)
        half, depth = (
            (p.Remainder(matrix, 2), p.FloorDiv(matrix, 2)) if self.is_rows else (0, matrix)
        )
        depth = p.Product((_ROW, depth))
        across = simplify(p.Sum((depth, row)))

        def of_terms(n: int) -> Expr:
            return self.at(simplify(p.Sum((depth, n))), row, half)

        def of_lines(n: int) -> Expr:
            return self.at(across, n, half)

        lines = self.loops.at_row(0) if self.is_rows else self.loops.at_column(0)
        terms = frozenset({self.loops.depth})
        for elements, loops in ((of_terms, terms), (of_lines, frozenset(lines))):
            if self._is_aligned(elements, _ROW, _ROW_BYTES, AddressSpace.LOCAL, loops):
                text = self.writer.located(elements(0))
                return f"&{text}", elements is of_lines
        return None

    def _is_linear(self, loops: frozenset[str]) -> bool:
        """Tell whether the subscripts of the factor are sums of multiples of *loops* and others."""
        assert isinstance(self.factor, p.Subscript)
        terms = (term for each in self.factor.index_tuple for term in linear_form(each).terms)
        return all(
            isinstance(atom, p.Variable) or loops.isdisjoint(variable_names(atom))
            for _, atom in terms
        )

    def _is_aligned(
        self,
        element: Callable[[int], Expr],
        count: int,
        size: int,
        space: AddressSpace | None = None,
        loops: frozenset[str] | None = None,
    ) -> bool:
        """Tell whether elements are contiguous in memory, the first one aligned to *size* bytes.

        If subscripts are linear in the *loops* that number them, the first three determine all:
        columns are pairs.
        """
        first = element(0)
        if not isinstance(first, p.Subscript):
            return False
        assert isinstance(first.aggregate, p.Variable)
        array = self.writer.kernel.array_vars[first.aggregate.name]
        if space is not None and array.address_space != space:
            return False
        if not is_pointer(array) and (array.alignment or 1) % size:
            return False
        swizzle = getattr(array, "swizzle", None)
        is_kept = swizzle is None or swizzle.chunk % count == 0
        numbers = range(3 if loops is not None and is_kept and self._is_linear(loops) else count)
        accesses = self.writer.accesses
        indices: list[Expr] = []
        for n in numbers:
            indices.append(accesses.index_of_first(element(n), count))
            if simplify(minus(indices[n], indices[0])) != n:
                return False
        if unaligned_part(self.writer.kernel, indices[0], count) != 0:
            return False
        if is_pointer(array):
            known = self.writer.accesses.alignments
            known[array.name] = max(known.get(array.name, 1), size)
        return True


def _operands_of(step: Step) -> Iterator[_Operand]:
    """Return both factors of a step."""
    sides = (("a", step.factors.a, step.shape.a), ("b", step.factors.b, step.shape.b))
    for name, factor, fragment in sides:
        assert fragment is not None
        dtype = step.writer.typer(factor)
        yield _Operand(step.writer, name, factor, fragment, step.loops, dtype)


# -- helpers -----------------------------------------------------------------------------------


def _split_need(count: int) -> Need:
    """Return the function that splits float32 into the nearest numbers of TF32 and the rest.

    Of the rest, 12 bits at most, tensor cores ignore the last one. It keeps NaN, whose nearest
    number may be zero: the addition overflows if all bits are set.
    """
    numbers = range(count)
    return device_function(
        "void",
        f"kgen_split_{count}",
        [
            f"unsigned (&lanes)[{count}]",
            f"unsigned (&rest)[{count}]",
            *(f"float x{n}" for n in numbers),
        ],
        *(f"lanes[{n}] = (__float_as_uint(x{n}) + {HALF:#x}) & {KEPT:#x}" for n in numbers),
        *(f"rest[{n}] = __float_as_uint(x{n} - __uint_as_float(lanes[{n}]))" for n in numbers),
    )


def _load_name(count: int, *, is_transposed: bool) -> str:
    return f"kgen_load_{count}x8x8{'_transposed' if is_transposed else ''}"


def _load_need(count: int, *, is_transposed: bool) -> Need:
    """Return the function that loads 8x8 matrices from local memory, a row for each lane."""
    way = ".trans" if is_transposed else ""
    outs = ", ".join(f'"=r"(m[{n}])' for n in range(count))
    name = f"ldmatrix.sync.aligned.m8n8.x{count}{way}.shared.b16"
    return device_function(
        "void",
        _load_name(count, is_transposed=is_transposed),
        [f"unsigned (&m)[{count}]", "void const *row"],
        f'asm volatile("{name} {numbers_of(0, count)}, [%{count}];" : {outs} : '
        '"r"((unsigned) __cvta_generic_to_shared(row)) : "memory")',
    )


def _pair_need(dtype: NumpyType, type_name: str) -> Need:
    bits = "__half_as_ushort" if dtype.dtype.name == "float16" else "__bfloat16_as_ushort"
    need = device_function(
        "unsigned",
        "kgen_pair",
        [f"{type_name} low", f"{type_name} high"],
        f"return {bits}(low) | (unsigned) {bits}(high) << 16",
    )
    return Need(Rank.HELPER, f"kgen_pair {dtype.dtype.name}", need.text)


#: Rounds to the precision of tensor cores, to nearest, ties away from zero.
_ROUND: Final = device_function(
    "unsigned",
    "kgen_tf32",
    ["float x"],
    'unsigned bits; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x)); return bits',
)
