"""Linear subscripts, ``a[[k]]``, of arrays whose layout is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kgen as lp


def kernel(text: str, shape: Any = 16, order: str = "C") -> lp.TranslationUnit:
    arrays = lp.GlobalArg("a, b", np.float32, shape=shape, order=order)
    out = lp.GlobalArg("out", np.float32, shape=16)
    target = lp.ExecutableCTarget()
    knl = lp.make_kernel("{ [i]: 0<=i<16 }", text, [arrays, out, ...], target=target)
    return lp.remove_unused_arguments(knl)


@pytest.mark.parametrize("shape", ["15", "3, 5", "5, 3, 1"])
@pytest.mark.parametrize("text", ["out[i] = a[[i]]", "a[[i]] = i", "out[i] = a[[i - 1]]"])
def test_elements_outside_of_an_array_are_found(shape: str, text: str) -> None:
    with pytest.raises(lp.KgenIndexError, match=r"outside of array 'a'(.|\n)*for i = "):
        lp.generate_code_v2(kernel(text, shape))


INDICES: dict[str, Callable[[int], int]] = {
    "i": lambda i: i,
    "15 - i": lambda i: 15 - i,
    "(5*i) % 8": lambda i: 5 * i % 8,
    "4*(i // 4)": lambda i: i - i % 4,
}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(16,), (4, 4), (2, 4, 2), (1, 16)])
@pytest.mark.parametrize("index", INDICES)
def test_code_has_the_numbers_of_elements(index: str, shape: tuple[int, ...], order: Any) -> None:
    knl = kernel(f"out[i] = a[[{index}]] + 1", shape, order)
    _, (out,) = knl(a=np.arange(16, dtype=np.float32).reshape(shape, order=order))
    assert list(out) == [INDICES[index](i) + 1 for i in range(16)]
    code = lp.generate_code_v2(knl).device_code()
    assert code.count("/") <= index.count("/")
    assert code.count("%") <= index.count("%")


def test_strides_are_counted() -> None:
    knl = lp.split_iname(kernel("out[i] = a[[15 - i]] + b[[0]]"), "i", 4)
    knl = lp.tag_inames(knl, "i_outer:g.0, i_inner:l.0").copy(target=lp.CudaTarget())
    found = {key.variable: key for key in lp.get_mem_access_map(knl, subgroup_size=32)}
    assert (found["a"].lid_strides, found["a"].gid_strides) == ({0: -1}, {0: -4})
    assert (found["b"].lid_strides, found["b"].gid_strides) == ({}, {})


def test_wrong_values_of_a_buffer_are_found() -> None:
    knl = kernel("out[i] = a[[i]] + b[[15 - i]]")
    buffered = lp.buffer_array(
        knl, "out", "i", init_expression="0", store_expression="base + buffer"
    )
    report = lp.verify(buffered)
    assert [finding.array for finding in report.violated if finding.check == "origin"] == ["out"]


def test_arrays_with_gaps_keep_their_numbers() -> None:
    wide = lp.GlobalArg("a", np.float32, shape=(4, 4), strides=(5, 1))
    knl = lp.make_kernel("{ [i]: 0<=i<16 }", "out[i] = a[[i]]", [wide, ...])
    assert "a[i]" in lp.generate_code_v2(knl).device_code()
