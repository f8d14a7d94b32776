"""Tags of the user's own on all that carries tags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pytools.tag import Tag

import kgen as lp
from kgen.errors import KgenError
from kgen.ir.tags import (
    GroupInameTag,
    HardwareConcurrentTag,
    LocalInameTag,
    UniqueInameTag,
    UnrollTag,
    VectorizeTag,
    filter_iname_tags_by_type,
)


@dataclass(frozen=True)
class Marked(Tag):
    """A tag that means nothing to us."""

    why: str


def carriers() -> list[Any]:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "<> t = a[i]\nout[i] = t").default_entrypoint
    return [knl, knl.inames["i"], knl.arg_dict["a"], knl.instructions[0]]


@pytest.mark.parametrize("at", range(4))
def test_tags_are_added_found_and_taken_away(at: int) -> None:
    plain = carriers()[at]
    tagged = plain.tagged(Marked("x"))
    assert tagged.tags_of_type(Marked) == {Marked("x")}
    assert tagged.tagged([Marked("y")]).tags_of_type(Marked) == {Marked("x"), Marked("y")}
    assert tagged.without_tags(Marked("x")) == plain
    assert tagged.tags_not_of_type(Marked) == plain.tags
    assert not plain.tags_of_type(Marked)
    assert plain.without_tags(Marked("x"), verify_existence=False) == plain
    with pytest.raises(ValueError, match=r"has no tag .* to remove"):
        plain.without_tags(Marked("x"))


def test_tags_of_a_type() -> None:
    tags = [UnrollTag(), GroupInameTag(1), GroupInameTag(0)]
    assert filter_iname_tags_by_type(tags, UnrollTag, 1, 1) == {UnrollTag()}
    assert filter_iname_tags_by_type(tags, (UnrollTag, GroupInameTag)) == set(tags)
    with pytest.raises(
        KgenError, match=r"at most 1 of GroupInameTag are required, not: g\.0, g\.1"
    ):
        filter_iname_tags_by_type(tags, GroupInameTag, max_num=1)
    with pytest.raises(KgenError, match="at least 1 of LocalInameTag are required, not: none"):
        filter_iname_tags_by_type(tags, LocalInameTag, min_num=1)


@pytest.mark.parametrize("tag", [VectorizeTag(), GroupInameTag(0), LocalInameTag(1)])
def test_axes_and_lanes_are_of_the_hardware(tag: Tag) -> None:
    assert isinstance(tag, HardwareConcurrentTag)
    assert isinstance(tag, UniqueInameTag)
    assert not isinstance(UnrollTag(), HardwareConcurrentTag | UniqueInameTag)
