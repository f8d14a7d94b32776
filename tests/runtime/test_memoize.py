"""Results of functions on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import kgen as lp
from kgen.runtime.cache import CacheMode, DiskCache, process_caches
from kgen.runtime.memoize import memoize_on_disk

calls: list[Any] = []


@memoize_on_disk
def split(knl: lp.TranslationUnit, size: int, *, iname: str = "i") -> lp.TranslationUnit:
    calls.append(size)
    return lp.split_iname(knl, iname, size)


@memoize_on_disk
def describe(value: Any) -> Any:
    calls.append(value)
    return object() if value == "object" else [value]


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KGEN_CACHE_DIR", str(tmp_path))
    calls.clear()


def test_results_are_taken_from_disk() -> None:
    knl = lp.make_kernel("{[i]: 0<=i<n}", "out[i] = 2*a[i]")
    first, again = split(knl, 16), split(knl, 16)
    assert calls == [16]
    assert again == first == lp.split_iname(knl, "i", 16)
    split(knl, 8)
    split(lp.rename_argument(knl, "a", "b"), 16)
    split(knl, 16, iname="i")
    assert calls == [16, 8, 16, 16]


@memoize_on_disk
def split_and_linearize(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    calls.append("linearize")
    return lp.linearize(lp.split_iname(knl, "i", 16))


def test_results_have_the_history_of_their_kernel() -> None:
    knl = lp.make_kernel(
        "{[i,j]: 0<=i<64 and 0<=j<8}",
        "out[i] = sum(j, a[i+j])",
        [lp.GlobalArg("a", "float32"), ...],
    )
    wanted = lp.linearize(lp.split_iname(knl, "i", 16))
    for found in (split_and_linearize(knl), split_and_linearize(knl)):
        assert found["kgen_kernel"].linearization == wanted["kgen_kernel"].linearization
        fetched, expected = (lp.add_prefetch(p, "a[i+j]", "i_inner,j") for p in (found, wanted))
        assert str(fetched) == str(expected)
    assert calls == ["linearize"]


class Pair(NamedTuple):
    first: int
    second: int


@pytest.mark.parametrize("value", [{"b": 1, "a": 2}, Pair(1, 2), np.dtype("u1,f4"), (True, 1, 1.0)])
def test_results_keep_their_types_and_order(value: Any) -> None:
    for found in (describe(value), describe(value)):
        assert repr(found) == repr([value])


def test_switched_off_it_calls() -> None:
    describe(1)
    with CacheMode(False):
        describe(1)
    assert calls == [1, 1]


def test_what_cannot_be_kept_is_computed() -> None:
    thing = object()
    assert describe(thing) == describe(thing) == [thing]
    describe("object")
    describe("object")
    assert calls == [thing, thing, "object", "object"]


def test_damaged_results_are_computed_anew(tmp_path: Path) -> None:
    describe(1)
    (entry,) = tmp_path.glob("*/*")
    process_caches.disk.store(entry.parent.name + entry.name, b'{"kind": "name", "value": "x:y"}')
    assert describe(1) == [1]
    assert describe(1) == [1]
    assert calls == [1, 1]


def test_functions_that_depend_on_more_are_called(tmp_path: Path) -> None:
    offset = 3

    def shifted(value: int) -> int:
        calls.append(value)
        return value + offset

    kept = memoize_on_disk(shifted, disk=DiskCache(tmp_path))
    assert kept(1) == 4
    offset = 5
    assert kept(1) == 6
    assert kept.__name__ == "shifted"
