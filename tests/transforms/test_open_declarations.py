"""Transformations of arrays whose shape, an extent or a stride is not known: done, or refused."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kgen as lp

DECLARATIONS: tuple[dict[str, Any], ...] = (
    {"shape": None},
    {"shape": lp.auto},
    {"shape": None, "dim_tags": "stride:n,stride:1"},
    {"shape": None, "dim_tags": "stride:auto,stride:auto"},
    {"shape": ("n", None)},
    {"shape": (None, "n")},
    {"shape": "n, n", "dim_tags": "stride:auto,stride:1"},
    {"shape": "n"},
)
CHANGES: dict[str, Callable[[Any, str], Any]] = {
    "split": lambda knl, name: lp.split_array_axis(knl, name, 1, 4),
    "concatenate": lambda knl, name: lp.concatenate_arrays(knl, "a, out"),
    "prefetch": lambda knl, name: lp.add_prefetch(knl, name, "j", default_tag=None),
    "buffer": lambda knl, name: lp.buffer_array(knl, name, "j"),
    "batch": lambda knl, name: lp.to_batched(knl, 3, [name]),
    "order": lambda knl, name: lp.tag_array_axes(knl, name, "N0,N1"),
    "separate": lambda knl, name: lp.tag_array_axes(knl, name, "sep,C"),
    "vector": lambda knl, name: lp.tag_array_axes(knl, name, "C,vec"),
    "image": lp.change_arg_to_image,
    "pad": lambda knl, name: lp.add_padding(knl, name, 0, 128),
    "multiple": lambda knl, name: lp.find_padding_multiple(knl, name, 0, 128),
    "derivative": lambda knl, name: lp.diff_kernel(knl, "out", "a", batch_axes_in_by={0})[0],
    "names": lambda knl, name: lp.set_array_axis_names(knl, name, "p,q"),
    "footprint": lambda knl, name: str(lp.gather_access_footprint_bytes(knl)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("change", CHANGES)
def test_arrays_of_which_little_is_known_are_changed_or_refused(change: str) -> None:
    for declaration in DECLARATIONS:
        for name in ("a", "out"):
            declared = {"a": {"shape": "n, n"}, "out": {"shape": "n, n"}, name: declaration}
            data = [lp.GlobalArg(key, "float32", **more) for key, more in declared.items()]
            text = "<> t = a[i, j] {id=t}\nout[i, j] = 2*t + a[i, j] {dep=t}"
            with contextlib.suppress(lp.KgenError):
                knl = lp.make_kernel("{ [i, j]: 0 <= i, j < n }", text, [*data, "..."])
                result = CHANGES[change](knl, name)
                if isinstance(result, lp.TranslationUnit):
                    lp.generate_code_v2(result).device_code()


def test_a_batch_of_arrays_whose_strides_calls_say() -> None:
    a = lp.GlobalArg("a", "float32", shape="n", dim_tags="stride:auto")
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }", "out[i] = 2*a[i]", [a, ...], target=lp.ExecutableCTarget()
    )
    given = np.arange(30, dtype=np.float32).reshape(3, 10)[:, ::2]
    _, (out,) = lp.to_batched(knl, 3, ["a", "out"])(a=given)
    assert np.array_equal(out, 2 * given)


@pytest.mark.parametrize("name", ["a", "out"])
def test_what_is_differentiated_has_a_shape(name: str) -> None:
    shapes = {"a": "n", "out": "n", name: None}
    data = [lp.GlobalArg(n, "float32", shape=s, dim_tags="stride:1") for n, s in shapes.items()]
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]", [*data, "..."])
    with pytest.raises(lp.TransformError, match=f"the shape of '{name}' is not known"):
        lp.diff_kernel(knl, "out", "a")
