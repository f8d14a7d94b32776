"""Tiles that are fetched, their cores and halos."""

from __future__ import annotations

import pytest

import kgen as lp
from tests.draw.kernels import product, stencil


def test_tiles_of_a_stencil() -> None:
    found = lp.draw.prefetch(stencil(), "a_fetch", {"n": 26})
    tiles = {(tile.at["i_outer"], tile.at["j_outer"]): tile for tile in found.tiles}
    tile = tiles[2, 1]  # loops start at 1, and so do tiles
    assert tile.core == {(i, j) for i in range(8, 12) for j in range(8, 16)}
    assert tile.elements == {(i, j) for i in range(7, 13) for j in range(7, 17)}
    assert len(tile.halo) == 28
    assert tile.extents == (6, 10)


def test_how_often_elements_are_fetched() -> None:
    found = lp.draw.prefetch(stencil(), "a_fetch", {"n": 26})
    assert found.times[9, 10] == 1  # in the middle of a tile
    assert found.times[8, 12] == 2  # at its border
    assert found.times[8, 8] == 4  # at its corner


def test_a_product_has_no_halo() -> None:
    knl = lp.split_iname(product(), "i", 4, outer_tag="g.1", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", 4, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "k", 4)
    knl = lp.add_prefetch(knl, "a", "k_inner, i_inner", default_tag="l.auto")
    found = lp.draw.prefetch(knl, "a_fetch", {"n": 8})
    assert {len(tile.elements) for tile in found.tiles} == {16}
    assert not any(tile.halo for tile in found.tiles)
    assert set(found.times.values()) == {2}  # once for each column of work-groups


def test_text() -> None:
    text = str(lp.draw.prefetch(stencil(), "a_fetch", {"n": 18}))
    assert "60 elements (6 x 10) in a tile, 28 of them in its halo" in text


def test_another_temporary() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", "<> t = 3*i\na[i] = t", target=lp.CTarget())
    with pytest.raises(lp.KgenError, match="'t' is not a copy of elements of an array"):
        lp.draw.prefetch(knl, "t")
    with pytest.raises(lp.KgenError, match="there is no temporary 'a_fetch'"):
        lp.draw.prefetch(knl, "a_fetch")


def test_tiles_that_are_fetched_ahead() -> None:
    knl = lp.make_kernel(
        "{ [i, j, k]: 0 <= i, j, k < n }",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [lp.GlobalArg("a, b", "float32", shape="n, n"), ...],
        target=lp.CudaTarget(),
        assumptions="n mod 8 = 0 and n >= 8",
    )
    for name, axis in (("i", 1), ("j", 0)):
        knl = lp.split_iname(knl, name, 8, outer_tag=f"g.{axis}", inner_tag=f"l.{axis}")
    knl = lp.split_iname(knl, "k", 8)
    knl = lp.add_prefetch(knl, "a", "i_inner, k_inner", default_tag="l.auto")
    knl = lp.pipeline(knl, "k_outer", stages=2, fetches="a_fetch")
    found = lp.draw.prefetch(knl, "a_fetch", {"n": 16})
    assert {min(tile.elements) for tile in found.tiles} == {(0, 0), (0, 8), (8, 0), (8, 8)}
    assert {tile.extents for tile in found.tiles} == {(8, 8)}
