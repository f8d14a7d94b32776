"""Sums of products that warps compute with tensor cores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from pytools.tag import Tag

from kgen.analysis.infer import infer_types
from kgen.analysis.products import Factors, factors_of, terms_over
from kgen.analysis.typing import ExpressionTyper
from kgen.errors import KgenError, TransformError
from kgen.ir.expr import Expr, to_text, variable_names
from kgen.ir.fragments import BLOCK, ROW_GROUPS, TENSOR_SHAPES, TensorShape
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
from kgen.transforms.loops.split import join_inames, split_iname
from kgen.transforms.loops.tag import add_tags
from kgen.transforms.select import (
    new_names,
    require_inames,
    require_instruction,
    require_new_iname,
    transform,
)

__all__ = ["tensorize"]

#: Neighbouring pairs of columns belong to lanes of a group.
_PAIR: Final = 2


class _Loops(NamedTuple):
    row: str
    column: str
    depth: str


@transform
def tensorize(
    kernel: LoopKernel,
    insn: str,
    inames: str | Iterable[str],
    shape: str = "m16n8k16",
    *,
    precision: str | None = None,
    lane: str | None = None,
) -> LoopKernel:
    """Let the lanes of a warp compute a product of small matrices together, with tensor cores.

    On CUDA, the loops *inames* around a sum of products become one ``mma.sync`` instruction: lanes
    hold the elements of both factors and of the sums in the layout of the PTX ISA. Split loops to
    the lengths of the shape before. The loops around, which are tiles of a warp, are tagged ``ilp``
    and share what they load.

    :arg insn: an instruction that computes ``c[i, j] = sum(k, a[i, k]*b[k, j])``, or one that adds
        ``a[i, k]*b[k, j]`` to a variable. Factors may be any expressions, also in other order
    :arg inames: the loops over rows, over columns, and over what is summed up
    :arg shape: ``m16n8k16`` or ``m16n8k8`` for factors of float16 or bfloat16; ``m8n8k4``, and with
        compute capability 9.0 ``m16n8k4``, ``m16n8k8`` or ``m16n8k16``, for float64; ``m16n8k8``
        or ``m16n8k4`` for float32 with ``precision="tf32"``. With compute capability 9.0
        ``m64n8k16``, ``m64n16k16`` ... ``m64n256k16`` for float16 or bfloat16, and ``m64n8k8`` ...
        ``m64n256k8`` for float32 with ``precision="tf32"``: see below
    :arg precision: ``"tf32"`` rounds float32 to 10 bits behind the point: ask for it by name
    :arg lane: the name of the loop over the lanes, ``lane`` by default

    ::

        for i, j  {0<=i<16, 0<=j<8}           for lane, i_reg, j_reg   {lane: l.0, 0<=lane<32}
          c[i,j] = sum(k, a[i,k]*b[k,j])  =>    c[lane//4 + i_reg*8, (lane%4)*2 + j_reg] = sum(...)

    Lanes are work-items on ``l.0``, which must have 32 of them: put warps on ``l.1`` and ``l.2``.
    Sums are in float32, those of float64 in float64. Tensor cores do not round products, and add
    those of a step in an order that NVIDIA does not say. Other targets run the same loops as plain
    code, in the order that was written.

    Shapes ``m64nNk16`` and ``m64nNk8``, N a multiple of 8 up to 256, are ``wgmma`` instructions of
    a warpgroup: four warps, the 128 lanes of ``l.0``. They read both factors from local memory
    themselves, from temporaries with ``swizzle:128`` that are aligned to 1024 bytes, in rows of 64
    terms of a line, or of 64 lines of a term; in rows of 32 terms if factors are float32, of which
    they leave the last bits out. They go on while work-items do other things, up to the next
    barrier.

    Raises :class:`TransformError` for other lengths of loops, for types that no shape takes, and
    for what is no sum of products of a factor for each row and one for each column.

    >>> import kgen as lp
    >>> knl = lp.make_kernel(
    ...     "{ [i, j, k]: 0<=i<16 and 0<=j<8 and 0<=k<16 }", "c[i, j] = sum(k, a[i, k]*b[k, j])",
    ...     [lp.GlobalArg("a, b", "float16"), lp.GlobalArg("c", "float32"), ...],
    ...     target=lp.CudaTarget())
    >>> print(tensorize(knl, "insn", "i, j, k").default_entrypoint.instructions[0])
    c[lane // 4 + i_reg*8, j_reg + (lane % 4)*2] = reduce(sum, [k], a[lane // 4 + i_reg*8, k]*b[k, \
j_reg + (lane % 4)*2])  {id=insn}
    """
    loops = _Loops(*_three(kernel, inames))
    found = _find_shape(kernel, insn, loops, shape, precision)
    _require_box(kernel, insn, loops, found)
    _require_untagged(kernel, loops)
    return _with_lanes(kernel, loops, found, lane)


def _three(kernel: LoopKernel, inames: str | Iterable[str]) -> tuple[str, ...]:
    names = require_inames(kernel, inames)
    if len(set(names)) != 3:
        raise TransformError(
            f"tensorize takes three loops, over rows, columns and terms, not {', '.join(names)}",
            hint="tensorize(kernel, 'insn', 'i, j, k')",
        )
    return names


def _find_shape(
    kernel: LoopKernel, insn_id: str, loops: _Loops, name: str, precision: str | None
) -> TensorShape:
    """Return the shape of a name that takes the factors of an instruction."""
    if precision not in (None, "tf32"):
        raise TransformError(
            f"there is no precision '{precision}' of tensor cores",
            hint="precision='tf32', for factors of float32; otherwise leave it out",
        )
    shapes = [shape for shape in TENSOR_SHAPES.values() if shape.name == name]
    if not shapes:
        known = ", ".join(dict.fromkeys(text.partition(" ")[0] for text in _known_shapes()))
        raise TransformError(f"tensor cores have no shape '{name}'", hint=f"choose one of {known}")
    require_instruction(kernel, insn_id)
    silenced = kernel.copy(silenced_warnings=(*kernel.silenced_warnings, "write_race*"))
    known_types = infer_types(expand_subst(silenced), complete=False)
    insn = known_types.id_to_insn[insn_id]
    terms = tuple(terms_over(insn, loops.depth))
    if len(terms) != 1:
        raise _no_product(insn, f"it has {len(terms) or 'no'} sums over '{loops.depth}'")
    wanted = [s for s in shapes if (s.operands == "tf32") == (precision == "tf32")]
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
    because = f"'{to_text(term)}' is no product of two numbers of {kinds}, which {name} takes"
    hint = f"declare the factors so, or cast them; there are {', '.join(_known_shapes())}"
    return because, f"{hint}; factors of float32 need precision='tf32', which rounds them"


def _known_shapes() -> Iterator[str]:
    """Give what users can ask for; shapes that differ in the number of columns are one."""
    for shape in TENSOR_SHAPES.values():
        if shape.is_of_warpgroup and shape.columns == BLOCK:
            yield f"{shape.name}...m64n256k{shape.depth} of {shape.operands}"
        elif not shape.is_of_warpgroup:
            yield str(shape)


def _check_factors(insn: InstructionBase, factors: Factors, loops: _Loops) -> None:
    """Reject factors that are not one for each row, and one for each column."""
    uses = [{name for name in loops if name in variable_names(part)} for part in factors]
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
            "one factor is to use the loops over rows and over terms, the other one those over "
            "terms and over columns",
        )


def _reject_sums_as_factors(insn: InstructionBase, factors: Factors, loops: _Loops) -> None:
    """Reject an instruction that multiplies what it adds up to."""
    names = set(insn.assignee_var_names()).intersection(variable_names(*factors))
    if names and loops.depth in insn.within_inames:
        name = min(names)
        raise _no_product(
            insn,
            f"it reads factors from '{name}', to which it adds up, and a step reads all factors "
            "before it adds up any",
            f"sum up in a variable of its own, and store that to '{name}' behind the loops",
        )


def _reject_conditions(insn: InstructionBase) -> None:
    """Reject an instruction that only some lanes may run, or some steps of a sum."""
    for condition in insn.sorted_predicates:
        raise _no_product(
            insn,
            f"it has the condition '{to_text(condition)}', and lanes compute products together",
            "sum up without the condition, in a variable, and store under it",
        )


def _no_product(insn: InstructionBase, because: str, hint: str | None = None) -> TransformError:
    return TransformError(
        f"tensor cores cannot compute '{insn.id}'",
        where=f"instruction '{insn}'",
        because=because,
        hint=hint or "it is to be c[i, j] = sum(k, a[i, k]*b[k, j]), or x = x + a[i, k]*b[k, j]",
    )


def _require_box(kernel: LoopKernel, insn_id: str, loops: _Loops, shape: TensorShape) -> None:
    """Reject loops that do not have all iterations of a shape, whatever other loops do."""
    insn = kernel.id_to_insn[insn_id]
    around = insn.within_inames | insn.reduction_inames()
    lengths = dict(zip(loops, (shape.rows, shape.columns, shape.depth), strict=True))
    for name, length in lengths.items():
        if name not in around:
            raise _no_product(insn, f"it is not inside of the loop '{name}'")
        bounds = kernel.get_iname_bounds(name)
        if (bounds.lower, bounds.extent) != (0, length):
            raise _wrong_length(insn, name, shape, length, str(bounds.extent))
    names = tuple(sorted(around, key=kernel.iname_order.__getitem__))
    domain = kernel.domain_of(names).intersect_params(kernel.assumptions)
    for name, length in lengths.items():
        if not _is_whole(domain, name, length):
            raise _wrong_length(insn, name, shape, length, "fewer at times")


def _is_whole(domain: Set, name: str, length: int) -> bool:
    """Tell whether a loop has all of its iterations wherever it has one."""
    box = bound_dim(free_dim(domain, name), name, 0, length - 1)
    return bool(box.is_subset(domain))


def _wrong_length(
    insn: InstructionBase, name: str, shape: TensorShape, length: int, found: str
) -> TransformError:
    return _no_product(
        insn,
        f"the loop '{name}' is to have {length} iterations from 0 on for {shape.name}, and has "
        f"{found}",
        f"split_iname(kernel, '{name}', {length}), and say that the size is a multiple: "
        f"assume(kernel, 'n mod {length} = 0'), or pad the arrays",
    )


def _require_untagged(kernel: LoopKernel, loops: _Loops) -> None:
    for name in loops:
        for tag in kernel.iname_tags_of_type(name, InameImplementationTag):
            raise TransformError(
                f"the loop '{name}' is tagged '{tag}', and cannot become lanes of tensor cores",
                hint=f"untag_inames(kernel, '{name}', ...), or leave the tag out",
            )


def _with_lanes(
    kernel: LoopKernel, loops: _Loops, shape: TensorShape, lane: str | None
) -> LoopKernel:
    """Distribute rows and columns over lanes as the layout of the sums says."""
    names = new_names(kernel)
    row, column = f"{loops.row}_reg", f"{loops.column}_reg"
    tags: dict[str, list[Tag | None]] = {
        loops.depth: [TensorTag(shape.name, shape.operands)],
        column: [UnrolledIlpTag(), FragmentTag("column")],
    }
    of_lanes, rows, columns = [], loops.row, loops.column
    if shape.is_of_warpgroup:
        of_lanes = [warp := str(names(f"{loops.row}_warp"))]
        rows = str(names(f"{loops.row}_rows"))
        length = shape.rows_of_lane * ROW_GROUPS
        kernel = split_iname(kernel, loops.row, length, outer_iname=warp, inner_iname=rows)
    if shape.rows_of_lane > 1:
        group = str(names(f"{loops.row}_group"))
        kernel = split_iname(kernel, rows, ROW_GROUPS, outer_iname=row, inner_iname=group)
        tags[row], rows = [UnrolledIlpTag(), FragmentTag("row")], group
    if shape.blocks > 1:
        block, columns = str(names(f"{loops.column}_block")), str(names(f"{loops.column}_columns"))
        kernel = split_iname(kernel, loops.column, BLOCK, outer_iname=block, inner_iname=columns)
        tags[block] = [UnrolledIlpTag(), FragmentTag("block")]
    pair = str(names(f"{loops.column}_pair"))
    kernel = split_iname(kernel, columns, _PAIR, outer_iname=pair, inner_iname=column)
    lane = str(names("lane")) if lane is None else require_new_iname(kernel, lane)
    kernel = join_inames(kernel, (*of_lanes, rows, pair), lane)
    return add_tags(kernel, {**tags, lane: [LocalInameTag(0), FragmentTag("lane")]})
