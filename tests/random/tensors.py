"""Random products for tensor cores: factors in any order and layout, tiles of any kind."""

from __future__ import annotations

from tests.random import choices
from tests.random.choices import Draw
from tests.random.program import ArrayDecl, Program, Step

__all__ = ["draw_tensor_program", "draw_warpgroup_program"]


def draw_tensor_program(draw: Draw) -> Program:
    """Draw a product of small matrices of integers, with the steps that tensorize it."""
    rows, depth, precision = draw(choices.sampled_from(_SHAPES))
    dtype = "float64" if precision is None else "float32"
    count, steps = draw(choices.sampled_from(((1, "m"), ("n", 2), ("n", "m"))))
    height, length = _times(count, rows), _times(steps, depth)
    a_shape, a = draw(
        choices.sampled_from((((height, length), "a[i, k]"), ((length, height), "a[k, i]")))
    )
    b_shape, b = draw(choices.sampled_from(((("K", "8"), "b[k, j]"), (("8", "K"), "b[j, k]"))))
    if draw(choices.integers(0, 3)) == 0:
        a = a.replace("k", f"{length} - 1 - k")
    factors = draw(choices.sampled_from((f"{a}*{b}", f"{b}*{a}")))
    value = draw(choices.sampled_from(("sum(k, {})", "2*sum(k, {}) + d[i, j]"))).format(factors)
    arrays = (
        ArrayDecl("a", dtype, a_shape),
        ArrayDecl("b", dtype, tuple(length if n == "K" else n for n in b_shape)),
        ArrayDecl("c", dtype, (height, "8")),
        ArrayDecl("d", dtype, (height, "8")),
    )
    sizes = tuple(name for name in ("n", "m") if name in (count, steps))
    domains = (f"{{ [i, j] : 0 <= i < {height} and 0 <= j < 8 }}", f"{{ [k] : 0 <= k < {length} }}")
    return Program(
        domains,
        (f"c[i, j] = {value} {{id=s0}}",),
        tuple(array for array in arrays if array.name != "d" or "d[" in value),
        " and ".join(f"{name} >= 0" for name in sizes),
        parameters=sizes,
        steps=_steps(draw, rows, depth, precision),
        target="CudaTarget",
    )


#: Rows and terms of a step, and the precision of factors of float32.
_SHAPES = ((8, 4, None), (8, 4, None), (16, 4, None), (16, 8, None), (16, 8, "3xtf32"))


def _times(count: int | str, factor: int) -> str:
    return str(count * factor) if isinstance(count, int) else f"{factor}*{count}"


def _steps(draw: Draw, rows: int, depth: int, precision: str | None) -> tuple[Step, ...]:
    outer = draw(choices.sampled_from(("g.0", "g.0", "ilp", "unr", None)))
    tags = () if outer is None else (("outer_tag", outer),)
    lanes = draw(choices.sampled_from(("lane", "group, pair")))
    given = (("lane", lanes), *(() if precision is None else (("precision", precision),)))
    steps = [
        Step("split_iname", ("i", rows), tags),
        Step("split_iname", ("k", depth)),
        Step("tensorize", ("s0", "i_inner, j, k_inner", f"m{rows}n8k{depth}"), given),
    ]
    of_rows = ("i_inner_reg",) if rows > 8 else ()
    row, column = lanes.split(", ")[0], lanes.split(", ")[-1]
    for name, swept in (("a", (*of_rows, row, "k_inner")), ("b", (column, "j_reg", "k_inner"))):
        tag = draw(choices.sampled_from(("l.auto", "l.auto", "none")))
        if tag != "none":
            steps.append(Step("add_prefetch", (name, swept), (("default_tag", tag),)))
            if precision == "3xtf32" and draw(choices.booleans()):
                steps.append(Step("split_values", (f"{name}_fetch",)))
    return tuple(steps)


def draw_warpgroup_program(draw: Draw) -> Program:
    """Draw a product for warpgroups, with tiles in local memory as they read them."""
    count, steps = draw(choices.sampled_from(((1, 2), (2, 1), ("n", 1), (1, "n"))))
    dtype, row, depth = draw(choices.sampled_from((("float16", 64, 16), ("float32", 32, 8))))
    height, length = _times(count, 64), _times(steps, row)
    by_rows = ((height, length), "a[i, k]", ("i_inner_reg", "lane", *_TERMS))
    by_terms = ((length, height), "a[k, i]", (*_TERMS, "i_inner_reg", "lane"))
    ways = (by_rows, by_terms) if dtype == "float16" else (by_rows,)
    a_shape, a, swept = draw(choices.sampled_from(ways))
    factors = draw(choices.sampled_from((f"{a}*b[j, k]", f"b[j, k]*{a}")))
    outer = draw(choices.sampled_from(("g.0", "unr")))
    precision = (("precision", "tf32"),) if dtype == "float32" else ()
    made = (
        Step("split_iname", ("i", 64), (("outer_tag", outer),)),
        Step("split_iname", ("k", row)),
        Step("split_iname", ("k_inner", depth), (("outer_tag", "unr"),)),
        Step("tensorize", ("s0", "i_inner, j, k_inner_inner", f"m64n8k{depth}"), precision),
        Step("add_prefetch", ("a", swept), (("default_tag", "l.auto"),)),
        Step("add_prefetch", ("b", ("lane", "j_reg", *_TERMS)), (("default_tag", "l.auto"),)),
        Step("align_temporaries", ("a_fetch, b_fetch", 1024)),
        Step("tag_array_axes", ("a_fetch, b_fetch", "swizzle:128")),
    )
    return Program(
        (f"{{ [i, j] : 0 <= i < {height} and 0 <= j < 8 }}", f"{{ [k] : 0 <= k < {length} }}"),
        (f"c[i, j] = sum(k, {factors}) {{id=s0}}",),
        (
            ArrayDecl("a", dtype, tuple(map(str, a_shape))),
            ArrayDecl("b", dtype, ("8", str(length))),
            ArrayDecl("c", "float32", (str(height), "8")),
        ),
        "n >= 0" if "n" in (count, steps) else "",
        parameters=("n",) if "n" in (count, steps) else (),
        sizes=((0, 0), (1, 0), (2, 0)),  # the reference takes 16 s for n = 13
        steps=made,
        target="CudaTarget",
    )


_TERMS = ("k_inner_outer", "k_inner_inner")
