"""Random loops whose bounds are data, as in sparse matrices, and what they mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tests.random import choices
from tests.random.choices import Draw
from tests.random.program import ArrayDecl, Program, Step

__all__ = ["draw_balanced_program", "draw_row_program"]

#: More than any entry of a row is at.
_LENGTH = 8

_ARRAYS = (
    ArrayDecl("starts", "int32", ("n",), values=range(5)),
    ArrayDecl("counts", "int32", ("n",), values=range(-1, 4)),
    ArrayDecl("a", "float32", (str(_LENGTH),)),
    ArrayDecl("w", "int32", (str(_LENGTH), "2")),
    ArrayDecl("p", "int32", (str(_LENGTH),), values=range(4)),
    ArrayDecl("x", "float32", ("4",)),
    ArrayDecl("out", "float32", ("n",)),
    ArrayDecl("more", "float32", ("n", str(_LENGTH))),
)

#: Writes lines around an entry of a row: given what it computes, and the condition in braces.
_Body = Callable[[str, str], tuple[str, ...]]


def _sum(entry: str, condition: str) -> tuple[str, ...]:
    inner = f"if(s <= j, if(j < e, {entry}, 0), 0)" if condition else entry
    return (f"out[i] = sum(j, {inner}) {{id=r0, dep=s0:s1, inames=i}}",)


def _total(entry: str, condition: str) -> tuple[str, ...]:
    return (
        "<float32> t = 1 {id=r0, inames=i}",
        f"t = t + {entry} {{id=r1, dep=s0:s1:r0, inames=i:j{condition}}}",
        "out[i] = t {id=r2, dep=r1, inames=i}",
    )


def _update(entry: str, condition: str) -> tuple[str, ...]:
    return (f"out[i] = out[i] + {entry} {{id=r0, dep=s0:s1, inames=i:j{condition}}}",)


def _entries(entry: str, condition: str) -> tuple[str, ...]:
    return (f"more[i, j] = {entry} + i {{id=r0, dep=s0:s1, inames=i:j{condition}}}",)


def _vector(entry: str, condition: str) -> tuple[str, ...]:
    return (
        f"<float32> y[d] = w[j, d] + {entry} {{id=r0, dep=s0:s1, inames=i:j:d{condition}}}",
        f"out[i] = out[i] + y[0]*y[1] {{id=r1, dep=s0:s1:r0, inames=i:j{condition}}}",
    )


_BODIES: tuple[_Body, ...] = (_sum, _total, _update, _entries, _vector)


def draw_row_program(draw: Draw) -> Program:
    """Draw a loop over rows, and one over the entries of each, from one array or two."""
    body = draw(choices.sampled_from(_BODIES))
    entry = draw(choices.sampled_from(("a[j]", "a[j]*x[p[j]]", "(w[j, 1] + j)", "x[p[j]]")))
    end = draw(choices.sampled_from(("s + counts[i]", "s + max(counts[i], 1)", "counts[i] + 4")))
    bounds = ("<> s = starts[i] {id=s0, inames=i}", f"<> e = {end} {{id=s1, dep=s0, inames=i}}")
    domains = ("{ [i] : 0 <= i < n }", "{ [j] : s <= j < e }", "{ [d] : 0 <= d < 2 }")
    lines = (*bounds, *body(entry, ""))
    text = " ".join(lines)
    arrays = tuple(array for array in _ARRAYS if f"{array.name}[" in text)
    used = domains if "[d]" in text else domains[:2]
    program = Program(used, lines, arrays, "n >= 0", depth=2)
    model = dataclasses.replace(
        program,
        domains=(used[0], f"{{ [j] : 0 <= j < {_LENGTH} }}", *used[2:]),
        lines=(*bounds, *body(entry, ", if=s <= j, if=j < e")),
    )
    return dataclasses.replace(program, model=model)


# -- rows that follow each other -----------------------------------------------------------------

#: More than any entry is at, in rows of up to 4 each.
_ENTRIES = "2*n + 4"

_FOLLOWING = (
    ArrayDecl("more", "int32", ("n + 1",), values=range(3)),
    ArrayDecl("starts", "int32", ("n + 1",)),
    ArrayDecl("a", "float32", (_ENTRIES,)),
    ArrayDecl("w", "int32", (_ENTRIES, "2")),
    ArrayDecl("p", "int32", (_ENTRIES,), values=range(4)),
    ArrayDecl("x", "float32", ("4",)),
    ArrayDecl("out", "float32", ("n",)),
)


def _two_sums(entry: str, condition: str) -> tuple[str, ...]:
    def one(value: str) -> str:
        return f"sum(j, if(s <= j, if(j < e, {value}, 0), 0))" if condition else f"sum(j, {value})"

    return (
        f"<float32> t = {one(entry)} + i {{id=r0, dep=s0:s1, inames=i}}",
        f"out[i] = t*{one('w[j, 0]')} + (e - s) {{id=r1, dep=r0, inames=i}}",
    )


def draw_balanced_program(draw: Draw) -> Program:
    """Draw sums over rows, each of which begins where the one before it ends, and balance them."""
    body = draw(choices.sampled_from((_sum, _total, _update, _two_sums)))
    entries = ("a[j]", "a[j]*x[p[j]]", "(w[j, 1] + j)", "x[p[j]]", "(a[j] - i)", "(j - s)*a[j]")
    entry = draw(choices.sampled_from(entries))
    bounds = (
        "starts[q] = 2*q + more[q] {id=set, inames=q}",
        "... gbarrier {id=wait, dep=set}",
        "<> s = starts[i] {id=s0, inames=i, dep=wait}",
        "<> e = starts[i + 1] {id=s1, inames=i, dep=wait}",
    )
    first = "{ [q] : 0 <= q <= n }", "{ [i] : 0 <= i < n }"
    lines = (*bounds, *body(entry, ""))
    arrays = tuple(array for array in _FOLLOWING if f"{array.name}[" in " ".join(lines))
    program = Program((*first, "{ [j] : s <= j < e }"), lines, arrays, "n >= 0", depth=2)
    model = dataclasses.replace(
        program,
        domains=(*first, f"{{ [j] : 0 <= j < {_ENTRIES} }}"),
        lines=(*bounds, *body(entry, ", if=s <= j, if=j < e")),
    )
    options = (
        ("items", draw(choices.integers(1, 4))),
        ("group_size", draw(choices.sampled_from((1, 2, 3, 4, 8)))),
        ("entries", _ENTRIES),
    )
    return dataclasses.replace(program, model=model, steps=(Step("balance", ("i, j",), options),))
