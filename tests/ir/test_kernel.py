"""Questions asked of a kernel."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import pytest

import kgen as lp
from kgen.ir.tags import UnrollTag


def nested() -> lp.LoopKernel:
    return lp.make_kernel(
        ["{[i]: 0<=i<n}", "{[j]: 0<=j<m}", "{[k]: 0<=k<=j}", "{[l]: 0<=l<9}"],
        ["<> m = a[i] {id=m}", "w[i, j, k] = 1 {id=w}", "v[l] = w[l, 0, 0] {id=v, dep=w}"],
        [lp.GlobalArg("a", "int32", shape="n"), lp.GlobalArg("w", "int32", shape="n,9,9"), "..."],
    ).default_entrypoint


def test_domains_are_nested_in_those_that_bound_them_or_set_their_bounds() -> None:
    knl = nested()
    assert knl.parents_per_domain() == [None, 0, 1, None]
    assert knl.all_parents_per_domain() == [[], [0], [1, 0], []]
    assert knl.get_leaf_domain_indices(["i", "k"]) == [2]
    assert knl.get_leaf_domain_indices(["j", "l"]) == [1, 3]
    assert knl.get_home_domain_index("k") == 2
    with pytest.raises(lp.KernelError, match="no iname 'q'"):
        knl.get_home_domain_index("q")


def test_dependencies_through_others() -> None:
    found = nested().recursive_insn_dep_map()
    assert found == {"m": frozenset(), "w": {"m"}, "v": {"m", "w"}}


def test_instructions_without_barriers_between_go_by_scope() -> None:
    knl = lp.add_nosync(nested(), "global", "id:w", "id:v", force=True)
    assert knl.get_nosync_set("v", "global") == {"w"}
    assert knl.get_nosync_set("v", "local") == frozenset()
    with pytest.raises(lp.KernelError, match="not a scope"):
        knl.get_nosync_set("v", "glob")


def test_a_slice_of_instructions_can_be_appended_to() -> None:
    knl = nested()
    insns: Any = knl.instructions[1:]
    insns.append(knl.instructions[0])
    assert [insn.id for insn in knl.copy(instructions=insns).instructions] == ["w", "v", "m"]


def test_instructions_that_a_change_leaves_alone_are_the_same_objects() -> None:
    knl = nested()
    changed = knl.map_instructions(lambda i: i.copy(priority=1) if i.id == "w" else i, name="other")
    assert (changed.name, changed.id_to_insn["w"].priority) == ("other", 1)
    assert all(changed.id_to_insn[name] is knl.id_to_insn[name] for name in ("m", "v"))


def test_instructions_that_stay_leave_the_kernel_as_it_is() -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]").default_entrypoint
    assert knl.map_instructions(lambda insn: insn) is knl
    assert knl.map_instructions(lambda insn: insn, name="other").name == "other"


def test_a_silenced_warning_of_a_kernel_is_not_given() -> None:
    knl = nested()
    with pytest.warns(lp.KgenWarning, match=r"add 'odd\(w\)' to silenced_warnings"):
        knl.warn("odd", "odd(w)")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        knl.copy(silenced_warnings=("odd",)).warn("odd", "odd(w)")


def test_tags_of_a_loop_are_as_many_as_wanted() -> None:
    knl = lp.tag_inames(nested(), "i:unr")
    assert len(knl.iname_tags_of_type("i", UnrollTag, max_num=1, min_num=1)) == 1
    with pytest.raises(lp.KgenError, match="at least 1 of UnrollTag are required"):
        knl.iname_tags_of_type("j", UnrollTag, min_num=1)


def test_ids_that_are_used_elsewhere_are_left_out() -> None:
    assert nested().make_unique_instruction_id(based_on="m", extra_used_ids={"m_0"}) == "m_1"


def test_silenced_warnings_are_joined_with_sets() -> None:
    knl = lp.make_kernel("{[i]: 0<=i<n}", "a[i] = 1", silenced_warnings="b").default_entrypoint
    words: Any = knl.silenced_warnings
    assert knl.copy(silenced_warnings=words | {"a"}).silenced_warnings == ("b", "a")


def test_sections_that_a_kernel_does_not_have_are_not_printed() -> None:
    assert nested().stringify(what={"name", "tags"}).splitlines()[1] == "KERNEL: kgen_kernel"
    with pytest.raises(lp.KernelError, match=r"no section 'domain' to print.*\n.*domains"):
        nested().stringify(what="domain")


def test_functions_for_each_kernel_take_kernels() -> None:
    with pytest.raises(lp.KernelError, match="argument of 'same' is a program or a kernel, not 3"):
        lp.for_each_kernel(same)(3)
    unit: Any = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 1")
    with pytest.raises(lp.KgenError, match="the function to apply to each kernel is a function"):
        lp.for_each_kernel(unit)


def test_functions_for_each_kernel_need_no_name() -> None:
    unit: Any = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 1")
    renamed: Any = lp.for_each_kernel(partial(lp.rename_iname, old_iname="i", new_iname="j"))
    assert str(renamed(unit).default_entrypoint.instructions[0].assignee) == "out[j]"


def same(knl: lp.LoopKernel) -> lp.LoopKernel:
    return knl


def test_names_of_what_a_kernel_has() -> None:
    text = ["<> t = s[i] {id=t, groups=g}", "out[i] = t + n {id=o, dep=t, conflicts=h}"]
    knl = lp.make_kernel("{ [i, k]: 0<=i,k<n }", text).default_entrypoint
    assert knl.all_group_names() == {"g", "h"}
    assert knl.get_group_name_generator()("g") == "g_0"
    assert knl.all_insn_inames() == {"t": {"i"}, "o": {"i"}}
    assert knl.all_referenced_inames() == {"i"}
    assert knl.non_iname_variable_names() == {"n", "out", "s", "t"}
    assert knl.scalar_loop_args == ["n"]


def test_instructions_of_a_copy_get_ids() -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<4 }", "a[i] = i").default_entrypoint
    prefixed = lp.Assignment("c[i]", "a[i]", id=lp.UniqueName("load"), within_inames="i")
    more = [lp.Assignment("b[i]", "a[i]", within_inames="i"), prefixed]
    copied = knl.copy(instructions=[*knl.instructions, *more])
    assert [insn.id for insn in copied.instructions] == ["insn", "insn_0", "load"]


def test_kernels_are_printed_without_rules_and_titles() -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<4 }", "a[i] = i", name="k").default_entrypoint
    assert knl.stringify("domains", use_separators=False) == "DOMAINS:\n{ [i] : 0 <= i <= 3 }"
    assert knl.stringify("domains", use_separators=False, show_labels=False) == (
        "{ [i] : 0 <= i <= 3 }"
    )


def test_new_ids_differ_from_those_of_given_instructions() -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<4 }", "a[i] = i {id=m}").default_entrypoint
    assert knl.make_unique_instruction_id([lp.NoOpInstruction("n")], "n") == "n_0"
    assert knl.make_unique_instruction_id([lp.NoOpInstruction("n")], "m") == "m"
