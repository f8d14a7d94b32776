"""Products by warpgroups, PTX's ``wgmma.mma_async``, which reads both factors from local memory.

They run asynchronously until their work-items wait: before any use of the sums, and before the next
barrier. Stores to elements of the factors come after that, or are proved to store elsewhere.

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout" and "Matrix Descriptor".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import cgen
import numpy as np
import pymbolic.primitives as p
from pymbolic.mapper.evaluator import evaluate

from kgen.analysis.alignment import unaligned_part
from kgen.errors import CodegenError
from kgen.ir.affine import simplify
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import Expr, minus, substitute, to_text, variable_names
from kgen.ir.fragments import BLOCK, ROW_GROUPS, TensorShape
from kgen.ir.layout import Swizzle
from kgen.ir.types import AddressSpace
from kgen.targets.preamble import Need
from kgen.targets.writers.tensor_steps import Step, device_function, numbers_of

__all__ = ["finish_previous", "warpgroup_statements"]

#: The swizzle that tensor cores support: the bytes of its rows, and of the chunks of these.
_ROW_BYTES: Final = 128
_CHUNK_BYTES: Final = 16
#: The rows that a swizzle permutes together, and their bytes.
_ROWS: Final = 8
_PERIOD: Final = 1024
#: Variables for the row or column of a factor, and for its term: users have no such names.
_LINE: Final = p.Variable(".line")
_TERM: Final = p.Variable(".term")


def warpgroup_statements(
    steps: Sequence[Step],
) -> tuple[list[cgen.Generable], list[cgen.Generable]]:
    """Write asynchronous steps, and the wait for their sums.

    ::

        c[i_reg, j_block, j_reg] += a[...]*b[...]   =>   kgen_see_stores();
                                                         kgen_begin_2(c[0], c[1], ...);
                                                         kgen_m64n8k16_float16(c[0], ..., d, e);
                                                         kgen_commit();

                                                         kgen_finish_2(c[0], c[1], ...);
    """
    preamble = steps[0].writer.preamble
    sums = dict.fromkeys(step.sums for step in steps)
    begin, finish = (_of_sums(name, len(steps[0].sums)) for name in _AROUND)
    preamble.add(begin, finish, _COMMIT, _SEE_STORES)
    begun = [_call(_SEE_STORES, ()), *(_call(begin, values) for values in sums)]
    begun += [*map(_step, steps), _call(_COMMIT, ())]
    return begun, [_call(finish, values) for values in sums]


def finish_previous() -> tuple[Need, cgen.Generable]:
    """Write the wait for all steps except those of the last group."""
    return _FINISH_PREVIOUS, _call(_FINISH_PREVIOUS, ())


def _call(need: Need, arguments: Iterable[str]) -> cgen.Generable:
    return cgen.Statement(f"{need.key}({', '.join(arguments)})")


def _step(step: Step) -> cgen.Generable:
    a, b = (_Operand(step, name) for name in ("a", "b"))
    need = _step_need(step.shape, *(each.layout().is_by_terms for each in (a, b)))
    step.writer.preamble.add(need, _DESCRIPTOR)
    return _call(need, (*step.sums, a.descriptor(), b.descriptor()))


@dataclass(frozen=True)
class _Layout:
    """The layout of a factor: bytes between rows for other lines of a term, and between 8 rows.

    ``is_by_terms``: the rows are terms, of which all lines are contiguous.
    """

    is_by_terms: bool
    leading: int
    stride: int


@dataclass(frozen=True)
class _Operand:
    """A factor in local memory: its lines are the rows of ``a``, or the columns of ``b``."""

    step: Step
    name: str

    @property
    def factor(self) -> Expr:
        return self.step.factors.a if self.name == "a" else self.step.factors.b

    @property
    def size(self) -> int:
        """The bytes of an element."""
        return 4 if self.step.shape.operands == "tf32" else 2

    @property
    def swizzle(self) -> Swizzle:
        """The swizzle that tensor cores support, in elements."""
        return Swizzle(_ROW_BYTES // self.size, _CHUNK_BYTES // self.size)

    @property
    def lines(self) -> int:
        return self.step.shape.rows if self.name == "a" else self.step.shape.columns

    def at(self, line: Expr, term: Expr) -> Any:
        """Return the element of a line and a term."""
        loops = self.step.loops
        values: dict[str, Expr] = {loops.depth: term}
        inside = p.Remainder(line, BLOCK)
        if self.name == "a":
            assert loops.row is not None
            rows = self.step.shape.rows_of_lane * ROW_GROUPS
            warp = p.Product((ROW_GROUPS, p.FloorDiv(line, rows)))
            values |= loops.at_row(p.Sum((warp, inside)))
            values[loops.row] = p.FloorDiv(p.Remainder(line, rows), ROW_GROUPS)
        else:
            values |= loops.at_column(inside)
            if loops.block is not None:
                values[loops.block] = p.FloorDiv(line, BLOCK)
        return substitute(self.factor, values)

    def array(self) -> TemporaryVariable:
        """Return the array of the factor, if tensor cores can read it."""
        factor = self.factor
        found = None
        if isinstance(factor, p.Subscript) and isinstance(factor.aggregate, p.Variable):
            found = self.step.writer.kernel.temporary_variables.get(factor.aggregate.name)
        if found is None or found.address_space != AddressSpace.LOCAL:
            raise self._refuse(
                f"'{to_text(factor)}' is not an element of a temporary in local memory",
                "fetch it with add_prefetch, for all work-items of a group",
            )
        if found.swizzle != self.swizzle:
            raise self._refuse(
                f"'{found.name}' does not have the layout that tensor cores read, rows of 128 "
                "bytes with permuted chunks of 16 bytes",
                f"tag_array_axes(kernel, '{found.name}', 'swizzle:128')",
            )
        if (found.alignment or 1) % _PERIOD:
            raise self._refuse(
                f"'{found.name}' is not aligned to {_PERIOD} bytes",
                f"align_temporaries(kernel, '{found.name}', {_PERIOD})",
            )
        return found

    def layout(self) -> _Layout:
        """Return the layout of lines and terms; reject those that no descriptor can express."""
        name = self.array().name
        number = self.step.writer.accesses.number
        steps = simplify(minus(number(self.at(_LINE, _TERM)), number(self.at(0, 0))))
        if set(variable_names(steps)) <= {_LINE.name, _TERM.name}:
            line, term = np.indices((self.lines, self.step.shape.depth))
            found = np.broadcast_to(evaluate(steps, {".line": line, ".term": term}), line.shape)
            for layout in self._layouts(found):
                if np.array_equal(found, self._places(layout, line, term)) and self._fits(layout):
                    return layout
        row = self.swizzle.row
        or_lines = "" if self.size > 2 else ", or the lines of a term,"
        raise self._refuse(
            f"rows of {row} adjacent elements of '{name}' are not the terms of a line{or_lines} "
            f"of '{to_text(self.factor)}', {_ROWS} such rows in succession",
            f"fetch {row} terms of a line, or split_array_axis(kernel, '{name}', ..., {row}) and "
            "tag_array_axes such that the parts are outermost",
        )

    def _fits(self, layout: _Layout) -> bool:
        """Tell whether the first element is in the first of 8 rows, and no row ends too early."""
        writer = self.step.writer
        first = unaligned_part(
            writer.kernel, writer.accesses.number(self.at(0, 0)), _PERIOD // self.size
        )
        length = self.lines if layout.is_by_terms else self.step.shape.depth
        if not isinstance(first, int) or first % self.swizzle.chunk:
            return False
        return first == 0 or first + length <= self.swizzle.row

    def _layouts(self, found: Any) -> Iterator[_Layout]:
        """Yield the layouts that a factor may have, given the places of some elements."""
        row, size = self.swizzle.row, self.size
        yield _Layout(False, 16, int(found[_ROWS, 0]) * size if self.lines > _ROWS else 16)
        if size == 2:  # instructions for larger types support only the other layout
            leading = int(found[row, 0]) * size if self.lines > row else 16
            yield _Layout(True, leading, int(found[0, _ROWS]) * size)

    def _places(self, layout: _Layout, line: Any, term: Any) -> Any:
        """Return the linear indices of a layout, without the swizzle."""
        row = self.swizzle.row
        leading, stride = layout.leading // self.size, layout.stride // self.size
        if layout.is_by_terms:
            return line // row * leading + line % row + term // _ROWS * stride + term % _ROWS * row
        return line // _ROWS * stride + line % _ROWS * row + term

    def descriptor(self) -> str:
        """Write the descriptor of the matrix."""
        layout, accesses = self.layout(), self.step.writer.accesses
        first = accesses.numbered(self.array().name, accesses.number(self.at(0, 0)))
        return f"{_DESCRIPTOR.key}(&{first}, {layout.leading}, {layout.stride})"

    def _refuse(self, because: str, hint: str) -> CodegenError:
        return CodegenError(
            f"tensor cores cannot compute '{self.step.insn.id}'",
            where=f"instruction '{self.step.insn}'",
            because=because,
            hint=hint,
        )


# -- helpers -----------------------------------------------------------------------------------


def _step_need(shape: TensorShape, a_by_terms: bool, b_by_terms: bool) -> Need:
    """Return the function of one instruction: sums by reference, and two descriptors."""
    sums = shape.c.count
    ways = "".join(f"_{name}" for name, by in (("a", a_by_terms), ("b", b_by_terms)) if by)
    outs = ", ".join(f'"+f"(c{n})' for n in range(sums))
    flags = "p, 1, 1"
    if shape.operands != "tf32":
        flags += f", {int(a_by_terms)}, {int(b_by_terms)}"
    text = (
        f"{{ .reg .pred p; setp.ne.b32 p, 1, 0; {shape.instruction} {numbers_of(0, sums)}, "
        f"%{sums}, %{sums + 1}, {flags}; }}"
    )
    return device_function(
        "void",
        f"kgen_{shape.name}_{shape.operands}{ways}",
        [*_sums(sums), "unsigned long long a", "unsigned long long b"],
        f'asm volatile("{text}" : {outs} : "l"(a), "l"(b))',
    )


def _sums(count: int) -> list[str]:
    return [f"float &c{n}" for n in range(count)]


#: The instructions that order the registers of sums before products, and that wait for products.
_AROUND: Final = {
    "begin": "wgmma.fence.sync.aligned",
    "finish": "wgmma.wait_group.sync.aligned 0",
}


def _of_sums(name: str, count: int) -> Need:
    """Return a function around products, across which the compiler moves no sums."""
    outs = ", ".join(f'"+f"(c{n})' for n in range(count))
    body = f'asm volatile("{_AROUND[name]};" : {outs} : : "memory")'
    return device_function("void", f"kgen_{name}_{count}", _sums(count), body)


_COMMIT: Final = device_function(
    "void", "kgen_commit", [], 'asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory")'
)
_FINISH_PREVIOUS: Final = device_function(
    "void",
    "kgen_finish_previous",
    [],
    'asm volatile("wgmma.wait_group.sync.aligned 1;" : : : "memory")',
)
#: Makes earlier stores visible to tensor cores, also those of others before a barrier.
_SEE_STORES: Final = device_function(
    "void",
    "kgen_see_stores",
    [],
    'asm volatile("fence.proxy.async.shared::cta;" : : : "memory")',
)
_DESCRIPTOR: Final = device_function(
    "unsigned long long",
    "kgen_matrix",
    ["void const *first", "unsigned long long leading", "unsigned long long stride"],
    "return (__cvta_generic_to_shared(first) & 0x3ffff) >> 4 | (leading >> 4) << 16 | "
    "(stride >> 4) << 32 | 1ull << 62",
)
