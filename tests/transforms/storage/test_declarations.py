"""Types, arguments, layouts, options."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ir.tags import to_tags
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
    shared = lp.set_launch_bounds(bounded, local_memory_share=60)
    assert shared.target == lp.CudaTarget(min_groups=3, local_memory_share=60)


def hinted(target: lp.TargetBase | None = None) -> lp.TranslationUnit:
    """Return the product of a matrix of 4 entries a row, of which only the vector is read again."""
    arrays = [
        lp.GlobalArg("values, x, out", np.float64, shape="n, 4"),
        lp.GlobalArg("columns", np.int32, shape="n, 4"),
    ]
    knl = lp.make_kernel(
        "{ [i, k]: 0 <= i < n and 0 <= k < 4 }",
        ["scaled(m) := 2*values[i, m]", "out[i, 0] = sum(k, scaled(k)*x[columns[i, k], 0])"],
        [*arrays, ...],
        target=target or lp.CudaTarget(),
    )
    return lp.tag_arrays(knl, "values, columns", "!streaming_load")


@pytest.mark.parametrize(
    "change",
    [
        lambda knl: lp.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0"),
        lambda knl: lp.add_prefetch(knl, "columns", "k", default_tag=None),
        lambda knl: lp.precompute(knl, "scaled", "k", default_tag=None),
        lambda knl: lp.buffer_array(knl, "out", "k", default_tag=None),
        lambda knl: lp.tag_array_axes(lp.split_array_axis(knl, "x", 1, 2), "columns, values", "F"),
        lambda knl: lp.add_dtypes(lp.fix_parameters(lp.realize_reduction(knl), n=64), {}),
        lambda knl: lp.rename_argument(lp.expand_subst(knl), "values", "columns_of_values"),
        lambda knl: pickle.loads(pickle.dumps(knl)),  # noqa: S301
        lambda knl: lp.fuse_kernels([knl, lp.rename_argument(knl, "out", "other")]),
        lambda knl: lp.to_batched(knl, "b", ("out",)),
    ],
)
def test_hints_stay_when_code_changes(change: Callable[[Any], Any]) -> None:
    kernel = kernel_of(changed := change(hinted()))
    tagged = [arg.name for arg in kernel.args if "!streaming_load" in map(str, arg.tags)]
    assert len(tagged) == 2
    text = lp.generate_code_v2(changed).device_code()
    assert all(f"__ldcs(&{name}[" in text for name in tagged)
    assert "__ldcs(&x[" not in text


def test_hints_are_shown_and_change_the_digest() -> None:
    knl, plain = kernel_of(hinted()), kernel_of(hinted())
    plain = plain.copy(args=tuple(arg.copy(tags=frozenset()) for arg in plain.args))
    assert "columns: type: np:dtype('int32'), shape: (n, 4), " in str(knl)
    assert str(knl).count("tags: !streaming_load in") == 2
    assert knl.digest() != plain.digest()
    assert kernel_of(lp.tag_arrays(knl, ["x"], "word")).arg_dict["x"].tags == to_tags("word")


def test_inlining_gives_the_hint_to_what_is_passed() -> None:
    double = lp.make_function("{ [j]: 0 <= j < 4 }", "y[j] = 2*x[j]", name="double")
    double = double.with_kernel(lp.tag_arrays(double["double"], "x", "!streaming_load"))
    knl = lp.make_kernel("{ [j]: 0 <= j < 4 }", "[j]: b[j] = double([j]: a[j])")
    args = lp.inline_callable_kernel(lp.merge([knl, double]), "double")["kgen_kernel"].args
    assert {arg.name for arg in args if arg.tags} == {"a"}


def test_hints_that_are_for_something_else() -> None:
    knl = hinted()
    with pytest.raises(lp.KgenError, match=r"no array 'vals'(.|\n)*did you mean 'values'"):
        lp.tag_arrays(knl, "vals", "!streaming_load")
    with pytest.raises(lp.KgenError, match="argument 'x' cannot be tagged '!streaming_store'"):
        lp.tag_arrays(knl, "x", "!streaming_store")
    with pytest.raises(lp.KgenError, match=r"temporary 't' .*(.|\n)*is for array arguments"):
        lp.tag_arrays(double(), "t", lp.UseStreamingLoadTag())
    with pytest.raises(lp.KgenError, match="value 'n' cannot be tagged '!streaming_load'"):
        lp.ValueArg("n", tags="!streaming_load")
