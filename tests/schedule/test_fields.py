"""Accesses to different fields of one element do not overlap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.errors import VariableAccessNotOrdered, WriteRaceError
from kgen.ir.vector_values import vector_type
from kgen.tools import get_or_register_dtype

PART = np.dtype([("lo", np.int16), ("hi", np.int16)])
RECORD = np.dtype([("x", np.float32), ("y", np.float32), ("part", PART)])


def kernel(first: str, second: str, tag: str, dep: str = "", dtype: Any = RECORD) -> Any:
    get_or_register_dtype("part_of_record", PART)
    get_or_register_dtype("record_of_fields", RECORD)
    data = [lp.GlobalArg("p", dtype, shape=64), lp.GlobalArg("a, b", np.float32, shape=64)]
    text = f"{first} {{id=one}}\n{second} {{id=two{dep}}}"
    knl = lp.make_kernel("{ [i, j]: 0 <= i, j < 64 }", text, data, target=lp.CudaTarget())
    return lp.tag_inames(knl, f"i:{tag}, j:{tag}")


def has_barrier(unit: Any) -> bool:
    return "__syncthreads" in lp.generate_code_v2(unit).device_code()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("p[i].x = a[i]", "p[63 - j].y = b[j]"),
        ("p[i].x = p[63 - i].y", "b[j] = a[j] + p[63 - j].y"),
        ("p[i].part.lo = p[0].x + a[i]", "p[63 - j].part.hi = p[1].x + b[j]"),
    ],
)
@pytest.mark.parametrize("tag", ["g.0", "l.0"])
def test_different_fields_need_no_order_and_no_barrier(first: str, second: str, tag: str) -> None:
    knl = kernel(first, second, tag)
    assert not has_barrier(knl)
    assert lp.verify(knl).ok


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("p[i].x = a[i]", "p[63 - j].x = b[j]"),
        ("p[i].part.lo = a[i]", "b[j] = a[j] + p[63 - j].part.lo"),
        ("p[i].part.lo = a[i]", "p[63 - j].part = p[63 - j].part"),
        ("p[i].x = a[i]", "p[63 - j] = p[63 - j]"),
        ("p[i].x = a[i]", "b[j] = p[j if p[63 - j].x > 0 else 0].y + a[j]"),
    ],
)
def test_fields_overlap_with_themselves_and_what_they_are_in(first: str, second: str) -> None:
    assert has_barrier(kernel(first, second, "l.0", ", dep=one"))


def test_fields_that_share_bytes_overlap() -> None:
    fields: Any = {"names": ["x", "y"], "formats": ["f4", "f4"], "offsets": [0, 2], "itemsize": 8}
    knl = kernel("p[i].x = a[i]", "p[63 - j].y = b[j]", "l.0", dtype=np.dtype(fields))
    with pytest.raises(VariableAccessNotOrdered, match=r"'p\[i\]\.x' before or after"):
        lp.generate_code_v2(knl)


def test_components_of_vectors_are_written_together() -> None:
    vector = vector_type(np.dtype(np.float32), 4)
    assert has_barrier(
        kernel("p[i].x = a[i]", "p[63 - j].y = b[j]", "l.0", ", dep=one", dtype=vector)
    )


def test_a_field_that_others_write_is_a_race() -> None:
    with pytest.raises(WriteRaceError, match="reads elements of 'p' that it writes"):
        lp.generate_code_v2(kernel("p[i].x = p[63 - i].x", "b[j] = a[j]", "l.0"))
