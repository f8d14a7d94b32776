"""Loops whose bounds are data: what reads them in which loops, and what is refused of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.analysis.loop_bounds import reads_in_bounds
from kgen.errors import MissingDefinitionError, TransformError, VariableAccessNotOrdered


def _rows(target: Any = None, domains: tuple[str, ...] = ("i", "j")) -> lp.TranslationUnit:
    """Add up the entries of rows, which begin and end where two arrays say."""
    bounds = {"i": "{[i]: 0<=i<n}", "j": "{[j]: s<=j<e}", "ij": "{[i,j]: 0<=i<n and s<=j<e}"}
    return lp.make_kernel(
        [bounds[name] for name in domains],
        """
        <> s = p[i] {id=s, inames=i}
        <> e = q[i] {id=e, inames=i}
        out[i] = out[i] + a[j] {id=w, inames=i:j, dep=s:e}
        """,
        [
            lp.GlobalArg("p,q", np.int32, shape="n"),
            lp.GlobalArg("out", np.float32, shape="n"),
            lp.GlobalArg("a", np.float32, shape=64),
            "...",
        ],
        target=target or lp.CTarget(),
    )


def _tiled() -> lp.TranslationUnit:
    return lp.split_iname(_rows(lp.OpenCLTarget()), "i", 4, outer_tag="g.0", inner_tag="l.0")


@pytest.mark.parametrize("domains", [("i", "j"), ("ij",)])
def test_bounds_are_read_outside_of_the_loops_that_they_bound(domains: tuple[str, ...]) -> None:
    found = {
        (read.insn_id, read.array, read.place.inames)
        for read in reads_in_bounds(_rows(domains=domains).default_entrypoint)
    }
    assert found == {("w", "s", ("i",)), ("w", "e", ("i",))}


_SEPARATE: dict[str, Callable[[Any], Any]] = {
    "copied": lambda knl: lp.duplicate_inames(knl, "i", within="id:w"),
    "copied with one of the bounds": lambda knl: lp.duplicate_inames(knl, "i", "id:w or id:e"),
    "split": lambda knl: lp.split_iname(knl, "i", 4, within="id:w or id:e"),
    "renamed": lambda knl: lp.rename_iname(knl, "i", "k", within="id:w"),
    "in one storage": lambda knl: lp.alias_temporaries(knl, "s, e"),
}


@pytest.mark.parametrize("change", _SEPARATE.values(), ids=_SEPARATE)
@pytest.mark.parametrize("domains", [("i", "j"), ("ij",)])
def test_bounds_stay_with_their_loops(
    domains: tuple[str, ...], change: Callable[[Any], Any]
) -> None:
    with pytest.raises(TransformError, match=r"'w'.*\n.*|'[se]'"):
        change(_rows(domains=domains))


def test_a_copy_on_the_same_axis_has_the_bounds_of_its_work_item() -> None:
    knl = lp.duplicate_inames(_tiled(), "i_inner", "id:w", tags={"i_inner": "l.0"})
    assert "for (int j = s; j < e; ++j)" in lp.generate_code_v2(knl).device_code()


def test_the_order_keeps_bounds_that_share_storage_with_what_loops_set() -> None:
    knl = _rows().default_entrypoint
    names = knl.temporary_variables
    shared = {n: names[n].copy(base_storage="st", dtype=np.int32) for n in names}
    with pytest.raises(VariableAccessNotOrdered, match="two temporaries in storage 'st' at once"):
        lp.generate_code_v2(knl.copy(temporary_variables=shared))


@pytest.mark.parametrize("name", ["s", "e"])
def test_a_rule_of_a_bound_leaves_the_bound_where_it_is(name: str) -> None:
    code = lp.generate_code_v2(lp.assignment_to_subst(_rows(), name)).device_code()
    assert "for (int j = s; j < e; ++j)" in code


_FILLED: dict[str, Callable[[Any], Any]] = {
    "buffer": lambda knl: lp.buffer_array(knl, "out", "i_inner", default_tag="l.auto"),
    "fetch": lambda knl: lp.add_prefetch(knl, "out", "i_inner", default_tag=None),
}


@pytest.mark.parametrize("change", _FILLED.values(), ids=_FILLED)
def test_what_is_filled_once_for_several_rows_is_filled_outside_of_their_entries(
    change: Callable[[Any], Any],
) -> None:
    with pytest.raises(TransformError, match=r"(?s)each iteration of 'j', outside of 'i_inner'"):
        change(_tiled())


def test_a_fetch_for_the_entries_of_a_row_is_in_the_loop_over_rows() -> None:
    knl = lp.split_iname(_tiled(), "j", 2)
    knl = lp.add_prefetch(knl, "a", "j_inner", default_tag=None)
    fetch = knl.default_entrypoint.id_to_insn["a_fetch_rule"]
    assert {"i_inner", "j_outer"} <= fetch.within_inames
    assert lp.generate_code_v2(knl).device_code()


def test_work_items_wait_for_a_bound_that_they_share() -> None:
    knl = lp.make_kernel(
        ["{[i]: 0<=i<n}", "{[k]: 0<=k<16}", "{[t]: 0<=t<1}", "{[j]: 0<=j<s}"],
        """
        <> s = p[i] + t {id=s, inames=i:t}
        out[i, k] = sum(j, a[j, k]) {inames=i:k, dep=s}
        """,
        [
            lp.GlobalArg("p", np.int32, shape="n"),
            lp.GlobalArg("a", np.float32, shape="64, 16"),
            "...",
        ],
        target=lp.OpenCLTarget(),
    )
    knl = lp.set_temporary_address_space(knl, "s", lp.AddressSpace.LOCAL)
    knl = lp.tag_inames(knl, "i:g.0, k:l.0, t:l.0")
    code = lp.generate_code_v2(knl).device_code()
    assert code.index("s = ") < code.index("barrier(") < code.index("for (")


@pytest.mark.parametrize("target", [lp.CTarget(), lp.OpenCLTarget()], ids=str)
def test_bounds_are_saved_for_loops_in_later_launches(target: Any) -> None:
    knl = lp.make_kernel(
        ["{[i]: 0<=i<n}", "{[j]: 0<=j<s}"],
        """
        <> s = p[i] {id=s, inames=i}
        c[i] = 2*a[i] {id=c, inames=i}
        ... gbarrier {id=bar, dep=s:c}
        out[i] = out[i] + c[j] {id=w, inames=i:j, dep=bar}
        """,
        [
            lp.GlobalArg("p", np.int32, shape="n"),
            lp.GlobalArg("a,c,out", np.float32, shape="n"),
            "...",
        ],
        target=target,
    )
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    with pytest.raises(MissingDefinitionError, match="'s' gets used"):
        lp.generate_code_v2(knl)
    knl = lp.save_and_reload_temporaries(lp.preprocess_kernel(knl))
    assert "s = s_save_slot[" in lp.generate_code_v2(knl).device_code()
