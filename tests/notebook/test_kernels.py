"""Kernels as HTML: instructions, and the lines of code that are linked to them."""

from __future__ import annotations

from html.parser import HTMLParser

import kgen as lp
from kgen.codegen import generate_lines


def product() -> lp.TranslationUnit:
    knl = lp.make_kernel(
        "{ [i, j, k]: 0 <= i, j, k < n }",
        "c[i, j] = sum(k, a[i, k]*b[k, j]) {id=dot}\nd[i, j] = c[i, j] < 1 {id=small, dep=dot}",
        [lp.GlobalArg("a, b", "float32", shape="n, n"), ...],
        target=lp.OpenCLTarget(),
    )
    return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


class Linked(HTMLParser):
    """Collects the texts of elements that name instructions, and checks that all are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[tuple[str, str | None]] = []
        self.texts: dict[tuple[str, str], str] = {}
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append((tag, dict(attrs).get("data-insn")))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        for tag, insn in self.open:
            if insn is not None:
                self.texts[tag, insn] = self.texts.get((tag, insn), "") + data


def test_instructions_and_their_lines() -> None:
    found = Linked(product()._repr_html_()).texts
    assert "c[i_inner + i_outer*16, j] = " in found["tr", "dot"]
    assert found["span", "dot"].startswith("      float acc_k = 0.0f;        acc_k += ")
    assert "d[" in found["span", "small"]
    assert "< 1.0f" in found["span", "small"] or "< 1" in found["span", "small"]


def test_lines_of_copies_of_an_instruction() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 3 }", "a[i] = 2*i {id=set}", target=lp.CTarget())
    lines = generate_lines(lp.tag_inames(knl, "i:unr"))
    assert [line.text.strip() for line in lines if line.insn_ids == ("set",)] == [
        "a[0] = 0;",
        "a[1] = 2;",
        "a[2] = 4;",
    ]


def test_lines_of_equal_text_belong_to_their_own_instructions() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }", "a[0] = 1 {id=first}\na[0] = 1 {id=last, dep=first}",
        target=lp.CTarget(),
    )  # fmt: skip
    lines = generate_lines(knl)
    assert [line.insn_ids for line in lines if line.insn_ids] == [("first",), ("last",)]


def test_lanes_of_vectors_have_their_instruction() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 64 }", "b[i] = 2*a[i] {id=scale}",
        [lp.GlobalArg("a", "float32", shape=64), ...], target=lp.OpenCLTarget(),
    )  # fmt: skip
    knl = lp.split_iname(knl, "i", 4, inner_tag="vec")
    knl = lp.split_array_axis(lp.split_array_axis(knl, "a", 0, 4), "b", 0, 4)
    knl = lp.tag_array_axes(lp.tag_array_axes(knl, "a", "C, vec"), "b", "C, vec")
    assert [line.insn_ids for line in generate_lines(knl) if "*" in line.text and "a[" in line.text]
    assert any(line.insn_ids == ("scale",) for line in generate_lines(knl))


def test_a_kernel_without_code_says_why() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "b[i] = a[i]", target=lp.CTarget())
    text = knl.default_entrypoint._repr_html_()
    assert "no code: in kernel" in text
    assert Linked(text).texts["tr", "insn"].startswith("insnib[i] = a[i]")


def test_names_are_escaped_and_rules_are_those_of_the_kernel() -> None:
    text = product()._repr_html_()
    assert 'data-insn~="dot"]:hover' in text
    assert "0 &lt;= j &lt; n" in text
    assert "<script" not in text


def test_rules_of_a_kernel() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 4 }", "twice(x) := 2*x\na[i] = twice(i)", target=lp.CTarget()
    )
    assert "<pre>twice(x) := 2*x</pre>" in knl._repr_html_()
