"""IR values as JSON: what comes back is equal, and nothing but known classes is made."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from constantdict import constantdict
from pytools.tag import Tag

import kgen as lp
from kgen.ir.codec import CodecError, decode, encode
from kgen.ir.language.expressions import parse


@dataclass(frozen=True)
class MyTag(Tag):
    level: int


def test_programs_come_back() -> None:
    knl = lp.make_kernel(
        "{[i,j,k]: 0<=i,j,k<n}",
        """
        <> scale = table[2] {id=scale}
        out[i,j] = scale*sum(k, a[i,k]*b[k,j]) {dep=scale, tags=mine}
        """,
        [
            lp.GlobalArg("a,b", np.float32, shape="n,n", order="F", tags=frozenset([MyTag(3)])),
            lp.TemporaryVariable("table", initializer=np.arange(4.0), read_only=True),
            "...",
        ],
        assumptions="n>=16 and n mod 16=0",
    )
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    again = decode(encode(knl))
    assert again == knl
    assert again.digest() == knl.digest()
    assert str(again) == str(knl)


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, -7, 2**70, "text", 1.5, float("inf"), 1 - 2j, b"\0\xff"),
        *(np.float32(1.5), np.int8(-3), np.dtype("complex64"), np.float32),
        *(
            [1, [2]],
            (1, (2.5,)),
            {"a": 1, 2: (3,)},
            constantdict({"x": ()}),
            {1, 2},
            frozenset("ab"),
        ),
        parse("a[i, 2*j] + (3 if i < n else f(x))"),
        parse("sum(k, cast(float32, k)) // 4"),
        MyTag(5),
        lp.AddressSpace.LOCAL,
    ],
)
def test_values_come_back(value: Any) -> None:
    again = decode(encode(value))
    assert again == value
    assert type(again) is type(value)


def test_arrays_come_back() -> None:
    array = np.arange(6, dtype=np.int16).reshape(2, 3).T
    again = decode(encode(array))
    assert again.dtype == array.dtype
    np.testing.assert_array_equal(again, array)
    again[0, 0] = 5


def test_equal_sets_have_equal_texts() -> None:
    names = [f"name{number}" for number in range(50)]
    assert json.loads(encode(set(names)))["items"] == sorted(names)


@pytest.mark.parametrize("value", [object(), lambda: 3, np.array([None]), open])
def test_what_has_no_json_form(value: Any) -> None:
    if value is open:
        assert decode(encode(value)) is open  # a function is its name
        return
    with pytest.raises(CodecError):
        encode(value)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"kind": "no such"}',
        '{"kind": "name", "value": "no.such.module:x"}',
        '{"kind": "object", "class": "subprocess:Popen", "fields": {"args": ["false"]}}',
        '{"kind": "object", "class": "kgen.ir.data:ValueArg", "fields": {"nme": "x"}}',
    ],
)
def test_what_is_no_value(text: str) -> None:
    with pytest.raises(CodecError):
        decode(text)


def test_text_is_json() -> None:
    assert json.loads(encode((1, "a"))) == {"kind": "tuple", "items": [1, "a"]}
