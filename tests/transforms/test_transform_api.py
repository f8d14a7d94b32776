"""Transformations that users write: what the decorator does for them, and what it refuses."""

from __future__ import annotations

import pytest

import kgen as lp
from kgen import transform_api as api
from kgen.transform_api import Meaning, Replacement
from tests.transforms.helpers import kernel_of


@api.transform
def reverse(kernel: lp.LoopKernel, iname: str, within: str | None = None) -> lp.LoopKernel:
    api.require_iname(kernel, iname)
    new = api.require_new_name(kernel, f"{iname}_back")
    change = Replacement({iname: lp.symbolic.parse(f"7 - {new}")}, (new,))
    return api.replace_inames(kernel, change, api.matcher(kernel, within))


def shift_by_meaning(meaning: Meaning) -> api.Transform[[str]]:
    @api.transform_of(meaning)
    def shift(kernel: lp.LoopKernel, array: str) -> lp.LoopKernel:
        api.require_array(kernel, array)
        rewrite = {array: lambda var, index: api.subscript(var, (index[0] + 1,))}
        return api.rewrite_accesses(kernel, api.ArrayAccessMapper(kernel, rewrite))

    return shift


def fills() -> lp.TranslationUnit:
    return lp.make_kernel(
        "{[i]: 0 <= i < 8}", ["a[i] = i {id=one}", "b[i] = 2 {id=two}"], ["..."], name="fills"
    )


def origin_status(unit: lp.TranslationUnit) -> str:
    findings = lp.verify(unit).findings
    (found,) = {f.status.value for f in findings if f.check == "origin"} or {"none"}
    return found


def test_part_of_the_instructions_gets_the_new_loop() -> None:
    knl = kernel_of(reverse(fills(), "i", within="id:one"))
    assert str(knl.id_to_insn["one"]) == "a[7 - i_back] = 7 - i_back  {id=one}"
    assert str(knl.id_to_insn["two"]) == "b[i] = 2  {id=two}"


def test_verify_compares_with_the_kernel_as_it_was_written() -> None:
    assert origin_status(reverse(fills(), "i")) == "proved"
    assert origin_status(shift_by_meaning(Meaning.KEPT)(fills(), "b")) == "violated"


@pytest.mark.parametrize("meaning", [Meaning.CHANGED, Meaning.NEW])
def test_a_change_that_is_meant_is_no_violation(meaning: Meaning) -> None:
    assert origin_status(shift_by_meaning(meaning)(fills(), "b")) != "violated"


def test_names_that_do_not_exist_are_refused_with_near_ones() -> None:
    with pytest.raises(api.NoSuchNameError, match="there is no array 'bb'") as info:
        shift_by_meaning(Meaning.KEPT)(fills(), "bb")
    assert api.near_names("bb", ["a", "b"]) in str(info.value)


def test_kernels_with_nothing_of_what_is_named_stay() -> None:
    @api.transform
    def without_value(kernel: lp.LoopKernel, name: str) -> lp.LoopKernel:
        if not api.collect_accesses_to(kernel, name):
            raise api.NothingSelectedError(f"nothing accesses '{name}'")
        gone = api.require_argument(kernel, name)
        return kernel.copy(args=[arg for arg in kernel.args if arg is not gone])

    other = lp.make_kernel("{[i]: 0 <= i < 8}", "c[i] = 1", ["..."], name="other")
    both = without_value(lp.merge([fills(), other]), "c")
    assert [len(kernel.args) for kernel in (both["fills"], both["other"])] == [2, 0]
    with pytest.raises(api.NothingSelectedError, match="nothing accesses 'd'"):
        without_value(both, "d")


def test_several_names_in_one_text() -> None:
    @api.transform
    def first(kernel: lp.LoopKernel, ids: str) -> lp.LoopKernel:
        chosen = [api.require_instruction(kernel, name) for name in api.split_names(ids)]
        return kernel.copy(instructions=list(dict.fromkeys((*chosen, *kernel.instructions))))

    assert [insn.id for insn in kernel_of(first(fills(), "two, one")).instructions] == [
        "two",
        "one",
    ]


def test_a_result_that_is_no_kernel_is_refused() -> None:
    @api.transform
    def forgotten(kernel: lp.LoopKernel) -> lp.LoopKernel:
        kernel.copy(name="other")
        return None  # type: ignore[return-value]

    with pytest.raises(api.TransformError, match="forgotten returned NoneType, not a kernel"):
        forgotten(fills())


def doubled(kernel: lp.LoopKernel) -> lp.LoopKernel:
    return kernel.copy(instructions=kernel.instructions * 2)


def test_a_result_that_contradicts_itself_is_refused() -> None:
    @api.transform
    def twice(kernel: lp.LoopKernel) -> lp.LoopKernel:
        return doubled(kernel)

    with pytest.raises(lp.KernelError, match="the instruction id 'one' is not unique"):
        twice(fills())
    with pytest.raises(lp.KernelError, match="the instruction id 'one' is not unique"):
        api.check_well_formed(doubled(kernel_of(fills())))
