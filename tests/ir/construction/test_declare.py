"""What kernel_data declares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp


def test_one_declaration_of_several_names() -> None:
    knl = lp.make_kernel(
        "{[i]: 0<=i<n}", "out[i] = 2*a[i]", [lp.GlobalArg("a, out", "float32"), "..."]
    )
    assert list(knl.default_entrypoint.arg_dict) == ["a", "out", "n"]


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(lp.KgenError, match="'2a' is not a valid name for an array"):
        lp.GlobalArg("2a")


def test_names_in_layouts_are_guessed_as_values() -> None:
    array = lp.GlobalArg("a", np.float64, shape="n,q", strides="s0,s1", offset="o")
    knl = lp.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "out[i, j] = a[i, j]", [array, "..."])
    args = knl.default_entrypoint.arg_dict
    assert all(isinstance(args[name], lp.ValueArg) for name in ("o", "q", "s0", "s1"))


def test_a_size_that_is_not_declared_is_refused() -> None:
    data = [lp.GlobalArg("a", np.float64, shape="k"), lp.ValueArg("n", np.int32)]
    knl = lp.make_kernel("{[i]: 0<=i<n}", "a[i] = 1", data)
    with pytest.raises(lp.KgenError, match="not declared: 'k'"):
        lp.generate_code_v2(knl)


def test_a_size_that_becomes_a_number_need_not_be_declared() -> None:
    data = [lp.GlobalArg("a", np.float64, shape="k")]
    knl = lp.fix_parameters(lp.make_kernel("{[i]: 0<=i<k}", "a[i] = 1", data), k=3)
    assert "i < 3" in lp.generate_code_v2(knl).device_code()


def test_assumptions_are_about_parameters() -> None:
    with pytest.raises(lp.KgenError, match="mention 'z', which is not a parameter"):
        lp.make_kernel("{[i]: 0<=i<n}", "a[i] = 1", assumptions="z >= 1")
    knl = lp.make_kernel("{[i]: 0<=i<n}", "a[i] = s", [lp.GlobalArg("a", shape="n + k"), ...])
    assert "k" in str(lp.assume(knl, "k >= 1")["kgen_kernel"].assumptions)
    with pytest.raises(lp.KgenError, match="there is no parameter 'i'"):
        lp.assume(knl, "i >= 1")


def test_the_default_order_is_for_arrays_without_another() -> None:
    arrays = [
        lp.GlobalArg("a, b", np.float32, shape="n,m"),
        lp.GlobalArg("c", np.float32, shape="n,m", order="C"),
        lp.GlobalArg("d", np.float32, shape="n,m", strides="m,1"),
        ...,
    ]
    copies = ["b[i,j] = a[i,j]", "d[i,j] = c[i,j]"]
    domain = "{[i,j]: 0<=i<n and 0<=j<m}"
    for order, first in (("F", "1 n"), (None, "m 1")):
        knl = lp.make_kernel(domain, copies, arrays, default_order=order)
        arrays_by_name = knl.default_entrypoint.array_vars
        strides = [" ".join(map(str, arrays_by_name[n].fixed_strides)) for n in "abcd"]
        assert strides == [first, first, "m 1", "m 1"]


def test_axes_have_names_and_tags_by_name() -> None:
    array = lp.GlobalArg("a", shape="n,m", dim_names="i,j", dim_tags={"j": "N1", "i": "N0"})
    assert [str(tag) for tag in array.dim_tags] == ["N0:stride:1", "N1:stride:n"]
    with pytest.raises(lp.KgenError, match="2 axes in its shape and 1 in dim_names"):
        lp.GlobalArg("a", shape="n,m", dim_names="i")
    with pytest.raises(lp.KgenError, match="two axes have the level 'N1'"):
        lp.GlobalArg("a", shape="n,m", dim_tags="N1,N1")
    with pytest.raises(lp.KgenError, match="the shape 'auto' is text"):
        lp.GlobalArg("a", shape="auto")


def test_rules_are_used_with_their_number_of_arguments() -> None:
    with pytest.raises(lp.KgenError) as info:
        lp.make_kernel("{[i]: 0<=i<n}", ["f(x) := x*x", "b[i] = f(a[i], 1)"])
    text = str(info.value)
    assert "'f' takes 1 argument, not 2" in text
    assert "b[i] = f(a[i], 1)" in text


def test_what_declarations_take_by_position() -> None:
    local = lp.TemporaryVariable("t", np.float32, (16,), lp.AddressSpace.LOCAL)
    assert (local.address_space, local.shape) == (lp.AddressSpace.LOCAL, (16,))
    assert lp.Assignment("a[i]", "b[i]", "copy").id == "copy"
    array = lp.GlobalArg("a", np.float32, (16, 4), "N0,N1", 5)
    assert ([str(tag) for tag in array.dim_tags], array.offset) == (
        ["N0:stride:1", "N1:stride:16"],
        5,
    )


def test_address_spaces_are_words_too() -> None:
    assert lp.TemporaryVariable("t", address_space="local").address_space == lp.AddressSpace.LOCAL
    with pytest.raises(lp.KgenError, match="'shared' is not an address space"):
        lp.TemporaryVariable("t", address_space="shared")


def test_extents_are_whole_numbers() -> None:
    with pytest.raises(lp.KgenError, match=r"the extent of an axis is an integer, not 3\.5"):
        lp.GlobalArg("a", shape=(3.5,))
    with pytest.raises(lp.KgenError, match="the type comes before the shape"):
        lp.GlobalArg("a", "n", np.float64)
    with pytest.raises(lp.KgenError, match=r"the shape \(3,\), its initializer \(2,\)"):
        lp.TemporaryVariable("t", shape=(3,), initializer=np.ones(2), read_only=True)


def scaled(data: list[Any] | None = None) -> lp.TranslationUnit:
    data = [lp.GlobalArg("w, a", np.float64, shape=8)] if data is None else data
    text = ["f(x) := SCALE*x", "w[i] = f(a[i]) {if=i < LIMIT}"]
    return lp.make_kernel("{[i]: 0<=i<8}", text, data, target=lp.CTarget())


def test_numbers_may_be_explained_after_the_kernel_is_made() -> None:
    fixed = lp.fix_parameters(scaled(), SCALE=2.5, LIMIT=4)
    assert "i < 4" in lp.generate_body(fixed)
    known = {"SCALE": np.dtype(np.float64), "LIMIT": np.dtype(np.int32)}
    explained = lp.register_symbol_manglers(
        scaled(), [lambda _, name: (known[name], f"THE_{name}") if name in known else None]
    )
    assert "THE_SCALE * a[i]" in lp.generate_body(explained)


def test_constants_of_c_need_no_declaration() -> None:
    data = [lp.GlobalArg("a", np.float32, shape=4), lp.GlobalArg("out", shape=4)]
    knl = lp.make_kernel("{[i]: 0<=i<4}", "out[i] = M_PI*a[i] + INT_MIN", data, target=lp.CTarget())
    typed = lp.infer_unknown_types(knl).default_entrypoint
    assert typed.arg_dict["out"].dtype.numpy_dtype == np.float64
    assert "out[i] = 3.141592653589793 * a[i] + " in lp.generate_body(knl)
    assert "= 2.0f * a[i] +" in lp.generate_body(lp.fix_parameters(knl, M_PI=2))


def test_an_argument_hides_a_constant() -> None:
    data = [lp.GlobalArg("out", np.float64, shape=4), lp.ValueArg("M_E", np.float64)]
    knl = lp.make_kernel("{[i]: 0<=i<4}", "out[i] = M_E", data, target=lp.CTarget())
    assert "out[i] = M_E_0;" in lp.generate_body(knl)


def test_numbers_that_nothing_explains_are_refused_when_code_is_generated() -> None:
    knl = lp.infer_unknown_types(scaled())
    with pytest.raises(
        lp.KernelError, match=r"not declared: 'LIMIT', 'SCALE'(.|\n)*line 1: w\[i\]"
    ):
        lp.generate_code_v2(knl)
    near = scaled([lp.GlobalArg("w, a", np.float64, shape=8), lp.ValueArg("LIMITS", np.int32)])
    with pytest.raises(lp.KernelError, match="did you mean 'LIMITS'"):
        lp.generate_code_v2(lp.fix_parameters(near, SCALE=2))


@pytest.mark.parametrize(("storage_shape", "size"), [((5, 7), 35), ((3, 4), 12), ((1, 1), 12)])
def test_storage_may_be_larger_than_an_array(storage_shape: tuple[int, ...], size: int) -> None:
    t = lp.TemporaryVariable("t", np.float32, (3, 4), storage_shape=storage_shape)
    text = ["t[i, j] = i {id=t}", "out[k] = t[2 - k, 3 - k] {dep=t}"]
    knl = lp.make_kernel("{[i, j, k]: 0<=i,k<3 and 0<=j<4}", text, [t, ...], target=lp.CTarget())
    assert f"float t[{size}];" in lp.generate_body(knl)
