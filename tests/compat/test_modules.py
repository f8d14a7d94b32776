"""loopy's module paths below kgen.compat.loopy, and the names that its documentation has there."""

from __future__ import annotations

import importlib
import pickle
import warnings
from typing import Any

import islpy as isl
import numpy as np
import pytest
from pymbolic import var

import kgen
import kgen.compat.loopy as lp
from kgen.compat.loopy import symbolic
from kgen.compat.loopy.tools import LoopyKeyBuilder
from kgen.compat.loopy.typing import assert_tuple, integer_expr_or_err, integer_or_err, not_none
from kgen.compat.renamed import _warned

MODULES = {
    "auto_test": "auto_test_vs_ref",
    "codegen": "generate_code_v2 generate_body PreambleInfo",
    "codegen.result": "CodeGenerationResult GeneratedProgram",
    "diagnostic": "LoopyError LoopyWarning LoopyAdvisory ParameterFinderWarning LoopyTypeError "
    "CannotBranchDomainTree DependencyTypeInferenceFailure UnableToDetermineAccessRangeError",
    "expression": "dtype_to_type_context",
    "isl_helpers": "static_max_of_pw_aff static_min_of_pw_aff simplify_via_aff is_nonnegative "
    "make_slab iname_rel_aff duplicate_axes convexify simplify_pw_aff static_value_of_pw_aff",
    "kernel": "LoopKernel KernelState data instruction array creation tools function_interface",
    "kernel.array": "ArrayBase FixedStrideArrayDimTag VectorArrayDimTag parse_array_dim_tags "
    "ShapeType ToDimTagsParseable",
    "kernel.creation": "make_kernel make_function UniqueName parse_instructions",
    "kernel.data": "GlobalArg ValueArg AddressSpace GroupInameTag UniqueInameTag parse_tag "
    "AtomicUpdate",
    "kernel.function_interface": "ArrayArgDescriptor CallableKernel get_kw_pos_association",
    "kernel.instruction": "Assignment CInstruction LegacyStringInstructionTag make_assignment",
    "kernel.tools": "add_dtypes get_subkernels get_dot_dependency_graph get_call_graph",
    "library.reduction": "ScalarReductionOperation register_reduction_parser",
    "match": "parse_match parse_stack_match Id Tagged All And Matchable RuleStack "
    "ToMatchConvertible ToStackMatchConvertible",
    "options": "Options make_options",
    "preprocess": "preprocess_kernel preprocess_program infer_arg_descr",
    "schedule": "EnterLoop Barrier CallKernel linearize generate_loop_schedules",
    "statistics": "get_op_map MemAccess ToCountMap CountGranularity",
    "symbolic": "CoefficientCollector IdentityMapper TypeCast guarded_pwaff_from_expr aff_to_expr",
    "target": "TargetBase ASTBuilderBase",
    "target.c.c_execution": "CCompiler CKernelExecutor",
    "target.c": "CFamilyASTBuilder CMathCallable CCompiler CTarget ExecutableCTarget",
    "target.cuda": "CudaTarget",
    "target.execution": "ExecutorBase",
    "target.ispc": "ISPCTarget",
    "target.opencl": "OpenCLTarget OpenCLCASTBuilder OpenCLCallable",
    "target.pyopencl": "PyOpenCLTarget PyOpenCLCallable",
    "target.pyopencl_execution": "PyOpenCLExecutor",
    "tools": "LoopyKeyBuilder Optional memoize_on_disk t_unit_to_python clear_in_mem_caches",
    "transform.add_barrier": "add_barrier",
    "transform.arithmetic": "fold_constants collect_common_factors_on_increment",
    "transform.batch": "to_batched",
    "transform.buffer": "buffer_array",
    "transform.callable": "merge register_callable rename_callable inline_callable_kernel",
    "transform.concatenate": "concatenate_arrays",
    "transform.data": "add_prefetch tag_array_axes set_temporary_address_space tag_data_axes",
    "transform.diff": "diff_kernel",
    "transform.fusion": "fuse_kernels",
    "transform.iname": "split_iname tag_inames map_domain prioritize_loops rename_iname",
    "transform.instruction": "find_instructions add_dependency simplify_indices add_nosync",
    "transform.loop_fusion": "get_kennedy_unweighted_fusion_candidates rename_inames_in_batch",
    "transform.pack_and_unpack_args": "pack_and_unpack_args_for_call",
    "transform.padding": "split_array_axis split_array_dim add_padding split_arg_axis",
    "transform.parameter": "assume fix_parameters",
    "transform.precompute": "precompute",
    "transform.privatize": "privatize_temporaries_with_inames",
    "transform.realize_reduction": "realize_reduction",
    "transform.reduction": "hoist_invariant_multiplicative_terms_in_sum_reduction",
    "transform.save": "save_and_reload_temporaries",
    "transform.subst": "assignment_to_subst extract_subst expand_subst find_rules_matching",
    "translation_unit": "TranslationUnit for_each_kernel make_program CallableId CallablesTable "
    "CallablesInferenceContext TUnitOrKernelT",
    "type_inference": "infer_unknown_types",
    "types": "LoopyType NumpyType AtomicNumpyType OpaqueType to_loopy_type ToLoopyTypeConvertible",
    "typing": "auto Integer ShapeType not_none is_integer integer_or_err assert_tuple",
    "version": "VERSION LOOPY_USE_LANGUAGE_VERSION_2018_2 LOOPY_USE_LANGUAGE_VERSION_2018_1",
}
KERNEL = ("{ [i]: 0 <= i < 64 }", "b[i] = a[i]")
DEPRECATED: dict[str, Any] = {
    "make_program": lambda: lp.make_program(lp.make_kernel(*KERNEL).default_entrypoint),
    "preprocess_program": lambda: lp.preprocess_program(
        lp.make_kernel(*KERNEL, [lp.GlobalArg("a", "f4"), ...])
    ),
    "generate_loop_schedules": lambda: list(
        lp.generate_loop_schedules(
            lp.make_kernel(*KERNEL, [lp.GlobalArg("a", "f4"), ...]).default_entrypoint, {}
        )
    ),
    "set_array_dim_names": lambda: lp.set_array_dim_names(lp.make_kernel(*KERNEL), "a", "x"),
    "set_loop_priority": lambda: lp.set_loop_priority(lp.make_kernel(*KERNEL), "i"),
    "set_temporary_scope": lambda: lp.set_temporary_scope(
        lp.make_kernel("{ [i]: 0 <= i < 4 }", "<> t[i] = i\nb[i] = t[i]"), "t", "local"
    ),
    "split_arg_axis": lambda: lp.split_arg_axis(lp.make_kernel(*KERNEL), ("a", 0), 4),
    "tag_data_axes": lambda: lp.tag_data_axes(lp.make_kernel(*KERNEL), "a", "N0"),
}


@pytest.mark.parametrize("path", MODULES)
def test_module_has_its_documented_names(path: str) -> None:
    module = importlib.import_module(f"kgen.compat.loopy.{path}")
    assert set(MODULES[path].split()) <= set(dir(module))
    assert all(hasattr(module, name) for name in getattr(module, "__all__", ()))


def test_classes_are_those_of_kgen() -> None:
    own = [name for name in kgen.__all__ if isinstance(getattr(kgen, name), type)]
    assert len(own) > 50
    assert [name for name in own if getattr(lp, name) is not getattr(kgen, name)] == []
    assert lp.LoopyError is kgen.KgenError
    assert lp.LoopyWarning is kgen.KgenWarning
    assert lp.LoopyType is kgen.KgenType
    assert lp.to_loopy_type is kgen.to_kgen_type


def test_an_error_of_kgen_is_a_loopy_error() -> None:
    with pytest.raises(lp.LoopyError, match="in kernel 'loopy_kernel': there is no iname 'j'"):
        lp.split_iname(lp.make_kernel(*KERNEL), "j", 4)


@pytest.mark.parametrize("name", DEPRECATED)
def test_a_deprecated_name_works_and_warns_once(name: str) -> None:
    _warned.discard(name)
    with pytest.warns(DeprecationWarning, match=f"'{name}' is deprecated: use"):
        assert DEPRECATED[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DEPRECATED[name]()


def test_a_warning_is_given_where_the_old_name_is_called() -> None:
    _warned.discard("tag_data_axes")
    with pytest.warns(DeprecationWarning, match="tag_array_axes") as given:
        lp.tag_data_axes(lp.make_kernel(*KERNEL), "a", "N0")
    assert given[0].filename == __file__


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_loop_priority_replaces_others() -> None:
    knl = lp.make_kernel("{ [i, j]: 0 <= i, j < 4 }", "a[i, j] = 1", loop_priority="i, j")
    assert lp.set_loop_priority(knl, "j, i").default_entrypoint.loop_priority == (("j", "i"),)


@pytest.mark.filterwarnings("error")
def test_split_array_dim_keeps_values() -> None:
    unit = lp.make_kernel(
        "{ [i, j]: 0 <= i < 10 and 0 <= j < 3 }",
        "b[j, i] = a[i + 1] + 2*j",
        [lp.GlobalArg("a", np.float64, shape=11), lp.GlobalArg("b", np.float64, shape=(3, 10))],
        target=lp.ExecutableCTarget(),
    )
    split = lp.split_array_dim(
        unit, [("b", 1), ("a", 0, "F")], 4, split_kwargs={"outer_iname": "block"}
    )
    assert {"block", "i_inner", "j"} == split.default_entrypoint.all_inames()
    (b,) = split(a=np.asfortranarray(np.arange(12.0).reshape(3, 4).T))[1]
    expected = np.arange(1.0, 11) + 2 * np.arange(3)[:, None]
    np.testing.assert_array_equal(b.reshape(3, 12)[:, :10], expected)


def test_split_array_dim_refuses_what_names_no_axis() -> None:
    with pytest.raises(lp.LoopyError, match="split_array_dim: the argument 'arrays_and_axes' is"):
        lp.split_array_dim(lp.make_kernel(*KERNEL), ["a"], 4)  # type: ignore[list-item]


def test_caching_enabled_is_what_was_set_last() -> None:
    with lp.CacheMode(False):
        assert lp.CACHING_ENABLED is False  # type: ignore[attr-defined]
    assert lp.CACHING_ENABLED is True  # type: ignore[attr-defined]


def test_what_is_not_offered_says_so() -> None:
    with pytest.raises(lp.LoopyError, match="kgen does not provide 'TypedCSE'\n  hint: use"):
        lp.symbolic.TypedCSE  # noqa: B018
    assert not hasattr(lp.symbolic, "TypedCSE")
    with pytest.raises(AttributeError, match="did you mean 'make_kernel'"):
        lp.make_kernle  # type: ignore[attr-defined] # noqa: B018


def test_the_default_target_can_be_chosen() -> None:
    try:
        lp.set_default_target(lp.CudaTarget)
        assert lp.make_kernel(*KERNEL).target == lp.CudaTarget()
        assert lp.make_kernel(*KERNEL, target=lp.CTarget()).target == lp.CTarget()
    finally:
        lp.set_default_target(None)
    assert lp.make_kernel(*KERNEL).target != lp.CudaTarget()


def test_state_of_a_kernel() -> None:
    kernel = lp.make_kernel(*KERNEL, [lp.GlobalArg("a", "f4"), ...]).default_entrypoint
    assert kernel.state == lp.KernelState.INITIAL
    linearized = lp.get_one_linearized_kernel(kernel)
    assert linearized.state == lp.KernelState.LINEARIZED
    assert linearized.copy(state=lp.KernelState.PREPROCESSED).linearization is None
    given: dict[str, Any] = {"state": linearized.state, "linearization": linearized.linearization}
    assert kernel.copy(**given).linearization == linearized.linearization
    with pytest.raises(lp.LoopyError, match="needs the linearization"):
        kernel.copy(state=lp.KernelState.LINEARIZED)


def test_tags_that_are_words_are_legacy_tags() -> None:
    unit = lp.make_kernel("{ [i]: 0 <= i < 4 }", "b[i] = 1 {tags=mine}")
    (insn,) = unit.default_entrypoint.instructions
    assert lp.LegacyStringInstructionTag("mine") in insn.tags


def test_keys_of_equal_values_are_equal() -> None:
    key = LoopyKeyBuilder()
    one, other = (lp.make_kernel(*KERNEL) for _ in range(2))
    assert key(one) == key(other) != key(one.copy(target=lp.CTarget()))
    domain = one.default_entrypoint.domains[0]
    assert (
        key({"a": domain}) == key({"a": other.default_entrypoint.domains[0]}) != key({"b": domain})
    )
    assert key(var("a") + 1) == key(pickle.loads(pickle.dumps(var("a") + 1)))  # noqa: S301


@pytest.mark.parametrize("check", [not_none, integer_or_err, integer_expr_or_err, assert_tuple])
def test_checks_of_values_refuse(check: Any) -> None:
    with pytest.raises(lp.LoopyError, match="is required, not"):
        check(None)


SPACE = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=["i"], params=["n"])


def test_guarded_conversions_raise_one_error() -> None:
    for convert in (symbolic.guarded_aff_from_expr, symbolic.guarded_pwaff_from_expr):
        assert str(convert(SPACE, var("i") + var("n"))) == "[n] -> { [i] -> [(n + i)] }"
        with pytest.raises(lp.ExpressionToAffineConversionError):
            convert(SPACE, var("a")[var("i")])

    def refused(space: isl.Space, expr: Any) -> isl.Set:
        return isl.Set("{ [i : }")

    with pytest.raises(lp.ExpressionToAffineConversionError, match="'i'"):
        symbolic.with_aff_conversion_guard(refused, SPACE, var("i"))


def test_a_function_in_pieces_goes_to_isl_and_back() -> None:
    expr = symbolic.parse("max(i, min(2*i, n)) + 1")
    back = symbolic.pw_aff_to_expr(symbolic.pwaff_from_expr(SPACE, expr))
    for i in range(-3, 5):
        for n in range(-3, 5):
            value = symbolic.SubstitutionMapper({var("i"): i, var("n"): n}.get)(back)
            assert eval(str(value)) == max(i, min(2 * i, n)) + 1  # noqa: S307


def test_expressions_equal_when_expanded() -> None:
    parse = symbolic.parse
    assert symbolic.is_expression_equal(parse("x*(y + 1)"), parse("x + y*x"))
    assert not symbolic.is_expression_equal(parse("x*y"), parse("x + y"))
    assert symbolic.is_tuple_of_expressions_equal(None, None)
    assert not symbolic.is_tuple_of_expressions_equal((1, 2), (1,))


def test_mappers_visit_equal_parts_once() -> None:
    seen = []

    class Names(symbolic.IdentityMapper):
        def map_variable(self, expr: Any, prefix: str) -> Any:
            seen.append(prefix + expr.name)
            return expr

    Names()(symbolic.parse("a[i] + 2*a[i]"), "at ")
    assert seen == ["at a", "at i"]


def test_kgen_has_the_names_that_only_loopy_has() -> None:
    for name in ("kernel", "to_loopy_type"):
        assert getattr(kgen, name) is getattr(lp, name)
    with pytest.raises(AttributeError, match="module 'kgen' has no attribute 'nonsense'"):
        getattr(kgen, "nonsense")  # noqa: B009
