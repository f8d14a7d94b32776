"""Reads of temporaries before anything can have written them."""

from __future__ import annotations

from typing import Any

import islpy as isl
import numpy as np
import pytest

import kgen as lp
from kgen.analysis.instances import Instances, elements_of
from kgen.ir.sets.dims import project_out_params
from kgen.ir.sets.effort import answer
from kgen.lowering import prepare, schedule_prepared
from kgen.schedule.undefined import find_undefined


def code(text: str, temporary: str = "t", tags: str = "", **kwargs: Any) -> str:
    options: dict[str, Any] = {"shape": ("16",), "address_space": lp.AddressSpace.PRIVATE} | kwargs
    knl = lp.make_kernel(
        "{ [i, j, k]: 0 <= i, j < 16 and 0 <= k < n }",
        text,
        [
            lp.TemporaryVariable(temporary, "float32", **options),
            lp.GlobalArg("a", "float32", shape="16"),
            "...",
        ],
        target=lp.OpenCLTarget(),
        assumptions="n >= 2",
    )
    return lp.generate_code_v2(lp.tag_inames(knl, tags)).device_code()


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("out[i] = t[i]", r"i = \d+, reads t"),
        ("t[i] = a[i] {id=w, if=i >= 3}\nout[j] = t[j] {dep=w}", r"j = [012], reads t\[[012]\]"),
        ("t[i] = a[i] {id=w, if=i != 7}\nout[j] = t[j] {dep=w}", r"j = 7, reads t\[7\]"),
        ("out[i] = t[i] {id=r, dep=*}\nt[i] = a[i] {dep=r, id=w}", r"i = \d+, reads t"),
        ("t[0] = t[0] + a[k % 16]", r"k = 0, reads t\[0\]"),
        ("t[k] = a[k] {id=w, if=k < 9}\nout[k] = t[k + 1] {dep=w, if=k < 8}", r"k = \d+, reads t"),
        ("t[k] = a[k] {id=w, if=k < 9}\nout[k] = t[k - 1] {dep=w, if=k < 9 and k > 0}", ""),
    ],
)
def test_a_read_before_any_write_is_refused(text: str, point: str) -> None:
    if not point:
        assert "t[" in code(text)
        return
    with pytest.raises(lp.MissingDefinitionError, match=point):
        code(text)


def test_an_error_says_that_work_items_do_not_share_private_memory() -> None:
    data = [lp.GlobalArg("a", "float32", shape=4), lp.GlobalArg("b, out", "float32", shape="n")]
    domain = "{ [i, k]: 0 <= i < n and 0 <= k < 4 }"
    text = "out[i] = sum(k, a[k]*b[i])"
    unit = lp.make_kernel(domain, text, [*data, ...], target=lp.OpenCLTarget())
    unit = lp.split_iname(unit, "i", 8, outer_tag="g.0", inner_tag="l.0")
    private = lp.AddressSpace.PRIVATE
    unit = lp.add_prefetch(unit, "a", "k", default_tag="l.0", temporary_address_space=private)
    with pytest.raises(lp.MissingDefinitionError, match=r"space\(kernel, 'a_fetch', 'local'\)"):
        lp.generate_code_v2(unit)


def test_a_private_value_of_another_work_item_is_not_there() -> None:
    text = "t[0] = a[i] {id=w, if=i >= 4}\nout[j] = t[0] {dep=w, inames=j}"
    with pytest.raises(lp.MissingDefinitionError, match="in work-item lid0 = 0"):
        code(text, tags="i:l.0, j:l.0")


@pytest.mark.parametrize("read", ["t[15 - j] {if=a[j] > 0, ", "if(a[j] > 0, t[15 - j], 0) {"])
def test_data_does_not_give_a_value_of_another_work_item(read: str) -> None:
    text = f"t[i] = a[i] {{id=w}}\nout[j] = {read}dep=w, id=r}}"
    with pytest.raises(lp.MissingDefinitionError, match="its own 't', and another one writes"):
        code(text, tags="i:l.0, j:l.0")


@pytest.mark.parametrize("loop", ["", "k:"])
@pytest.mark.parametrize(
    ("text", "writer"),
    [
        ("t[15 - j] = 2 {id=w, dep=init, inames=<>j}", "w"),
        ("t[15 - j] = 2 {id=w, dep=init, if=a[j] > 0, inames=<>j}", "w"),
        ("t[15 - j] = 2 {id=v, dep=init, inames=<>j}\nt[15] = 3 {id=w, dep=v, inames=<>j}", "v"),
        ("t[15 - j] = 2 {id=v, dep=init, inames=<>j}\nt[j] = 3 {id=w, dep=v, inames=<>j}", ""),
        ("t[j] = 2 {id=w, dep=init, inames=<>j}", ""),
        ("t[i] = t[i] + 2 {id=w, dep=init, inames=<>i}", ""),
    ],
)
def test_a_value_that_another_work_item_has_overwritten_is_old(
    text: str, writer: str, loop: str
) -> None:
    text = (
        f"t[i] = a[i] {{id=init, inames={loop}i}}\n{text}\nout[i] = t[i] {{dep=w, inames={loop}i}}"
    )
    text = text.replace("<>", loop)
    if not writer:
        assert "t[" in code(text, tags="i:l.0, j:l.0")
        return
    with pytest.raises(lp.MissingDefinitionError, match=f"'t': '{writer}' writes"):
        code(text, tags="i:l.0, j:l.0")


def test_an_old_value_is_read_in_the_next_iteration() -> None:
    text = """
        t[i] = a[i]          {id=init}
        out[k, i] = t[i]     {id=r, dep=init, inames=k:i}
        t[15 - j] = k        {id=w, dep=init:r, inames=k:j}
        """
    with pytest.raises(lp.MissingDefinitionError, match="another work-item wrote it last"):
        code(text, tags="i:l.0, j:l.0")


def test_each_work_item_may_have_a_value_of_its_own_in_loops_on_one_axis() -> None:
    add = "t[0] = a[i] {id=w, dep=init, if=i < 8, inames=i}"
    text = f"t[0] = 0 {{id=init}}\n{add}\nout[j] = t[0] {{dep=w}}"
    assert "t[0]" in code(text, tags="i:l.0, j:l.0")


def test_data_may_say_which_work_item_has_a_value() -> None:
    text = "t[0] = a[i] {id=w, if=a[i] > 0}\nout[j] = t[0] {dep=w, if=a[j] > 0, inames=j}"
    assert "t[0]" in code(text, tags="i:l.0, j:l.0")


def test_a_local_value_of_another_work_item_is() -> None:
    text = "t[i] = a[i] {id=w}\nout[j] = t[15 - j] {dep=w}"
    local = lp.AddressSpace.LOCAL
    assert "barrier" in code(text, tags="i:l.0, j:l.0", address_space=local)


@pytest.mark.parametrize(
    "text",
    [
        "t[i] = a[i] {id=w, if=a[i] > 0}\nout[j] = t[j] {dep=w}",
        "out[i] = t[i] {if=a[i] > 0, id=r}",
        "t[a[i] > 0] = 1 {id=w}\nout[j] = t[j] {dep=w}",
    ],
)
def test_what_data_decides_is_taken_to_be_right(text: str) -> None:
    assert "t[" in code(text)


def test_tables_are_defined() -> None:
    np = pytest.importorskip("numpy")
    table = np.arange(16, dtype=np.float32)
    text = code("out[i] = t[i]", initializer=table, read_only=True, address_space=lp.auto)
    assert "t[i]" in text


def test_without_writers_the_message_says_so() -> None:
    with pytest.raises(lp.MissingDefinitionError, match="no instruction writes 't'"):
        code("out[i] = t[i]")


def test_a_kernel_may_be_for_multiples_of_its_tile() -> None:
    knl = lp.make_kernel(
        "{ [g, i, j]: 0 <= 16*g + i < n and 0 <= i, j < 16 }",
        "<> t[i] = a[16*g + i] {id=w}\nout[16*g + i] = t[j] + t[15 - j] {dep=w}",
        [lp.GlobalArg("a", "float32"), "..."],
        target=lp.OpenCLTarget(),
    )
    knl = lp.tag_inames(knl, "g:g.0, i:l.0")
    lp.generate_code_v2(knl)
    always = lp.fix_parameters(knl, n=17)
    with pytest.raises(lp.MissingDefinitionError, match=r"reads t\[\d+\]"):
        lp.generate_code_v2(always)


def test_a_halo_that_nothing_ever_writes_is_warned_of() -> None:
    knl = lp.make_kernel(
        "{ [i]: 1 <= i < 17 }",
        "c[i] = a[i] {id=c}\nout[i] = c[i - 1] + c[i + 1] {dep=c}",
        [lp.TemporaryVariable("c", np.float32, shape=18), lp.GlobalArg("a", np.float32), ...],
    )
    knl = lp.tag_inames(knl, {"i": "l.0"})
    with pytest.warns(lp.KgenWarning, match=r"its writers \(c\) do not write that element"):
        lp.generate_code_v2(knl)


@pytest.mark.parametrize("shift", [0, 1])
def test_the_corners_of_a_fetched_box_need_no_value_where_they_are_not_read(shift: int) -> None:
    text = f"t[i // 2, i % 2] = a[i] {{id=w}}\nout[j] = t[(j + {shift}) // 2, (j + {shift}) % 2]"
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i, j < 3 }",
        text + "{dep=w}",
        [lp.TemporaryVariable("t", np.float32, shape=(2, 2)), lp.GlobalArg("a", np.float32), ...],
        target=lp.CTarget(),
    )
    knl = lp.add_prefetch(knl, "t", "j", fetch_bounding_box=True, default_tag=None)
    (found,) = (one for one in lp.verify(knl).findings if one.check == "definition")
    assert found.status.value == ("violated" if shift else "proved")


@pytest.mark.parametrize(("at", "is_written"), [("t - 1", True), ("t", True), ("t + 1", False)])
def test_iterations_of_a_host_loop_leave_values_to_later_ones(at: str, is_written: bool) -> None:
    knl = lp.make_kernel(
        "{ [t, i, j]: 0 <= t < 4 and 0 <= i, j < 16 }",
        f"""
        for t
            g[t, i] = a[i] + t
            ... gbarrier
            out[t, j] = g[{at}, 15 - j] {{if=t >= 1 and t < 3}}
        end
        """,
        [
            lp.GlobalArg("a", np.float32, shape="16"),
            lp.TemporaryVariable("g", shape="4, 16", address_space=lp.AddressSpace.GLOBAL),
            ...,
        ],
        seq_dependencies=True,
        target=lp.OpenCLTarget(),
    )
    knl = lp.tag_inames(knl, "i:g.0, j:g.0")
    if is_written:
        assert "barrier" not in lp.generate_code_v2(knl).device_code()
    else:
        with pytest.raises(lp.MissingDefinitionError, match=r"t = \d, reads g\[\d"):
            lp.generate_code_v2(knl)


def test_what_other_work_items_fetched_is_not_in_private_memory() -> None:
    knl = lp.make_kernel(
        "{ [i, j, k]: 0 <= i < n and 0 <= j, k < 16 }",
        "t[j] = a[i]*j {id=w}\nout[i, k] = t[15 - k] {dep=w}",
        [
            lp.GlobalArg("a", "float32", shape="n"),
            lp.TemporaryVariable("t", shape=16, address_space=lp.AddressSpace.PRIVATE),
            ...,
        ],
        target=lp.OpenCLTarget(),
    )
    knl = lp.split_iname(lp.tag_inames(knl, "j:l.0, k:l.0"), "i", 4, outer_tag="g.0")
    with pytest.raises(lp.MissingDefinitionError, match="in work-item gid0 = "):
        lp.generate_code_v2(knl)


def flat_fetch(matrices: int = 16, order: int = 10, split: int = 4) -> Any:
    """Return a kernel that fetches matrices with one loop over all their elements."""
    knl = lp.make_kernel(
        f"{{[m, i, j, k]: 0 <= m < M and 0 <= i, j, k < {order}}}",
        "c[m, i, j] = sum(k, a[m, i, k]*b[m, k, j])",
        [lp.GlobalArg("a,b,c", np.float32, shape=f"M, {order}, {order}"), ...],
        target=lp.OpenCLTarget(),
        assumptions=f"M >= {matrices} and M mod {matrices} = 0",
    )
    knl = lp.split_iname(knl, "m", matrices, outer_tag="g.0", inner_tag="l.0")
    knl = lp.add_prefetch(
        knl,
        "a",
        ["m_inner", "i", "k"],
        fetch_outer_inames="m_outer",
        dim_arg_names=["x", "y", "z"],
        temporary_address_space=lp.AddressSpace.LOCAL,
        default_tag=None,
    )
    knl = lp.split_iname(lp.join_inames(knl, ["x", "y", "z"], "f"), "f", split)
    return lp.split_iname(knl, "f_outer", matrices, inner_tag="l.0").default_entrypoint


def test_a_flat_fetch_is_found_complete_within_few_operations() -> None:
    kernel, schedule = schedule_prepared(prepare(flat_fetch()), has_axes=True)
    found = answer(lambda: list(find_undefined(kernel, schedule)), 5_000)
    assert found == []


@pytest.mark.parametrize("loops", [(), ("f_outer_outer",), ("f_outer_outer", "f_inner")])
@pytest.mark.parametrize("split", [3, 4])
def test_elements_by_their_digits_are_those_of_the_loops(split: int, loops: tuple[str]) -> None:
    kernel = prepare(flat_fetch(4, 3, split))
    instances = Instances(kernel, has_axes=True)
    (write,) = [a for a in instances.footprints.accesses["a_fetch"] if a.is_write]
    quick, _ = instances.touched(write, loops)
    gone = [n for n in write.place.inames if n not in {*loops, "m_outer"}]
    named, _ = elements_of(kernel, instances.footprints, write)
    slow = project_out_params(named, gone)
    at = slow.find_dim_by_name(isl.dim_type.param, "m_outer")
    slow = slow.set_dim_name(isl.dim_type.param, at, ".gid0").align_params(quick.get_space())
    assert quick.align_params(slow.get_space()).is_equal(slow)


def test_a_read_that_never_runs_is_of_nothing() -> None:
    knl = lp.make_kernel(
        "{ [i]: 3<=i<8 }",
        "out[i] = t {id=r, dep=*, if=i < 3}\n<> t = 1.0 {id=w, dep=*r, inames=}",
        [lp.GlobalArg("out", "float64", shape=8)],
        target=lp.CTarget(),
    )
    assert not [found for found in lp.verify(knl).violated if found.check == "definition"]
    lp.generate_code_v2(knl)


@pytest.mark.parametrize("copy", ["u", "u[0]"])
@pytest.mark.parametrize("condition", ["j != j", "j == 3"])
def test_a_copy_may_be_of_what_nothing_wrote_if_it_is_never_read(copy: str, condition: str) -> None:
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i < 8 and 0 <= j < 16 }",
        f"""
        t[i] = a[i]         {{id=w}}
        {copy} = t[15 - j]  {{id=c, dep=w}}
        out[j] = {copy}     {{dep=c, if={condition}}}
        """,
        [
            lp.TemporaryVariable("t", "float32", shape="16"),
            lp.TemporaryVariable("u", shape="1" if "[" in copy else ()),
            lp.GlobalArg("a, out", "float32", shape="16"),
        ],
        target=lp.OpenCLTarget(),
    )
    knl = lp.tag_inames(lp.set_temporary_address_space(knl, "t, u", "private"), "i:l.0, j:l.0")
    violated = [one.check for one in lp.verify(knl).violated]
    if condition == "j == 3":
        assert violated == ["definition"]
        return
    assert not violated
    assert "out[" not in lp.generate_body(knl)


def test_a_copy_that_bounds_a_loop_is_read() -> None:
    with pytest.raises(lp.MissingDefinitionError, match="'t' is read"):
        lp.generate_body(
            lp.make_kernel(
                ["{ [i]: 0 <= i < e }"],
                "e = t {id=e}\nout[i] = 1 {dep=e}",
                [
                    lp.TemporaryVariable("t", "int32"),
                    lp.TemporaryVariable("e", "int32"),
                    lp.GlobalArg("out", "int32", shape="16"),
                ],
                target=lp.CTarget(),
            )
        )


@pytest.mark.parametrize("text", ["a[i] = t + 1", "t = t + i {id=t}\na[i] = t {dep=t}"])
def test_a_user_can_insist_on_reads_of_what_nothing_wrote(text: str) -> None:
    def generate(**settings: Any) -> str:
        args = [lp.TemporaryVariable("t", np.float32), ...]
        knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", text, args, target=lp.CTarget(), **settings)
        return lp.generate_body(knl)

    with pytest.raises(lp.MissingDefinitionError):
        generate()
    assert "float t;" in generate(silenced_warnings="read_undefined(t)")


def test_arguments_that_are_no_inputs_are_undefined_at_first() -> None:
    data = [lp.GlobalArg("t", "float32", shape="n", is_input=False), "..."]
    text = "t[i] = a[i] {id=w}\nout[i] = t[n - 1 - i] {id=r, dep=w}"
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", text, data, target=lp.CTarget())
    knl = lp.add_dtypes(knl, {"a": "float32"})
    (found,) = lp.verify(knl).violated
    assert (found.check, found.instruction, found.array) == ("definition", "r", "t")
    hint = r"duplicate_inames\(kernel, 'i', within='id:r'\)"
    with pytest.warns(lp.KgenWarning, match=hint):
        lp.generate_code_v2(knl)
    apart = lp.verify(lp.duplicate_inames(knl, "i", within="id:r"))
    assert "definition" not in {one.check for one in apart.violated}


def test_reads_about_which_isl_takes_too_long_are_undecided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kgen.schedule.undefined._MOST", 10)
    kernel, schedule = schedule_prepared(prepare(flat_fetch()), has_axes=True)
    (found,) = find_undefined(kernel, schedule)
    assert (found.read.array, found.point) == ("a_fetch", None)
