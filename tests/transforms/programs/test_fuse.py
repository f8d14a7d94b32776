"""Several kernels made one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.lowering import lower
from tests.oracle import Oracle
from tests.transforms.helpers import dependencies, instructions, kernel_of, run, same_set


def first(**options: Any) -> lp.TranslationUnit:
    return lp.make_kernel("{ [i]: 0<=i<n }", "<> t = 2*a[i]\nb[i] = t", name="first", **options)


def second(**options: Any) -> lp.TranslationUnit:
    text = "<> t = b[i]\nc[i,j] = t + j"
    return lp.make_kernel("{ [i,j]: 0<=i<n and 0<=j<3 }", text, name="second", **options)


def test_loops_arguments_and_instructions_are_those_of_both() -> None:
    knl = lp.fuse_kernels([first(), second()], data_flow=[("b", 0, 1)])
    assert kernel_of(knl).name == "first_and_second"
    assert [arg.name for arg in kernel_of(knl).args] == ["a", "b", "n", "c"]
    assert instructions(knl) == [
        "i: t = 2*a[i]",
        "i: b[i] = t",
        "i: t_0 = b[i]",
        "i,j: c[i, j] = t_0 + j",
    ]
    assert dependencies(knl) == {"insn_0": "insn", "insn_1": "insn_0", "insn_2": "insn_1"}


def test_the_result_is_that_of_one_after_the_other() -> None:
    knl = lp.fuse_kernels([first(), second()], data_flow=[("b", 0, 1)])
    a = np.arange(5.0)
    b = run(first(), a=a)["b"]
    assert np.array_equal(run(knl, a=a)["c"], run(second(), b=b)["c"])
    lowered = lower(kernel_of(knl), {"a": np.dtype(np.float64)})
    Oracle(lowered.kernel, {"n": 4}).check(lowered.functions)


def test_what_the_first_computes_need_not_be_passed() -> None:
    knl = lp.fuse_kernels([first(), second()], data_flow=[("b", 0, 1)])
    assert kernel_of(knl).arg_dict["b"].is_input is False
    swapped = lp.fuse_kernels([second(), first()])
    assert kernel_of(swapped).arg_dict["b"].is_input is True


def test_suffixes_tell_temporaries_apart() -> None:
    knl = lp.fuse_kernels([first(), second()], suffixes=["_1", "_2"])
    assert list(kernel_of(knl).temporary_variables) == ["t_1", "t_2"]


def test_bounds_that_are_computed_follow_their_temporary() -> None:
    text = "<> m = lengths[i]\nout[i] = sum(k, a[k])"
    rows = lp.make_kernel(
        ["{ [i]: 0<=i<n }", "{ [k]: 0<=k<m }"], text, [lp.GlobalArg("a", shape=None), ...]
    )
    again = lp.rename_argument(lp.rename_iname(rows, "k", "k2"), "out", "out2")
    knl = lp.fuse_kernels([rows, again], suffixes=["", "_b"])
    arguments = {"a": np.ones(9), "lengths": np.array([0, 9, 3], np.int32)}
    assert run(knl, **arguments)["out2"].tolist() == [0, 9, 3]


@pytest.mark.parametrize("swap", [False, True])
def test_loops_may_be_in_one_domain_here_and_in_two_there(swap: bool) -> None:
    data = [lp.ValueArg("m", np.int32), lp.ValueArg("n", np.int32), ...]
    one = lp.make_kernel("{ [i,j]: 0<=i<n and 0<=j<m }", "b[i,j] = a[i,j]", data, name="one")
    two = lp.make_kernel(["{ [i]: 0<=i<n }", "{ [j]: 0<=j<m }"], "c[i,j] = a[i,j]", data)
    parts = [two, one] if swap else [one, two]
    domain = kernel_of(lp.fuse_kernels(parts)).domain_of(("i", "j"))
    assert same_set(domain, "[n,m] -> { [i,j]: 0<=i<n and 0<=j<m }")


def test_a_loop_does_not_bound_those_of_the_other_kernel() -> None:
    one = lp.make_kernel("{ [i]: 0<=i<n }", "b[i] = 1")
    two = lp.make_kernel("{ [i,j]: 0<=i<n and 0<=j<m }", "c[i,j] = 2", name="two")
    knl = lp.fuse_kernels([one, two])
    assert same_set(kernel_of(knl).domain_of(("i",)), "[n] -> { [i]: 0<=i<n }")


def test_loops_that_bound_those_of_the_other_kernel_are_refused() -> None:
    """In one domain with ``j``, ``i`` would run only where there is a ``k``."""
    sizes = [lp.ValueArg("n, m", np.int32), ...]
    one = lp.make_kernel(
        ["{ [i]: 0<=i<n }", "{ [k]: 0<=k<m }"], ["a[i] = 1", "b[k] = 2"], sizes, name="one"
    )
    domain = "{ [i,k,j]: 0<=i<n and 0<=k<m and i+k<=j<i+k+2 }"
    two = lp.make_kernel(domain, ["c[i,k,j] = 3", "d[j] = 4"], sizes, name="two")
    with pytest.raises(lp.TransformError, match="loops of one bound the other") as error:
        lp.fuse_kernels([one, two])
    assert "m=0" in str(error.value)
    knl = kernel_of(lp.fuse_kernels([one, lp.assume(two, "m >= 1 and n >= 1")]))
    assert same_set(knl.domain_of(("j",)), "[n,m] -> { [j]: 0<=j<n+m and n>=1 and m>=1 }")


def test_different_loops_of_one_name_are_refused_with_a_point() -> None:
    other = lp.make_kernel("{ [i]: 0<=i<=n }", "c[i] = 1", name="other")
    with pytest.raises(
        lp.TransformError, match="the loops over i of 'first' and 'other' differ"
    ) as e:
        lp.fuse_kernels([first(), other])
    assert "n=0, i=0" in str(e.value)
    lp.fuse_kernels([first(), lp.rename_iname(other, "i", "j")])


def test_different_declarations_are_refused() -> None:
    other = lp.make_kernel("{ [j]: 0<=j<n }", "d[j] = a[j,0]", name="other")
    with pytest.raises(lp.TransformError, match="argument 'a' is declared differently"):
        lp.fuse_kernels([first(), other])
    with pytest.raises(lp.TransformError, match="'a' is an argument of 'first' and a loop of 'x'"):
        lp.fuse_kernels([first(), lp.make_kernel("{ [a]: 0<=a<4 }", "d[a] = 1", name="x")])


def test_different_tags_and_rules_are_refused() -> None:
    with pytest.raises(lp.TransformError, match=r"iname 'i' differs.*\n.*tagged g\.0"):
        lp.fuse_kernels([lp.tag_inames(first(), "i:g.0"), second()])
    one, two = (
        lp.make_kernel("{ [i]: 0<=i<n }", f"f(x) := x + {k}\nout{k}[i] = f(i)") for k in (1, 2)
    )
    with pytest.raises(lp.TransformError, match="substitution rule 'f' differs"):
        lp.fuse_kernels([one, two])


@pytest.mark.parametrize(
    ("flow", "complaint"),
    [(("b", 0, 2), "there is no kernel 2"), (("a", 0, 1), "nothing writes 'a'")],
)
def test_a_flow_that_is_none_is_refused(flow: tuple[str, int, int], complaint: str) -> None:
    with pytest.raises(lp.TransformError, match=complaint):
        lp.fuse_kernels([first(), second()], data_flow=[flow])


def test_three_kernels_on_a_device(device: Any) -> None:
    domains = ["{ [i]: 0<=i<n }", "{ [k]: 0<=k<3 }"]
    third = lp.make_kernel(domains, "d[i] = sum(k, c[i,k])", name="third")
    knl = lp.fuse_kernels([first(), second(), third], data_flow=[("b", 0, 1), ("c", 1, 2)])
    knl = lp.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    _, outputs = device(lp.set_options(knl, return_dict=True), a=np.arange(6.0))
    assert np.array_equal(outputs["d"], 6 * np.arange(6.0) + 3)


def test_data_flow_orders_two_kernels_that_write() -> None:
    one = lp.make_kernel("{[i]: 0<=i<6}", "w[i] = i {id=one}", target=lp.ExecutableCTarget())
    two = lp.make_kernel("{[k]: 0<=k<6}", "w[k] = 2*k + 1 {id=two}", target=lp.ExecutableCTarget())
    fused = lp.fuse_kernels([one, two], data_flow=[("w", 0, 1)])
    assert fused.default_entrypoint.id_to_insn["two"].depends_on == {"one"}
    assert list(fused()[1][0]) == [1, 3, 5, 7, 9, 11]


def test_functions_are_those_of_all_kernels() -> None:
    double = lp.CallMangleInfo("my_double", (np.dtype("float64"),), (np.dtype("float64"),))
    knl = lp.register_callable(second(), "double", double)
    assert "double" in kernel_of(lp.fuse_kernels([first(), knl])).functions


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("shape", ["8", "n"])
def test_a_known_shape_is_that_of_an_array_with_data_in_subscripts(
    shape: str, is_first: bool
) -> None:
    data = [lp.GlobalArg("b", np.float64, shape=shape), ...]
    one = lp.make_kernel(f"{{ [i]: 0<=i<{shape} }}", "b[i] = 2*a[i]", data, name="one")
    two = lp.make_kernel("{ [k]: 0<=k<5 }", "c[k] = b[p[k]]", name="two")
    unit = lp.fuse_kernels([one, two][:: 1 if is_first else -1])
    found, expected = (kernel_of(u).array_vars["b"].shape for u in (unit, one))
    assert found == expected


def test_an_array_of_two_axes_is_not_one_with_data_in_its_only_subscript() -> None:
    data = [lp.GlobalArg("b", np.float64, shape="8, 2"), ...]
    one = lp.make_kernel("{ [i]: 0<=i<8 }", "b[i, 0] = i", data, name="one")
    two = lp.make_kernel("{ [k]: 0<=k<5 }", "c[k] = b[p[k]]", name="two")
    with pytest.raises(lp.TransformError, match="'b' is declared differently"):
        lp.fuse_kernels([one, two])


@pytest.mark.parametrize("flow", [(), [("o", 0, 1)]])
def test_members_of_one_element_are_written_in_a_given_order(flow: Any) -> None:
    pair = np.dtype([("x", np.float64), ("y", np.float64)])

    def part(name: str, text: str) -> lp.TranslationUnit:
        data = [lp.GlobalArg("o", pair, shape=4), lp.GlobalArg("a", np.float64, shape=4)]
        target = lp.ExecutableCTarget()
        return lp.make_kernel("{ [i]: 0 <= i < 4 }", text, data, name=name, target=target)

    knl = lp.fuse_kernels(
        [part("one", "o[i].x = a[i]"), part("two", "o[i].y = o[i].x + 1")], data_flow=flow
    )
    if not flow:
        with pytest.raises(lp.KgenError, match="nothing says whether"):
            lp.generate_code_v2(knl)
        return
    a, o = np.arange(4.0), np.zeros(4, pair)
    knl(a=a, o=o)
    np.testing.assert_array_equal(o["y"], o["x"] + 1)


def test_the_name_has_those_of_all_kernels() -> None:
    parts = [lp.make_kernel("{[i]: 0 <= i < 4}", f"{x}[i] = i", name="part") for x in "ab"]
    assert kernel_of(lp.fuse_kernels(parts)).name == "part_and_part"
