"""Matrix products by tensor cores: PTX's ``mma.sync``, and the fragments of its operands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import cgen
import pymbolic.primitives as p
from pymbolic.mapper.stringifier import PREC_CALL, PREC_NONE

from kgen.analysis.alignment import unaligned_part
from kgen.analysis.products import TensorLoops
from kgen.ast.nodes import Run
from kgen.ir.affine import linear_form, simplify
from kgen.ir.expr import Expr, minus, substitute, variable_names
from kgen.ir.fragments import Fragment, TensorShape
from kgen.ir.types import AddressSpace, NumpyType
from kgen.targets.preamble import Need, Rank
from kgen.targets.writers.access import is_pointer
from kgen.targets.writers.expressions import ExpressionWriter
from kgen.targets.writers.tensor_steps import Step, device_function, numbers_of, step_of
from kgen.targets.writers.warpgroups import warpgroup_statements

__all__ = ["tensor_statements"]

#: The maximum alignment, in bytes, that callers can be asked for, to load pairs.
_PAIR_BYTES: Final = 4
#: The products of split factors whose parts alternate: three of the same sums follow each other.
_AT_ONCE: Final = 4
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
    lines: list[cgen.Generable] = []
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    loads: dict[object, _Load] = {}
    steps = [step_of(writer_of(run), run) for run in runs]
    if steps[0].shape.is_of_warpgroup:
        return warpgroup_statements(steps)
    at_once = _AT_ONCE if steps[0].shape.is_split else 1
    waiting: list[list[cgen.Generable]] = []
    for number, (run, step) in enumerate(zip(runs, steps, strict=True)):
        product = _Product(step)
        names = []
        for operand in (product.a, product.b):
            used = variable_names(operand.factor)
            of = operand.name, *((name, run.values[name]) for name in used if name in run.values)
            if of not in loads:
                loads[of] = operand.load()
            load = loads[of]
            if load.key not in known:
                known[load.key] = product.fresh(operand.name, known.values())
                lines += load.statements(*known[load.key])
            names.append(known[load.key])
        waiting.append(product.steps(names[0], names[1], f"kgen_sums{number}"))
        if len(waiting) == at_once or run is runs[-1]:
            lines += chain.from_iterable(zip(*waiting, strict=True))
            waiting = []
    return [cgen.Block(lines)], []


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
        if len(names) > 1:
            yield from (cgen.Value(self.type_name, f"{each}[{self.count}]") for each in names)
            yield cgen.Statement(f"{self.function}({', '.join((*names, *self.key))})")
        elif self.function is None:
            declared = cgen.Const(cgen.Value(self.type_name, f"{name}[{self.count}]"))
            yield cgen.Initializer(declared, f"{{{', '.join(self.key)}}}")
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
            values = tuple(self._text(self.element(n)) for n in range(count))
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

    def _text(self, expr: Expr) -> str:
        return self.writer.converted(expr, self.dtype, PREC_NONE)

    # -- types of 16 bits ---------------------------------------------------------------------

    def _pair(self, number: int) -> str:
        """Write two consecutive elements along the depth, as one number."""
        first, second = self.element(number), self.element(number + 1)
        if self._is_aligned(lambda n: (first, second)[n], 2, _PAIR_BYTES):
            return f"*(unsigned const *) &{self.writer.rec(first, PREC_CALL, self.dtype)}"
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
                text = self.writer.rec(elements(0), PREC_CALL, self.dtype)
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


class _Product:
    """One step: the sums of a fragment, and the factors."""

    def __init__(self, step: Step) -> None:
        self.of, self.writer, self.shape = step, step.writer, step.shape
        assert self.shape.a is not None
        assert self.shape.b is not None
        self.a = self._operand("a", step.factors.a, self.shape.a)
        self.b = self._operand("b", step.factors.b, self.shape.b)

    def _operand(self, name: str, factor: Expr, fragment: Fragment) -> _Operand:
        dtype = self.writer.typer(factor)
        return _Operand(self.writer, name, factor, fragment, self.of.loops, dtype)

    def fresh(self, name: str, known: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
        """Return names for a fragment: of its elements, and of what remains of split ones."""
        taken = self.writer.kernel.all_variable_names()
        number = sum(each[0].startswith(f"{name}_lanes") for each in known)
        called = [f"{name}_lanes{number or ''}", f"{name}_rest{number or ''}"]
        while taken.intersection(called):
            called = [f"{each}_" for each in called]
        return tuple(called) if self.shape.is_split else (called[0],)

    def steps(self, a: tuple[str, ...], b: tuple[str, ...], name: str) -> list[cgen.Generable]:
        """Write the instruction, or those of the parts of split factors, the smallest ones first.

        The product of what remains of both is less than the error of the others. Tensor cores
        round sums towards zero, whose errors add up; so only these three are added there, in
        variables of some *name*.
        """
        need = _step_need(self.shape)
        self.writer.preamble.add(need)
        sums = self.of.sums()
        if not self.shape.is_split:
            return [cgen.Statement(f"{need.key}({', '.join([*sums, a[0], b[0]])})")]
        count = len(sums)
        self.writer.preamble.add(add := _add_need(count))
        own = [f"{name}[{n}]" for n in range(count)]
        parts = ((a[1], b[0]), (a[0], b[1]), (a[0], b[0]))
        return [
            cgen.Initializer(cgen.Value("float", f"{name}[{count}]"), "{0.0f}"),
            *(cgen.Statement(f"{need.key}({', '.join([*own, *part])})") for part in parts),
            cgen.Statement(f"{add.key}({', '.join([*sums, name])})"),
        ]


# -- helpers -----------------------------------------------------------------------------------


def _step_need(shape: TensorShape) -> Need:
    """Return the function of one instruction: sums by reference, factors as arrays."""
    is_double = shape.operands == "float64"
    kind, letter = ("double", "d") if is_double else ("unsigned", "r")
    halves = 2 if shape.operands in ("float16", "bfloat16") else 1
    assert shape.a is not None
    assert shape.b is not None
    sums, a, b = shape.c.count, shape.a.count // halves, shape.b.count // halves
    result = "double" if is_double else "float"
    outs = ", ".join(f'"+{"d" if is_double else "f"}"(c{n})' for n in range(sums))
    ins = ", ".join(
        f'"{letter}"({name}[{n}])' for name, count in (("a", a), ("b", b)) for n in range(count)
    )
    operands = ", ".join(
        (numbers_of(0, sums), numbers_of(sums, a), numbers_of(sums + a, b), numbers_of(0, sums))
    )
    return device_function(
        "void",
        f"kgen_{shape.name}_{'tf32' if shape.is_split else shape.operands}",
        [
            *(f"{result} &c{n}" for n in range(sums)),
            f"{kind} const (&a)[{a}]",
            f"{kind} const (&b)[{b}]",
        ],
        f'asm volatile("{shape.instruction} {operands};" : {outs} : {ins})',
    )


def _add_need(count: int) -> Need:
    """Return the function that adds the sums of a step, rounded to nearest."""
    return device_function(
        "void",
        "kgen_add_sums",
        [*(f"float &c{n}" for n in range(count)), f"float const (&sums)[{count}]"],
        *(f"c{n} += sums[{n}]" for n in range(count)),
    )


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
        *(f"lanes[{n}] = (__float_as_uint(x{n}) + 0x1000) & 0xffffe000" for n in numbers),
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
