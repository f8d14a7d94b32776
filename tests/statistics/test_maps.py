"""Operations, accesses and barriers of kernels: exact where loopy counts too much."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

import kgen as lp
from kgen.errors import KernelError
from kgen.statistics import CountGranularity, Interval, MemAccess, Op, Sync, ToCountMap


def ops(knl: Any, **options: Any) -> dict[tuple[str, str], str]:
    """Return the counts of operations as text, by type and name."""
    options.setdefault("subgroup_size", 32)
    counts = lp.get_op_map(knl, **options)
    return {
        ("" if key.dtype is None else key.dtype.numpy_dtype.name, key.name): str(count)
        for key, count in counts.items()
    }


def accesses(knl: Any, **options: Any) -> dict[tuple[str, str], Any]:
    """Return the counts of accesses by direction and variable."""
    counts = lp.get_mem_access_map(knl, subgroup_size=32, **options)
    grouped = counts.group_by("direction", "variable")
    return {(key.direction, key.variable): count for key, count in grouped.items()}


def one_loop(text: str, **types: Any) -> Any:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", text)
    known = knl.default_entrypoint.arg_dict
    return lp.add_dtypes(knl, {name: dtype for name, dtype in types.items() if name in known})


N = "[n] -> { n : n > 0 }"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("out[i] = a[i] - a[i] + 1", {("float32", "add"): "[n] -> { 2 * n : n > 0 }"}),
        ("out[i] = 2*a[i]*a[i]", {("float32", "mul"): "[n] -> { 2 * n : n > 0 }"}),
        ("out[i] = -a[i]", {}),
        ("out[i] = sin(a[i])", {("float32", "func:sin"): N}),
        ("out[i] = a[i]**3", {("float32", "pow"): N}),
        ("out[i] = a[i] / 3", {("float32", "div"): N}),
        ("out[i] = b[i] // 4 % 5", {("int32", "div"): "[n] -> { 2 * n : n > 0 }"}),
        ("out[i] = b[i] << 2", {("int32", "shift"): N}),
        ("out[i] = b[i] & 3 | 1", {("int32", "bw"): "[n] -> { 2 * n : n > 0 }"}),
        ("out[i] = a[2*i + 1]", {("int32", "add"): N, ("int32", "mul"): N}),
        ("out[i] = a[i] + b[i]", {("float32", "add"): N}),
        ("out[i] = cast(float64, a[i])", {}),
        ("out[i] = fmax(a[i], 1)", {("float32", "func:fmax"): N}),
    ],
)
def test_operations_by_type_and_name(text: str, wanted: dict[tuple[str, str], str]) -> None:
    assert ops(one_loop(text, a=np.float32, b=np.int32)) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("out[i] = a[i] + b[i]", {("float32", "add"): N, ("float32", "convert"): N}),
        ("out[i] = cast(float64, a[i])", {("float64", "convert"): N}),
    ],
)
def test_conversions_count_if_wanted(text: str, wanted: dict[tuple[str, str], str]) -> None:
    knl = one_loop(text, a=np.float32, b=np.int32)
    assert ops(knl, count_conversions=True) == wanted


def test_operations_of_a_type_are_those_of_its_arithmetic() -> None:
    counts = lp.get_op_map(one_loop("out[i] = 2*(a[i] + i)", a=np.float32), subgroup_size=32)
    assert counts.group_by("dtype")[Op(np.float32)].eval_with_dict({"n": 10}) == 20


def test_subscripts_can_be_left_out() -> None:
    knl = one_loop("out[i] = a[2*i + 1]", a=np.float32)
    assert ops(knl, count_within_subscripts=False) == {}


def test_products_that_are_added_are_one_operation_if_wanted() -> None:
    knl = one_loop("out[i] = a[i]*b[i] + 1", a=np.float32, b=np.float32)
    assert ops(knl, count_madds=True) == {("float32", "madd"): N}


def test_triangles_are_not_squares() -> None:
    knl = lp.make_kernel("{ [i, j]: 0 <= i <= j < n }", "out[i, j] = 2*a[i, j]")
    counts = ops(lp.add_dtypes(knl, {"a": np.float64}))
    assert counts["float64", "mul"] == "[n] -> { (1/2 * n + 1/2 * n^2) : n > 0 }"


def test_conditions_on_loops_are_exact() -> None:
    knl = one_loop("if i > 3\n out[i] = 2*a[i]\nend", a=np.float32)
    assert ops(knl)["float32", "mul"] == "[n] -> { (-4 + n) : n >= 5 }"


def test_conditions_on_data_give_an_interval() -> None:
    knl = one_loop("if a[i] > 3\n out[i] = 2*a[i]\nend", a=np.float32)
    counts = lp.get_op_map(knl)
    found = counts[Op(np.float32, "mul", CountGranularity.SUBGROUP, "kgen_kernel")]
    assert isinstance(found, Interval)
    assert (
        str(found.eval_with_dict({"n": 7}))
        == "between 0 and 7: whether a[i] > 3 holds depends on data"
    )
    total = counts.filter_by(name=["mul"]).eval_and_sum({"n": 7})
    assert (total.low, total.high) == (0, 7)


def test_sums_of_rows_of_a_sparse_matrix_have_a_parameter_for_their_length() -> None:
    knl = lp.make_kernel(
        ["{ [row]: 0 <= row < nr }", "{ [j]: start <= j < end }"],
        """
        for row
            <int32> start = ptr[row]
            <int32> end = ptr[row + 1]
            y[row] = sum(j, v[j]*x[col[j]])
        end
        """,
        [
            lp.GlobalArg("ptr", np.int32, shape="nr + 1"),
            lp.GlobalArg("col", np.int32, shape="nnz"),
            lp.GlobalArg("v", np.float32, shape="nnz"),
            lp.GlobalArg("x", np.float32, shape="nr"),
            lp.GlobalArg("y", np.float32, shape="nr"),
            ...,
        ],
    )
    knl = lp.split_iname(knl, "row", 128, outer_tag="g.0", inner_tag="l.0")
    found = accesses(knl)
    assert str(found["load", "v"]) == "[nr, n_j] -> { n_j : nr > 0 }"
    assert found["load", "x"].eval_with_dict({"nr": 10, "n_j": 50}) == 50
    assert found["load", "ptr"].eval_with_dict({"nr": 10}) == 20


def tiled_product() -> Any:
    knl = lp.make_kernel(
        "{ [i, j, k]: 0 <= i, j, k < n }",
        "out[i, j] = sum(k, a[i, k]*b[k, j])",
        assumptions="n >= 1 and n mod 16 = 0",
    )
    knl = lp.add_dtypes(knl, {"a": np.float32, "b": np.float32})
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", 16, outer_tag="g.1", inner_tag="l.0")
    knl = lp.split_iname(knl, "k", 16)
    knl = lp.add_prefetch(knl, "a", ["k_inner", "i_inner"], default_tag="l.auto")
    return lp.add_prefetch(knl, "b", ["j_inner", "k_inner"], default_tag="l.auto")


def test_tiled_matrix_product() -> None:
    knl, size = tiled_product(), {"n": 64}
    mem = lp.get_mem_access_map(knl, subgroup_size=32)
    by_memory = mem.group_by("mtype", "direction", "variable").eval(size)
    found = {(k.mtype, k.direction, k.variable): count for k, count in by_memory.items()}
    assert found == {
        ("global", "load", "a"): 64 * 64,
        ("global", "load", "b"): 64 * 64,
        ("global", "store", "out"): 64 * 64,
        ("local", "store", "a_fetch"): 64 * 64 // 32,
        ("local", "store", "b_fetch"): 64 * 64 // 32,
        ("local", "load", "a_fetch"): 64**3 // 32,
        ("local", "load", "b_fetch"): 64**3 // 32,
    }
    syncs = lp.get_synchronization_map(knl)
    assert syncs[Sync("barrier_local", "kgen_kernel")].eval_with_dict(size) == 8


def test_redundant_work_is_counted_if_wanted() -> None:
    found = lp.get_mem_access_map(tiled_product(), count_redundant_work=True, subgroup_size=32)
    fetched = found.filter_by(mtype=["global"], direction=["load"]).eval_and_sum({"n": 64})
    assert fetched == 2 * 64 * 64 * (64 // 16)


def test_sub_groups_of_partial_groups_count_where_they_run() -> None:
    knl = one_loop("out[i] = 2*a[i]", a=np.float32)
    knl = lp.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    found = lp.get_op_map(knl, subgroup_size=32).filter_by(name=["mul"], dtype=[np.float32])
    assert [found.eval_and_sum({"n": n}) for n in (1, 32, 33, 128, 129)] == [1, 1, 2, 4, 5]


def test_same_element_for_all_work_items_counts_once_per_sub_group() -> None:
    knl = one_loop("out[i] = a[i] + b[0]", a=np.float32, b=np.float32)
    knl = lp.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    found = accesses(knl)
    assert found["load", "b"].eval_with_dict({"n": 128}) == 4
    assert found["load", "a"].eval_with_dict({"n": 128}) == 128


def test_tags_of_variables_tell_accesses_apart() -> None:
    knl = one_loop("out[i] = a$mine[i] + a[i]", a=np.float32)
    keys = list(lp.get_mem_access_map(knl).filter_by(direction=["load"]))
    assert sorted(len(key.variable_tags) for key in keys) == [0, 1]


def test_accesses_without_tags_have_an_empty_set_of_them() -> None:
    loads = lp.get_mem_access_map(one_loop("out[i] = a[i]", a=np.float32)).filter_by(variable="a")
    assert loads.filter_by(variable_tags=[frozenset()]) == loads
    (key,) = loads
    assert key.copy(variable_tags=None) == key


def test_atomic_updates_have_their_own_type() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "out[i % 20] = out[i % 20] + 2*a[i] {atomic}",
        [
            lp.GlobalArg("out", np.float32, shape=lp.auto, for_atomic=True),
            lp.GlobalArg("a", np.float32),
            ...,
        ],
    )
    text = str(lp.get_mem_access_map(knl))
    assert "atomic:dtype('float32'), {}, {}, store, out" in text


def test_barriers_that_only_some_groups_meet_are_an_interval() -> None:
    knl = lp.make_kernel(
        "{ [g, k, l]: 0 <= g < n and 0 <= k < g and 0 <= l < 16 }",
        """
        <> t[l] = a[g, k, l] {id=put}
        out[g, k, l] = t[15 - l] {dep=put}
        """,
    )
    knl = lp.add_dtypes(knl, {"a": np.float32})
    knl = lp.tag_inames(knl, "g:g.0, l:l.0")
    knl = lp.set_temporary_address_space(knl, "t", "local")
    found = lp.get_synchronization_map(knl)[Sync("barrier_local", "kgen_kernel")]
    assert isinstance(found, Interval)
    assert "do not all run 'k' equally often" in str(found)
    assert found.high.eval_with_dict({"n": 5}) == 8


def test_footprints_count_elements_once() -> None:
    knl = one_loop("out[i] = a[2*i] + a[2*i + 2]", a=np.float32)
    found = lp.gather_access_footprint_bytes(knl)
    assert found["a", "read"].eval_with_dict({"n": 10}) == 44
    assert found["out", "write"].eval_with_dict({"n": 10}) == 40


def test_footprints_of_data_are_refused_or_left_out() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "out[i] = a[b[i]]",
        [lp.GlobalArg("a", np.float32, shape="m"), lp.GlobalArg("b", np.int32), ...],
    )
    with pytest.raises(KernelError, match="depend on data"):
        lp.gather_access_footprints(knl)
    assert sorted(lp.gather_access_footprints(knl, ignore_uncountable=True)) == [
        ("b", "read"),
        ("out", "write"),
    ]


def test_size_of_sub_groups_is_asked_for_where_it_matters() -> None:
    knl = one_loop("out[i] = 2*a[i]", a=np.float32)
    assert lp.get_op_map(knl)
    split = lp.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    with pytest.raises(ValueError, match="subgroup_size=32"):
        lp.get_op_map(split)
    assert lp.get_op_map(split, subgroup_size="guess")
    for size in (0, "large"):
        with pytest.raises(ValueError, match="positive number, None or 'guess', not"):
            lp.get_op_map(knl, subgroup_size=size)


def test_warps_of_cuda_have_32_work_items() -> None:
    knl = one_loop("out[i] = 2*a[i]", a=np.float32).copy(target=lp.CudaTarget())
    knl = lp.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    found = lp.get_op_map(knl).filter_by(name=["mul"], dtype=[np.float32])
    assert found.eval_and_sum({"n": 1024}) == 1024 // 32


def test_kernels_that_are_called_count_where_they_are_called() -> None:
    child = lp.make_function("{ [i]: 0 <= i < 8 }", "y[i] = 2*x[i] + 1", name="child")
    parent = lp.make_kernel(
        "{ [j, i0, i1]: 0 <= j < n and 0 <= i0, i1 < 8 }",
        "[i0]: z[j, i0] = child([i1]: a[j, i1])",
        [
            lp.GlobalArg("z", np.float32, shape="n, 8"),
            lp.GlobalArg("a", np.float32, shape="n, 8"),
            ...,
        ],
        name="parent",
    )
    program = lp.merge([parent, child])
    assert ops(program, entrypoint="parent") == {
        ("float32", "add"): "[n] -> { 8 * n : n > 0 }",
        ("float32", "mul"): "[n] -> { 8 * n : n > 0 }",
    }


def test_snippets_of_c_are_unknown() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        [lp.CInstruction("i", "out[i] = 7;", assignees="out[i]", id="snippet")],
        [lp.GlobalArg("out", np.float32, shape="n"), ...],
    )
    assert ops(knl) == {("", "unknown:snippet"): N}


def test_maps_can_be_calculated_with() -> None:
    one, two = ToCountMap({"a": 1, "b": 2}), ToCountMap({"b": 3})
    assert (one + two).count_map == {"a": 1, "b": 5}
    assert (one - two).count_map == {"a": 1, "b": -1}
    assert (2 * one).count_map == {"a": 2, "b": 4}
    with pytest.raises(KeyError, match=r"nothing was counted for missing\n  hint: map.get"):
        one["missing"]
    assert (one.get("a"), one.get("missing"), one.get("missing", 0)) == (1, None, 0)
    assert sum([one, two]).sum() == 6  # type: ignore[union-attr]


def test_fields_that_keys_lack_are_refused() -> None:
    knl = one_loop("out[i] = 2*a[i]", a=np.float32)
    with pytest.raises(KernelError, match="Op has no field 'mtype'"):
        lp.get_op_map(knl).filter_by(mtype=["global"])
    with pytest.raises(KernelError, match="not a count_granularity of Op"):
        Op(np.float32, "add", "thread")


def test_a_single_value_stands_without_a_list() -> None:
    counts = lp.get_op_map(one_loop("out[i] = 2*a[i] + 1", a=np.float32))
    assert counts.filter_by(name="mul", dtype=np.float32).eval_and_sum({"n": 7}) == 7
    assert counts.filter_by(name="div").eval_and_sum({"n": 7}) == 0


def test_a_key_with_unset_fields_stands_for_all_that_agree() -> None:
    knl = one_loop("out[i] = (2*a[i] + 1)*b[i] + 1", a=np.float32, b=np.float64)
    counts = lp.get_op_map(knl)
    assert counts[Op(name="mul")].eval_with_dict({"n": 7}) == 14
    assert counts[Op(np.float32)].eval_with_dict({"n": 7}) == 14
    with pytest.raises(KeyError, match="nothing was counted for Op"):
        counts[Op(np.float32, "div")]
    assert counts.get(Op(np.float32, "div"), 0) == 0
    assert all(counts[key] is count for key, count in counts.items())


@pytest.mark.parametrize(
    "question",
    [
        lambda ops, mem, sync: ops[Op(name="mull")],
        lambda ops, mem, sync: ops[Op(name="func:sinn")],
        lambda ops, mem, sync: ops[Op(kernel_name="other")],
        lambda ops, mem, sync: ops["mul"],
        lambda ops, mem, sync: ops[["mul"]],
        lambda ops, mem, sync: ops[Sync("kernel_launch")],
        lambda ops, mem, sync: ops.group_by("dtype")[Op(np.float32, "mul")],
        lambda ops, mem, sync: ops.group_by("dtype").filter_by(name="mul"),
        lambda ops, mem, sync: ops.filter_by(nam="mul"),
        lambda ops, mem, sync: ops.filter_by(name="add").filter_by(name="sub").filter_by(nam=1),
        lambda ops, mem, sync: ops.filter_by(name="sub"),
        lambda ops, mem, sync: ops.filter_by(name=[3]),
        lambda ops, mem, sync: ops.filter_by(dtype="flaot32"),
        lambda ops, mem, sync: ops.filter_by(tags=["mine"]),
        lambda ops, mem, sync: ops.group_by("nam"),
        lambda ops, mem, sync: ops.to_bytes(),
        lambda ops, mem, sync: ops.filter_by_func("mul"),
        lambda ops, mem, sync: ops * "2",
        lambda ops, mem, sync: ops.eval_and_sum({"n": "7"}),
        lambda ops, mem, sync: ops.eval_and_sum(7),
        lambda ops, mem, sync: mem.filter_by(variable="aa"),
        lambda ops, mem, sync: mem.filter_by(mtype="private"),
        lambda ops, mem, sync: mem.filter_by(direction=["read"]),
        lambda ops, mem, sync: mem.filter_by(lid_strides=[1]),
        lambda ops, mem, sync: mem.filter_by(lid_strides={0: 0.5}),
        lambda ops, mem, sync: mem.group_by("mtype").to_bytes(),
        lambda ops, mem, sync: mem[MemAccess(lid_strides={0: [1]})],
        lambda ops, mem, sync: sync.filter_by(kind="barrier"),
    ],
)
def test_what_no_key_can_have_is_refused_and_not_counted_as_0(question: Any) -> None:
    knl = one_loop("out[i] = 2*a[i] + 1", a=np.float32)
    with pytest.raises(lp.KgenError):
        question(lp.get_op_map(knl), lp.get_mem_access_map(knl), lp.get_synchronization_map(knl))


def test_every_field_of_every_key_finds_it() -> None:
    knl = one_loop("out[i] = 2*a[i, 0] + sin(a[i // 3, i])", a=np.float32)
    knl = lp.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    maps: tuple[Any, ...] = (
        lp.get_op_map(knl, subgroup_size=32),
        lp.get_mem_access_map(knl, subgroup_size=32),
        lp.get_synchronization_map(knl),
    )
    for counts in maps:
        for key in counts:
            values = {f.name: getattr(key, f.name) for f in dataclasses.fields(key)}
            values = {name: value for name, value in values.items() if value}
            assert list(counts.filter_by(**values)) == [key]
            for name, value in values.items():
                assert key in counts.filter_by(**{name: [value]})
                assert counts[type(key)(**{name: value})] is not None


@pytest.mark.parametrize("stride", ["m*8", "8*m", "2*(m*4)", "m*4 + 4*m", p.Variable("m") * 8])
def test_strides_are_one_key_however_they_are_written(stride: Any) -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "out[i] = a[i, 0]",
        [lp.GlobalArg("a", np.float32, shape="n, 8*m"), ...],
    )
    counts = lp.get_mem_access_map(lp.tag_inames(knl, "i:g.0"), subgroup_size=32)
    key = MemAccess(gid_strides={0: stride}, variable="a")
    assert counts[key].eval_with_dict({"n": 5, "m": 2}) == 5
    assert counts.filter_by(gid_strides=[{0: stride}]).eval_and_sum({"n": 5, "m": 2}) == 5


def test_a_stride_of_0_is_one_that_does_not_occur() -> None:
    assert MemAccess(lid_strides={0: 0, 1: "n - n"}) == MemAccess(lid_strides={})


@pytest.mark.parametrize(
    "index", ["i*i", "i // 3", "(7*i) % 5", "min(i, 4)", "i if i < 5 else 2*i", "b[i]", "i*j"]
)
def test_strides_that_are_not_constant_are_none(index: str) -> None:
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i, j < 32 }",
        f"out[i] = sum(j, a[{index}])",
        [lp.GlobalArg("a", np.float32, shape=1024), lp.GlobalArg("b", np.int32), ...],
    )
    counts = lp.get_mem_access_map(lp.tag_inames(knl, "i:l.0"), subgroup_size=32)
    (key,) = counts.filter_by(variable="a")
    assert key.lid_strides == {0: None}
    assert "{0: None}" in str(counts)
    assert counts.filter_by(lid_strides=[{0: None}]).sum().eval_with_dict({}) == 1024


def test_functions_of_parameters_become_numbers() -> None:
    counts = lp.get_op_map(one_loop("out[i] = 2*a[i] + 1", a=np.float32), subgroup_size=32)
    both = counts + counts
    assert isinstance(both, lp.ToCountPolynomialMap)
    numbers = both.eval({"n": 8})
    assert not isinstance(numbers, lp.ToCountPolynomialMap)
    assert numbers.sum() == both.eval_and_sum({"n": 8}) == 32


def test_counts_of_some_instructions() -> None:
    knl = lp.make_kernel(
        "{[i]: 0 <= i < 8}", ["b[i] = 2*a[i]  {id=twice}", "c[i] = a[i] + 1  {id=more}"]
    )
    knl = lp.add_dtypes(knl, {"a": np.float32})
    assert ops(knl, within="id:twice") == {("float32", "mul"): "{ 8 }"}
    assert set(accesses(knl, within="writes:c")) == {("load", "a"), ("store", "c")}
    assert accesses(knl, within="id:none") == {}


def test_parameters_need_values() -> None:
    counts = lp.get_op_map(one_loop("out[i] = 2*a[i] + 1", a=np.float32), subgroup_size=32)
    with pytest.raises(KernelError, match="the counts depend on 'n', which has no value"):
        counts.eval_and_sum({"m": 8})


def test_parameters_that_a_count_does_not_depend_on_need_no_values() -> None:
    knl = one_loop("out[i] = 2*a[i]", a=np.float32)
    launches = lp.get_synchronization_map(knl, subgroup_size=32)
    assert launches.eval_and_sum() == 1


class WavefrontTarget(lp.OpenCLTarget):
    """OpenCL for devices that run 64 work-items in step."""

    warp_size = 64


def test_a_target_says_how_large_its_sub_groups_are() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 256 }", "out[i] = 2*a[i]", target=WavefrontTarget())
    knl = lp.add_dtypes(lp.split_iname(knl, "i", 128, inner_tag="l.0"), {"a": np.float32})
    found, of_64, of_32 = (str(lp.get_op_map(knl, subgroup_size=n)) for n in (None, 64, 32))
    assert found == of_64 != of_32


def test_sub_groups_alone_do_not_exchange_values() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 64 }", "out = sum(i, a[i])", target=WavefrontTarget())
    knl = lp.add_dtypes(lp.tag_inames(knl, "i:l.0"), {"a": np.float32})
    assert "barrier(CLK_LOCAL_MEM_FENCE)" in lp.generate_body(knl)
