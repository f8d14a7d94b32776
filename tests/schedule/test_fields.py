"""Accesses to different fields of one element do not overlap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.errors import VariableAccessNotOrdered, WriteRaceError
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.expressions import parse
from kgen.ir.vector_values import vector_type
from kgen.tools import get_or_register_dtype
from kgen.transforms.select import transform
from kgen.verification import Finding

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


def origin(unit: Any) -> Finding:
    (found,) = (f for f in lp.verify(unit).findings if f.check == "origin")
    return found


@pytest.mark.parametrize(
    ("second", "before", "after"),
    [
        ("b[j] = p[n - 1 - j].x", "proved", "violated"),
        ("b[j] = p[n - 1 - j].y + p[j].part.lo", "proved", "violated"),
        ("p[j].part.lo = p[j].x", "proved", "violated"),
        ("p[j] = q[j]", "unknown", "unknown"),  # evaluated for some sizes
    ],
)
def test_verify_compares_fields(second: str, before: str, after: str) -> None:
    @transform
    def with_other_field(kernel: LoopKernel) -> LoopKernel:
        one, two = kernel.instructions
        return kernel.copy(instructions=[one.copy(assignee=parse("p[i].y")), two])

    get_or_register_dtype("part_of_record", PART)
    get_or_register_dtype("record_of_fields", RECORD)
    data = [lp.GlobalArg("p, q", RECORD, shape="n"), lp.GlobalArg("a, b", np.float32, shape="n")]
    text = ["p[i].x = a[i] {id=one}", f"{second} {{id=two, dep=one}}"]
    knl = lp.make_kernel("{ [i, j]: 0 <= i, j < n }", text, [*data, ...], target=lp.CTarget())
    assert origin(lp.split_iname(knl, "i", 4)).status.value == before
    assert origin(with_other_field(knl)).status.value == after


def test_verify_knows_fields_that_were_never_written() -> None:
    get_or_register_dtype("part_of_record", PART)
    get_or_register_dtype("record_of_fields", RECORD)
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 4 }",
        ["r.x = a[i]", "b[i] = r.x + r.y"],
        [lp.TemporaryVariable("r", RECORD), lp.GlobalArg("a, b", np.float32, shape=4)],
        target=lp.CTarget(),
    )
    assert "reads elements that nothing wrote" in origin(lp.split_iname(knl, "i", 2)).message
