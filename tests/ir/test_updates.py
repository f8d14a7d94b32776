"""Updates of a variable or element: which operation, and with what."""

from __future__ import annotations

import pymbolic.primitives as p
import pytest

import kgen as lp
from kgen.ir.updates import Update, update_of


def found(text: str) -> Update | None:
    unit = lp.make_kernel("{ [i]: 0 <= i < n }", text)
    return update_of(unit.default_entrypoint.instructions[0])


@pytest.mark.parametrize(
    ("text", "operation"),
    [
        ("a[i] = b[i] + (a[i] + 1)", p.Sum),
        ("a[i] = a[i]*b[i]", p.Product),
        ("a[i] = max(b[i], a[i])", p.Max),
        ("a[i] = a[i] | b[i]", p.BitwiseOr),
        ("a[i] = a[i] + a[i + 1]", p.Sum),
    ],
)
def test_update(text: str, operation: type) -> None:
    update = found(text)
    assert update is not None
    assert update.operation is operation


@pytest.mark.parametrize(
    "text", ["a[i] = 2*a[i] + a[i]", "a[i] = a[i + 1] + 1", "a[i] = a[i] - a[i]"]
)
def test_no_update(text: str) -> None:
    assert found(text) is None
