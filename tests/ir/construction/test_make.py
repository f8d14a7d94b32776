"""From domains, instructions and declarations to a kernel: loops, dependencies, arguments."""

from __future__ import annotations

from typing import Any

import islpy as isl
import namedisl
import numpy as np
import pymbolic.primitives as p
import pytest

from kgen.errors import KernelError, KgenError, KgenSyntaxError
from kgen.ir.construction.make import make_loop_kernel
from kgen.ir.data import (
    ConstantArg,
    GlobalArg,
    SubstitutionRule,
    TemporaryVariable,
    ValueArg,
)
from kgen.ir.instruction import (
    Assignment,
    CallInstruction,
    CInstruction,
    NoOpInstruction,
    UniqueName,
)
from kgen.ir.kernel import LoopKernel
from kgen.ir.options import Options
from kgen.ir.tags import StringTag
from kgen.ir.target import TargetBase
from kgen.ir.types import AddressSpace, Optional, auto, to_kgen_type

CUBE = "{ [i, j, k]: 0 <= i, j, k < 16 }"


def make(
    instructions: Any, domains: Any = CUBE, kernel_data: Any = None, **settings: Any
) -> LoopKernel:
    return make_loop_kernel(
        domains, instructions, kernel_data, name="knl", target=TargetBase(), **settings
    )


def loops(kernel: LoopKernel) -> dict[str, str]:
    return {str(insn.id): "".join(sorted(insn.within_inames)) for insn in kernel.instructions}


def waits(kernel: LoopKernel) -> dict[str, list[str]]:
    return {str(insn.id): sorted(insn.depends_on) for insn in kernel.instructions}


def refusal(instructions: Any, *args: Any, **settings: Any) -> str:
    with pytest.raises(KernelError) as caught:
        make(instructions, *args, **settings)
    return str(caught.value)


# -- domains --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "domain",
    [
        "{ [i]: 0 <= i < n }",
        "[n] -> { [i]: 0 <= i < n }",
        isl.BasicSet("[n] -> { [i]: 0 <= i < n }"),
        isl.Set("[n] -> { [i]: 0 <= i < n }"),
        namedisl.make_set("[n] -> { [i]: 0 <= i < n }"),
        ["{ [i]: 0 <= i < n }"],
    ],
)
def test_a_domain_is_text_or_a_set(domain: Any) -> None:
    kernel = make("a[i] = 1", domain)
    assert [str(found) for found in kernel.domains] == ["[n] -> { [i] : 0 <= i < n }"]
    assert list(kernel.inames) == ["i"]


@pytest.mark.parametrize("domains", [[], "{ : }", "{ [] }"])
def test_a_kernel_needs_no_loops(domains: Any) -> None:
    assert loops(make("a = 1", domains)) == {"insn": ""}


def test_a_domain_inside_of_another_brings_its_loops() -> None:
    kernel = make("a[j] = 1", ["{ [i]: 0 <= i < n }", "{ [j]: 0 <= j < i }"])
    assert loops(kernel) == {"insn": "ij"}


def test_two_domains_may_not_share_an_iname() -> None:
    assert "'i' is in two domains" in refusal("a[i] = 1", ["{ [i]: 0<=i<2 }", "{ [i]: 0<=i<3 }"])


# -- loops ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a[i] = b[j]", "ij"),
        ("a = sum(i, b[i, j])", "j"),
        ("a = max(k, b[k])", ""),
        ("a = 1 {if=max(k, b[k]) > 3}", ""),
        ("a = max(k, b[k]) {if=k > 3}", "k"),
        ("a[j] = 1 {if=max(k, b[k]) > max(j, 3)}", "j"),
        ("a[k] = max(k, 3)", "k"),
        ("a = 1 {if=b[i] > 0}", "i"),
        ("a = 1 {if=i > 3}", "i"),
        ("a[i] = 0 {inames=j}", "ij"),
        ("a[i] = 0 {inames=+j}", "ij"),
        ("for j\na[i] = 0\nend", "ij"),
        ("[i]: a[i, j] = f([k]: b[k, j])", "j"),
        ("f(b[i])", "i"),
        ("a[[i]] = 0", "i"),
        ("... nop", ""),
        ("for i\n... gbarrier\nend", "i"),
    ],
)
def test_loops_are_those_of_the_variables_mentioned(text: str, expected: str) -> None:
    assert loops(make(text)) == {"insn": expected}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<>t = a[i]\nout = t", "i"),
        ("<>t = a[i]\n<>s = t + 1\nout = s", "i"),
        ("<>t = a[i]\n<>s = b[j]\nout = t + s", "ij"),
        ("<>t = a[i] {id=x}\nt = b[j] {dep=x}\nout = t", ""),
        ("<>t = a[i, j] {id=x}\nt = b[j] {dep=x}\nout = t", "j"),
        ("<>t[i] = a[i]\nout = t[3]", ""),
        ("<>t[i] = a[i, j]\nout = t[3]", "j"),
        ("<>t = a[i]\nout = 3 {if=t > 0}", "i"),
        ("<>t = a[i]\nout[t] = 3", "i"),
        ("<>t = a[i]\nf(x) := t + x\nout = f(3)", "i"),
        ("<>t = a[i, j]\nout = sum(j, t)", "i"),
        ("<>t = a[i]\nout = t {inames=}", ""),
        ("<>t = a[i]\nfor j\nout = t\nend", "j"),
        ("out = t\n<>t = s\n<>s = a[i]", "i"),
        ("t = a[i]\nout = t", "i"),
    ],
)
def test_loops_of_what_is_read_are_inherited(text: str, expected: str) -> None:
    kernel = make(text)
    (reader,) = kernel.writers["out"]
    assert loops(kernel)[reader] == expected


def test_computed_loop_bounds_bring_their_loops_and_dependencies() -> None:
    kernel = make(
        "<> m = rows[i] {id=bound}\nout[j] = 1 {id=fill}\ntotal = sum(k, a[k]) {id=sum}",
        ["{ [i]: 0 <= i < n }", "{ [j]: 0 <= j < m }", "{ [k]: 0 <= k < m }"],
    )
    assert loops(kernel) == {"bound": "i", "fill": "ij", "sum": "i"}
    assert waits(kernel) == {"bound": [], "fill": ["bound"], "sum": ["bound"]}


def test_computed_bounds_of_one_domain_do_not_wait_for_each_other() -> None:
    text = """
    for i
        <> first = starts[i] {id=first}
        <> last = starts[i + 1] {id=last}
        out[i] = sum(k, a[k]) {id=sum}
    end
    """
    kernel = make(text, "{ [i, k]: 0 <= i < n and first <= k < last }")
    assert waits(kernel) == {"first": [], "last": [], "sum": ["first", "last"]}


def test_rules_are_opened_to_find_loops_dependencies_and_arguments() -> None:
    kernel = make("<>t = 1\nf(x) := a[i]*g(x)\ng(y) := y + w + t\nout[j] = f(3) {id=use}")
    assert loops(kernel)["use"] == "ij"
    assert waits(kernel)["use"] == ["insn"]
    assert list(kernel.arg_dict) == ["a", "out", "w"]


def test_objects_and_text_are_treated_alike() -> None:
    a, i = p.Variable("a"), p.Variable("i")
    kernel = make(
        [
            Assignment(a[i], 2 * i, id=UniqueName("set")),
            "b[i] = a[i] {id=copy}",
            CallInstruction((p.Variable("c")[i],), p.Variable("f")(a[i]), depends_on="co*"),
            SubstitutionRule("f", ("x",), p.Variable("x") + 1),
            NoOpInstruction("end", depends_on=frozenset(["*"]), within_inames=frozenset("j")),
        ]
    )
    assert loops(kernel) == {"set": "i", "copy": "i", "insn": "i", "end": "j"}
    assert waits(kernel) == {
        "set": [],
        "copy": ["set"],
        "insn": ["copy", "set"],
        "end": ["copy", "insn", "set"],
    }


def test_final_inames_of_objects_are_respected() -> None:
    text = "<>t = a[i]"
    inherits = Assignment("out", "t", within_inames="j")
    does_not = Assignment("out", "t", within_inames="j", within_inames_is_final=True)
    assert loops(make([text, inherits]))["insn_0"] == "ij"
    assert loops(make([text, does_not]))["insn_0"] == "j"


@pytest.mark.parametrize("option", ["inames=+i", "inames_dep=i"])
def test_more_inames_in_a_for_block_bring_no_loops_of_writers(option: str) -> None:
    block = f"for k\n out[k] = t[k] {{id=use, {option}}}\nend"
    assert loops(make("t[0] = a[j]\n" + block))["use"] == "ik"


@pytest.mark.parametrize(
    "text", ["<>row = 2*j\nt[row] = a[j]", "row := 2*j\nt[row] = a[j]", "t[2*j] = a[j]"]
)
def test_a_loop_that_a_written_subscript_names_stays_with_the_writer(text: str) -> None:
    assert loops(make(f"{text}\nout[k] = t[k] {{id=use}}"))["use"] == "k"
    assert loops(make("t[0] = a[j]\nout[k] = t[k] {id=use}"))["use"] == "jk"


# -- ids and dependencies -------------------------------------------------------------


def test_ids_are_made_unique_around_given_ones() -> None:
    kernel = make("a=0\nb=0\nc=0 {id=insn_1}\nd=0\ne=0 {id_prefix=x}\nf=0 {id_prefix=x}")
    assert list(kernel.id_to_insn) == ["insn", "insn_0", "insn_1", "insn_2", "x", "x_0"]


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("", ["load_a"]),
        ("dep=load_b", ["load_a", "load_b"]),
        ("dep=load_?", ["load_a", "load_b"]),
        ("dep=*load_b", ["load_b"]),
        ("dep=*", []),
        ("dep=**", ["load_a", "load_b", "other"]),
        ("dep_query=writes:other*", ["load_a", "other"]),
        ("dep_query=*writes:other*", ["other"]),
    ],
)
def test_dependencies(option: str, expected: list[str]) -> None:
    kernel = make(
        "<>t = a[i] {id=load_a}\n<>u = b[i] {id=load_b}\nother = 1 {id=other}\n"
        f"out[i] = t {{id=use, {option}}}"
    )
    assert waits(kernel)["use"] == expected


def test_a_variable_with_two_writers_brings_no_dependency() -> None:
    assert waits(make("a = 1\na = 2\nb = a"))["insn_1"] == []


def test_nobody_waits_for_himself() -> None:
    assert waits(make("a = a + 1")) == {"insn": []}


def test_nosync_is_resolved_per_scope() -> None:
    kernel = make("a = 0 {id=x1}\nb = 0 {id=x2}\nc = 0 {nosync=x*@local:x1@global}")
    pairs = {("x1", "local"), ("x2", "local"), ("x1", "global")}
    assert kernel.id_to_insn["insn"].no_sync_with == pairs


def test_sequential_dependencies() -> None:
    kernel = make("a = 1\nb = 1\n... gbarrier\nc = a", seq_dependencies=True)
    assert waits(kernel) == {
        "insn": [],
        "insn_0": ["insn"],
        "insn_1": ["insn_0"],
        "insn_2": ["insn_1"],
    }


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a = 0 {id=first}\nb = a {dep=frist}", "depends on 'frist'"),
        ("a = 0 {id=first}\nb = a {dep=frist}", "did you mean 'first'?"),
        ("a = 0 {id=first}\nb = a {dep=frist}", "line 2: b = a {dep=frist}"),
        ("a = 0 {id=first}\nb = a {dep=z*}", "depends on 'z*'"),
        ("a = 0 {id=first}\nb = a {dep_query=id:z*}", "depends on 'id:z*'"),
        ("a = 0 {id=first}\nb = a {nosync=z}", "declares nosync with 'z'"),
        ("a = 0 {id=x}\nb = 1 {id=x}", "two instructions have the id 'x'"),
        ("a = 0 {id=x}\nb = 1 {id=x}", "line 1: a = 0 {id=x}, and line 2: b = 1 {id=x}"),
    ],
)
def test_unknown_and_double_ids(text: str, what: str) -> None:
    assert what in refusal(text)


# -- arguments ------------------------------------------------------------------------


def flow(kernel: LoopKernel) -> dict[str, str]:
    return {
        arg.name: "value"
        if isinstance(arg, ValueArg)
        else "in" * bool(arg.is_input) + "out" * bool(arg.is_output)
        for arg in kernel.args
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("out[i] = 2*a[i]", {"a": "in", "out": "out"}),
        ("out[i] = x*a[i]", {"a": "in", "out": "out", "x": "value"}),
        ("a[i] = 2*a[i]", {"a": "inout"}),
        ("a[i] += 1", {"a": "inout"}),
        ("a[i] = 1\nb[i] = a[i]", {"a": "inout", "b": "out"}),
        ("a[b[i]] = 1", {"a": "out", "b": "in"}),
        ("a = 1 {if=c}", {"a": "out", "c": "value"}),
        ("a[[i]] = b[[i]]", {"a": "out", "b": "in"}),
        ("[i]: a[i] = f([i]: b[i])", {"a": "out", "b": "in"}),
    ],
)
def test_arguments_are_guessed(text: str, expected: dict[str, str]) -> None:
    assert flow(make(text)) == expected


def test_parameters_of_domains_are_values() -> None:
    assert flow(make("a[i] = 1", "{ [i]: m <= i < n }")) == {"a": "out", "m": "value", "n": "value"}


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (None, ["a", "n", "out"]),
        ("out, a, n", ["out", "a", "n"]),
        ("n, ...", ["n", "a", "out"]),
        (["out", ...], ["out", "a", "n"]),
        ([ValueArg("n"), "..."], ["n", "a", "out"]),
        ([..., GlobalArg("out", shape=auto)], ["out", "a", "n"]),
        ([GlobalArg("unused", shape=3), ...], ["unused", "a", "n", "out"]),
        (GlobalArg("a", np.float32, shape=16), None),
    ],
)
def test_the_order_of_arguments_is_that_of_kernel_data(data: Any, names: list[str] | None) -> None:
    if names is None:
        assert "not declared: 'out'" in refusal("out[i] = a[i]*n", CUBE, data)
    else:
        assert list(make("out[i] = a[i]*n", CUBE, data).arg_dict) == names


def test_what_a_user_declares_remains() -> None:
    declared = [
        GlobalArg("a", np.float32, shape="16", is_input=False),
        ConstantArg("b", np.int8, shape=(16,)),
        ValueArg("x", np.int64),
        ...,
    ]
    kernel = make("a[i] = a[i] + b[i] + x", CUBE, declared)
    assert flow(kernel) == {"a": "out", "b": "in", "x": "value"}
    assert kernel.arg_dict["x"].dtype == to_kgen_type(np.int64)


def test_default_layout() -> None:
    kernel = make("a[i, j] = 1", default_order="F", default_offset=auto)
    (arg,) = kernel.args
    assert isinstance(arg, GlobalArg)
    assert arg.offset is auto
    assert arg.with_shape((16, 16)).fixed_strides == (1, 16)
    plain = make("a[i, j] = 1").args[0]
    assert isinstance(plain, GlobalArg)
    assert plain.with_shape((16, 16)).fixed_strides == (16, 1)


def test_symbols_that_a_mangler_knows_are_no_arguments() -> None:
    def mangler(kernel: LoopKernel, name: str) -> Any:
        return (np.dtype(np.float64), "M_PI") if name == "pi" else None

    assert flow(make("a[i] = pi", symbol_manglers=[mangler])) == {"a": "out"}


# -- temporaries ----------------------------------------------------------------------


def test_temporaries_are_created_once() -> None:
    kernel = make(
        "<> t = a[i]\n<float32> u[i] = 1\nv[i] = t + u[i]",
        CUBE,
        [TemporaryVariable("v", np.int32, shape=16, address_space=AddressSpace.LOCAL), ...],
    )
    found = kernel.temporary_variables
    assert sorted(found) == ["t", "u", "v"]
    assert (found["t"].dtype, found["t"].shape) == (None, ())
    assert (found["u"].dtype, found["u"].shape) == (to_kgen_type("float32"), auto)
    assert found["v"].address_space == AddressSpace.LOCAL
    assert list(kernel.arg_dict) == ["a"]
    assert all(insn.temp_var_type == Optional() for insn in kernel.instructions)  # type: ignore[attr-defined]


def test_temporaries_and_rules_may_come_by_keyword() -> None:
    kernel = make(
        "t[i] = f(i)",
        temporary_variables={"t": TemporaryVariable("t", np.int32, shape=16)},
        substitutions={"f": SubstitutionRule("f", ("x",), p.Variable("x") + 1)},
    )
    assert list(kernel.temporary_variables) == ["t"]
    assert list(kernel.substitutions) == ["f"]
    assert kernel.args == ()


# -- settings -------------------------------------------------------------------------


def test_settings() -> None:
    kernel = make(
        "a[i] = 1",
        "{ [i]: 0 <= i < n }",
        assumptions="n >= 1",
        options="return_dict",
        silenced_warnings="x; y",
        index_dtype=np.int64,
        loop_priority="i",
        tags="fast",
        preambles=[("10_x", "#define X")],
        iname_slab_increments={"i": (0, 1)},
    )
    assert str(kernel.assumptions) == "[n] -> {  : n > 0 }"
    assert kernel.options == Options(return_dict=True)
    assert kernel.silenced_warnings == ("x", "y")
    assert kernel.index_dtype == to_kgen_type(np.int64)
    assert kernel.loop_priority == (("i",),)
    assert kernel.tags == {StringTag("fast")}
    assert kernel.preambles == (("10_x", "#define X"),)
    assert kernel.iname_slab_increments == {"i": (0, 1)}


def test_kernels_made_of_the_same_are_equal() -> None:
    text = "<>t = a[i] {id=x}\nout[i] = t {dep=x}"
    assert make(text) == make(text)
    assert make(text).digest() == make(text.replace("a[i]", "a[i] ")).digest()
    assert make(text) != make(text + "\nb = 1")


# -- refusals -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("i = 3", "'i' cannot be assigned to: it is an iname"),
        ("f(x) := x\nf = 3", "'f' cannot be assigned to: it is a substitution rule"),
        ("a[i] = 1 {inames=l}", "'l' is not an iname"),
        ("for l\na[i] = 1\nend", "'l' is not an iname"),
        ("a = sum(l, b[l])", "'l', which the instruction reduces over, is not an iname"),
        ("a[i] = sum(i, b[i])", "reduces over 'i' and is inside the loop over it"),
        ("for i\na = sum(i, b[i])\nend", "reduces over 'i' and is inside the loop over it"),
        ("a = b[k] + sum(k, c[k])", "reduces over 'k' and is inside the loop over it"),
        ("<>t = 1\n<>t = 2", "the temporary 't' exists already"),
        ("<>i = 1", "'i' is both an iname and a temporary"),
        ("a[i] = b[i] + b[i, j]", "'b' is used with"),
        ("a[i] = b[i] + b", "'b' is used with"),
        ("a[i] = 1\na[i, j] = 2", "'a' is used with 2 subscripts"),
        ("<>t = 1\na = t[i]", "'t' is used with 1 subscript"),
        ("a = i[j]", "'i' is used with 1 subscript"),
    ],
)
def test_contradictions_are_refused(text: str, what: str) -> None:
    message = refusal(text)
    assert what in message
    assert "in kernel 'knl'" in message


@pytest.mark.parametrize(
    ("text", "data", "what"),
    [
        ("a[i] = b[i]", [GlobalArg("a", shape=16)], "not declared: 'b'"),
        ("a[i] = b[i]", [GlobalArg("a", shape=16)], "line 1: a[i] = b[i]"),
        ("a[i] = aplh[i]", [GlobalArg("a", shape=16), GlobalArg("alph")], "did you mean 'alph'?"),
        ("a[i] = 1", "a, a", "'a' is declared twice"),
        ("a[i] = 1", "a, b", "'b' in kernel_data is not used"),
        ("a[i] = 1", "a, i", "'i' in kernel_data is not an argument"),
        ("a[i] = 1", [3, ...], "3 in kernel_data declares nothing"),
        ("<>a = 1", [GlobalArg("a", shape=16), ...], "the temporary 'a' exists already"),
        ("<>a = 1", [TemporaryVariable("a"), ...], "the temporary 'a' exists already"),
        ("a[i] = 1", [ConstantArg("a", shape=16), ...], "it is only read"),
        ("a = 1", [ValueArg("a"), ...], "is a value, not an array"),
        ("a[i, j] = 1", [GlobalArg("a", shape="n"), ...], "its shape is (n)"),
        ("a[i] = x[i]", [ValueArg("x"), ...], "'x' is used with 1 subscript"),
        ("a[i] = x", [GlobalArg("x", shape=3), ...], "'x' is used with no subscripts"),
    ],
)
def test_declarations_that_do_not_fit_are_refused(text: str, data: Any, what: str) -> None:
    assert what in refusal(text, CUBE, data)


@pytest.mark.parametrize("text", ["n = 3", "n = a[0]"])
def test_parameters_are_not_assigned_to(text: str) -> None:
    message = refusal(text + "\nb[i] = 1", "{ [i]: 0 <= i < n }")
    assert "'n' cannot be assigned to: it is a parameter of the domain" in message
    assert "<> n = ..." in message


def test_names_of_kernels() -> None:
    with pytest.raises(KernelError, match="'a-b' is not a valid name for a kernel"):
        make_loop_kernel("{ : }", "a = 1", name="a-b", target=TargetBase())


def test_a_domain_that_does_not_parse() -> None:
    with pytest.raises(KgenSyntaxError, match="does not parse"):
        make("a[i] = 1", "{ [i]: 0 <= i < }")


def test_a_union_is_no_domain() -> None:
    with pytest.raises(KernelError, match="union of 2 pieces"):
        make("a[i] = 1", "{ [i]: i = 1 or i = 5 }")


@pytest.mark.parametrize("given", [3, ["a = 1", 3]])
def test_instructions_of_other_types_are_refused(given: Any) -> None:
    with pytest.raises((KgenError, TypeError), match="int"):
        make(given)


def test_c_code_declares_what_it_reads_and_writes() -> None:
    code = CInstruction("i", "b[i] = f(x, i);", read_variables="x", assignees="b[i]")
    kernel = make([code])
    assert loops(kernel) == {"insn": "i"}
    assert flow(kernel) == {"b": "out", "x": "value"}


def test_barriers_and_c_code_print_with_their_options() -> None:
    code = CInstruction("i", "b[i] = 1;\nc = 2;", assignees="b[i]", id="code")
    kernel = make([code, "... lbarrier {id=wait, mem_kind=global}"])
    assert [str(insn) for insn in kernel.instructions] == [
        "b[i] <- CODE(i|):  {id=code}\n    b[i] = 1;\n    c = 2;",
        "... lbarrier  {id=wait, mem_kind=global}",
    ]


def test_strides_may_be_left_to_the_caller() -> None:
    (arg,) = make("a[i, j] = 1", default_order=auto).args
    assert isinstance(arg, GlobalArg)
    assert [str(tag) for tag in arg.dim_tags] == ["stride:auto", "stride:auto"]


def test_texts_of_rules_are_read() -> None:
    arguments: Any = "x, y"
    rule = SubstitutionRule("f", arguments, "x + 2*y")
    assert rule == SubstitutionRule("f", ("x", "y"), p.Variable("x") + 2 * p.Variable("y"))
    assert waits(make(["t = 1 {id=t}", rule, "a = f(t, i)"])) == {"t": [], "insn": ["t"]}


def test_a_rule_may_use_the_loop_variable_that_its_user_reduces_over() -> None:
    knl = make(["gap := x[i] - x[j]", "out[i] = sum(j, gap*gap)"])
    assert loops(knl) == {"insn": "i"}
    assert knl.instructions[0].reduction_inames() == {"j"}


def test_final_dependencies_leave_out_no_bound_of_a_loop() -> None:
    text = "<> m = i + 1  {id=m}\na[i, j] = 1  {id=a, dep=*}"
    data = [GlobalArg("a", "int32", shape=(4, 4)), ...]
    assert waits(make(text, ["{ [i]: 0<=i<4 }", "{ [j]: 0<=j<m }"], data))["a"] == ["m"]


def test_errors_of_parts_name_the_kernel_but_not_where_they_show_a_place() -> None:
    with pytest.raises(KgenError, match=r"^in kernel 'mine': there is no option 'nonsense'"):
        make_loop_kernel("{ : }", "a = 1", name="mine", target=TargetBase(), options="nonsense")
    with pytest.raises(KgenError, match=r"^line 1, column 5"):
        make_loop_kernel("{ : }", "a = (1", name="mine", target=TargetBase())


@pytest.mark.parametrize("dtype", [np.float32, np.uint32, np.bool_, [("x", np.int32)]])
def test_loop_variables_are_signed_integers(dtype: Any) -> None:
    with pytest.raises(KernelError, match="loop variables are signed integers, and not of type"):
        make("out[i] = i", "{ [i]: 0<=i<n }", index_dtype=dtype)
