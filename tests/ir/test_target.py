"""The settings of targets."""

from __future__ import annotations

import inspect
from abc import ABC
from typing import Any

import pytest

import kgen as lp


def make(kind: Any, **settings: Any) -> Any:
    return kind(**settings)


FIXED = [
    (lp.CTarget, "fortran_abi", False, True, "fortran=True"),
    (lp.ExecutableCTarget, "fortran_abi", False, True, "fortran=True"),
    (lp.OpenCLTarget, "use_int8_for_bool", True, False, "leave it out"),
    (lp.PyOpenCLTarget, "use_int8_for_bool", True, False, "leave it out"),
    (lp.PyOpenCLTarget, "pyopencl_module_name", "_lpy_cl", "cl", "leave it out"),
    (lp.PyOpenCLTarget, "pointer_size_nbytes", 8, 4, "leave it out"),
    (lp.ISPCTarget, "fortran_abi", False, True, "fortran=True"),
]


@pytest.mark.parametrize(("kind", "name", "value", "other", "hint"), FIXED)
def test_a_setting_of_one_value_takes_that(
    kind: Any, name: str, value: Any, other: Any, hint: str
) -> None:
    assert make(kind, **{name: value}) == kind()
    assert getattr(kind(), name) == value
    with pytest.raises(
        lp.KgenError, match=f"{kind.__name__} always has {name}={value!r}, not"
    ) as error:
        make(kind, **{name: other})
    assert hint in str(error.value)


def test_an_unknown_setting_is_rejected_by_name() -> None:
    with pytest.raises(lp.KgenError, match=r"CTarget has no setting 'thread'\n.*mean 'threads'"):
        make(lp.CTarget, thread=2)


def test_what_is_no_setting_is_no_attribute() -> None:
    assert not hasattr(lp.CTarget(), "use_int8_for_bool")
    assert not hasattr(lp.CTarget(), "thread")


def test_the_signature_of_a_target_lists_its_settings() -> None:
    assert {"compiler", "threads"} <= inspect.signature(lp.ExecutableCTarget).parameters.keys()


def test_targets_of_ones_own_have_their_own_settings() -> None:
    class Boxed(lp.CTarget, ABC):
        def __init__(self, fortran_abi: bool, **rest: Any) -> None:
            super().__init__(**rest)
            object.__setattr__(self, "kept", fortran_abi)

    target = make(Boxed, fortran_abi=True, threads=2)
    assert (target.kept, target.threads) == (True, 2)
