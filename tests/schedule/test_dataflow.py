"""Limits on what isl is asked about the flow of data."""

from __future__ import annotations

import islpy as isl
import pytest

from kgen.schedule.dataflow import UndecidedError, domain_of, is_subset


@pytest.mark.parametrize("sizes", [(16, 16), (128, 128), (4, 6), (15, 35)])
def test_quotients_of_nested_tiles_are_compared(sizes: tuple[int, int]) -> None:
    outer, inner = sizes
    text = f"exists o, m: j = i and 0 <= i - {outer * inner}o - {inner}m < {inner}"
    tiles = isl.Map(f"[n] -> {{ [i] -> [j] : {text} and 0 <= m < {outer} and 0 <= i < n }}")
    assert is_subset(tiles, tiles)
    assert domain_of(tiles).is_equal(tiles.domain())


def test_quotients_by_numbers_that_share_no_factor_are_left_undecided() -> None:
    rows = "-5382 + 84i - 7a - 195b <= 16464c <= -5376 + 84i - 7a - 195b"
    more = "-7168 + 112i - 9a - 260b <= 21952c <= -7165 + 112i - 9a - 260b"
    pairs = isl.Map(f"{{ [i] -> [j] : exists a, b, c: j = i and {rows} and {more} }}")
    with pytest.raises(UndecidedError, match="share no large factor"):
        is_subset(pairs, pairs)  # isl would sample points for minutes


def test_ranges_that_become_quotients_are_limited_too() -> None:
    last = isl.Map("{ [i] -> [a, b] : -3516 + 7i - 4116a - 1001b <= 89 and 977a >= 294b + i }")
    assert is_subset(last, last)
    with pytest.raises(UndecidedError, match="share no large factor"):
        domain_of(last)
