"""Values that the code reads have been set: guards around loops with computed bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ast.definite import check_definite_assignment
from kgen.ast.nodes import Block, For, If, Node
from kgen.ir.expr import variable_names
from kgen.ir.tree import children_of, map_children
from kgen.lowering import Lowered, generate_module, lower

ROWS = """
for b
    <> f = flag[b] {id=f}
    <> s = starts[b] {id=s, IF}
    <> e = starts[b + 1] {id=e, IF}
    for i
        <> x[d] = a[d, i] {id=x, IF}
        acc[b] = acc[b] + x[0]*x[1] {id=acc, IF}
    end
end
"""


def rows(condition: str = "") -> Any:
    """Return a kernel for rows of a sparse matrix, in work-groups that may reach beyond the end."""
    knl = lp.make_kernel(
        ["{[b]: 0<=b<n}", "{[i]: s<=i<e}", "{[d]: 0<=d<2}"],
        ROWS.replace(", IF", f", if={condition}" if condition else ""),
        [
            lp.GlobalArg("starts,flag", np.int32, shape=None),
            lp.GlobalArg("a", np.float32, shape="2, m"),
            lp.GlobalArg("acc", np.float32, shape="n"),
            ...,
        ],
        seq_dependencies=True,
        target=lp.OpenCLTarget(),
    )
    knl = lp.split_iname(knl, "b", 64, outer_tag="g.0", inner_tag="l.0")
    return lp.tag_inames(knl, "d:unr")


def test_a_guard_stands_around_a_loop_with_computed_bounds() -> None:
    code = generate_module(rows()).device_source
    guard, loop = code.index("if (64 * gid(0) + lid(0) < n)"), code.index("for (int i = s; i < e")
    assert guard < loop
    assert code.count("if (") == 1


def test_a_condition_on_data_stands_around_a_loop_with_computed_bounds() -> None:
    code = generate_module(rows("f > 0")).device_source
    assert code.index("if (f > 0)") < code.index("for (int i = s; i < e")
    assert code.count("if (f > 0)") == 1


def guards_moved_inwards(node: Node) -> Iterator[Node]:
    """Give the tree with each guard of a loop with computed bounds put into the loop."""
    if isinstance(node, If) and any(_is_computed(c) for c in _below(node.body)):
        yield _into_loops(node.body, node)
    for child in children_of(node):
        for changed in guards_moved_inwards(child):
            yield _with_child(node, child, changed)


def _with_child(node: Node, old: Node, new: Node) -> Node:
    return map_children(node, lambda child: new if child is old else child)


def _below(node: Node) -> Iterator[Node]:
    yield node
    for child in children_of(node):
        yield from _below(child)


def _is_computed(node: Node) -> bool:
    return isinstance(node, For) and "e" in variable_names(node.stop)


def _into_loops(node: Node, guard: If) -> Node:
    if isinstance(node, For):
        return replace(node, body=replace(guard, body=node.body))
    if isinstance(node, Block | If):
        return map_children(node, lambda child: _into_loops(child, guard))
    return replace(guard, body=node)


@pytest.mark.parametrize(("condition", "count"), [("", 1), ("f > 0", 2)])
def test_a_guard_that_is_missing_around_such_a_loop_is_found(condition: str, count: int) -> None:
    lowered: Lowered = lower(rows(condition).default_entrypoint)
    (function,) = lowered.functions
    assert check_definite_assignment(lowered.kernel, function, frozenset()) is function
    changed = list(guards_moved_inwards(function.body))
    assert len(changed) == count
    for body in changed:
        moved = replace(function, body=body)
        with pytest.raises(lp.CodegenError, match="has not been set"):
            check_definite_assignment(lowered.kernel, moved, frozenset())


def test_what_conditions_on_data_decide_is_up_to_the_user() -> None:
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        <> t = a[i] {id=t, if=a[i] > 1}
        b[i] = t {dep=t, if=a[i] > 2}
        """,
        [lp.GlobalArg("a,b", np.float32, shape="n"), ...],
        target=lp.CTarget(),
    )
    assert "t = a[i]" in generate_module(knl).device_source


@pytest.mark.parametrize("condition", ["", "flag[b]"])
def test_guards_stand_around_conditions_that_read_computed_bounds(condition: str) -> None:
    knl = lp.make_kernel(
        ["{[b]: 0<=b<n}", "{[i]: s<=i<e}"],
        f"""
        for b
            if {condition or "b >= 0"}
                <> s = starts[b] {{id=s}}
                <> e = starts[b + 1] {{id=e}}
                acc[b] = sum(i, a[i]) {{dep=s:e}}
            end
        end
        """,
        [lp.GlobalArg("starts,flag", "i4", shape=None), lp.GlobalArg("a", "f4", shape="m"), ...],
        target=lp.OpenCLTarget(),
    )
    knl = lp.split_iname(knl, "b", 64, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_reduction_inward(lp.split_iname(knl, "i", 4, inner_tag="ilp"), "i_outer")
    code = generate_module(knl).device_source
    assert code.index("64 * gid(0) + lid(0) < n") < code.index("s = starts[") < code.index("s < e")
    assert code.count(" < n") == 1
    assert code.count("flag[") == bool(condition)


def test_the_guard_of_a_loop_with_barriers_is_that_of_the_group() -> None:
    knl = lp.make_kernel(
        ["{[g]: 0<=g<n}", "{[i]: s<=i<e}", "{[l, m]: 0<=l, m<64}"],
        """
        for g
            <> s = starts[g]
            <> e = starts[g + 1]
            for i
                <> t[l] = a[i]*l {id=t}
                y[g, m] = y[g, m] + t[63 - m] {dep=t}
            end
        end
        """,
        [
            lp.GlobalArg("starts", np.int32, shape="n + 1"),
            lp.GlobalArg("a", np.float32, shape=None),
            lp.GlobalArg("y", np.float32, shape="n, 64"),
            ...,
        ],
        seq_dependencies=True,
        target=lp.OpenCLTarget(),
    )
    knl = lp.tag_inames(lp.split_iname(knl, "g", 2, outer_tag="g.0"), "l:l.0, m:l.0")
    code = generate_module(knl).device_source
    assert code.count("barrier(") == 2
    assert "if (" not in code


@pytest.mark.parametrize(
    ("value", "is_set"),
    [
        ("t if i >= 3 else a[i]", True),
        ("a[i] if i < 3 else t", True),
        ("2*(a[i] if i < 2 else t)", False),
        ("(t if i >= 3 else 0) + t", False),
    ],
)
def test_a_choice_reads_what_it_chooses(value: str, is_set: bool) -> None:
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        f"<> t = a[i] {{id=t, if=i >= 3}}\nb[i] = {value} {{dep=t}}",
        [lp.GlobalArg("a,b", np.float32, shape="n"), ...],
        target=lp.CTarget(),
    )
    if is_set:
        assert lower(knl.default_entrypoint).functions
        return
    with pytest.raises(lp.KgenError, match=r"has not been set|nothing can have written"):
        lower(knl.default_entrypoint)


@pytest.mark.parametrize("condition", ["i == n", "i < 4 and i > 7", "n < 1"])
def test_a_choice_that_is_never_taken_needs_nothing(condition: str) -> None:
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        f"""
        for i
            <> t = a[i]  {{id=t}}
            ... gbarrier {{id=wait, dep=t}}
            b[i] = t if {condition} else 2  {{dep=wait}}
        end
        """,
        [lp.GlobalArg("a,b", np.float32, shape="n"), ...],
        target=lp.OpenCLTarget(),
    )
    knl = lp.save_and_reload_temporaries(
        lp.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    )
    assert len(lower(knl.default_entrypoint).functions) == 2


LATER = """
    <> s = starts[i]          {id=s}
    <> e = starts[i + 1]      {id=e}
    <int32> t = c[j]          {id=t, dep=s:e, inames=i:j}
"""


def after_a_loop(use: str, last: str = "e", start: str = "") -> lp.TranslationUnit:
    """Make a kernel that uses, behind a loop over data, what that has set."""
    return lp.make_kernel(
        ["{ [i]: 0<=i<8 }", f"{{ [j]: s<=j<{last} }}", "{ [k]: 0<=k<t }"],
        start + LATER + use,
        [
            lp.GlobalArg("starts", np.int32, shape=9),
            lp.GlobalArg("c, out", np.int32, shape=8),
            "...",
        ],
        target=lp.CTarget(),
    )


def checks(knl: lp.TranslationUnit, status: str) -> set[str]:
    found = lp.verify(knl).findings
    return {f.check for f in found if f.status.value == status} & {"definition", "assignment"}


def test_a_loop_that_may_have_no_iteration_does_not_set_the_end_of_a_loop_behind() -> None:
    knl = after_a_loop("out[k] = k {id=out, dep=t, inames=i:k}")
    with pytest.raises(lp.CodegenError, match=r"the code reads 't' in 'for k = 0 \.\. t'"):
        lp.generate_code_v2(knl)
    assert checks(knl, "violated") == {"assignment"}


def test_what_an_instruction_reads_behind_a_loop_over_data_is_unknown() -> None:
    knl = after_a_loop("out[i] = t {id=out, dep=t, inames=i}")
    lp.generate_code_v2(knl)
    assert checks(knl, "unknown") == {"definition"}


@pytest.mark.parametrize("use", ["out[k] = k {dep=t, inames=i:k}", "out[i] = t {dep=t, inames=i}"])
def test_what_is_set_in_any_case_is_proved(use: str) -> None:
    start = "t = 0 {id=zero, inames=i}"
    knl = after_a_loop(use.replace("dep=t", "dep=t:zero"), start=start)
    knl = lp.add_dependency(knl, "id:t", "id:zero")
    lp.generate_code_v2(knl)
    assert checks(knl, "proved") == {"definition", "assignment"}
    assert checks(after_a_loop(use, last="s + 1"), "violated") == set()


def test_ways_that_are_not_taken_are_no_part_of_the_question() -> None:
    knl = lp.make_kernel(
        "{ [i]: m <= 3*i < n }",
        "out[3*i - m] = a[3*i - m] {if=i % 3 < 2}",
        [lp.GlobalArg("a, out", "int32", shape=13), lp.ValueArg("n, m", "int32")],
        assumptions="0 <= m <= n <= m + 12",
        target=lp.OpenCLTarget(),
    )
    knl = lp.split_iname(knl, "i", 5, inner_tag="vec", slabs=(0, 1))
    knl = lp.split_iname(knl, "i_outer", 2, slabs=(0, 1), within="id:insn")
    knl = lp.add_prefetch(knl, "a", "i_outer_inner", default_tag="unr")
    assert "a_fetch[4] = a[" in lp.generate_code_v2(knl).device_code()


def test_iterations_of_strided_loops_are_known() -> None:
    knl = lp.make_kernel(
        "{ [i, j]: 1 <= i < 3 and 0 <= j < n and j mod 2 = 1 }",
        "out[i, j] = a[i] {if=i < j}",
        [lp.GlobalArg("a", "int32", shape=3), lp.GlobalArg("out", "int32", shape="3, n"), ...],
        target=lp.CTarget(),
    )
    fetched = lp.add_prefetch(knl, "a", "i", default_tag=None)  # where j = 3 < n
    assert "if (n >= 4)" in lp.generate_code_v2(fetched).device_code()
