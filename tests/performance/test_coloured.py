"""The report of ``explain`` as tables in colour, in terminals only, and as HTML."""

from __future__ import annotations

import io

from rich.console import Console

import kgen as lp


def explained() -> lp.Explanation:
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i, j < n }", "b[i, j] = a[i] + c[j]",
        [lp.GlobalArg("a, c", "float32"), ...], target=lp.OpenCLTarget(),
    )  # fmt: skip
    return lp.explain(lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0"))


def test_colours_say_what_is_fast() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system="standard", width=160)
    console.print(explained())
    lines = file.getvalue().splitlines()
    assert any("\x1b[32m" in line and "coalesced along i_inner" in line for line in lines)
    assert any("\x1b[33m" in line and "strided by n along i_inner" in line for line in lines)


def test_plain_text_where_there_is_no_terminal() -> None:
    file = io.StringIO()
    explained().show(file)
    assert file.getvalue() == f"{explained()}\n"


def test_tables_in_notebooks() -> None:
    text = explained()._repr_html_()
    assert "<td>i_inner</td><td>vector(64)</td>" in text
    assert "<td>a[i_inner + i_outer*64]</td><td>coalesced along i_inner</td>" in text
