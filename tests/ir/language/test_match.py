"""The match language."""

from __future__ import annotations

import pytest
from pytools.tag import Tag

from kgen.errors import KgenError, KgenSyntaxError
from kgen.ir.construction.make import make_loop_kernel
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.match import (
    All,
    And,
    ConcreteMatchable,
    Id,
    Iname,
    InKernel,
    Not,
    ObjTagged,
    Or,
    Reads,
    Tagged,
    Writes,
    parse_match,
    parse_stack_match,
)
from kgen.ir.tags import StringTag, to_tags
from kgen.ir.target import TargetBase


@pytest.fixture(scope="module")
def kernel() -> LoopKernel:
    return make_loop_kernel(
        "{ [i, j]: 0 <= i, j < n }",
        """
        <> load1 = a[i]     {id=load1, tags=in:slow}
        <> load2 = b[j]     {id=load2, tags=in}
        out[i, j] = load1 * load2 {id=store, if=c}
        """,
        name="product",
        target=TargetBase(),
    )


@pytest.mark.parametrize(
    ("what", "ids"),
    [
        ("id:load1", ["load1"]),
        ("id:load?", ["load1", "load2"]),
        ("id:*", ["load1", "load2", "store"]),
        ("writes:out", ["store"]),
        ("reads:load*", ["store"]),
        ("reads:c", ["store"]),
        ("iname:j", ["load2", "store"]),
        ("tag:in", ["load1", "load2"]),
        ("tag:in and not tag:slow", ["load2"]),
        ("id:store or id:load1", ["load1", "store"]),
        ("not (id:store or id:load1)", ["load2"]),
        ("not not id:store", ["store"]),
        ("id:load1 or id:load2 and tag:slow", ["load1"]),
        ("in_kernel:prod*", ["load1", "load2", "store"]),
        ("in_kernel:sum", []),
        ("id:nothing", []),
        ("*", ["load1", "load2", "store"]),
        ("...", ["load1", "load2", "store"]),
        ("all and id:store", ["store"]),
        ("", ["load1", "load2", "store"]),
        (None, ["load1", "load2", "store"]),
        (lambda kernel, insn: insn.id == "store", ["store"]),
        (Id("load*") & ~Tagged("slow"), ["load2"]),
        (Or([Writes("out"), Reads("a")]), ["load1", "store"]),
        (And([Iname("i"), Not(Iname("j")), InKernel("*"), All()]), ["load1"]),
        (ObjTagged(StringTag("slow")) | Id("store"), ["load1", "store"]),
    ],
)
def test_what_matches(kernel: LoopKernel, what: object, ids: list[str]) -> None:
    match = parse_match(what)
    assert [insn.id for insn in kernel.instructions if match(kernel, insn)] == ids


@pytest.mark.parametrize(
    "text", ["id:a", "(id:a and (not writes:b))", "(reads:a* or tag:t or iname:i)", "in_kernel:k"]
)
def test_what_is_printed_reads_back(text: str) -> None:
    assert str(parse_match(text)) == text


@pytest.mark.parametrize(
    ("text", "column", "what"),
    [
        ("ids:a", 1, "expected one of id:, writes:"),
        ("store", 1, "expected one of id:, writes:"),
        ("id:a id:b", 6, "expected 'and', 'or' or the end, found 'id:b'"),
        ("id:a and", 9, "found the end"),
        ("(id:a", 6, "expected ')', found the end"),
        ("id:a ) ", 6, "found ')'"),
        ("id: a", 1, "expected one of"),
        ("id:a, id:b", 5, "found ','"),
    ],
)
def test_errors_name_the_column(text: str, column: int, what: str) -> None:
    with pytest.raises(KgenSyntaxError) as caught:
        parse_match(text)
    assert caught.value.column == column
    assert what in str(caught.value)


def test_other_types_are_refused() -> None:
    with pytest.raises(KgenError, match="not 3"):
        parse_match(3)
    with pytest.raises(KgenError, match=r"of Tagged is text, not StringTag.*\n.*ObjTagged"):
        Tagged(StringTag("slow"))  # type: ignore[arg-type]


def test_functions_take_kernel_and_instruction() -> None:
    with pytest.raises(KgenError, match=r"called with kernel and instruction.*\(insn\)"):
        parse_match(lambda insn: True)


# -- stacks ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "matches"),
    [
        ("id:store", True),
        ("id:store > id:outer", True),
        ("id:store > id:inner", False),
        ("id:store > ... > id:inner", True),
        ("id:store > id:outer $", False),
        ("id:store > id:outer > id:inner $", True),
        ("... > id:inner $", True),
        ("... > id:outer $", False),
        ("...", True),
        ("id:store > id:outer and tag:warm", True),
        ("id:store > id:outer and tag:cold", False),
        (None, True),
        (Id("load*"), False),
    ],
)
def test_stacks(kernel: LoopKernel, what: str | None, matches: bool) -> None:
    stack = (ConcreteMatchable("outer", to_tags("warm")), ConcreteMatchable("inner"))
    assert parse_stack_match(what)(kernel, kernel.id_to_insn["store"], stack) is matches


def test_a_stack_that_does_not_parse() -> None:
    with pytest.raises(KgenSyntaxError, match="column 6: expected '>', '\\$' or the end"):
        parse_stack_match("id:a id:b")


def test_tags_may_be_of_any_class(kernel: LoopKernel) -> None:
    class Marked(Tag):
        pass

    marked = ConcreteMatchable("rule", frozenset((Marked(),)))
    assert ObjTagged(Marked())(kernel, marked)
    assert not Writes("*")(kernel, marked)
