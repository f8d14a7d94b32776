"""Sums of products that warps compute with tensor cores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from pytools.tag import Tag

from kgen.analysis.infer import infer_types
from kgen.analysis.products import Factors, factors_of, terms_over
from kgen.analysis.typing import ExpressionTyper
from kgen.errors import KgenError, TransformError
from kgen.ir.expr import Expr, to_text, variable_names
from kgen.ir.fragments import (
    BLOCK,
    PAIR,
    ROUNDED,
    ROW_GROUPS,
    SPLIT,
    TENSOR_SHAPES,
    TensorShape,
)
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import Set, bound_dim, free_dim
from kgen.ir.tags import (
    FragmentTag,
    InameImplementationTag,
    LocalInameTag,
    TensorTag,
    UnrolledIlpTag,
)
from kgen.transforms.expressions.rules import expand_subst
from kgen.transforms.loops.rename import rename_iname
from kgen.transforms.loops.split import join_inames, split_iname
from kgen.transforms.loops.tag import add_tags
from kgen.transforms.select import (
    new_names,
    require_inames,
    require_instruction,
    require_new_iname,
    split_names,
    transform,
)

__all__ = ["tensorize"]


@dataclass(frozen=True)
class _Loops:
    """The loops over rows, columns and terms; *held*: those over rows that lanes already have."""

    row: str
    column: str
    depth: str
    held: tuple[str, ...] = ()

    @property
    def new(self) -> tuple[str, ...]:
        """The loops to be distributed."""
        return (self.column, self.depth) if self.held else (self.row, self.column, self.depth)

    @property
    def rows(self) -> tuple[str, ...]:
        """The loops that determine the row."""
        return self.held or (self.row,)


@transform
def tensorize(
    kernel: LoopKernel,
    insn: str,
    inames: str | Iterable[str],
    shape: str = "m16n8k16",
    *,
    precision: str | None = None,
    lane: str | Iterable[str] | None = None,
) -> LoopKernel:
    """Make the lanes of a warp compute a small matrix product together, with tensor cores.

    On CUDA, the loops *inames* around a sum of products become one ``mma.sync`` instruction: lanes
    hold the elements of both factors and of the sums in the layout of the PTX ISA. First split the
    loops to the lengths of the shape. Enclosing loops tagged ``ilp`` are tiles of a warp,
    and share their loads.

    :arg insn: an instruction that computes ``c[i, j] = sum(k, a[i, k]*b[k, j])``, or one that adds
        ``a[i, k]*b[k, j]`` to a variable. Factors may be any expressions, in either order
    :arg inames: the loops over rows, over columns, and over terms
    :arg shape: ``m16n8k16`` or ``m16n8k8`` for factors of float16 or bfloat16; ``m8n8k4``, and with
        compute capability 9.0 ``m16n8k4``, ``m16n8k8`` or ``m16n8k16``, for float64; ``m16n8k8``
        or ``m16n8k4`` for float32 with a *precision*. With compute capability 9.0
        ``m64n8k16``, ``m64n16k16`` ... ``m64n256k16`` for float16 or bfloat16, and ``m64n8k8`` ...
        ``m64n256k8`` for float32 with ``precision="tf32"``: see below
    :arg precision: ``"tf32"`` rounds float32 to 10 fraction bits; ``"3xtf32"`` computes three
        products instead of one, which are about as accurate as those of float32. Neither is ever
        the default
    :arg lane: the name of the loop over the lanes, ``lane`` by default; or two names, as in
        ``"group, pair"``, for two loops: see below

    ::

        for i, j  {0<=i<16, 0<=j<8}           for lane, i_reg, j_reg   {lane: l.0, 0<=lane<32}
          c[i,j] = sum(k, a[i,k]*b[k,j])  =>    c[lane//4 + i_reg*8, (lane%4)*2 + j_reg] = sum(...)

    Lanes are work-items on ``l.0``, which must have 32 of them: put warps on ``l.1`` and ``l.2``.
    Sums are in float32, those of float64 in float64. Tensor cores do not round products, and add
    the terms of a step in an order that NVIDIA does not specify. Other targets run the same loops
    as plain code, in the original order.

    With ``precision="3xtf32"`` each factor is the sum of two numbers of 10 fraction bits, such as
    ``a_lanes + a_rest``, and a product ``a_rest*b_lanes + a_lanes*b_rest + a_lanes*b_lanes``, whose
    relative error is 2**-21 at most. Infinite factors give NaN.

    With two names for lanes, the first loop is over groups of four lanes, which hold sums of the
    same rows, on ``l.1``; the second is over the lanes of a group, on ``l.0``. Then reductions over
    columns are over ``l.0``, and another product of the same rows can follow, whose first
    factor is the result of the first product: name its row loop as in the first call::

        for i, j  {0<=i<16, 0<=j<8}         for group, i_reg, pair, j_reg  {group: l.1, pair: l.0}
          c[i,j] = sum(k, ...)          =>    c[group + i_reg*8, pair*2 + j_reg] = sum(k, ...)

    Shapes ``m64nNk16`` and ``m64nNk8``, N a multiple of 8 up to 256, are ``wgmma`` instructions of
    a warpgroup: four warps, the 128 lanes of ``l.0``. The instructions read both factors from local
    memory, from temporaries with ``swizzle:128`` that are aligned to 1024 bytes, in runs of 64
    terms of a line, or of 64 lines of a term; for float32 in runs of 32 terms, whose last bits they
    ignore. They run asynchronously, up to the next barrier.

    Raises :class:`TransformError` for other lengths of loops, for types without a shape, and for
    an instruction that is not a sum of products of a row factor and a column factor.

    >>> import kgen as lp
    >>> knl = lp.make_kernel(
    ...     "{ [i, j, k]: 0<=i<16 and 0<=j<8 and 0<=k<16 }", "c[i, j] = sum(k, a[i, k]*b[k, j])",
    ...     [lp.GlobalArg("a, b", "float16"), lp.GlobalArg("c", "float32"), ...],
    ...     target=lp.CudaTarget())
    >>> print(tensorize(knl, "insn", "i, j, k").default_entrypoint.instructions[0])
    c[lane // 4 + i_reg*8, j_reg + (lane % 4)*2] = reduce(sum, [k], a[lane // 4 + i_reg*8, k]*b[k, \
j_reg + (lane % 4)*2])  {id=insn}
    """
    loops = _three(kernel, inames)
    found = _find_shape(kernel, insn, loops, shape, precision)
    _require_box(kernel, insn, loops, found)
    _require_untagged(kernel, loops)
    return _with_lanes(kernel, loops, found, _names_of_lanes(kernel, loops, lane))


def _three(kernel: LoopKernel, inames: str | Iterable[str]) -> _Loops:
    """Read the loops; that over rows may have been distributed by an earlier call."""
    names = split_names(inames)
    held = _held_rows(kernel, names[0]) if names else ()
    require_inames(kernel, names[1:] if held else names)
    if len(names) != 3 or len(set(names)) != 3:
        raise TransformError(
            f"tensorize takes three loops, over rows, columns and terms, not {', '.join(names)}",
            hint="tensorize(kernel, 'insn', 'i, j, k')",
        )
    return _Loops(*names, held)


def _held_rows(kernel: LoopKernel, row: str) -> tuple[str, ...]:
    """Return the loops into which an earlier call distributed a loop over rows."""
    if row in kernel.inames:
        return ()
    return tuple(
        name for name in kernel.inames if _parts_of(kernel, name) & {("group", row), ("row", row)}
    )


def _parts_of(kernel: LoopKernel, name: str) -> set[tuple[str, str | None]]:
    return {(tag.of, tag.part_of) for tag in kernel.iname_tags_of_type(name, FragmentTag)}


def _names_of_lanes(
    kernel: LoopKernel, loops: _Loops, lane: str | Iterable[str] | None
) -> tuple[str, ...]:
    """Return the names of the new loops over lanes: all, or only pairs if groups exist already."""
    if lane is None:
        names = new_names(kernel)
        return (str(names("pair" if loops.held else "lane")),)
    found = split_names(lane)
    if len(found) not in ((1,) if loops.held else (1, 2)) or len(set(found)) < len(found):
        wanted = "one name: the groups exist already" if loops.held else "one name, or two"
        raise TransformError(
            f"the loops over lanes cannot be called '{', '.join(found)}'",
            because=f"tensorize takes {wanted}",
            hint="lane='pair'" if loops.held else "lane='group, pair'",
        )
    return tuple(require_new_iname(kernel, name) for name in found)


def _find_shape(
    kernel: LoopKernel, insn_id: str, loops: _Loops, name: str, precision: str | None
) -> TensorShape:
    """Return the shape of a name that takes the factors of an instruction."""
    if precision not in (None, *ROUNDED):
        raise TransformError(
            f"there is no precision '{precision}' of tensor cores",
            hint="precision='tf32' or '3xtf32', for factors of float32; otherwise leave it out",
        )
    shapes = [shape for shape in TENSOR_SHAPES.values() if shape.name == name]
    if not shapes:
        known = ", ".join(dict.fromkeys(text.partition(" ")[0] for text in _known_shapes()))
        raise TransformError(f"tensor cores have no shape '{name}'", hint=f"choose one of {known}")
    require_instruction(kernel, insn_id)
    known_types = infer_types(expand_subst(kernel.silencing("write_race*")), complete=False)
    insn = known_types.id_to_insn[insn_id]
    terms = tuple(terms_over(insn, loops.depth))
    if len(terms) != 1:
        raise _no_product(insn, f"it has {len(terms) or 'no'} sums over '{loops.depth}'")
    wanted = [s for s in shapes if precision == (s.operands if s.operands in ROUNDED else None)]
    if precision == SPLIT and shapes[0].is_of_warpgroup:
        raise _no_product(
            insn,
            f"warpgroups, as of {name}, read factors from local memory as they are, but "
            "precision='3xtf32' splits them in registers",
            "choose m16n8k8, whose factors are in registers",
        )
    try:
        for shape in wanted:
            factors = factors_of(terms[0], shape, ExpressionTyper(known_types))
            if factors is not None:
                _check_factors(insn, factors, loops)
                _reject_conditions(insn)
                _reject_sums_as_factors(insn, factors, loops)
                return shape
    except KgenError as error:
        if isinstance(error, TransformError):
            raise
        raise _no_product(insn, "the types of the factors are not known", _TYPES) from error
    raise _no_product(insn, *_why_no_factors(terms[0], shapes, wanted))


_TYPES: Final = "add_dtypes(kernel, {'a': 'float16', 'b': 'float16'})"


def _why_no_factors(
    term: Expr, shapes: list[TensorShape], wanted: list[TensorShape]
) -> tuple[str, str]:
    name = shapes[0].name
    kinds = " or ".join(shape.held_as for shape in wanted) or "no type"
    because = f"'{to_text(term)}' is not a product of two numbers of {kinds}, as {name} requires"
    hint = (
        f"declare the factors so, or cast them; the known shapes are {', '.join(_known_shapes())}"
    )
    return because, (
        f"{hint}; factors of float32 need precision='tf32', which rounds them, or '3xtf32', which "
        "splits them"
    )


def _known_shapes() -> Iterator[str]:
    """Yield the supported shapes; those that differ only in the number of columns are merged."""
    for shape in TENSOR_SHAPES.values():
        if shape.is_of_warpgroup and shape.columns == BLOCK:
            yield f"{shape.name}...m64n256k{shape.depth} of {shape.operands}"
        elif not shape.is_of_warpgroup:
            yield str(shape)


def _check_factors(insn: InstructionBase, factors: Factors, loops: _Loops) -> None:
    """Reject factors unless one depends on the row only, and the other one on the column only."""
    names = dict.fromkeys(loops.rows, loops.row) | {n: n for n in (loops.column, loops.depth)}
    uses = [{names[n] for n in variable_names(part) if n in names} for part in factors]
    if sorted(map(sorted, uses)) != sorted(
        (sorted((loops.row, loops.depth)), sorted((loops.column, loops.depth)))
    ):
        shown = " and ".join(
            f"'{to_text(part)}' uses {', '.join(sorted(used)) or 'none'} of them"
            for part, used in zip(factors, uses, strict=True)
        )
        raise _no_product(
            insn,
            f"of the loops '{loops.row}', '{loops.column}' and '{loops.depth}', {shown}",
            "let one factor use the loops over rows and terms, and the other one those over "
            "terms and columns",
        )


def _reject_sums_as_factors(insn: InstructionBase, factors: Factors, loops: _Loops) -> None:
    """Reject an instruction whose accumulator is also a factor."""
    names = set(insn.assignee_var_names()).intersection(variable_names(*factors))
    if names and loops.depth in insn.within_inames:
        name = min(names)
        raise _no_product(
            insn,
            f"it reads factors from '{name}', which is also its accumulator, but a step reads "
            "all factors before it adds any product",
            f"accumulate in a temporary, and store that to '{name}' after the loops",
        )


def _reject_conditions(insn: InstructionBase) -> None:
    """Reject an instruction that only some lanes may run, or some steps of a sum."""
    for condition in insn.predicates:
        raise _no_product(
            insn,
            f"it has the condition '{to_text(condition)}', but all lanes compute a product "
            "together",
            "accumulate unconditionally in a temporary, and store it under the condition",
        )


def _no_product(insn: InstructionBase, because: str, hint: str | None = None) -> TransformError:
    return TransformError(
        f"tensor cores cannot compute '{insn.id}'",
        where=f"instruction '{insn}'",
        because=because,
        hint=hint or "write it as c[i, j] = sum(k, a[i, k]*b[k, j]), or x = x + a[i, k]*b[k, j]",
    )


def _require_box(kernel: LoopKernel, insn_id: str, loops: _Loops, shape: TensorShape) -> None:
    """Reject loops that do not have all iterations of a shape, independently of other loops."""
    insn = kernel.id_to_insn[insn_id]
    around = insn.within_inames | insn.reduction_inames()
    _require_held(kernel, insn, loops, shape)
    sizes = {loops.row: shape.rows, loops.column: shape.columns, loops.depth: shape.depth}
    lengths = {name: sizes[name] for name in loops.new}
    for name, length in lengths.items():
        if name not in around:
            raise _no_product(insn, f"it is not inside the loop '{name}'")
        bounds = kernel.get_iname_bounds(name)
        if (bounds.lower, bounds.extent) != (0, length):
            raise _wrong_length(insn, name, shape, length, str(bounds.extent))
    names = kernel.in_order(around)
    domain = kernel.domain_of(names).intersect_params(kernel.assumptions)
    for name, length in lengths.items():
        if not _is_whole(domain, name, length):
            raise _wrong_length(insn, name, shape, length, "fewer in some cases")


def _require_held(
    kernel: LoopKernel, insn: InstructionBase, loops: _Loops, shape: TensorShape
) -> None:
    """Reject rows that an earlier call distributed in another way than the shape does."""
    parts = {part: name for name in loops.held for part, _ in _parts_of(kernel, name)}
    wanted = {"group": shape.lanes // (BLOCK // PAIR), "row": shape.rows_of_lane}
    for part, length in wanted.items() if loops.held else ():
        if length == 1 and part not in parts:
            continue
        if part not in parts or kernel.get_iname_bounds(parts[part]).extent != length:
            raise _no_product(
                insn,
                f"lanes have rows of '{loops.row}' of another shape than {shape.name}",
                "choose shapes with the same number of rows for products of the same rows",
            )
        if parts[part] not in insn.within_inames:
            raise _no_product(insn, f"it is not inside the loop '{parts[part]}'")


def _is_whole(domain: Set, name: str, length: int) -> bool:
    """Tell whether a loop has either all of its iterations or none."""
    box = bound_dim(free_dim(domain, name), name, 0, length - 1)
    return bool(box.is_subset(domain))


def _wrong_length(
    insn: InstructionBase, name: str, shape: TensorShape, length: int, found: str
) -> TransformError:
    return _no_product(
        insn,
        f"the loop '{name}' must have {length} iterations, from 0, for {shape.name}, but has "
        f"{found}",
        f"split_iname(kernel, '{name}', {length}), and state that the size is a multiple: "
        f"assume(kernel, 'n mod {length} = 0'), or pad the arrays",
    )


def _require_untagged(kernel: LoopKernel, loops: _Loops) -> None:
    for name in loops.new:
        for tag in kernel.iname_tags_of_type(name, InameImplementationTag):
            raise TransformError(
                f"the loop '{name}' is tagged '{tag}', and cannot become lanes of tensor cores",
                hint=f"untag_inames(kernel, '{name}', ...), or omit the tag",
            )


def _with_lanes(
    kernel: LoopKernel, loops: _Loops, shape: TensorShape, lanes: tuple[str, ...]
) -> LoopKernel:
    """Distribute rows and columns over lanes as the layout of the sums says."""
    tags: dict[str, list[Tag | None]] = {loops.depth: [TensorTag(shape.name, shape.operands)]}
    rows: tuple[str, ...] = ()
    if not loops.held:
        kernel, rows, of_rows = _with_rows(kernel, loops.row, shape)
        tags |= of_rows
    kernel, pair, of_columns = _with_columns(kernel, loops.column, shape)
    tags |= of_columns
    if not loops.held and len(lanes) == 1:
        kernel = _joined(kernel, (*rows, pair), lanes[0])
        tags[lanes[0]] = [LocalInameTag(0), FragmentTag("lane")]
        return add_tags(kernel, tags)
    for name in lanes[:-1]:
        kernel = _joined(kernel, rows, name)
        tags[name] = [LocalInameTag(1), FragmentTag("group", loops.row)]
    kernel = _joined(kernel, (pair,), lanes[-1])
    tags[lanes[-1]] = [LocalInameTag(0), FragmentTag("pair", loops.column)]
    return add_tags(kernel, tags)


def _joined(kernel: LoopKernel, names: tuple[str, ...], new: str) -> LoopKernel:
    if len(names) > 1:
        return join_inames(kernel, names, new)
    return rename_iname(kernel, names[0], new)


#: A kernel, its loops that are distributed over lanes, and tags of others.
_Split: TypeAlias = tuple[LoopKernel, tuple[str, ...], dict[str, list[Tag | None]]]


def _with_rows(kernel: LoopKernel, row: str, shape: TensorShape) -> _Split:
    """Split the loop over rows into those of warps, of groups of lanes, and those of a lane."""
    names = new_names(kernel)
    of_lanes, rows = [], row
    if shape.is_of_warpgroup:
        of_lanes = [warp := str(names(f"{row}_warp"))]
        rows = str(names(f"{row}_rows"))
        length = shape.rows_of_lane * ROW_GROUPS
        kernel = split_iname(kernel, row, length, outer_iname=warp, inner_iname=rows)
    if shape.rows_of_lane == 1:
        return kernel, (*of_lanes, rows), {}
    group, own = str(names(f"{row}_group")), f"{row}_reg"
    kernel = split_iname(kernel, rows, ROW_GROUPS, outer_iname=own, inner_iname=group)
    return kernel, (*of_lanes, group), {own: [UnrolledIlpTag(), FragmentTag("row", row)]}


def _with_columns(
    kernel: LoopKernel, column: str, shape: TensorShape
) -> tuple[LoopKernel, str, dict[str, list[Tag | None]]]:
    """Split the loop over columns into blocks, the lanes of a group, and those of a lane."""
    names = new_names(kernel)
    own, columns = f"{column}_reg", column
    tags: dict[str, list[Tag | None]] = {own: [UnrolledIlpTag(), FragmentTag("column")]}
    if shape.blocks > 1:
        block, columns = str(names(f"{column}_block")), str(names(f"{column}_columns"))
        kernel = split_iname(kernel, column, BLOCK, outer_iname=block, inner_iname=columns)
        tags[block] = [UnrolledIlpTag(), FragmentTag("block")]
    pair = str(names(f"{column}_pair"))
    kernel = split_iname(kernel, columns, PAIR, outer_iname=pair, inner_iname=own)
    return kernel, pair, tags
