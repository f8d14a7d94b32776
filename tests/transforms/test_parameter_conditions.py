"""What a domain says of parameters alone holds for all loops that transformations make of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import kgen as lp

CHANGES: dict[str, Callable[[lp.TranslationUnit], lp.TranslationUnit]] = {
    "nothing": lambda knl: knl,
    "split_iname": lambda knl: lp.split_iname(knl, "i", 3),
    "split_iname of a part": lambda knl: lp.split_iname(knl, "i", 3, within="id:second"),
    "duplicate_inames": lambda knl: lp.duplicate_inames(knl, "i", within="id:second"),
    "duplicate_inames, two": lambda knl: lp.duplicate_inames(knl, "i,j", within="id:second"),
    "rename_iname": lambda knl: lp.rename_iname(knl, "i", "z"),
    "join_inames": lambda knl: lp.join_inames(lp.fix_parameters(knl, m=5), ["i", "j"], "ij"),
    "split_domain": lambda knl: lp.split_domain(knl, "{ [i]: i < 2 }"),
    "split_domain at a point": lambda knl: lp.split_domain(knl, "{ [i]: i != 2 }"),
    "split_domain in two": lambda knl: lp.split_domain(knl, "{ [i, j]: i = j }"),
    "affine_map_inames": lambda knl: lp.affine_map_inames(knl, "i", "z", ["z + i = 5"]),
    "chunk_iname": lambda knl: lp.chunk_iname(knl, "i", 2),
    "add_prefetch": lambda knl: lp.add_prefetch(knl, "x", "i"),
    "realize_reduction": lp.realize_reduction,
    "fix_parameters": lambda knl: lp.fix_parameters(knl, m=5),
    "assume": lambda knl: lp.assume(knl, "m >= 1"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize(
    "domain", ["{ [i, j]: 0 <= i, j < m and n >= 6 }", "{ [i, j]: 0 <= i, j < m and n mod 2 = 0 }"]
)
def test_a_condition_on_parameters_stays(
    change: Callable[[lp.TranslationUnit], lp.TranslationUnit], domain: str
) -> None:
    knl = lp.make_kernel(
        domain,
        """
        a[i, j] = x[i] + j  {id=first}
        b[i, j] = 2*x[i] + j  {id=second}
        """,
        [
            lp.ValueArg("n, m", "int32"),
            lp.GlobalArg("a, b", "int32", shape=(5, 5)),
            lp.GlobalArg("x", "int32", shape=(5,)),
        ],
        assumptions="m <= 5",
        target=lp.ExecutableCTarget(),
    )
    for n in (5, 8, 9):
        a, b = np.full((2, 5, 5), -1, np.int32)
        x = np.arange(5, dtype=np.int32)
        changed = change(knl)
        sizes = {"m": 5} if "m" in changed.default_entrypoint.arg_dict else {}
        changed(a=a, b=b, x=x, n=n, **sizes)
        runs = n >= 6 if "6" in domain else n % 2 == 0
        expected = x[:, None] + np.arange(5) if runs else np.full((5, 5), -1)
        assert (a == expected).all()
        assert (b == (expected + x[:, None] if runs else expected)).all()


OF_ONE_LOOP: dict[str, Callable[[lp.TranslationUnit], lp.TranslationUnit]] = {
    "split_domain": lambda knl: lp.split_domain(knl, "{ [j]: j >= 2 }"),
    "split_iname": lambda knl: lp.split_iname(knl, "j", 2),
    "rename_iname": lambda knl: lp.rename_iname(knl, "j", "z"),
    "duplicate_inames": lambda knl: lp.duplicate_inames(knl, "j", within="id:first"),
    "affine_map_inames": lambda knl: lp.affine_map_inames(knl, "j", "z", ["z = j + 1"]),
    "remove_unused_inames": lambda knl: lp.remove_unused_inames(
        lp.remove_instructions(knl, {"first"})
    ),
    "fix_parameters": lambda knl: lp.fix_parameters(knl, m=4),
}


@pytest.mark.parametrize("change", OF_ONE_LOOP.values(), ids=OF_ONE_LOOP.keys())
def test_what_bounds_one_loop_is_no_concern_of_others(
    change: Callable[[lp.TranslationUnit], lp.TranslationUnit],
) -> None:
    knl = lp.make_kernel(
        "{ [i, j, k]: 0 <= i < m and 0 <= j <= i and j < n and 0 <= k < 4 }",
        "a[i, j] = 1  {id=first, inames=i:j}\nb[k] = 2  {id=second, inames=k}",
        [
            lp.ValueArg("n, m", "int32"),
            lp.GlobalArg("a", "int32", shape=(4, 4)),
            lp.GlobalArg("b", "int32", shape=(4,)),
        ],
        assumptions="0 <= m <= 4 and n >= 0",
        target=lp.ExecutableCTarget(),
    )
    changed = change(knl)
    given = changed.default_entrypoint.arg_dict
    for m, n in [(4, 0), (4, 2), (0, 3)]:
        arguments = {"a": np.zeros((4, 4), np.int32), "n": n, "m": m}
        b = np.zeros(4, np.int32)
        changed(b=b, **{name: value for name, value in arguments.items() if name in given})
        assert (b == 2).all()
