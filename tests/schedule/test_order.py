"""The order of instructions and loops in a body."""

from __future__ import annotations

from typing import Any

import pytest

import kgen as lp
from kgen.errors import DependencyCycleFound, ScheduleError
from kgen.ir.kernel import LoopKernel
from kgen.ir.stages import PreparedKernel
from kgen.schedule.place import schedule_kernel


def order(unit: lp.TranslationUnit) -> str:
    return " ".join(str(schedule_kernel(PreparedKernel(unit.default_entrypoint))).split()[2:])


def test_program_order_breaks_ties() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "b[i] = 0 {id=b}\na[i] = 1 {id=a}")
    assert order(knl) == "for i run b, a"


def test_a_dependency_overrules_program_order() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "b[i] = 0 {id=b, dep=a}\na[i] = 1 {id=a}")
    assert order(knl) == "for i run a, b"


def test_instruction_priority_comes_before_program_order() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "b[i] = 0 {id=b}\na[i] = 1 {id=a, priority=1}")
    assert order(knl) == "for i run a, b"


def test_a_dependency_holds_for_whole_loops_that_are_not_shared() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < n}", "b[j] = a[j] {id=b, dep=a}\na[i] = 1 {id=a}")
    assert order(knl) == "for i run a for j run b"


def test_a_cycle_is_printed() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "a[i] = 0 {id=a, dep=b}\nb[i] = 1 {id=b, dep=a}")
    with pytest.raises(lp.DependencyCycleFound, match="'a' depends on 'b' depends on 'a'"):
        order(knl)


def test_each_edge_of_a_cycle_says_where_it_comes_from() -> None:
    text = [
        "a[i] = c[i] {id=x%s}",
        "b[i] = a[i] {id=y}",
        "d[i] = b[i] {id=z, dep=*y:w}",
        "c[i] = 1 {id=w%s}",
    ]

    def nests(x: str, w: str) -> str:
        return order(lp.make_kernel("{[i]: 0 <= i < n}", "\n".join(text) % (x, w)))

    with pytest.raises(DependencyCycleFound) as caught:
        nests("", ", dep=y:z")
    assert "'y' depends on 'x', the only writer of 'a', which it reads" in str(caught.value)
    assert "'w' depends on 'y', by its dep=y" in str(caught.value)
    assert "write {dep=*} on 'x'" in str(caught.value)
    with pytest.raises(DependencyCycleFound, match="hint: remove dep=w from 'z'"):
        nests(", dep=*", ", dep=z")
    assert nests(", dep=*", "") == "for i run x, y, w, z"


def test_a_loop_cannot_be_left_and_entered_again() -> None:
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        a[i] = 0 {id=a}
        b[j] = 1 {id=b, dep=a}
        c[i] = 2 {id=c, dep=b}
        """,
    )
    with pytest.raises(lp.DependencyCycleFound, match="loop 'i' depends on loop 'j'"):
        order(knl)


def test_a_cycle_of_what_was_inferred_says_how_not_to() -> None:
    text = "for t\n v[i] = u[i] {id=a%s}\n u[j] = v[j] {id=b, dep=a}\nend"
    data = [lp.GlobalArg("u, v", "float64", shape="n"), ...]

    def code(more: str) -> str:
        domain = "{[t, i, j]: 0 <= t < m and 0 <= i, j < n}"
        knl = lp.make_kernel(domain, text % more, data, target=lp.CTarget())
        return lp.generate_code_v2(knl).device_code()

    with pytest.raises(lp.DependencyCycleFound, match=r"write \{dep=\*\} on 'a', which then"):
        code("")
    assert "v[i] = u[i]" in code(", dep=*")


def test_a_cycle_names_instructions_loops_and_the_barrier_between() -> None:
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        for i
            a[i, j] = 0 {id=there}
            b[i] = a[i, 0] {id=back, dep=mid}
        end
        ... gbarrier {id=mid, dep=there}
        """,
        [lp.GlobalArg("a", "float32", "n, n"), ...],
    )
    with pytest.raises(lp.DependencyCycleFound) as info:
        order(knl)
    text = str(info.value)
    assert "'back' in loop 'i' depends on the global barrier 'mid'" in text
    assert "the global barrier 'mid' depends on 'there' in loop 'i'" in text
    assert "duplicate_inames(kernel, 'i', within='id:back')" in text
    assert order(lp.duplicate_inames(knl, "i", within="id:back")) == (
        "for i for j run there launch kgen_kernel_0 for i_0 run back"
    )


def test_conflicting_groups_do_not_interleave() -> None:
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        a[i] = 0 {id=a, groups=g}
        b[i] = 1 {id=b, conflicts=g}
        c[i] = 2 {id=c, groups=g}
        """,
    )
    assert order(knl) == "for i run a, c, b"


def test_different_predicates_make_different_blocks() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "a[i] = 0 {id=a}\nb[i] = 1 {id=b, if=i > 2}")
    assert order(knl) == "for i run a run b"


def test_ilp_repeats_each_instruction_innermost() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < 4}", "a[i, j] = 0\nb[i, j] = 1")
    knl = lp.tag_inames(knl, {"j": "ilp"})
    assert order(knl) == "for i unroll j run insn unroll j run insn_0"


def test_a_global_barrier_splits_the_kernel() -> None:
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        for i
          a[i] = 0 {id=a}
          ... gbarrier {id=g, dep=a}
          b[i] = a[n - i - 1] {id=b, dep=g}
        end
        """,
        name="two",
    )
    knl = lp.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    names = [
        launch.name for launch in schedule_kernel(PreparedKernel(knl.default_entrypoint)).launches
    ]
    assert names == ["two", "two_0"]


@pytest.mark.parametrize("names", ["uv", "uvw", "uvwx"])
def test_hints_of_cycles_in_time_loops_work(names: str) -> None:
    def steps(broken: str = "", **settings: Any) -> LoopKernel:
        text = [
            f"{name}[i] = {names[k - 1]}[i] + 1 {{id=new_{name}, inames=t:i{broken * (k == 0)}}}"
            for k, name in enumerate(names)
        ]
        data = [lp.GlobalArg(",".join(names), "float64", shape="n"), "..."]
        unit = lp.make_kernel("{[t,i]: 0<=t<3 and 0<=i<n}", text, data, **settings)
        lp.generate_code_v2(unit)
        return unit.default_entrypoint

    with pytest.raises(DependencyCycleFound) as caught:
        steps()
    assert "write {dep=*} on 'new_u'" in str(caught.value)
    assert "seq_dependencies=True" in str(caught.value)
    steps(", dep=*")
    steps(seq_dependencies=True)


def test_a_hint_keeps_only_dependencies_that_make_no_cycle() -> None:
    def steps(broken: str = "") -> None:
        text = [
            f"u[i] = v[i] + w[i] {{id=u, inames=t:i{broken}}}",
            "v[j] = u[j] {id=v, inames=t:j, dep=u}",
            "w[k] = u[k] {id=w, inames=t:k, dep=u}",
        ]
        data = [lp.GlobalArg("u, v, w", "float64", shape="n"), "..."]
        lp.generate_code_v2(lp.make_kernel("{[t,i,j,k]: 0<=t<3 and 0<=i,j,k<n}", text, data))

    with pytest.raises(DependencyCycleFound, match=r"write \{dep=\*\} on 'u'"):
        steps()
    steps(", dep=*")


def test_a_cycle_names_instructions_with_sums_instead_of_their_steps() -> None:
    knl = lp.make_kernel(
        "{ [e, a, q, l]: 0 <= e < n and 0 <= a, q, l < 3 }",
        """
        for e
            u[a] = x[e, a]               {id=gather}
            g[q] = sum(l, d[q, l]*u[l])  {id=g}
            y[e, a] = sum(l, d[l, a]*g[l]) {id=back}
        end
        """,
        [lp.GlobalArg("x, y, d", "float64"), lp.TemporaryVariable("u, g", "float64", "3"), ...],
    )
    with pytest.raises(DependencyCycleFound) as caught:
        lp.generate_code_v2(knl)
    assert "'back' in loop 'a' depends on 'g' in loop 'q', the only writer of 'g'" in str(
        caught.value
    )
    hint = "duplicate_inames(kernel, 'a', within='id:back') gives 'back' a loop of its own"
    assert str(caught.value).endswith(hint)
    lp.generate_code_v2(lp.duplicate_inames(knl, "a", within="id:back"))


@pytest.mark.parametrize(("tag", "refused"), [("vec", True), ("ilp.seq", True), ("unr", False)])
@pytest.mark.parametrize("turn", ["k % 2", "(k + 1) % 2", "k"])
def test_copies_in_turns_of_a_private_buffer_are_not_swapped(
    tag: str, refused: bool, turn: str
) -> None:
    t = lp.TemporaryVariable("t", "int32", (4, 2), lp.AddressSpace.PRIVATE)
    knl = lp.make_kernel(
        "{[k, f, u]: 0 <= k < 3 and 0 <= f, u < 2}",
        f"""
        t[{turn}, f] = a[k, f]   {{id=w, inames=k:f}}
        b[k, u] = t[{turn}, u]   {{id=r, inames=k:u, dep=w}}
        """,
        [t, lp.GlobalArg("a,b", "int32", (3, 2))],
        target=lp.CTarget(),
    )
    knl = lp.tag_inames(knl, f"k:{tag}")
    if refused and turn != "k":
        with pytest.raises(ScheduleError, match=r"'r' reads .*, and later 'w' writes"):
            lp.generate_code_v2(knl)
        assert [finding.check for finding in lp.verify(knl).violated] == ["schedule"]
    else:
        lp.generate_code_v2(knl)


@pytest.mark.parametrize("tags", ["i:ilp, j:ilp", "i:ilp.seq, j:ilp", "i:ilp, j:vec"])
@pytest.mark.parametrize("step", [(1, 1), (1, -1), (0, 1), (-1, 1), (-1, -1), (0, -1), (0, 0)])
def test_dependences_that_cross_two_copied_loops_are_refused(
    tags: str, step: tuple[int, int]
) -> None:
    """What comes in an earlier iteration of both loops together is overwritten before."""
    data = [lp.GlobalArg("a, b, out", "float64", shape=(8, 8))]
    knl = lp.make_kernel(
        "{ [i,j]: 1<=i,j<5 }",
        f"b[i, j] = a[i, j] {{id=w}}\nout[i, j] = b[i + {step[0]}, j + {step[1]}] {{id=r, dep=w}}",
        data,
        target=lp.CTarget(),
    )
    knl = lp.tag_inames(knl, tags)
    if step > (0, 0):
        with pytest.raises(ScheduleError, match=r"'r' reads .*, and later 'w' writes"):
            lp.generate_code_v2(knl)
    else:
        lp.generate_code_v2(knl)


def test_copies_of_two_sums_over_one_loop_are_compared_for_all_its_iterations() -> None:
    knl = lp.make_kernel(
        "{ [i,k]: 0<=i,k<4 }",
        "b[i] = sum(k, a[i + k]) {id=w}\nout[i] = sum(k, b[i + k]) {id=r, dep=w}",
        [lp.GlobalArg("a, b, out", "float64", shape=8)],
        target=lp.CTarget(),
    )
    with pytest.raises(ScheduleError, match=r"'r_k_update' reads .*, and later 'w' writes"):
        lp.generate_code_v2(lp.tag_inames(knl, "i:ilp"))


def test_an_instruction_outside_of_a_loop_may_be_meant_for_each_iteration() -> None:
    text = "<> t = a[i]\nt = t*t {id=square%s}\nb[i] = t"
    domain, data = "{ [i]: 0 <= i < n }", [lp.GlobalArg("a, b", "float32", shape="n"), "..."]
    knl = lp.make_kernel(domain, text % "", data, seq_dependencies=True)
    with pytest.raises(lp.DependencyCycleFound, match=r"in each iteration of 'i', .*{inames=i}"):
        lp.generate_code_v2(knl)
    knl = lp.make_kernel(domain, text % ", inames=i", data, seq_dependencies=True)
    assert "t *= t" in lp.generate_body(knl)
