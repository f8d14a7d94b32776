"""Macros of the texts of a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.transforms.helpers import instructions


def test_instructions_are_copied_for_each_combination_of_values() -> None:
    text = """
    for i
        out${J}[i] = J*a${K}[
            i] {id=w${J}${K}}  # over two lines
        b[i] = J_K
    end
    """
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", text, defines={"J": [1, 2], "K": ["x", "y"]})
    assert [line.split(": ")[1] for line in instructions(knl)] == [
        "out1[i] = 1*ax[i]",
        "out1[i] = 1*ay[i]",
        "out2[i] = 2*ax[i]",
        "out2[i] = 2*ay[i]",
        "b[i] = J_K",
    ]
    assert {"w1x", "w2y"} < {insn.id for insn in knl.default_entrypoint.instructions}


def test_domains_and_shapes_have_the_only_value() -> None:
    data = [lp.GlobalArg("a", np.float64, shape="2*N"), ...]
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < N }",
        ["a[N + i] = N"],
        data,
        defines={"N": 4},
        target=lp.ExecutableCTarget(),
    )
    a = np.zeros(8)
    knl(a=a)
    assert a.tolist() == [0, 0, 0, 0, 4, 4, 4, 4]


@pytest.mark.parametrize(
    ("domain", "text"), [("{ [i]: 0 <= i < J }", "a[i] = 0"), ("{ [i]: 0 <= i < 9 }", "for i\nend")]
)
def test_what_is_not_copied_takes_one_value(domain: str, text: str) -> None:
    text = text.replace("for i", "if J > 1\na[i] = 0")
    with pytest.raises(lp.KernelError, match="the macro 'J' has 2 values in '"):
        lp.make_kernel(domain, text, defines={"J": [1, 2]})


@pytest.mark.parametrize("defines", [{"2n": 4}, {"${n}": 4}, "n=4"])
def test_macros_have_names(defines: Any) -> None:
    with pytest.raises(lp.KgenError, match=r"a macro has a name|defines"):
        lp.make_kernel("{ [i]: 0 <= i < 4 }", "a[i] = 0", defines=defines)


def test_macros_have_values() -> None:
    with pytest.raises(lp.KernelError, match="in kernel 'k': the macro 'J' has no value"):
        lp.make_kernel("{ [i]: 0 <= i < 4 }", "a[i] = J", name="k", defines={"J": []})


def test_functions_take_macros() -> None:
    knl = lp.make_function("{ [i]: 0 <= i < N }", "y[i] = x[i]", defines={"N": 16}, name="copy")
    assert "x: type: <auto/runtime>, shape: (16)" in str(knl["copy"].arg_dict["x"])
