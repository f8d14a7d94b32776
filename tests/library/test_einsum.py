"""Kernels made from short specifications."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.errors import KgenError
from tests.transforms.helpers import run

RNG = np.random.default_rng(0)
ARRAYS = {
    "mat": RNG.random((3, 4, 5)), "vec": RNG.random(5), "a": RNG.random((4, 4)),
    "b": RNG.random((4, 3)),
}  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ("mij,j->mi", ["mat", "vec"]),
        ("ij,jk->ki", ["a", "b"]),
        ("ij,jk", ["a", "b"]),
        ("ij,ij->", ["a", "a"]),
        ("ii->i", ["a"]),
        ("ij->ji", ["b"]),
        ("i,j->ij", ["vec", "vec"]),
        ("ij,jk,kl->il", ["a", "a", "b"]),
    ],
)
def test_sums_of_products(spec: str, names: list[str]) -> None:
    operands = [ARRAYS[name] for name in names]
    found = run(lp.make_einsum(spec, names), **dict(zip(names, operands, strict=True)))
    np.testing.assert_allclose(found["out"], np.einsum(spec, *operands))


def test_options_of_the_kernel() -> None:
    knl = lp.make_einsum("ij->i", ["a"], name="sums", target=lp.CTarget())
    assert (knl.default_entrypoint.name, knl.target) == ("sums", lp.CTarget())
    assert str(knl.default_entrypoint.array_vars["a"].shape) == "(Variable('Ni'), Variable('Nj'))"


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ("ij->ii", "occur once"), ("ij->k", "must be an axis of a factor"),
        ("ij,jk->ik", "2 factors, and arg_names has 1 item"), ("i.->i", "axes are letters"),
    ],
)  # fmt: skip
def test_what_is_no_specification(spec: str, match: str) -> None:
    with pytest.raises(KgenError, match=match):
        lp.make_einsum(spec, ["a"])


@pytest.mark.parametrize("tags", ["N0,N1", "N1,N0"])
def test_copies_to_another_layout(tags: str) -> None:
    found: Any = run(lp.make_copy_kernel(tags), input=ARRAYS["b"])["output"]
    np.testing.assert_array_equal(found, ARRAYS["b"])
    assert found.flags.f_contiguous == (tags == "N0,N1")


def test_copies_from_another_layout_to_separate_arrays() -> None:
    knl = lp.fix_parameters(lp.make_copy_kernel("N0,sep", "N0,N1"), n1=3)
    found = run(knl, input=np.asfortranarray(ARRAYS["b"]))
    for k in range(3):
        np.testing.assert_array_equal(found[f"output_s{k}"], ARRAYS["b"][:, k])


def test_names_say_how_many_axes_become_how_many() -> None:
    assert list(lp.make_einsum("ij,jk->ik", ["a", "b"]).entrypoints) == ["einsum3to2_kernel"]
    assert lp.make_einsum("i,i->", ["a", "b"]).default_entrypoint.name == "einsum1to0_kernel"
