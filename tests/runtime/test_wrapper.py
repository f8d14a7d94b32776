"""Names that the Python functions of calls have for what they use."""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from kgen.runtime.pyast import PREFIX
from kgen.runtime.wrapper import WrapperBuilder


def builder() -> WrapperBuilder:
    host: Any = Mock(arguments=(), arrays=())
    refused: Any = dict.fromkeys(("other", "relayout", "explain", "recover"))
    return WrapperBuilder(host, Mock(), untyped=(), **refused)


def test_a_name_is_that_of_one_function() -> None:
    own = builder()
    own.known("address", id)
    own.known("address", id)
    with pytest.raises(AssertionError, match="two functions are called 'address'"):
        own.known("address", hash)


def test_the_values_of_one_function_may_differ_in_what_is_bound() -> None:
    own = builder()
    for _ in range(2):
        own.known("bits", partial(pow, 2))
    own.known("fill_float64", float("nan"))
    own.known("fill_float64", float("nan"))
    assert set(own.names) == {PREFIX + "bits", PREFIX + "fill_float64"}
