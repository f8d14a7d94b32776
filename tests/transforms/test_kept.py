"""What transformations do not mean to change stays: options, other kernels, names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.transforms.helpers import kernel_of

F = np.float32
Transformation = Callable[[Any], Any]


def program() -> lp.TranslationUnit:
    """Make a kernel whose instructions have all options there are."""
    return lp.make_kernel(
        "{ [i,j,k]: 0<=i<16 and 0<=j<8 and 0<=k<4 }",
        """
        f(x) := 2*x + 1*c
        <> t = f(a[i]) {id=t, tags=ta:tb, priority=3, groups=g1, inames=i:j}
        u[i] = u[i] + t {id=u, dep=*t, tags=tc, conflicts=g2, nosync=t@global, if=i>2, atomic}
        out[i,j] = t + sum(k, b[k]*a[i]) {id=o, dep=*t:u, priority=7, nosync=u, if=j<6, groups=g3}
        v[i,j] = 0 {id=v, dep=o, tags=te, atomic=init, inames=+}
        w[i,j], x[i,j] = argmin(k, b[k], k) {id=m, tags=tf, priority=2, dep=*v, if=i<9, nosync=u}
        ... nop {id=n, tags=tg, dep=m, priority=5}
        """.replace("nosync=t@global, if=i>2", "nosync=t@global, if=i>2, inames=i:j"),
        [
            lp.GlobalArg("a, u", F, shape=(16,)),
            lp.GlobalArg("b", F, shape=(4,)),
            lp.GlobalArg("out, v, w", F, shape=(16, 8)),
            lp.GlobalArg("x", np.int32, shape=(16, 8)),
            lp.ValueArg("c", F),
            ...,
        ],
        name="knl",
        target=lp.CTarget(),
        silenced_warnings=["write_race(*)", "reordered_access(*)"],
    )


#: Transformations, and which fields of instructions they mean to change.
TRANSFORMATIONS: dict[str, tuple[Transformation, str]] = {
    "split_iname": (lambda knl: lp.split_iname(knl, "i", 4), "within_inames predicates"),
    "chunk_iname": (lambda knl: lp.chunk_iname(knl, "i", 4), "within_inames predicates"),
    "join_inames": (lambda knl: lp.join_inames(knl, ["i", "j"], "ij"), "within_inames predicates"),
    "rename_iname": (lambda knl: lp.rename_iname(knl, "i", "q"), "within_inames predicates"),
    "rename_inames_in_batch": (
        lambda knl: lp.rename_inames_in_batch(knl, {"q": ["i"], "r": ["j"]}),
        "within_inames predicates",
    ),
    "duplicate_inames": (
        lambda knl: lp.duplicate_inames(knl, "j", "not id:m", "q"),
        "within_inames predicates",
    ),
    "affine_map_inames": (
        lambda knl: lp.affine_map_inames(knl, "i", "q", "q = 15 - i"),
        "within_inames predicates",
    ),
    "tag_inames": (lambda knl: lp.tag_inames(knl, "i:unr"), ""),
    "prioritize_loops": (lambda knl: lp.prioritize_loops(knl, "i,j"), ""),
    "rename_argument": (lambda knl: lp.rename_argument(knl, "u", "q"), "atomicity"),
    "expand_subst": (lp.expand_subst, ""),
    "extract_subst": (lambda knl: lp.extract_subst(knl, "q", "b[k]*a[i]"), ""),
    "fix_parameters": (lambda knl: lp.fix_parameters(knl, c=2), ""),
    "split_array_axis": (lambda knl: lp.split_array_axis(knl, "a,u", 0, 4), ""),
    "tag_array_axes": (lambda knl: lp.tag_array_axes(knl, "out", "F"), ""),
    "add_padding": (lambda knl: lp.add_padding(knl, "out", 0, 36), ""),
    "concatenate_arrays": (lambda knl: lp.concatenate_arrays(knl, "v,w", "q"), "atomicity"),
    "privatize": (lambda knl: lp.privatize_temporaries_with_inames(knl, "i", "t"), ""),
    "unprivatize": (
        lambda knl: lp.unprivatize_temporaries_with_inames(
            lp.privatize_temporaries_with_inames(knl, "i", "t"), "i", "t"
        ),
        "",
    ),
    "buffer_array": (
        lambda knl: lp.buffer_array(knl, "u", "j", temporary_address_space="private"),
        "depends_on atomicity",
    ),
    "add_prefetch": (lambda knl: lp.add_prefetch(knl, "b", "k", default_tag=None), "depends_on"),
    "to_batched": (lambda knl: lp.to_batched(knl, 2, "a,out"), "within_inames"),
    "realize_reduction": (
        lambda knl: lp.realize_reduction(knl, insn_id_filter="o"),
        "depends_on no_sync_with",
    ),
    "make_reduction_inames_unique": (lp.make_reduction_inames_unique, ""),
    "fold_constants": (lp.fold_constants, ""),
    "simplify_indices": (lp.simplify_indices, ""),
    "add_dtypes": (lambda knl: lp.add_dtypes(knl, {"t": F}), ""),
    "set_argument_order": (lambda knl: lp.set_argument_order(knl, "x,w,v,out,c,b,a,u"), ""),
    "set_temporary_address_space": (
        lambda knl: lp.set_temporary_address_space(knl, "t", "private"),
        "",
    ),
    "add_dependency": (lambda knl: lp.add_dependency(knl, "id:n", "id:t"), "depends_on"),
    "set_instruction_priority": (
        lambda knl: lp.set_instruction_priority(knl, "id:o", 9),
        "priority",
    ),
    "tag_instructions": (lambda knl: lp.tag_instructions(knl, "q", "id:o"), "tags"),
    "assignment_to_subst": (
        lambda knl: lp.assignment_to_subst(knl, "t"),
        "depends_on no_sync_with",
    ),
    "assume": (lambda knl: lp.assume(knl, "1 > 0"), ""),
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_options_of_instructions_are_kept(name: str) -> None:
    change, meant = TRANSFORMATIONS[name]
    may = {*meant.split(), "expression", "assignee", "assignees"}
    knl = program()
    changed = kernel_of(change(knl)).id_to_insn
    for insn in kernel_of(knl).instructions:
        if insn.id not in changed:
            assert (name, insn.id) == ("assignment_to_subst", "t")
            continue
        for field in {f.name for f in dataclasses.fields(insn)} - may:
            old, new = getattr(insn, field), getattr(changed[str(insn.id)], field)
            assert new == old, (insn.id, field)


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_kernels_that_are_not_meant_are_not_touched(name: str) -> None:
    other = lp.make_kernel("{ [p]: 0<=p<n }", "z[p] = 2*y[p]", name="other", target=lp.CTarget())
    unit = lp.merge([program(), other])
    change = TRANSFORMATIONS[name][0]
    changed = change(unit)
    assert changed["other"].copy(origin=None) == unit["other"]
    assert changed["other"].origin in (None, unit["other"])
    assert changed["knl"] == kernel_of(change(program()))


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_names_given_and_taken_back_make_no_difference(name: str) -> None:
    knl = program()
    renamed = lp.rename_iname(
        lp.rename_argument(lp.rename_iname(knl, "i", "h"), "a", "e"), "j", "l"
    )
    back = lp.rename_iname(
        lp.rename_iname(lp.rename_argument(renamed, "e", "a"), "l", "j"), "h", "i"
    )
    change = TRANSFORMATIONS[name][0]
    texts = [lp.generate_code_v2(ready(change(each))).device_code() for each in (knl, back)]
    assert texts[0] == texts[1]


def test_tags_of_accesses_are_kept_when_variables_are_renamed() -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<4 }", "out[i] = a$west[i] + c$east")
    knl = lp.rename_argument(lp.rename_argument(knl, "a", "q"), "c", "r")
    assert str(kernel_of(knl).instructions[0]).startswith("out[i] = q$west[i] + r$east")


def test_groups_of_a_call_are_those_of_what_is_put_in_its_place() -> None:
    array = lp.GlobalArg("x, y", F, shape=(4,))
    callee = lp.make_function("{ [i]: 0<=i<4 }", "y[i] = 2*x[i]", [array], name="f")
    call = "[i]: y[i] = f([j]: x[j]) {id=call, groups=g, conflicts=h}"
    knl = lp.merge([lp.make_kernel("{ [i,j]: 0<=i,j<4 }", call, [array]), callee])
    for changed in (
        lp.inline_callable_kernel(knl, "f"),
        lp.pack_and_unpack_args_for_call(knl, "f"),
    ):
        for insn in kernel_of(changed).instructions:
            assert insn.groups == frozenset("g")
            assert insn.conflicts_with_groups == frozenset("h")


def ready(knl: Any) -> Any:
    """Take out what the C target has not: atomic accesses."""
    kernel = kernel_of(knl)
    plain = [
        insn.copy(atomicity=()) if getattr(insn, "atomicity", ()) else insn
        for insn in kernel.instructions
    ]
    return knl.with_kernel(kernel.copy(instructions=plain))
