"""Barriers: where work-items meet, and no more than needed."""

from __future__ import annotations

import itertools
import random
import warnings
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import kgen as lp
from kgen import lowering
from kgen.ir.expr import Expr
from kgen.ir.language.expressions import parse
from kgen.ir.types import Memory
from kgen.lowering import lower
from kgen.schedule.conflicts import Conflicts
from kgen.schedule.place import schedule_kernel
from kgen.schedule.sync import Span, choose_boundaries


def schedule(unit: lp.TranslationUnit, **dtypes: str) -> str:
    return str(lower(unit.default_entrypoint, dtypes).schedule)


def shift(distance: int) -> lp.TranslationUnit:
    knl = lp.make_kernel(
        "{[g, i, j]: 0 <= g < n and 0 <= i < 16 and 0 <= j < 16}",
        f"""
        <> t[i] = a[g, i] {{id=write}}
        out[g, j] = t[(j + {distance}) % 16] {{id=read, dep=write}}
        """,
        assumptions="n >= 1",
    )
    knl = lp.tag_inames(knl, "g:g.0, i:l.0, j:l.0")
    return lp.set_temporary_address_space(knl, "t", "local")


def test_a_barrier_between_write_and_read_of_another_work_item() -> None:
    assert schedule(shift(1), a="float32").count("barrier local") == 1


def test_no_barrier_where_each_work_item_reads_its_own() -> None:
    assert "barrier" not in schedule(shift(0), a="float32")


def test_the_reason_stands_with_the_barrier() -> None:
    assert "# for t (read depends on write)" in schedule(shift(1), a="float32")


def test_a_loop_around_needs_one_more_for_the_next_iteration() -> None:
    knl = lp.make_kernel(
        "{[g, k, i, j]: 0 <= g, k < n and 0 <= i, j < 16}",
        """
        <> t[i] = a[g, k, i] {id=write}
        out[g, k, j] = t[15 - j] {id=read, dep=write}
        """,
        assumptions="n >= 1",
    )
    knl = lp.tag_inames(knl, "g:g.0, i:l.0, j:l.0")
    knl = lp.set_temporary_address_space(knl, "t", "local")
    assert schedule(knl, a="float32").count("barrier local") == 2


def test_loops_further_out_need_no_more_than_the_innermost() -> None:
    knl = lp.make_kernel(
        "{[g, k, l, i, j]: 0 <= g, k, l < n and 0 <= i, j < 16}",
        """
        <> t[i] = a[g, k, l, i] {id=write}
        out[g, k, l, j] = t[15 - j] {id=read, dep=write}
        """,
        assumptions="n >= 1",
    )
    knl = lp.set_temporary_address_space(knl, "t", "local")
    knl = lp.prioritize_loops(lp.tag_inames(knl, "g:g.0, i:l.0, j:l.0"), "k,l")
    text = schedule(knl, a="float32")
    assert text.count("barrier local") == 2
    assert "for l\n        barrier local  # for t (write rev-depends on read)" in text


def test_two_groups_on_one_element_need_a_global_barrier() -> None:
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        "for i\n<> tmp = arr[i] {id=get, dep=*}\narr[(i + 1) % n] = tmp {id=put, dep=*get}\nend",
        [lp.GlobalArg("arr", dtype="int32", shape="n"), "..."],
        name="rotate",
        assumptions="n mod 16 = 0 and n >= 16",
    )
    knl = lp.split_iname(knl, "i", 16, inner_tag="l.0", outer_tag="g.0")
    with pytest.raises(lp.MissingBarrierError, match=r"'put depends on get'.*variable 'arr'"):
        schedule(knl)


def test_nosync_takes_the_users_word() -> None:
    knl = lp.make_kernel(
        "{[g, i, j]: 0 <= g < n and 0 <= i, j < 16}",
        """
        <> t[i] = a[g, i] {id=write}
        out[g, j] = t[15 - j] {id=read, dep=write, nosync=write}
        """,
        assumptions="n >= 1",
    )
    knl = lp.tag_inames(knl, "g:g.0, i:l.0, j:l.0")
    knl = lp.set_temporary_address_space(knl, "t", "local")
    assert "barrier" not in schedule(knl, a="float32")


def _brute_force(spans: list[Span], count: int) -> int:
    for size in range(count + 1):
        for chosen in itertools.combinations(range(count), size):
            if all(any(span.holds(b) for b in chosen) for span in spans):
                return size
    raise AssertionError("no choice meets all needs")


@pytest.mark.parametrize("seed", range(60))
def test_the_fewest_boundaries_are_chosen(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(1, 7)
    spans = [
        Span(rng.randrange(count), rng.randrange(count), Memory.LOCAL, "")
        for _ in range(rng.randint(0, 6))
    ]
    chosen = choose_boundaries(spans, count)
    assert all(any(span.holds(b) for b in chosen) for span in spans)
    assert len(chosen) == _brute_force(spans, count)
    for span in spans:
        assert sorted(span.among(chosen)) == [b for b in chosen if span.holds(b)]


def test_a_barrier_for_both_memories_fences_both() -> None:
    knl = lp.make_kernel(
        "{ [g, i, j]: 0 <= g < n and 0 <= i, j < 16 }",
        """
        <> t[i] = a[g, i] {id=fill}
        b[g, i] = i {id=put}
        c[g, j] = t[15 - j] + b[g, 15 - j] {dep=fill:put}
        """,
        target=lp.OpenCLTarget(),
    )
    knl = lp.add_dtypes(knl, {"a": "float32", "b": "int32"})
    knl = lp.set_temporary_address_space(knl, "t", "local")
    knl = lp.tag_inames(knl, "g:g.0, i:l.0, j:l.0")
    text = lp.generate_code_v2(knl).device_code()
    assert "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)" in text


def two_launches() -> lp.TranslationUnit:
    return lp.make_kernel(
        ["{ [i]: 0 <= i < n }", "{ [j, k]: 0 <= j < m and 0 <= k < 4 }"],
        """
        a[i] = 1 {id=first}
        ... gbarrier {id=wait, dep=first}
        b[j, k] = 2 {dep=wait}
        """,
        target=lp.CudaTarget(),
    )


def test_each_launch_has_a_grid_of_its_own() -> None:
    knl = lp.split_iname(two_launches(), "i", 16, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.0")
    first, second = lower(knl.default_entrypoint, {"a": "int32", "b": "int32"}).functions
    assert (str(first.groups), first.locals) == (str(parse_all("(n + 15) // 16")), (16,))
    assert (str(second.groups), second.locals) == (str(parse_all("(m + 31) // 32")), (32,))


def test_an_axis_must_be_used_in_its_own_launch_only() -> None:
    knl = lp.tag_inames(two_launches(), "i:g.0, j:g.0, k:l.0")
    first, second = lower(knl.default_entrypoint, {"a": "int32", "b": "int32"}).functions
    assert (first.locals, second.locals) == ((), (4,))


def parse_all(*texts: str) -> tuple[Expr, ...]:
    return tuple(parse(text) for text in texts)


def test_a_launch_without_work_has_a_grid() -> None:
    knl = lp.make_kernel("{ [i]: 3 <= i < 3 }", "a[i] = 1", [lp.GlobalArg("a", shape="4")])
    knl = lp.tag_inames(knl, "i:l.0")
    (function,) = lower(knl.default_entrypoint, {"a": "int32"}).functions
    assert function.locals == (1,)


def test_an_axis_that_starts_elsewhere_is_compared_by_index() -> None:
    knl = lp.make_kernel(
        "{ [g, i, j]: 0 <= g < n and 3 <= i < 7 and 0 <= j < 7 }",
        """
        <> t[i] = a[g, i] {id=write}
        if 3 <= j
            out[g, j] = t[j] {id=read, dep=write}
        end
        """,
    )
    knl = lp.set_temporary_address_space(knl, "t", "local")
    knl = lp.tag_inames(knl, "g:g.0, i:l.0, j:l.0")  # t[3] is written by 0 and read by 3
    assert "barrier" in schedule(knl, a="float32")


def overwriting(text: str, tags: str) -> str:
    data = [lp.GlobalArg("a, c", "float32", shape="8"), lp.GlobalArg("b", "int32", shape="4")]
    knl = lp.make_kernel("{ [i, j]: 0 <= i, j < 4 }", text, data, target=lp.CudaTarget())
    return schedule(lp.tag_inames(knl, tags))


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("a[i] = j", "j:g.0"),
        ("a[i] = a[i] + j", "j:l.0"),
        ("a[0] = a[0] + 0*i", "i:l.0"),
        ("a[i // 2] = b[i]", "i:l.0"),
        ("a[i + j] = i", "i:l.0, j:g.0"),
        ("a[j] = c[j] {id=one, dep=*, inames=i:j}\nc[j] = 2*a[j] {dep=one, inames=i:j}", "i:l.0"),
    ],
)
def test_different_values_from_several_work_items_are_refused(text: str, tags: str) -> None:
    with pytest.raises(lp.WriteRaceError, match=r"id0 = [^;]* and work-item"):
        overwriting(text, tags)


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("a[i // 2] = 1", "i:l.0"),
        ("a[i // 2] = b[i // 2]", "i:l.0"),
        ("a[i + j] = 1", "i:l.0, j:g.0"),
        ("a[b[i]] = i", "i:g.0"),
        ("a[i] = j {if=b[i] == j}", "j:l.0"),
    ],
)
def test_a_possible_race_is_reported(text: str, tags: str) -> None:
    with pytest.warns(lp.WriteRaceConditionWarning, match=r"write_race\(insn\)"):
        overwriting(text, tags)


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("a[2*i] = 1", "i:l.0"),
        ("a[i + j] = 1", "i:l.0"),
        ("a[0] = 1 {if=i == 2}", "i:l.0"),
        ("a[b[i]] = 1", "i:g.0"),
        ("a[i] = j {if=b[i] == i}", "i:l.0"),
        ("a[0] = a[0] + 1 {atomic}", "i:l.0"),
    ],
)
@pytest.mark.filterwarnings("error::kgen.WriteRaceConditionWarning")
def test_a_write_by_one_work_item_is_not(text: str, tags: str) -> None:
    overwriting(text, tags)


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("a[i] = a[i] + a[i + 1]", "i:l.0"),
        ("a[i + 1] = a[i]", "i:g.0"),
        ("a[7 - i] = a[i + j]", "i:l.0"),
        ("a[i + j] = a[i + 3 - j]", "j:l.0"),
    ],
)
def test_reading_what_other_work_items_write_at_once_is_refused(text: str, tags: str) -> None:
    with pytest.raises(lp.WriteRaceError, match=r"(?s)'insn' reads elements .* at element \["):
        overwriting(text, tags)


@pytest.mark.parametrize(
    "text", ["a[i] = a[i] + a[b[i]]", "a[i] = a[i + 1] {if=b[i] > 0}", "a[i] = a[i*i] + a[i]"]
)
def test_reading_what_others_may_write_is_reported(text: str) -> None:
    with pytest.warns(lp.WriteRaceConditionWarning, match="'insn' may read elements of 'a'"):
        overwriting(text, "i:l.0")


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("a[i] = a[i] + a[i + 4]", "i:l.0"),
        ("a[2*i] = a[2*i + 1]", "i:g.0"),
        ("a[i] = a[i + 1] {if=i % 2 == 0}", "i:l.0"),
        ("a[4*(j % 2) + i] = a[4 - 4*(j % 2) + i] {nosync=insn}", "i:l.0"),
        ("a[i] = a[i + 1]", "j:unr"),
    ],
)
@pytest.mark.filterwarnings("error::kgen.KgenWarning")
def test_reading_what_no_other_work_item_writes_at_once_is_not(text: str, tags: str) -> None:
    overwriting(text, tags)


@pytest.mark.parametrize("tag", ["ilp", "ilp.seq", "vec"])
@pytest.mark.parametrize("text", ["a[i] = i + 2*j", "a[i] = a[i] + j", "a[0] = b[j]"])
def test_independent_iterations_that_write_one_element_are_reported(text: str, tag: str) -> None:
    with pytest.warns(lp.WriteRaceConditionWarning, match="a copy with j = 1 and a copy"):
        overwriting(text, f"j:{tag}")


@pytest.mark.parametrize(
    ("text", "tags"),
    [("a[i] = 1", "j:ilp"), ("a[i] = j", "j:unr"), ("a[i + j] = i + j", "j:ilp")],
)
@pytest.mark.filterwarnings("error::kgen.WriteRaceConditionWarning")
def test_copies_that_write_the_same_or_elsewhere_are_not(text: str, tags: str) -> None:
    overwriting(text, tags)


@pytest.mark.parametrize("tag", ["ilp", "ilp.seq", "vec"])
@pytest.mark.parametrize(
    "text",
    [
        "b[i] = a[i] {id=first, dep=*}\na[i + 1] = c[i] {id=last, dep=first}",
        "b[i] = 1 {id=first, dep=*}\nc[i] = b[3 - i] {id=last, dep=first}",
        "a[0] = c[i] {id=first}\nb[i] = a[0] {id=last, dep=first}",
    ],
)
@pytest.mark.parametrize("target", [lp.CTarget(), lp.OpenCLTarget()])
def test_copies_that_depend_on_earlier_iterations_are_refused(
    text: str, tag: str, target: Any
) -> None:
    data = [lp.GlobalArg("a, b, c", "float32", shape=8)]
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", text, data, target=target)
    with pytest.raises(lp.ScheduleError, match=r"(?s)iterations of loop 'i' depend .* 'unr'"):
        lp.generate_body(lp.tag_inames(knl, f"i:{tag}"))
    lp.generate_body(lp.tag_inames(knl, "i:unr"))


@pytest.mark.parametrize(
    "text",
    [
        "a[i + 1] = c[i] {id=first}\nb[i] = a[i] {id=last, dep=first}",
        "b[i] = a[i + 1] {id=first, dep=*}\na[i] = c[i] {id=last, dep=first}",
        "b[i] = a[c[i]] {id=first, dep=*}\na[i] = 1 {id=last, dep=first}",
        "b[i] = a[i] {id=first, dep=*}\na[i + 1] = b[i] {id=last, dep=first, nosync=first}",
    ],
)
def test_copies_that_are_independent_or_said_to_be_are_not(text: str) -> None:
    data = [lp.GlobalArg("a, b", "float32", shape=8), lp.GlobalArg("c", "int32", shape=8)]
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", text, data, target=lp.CTarget())
    lp.generate_body(lp.tag_inames(knl, "i:ilp"))


def test_one_warning_is_silenced_at_a_time() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 16 }",
        "a[b[i]] = i {id=one}\nc[b[i]] = i {id=two}",
        [
            lp.GlobalArg("a, c", "float32", shape="16"),
            lp.GlobalArg("b", "int32", shape="16"),
        ],
        silenced_warnings=["write_race(one)"],
    )
    with pytest.warns(lp.WriteRaceConditionWarning, match="write_race.two.") as caught:
        schedule(lp.tag_inames(knl, "i:l.0"))
    assert len(caught) == 1


@pytest.mark.parametrize("pattern", ["write_race(o*)", "write_race*", "*"])
def test_patterns_silence_warnings(pattern: str) -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 16 }",
        "a[b[i]] = i {id=one}",
        [lp.GlobalArg("a", "float32", "16"), lp.GlobalArg("b", "int32", "16")],
        silenced_warnings=[pattern],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule(lp.tag_inames(knl, "i:l.0"))


def test_a_product_of_loop_variables_is_not_taken_for_a_conflict() -> None:
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i, j < n }",
        "a[i*n + j] = x[i]*j",
        [lp.GlobalArg("a", np.float32, shape="n**2"), lp.GlobalArg("x", np.float32), "..."],
    )
    knl = lp.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    assert "barrier" not in lp.generate_code_v2(knl).device_code()


@pytest.mark.parametrize("steps", [0, 3])
def test_missing_global_barriers_are_put_in_where_options_say_so(device: Any, steps: int) -> None:
    text = """
        for t
            v[i] = u[(i + 1) % 64] {id=there}
            u[j] = 2*v[(j + 1) % 64] {id=back, dep=there}
        end
        """
    knl = lp.make_kernel(
        "{ [t, i, j]: 0 <= t < nt and 0 <= i, j < 64 }",
        text,
        [lp.GlobalArg("u, v", np.float64, shape=64), "..."],
        seq_dependencies=True,
    )
    for iname in "ij":
        knl = lp.split_iname(knl, iname, 16, outer_tag="g.0", inner_tag="l.0")
    with pytest.raises(lp.MissingBarrierError):
        lp.generate_code_v2(lp.add_dtypes(knl, {"nt": np.int32}))
    knl = lp.set_options(knl, insert_gbarriers=True)
    u = np.arange(64.0)
    device(knl, u=u, v=np.zeros(64), nt=steps)
    np.testing.assert_array_equal(u, np.roll(np.arange(64.0), -2 * steps) * 2**steps)


@pytest.mark.parametrize(
    "names", ["g, x, k", "gid0, x, lid0", "lid0, gid0, element0", "x, x_a, x_b"]
)
def test_barriers_and_bounds_do_not_depend_on_names(names: str, device: Any) -> None:
    group, item, loop = names.split(", ")
    knl = lp.make_kernel(
        f"{{ [{names}]: 0 <= {group} < m and 0 <= {item} < 16 and 0 <= {loop} < lid1 }}",
        f"""
        for {names}
            <> t[{item}] = a[{group}, {item}, {loop}] {{id=write}}
            out[{group}, {item}, {loop}] = t[15 - {item}] {{dep=write}}
        end
        """,
    )
    knl = lp.tag_inames(knl, {group: "g.0", item: "l.0"})
    knl = lp.set_temporary_address_space(knl, "t", "local")
    assert schedule(knl, a="float64").count("barrier local") == 2
    a = np.random.default_rng(1).random((2, 16, 5))
    _, (out,) = device(knl, a=a)
    np.testing.assert_array_equal(out, a[:, ::-1])


def test_offsets_that_callers_pass_are_known_to_be_the_same() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 64 }",
        "x[i + first] = 1 {id=write}\nout[i] = x[i + first] {dep=write}",
        [lp.GlobalArg("x", np.float32, shape="n"), lp.ValueArg("n, first", np.int32), ...],
        assumptions="first >= 0 and n >= first + 64",
    )
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    assert "barrier" not in schedule(knl)


@pytest.mark.parametrize("find", [schedule, lp.verify])
def test_accesses_of_one_kind_are_compared_once(find: Any, monkeypatch: Any) -> None:
    count, asked = 50, []
    between = Conflicts.between

    def counted(*args: Any) -> Any:
        asked.append(args)
        return between(*args)

    monkeypatch.setattr(Conflicts, "between", counted)
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        [f"t[i] = 2*t[i] + {k} {{id=s{k}{f', dep=s{k - 1}' if k else ''}}}" for k in range(count)],
        [lp.GlobalArg("t", np.float32, shape="n"), ...],
    )
    find(lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0"))
    assert 0 < len(asked) < 3 * count


@pytest.mark.parametrize("find", [schedule, lp.verify])
def test_accesses_that_constants_tell_apart_are_compared_together(
    find: Any, monkeypatch: Any
) -> None:
    asked, conflict = [], Conflicts._conflict

    def counted(*args: Any) -> Any:
        asked.append(args)
        return conflict(*args)

    monkeypatch.setattr(Conflicts, "_conflict", counted)
    knl = lp.make_kernel(
        "{ [b, i]: 0 <= b < n and 0 <= i < 9 }",
        [f"t[b, i + {k}] = {k} {{id=s{k}{f', dep=s{k - 1}' if k else ''}}}" for k in range(20)],
        [lp.GlobalArg("t", np.float32, shape="n, 40"), ...],
    )
    found = find(lp.split_iname(knl, "b", 16, outer_tag="g.0", inner_tag="l.0"))
    assert "barrier local" not in str(found)
    assert len(asked) <= 1  # the first two, after which boxes around all show that none meet


def test_accesses_are_in_no_boxes_where_the_first_two_conflict(monkeypatch: Any) -> None:
    monkeypatch.setattr(Conflicts, "none_conflict", lambda *args: pytest.fail("asked for boxes"))
    knl = lp.make_kernel(
        "{ [g, i, j]: 0 <= g < n and 0 <= i < 21 and 0 <= j < 16 }",
        [
            "<> t[i] = a[g, i] {id=write}",
            f"out[g, j] = {' + '.join(f't[j + {k}]' for k in range(1, 6))} {{dep=write}}",
        ],
        assumptions="n >= 1",
    )
    knl = lp.tag_inames(knl, "g:g.0, i:l.0, j:l.0")
    knl = lp.set_temporary_address_space(knl, "t", "local")
    assert schedule(knl, a="float32").count("barrier local") == 1


def test_loops_of_one_shape_are_compared_once(monkeypatch: Any) -> None:
    count, asked = 20, []
    conflict = Conflicts._conflict

    def counted(*args: Any) -> Any:
        asked.append(args)
        return conflict(*args)

    monkeypatch.setattr(Conflicts, "_conflict", counted)
    knl = lp.make_kernel(
        ["{ [b]: 0 <= b < n }", *(f"{{ [i{k}]: 0 <= i{k} < 5 }}" for k in range(count))],
        [
            f"t[b, i{k}] = 2*t[b, i{k}] + {k} {{id=s{k}{f', dep=s{k - 1}' if k else ''}}}"
            for k in range(count)
        ],
        [lp.GlobalArg("t", np.float32, shape="n, 5"), ...],
    )
    text = schedule(lp.split_iname(knl, "b", 16, outer_tag="g.0", inner_tag="l.0"))
    assert "barrier" not in text
    assert 0 < len(asked) < 3 * count


@pytest.mark.parametrize("silenced", [[], ["write_race(write)"], ["write_race*"]])
@pytest.mark.parametrize("body", ["x[j + k] = c[i]", "x[j + k] = x[j + k] + c[i]"])
def test_silenced_races_are_silent_in_later_iterations_too(body: str, silenced: list[str]) -> None:
    knl = lp.make_kernel(
        ["{[i]: 0 <= i < n}", "{[j]: s <= j < e}", "{[k]: 0 <= k < 3}"],
        f"""
        <> s = p[i] {{id=s}}
        <> e = p[i + 1] {{id=e}}
        {body} {{id=write, dep=s:e, inames=i:j:k}}
        """,
        [
            lp.GlobalArg("x", np.float32, shape=None),
            lp.GlobalArg("c", np.float32, shape="n"),
            lp.GlobalArg("p", np.int32, shape="n + 1"),
            ...,
        ],
        silenced_warnings=silenced,
        target=lp.OpenCLTarget(),
    )
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    if silenced:
        assert "for (int j = s; j < e; ++j)" in lp.generate_code_v2(knl).device_code()
        return
    with pytest.raises(lp.MissingBarrierError, match="in a later iteration of 'j'"):
        lp.generate_code_v2(knl)


@pytest.mark.parametrize("end", ["starts[i + 1]", "s + 2"])
@pytest.mark.parametrize("tags", ["i:g.0", "i:l.0"])
def test_ranges_from_data_may_overlap(end: str, tags: str) -> None:
    def make(text: str, silenced: str = "") -> lp.TranslationUnit:
        knl = lp.make_kernel(
            ["{ [i]: 0<=i<8 }", "{ [j]: s<=j<e }"],
            f"<> s = starts[i] {{id=s}}\n<> e = {end} {{id=e, dep=s}}\n{text} {{id=w, dep=s:e}}",
            [
                lp.GlobalArg("starts", np.int32, shape=9),
                lp.GlobalArg("x", np.float32, shape=40),
                lp.GlobalArg("c", np.float32, shape=8),
                lp.GlobalArg("rows", np.float32, shape=(8, 40)),
                "...",
            ],
            target=lp.OpenCLTarget(),
            silenced_warnings=silenced,
        )
        return lp.tag_inames(knl, tags)

    with pytest.warns(lp.WriteRaceConditionWarning, match=r"(?s)'w' may .* j = 0: work-item"):
        lp.generate_code_v2(make("x[j] = c[i]"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", lp.WriteRaceConditionWarning)
        lp.generate_code_v2(make("x[j] = c[i]", "write_race(w)"))
        lp.generate_code_v2(make("rows[i, j] = c[i]"))
        lp.generate_code_v2(make("x[j] = 1"))


def test_all_missing_global_barriers_are_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 64 }",
        """
        b[i] = a[i]       {id=one}
        c[i] = b[63 - i]  {id=two, dep=one}
        d[i] = c[63 - i]  {id=three, dep=two}
        e[i] = c[i // 2]  {id=four, dep=three}
        """,
        [lp.GlobalArg("a, b, c, d, e", np.float32, shape=64)],
        target=lp.OpenCLTarget(),
    )
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    both = r"(?s)'two depends on one'.*also: .*'four"
    with pytest.raises(lp.MissingBarrierError, match=both) as err:
        lp.generate_code_v2(knl)
    pairs = [(need.first, need.second) for need in err.value.missing]
    assert pairs == [("one", "two"), ("two", "three"), ("two", "four")]
    schedule_once = Mock(wraps=schedule_kernel)
    monkeypatch.setattr(lowering, "schedule_kernel", schedule_once)
    module = lowering.generate_module(lp.set_options(knl, insert_gbarriers=True))
    assert (len(module.launches), schedule_once.call_count) == (3, 2)


def test_values_that_each_work_item_has_of_its_own_are_not_known_to_differ() -> None:
    text = """
        for i
            <> t = {first}          {{id=a}}
            for j
                o[j] = t            {{id=o, dep=a}}
                t = {then}          {{id=u, dep=o}}
            end
        end"""
    domain, args = "{ [i, j]: 0 <= i < 8 and 0 <= j < 3 }", [lp.GlobalArg("o", np.int32, shape=3)]
    for first, then in (("1", "10"), ("1", "t + 1")):
        knl = lp.make_kernel(domain, text.format(first=first, then=then), [*args, ...])
        knl = lp.tag_inames(knl, "i:g.0").copy(target=lp.OpenCLTarget())
        with pytest.warns(lp.WriteRaceConditionWarning, match="'o' writes elements of 'o'"):
            lp.generate_code_v2(knl)
