"""Tensor cores: the products that one instruction computes, and the elements that each lane holds.

The layouts are those of PTX's ``mma.sync`` and ``wgmma.mma_async``, from the tables of the PTX ISA,
"Matrix Fragments for mma" and "Register Fragments for wgmma", as functions of the lane and of the
number of an element among those that a lane holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from kgen.ir.affine import simplify
from kgen.ir.expr import Expr, substitute
from kgen.ir.language.expressions import parse
from kgen.ir.target import WARP_SIZE

__all__ = [
    "BLOCK",
    "GROUP",
    "PAIR",
    "ROUNDED",
    "ROW_GROUPS",
    "SPLIT",
    "TENSOR_SHAPES",
    "Fragment",
    "TensorShape",
    "find_shape",
]

#: Neighbouring rows of the sums belong to groups of lanes, so many.
ROW_GROUPS: Final = 8
#: The columns over which the lanes of a group are distributed.
BLOCK: Final = 8
#: Neighbouring columns that one lane of a group has.
PAIR: Final = 2
#: The lanes of a group, which have sums of the same rows.
GROUP: Final = BLOCK // PAIR
#: Factors of float32 as two numbers of TF32: the nearest one, and what remains.
SPLIT: Final = "3xtf32"
#: Types of tensor cores, in which factors of float32 are rounded or split.
ROUNDED: Final = ("tf32", SPLIT)
#: The lanes of a warpgroup.
_WARPGROUP: Final = 4 * WARP_SIZE


@dataclass(frozen=True)
class Fragment:
    """The part of a matrix that a lane holds: the row and the column of its element number ``e``.

    >>> from kgen.ir.expr import to_text
    >>> fragment = Fragment("lane // 4 + 8*(e // 2)", "2*(lane % 4) + e % 2", 4)
    >>> [to_text(expr) for expr in fragment.element(3)]
    ['lane // 4 + 8', '2*(lane % 4) + 1']
    """

    row: str
    column: str
    count: int

    def element(self, number: int) -> tuple[Expr, Expr]:
        """Return row and column of an element, as expressions of ``lane``."""
        return _at(self.row, number), _at(self.column, number)

    def at_lane_zero(self, number: int) -> tuple[int, int]:
        """Return where the first lane has an element: others have it elsewhere by one distance."""
        row, column = (substitute(part, {"lane": 0}) for part in self.element(number))
        return simplify(row), simplify(column)


@cache
def _at(text: str, number: int) -> Expr:
    return simplify(substitute(parse(text), {"e": number}))


@dataclass(frozen=True)
class TensorShape:
    """A product of matrices of *rows* x *depth* and *depth* x *columns* elements, added to sums.

    ``operands``: the type of the factors, by numpy's name, ``tf32``, or ``3xtf32`` for float32 as
    two numbers of ``tf32``; ``sums``: that of the sums.
    ``lanes``: of a warp, or of the four warps of a warpgroup. ``a`` and ``b``: what a lane holds of
    the factors; without, the instruction reads them from local memory, after a step has begun.
    ``c``: the sums that a lane holds. ``instruction``: PTX's name of it. ``capability``: the least
    compute capability.
    """

    name: str
    operands: str
    sums: str
    rows: int
    columns: int
    depth: int
    lanes: int
    a: Fragment | None
    b: Fragment | None
    c: Fragment
    instruction: str
    capability: int

    @property
    def is_of_warpgroup(self) -> bool:
        """Whether four warps compute it together, and go on meanwhile."""
        return self.lanes > WARP_SIZE

    @property
    def rows_of_lane(self) -> int:
        """The number of rows of which a lane holds sums."""
        return self.rows * WARP_SIZE // (self.lanes * ROW_GROUPS)

    @property
    def blocks(self) -> int:
        """The number of blocks of 8 columns, of each of which a lane holds sums."""
        return self.columns // BLOCK

    @property
    def held_as(self) -> str:
        """The type in which factors are in memory."""
        return "float32" if self.operands in ROUNDED else self.operands

    @property
    def is_split(self) -> bool:
        """Whether each factor becomes two numbers, and each product three."""
        return self.operands == SPLIT

    def __str__(self) -> str:
        return f"{self.name} of {self.operands}"


#: Types of 16 bits: pairs along the depth are in one register.
_HALF_A: Final = Fragment("lane // 4 + 8*(e // 2 % 2)", "2*(lane % 4) + e % 2 + 8*(e // 4)", 8)
_HALF_B: Final = Fragment("2*(lane % 4) + e % 2 + 8*(e // 2)", "lane // 4", 4)
#: Larger types: a lane has every fourth element along the depth.
_FULL_A: Final = Fragment("lane // 4 + 8*(e % 2)", "lane % 4 + 4*(e // 2)", 8)
_FULL_B: Final = Fragment("lane % 4 + 4*e", "lane // 4", 4)
_SMALL_A: Final = Fragment("lane // 4", "lane % 4", 1)

_PTX: Final = {
    "float16": "f32.f16.f16.f32",
    "bfloat16": "f32.bf16.bf16.f32",
    "tf32": "f32.tf32.tf32.f32",
    SPLIT: "f32.tf32.tf32.f32",
    "float64": "f64.f64.f64.f64",
}


def _shape(operands: str, rows: int, depth: int, capability: int) -> TensorShape:
    name = f"m{rows}n8k{depth}"
    a, b = (_HALF_A, _HALF_B) if operands in ("float16", "bfloat16") else (_FULL_A, _FULL_B)
    if rows == 8:
        a = _SMALL_A
    return TensorShape(
        name,
        operands,
        "float64" if operands == "float64" else "float32",
        rows,
        8,
        depth,
        WARP_SIZE,
        Fragment(a.row, a.column, rows * depth // WARP_SIZE),
        Fragment(b.row, b.column, 8 * depth // WARP_SIZE),
        Fragment("lane // 4 + 8*(e // 2)", "2*(lane % 4) + e % 2", rows // 4),
        f"mma.sync.aligned.{name}.row.col.{_PTX[operands]}",
        capability,
    )


def _of_warpgroup(operands: str, columns: int) -> TensorShape:
    depth = 8 if operands == "tf32" else 16
    name = f"m64n{columns}k{depth}"
    return TensorShape(
        name,
        operands,
        "float32",
        64,
        columns,
        depth,
        _WARPGROUP,
        None,
        None,
        Fragment(
            "16*(lane // 32) + lane // 4 % 8 + 8*(e // 2 % 2)",
            "8*(e // 4) + 2*(lane % 4) + e % 2",
            columns // 2,
        ),
        f"wgmma.mma_async.sync.aligned.{name}.{_PTX[operands]}".removesuffix(".f32"),
        90,
    )


#: All shapes, by name and by the type of the factors.
TENSOR_SHAPES: Final[Mapping[tuple[str, str], TensorShape]] = {
    (shape.name, shape.operands): shape
    for shape in (
        _shape("float16", 16, 16, 80),
        _shape("float16", 16, 8, 75),
        _shape("bfloat16", 16, 16, 80),
        _shape("bfloat16", 16, 8, 80),
        _shape("tf32", 16, 8, 80),
        _shape("tf32", 16, 4, 80),
        _shape(SPLIT, 16, 8, 80),
        _shape(SPLIT, 16, 4, 80),
        _shape("float64", 8, 4, 80),
        _shape("float64", 16, 4, 90),
        _shape("float64", 16, 8, 90),
        _shape("float64", 16, 16, 90),
        *(
            _of_warpgroup(operands, columns)
            for operands in ("float16", "bfloat16", "tf32")
            for columns in range(8, 257, 8)
        ),
    )
}


def find_shape(name: str, operands: str) -> TensorShape | None:
    """Return a shape by name and type of the factors, if there is one.

    >>> print(find_shape("m16n8k16", "bfloat16").instruction)
    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
    """
    return TENSOR_SHAPES.get((name, operands))
