"""What programs written for loopy do with kernels, instructions, options and executors."""

from __future__ import annotations

import importlib
import warnings
from typing import Any, ClassVar

import islpy as isl
import numpy as np
import pymbolic.primitives as p
import pytest
from pymbolic import var
from pytools.tag import Tag

import kgen.compat.loopy as lp
from kgen.compat.loopy import symbolic
from kgen.compat.loopy.codegen.result import process_preambles
from kgen.compat.loopy.kernel.function_interface import (
    ArrayArgDescriptor,
    get_arg_descriptor_for_expression,
    get_kw_pos_association,
)
from kgen.compat.loopy.kernel.instruction import _DataObliviousInstruction
from kgen.compat.loopy.target.c import CASTBuilder, CMathCallable

C = lp.ExecutableCTarget()


def doubled(**settings: Any) -> lp.TranslationUnit:
    return lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]", **settings)


# -- kernels and instructions --------------------------------------------------------------------


def test_copied_domains_declare_and_drop_inames() -> None:
    knl = lp.tag_inames(doubled(), "i:unr").default_entrypoint
    more = knl.copy(domains=[*knl.domains, isl.BasicSet("[n] -> { [j, k]: 0 <= j, k < n }")])
    assert sorted(more.inames) == ["i", "j", "k"]
    assert more.inames["i"] == knl.inames["i"]
    assert sorted(more.copy(domains=knl.domains).inames) == ["i"]


def test_new_domains_can_be_used_at_once() -> None:
    unit = doubled(target=C)
    knl = unit.default_entrypoint
    write = lp.Assignment("out[j + n]", "a[j]", within_inames=frozenset("j"), id="more")
    knl = knl.copy(
        domains=[*knl.domains, isl.BasicSet("[n] -> { [j]: 0 <= j < n }")],
        instructions=[*knl.instructions, write],
        args=[lp.GlobalArg("out", shape="2*n"), *(a for a in knl.args if a.name != "out")],
    )
    _, (out,) = unit.with_kernel(knl)(a=np.arange(3.0))
    np.testing.assert_array_equal(out, [0, 2, 4, 0, 1, 2])


@pytest.mark.parametrize(
    "make",
    [
        lambda **more: lp.Assignment("out[i]", "a[i]", **more),
        lambda **more: lp.CallInstruction("out[i]", "sin(a[i])", **more),
        lambda **more: lp.CInstruction("i", "f(i);", **more),
        lambda **more: lp.NoOpInstruction("last", **more),
        lambda **more: lp.BarrierInstruction("wait", **more),
    ],
)
def test_happens_after_says_what_depends_on_says(make: Any) -> None:
    insn = make(happens_after={"load": lp.HappensAfter(None, None)})
    assert insn.depends_on == frozenset({"load"})
    assert insn.copy(happens_after=frozenset({"set"})).depends_on == frozenset({"set"})
    assert insn.copy(happens_after=frozenset()) == make()
    with pytest.raises(lp.LoopyError, match="depends_on and happens_after"):
        make(depends_on="load", happens_after="set")


def test_instructions_that_touch_no_data() -> None:
    kinds = (lp.NoOpInstruction, lp.BarrierInstruction, lp.Assignment, lp.CInstruction)
    assert [issubclass(kind, _DataObliviousInstruction) for kind in kinds] == [1, 1, 0, 0]


def test_arguments_of_a_call_by_id() -> None:
    call = lp.CallInstruction((var("x"), var("y")), var("f")(var("z"), 2))
    assert call.arg_id_to_arg() == {0: var("z"), 1: 2, -1: var("x"), -2: var("y")}
    with pytest.raises(lp.LoopyError, match="is not a call"):
        lp.CallInstruction("x, y", "reduce(argmax, i, a[i], i)").arg_id_to_arg()


def test_positions_of_arguments() -> None:
    unit = lp.make_function(
        "{ [i]: 0 <= i < 8 }", "y[i] = y[i] + s*x[i]", ["x", "y", "s", ...], name="axpy"
    )
    kw_to_pos, pos_to_kw = get_kw_pos_association(unit["axpy"])
    assert pos_to_kw == {0: "x", 1: "y", 2: "s", -1: "y"}
    assert kw_to_pos == {"x": 0, "y": 1, "s": 2}


def test_descriptors_and_callables_can_be_copied_and_asked() -> None:
    descriptor = ArrayArgDescriptor((3,), lp.AddressSpace.GLOBAL, None)
    assert descriptor.copy(shape=(4,)).shape == (4,)
    function = lp.ScalarCallable("f", {0: lp.to_loopy_type(np.float32)})
    assert not function.is_ready_for_codegen()
    assert function.copy(arg_id_to_descr={}).is_ready_for_codegen()


# -- arrays --------------------------------------------------------------------------------------


def test_an_axis_of_unknown_extent() -> None:
    args = [lp.GlobalArg("a,out", np.float64, shape=(None, 3)), ...]
    domain = "{ [i, j]: 0 <= i < n and 0 <= j < 3 }"
    unit = lp.make_kernel(domain, "out[i, j] = 2*a[i, j]", args, target=C)
    a, out = np.arange(12.0).reshape(4, 3), np.zeros((4, 3))
    unit(a=a, out=out, n=4)
    np.testing.assert_array_equal(out, 2 * a)
    assert unit.default_entrypoint.array_vars["a"].shape == (None, 3)
    with pytest.raises(lp.LoopyIndexError, match=r"outside of array 'a', of shape \(None, 3\)"):
        lp.generate_code_v2(lp.make_kernel(domain, "out[i, j] = a[i, j + 1]", args))
    part = "[start, end] -> { [i, j]: start <= i < end and 0 <= j < 3 }"
    assert "for (int i = start; i < end; ++i)" in lp.generate_body(
        lp.make_kernel(part, "out[i, j] = a[i, j]", args)
    )
    with pytest.raises(lp.LoopyIndexError, match=r"writes out\[-1,"):
        lp.generate_body(lp.make_kernel(domain, "out[i - 1, j] = 1", args))
    with pytest.raises(
        lp.LoopyError, match=r"axis 0 of array 'a' is implemented by (.*\n)*.*has an unknown extent"
    ):
        lp.generate_code_v2(
            lp.make_kernel(domain, "out[i, j] = a[j, i]", [lp.GlobalArg("a", "f8", (3, None)), ...])
        )
    with pytest.raises(lp.LoopyError, match="temporary 't' has an axis of unknown extent"):
        lp.TemporaryVariable("t", np.float32, shape=(None, 3))


def test_no_subscripts_of_numbers_and_scalars() -> None:
    x, t, out = (p.Subscript(var(name), ()) for name in ("x", "t", "out"))
    insns = [lp.Assignment(t, 3 * x, id="t"), lp.Assignment(out, t + x, depends_on="t")]
    data = [
        lp.ValueArg("x", np.float64),
        lp.TemporaryVariable("t", shape=()),
        lp.GlobalArg("out", shape=()),
    ]
    _, (result,) = lp.make_kernel("{ : }", insns, data, target=C)(x=1.5)
    assert result[()] == 6


def test_conditions_of_no_parts() -> None:
    insns = [
        lp.Assignment("a[i]", p.If(p.LogicalAnd(()), 3, 4)),
        lp.Assignment("b[i]", p.If(p.LogicalOr(()), 3, 4)),
    ]
    _, (a, b) = lp.make_kernel("{ [i]: 0 <= i < 2 }", insns, target=C)()
    assert (a.tolist(), b.tolist()) == ([3, 3], [4, 4])


# -- options and executors -----------------------------------------------------------------------


def test_nothing_can_be_said_of_preambles() -> None:
    unit = doubled(preambles=None, preamble_generators=None, silenced_warnings=None)
    assert unit == doubled()


def test_options_can_be_assigned_until_a_kernel_has_them() -> None:
    options = lp.Options(no_numpy=True)
    options.return_dict = True
    knl = doubled(options=options, target=C)
    options.return_dict = False
    assert knl.default_entrypoint.options == lp.Options(no_numpy=True, return_dict=True)
    with pytest.raises(lp.LoopyError, match=r"constant.*\n.*set_options\(kernel, no_numpy=False\)"):
        knl.default_entrypoint.options.no_numpy = False
    changed = knl.default_entrypoint.options.copy()
    changed.no_numpy = False
    assert (
        not knl.copy(callables_table={}, entrypoints=frozenset())
        .with_kernel(knl.default_entrypoint.copy(options=changed))["loopy_kernel"]
        .options.no_numpy
    )


def test_unknown_options_are_refused_by_name() -> None:
    unknown: Any = {"retrn_dict": True}

    def assign() -> None:
        lp.Options().retrn_dict = True

    makers: list[Any] = [
        lambda: lp.Options(**unknown),
        lambda: lp.Options().copy(retrn_dict=True),
        lambda: doubled(options={"retrn_dict": True}),
        assign,
    ]
    for make in makers:
        with pytest.raises(lp.LoopyError, match=r"'retrn_dict'\n.*did you mean 'return_dict'"):
            make()
    assert lp.Options(ignore_boostable_into=True).ignore_boostable_into
    earlier: Any = {"write_cl": True}
    assert lp.Options(**earlier).write_code is True


def test_an_executor_has_its_program_and_takes_the_queue_by_name(opencl_queue: Any) -> None:
    knl = doubled()
    executor = knl.executor(opencl_queue.context)
    for _ in range(2):
        _, (out,) = executor(queue=opencl_queue, a=np.arange(3.0))
        np.testing.assert_array_equal(out, [0, 2, 4])
    assert executor.t_unit is executor.program
    assert executor.t_unit["loopy_kernel"].instructions == knl["loopy_kernel"].instructions
    assert doubled(target=C).executor().t_unit.target == C


# -- code ----------------------------------------------------------------------------------------


def test_device_programs_are_one_for_each_launch() -> None:
    unit = lp.make_kernel(
        "{ [i, j]: 0 <= i, j < 8 }",
        "a[i] = sin(1.0*i)\n... gbarrier\nb[j] = a[7 - j]",
        target=lp.OpenCLTarget(),
        seq_dependencies=True,
    )
    code = lp.generate_code_v2(lp.tag_inames(unit, "i:g.0, j:g.0"))
    assert [program.name for program in code.device_programs] == ["loopy_kernel", "loopy_kernel_0"]
    for program in code.device_programs:
        assert str(program.ast) == program.code
        assert program.code.count("__kernel") == 1
    assert code.device_code() == "\n".join(
        [*process_preambles(code.device_preambles), "\n\n".join(map(str, code.device_programs))]
    )


def test_preambles_stand_in_the_order_of_their_tags_and_once() -> None:
    preambles = [("10_b", "int b;"), ("00_a", "int a;"), ("10_b", "int b;")]
    assert process_preambles(preambles) == ["int a;\n", "int b;\n"]
    code = lp.generate_code_v2(
        lp.make_kernel("{ : }", "a[0] = 1", preambles=preambles[:2], target=lp.CTarget())
    )
    assert code.device_code().startswith("int a;\nint b;\n\nvoid")


NOT_HERE = {
    "check": "check_implemented_domains",
    "codegen.bounds": "get_usable_inames_for_conditional",
    "codegen.control": "build_loop_nest",
    "codegen.instruction": "generate_instruction_code",
    "codegen.loop": "generate_sequential_loop_dim_code",
    "codegen.tools": "CodegenOperationCacheManager",
    "library.function": "default_function_mangler",
    "library.reduction": "ArgExtOp",
    "library.random123": "random123_function_mangler",
    "loop": "fuse_loop_domains",
    "schedule.tools": "get_loop_nest_tree",
    "symbolic": "TypedCSE",
}


@pytest.mark.parametrize("path", NOT_HERE)
def test_modules_say_what_they_do_not_have(path: str) -> None:
    module = importlib.import_module(f"kgen.compat.loopy.{path}")
    assert not hasattr(module, NOT_HERE[path])
    with pytest.raises(lp.LoopyError, match=f"kgen does not provide '{NOT_HERE[path]}'\n  hint: "):
        getattr(module, NOT_HERE[path])


def test_checks_before_scheduling() -> None:
    check = importlib.import_module("kgen.compat.loopy.check").pre_schedule_checks
    knl = doubled(kernel_data=[lp.GlobalArg("a", np.float32), ...]).default_entrypoint
    check(knl, {})
    with pytest.raises(lp.LoopyError, match="the type of 'a' is not known"):
        check(doubled().default_entrypoint)


def test_boundaries_of_blocks() -> None:
    boundaries = importlib.import_module("kgen.compat.loopy.schedule.tools").get_block_boundaries
    unit = doubled(kernel_data=[lp.GlobalArg("a", np.float32), ...])
    items = lp.linearize(unit)["loopy_kernel"].linearization
    assert items is not None
    pairs = boundaries(items)
    assert {type(items[k]).__name__ for k in pairs} == {
        "CallKernel",
        "EnterLoop",
        "LeaveLoop",
        "ReturnFromKernel",
    }
    assert all(pairs[end] == start for start, end in pairs.items())


class _Unspoken(lp.ScalarCallable):
    """A function that says nothing of what it returns."""

    def with_types(self, arg_id_to_dtype: Any, clbl_inf_ctx: Any) -> Any:
        given = {key: dtype for key, dtype in arg_id_to_dtype.items() if key >= 0}
        return self.copy(arg_id_to_dtype=given), clbl_inf_ctx


def calling(text: str) -> lp.TranslationUnit:
    args = [lp.GlobalArg("a", np.float64, shape=(4, 3)), lp.GlobalArg("b", np.float64, shape=3)]
    unit = lp.make_kernel(
        "{ [i, j, k]: 0 <= i < 4 and 0 <= j, k < 3 }", text, [*args, ...], target=lp.CTarget()
    )
    return lp.register_callable(unit, "put", _Unspoken("put"))


def test_functions_need_no_types_of_results_that_they_store() -> None:
    assert "put(&a[3 * i], i);" in lp.generate_body(calling("put([j]: a[i, j], i)"))
    assert "put(i, &b[0]);" in lp.generate_body(calling("[k]: b[k] = put(i)"))
    with pytest.raises(lp.LoopyError, match="type"):
        lp.generate_body(calling("b[k] = put(k)"))


def test_functions_for_the_code_of_another_program() -> None:
    target = lp.CTarget(function_specifiers="static inline")
    unit = lp.make_kernel("{ [i]: 0 <= i < 4 }", "a[i] = 1", name="ones", target=target)
    code = lp.generate_code_v2(unit).device_code()
    assert code.startswith("static inline void ones(int *__restrict__ a)\n{")
    assert lp.generate_header(unit)[0].count("static inline void ones(") == 1
    with pytest.raises(lp.LoopyError, match="is text of words"):
        lp.CTarget(function_specifiers="static;")
    with pytest.raises(lp.LoopyError, match="cannot be called from Python"):
        lp.ExecutableCTarget(function_specifiers="static")


def test_names_of_inlined_kernels_have_its_first_letters_in_front() -> None:
    callee = lp.make_function(
        "{ [i]: 0 <= i < 8 }", "<> t = 2*x[i] {id=t}\ny[i] = t {dep=t}", name="element"
    )
    caller = lp.make_kernel(
        "{ [i, k]: 0 <= i, k < 8 }",
        "[k]: b[i, k] = element([k]: a[i, k])",
        [lp.GlobalArg("a,b", np.float64, shape=(8, 8))],
    )
    unit = lp.inline_callable_kernel(lp.merge([caller, callee]), "element")
    assert {"i", "elem_i"} == unit["loopy_kernel"].inames.keys()
    assert {"elem_t"} == unit["loopy_kernel"].temporary_variables.keys()


def test_the_body_of_a_function_as_a_tree() -> None:
    unit = lp.make_kernel("{ [i]: 0 <= i < 4 }", "a[i] = 1", target=lp.CTarget())
    (program,) = lp.generate_code_v2(unit).device_programs
    assert str(program.body_ast) == "{\n  for (int i = 0; i < 4; ++i)\n    a[i] = 1;\n}"
    assert str(program.ast) == f"void loopy_kernel(int *__restrict__ a)\n{program.body_ast}"


class _WithMath(lp.CTarget):
    def get_device_ast_builder(self) -> Any:
        class Builder(CASTBuilder):
            known_callables: ClassVar = {"fmax": CMathCallable("fmax")}

        return Builder(self)


def test_functions_of_the_math_library_for_targets_of_ones_own() -> None:
    args = [lp.GlobalArg("a", np.float32, shape=4), ...]
    text = "out[i] = fmax(a[i], 2*a[i])"
    unit = lp.make_kernel("{ [i]: 0 <= i < 4 }", text, args, target=_WithMath())
    assert "out[i] = fmaxf(a[i], 2.0f * a[i]);" in lp.generate_body(unit)
    with pytest.raises(lp.LoopyError, match=r"no function 'fmaxx'\n  hint: did you mean 'fmax'"):
        CMathCallable("fmaxx").specialized((lp.to_loopy_type(np.float32),) * 2)
    with pytest.raises(lp.LoopyError, match="'sqrt' takes real numbers, not complex64"):
        CMathCallable("sqrt").specialized((lp.to_loopy_type(np.complex64),))


def test_names_that_no_kernel_has_are_not_fixed() -> None:
    fixed = lp.fix_parameters(doubled(target=C), n=3, m=4)
    _, (out,) = fixed(a=np.arange(3.0))
    np.testing.assert_array_equal(out, [0, 2, 4])
    with pytest.raises(lp.LoopyError, match="there is no parameter 'a'"):
        lp.fix_parameters(doubled(), a=4)


# -- expressions ---------------------------------------------------------------------------------


def test_a_count_as_an_expression() -> None:
    domain = "{ [i, j]: 0 <= i < n and 0 <= 2*j < i + m }"
    unit = lp.make_kernel(domain, "out[i, j] = 2.5*i", target=C, assumptions="n >= 1 and m >= 1")
    ((_, count),) = lp.get_op_map(unit, subgroup_size=1).items()
    for piece, qpoly in count.get_pieces():
        expr = symbolic.qpolynomial_to_expr(qpoly)
        for n in range(1, 6):
            for m in range(1, 6):
                point = isl.Set(f"[n, m] -> {{ : n = {n} and m = {m} }}")
                if piece.intersect_params(point).is_empty():
                    continue
                counted = sum((i + m + 1) // 2 for i in range(n))
                assert eval(str(expr), {"n": n, "m": m}) == counted  # noqa: S307


RULES = (
    "f(x) := a[x] + s\ng(x) := 3*f(x + 1)\nout[i] = f(i) + g(i) {id=use}\nb[i] = f(i) {id=other}"
)


def test_rules_are_divided_where_their_uses_differ() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", RULES, ["a", ...]).default_entrypoint
    context = symbolic.SubstitutionRuleMappingContext(
        knl.substitutions, knl.get_var_name_generator()
    )

    def within(kernel: Any, insn: Any, stack: Any) -> bool:
        return insn.id == "use" and [name for name, _ in stack] == ["g", "f"]

    new: dict[Any, Any] = {var("s"): var("t")}
    mapper = symbolic.RuleAwareSubstitutionMapper(context, new.get, within)
    changed = context.finish_kernel(mapper.map_kernel(knl))
    assert {name: str(rule.expression) for name, rule in changed.substitutions.items()} == {
        "f": "a[x] + s",
        "f_0": "a[x] + t",
        "g": "3*f_0(x + 1)",
    }
    assert [str(insn.read_exprs()[0]) for insn in changed.instructions] == ["f(i) + g(i)", "f(i)"]


def test_a_rule_keeps_its_name_and_the_tags_of_its_uses() -> None:
    text = "f(x) := a[x] + s\nout[i] = f$first(i) + f(i + 1) {id=use}\nb[i] = f$first(i)"
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", text, ["a", ...]).default_entrypoint
    context = symbolic.SubstitutionRuleMappingContext(
        knl.substitutions, knl.get_var_name_generator()
    )

    class PerInstruction(symbolic.RuleAwareIdentityMapper):
        def map_variable(self, expr: Any, expn_state: Any) -> Any:
            new = {"s": var(f"s_{expn_state.insn_id}")}
            return new.get(expr.name) or super().map_variable(expr, expn_state)

    changed = context.finish_kernel(PerInstruction(context).map_kernel(knl))
    rules = {name: str(rule.expression) for name, rule in changed.substitutions.items()}
    assert rules == {"f": "a[x] + s_use", "f_0": "a[x] + s_insn"}
    text_of = symbolic.StringifyMapper()
    first, second = (text_of(insn.read_exprs()[0]) for insn in changed.instructions)
    assert (first, second) == ("f$first(i) + f(i + 1)", "f_0$first(i)")


def test_a_mapper_knows_what_arguments_of_rules_stand_for() -> None:
    seen = []

    class Reads(symbolic.RuleAwareIdentityMapper):
        def map_subscript(self, expr: Any, expn_state: Any) -> Any:
            seen.append((expn_state.insn_id, str(expn_state.apply_arg_context(expr))))
            return super().map_subscript(expr, expn_state)

    knl = lp.make_kernel("{ [i]: 0 <= i < n }", RULES, ["a", ...]).default_entrypoint
    context = symbolic.SubstitutionRuleMappingContext(
        knl.substitutions, knl.get_var_name_generator()
    )
    assert context.finish_kernel(Reads(context).map_kernel(knl)) == knl
    assert sorted(seen) == [
        ("other", "a[i]"),
        ("other", "b[i]"),
        ("use", "a[i + 1]"),
        ("use", "a[i]"),
        ("use", "out[i]"),
    ]


def test_nestings_are_joined_with_sets() -> None:
    knl: Any = lp.make_kernel("{ [i, j]: 0 <= i, j < n }", "out[i, j] = 1").default_entrypoint
    first = knl.copy(loop_priority=frozenset([("j", "i")]))
    assert first == knl.copy(loop_priority=knl.loop_priority | {("j", "i")})
    assert lp.generate_body(first.copy(target=lp.CTarget())).startswith("  for (int j = 0;")
    assert first == knl.copy(loop_priority=knl.loop_priority.union([("j", "i")]))
    assert knl == knl.copy(loop_priority=first.loop_priority - {("j", "i")})


def test_domains_are_combined_in_isls_context() -> None:
    knl = lp.make_kernel(
        ["{ [i]: 0 <= i < n }", "{ [j]: 0 <= j < i }", "{ [k]: 0 <= k < n }"], "a[i, j, k] = 1"
    ).default_entrypoint
    for numbers, expected in (
        ((0, 1), "[n] -> { [i, j]: 0 <= j < i < n }"),
        ([0, 2], "[n] -> { [i, k]: 0 <= i, k < n }"),
        ((1,), "[i] -> { [j]: 0 <= j < i }"),
        ((), "{ [] }"),
    ):
        wanted = isl.BasicSet.read_from_str(knl.isl_context, expected)
        assert knl.combine_domains(numbers).is_equal(wanted)


def test_warnings_about_a_kernel_can_be_silenced() -> None:
    knl = doubled().default_entrypoint
    diagnostic = lp.diagnostic
    with pytest.warns(diagnostic.LoopyAdvisory, match=r"in kernel 'loopy_kernel': slow \(add"):
        diagnostic.warn_with_kernel(knl, "slow(i)", "slow", diagnostic.LoopyAdvisory)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        diagnostic.warn_with_kernel(knl.copy(silenced_warnings=["slow*"]), "slow(i)", "slow")


def test_a_kernel_can_be_copied_with_assumptions_of_one_piece() -> None:
    knl = doubled().default_entrypoint
    assumed = knl.copy(assumptions=isl.BasicSet("[n] -> { : n >= 3 }"))
    assert assumed.assumptions.is_equal(lp.assume(knl, "n >= 3").assumptions)


def test_the_grid_of_some_instructions() -> None:
    unit = lp.make_kernel(
        "{ [i, j]: 0 <= i < n and 0 <= j < 8 }", "a[i] = 1 {id=a}\nb[j] = 2 {id=b}"
    )
    knl = lp.tag_inames(unit, "i:g.0, j:l.0").default_entrypoint
    assert knl.get_grid_sizes_for_insn_ids_as_exprs({"a"}) == ((var("n"),), ())
    assert knl.get_grid_sizes_for_insn_ids_as_exprs({"b"}) == ((), (8,))
    groups, local = knl.get_grid_sizes_for_insn_ids({"a", "b"})
    assert [str(size) for size in (*groups, *local)] == ["[n] -> { [(n)] }", "[n] -> { [(8)] }"]


def test_questions_about_launches() -> None:
    tools = importlib.import_module("kgen.compat.loopy.schedule.tools")
    unit = lp.make_kernel(
        "{ [i, j]: 0 <= i, j < n }",
        "<> t[i] = a[i] {id=t}\n... gbarrier {id=wait}\nout[j] = t[n - 1 - j] {id=put}",
        [lp.GlobalArg("a", np.float32, shape="n"), lp.GlobalArg("out", np.float32, shape="n"), ...],
        seq_dependencies=True,
    )
    unit = lp.set_temporary_address_space(lp.tag_inames(unit, "i:g.0, j:g.0"), "t", "global")
    knl = lp.linearize(unit).default_entrypoint
    first, second = lp.kernel.tools.get_subkernels(knl)
    assert tools.args_read_in_subkernel(knl, first) == {"a", "n"}
    assert tools.args_written_in_subkernel(knl, first) == frozenset()
    assert tools.temporaries_written_in_subkernel(knl, first) == {"t"}
    assert tools.temporaries_read_in_subkernel(knl, second) == {"t"}
    assert tools.args_written_in_subkernel(knl, second) == {"out"}
    ends = tools.get_return_from_kernel_mapping(knl)
    items = knl.linearization
    assert items is not None
    assert {items[end].kernel_name for end in ends.values()} == {first, second}
    with pytest.raises(lp.LoopyError, match="there is no launch 'third'"):
        tools.args_read_in_subkernel(knl, "third")


def test_questions_about_kernels() -> None:
    tools = lp.kernel.tools
    knl = lp.make_kernel("{ : }", "<> a = 1 {id=a}\n<> b = a {id=b}\n<> c = b {id=c}")[
        "loopy_kernel"
    ]
    assert tools.find_recursive_dependencies(knl, {"b"}) == {"a", "b"}
    assert tools.find_reverse_dependencies(knl, {"b"}) == {"c"}
    assert not tools.kernel_has_global_barriers(knl)
    nested = [
        isl.BasicSet("[n] -> { [i]: 0 <= i < n }"),
        isl.BasicSet("[i] -> { [j]: 0 <= j < i }"),
    ]
    assert tools.get_outer_params(nested) == {"n"}


def test_strides_are_made_with_the_arguments_of_loopy() -> None:
    tag = lp.kernel.array.FixedStrideArrayDimTag
    assert tag(8, 0, 1) == tag(stride=8, target_axis=0, layout_nesting_level=1)
    assert tag(8, 0).layout_nesting_level is None
    columns = lp.GlobalArg("out", np.float32, shape=(8, 4), dim_tags=(tag(1, 0, 0), tag(8, 0, 1)))
    unit = lp.make_kernel(
        "{ [i, j]: 0 <= i < 8 and 0 <= j < 4 }", "out[i, j] = 1", [columns], target=C
    )
    assert unit()[1][0].strides == (4, 32)
    with pytest.raises(lp.LoopyError, match="the target axis of an axis is 0, not 1"):
        tag(8, 1)


def test_layouts_of_any_number_of_axes() -> None:
    parse: Any = lp.kernel.array.parse_array_dim_tags
    assert [tag.layout_nesting_level for tag in parse("F", n_axes=3)] == [0, 1, 2]
    assert parse("N0,N1") == parse("F", n_axes=2)
    assert parse({"x": "N0", "y": "N1"}, dim_names=("y", "x")) == parse("N1,N0")


def test_mappers_of_users_rename_loops_of_reductions() -> None:
    class Renamer(symbolic.IdentityMapper):
        def map_variable(self, expr: Any) -> Any:
            return var(f"{expr.name}_new")

    assert Renamer()(symbolic.parse("sum(k, a[k])")) == symbolic.parse("sum(k_new, a_new[k_new])")
    swept = Renamer()(symbolic.parse("[k]: a[i, k]"))
    assert swept == symbolic.parse("[k_new]: a_new[i_new, k_new]")


def test_dependencies_of_nodes_of_kernels() -> None:
    expr = symbolic.parse("sum(k, a[i, k]) + f(x) + 2.5f*b[[j]]")
    found = symbolic.DependencyMapper(composite_leaves=False)(expr)
    assert {str(each) for each in found} == {"a", "i", "x", "b", "j"}
    found = symbolic.DependencyMapper()(
        symbolic.TypeCast(lp.to_loopy_type(np.float32), symbolic.parse("a[i]"))
    )
    assert {str(each) for each in found} == {"a[i]"}


def test_indices_are_simplified_with_the_bounds_of_loops() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 8 }", "a[i] = 1").default_entrypoint
    simplify = symbolic.simplify_using_aff
    assert str(simplify(knl, symbolic.parse("(i + 8) // 8 + n"))) == "n + 1"
    product = symbolic.parse("i*n")
    assert simplify(knl, product) is product


def test_value_arguments_that_nothing_writes() -> None:
    text = "out[i] = x*a[i] + y"
    given = [lp.ValueArg("x, y", np.float32), lp.ValueArg("unused", np.int32), ...]
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", text, given).default_entrypoint
    assert knl.get_unwritten_value_args() == {"x", "y", "unused", "n"}


@pytest.mark.parametrize("name", ["highlight_wrapper", "highlight_code", "highlight_cl"])
def test_options_of_colours_by_their_earlier_names(name: str) -> None:
    given: Any = {name: False}
    knl = lp.set_options(doubled(), **given)
    assert not knl.default_entrypoint.options.allow_terminal_colors
    assert getattr(knl.default_entrypoint.options, name) is False
    assert not hasattr(lp.Options(), "highlight")
    assert lp.Options(**given) == lp.Options(allow_terminal_colors=False)


def test_builders_add_functions_and_preambles_to_those_of_their_bases() -> None:
    class Absolute(lp.ScalarCallable):
        def with_types(self, arg_id_to_dtype: Any, callables_table: Any) -> Any:
            dtype = arg_id_to_dtype[0]
            changes = {"name_in_target": "fabs", "arg_id_to_dtype": {0: dtype, -1: dtype}}
            return self.copy(**changes), callables_table

    class Builder(lp.target.pyopencl.PyOpenCLCASTBuilder):
        @property
        def known_callables(self) -> Any:
            known = super().known_callables.copy()  # type: ignore[attr-defined]
            known["magnitude"] = Absolute("magnitude")
            return known

        def preamble_generators(self) -> Any:
            own = [lambda info: [("00_own", "/* own */")]]
            return super().preamble_generators() + own

    class Target(lp.PyOpenCLTarget):
        def get_device_ast_builder(self) -> Any:
            return Builder(self)

    args = [lp.GlobalArg("a", np.float64, shape="n"), ...]
    knl = lp.make_kernel("{[i]: 0<=i<n}", "out[i] = magnitude(a[i])", args, target=Target())
    code = lp.generate_code_v2(knl).device_code()
    assert "/* own */" in code
    assert "out[i] = fabs(a[i])" in code


@pytest.mark.parametrize(
    "call",
    [
        lambda unit: lp.add_dtypes(kernel=unit, dtype_dict={"a": "f4"}),
        lambda unit: lp.memoize_on_disk(func=doubled),
        lambda unit: lp.symbolic.SubstitutionMapper(subst_func=lambda name: None)(var("a")),
        lambda unit: issubclass(lp.symbolic.GroupHardwareAxisIndex, lp.symbolic.HardwareAxisIndex),
        lambda unit: lp.add_and_infer_dtypes(prog=unit, dtype_dict={"a": "f4"}),
        lambda unit: lp.generate_header(kernel=lp.add_dtypes(unit, {"a": "f4"})),
        lambda unit: lp.generate_body(kernel=lp.add_dtypes(unit, {"a": "f4"})),
        lambda unit: lp.infer_arg_descr(t_unit=unit),
        lambda unit: lp.add_prefetch(unit, "a", (), None, None, temporary_scope="private"),
        lambda unit: lp.symbolic.parse(expr_str="a + b"),
        lambda unit: lp.match.parse_match(expr="id:insn"),
        lambda unit: lp.match.parse_stack_match(smatch="id:insn"),
        lambda unit: lp.Optional(value=3).value == 3,
        lambda unit: lp.options.make_options(options_arg="write_code").write_code,
        lambda unit: unit.default_entrypoint.arg_dict["a"].tags_of_type(tag_t=Tag) is not None,
        lambda unit: get_arg_descriptor_for_expression(
            kernel=unit.default_entrypoint, expr=var("n")
        ),
        lambda unit: lp.tag_inames(unit, "i:unr").default_entrypoint.iname_tags_of_type(
            "i", tag_type_or_types=lp.kernel.data.UnrollTag, max_num=1
        ),
    ],
)
def test_arguments_have_the_keywords_of_loopy(call: Any) -> None:
    assert call(doubled(target=C))


def test_text_is_read_without_being_resolved() -> None:
    text = "f(x) := 2*x\nfor i\n<> t = a[i] {id=load}\nout[i] = f(t) {dep=load}\nend"
    insns, loops, rules = lp.kernel.creation.parse_instructions(text)
    assert [insn.id for insn in insns] == ["load", None]
    assert insns[1].depends_on == {"load"}
    assert (loops, [str(rule) for rule in rules.values()]) == ([[], []], ["f(x) := 2*x"])
    with pytest.raises(ValueError, match="foo"):
        lp.kernel.creation.parse_instructions("a[i] = 1 {foo=bar}")


def test_elements_that_an_instruction_accesses() -> None:
    text = "out[i] = a[i] + a[i + 1] {id=sum}\nc[i] = a[k[i]] {id=gather}"
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", text).default_entrypoint
    found = lp.kernel.tools.get_insn_access_map(knl, "sum", "a")
    expected = "[n] -> { [i] -> [i]: 0 <= i < n; [i] -> [i + 1]: 0 <= i < n }"
    assert found.is_equal(isl.Map(expected))
    assert lp.kernel.tools.find_all_insn_inames(knl) == {"sum": {"i"}, "gather": {"i"}}
    for insn_id, why in (("gather", "not affine"), ("summ", "mean 'sum'")):
        with pytest.raises(lp.LoopyError, match=why):
            lp.kernel.tools.get_insn_access_map(knl, insn_id, "a")


def test_what_kernels_call() -> None:
    inner = lp.make_function("{ [i]: 0 <= i < 4 }", "y[i] = sin(x[i])", name="wave")
    unit = lp.merge(
        [inner, lp.make_kernel("{:}", "b[:] = wave(a[:])", [lp.GlobalArg("a,b", shape=4)])]
    )
    graph = lp.kernel.tools.get_call_graph(unit)
    assert graph == {"wave": {"sin"}, "loopy_kernel": {"wave"}}
    only_kernels = lp.kernel.tools.get_call_graph(unit, only_kernel_callables=True)
    assert only_kernels == {"wave": set(), "loopy_kernel": {"wave"}}


def test_checks_of_kernels_take_programs() -> None:
    @lp.translation_unit.check_each_kernel
    def has_loop(kernel: lp.LoopKernel, name: str) -> None:
        if name not in kernel.inames:
            raise KeyError(name)

    has_loop(doubled(), "i")
    has_loop(doubled().default_entrypoint, "i")
    with pytest.raises(KeyError, match="j"):
        has_loop(doubled(), "j")


def test_constants_of_atomics_have_names() -> None:
    assert lp.MemoryOrdering.to_string(lp.MemoryOrdering.RELAXED) == "RELAXED"
    assert lp.MemoryScope.to_string(lp.MemoryScope.auto) == "auto"
    with pytest.raises(ValueError, match="MemoryScope has no constant 9"):
        lp.MemoryScope.to_string(9)


@pytest.mark.parametrize(
    ("text", "dtype"),
    [("2*a[i] + 1", np.float32), ("i // 2", np.int32), ("a[i] > q", np.bool_), ("sin(q)", "f8")],
)
def test_types_of_expressions_in_a_kernel(text: str, dtype: Any) -> None:
    args = [lp.GlobalArg("a", np.float32), lp.ValueArg("q", np.float64), ...]
    unit = doubled(kernel_data=args)
    infer = lp.type_inference.TypeInferenceMapper(unit.default_entrypoint, unit.callables_table)
    expected = lp.to_loopy_type(dtype)
    assert infer(symbolic.parse(text)) == expected
    assert infer(symbolic.parse(text), return_tuple=True, return_dtype_set=True) == [(expected,)]


def test_types_that_are_not_known() -> None:
    infer = lp.type_inference.TypeInferenceMapper(doubled().default_entrypoint, {})
    assert infer(var("a")[var("i")], return_dtype_set=True) == []
    for name in "ax":
        with pytest.raises(lp.diagnostic.TypeInferenceFailure, match=f"'{name}'"):
            infer(var(name))
    with pytest.raises(lp.diagnostic.TypeInferenceFailure, match="'x'"):
        infer(var("x"), return_dtype_set=True)


def test_descriptors_of_arrays_are_mapped() -> None:
    strides = tuple(map(lp.kernel.array.FixedStrideArrayDimTag, (var("m"), 1)))
    rows = ArrayArgDescriptor((var("n"), None), lp.AddressSpace.GLOBAL, strides)
    assert rows.depends_on() == {"n", "m"}
    twice = rows.map_expr(lambda expr: 2 * expr)
    assert (twice.shape, twice.dim_tags[1].stride) == ((2 * var("n"), None), 2)  # type: ignore[index]
