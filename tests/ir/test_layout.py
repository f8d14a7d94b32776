"""Layouts as text."""

from __future__ import annotations

import pytest

from kgen.errors import KernelError
from kgen.ir.data import GlobalArg, ImageArg, TemporaryVariable, ValueArg
from kgen.ir.layout import parse_array_dim_tags
from kgen.ir.types import INT32, auto


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("c,c,vec", ["N1:c", "N0:c", "vec"]),
        ("f,f,vec", ["N0:c", "N1:c", "vec"]),
        ("sep, C, C", ["sep", "N1:c", "N0:c"]),
        ("c,f,c", ["N1:c", "N2:c", "N0:c"]),
    ],
)
def test_c_goes_inside_of_the_axes_before_it_and_f_outside(text: str, levels: list[str]) -> None:
    assert [str(tag) for tag in parse_array_dim_tags(text, 3)] == levels


def test_what_is_no_tag_comes_with_the_ones_there_are() -> None:
    with pytest.raises(KernelError, match=r"'d' is not a dimension tag\n.*the tags are 'c', 'f'"):
        parse_array_dim_tags("c,d", 2)


def test_names_in_a_layout_follow_the_shape_and_outlast_a_type() -> None:
    array = GlobalArg("a", shape="n,m")
    assert array.layout_names == ("n", "m")
    assert array.copy(dtype=INT32).layout_names == ("n", "m")
    assert array.with_shape((2, 3)).layout_names == ()


def test_a_stride_of_none_is_rejected() -> None:
    with pytest.raises(KernelError, match="the stride of an axis is None\n  hint: "):
        GlobalArg("a", "float32", shape="n", strides=[None])


@pytest.mark.parametrize(("lanes", "size"), [(2, 2), (3, 4), (4, 4)])
def test_vector_size_is_the_space_of_a_vector(lanes: int, size: int) -> None:
    array = GlobalArg("a", "float32", shape=("n", lanes), dim_tags="N0,vec")
    assert array.vector_size() == size
    assert GlobalArg("a", "float32", shape="n").vector_size() == 1
    with pytest.raises(KernelError, match="the number of lanes of array 'a' is not known yet"):
        GlobalArg("a", "float32", shape=(3, auto), dim_tags="N0,vec").vector_size()


def test_images_have_as_many_axes_in_code_as_in_subscripts() -> None:
    assert GlobalArg("a", "float32", shape="n,m").num_target_axes() == 1
    assert ImageArg("a", "float32", shape="n,m").num_target_axes() == 2


def test_the_number_of_axes_may_be_unknown() -> None:
    array = GlobalArg("a", "float32", shape=auto)
    assert array.num_user_axes(require_answer=False) is None
    with pytest.raises(KernelError, match="the number of axes of array 'a' is not known yet"):
        array.num_user_axes()
    assert GlobalArg("a", "float32", dim_tags="c,c").num_user_axes() == 2


def test_strides_are_mapped_and_say_what_they_depend_on() -> None:
    outer, inner = GlobalArg("a", "float32", shape="n,m").dim_tags
    assert (outer.depends_on(), inner.depends_on()) == ({"m"}, frozenset())
    assert outer.map_expr(lambda stride: 2 * stride).stride == 2 * outer.stride
    (padded, lanes) = parse_array_dim_tags("N0,vec", 2)
    assert str(padded.copy(pad_to=8)) == "N0:c(8)"
    assert (lanes.map_expr(str), lanes.depends_on()) == (lanes, frozenset())


def test_names_that_addresses_depend_on() -> None:
    columns = GlobalArg("a", "float32", shape="n,m", order="F", offset="3*q")
    assert columns.supporting_names() == {"n", "q"}
    strided = TemporaryVariable("t", "float32", shape=(4, 4), strides=("s", "2*r"))
    assert strided.supporting_names() == {"s", "r"}
    assert (
        ValueArg("n").supporting_names() == GlobalArg("a", shape=auto).supporting_names() == set()
    )
