"""Tags and priorities of loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pytools.tag import Tag

import kgen as lp
from kgen.ir.tags import GroupInameTag, LocalInameTag, UnrollTag
from tests.transforms.helpers import kernel_of


class Marker(Tag):
    """A tag of a user's own."""


def matrix() -> lp.TranslationUnit:
    return lp.make_kernel("{[i, j, k]: 0 <= i, j, k < 8}", "c[i, j] = sum(k, a[i, k]*b[k, j])")


def tags(program: lp.TranslationUnit) -> dict[str, str]:
    inames = kernel_of(program).inames
    return {n: ",".join(sorted(map(str, i.tags))) for n, i in inames.items() if i.tags}


@pytest.mark.parametrize(
    "given",
    [
        {"i": "g.0", "j": "l.0"},
        [("i", "g.0"), ("j", "l.0")],
        "i:g.0, j:l.0",
        {"i": GroupInameTag(0), "j": [LocalInameTag(0)]},
    ],
)
def test_tags_are_read_from_text_pairs_and_maps(given: object) -> None:
    assert tags(lp.tag_inames(matrix(), given)) == {"i": "g.0", "j": "l.0"}  # type: ignore[arg-type]


def test_patterns_tag_all_inames_that_fit() -> None:
    knl = lp.split_iname(matrix(), "i", 4, outer_tag="g.0")
    assert tags(lp.tag_inames(knl, {"?_inner": "unr"})) == {"i_inner": "unr", "i_outer": "g.0"}
    assert lp.tag_inames(knl, {"nothing*": "unr"}) is knl


def test_a_users_own_tags_stand_beside_the_implementation() -> None:
    knl = lp.tag_inames(matrix(), {"i": ["unr", Marker()]})
    assert kernel_of(knl).inames["i"].tags == {UnrollTag(), Marker()}


def test_an_iname_has_one_implementation() -> None:
    knl = lp.tag_inames(matrix(), "i:g.0")
    assert lp.tag_inames(knl, "i:g.0") is knl
    with pytest.raises(lp.TransformError, match=r"iname 'i' is implemented as 'g\.0' already"):
        lp.tag_inames(knl, "i:unr")
    assert tags(lp.tag_inames(knl, "i:unr", force=True)) == {"i": "unr"}
    assert tags(lp.tag_inames(knl, {"i": "for"}, force=True)) == {}


def test_one_call_gives_one_implementation() -> None:
    with pytest.raises(lp.TransformError, match=r"'i' is implemented as 'l\.0' already"):
        lp.tag_inames(matrix(), "i:l.0, i:unr")


def test_tags_by_what_others_have() -> None:
    knl = lp.tag_inames(matrix(), "k:l.0, i:unused.l, j:unused.g")
    assert tags(knl) == {"i": "l.1", "j": "g.0", "k": "l.0"}
    assert tags(lp.tag_inames(matrix(), "i:unr, j:like.i, k:like.j")) == dict.fromkeys("ijk", "unr")
    assert tags(lp.split_iname(matrix(), "j", 4, inner_tag="unused.l")) == {"j_inner": "l.0"}
    with pytest.raises(lp.TransformError, match="no iname 'z'"):
        lp.tag_inames(matrix(), "i:like.z")


def test_hints_to_unroll_are_pragmas() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "a[i] = i", target=lp.CTarget())

    def hint(tag: str, **changes: lp.TargetBase) -> str:
        return lp.generate_body(lp.tag_inames(knl.copy(**changes), {"i": tag})).split("\n")[0]

    assert hint("unr_hint") == "  #pragma unroll"
    assert hint("unr_hint.4") == "  #pragma GCC unroll 4"
    assert hint("unr_hint.4", target=lp.OpenCLTarget()) == "  #pragma unroll 4"
    with pytest.raises(lp.KgenError, match=r"'unr_hint\.0' is not an iname tag"):
        hint("unr_hint.0")


def test_a_name_is_text() -> None:
    with pytest.raises(
        lp.KgenError,
        match=r"text or a list of \(text\), not \[\['i', 'j'\]\]",
    ):
        lp.prioritize_loops(matrix(), [["i", "j"]])  # type: ignore[list-item]


def test_forced_sequential_is_final() -> None:
    knl = lp.tag_inames(matrix(), "i:forceseq")
    with pytest.raises(lp.TransformError, match="'forceseq' is final"):
        lp.tag_inames(knl, "i:g.0", force=True)


def test_two_loops_of_an_instruction_on_one_axis_are_refused() -> None:
    knl = lp.tag_inames(matrix(), "i:l.0, j:l.0").copy(target=lp.OpenCLTarget())
    with pytest.raises(lp.ScheduleError, match=r"both on the hardware axis 'l\.0'") as info:
        lp.generate_code_v2(lp.add_dtypes(knl, dict.fromkeys("abc", np.float32)))
    assert "tag_inames(kernel, 'j:unused.l', force=True)" in str(info.value)


def test_two_loops_on_one_axis_can_be_taken_apart_later() -> None:
    text = "for i\n <> h[j] = 1 {id=h}\n w[i] = h[2*i] {dep=h}\nend"
    knl = lp.make_kernel("{ [i, j]: 0 <= i < 8 and 0 <= j < 16 }", text)
    knl = lp.split_iname(lp.split_iname(knl, "i", 4, inner_tag="l.0"), "j", 4, inner_tag="l.0")
    knl = lp.remove_inames_from_insn(knl, frozenset(["i_inner"]), "id:h")
    code = lp.generate_code_v2(knl.copy(target=lp.OpenCLTarget())).device_code()
    assert "h[4 * j_outer + lid(0)] = 1" in code


def test_loops_of_different_instructions_share_an_axis() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < 8}", ["a[i] = 0", "b[j] = 1"])
    assert tags(lp.tag_inames(knl, "i:l.0, j:l.0")) == {"i": "l.0", "j": "l.0"}


def test_a_reduction_may_be_unrolled() -> None:
    assert tags(lp.tag_inames(matrix(), "k:unr")) == {"k": "unr"}


def test_a_wrong_name_is_refused_or_passed_over() -> None:
    with pytest.raises(lp.TransformError, match="no iname 'ii'"):
        lp.tag_inames(matrix(), "ii:unr")
    assert tags(lp.tag_inames(matrix(), "ii:unr,i:unr", ignore_nonexistent=True)) == {"i": "unr"}


def test_an_unknown_tag_lists_those_there_are() -> None:
    with pytest.raises(lp.KgenError, match=r"'x\.0' is not an iname tag"):
        lp.tag_inames(matrix(), "i:x.0")
    with pytest.raises(ValueError, match="gives an iname no tag"):
        lp.tag_inames(matrix(), "i")


def test_tags_of_a_type_are_removed() -> None:
    knl = lp.tag_inames(matrix(), {"i": ["g.0", Marker()]})
    assert kernel_of(lp.untag_inames(knl, "i", GroupInameTag)).inames["i"].tags == {Marker()}


def test_the_first_free_axis_is_found() -> None:
    knl = lp.tag_inames(matrix(), "i:g.0, j:g.2")
    assert lp.find_unused_axis_tag(knl, "g") == GroupInameTag(1)
    assert lp.find_unused_axis_tag(knl, LocalInameTag) == LocalInameTag(0)
    with pytest.raises(lp.TransformError, match="'q' is not a kind of hardware axis"):
        lp.find_unused_axis_tag(knl, "q")


def test_priorities_add_up() -> None:
    knl = lp.prioritize_loops(lp.prioritize_loops(matrix(), "j,i"), ["i", "k"])
    assert kernel_of(knl).loop_priority == (("j", "i"), ("i", "k"))
    assert lp.prioritize_loops(knl, "j,i") is knl
    with pytest.warns(lp.KgenWarning, match="no iname 'l'"):
        assert lp.prioritize_loops(knl, "l,i") == knl


def fetched() -> lp.TranslationUnit:
    knl = lp.make_kernel(
        "{ [i]: 0<=i<64 }", "w[i] = a[i] + a[i+2]", [lp.GlobalArg("a", "float32", shape=66), ...]
    )
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    return lp.add_prefetch(knl, "a", "i_inner", default_tag="l.auto")


@pytest.mark.parametrize("tag", ["unr", "unr_hint", "forceseq", "for"])
def test_the_strides_of_an_automatic_axis_can_be_tagged(tag: str, device: Any) -> None:
    knl = lp.tag_inames(fetched(), f"a_dim_0_outer:{tag}")
    data = np.arange(66, dtype=np.float32)
    np.testing.assert_array_equal(device(knl, a=data)[1][0], data[:-2] + data[2:])
    if tag == "unr":
        assert "for (" not in lp.generate_body(knl)
        assert lp.generate_body(knl).count("a_fetch[") == 5  # its declaration, two fills, two reads


def test_strides_of_an_automatic_axis_are_sequential() -> None:
    with pytest.raises(lp.KgenError, match=r"'l\.auto' creates cannot be 'g\.1'"):
        lp.tag_inames(fetched(), "a_dim_0_outer:g.1")
    with pytest.raises(lp.TransformError, match="no iname 'i_inner_outer'"):
        lp.tag_inames(fetched(), "i_inner_outer:unr")


def test_priorities_are_advice() -> None:
    knl = lp.prioritize_loops(fetched(), "i_outer, a_dim_0_outer")
    assert knl.default_entrypoint.loop_priority == (("i_outer", "a_dim_0"),)
    with pytest.warns(lp.KgenWarning, match=r"no iname 'z'(.|\n)*no_such_loop\(z\)"):
        assert lp.prioritize_loops(knl, "z, i_outer") == knl


def test_an_axis_that_kgen_would_choose_gives_way_to_another_tag() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 8 }", "a[i] = 0")
    knl = lp.tag_inames(lp.tag_inames(knl, "i:l.auto"), "i:g.0")
    assert [*map(str, knl.default_entrypoint.iname_tags("i"))] == ["g.0"]
