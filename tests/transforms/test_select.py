"""The decorator: programs of several kernels, errors, signatures."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from pymbolic.primitives import Variable

import kgen as lp
from kgen.ir.unit import CallableKernel
from tests.transforms.helpers import kernel_of


def pair() -> lp.TranslationUnit:
    """Return a program with the kernels ``f``, over ``i``, and ``g``, over ``j``."""
    f = lp.make_kernel("{[i]: 0 <= i < n}", "a[i] = 0 {id=fill}", name="f")
    g = lp.make_kernel("{[j]: 0 <= j < n}", "b[j] = 1", name="g")
    table = {"f": CallableKernel(f["f"]), "g": CallableKernel(g["g"])}
    return f.copy(callables_table=table, entrypoints=frozenset(table))


def test_a_transformation_applies_where_the_name_exists() -> None:
    split = lp.split_iname(pair(), "j", 4)
    assert set(split["f"].inames) == {"i"}
    assert set(split["g"].inames) == {"j_outer", "j_inner"}


def test_a_name_that_no_kernel_has_lists_the_near_ones_of_all() -> None:
    with pytest.raises(lp.TransformError, match="kernel 'f', 'g': there is no iname 'k'") as info:
        lp.split_iname(pair(), "k", 4)
    assert "known names: 'i', 'j'" in str(info.value)


def test_each_of_several_names_may_be_in_another_kernel() -> None:
    tagged = lp.tag_inames(pair(), "i:unr, j:ord")
    assert (str(*tagged["f"].inames["i"].tags), str(*tagged["g"].inames["j"].tags)) == (
        "unr",
        "ord",
    )
    typed = lp.add_dtypes(pair(), {"a": "float32", "b": "float64"})
    assert typed["g"].arg_dict["b"].dtype.numpy_dtype == "float64"
    with pytest.raises(lp.TransformError, match="no iname 'k'"):
        lp.tag_inames(pair(), "i:unr, k:unr")


def test_within_may_be_about_one_kernel() -> None:
    knl = lp.split_iname(pair(), "i", 4, within="id:fill")
    assert "i_outer" in knl["f"].inames


def test_a_single_kernel_works_without_its_program() -> None:
    split = lp.split_iname(kernel_of(lp.make_kernel("{[i]: 0 <= i < n}", "a[i] = 0")), "i", 4)
    assert isinstance(split, lp.LoopKernel)


def test_anything_else_is_refused() -> None:
    with pytest.raises(
        lp.TransformError, match="split_iname: the first argument is a kernel or a program"
    ):
        lp.split_iname("kernel", "i", 4)  # type: ignore[type-var]


def test_an_expression_is_no_name() -> None:
    iname: Any = Variable("i")
    for transform in (lp.tag_inames, lp.remove_unused_inames, lp.alias_temporaries):
        with pytest.raises(lp.KgenError, match=r"argument '\w+' is .*, not Variable\('i'\)"):
            transform(pair(), iname)


def test_signatures_and_documentation_are_kept() -> None:
    assert lp.split_iname.__name__ == "split_iname"
    assert list(inspect.signature(lp.split_iname).parameters)[:3] == [
        "kernel",
        "split_iname",
        "inner_length",
    ]


@pytest.mark.parametrize("name", ["kernel", "program", "t_unit"])
def test_first_argument_by_name(name: str) -> None:
    split: Any = lp.split_iname
    knl = split(**{name: pair()}, split_iname="i", inner_length=4)
    assert "i_outer" in knl["f"].inames
    for function in (lp.preprocess_kernel, lp.infer_unknown_types, lp.generate_code_v2):
        assert function(t_unit=knl) == function(knl)


def test_errors_about_names_have_the_classes_that_programs_expect() -> None:
    knl = lp.make_kernel("{ [i, j]: 0 <= i, j < 4 }", "a[i, j] = 1")
    for error in (KeyError, ValueError, lp.TransformError):
        with pytest.raises(error, match="there is no array 'b'"):
            lp.add_prefetch(knl, "b", "i")
    for error in (ValueError, lp.TransformError):
        with pytest.raises(error, match="the name 'j' is taken"):
            lp.duplicate_inames(knl, "i", within=None, new_inames="j")
