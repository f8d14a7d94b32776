"""Types, arguments, layouts, options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.transforms.helpers import instructions, kernel_of, run


def double() -> lp.TranslationUnit:
    return lp.make_kernel("{[i]: 0 <= i < n}", ["<> t = 2*a[i]", "out[i] = t + n"])


def names(program: lp.TranslationUnit) -> list[str]:
    return [arg.name for arg in kernel_of(program).args]


def test_types_of_arguments_and_temporaries() -> None:
    knl = kernel_of(lp.add_dtypes(double(), {"a": np.float32, "t": "float64"}))
    assert knl.arg_dict["a"].dtype.numpy_dtype == np.float32
    assert knl.temporary_variables["t"].dtype.numpy_dtype == np.float64
    assert lp.add_dtypes(knl, {"a": np.float32}) is knl
    assert lp.add_dtypes(lp.add_dtypes(double(), {"a": "float32"}), {"a, t": np.float32}) == (
        lp.add_dtypes(double(), {"a": np.float32, "t": np.float32})
    )
    with pytest.raises(lp.TransformError, match=r"'a' is declared as .*float32.* cannot be"):
        lp.add_dtypes(knl, {"a": np.float64})
    with pytest.raises(lp.TransformError, match="no argument or temporary 'b'"):
        lp.add_dtypes(knl, {"b": np.float64})


def test_options_are_changed_one_by_one() -> None:
    knl = lp.set_options(lp.set_options(double(), return_dict=True), "no_numpy,trace_assignments=0")
    options = kernel_of(knl).options
    assert (options.return_dict, options.no_numpy, options.trace_assignments) == (True, True, False)
    with pytest.raises(lp.KgenError, match="no option 'retrun_dict'") as info:
        lp.set_options(knl, retrun_dict=True)
    assert "did you mean 'return_dict'" in str(info.value)
    with pytest.raises(lp.TransformError, match="one text, or options by name"):
        lp.set_options(knl, "no_numpy", return_dict=True)


def test_the_order_of_arguments() -> None:
    assert names(lp.set_argument_order(double(), "out, n, a")) == ["out", "n", "a"]
    with pytest.raises(lp.TransformError, match="argument 'n' is not in the order"):
        lp.set_argument_order(double(), ["out", "a"])
    with pytest.raises(lp.TransformError, match="no argument 'b'"):
        lp.set_argument_order(double(), "out,n,a,b")


def test_an_argument_is_renamed_everywhere() -> None:
    knl = lp.rename_argument(lp.assume(double(), "n >= 1"), "n", "size")
    kernel = kernel_of(knl)
    assert instructions(knl)[1] == "i: out[i] = t + size"
    assert str(kernel.domains[0]) == "[size] -> { [i] : 0 <= i < size }"
    assert "size" in str(kernel.assumptions)
    assert "n" not in str(kernel.array_vars["a"].shape)
    np.testing.assert_allclose(run(knl, a=np.ones(3))["out"], 5)


def test_renaming_into_an_existing_argument() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", "a[i, j] = n + m")
    with pytest.raises(lp.TransformError, match="the name 'm' is taken"):
        lp.rename_argument(knl, "n", "m")
    same = lp.rename_argument(knl, "n", "m", existing_ok=True)
    assert str(kernel_of(same).domains[0]) == "[m] -> { [i, j] : 0 <= i < m and 0 <= j < m }"
    assert sorted(names(same)) == ["a", "m"]
    with pytest.raises(lp.TransformError, match="'n' cannot become the existing 'a'"):
        lp.rename_argument(knl, "n", "a", existing_ok=True)


def test_unused_arguments_go_and_those_in_shapes_stay() -> None:
    data = [
        lp.GlobalArg("b", shape="m"),
        lp.GlobalArg("a", shape="n, k"),
        lp.ValueArg("k"),
        lp.ValueArg("n"),
        ...,
    ]
    knl = lp.make_kernel("{[i]: 0 <= i < 4}", "a[i, 0] = 0", data)
    assert sorted(names(lp.remove_unused_arguments(knl))) == ["a", "k", "n"]


def test_address_spaces_of_temporaries() -> None:
    knl = kernel_of(lp.set_temporary_address_space(double(), "t", "local"))
    assert knl.temporary_variables["t"].address_space == lp.AddressSpace.LOCAL
    with pytest.raises(lp.TransformError, match="no temporary 'a'"):
        lp.set_temporary_address_space(knl, "a", "local")
    with pytest.raises(lp.KernelError, match="'shared' is not an address space"):
        lp.set_temporary_address_space(knl, "t", "shared")


def test_layouts() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i < 3 and 0 <= j < 5}", "a[i, j] = 10*i + j")
    fortran = lp.tag_array_axes(knl, "a", "N0,N1")
    assert kernel_of(fortran).array_vars["a"].fixed_strides == (1, 3)
    expected = [[10 * i + j for j in range(5)] for i in range(3)]
    np.testing.assert_array_equal(run(fortran)["a"], expected)
    with pytest.raises(lp.TransformError, match="array 'a' cannot be laid out as 'N0'") as info:
        lp.tag_array_axes(knl, "a", "N0")
    assert "an array of 2 axes has 1 dimension tag" in str(info.value)
    named = lp.set_array_axis_names(knl, "a", "row,column")
    assert kernel_of(named).array_vars["a"].dim_names == ("row", "column")
    with pytest.raises(lp.TransformError, match="has 2 axes, and the names of axes are 1"):
        lp.set_array_axis_names(knl, "a", ["row"])


def test_extension_points_are_added_once() -> None:
    def generate(info: object) -> list[tuple[str, str]]:
        return [("key", "/* code */")]

    def explain(kernel: object, name: str) -> None:
        return None

    knl = lp.register_preamble_generators(double(), [generate])
    knl = lp.register_symbol_manglers(lp.register_preamble_generators(knl, [generate]), [explain])
    assert kernel_of(knl).preamble_generators == (generate,)
    assert kernel_of(knl).symbol_manglers == (explain,)


def test_a_guessed_argument_is_a_symbol_once_it_is_explained() -> None:
    def explain(kernel: object, name: str) -> tuple[np.dtype[Any], str] | None:
        return (np.dtype(np.float64), "QUARTER") if name == "quarter" else None

    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "b[i] = quarter + half",
        preambles=[("quarter", "#define QUARTER 0.25")],
        target=lp.ExecutableCTarget(),
    )
    assert "quarter" in kernel_of(knl).arg_dict
    knl = lp.register_symbol_manglers(knl, [explain])
    assert sorted(kernel_of(knl).arg_dict) == ["b", "half", "n"]
    _, (b,) = knl(n=3, half=np.float64(0.5))
    assert b.tolist() == [0.75] * 3


def test_what_is_no_map_of_types_or_list_of_programs() -> None:
    with pytest.raises(lp.TransformError, match="types are a map"):
        lp.add_dtypes(double(), "a")
    with pytest.raises(lp.KgenError, match="'translation_units' is a list of"):
        lp.merge(double())  # type: ignore[arg-type]
    with pytest.raises(lp.KgenError, match=r"'iname_to_tag' is .* not None"):
        lp.tag_inames(double(), None)  # type: ignore[arg-type]
    with pytest.raises(lp.KgenError, match=r"'loop_priority' is text .* not 3"):
        lp.prioritize_loops(double(), 3)  # type: ignore[arg-type]


def test_alignment_of_temporaries() -> None:
    text = ["<> s[i] = 2*a[i]", "<> t[i] = 3*a[i]", "out[i] = s[i] + t[i]"]
    knl = lp.make_kernel("{[i]: 0 <= i < 8}", text, target=lp.CudaTarget())
    knl = lp.align_temporaries(lp.add_dtypes(knl, {"a": np.float32}), "s,t", 16)
    temporaries = kernel_of(knl).temporary_variables
    assert {name: temporaries[name].alignment for name in "st"} == {"s": 16, "t": 16}
    assert lp.generate_code_v2(knl).device_code().count("aligned (16)") == 2


def test_alignments_that_do_not_exist() -> None:
    with pytest.raises(lp.TransformError, match=r"12 bytes(.|\n)*\.\.\., 16\)"):
        lp.align_temporaries(double(), "t", 12)
    with pytest.raises(lp.KgenError, match="no temporary 'u'"):
        lp.align_temporaries(double(), "u", 16)


def test_launch_bounds_are_for_cuda() -> None:
    knl = lp.add_dtypes(double(), {"a": np.float32, "n": np.int32})
    tagged = lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    bounded = lp.set_launch_bounds(tagged.copy(target=lp.CudaTarget()), min_groups=3)
    assert "__launch_bounds__(64, 3)" in lp.generate_code_v2(bounded).device_code()
    limited = lp.set_launch_bounds(bounded["kgen_kernel"], max_registers=40)
    assert limited.target == lp.CudaTarget(min_groups=3, max_registers=40)
    assert lp.set_launch_bounds(tagged, min_groups=3) == tagged
    with pytest.raises(lp.KgenError, match="min_groups of a CUDA target is a positive number"):
        lp.set_launch_bounds(bounded, min_groups=0)
