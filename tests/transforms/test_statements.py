"""Instructions found, mapped, ordered and removed; barriers."""

from __future__ import annotations

import pytest

import kgen as lp
from kgen.transforms.statements import (
    add_dependency,
    find_instructions,
    map_instructions,
    remove_instructions,
    remove_predicates_from_insn,
    replace_instruction_ids,
    set_instruction_priority,
    tag_instructions,
)
from kgen.transforms.sync import add_barrier, add_nosync
from tests.transforms.helpers import dependencies, instructions, kernel_of


def chain() -> lp.TranslationUnit:
    text = ["a[i] = 0 {id=one}", "b[i] = 1 {id=two, dep=one}", "c[i] = 2 {id=three, dep=two}"]
    return lp.make_kernel("{[i]: 0 <= i < n}", text)


def ids(program: lp.TranslationUnit, match: object) -> list[str]:
    return [str(insn.id) for insn in find_instructions(program, match)]


def test_instructions_are_found_in_program_order() -> None:
    assert ids(chain(), "writes:c or id:on?") == ["one", "three"]
    assert ids(chain(), lambda kernel, insn: not insn.depends_on) == ["one"]


def test_priorities_and_tags() -> None:
    knl = set_instruction_priority(chain(), "id:t*", 3)
    assert [insn.priority for insn in kernel_of(knl).instructions] == [0, 3, 3]
    tagged = tag_instructions(chain(), "stores", within="writes:b")
    assert ids(tagged, "tag:stores") == ["two"]


def test_what_mapping_makes_is_checked() -> None:
    with pytest.raises(lp.KernelError, match="instruction 'one' is inside 'j', which is not an"):
        map_instructions(chain(), "id:one", lambda i: i.copy(within_inames=frozenset("j")))
    with pytest.raises(lp.KernelError, match="instruction id 'one' is not unique"):
        map_instructions(chain(), "id:two", lambda insn: insn.copy(id="one"))
    with pytest.raises(lp.KernelError, match="instruction 'one' depends on 'four'"):
        map_instructions(chain(), "id:one", lambda i: i.copy(depends_on=frozenset(["four"])))


def test_dependencies_are_added() -> None:
    knl = add_dependency(chain(), "id:three", "id:one or id:two")
    assert dependencies(knl)["three"] == "one,two"
    assert dependencies(add_dependency(chain(), "id:three", "one"))["three"] == "one,two"
    assert dependencies(add_dependency(chain(), "id:*", "id:two"))["two"] == "one"
    with pytest.raises(lp.TransformError, match="no instruction matches 'id:four'"):
        add_dependency(chain(), "id:three", "id:four")


def test_dependencies_reach_over_removed_instructions() -> None:
    assert dependencies(remove_instructions(chain(), {"two"})) == {"three": "one"}
    assert dependencies(remove_instructions(chain(), "id:one or id:two")) == {}
    with pytest.raises(lp.TransformError, match="no instruction 'for'") as info:
        remove_instructions(chain(), {"for"})
    assert "known names" in str(info.value)


def test_long_chains_of_removed_instructions() -> None:
    text = [f"a[{k}] = {k} {{id=i{k}, dep=i{k + 1}}}" for k in range(400)] + [
        "a[400] = 0 {id=i400}"
    ]
    knl = lp.make_kernel("{:}", text, [lp.GlobalArg("a", shape="401"), ...])
    removed = remove_instructions(knl, {f"i{k}" for k in range(1, 400)})
    assert dependencies(removed) == {"i0": "i400"}


def test_ids_are_replaced_where_others_refer_to_them() -> None:
    text = [
        "a[i] = 0 {id=one}",
        "b[i] = 1 {id=two}",
        "c[i] = 2 {id=three, dep=one, nosync=one@any}",
    ]
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", text)
    changed = kernel_of(replace_instruction_ids(knl, {"one": ["one", "two"]}))
    assert changed.id_to_insn["three"].depends_on == {"one", "two"}
    assert changed.id_to_insn["three"].no_sync_with == {("one", "any"), ("two", "any")}
    assert [insn.id for insn in changed.instructions] == ["one", "two", "three"]
    with pytest.raises(lp.KernelError, match="'three' depends on 'new', which does not exist"):
        replace_instruction_ids(knl, {"one": ["new"]})


def test_an_instruction_is_replaced_by_two() -> None:
    knl = kernel_of(chain())
    one, *others = knl.instructions
    parts = [one.copy(id="first"), one.copy(id="second", depends_on=frozenset(["first"]))]
    knl = knl.copy(instructions=(*parts, *others))
    knl = replace_instruction_ids(knl, {"one": ["first", "second"]})
    assert knl.id_to_insn["two"].depends_on == {"first", "second"}


def test_an_instruction_needs_new_ids() -> None:
    knl = chain()
    with pytest.raises(lp.TransformError, match="instruction 'one' is given no new id"):
        replace_instruction_ids(knl, {"one": []})


def test_predicates_are_removed() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "a[i] = 0 {id=one, if=i > 3}")
    assert (
        not kernel_of(remove_predicates_from_insn(knl, ["i > 3"], "id:one"))
        .instructions[0]
        .predicates
    )


# -- synchronization -----------------------------------------------------------------------------


def test_no_barrier_where_none_is_needed() -> None:
    knl = kernel_of(add_nosync(chain(), "local", "id:one", "id:three", bidirectional=True))
    assert knl.id_to_insn["three"].no_sync_with == {("one", "local")}
    assert knl.id_to_insn["one"].no_sync_with == {("three", "local")}


def test_pairs_without_a_dependency() -> None:
    with pytest.raises(lp.TransformError, match="no instruction of 'id:one' depends on"):
        add_nosync(chain(), "any", "id:three", "id:one")
    assert add_nosync(chain(), "any", "id:three", "id:one", empty_ok=True) is not None
    forced = kernel_of(add_nosync(chain(), "any", "id:three", "id:one", force=True))
    assert forced.id_to_insn["one"].no_sync_with == {("three", "any")}
    with pytest.raises(lp.TransformError, match="'near' is not a scope"):
        add_nosync(chain(), "near", "id:one", "id:two")


def test_conflicting_groups_count_as_dependent() -> None:
    text = ["a[i] = 0 {id=one, groups=g}", "b[i] = 1 {id=two, conflicts=g}"]
    knl = kernel_of(
        add_nosync(lp.make_kernel("{[i]: 0 <= i < 4}", text), "any", "id:one", "id:two")
    )
    assert knl.id_to_insn["two"].no_sync_with == {("one", "any")}


def test_a_barrier_stands_between() -> None:
    knl = add_barrier(chain(), "id:one", "id:two or id:three", synchronization_kind="local")
    barrier = kernel_of(knl).instructions[1]
    assert isinstance(barrier, lp.BarrierInstruction)
    assert (barrier.id, barrier.synchronization_kind, barrier.mem_kind) == (
        "l_barrier",
        "local",
        "local",
    )
    assert dependencies(knl) == {
        "l_barrier": "one",
        "two": "l_barrier,one",
        "three": "l_barrier,two",
    }
    inside = kernel_of(add_barrier(chain(), "id:one", "", within_inames={"i"}, id_based_on="bar"))
    assert instructions(inside)[3].startswith("i: ... gbarrier")
    with pytest.raises(lp.TransformError, match="'shared' is not a kind of barrier"):
        add_barrier(chain(), synchronization_kind="shared")


def test_hints_that_are_not_for_instructions() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = a[i]")
    with pytest.raises(lp.KgenError, match=r"'!streaming_load'(.|\n)*instruction 'out\[i\] = a"):
        lp.tag_instructions(knl, "!streaming_load")
    with pytest.raises(lp.KgenError, match=r"line 1(.|\n)*is for array arguments: tag_arrays"):
        lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = a[i] {tags=!streaming_load}")
    with pytest.raises(lp.KgenError, match="a kernel cannot be tagged '!streaming_store'"):
        lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = a[i]", tags="!streaming_store")
    with pytest.raises(lp.KgenError, match="there is no tag '!streaming'"):
        lp.tag_instructions(knl, "!streaming")
