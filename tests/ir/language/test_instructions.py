"""The instruction language: statements, blocks, options, errors with line and column."""

from __future__ import annotations

import contextlib
from typing import Any

import pymbolic.primitives as p
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgen.errors import KernelError, KgenError, KgenSyntaxError
from kgen.ir.atomicity import AtomicInit, AtomicUpdate
from kgen.ir.expr import Reduction, SubArrayRef, to_text
from kgen.ir.instruction import (
    Assignment,
    BarrierInstruction,
    CallInstruction,
    InstructionBase,
    NoOpInstruction,
    UniqueName,
)
from kgen.ir.language.instructions import parse_instructions
from kgen.ir.language.match import Id
from kgen.ir.language.options import DuplicateInamesTag
from kgen.ir.tags import StringTag
from kgen.ir.types import Optional, to_kgen_type


def instructions(given: Any) -> list[Any]:
    return list(parse_instructions(given)[0])


def only(text: str) -> Any:
    (insn,) = instructions(text)
    return insn


def written(given: Any) -> list[str]:
    """Return instructions as text, without their options."""
    return [str(insn).split("  {")[0] for insn in instructions(given)]


def refusal(text: Any) -> KgenSyntaxError:
    with pytest.raises(KgenSyntaxError) as caught:
        parse_instructions(text)
    return caught.value


# -- assignments ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("out[i] = 2*a[i]", "out[i] = 2*a[i]"),
        ("out[i] += a[i]", "out[i] = out[i] + a[i]"),
        ("out[i] -= a[i] + b", "out[i] = out[i] - (a[i] + b)"),
        ("out[i] *= a + 1", "out[i] = out[i]*(a + 1)"),
        ("out[i] /= 2", "out[i] = out[i] / 2"),
        ("<> t = a[i]", "<> t = a[i]"),
        ("a[i], b[i] = f(c[i])", "a[i], b[i] = f(c[i])"),
        ("<>m, <>k = argmin(i, a[i], i)", "<> m, <> k = reduce(argmin, [i], a[i], i)"),
        ("[i]: b[i] = f([j]: a[j])", "[i]: b[i] = f([j]: a[j])"),
        ("f(a[i])", "f(a[i])"),
        ("a[i] = b < c", "a[i] = b < c"),
        ("a[i] = if(i < 3, 1, 2)", "a[i] = 1 if i < 3 else 2"),
        ("format = 1", "format = 1"),
        ("end[i] = 1", "end[i] = 1"),
        ("... nop", "... nop"),
    ],
)
def test_statements(text: str, meaning: str) -> None:
    assert written(text) == [meaning]


@pytest.mark.parametrize(
    ("declaration", "kind"),
    [
        ("<>", Optional(None)),
        ("< >", Optional(None)),
        ("<float32>", Optional(to_kgen_type("float32"))),
        ("<np.float32>", Optional(to_kgen_type("float32"))),
        ("<np:int8>", Optional(to_kgen_type("int8"))),
        ("<np:dtype('complex64')>", Optional(to_kgen_type("complex64"))),
        ("", Optional()),
    ],
)
def test_declarations(declaration: str, kind: Optional) -> None:
    assert only(f"{declaration} tmp[i] = 0").temp_var_type == kind


def test_one_place_is_an_assignment_several_are_a_call() -> None:
    assert type(only("a = f(b)")) is Assignment
    assert type(only("a, b = f(c)")) is CallInstruction
    assert type(only("[i]: a[i] = f([i]: b[i])")) is CallInstruction


def test_rules() -> None:
    insns, rules = parse_instructions("f(x, y) := x*a[y]\ng := 3\nout = f(1, 2) + g")
    assert [str(rule) for rule in rules.values()] == ["f(x, y) := x*a[y]", "g := 3"]
    assert len(insns) == 1


def test_barriers() -> None:
    first, second, third = instructions(
        "... gbarrier {id=a}\n... lbarrier {mem_kind=global, dep=a}\n... nop {dep=*}"
    )
    assert isinstance(first, BarrierInstruction)
    assert (first.synchronization_kind, first.id) == ("global", "a")
    assert (second.synchronization_kind, second.mem_kind) == ("local", "global")
    assert isinstance(third, NoOpInstruction)
    assert third.depends_on_is_final


# -- lines ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "a[i] = b + c # and more",
        "# before\n\n   a[i] = b + c\n\n# after\n",
        "a[i] = b \\\n  + c",
        "a[i] = b +  \\\n # in between\n c",
        "\r\na[i] = b + c\r\n",
    ],
)
def test_comments_and_blank_lines(text: str) -> None:
    assert written(text) == ["a[i] = b + c"]


def test_brackets_join_lines() -> None:
    text = """
        out[i,
            j] = (a[i]   # the first
            # a line of its own
            + b[j])  {id=x,
                      dep=*}
        c = 1
    """
    assert written(text) == ["out[i, j] = a[i] + b[j]", "c = 1"]
    assert [insn.id for insn in instructions(text)] == ["x", None]


def test_spans_are_the_lines_of_the_source() -> None:
    lines = [insn.span.line for insn in instructions("\na = 1\n\n# x\nb = (1 +\n 2)\nc = 3")]
    assert lines == [2, 5, 7]


# -- options --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ("id=load", {"id": "load"}),
        ("id_prefix=load", {"id": UniqueName("load")}),
        ("dep=a:b*", {"depends_on": frozenset({"a", "b*"}), "depends_on_is_final": False}),
        ("dep=*a:b", {"depends_on": frozenset({"a", "b"}), "depends_on_is_final": True}),
        ("dep=*", {"depends_on": frozenset(), "depends_on_is_final": True}),
        ("dep=**", {"depends_on": frozenset({"*"}), "depends_on_is_final": True}),
        ("dep=a:*", {"depends_on": frozenset({"a", "*"}), "depends_on_is_final": False}),
        ("dep_query=id:a", {"depends_on": frozenset({Id("a")})}),
        ("nosync=a:b@local", {"no_sync_with": frozenset({("a", "any"), ("b", "local")})}),
        ("nosync_query=id:a@global", {"no_sync_with": frozenset({(Id("a"), "global")})}),
        ("priority=-3", {"priority": -3}),
        ("inames=i:j", {"within_inames": frozenset("ij"), "within_inames_is_final": True}),
        ("inames=+i", {"within_inames": frozenset("i"), "within_inames_is_final": False}),
        ("inames_dep=i", {"within_inames": frozenset("i"), "within_inames_is_final": False}),
        ("inames=", {"within_inames": frozenset(), "within_inames_is_final": True}),
        ("tags=x:y", {"tags": frozenset({StringTag("x"), StringTag("y")})}),
        ("groups=g:h", {"groups": frozenset("gh")}),
        ("conflicts=g", {"conflicts_with_groups": frozenset("g")}),
        ("conflicts_grp=g", {"conflicts_with_groups": frozenset("g")}),
        ("atomic", {"atomicity": (AtomicUpdate("out"),)}),
        ("atomic=init", {"atomicity": (AtomicInit("out"),)}),
        (" id = x , dep = a : b ", {"id": "x", "depends_on": frozenset("ab")}),
        ("", {"id": None}),
    ],
)
def test_options(options: str, fields: dict[str, Any]) -> None:
    insn = only(f"out[i] = a[i] {{{options}}}")
    assert {name: getattr(insn, name) for name in fields} == fields


def conditions(insn: InstructionBase) -> list[str]:
    return [to_text(condition) for condition in insn.predicates]


def test_if_takes_conditions() -> None:
    assert conditions(only("a = 1 {if=c:i < 3:f(b[i, j])}")) == ["c", "i < 3", "f(b[i, j])"]


# -- blocks ---------------------------------------------------------------------------


def test_for_puts_instructions_into_loops() -> None:
    found = instructions("for i\n a = 0\n for j, k\n  b = 1\n end\nend i\nc = 2")
    assert [sorted(insn.within_inames) for insn in found] == [["i"], ["i", "j", "k"], []]
    assert [insn.within_inames_is_final for insn in found] == [True, True, False]


def test_branches_of_if_exclude_each_other() -> None:
    found = instructions(
        """
        if i < 3
            a = 0
            if c
                b = 0
            end
        elif i < 5
            a = 1
        else
            a = 2
        end
        a = 3
        """
    )
    assert [conditions(insn) for insn in found] == [
        ["i < 3"],
        ["i < 3", "c"],
        ["not (i < 3)", "i < 5"],
        ["not (i < 3)", "not (i < 5)"],
        [],
    ]


def test_with_adds_options() -> None:
    found = instructions("with {dep=a, tags=x, priority=1}\n b = 0 {dep=c, priority=2}\nend")
    assert found[0].depends_on == {"a", "c"}
    assert found[0].tags == {StringTag("x")}
    assert found[0].priority == 2


@pytest.mark.parametrize("option", ["tags", "groups", "conflicts"])
def test_inner_tags_and_groups_replace_outer_ones(option: str) -> None:
    text = f"""
        with {{{option}=x:y}}
            a = 0 {{{option}=z}}
            with {{{option}=z, if=b > 0}}
                a = 1
            end
            a = 2 {{dup=i->j}}
        end
        """
    field = {"conflicts": "conflicts_with_groups"}.get(option, option)
    found = [
        sorted(
            getattr(item, "value", item)
            for item in getattr(insn, field)
            if not isinstance(item, DuplicateInamesTag)
        )
        for insn in instructions(text)
    ]
    assert found == [["z"], ["z"], ["x", "y"]]


@pytest.mark.parametrize(
    ("text", "loops"),
    [
        ("for i, j\na = 1 {inames=i}\nend", "i"),
        ("for i, j\na = 1 {inames=+k}\nend", "ijk"),
        ("for i, j\nwith {inames=i:k}\na = 1\nend\nend", "ik"),
        ("with {inames=i}\nfor j\na = 1\nend\nend", "ij"),
    ],
)
def test_inames_replaces_the_loops_of_blocks_around_it(text: str, loops: str) -> None:
    assert only(text).within_inames == set(loops)


def test_an_object_inside_of_a_block_belongs_to_it() -> None:
    given = ["for i", "if c", Assignment("a", 3, within_inames="j", id="x"), "end", "end"]
    (insn,) = instructions(given)
    assert insn.within_inames == {"i", "j"}
    assert (conditions(insn), insn.id) == (["c"], "x")


def test_objects_stay_as_they_are() -> None:
    insn = Assignment(p.Variable("a")[p.Variable("i")], 3)
    assert instructions([insn, "b = 1"])[0] is insn
    assert instructions(insn) == [insn]


def test_with_gives_atomic_to_each_assignee() -> None:
    found = instructions("with {atomic}\na[i] += 1\nb[i] += 1\nend")
    assert [insn.atomicity for insn in found] == [(AtomicUpdate("a"),), (AtomicUpdate("b"),)]


# -- errors ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("a = 1\nb[i] = 2*a[i + )", (2, 16), "expected an expression, found ')'"),
        ("a = 1\n  b[i] == 3", (2, 8), "an assignment has one '='"),
        ("a = (1 +\n 2\n", (1, 5), "this bracket is never closed"),
        ("foo: a = 1", (1, 4), "the id of an instruction follows it"),
        ("a[i] = 0 {foo=1}", (1, 11), "'foo' is not an option"),
        ("a[i] = 0 {prority=1}", (1, 11), "did you mean 'priority'?"),
        ("a[i] = 0 {priority=x}", (1, 20), "is not an integer"),
        ("a[i] = 0 {id}", (1, 11), "the option 'id' needs a value"),
        ("a[i] = 0 {nosync=b@lcoal}", (1, 18), "'lcoal' is not a scope"),
        ("a[i] = 0 {atomic=foo}", (1, 18), "not a kind of atomic"),
        ("a[i] = 0 {if=i <}", (1, 17), "expected an expression"),
        ("a[i] = 0 {dep_query=foo:b}", (1, 21), "expected one of id:"),
        ("a[i] = 0 {mem_kind=local}", (1, 10), "an option of barriers"),
        ("a[i] = 0 {dup=i->}", (1, 15), "is not a loop to duplicate"),
        ("<floot> t = 1", (1, 2), "floot"),
        ("<float32 t = 1", (1, 15), "expected '>'"),
        ("2*a = 1", (1, 2), "expected '='"),
        ("2 = 1", (1, 1), "cannot be assigned to"),
        ("a + b", (1, 3), "expected '='"),
        ("a, b = c", (1, 8), "which only a call or a reduction can do"),
        ("a = b, c", (1, 5), "several values"),
        ("<>a += 1", (1, 1), "updates one existing variable"),
        ("... barrier", (1, 1), "followed by gbarrier, lbarrier or nop"),
        ("f(2) := 3", (1, 3), "not a name for an argument"),
        ("for i\na = 1", (1, 1), "this 'for' has no 'end'"),
        ("a = 1\nend", (2, 1), "'end' without"),
        ("for\nend", (1, 4), "expected names after 'for'"),
        ("for i in n\nend", (1, 7), "expected names after 'for'"),
        ("for i\nend j", (2, 1), "'end j' does not match 'for i'"),
        ("for i\nfor i\nend\nend", (2, 1), "the loop over 'i' is already open"),
        ("else\nend", (1, 1), "'else' without 'if'"),
        ("if c\nelse\nelse\nend", (3, 1), "'else' without 'if'"),
        ("if c\nelse d\nend", (2, 5), "nothing after 'else'"),
        ("if c d\nend", (1, 6), "expected an operator or the end"),
        ("with dep=a\nend", (1, 5), "expected options after 'with'"),
        ("with {id=a}\nend", (1, 1), "an id belongs to one instruction"),
        ("[i,j] a = 0", (1, 7), "expected '='"),
    ],
)
def test_errors_name_line_and_column(text: str, place: tuple[int, int], what: str) -> None:
    error = refusal(text)
    assert what in str(error)
    assert (error.line, error.column) == place


PIECES = """
    a b i 1 2.5 1.5f = += := == < > <> ( ) [ ] { } , : ; # $ @ . ... + - * / // % ** & | ^ ~ ! 'x'
    and or not if elif else for end with in sum max reduce cast np.int8 {id=x} {dep=*} nop lbarrier
"""
pieces = st.sampled_from([*PIECES.split(), "\\", "\n"])


@given(st.lists(pieces, max_size=12).map(" ".join))
@settings(max_examples=1000)
def test_no_text_leads_to_another_error(text: str) -> None:
    with contextlib.suppress(KgenError):
        parse_instructions(text)


def test_a_rule_is_defined_once() -> None:
    with pytest.raises(Exception, match="two substitution rules 'f'"):
        parse_instructions("f(x) := x\nf(y) := 2*y")


def test_reductions_and_sub_arrays_are_nodes() -> None:
    insn = only("a = f([i]: b[i]) + sum(j, c[j])")
    call, reduction = insn.expression.children
    assert isinstance(call.parameters[0], SubArrayRef)
    assert isinstance(reduction, Reduction)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("b[i] = 1 if a[i] > 0 && i < 3 else 0", "'and' joins conditions"),
        ("b[i] = 1 if a[i] > 0 || i < 3 else 0", "'or' joins conditions"),
        ("b[i] = a[i] ? 1 : 2", "a if condition else b"),
        ("if !a[i]", "negated by 'not'"),
        ("if i > 2:\n  b[i] = 1\nend", "a line ends after"),
        ("b[i] = 1;", "a line of its own"),
        ("b[i] = 'x'", "expressions cannot contain text"),
        ("float t = 3", "declared as <> name"),
        ("b[i] = a[i][0]", "a[i, j] for a[i][j]"),
        ("b[i][0] = 1", "a[i, j] for a[i][j]"),
        ("c = a @ b", "sum(k, a[i, k]*b[k, j])"),
        ("s = sum(a[i] for i in n)", "sum(i, a[i])"),
        ("if i > 2 then", "a line ends after"),
        ("if i > 2\nelse if i > 1\nend", "write elif condition"),
        ("if i > 2\nendif", "write end"),
        ("b[i]++", "a[i] += 1"),
        ("<> x", "declared where it gets a value"),
        ("return a", "an instruction is an assignment"),
        ("<> t := 3", "defines a substitution rule"),
    ],
)
def test_what_other_languages_write_otherwise_has_a_hint(text: str, hint: str) -> None:
    with pytest.raises(KgenSyntaxError) as info:
        parse_instructions(text)
    assert hint in str(info.value)


def test_instructions_are_text_or_objects() -> None:
    with pytest.raises(KernelError, match=r"an instruction is text, .* not int"):
        parse_instructions(3)
