"""The public names of kgen, for type checkers and for `kgen.lazy`, which imports them on use."""

from kgen import draw as draw
from kgen import match as match
from kgen import symbolic as symbolic
from kgen import transform_api as transform_api
from kgen import version as version
from kgen.analysis.infer import (
    add_and_infer_dtypes,
    infer_unknown_types,
)
from kgen.autoscheduler import (
    auto_space,
    autoschedule,
    find_schedule,
)
from kgen.codegen import (
    CodeGenerationResult,
    generate_body,
    generate_code,
    generate_code_v2,
    generate_header,
)
from kgen.equivalence import (
    verify_equivalent,
)
from kgen.errors import (
    AutomaticTestFailure,
    CodegenError,
    CompilationError,
    DependencyCycleFound,
    DirectCallUncachedWarning,
    ExpressionToAffineConversionError,
    InvocationError,
    KernelError,
    KgenError,
    KgenIndexError,
    KgenSyntaxError,
    KgenWarning,
    LoopyIndexError,
    MissingBarrierError,
    MissingDefinitionError,
    ReductionIsNotTriangularError,
    ScheduleError,
    StaticValueFindingError,
    TransformError,
    TypeInferenceFailure,
    UnscheduledInstructionError,
    VariableAccessNotOrdered,
    VectorizationWarning,
    WriteRaceConditionWarning,
    WriteRaceError,
)
from kgen.exporters.export import (
    export,
)
from kgen.frontend import (
    make_function,
    make_kernel,
)
from kgen.host.variants import (
    Variant,
)
from kgen.ir.atomicity import (
    AtomicInit,
    AtomicUpdate,
    MemoryOrdering,
    MemoryScope,
    OrderedAtomic,
    VarAtomicity,
)
from kgen.ir.callables import (
    CallMangleInfo,
    InKernelCallable,
    ScalarCallable,
)
from kgen.ir.data import (
    ArrayArg,
    ConstantArg,
    GlobalArg,
    ImageArg,
    KernelArgument,
    SubstitutionRule,
    TemporaryVariable,
    ValueArg,
)
from kgen.ir.expr import (
    LinearSubscript,
    Reduction,
    TaggedVariable,
    TypeCast,
)
from kgen.ir.graph import (
    get_dot_dependency_graph,
    get_text_dependency_graph,
    show_dependency_graph,
)
from kgen.ir.instruction import (
    Assignment,
    BarrierInstruction,
    CallInstruction,
    CInstruction,
    HappensAfter,
    InstructionBase,
    MultiAssignmentBase,
    NoOpInstruction,
    UniqueName,
    UseStreamingStoreTag,
)
from kgen.ir.kernel import (
    LoopKernel,
)
from kgen.ir.options import (
    Options,
)
from kgen.ir.reductions import (
    ReductionOperation,
    ScalarReductionOperation,
    parse_reduction_op,
    register_reduction_parser,
)
from kgen.ir.tags import UseStreamingLoadTag
from kgen.ir.target import (
    TargetBase,
)
from kgen.ir.to_python import (
    t_unit_to_python,
)
from kgen.ir.types import (
    AddressSpace,
    KgenType,
    NumpyType,
    Optional,
    auto,
    to_kgen_type,
)
from kgen.ir.unit import (
    CallableKernel,
    TranslationUnit,
    for_each_kernel,
)
from kgen.launches.linearize import (
    find_most_recent_global_barrier,
    get_global_barrier_order,
    get_one_linearized_kernel,
    get_subkernel_to_insn_id_map,
    get_subkernels,
    linearize,
)
from kgen.launches.linearize import (
    get_one_linearized_kernel as get_one_scheduled_kernel,
)
from kgen.launches.save import (
    save_and_reload_temporaries,
)
from kgen.library.einsum import (
    make_copy_kernel,
    make_einsum,
)
from kgen.lowering import preprocess_kernel
from kgen.notebook.extension import (
    load_ipython_extension,
)
from kgen.notebook.report import (
    KernelReport,
    report,
)
from kgen.performance import (
    Device,
    Explanation,
    Roofline,
    Timing,
    bench,
    explain,
    measure_device,
    roofline,
)
from kgen.runtime.autotest import (
    auto_test_vs_ref,
)
from kgen.runtime.cache import (
    CacheMode,
    clear_in_mem_caches,
    set_caching_enabled,
)
from kgen.runtime.executor import (
    ExecutorBase,
)
from kgen.runtime.memoize import (
    memoize_on_disk,
)
from kgen.runtime.schedules import (
    DeviceSchedules,
    per_device,
)
from kgen.statistics import (
    CountGranularity,
    Interval,
    MemAccess,
    Op,
    Sync,
    ToCountMap,
    ToCountPolynomialMap,
    gather_access_footprint_bytes,
    gather_access_footprints,
    get_mem_access_map,
    get_op_map,
    get_synchronization_map,
)
from kgen.targets.builder import (
    ASTBuilderBase,
    CFamilyTarget,
)
from kgen.targets.c import (
    CCompiler,
    CTarget,
    CWithGNULibcTarget,
    ExecutableCTarget,
    ExecutableCWithGNULibcTarget,
)
from kgen.targets.cuda import (
    CudaTarget,
    PyCudaTarget,
)
from kgen.targets.ispc.target import (
    ISPCTarget,
)
from kgen.targets.opencl import (
    OpenCLTarget,
    PyOpenCLTarget,
)
from kgen.targets.preamble import (
    PreambleInfo,
)
from kgen.transforms.expressions.arithmetic import (
    collect_common_factors_on_increment,
    fold_constants,
)
from kgen.transforms.expressions.factors import (
    extract_multiplicative_terms_in_sum_reduction_as_subst,
    hoist_invariant_multiplicative_terms_in_sum_reduction,
)
from kgen.transforms.expressions.indices import (
    simplify_indices,
)
from kgen.transforms.expressions.make_rules import (
    assignment_to_subst,
    extract_subst,
    reduction_arg_to_subst_rule,
)
from kgen.transforms.expressions.rules import (
    expand_subst,
    find_one_rule_matching,
    find_rules_matching,
)
from kgen.transforms.loops.affine import (
    affine_map_inames,
    map_domain,
)
from kgen.transforms.loops.inames import (
    add_inames_for_unused_hw_axes,
    add_inames_to_insn,
    get_iname_duplication_options,
    has_schedulable_iname_nesting,
    remove_inames_from_insn,
    remove_unused_inames,
)
from kgen.transforms.loops.loop_fusion import (
    get_kennedy_unweighted_fusion_candidates,
)
from kgen.transforms.loops.openacc import (
    parallelize,
)
from kgen.transforms.loops.rename import (
    duplicate_inames,
    rename_iname,
    rename_inames,
    rename_inames_in_batch,
)
from kgen.transforms.loops.split import (
    chunk_iname,
    join_inames,
    split_iname,
)
from kgen.transforms.loops.split_domain import split_domain
from kgen.transforms.loops.tag import (
    find_unused_axis_tag,
    prioritize_loops,
    tag_inames,
    untag_inames,
)
from kgen.transforms.programs.arg_descriptors import (
    infer_arg_descr,
)
from kgen.transforms.programs.batch import (
    to_batched,
)
from kgen.transforms.programs.callables import (
    merge,
    register_callable,
    rename_callable,
)
from kgen.transforms.programs.diff import (
    diff_kernel,
)
from kgen.transforms.programs.fuse import (
    fuse_kernels,
)
from kgen.transforms.programs.inline import (
    inline_callable_kernel,
)
from kgen.transforms.programs.pack import (
    pack_and_unpack_args_for_call,
)
from kgen.transforms.programs.params import (
    assume,
    fix_parameters,
)
from kgen.transforms.reductions.balance import balance
from kgen.transforms.reductions.nesting import (
    make_reduction_inames_unique,
    split_reduction_inward,
    split_reduction_outward,
)
from kgen.transforms.reductions.pad import pad_inames
from kgen.transforms.reductions.realize import (
    realize_reduction,
)
from kgen.transforms.reductions.tensorize import tensorize
from kgen.transforms.statements import (
    add_dependency,
    find_instructions,
    map_instructions,
    remove_instructions,
    remove_predicates_from_insn,
    replace_instruction_ids,
    set_instruction_priority,
    tag_instructions,
)
from kgen.transforms.storage.aliasing import (
    alias_temporaries,
    allocate_temporaries_for_base_storage,
)
from kgen.transforms.storage.array_axes import (
    concatenate_arrays,
    split_array_axis,
)
from kgen.transforms.storage.async_copies import async_copy
from kgen.transforms.storage.banks import add_padding_to_avoid_bank_conflicts
from kgen.transforms.storage.buffer import (
    buffer_array,
)
from kgen.transforms.storage.declarations import (
    add_dtypes,
    align_temporaries,
    register_preamble_generators,
    register_symbol_manglers,
    remove_unused_arguments,
    rename_argument,
    set_argument_order,
    set_array_axis_names,
    set_launch_bounds,
    set_options,
    set_temporary_address_space,
    tag_array_axes,
    tag_arrays,
)
from kgen.transforms.storage.distribute import distribute_temporaries
from kgen.transforms.storage.images import (
    change_arg_to_image,
)
from kgen.transforms.storage.padding import (
    add_padding,
    find_padding_multiple,
)
from kgen.transforms.storage.pipeline import pipeline
from kgen.transforms.storage.precompute import (
    precompute,
)
from kgen.transforms.storage.prefetch import (
    add_prefetch,
)
from kgen.transforms.storage.privatize import (
    privatize_temporaries_with_inames,
)
from kgen.transforms.storage.split_values import split_values
from kgen.transforms.storage.unprivatize import (
    unprivatize_temporaries_with_inames,
)
from kgen.transforms.sync import (
    add_barrier,
    add_nosync,
)
from kgen.tuning.tune import (
    tune,
)
from kgen.tuning.wisdom import (
    load_wisdom,
)
from kgen.verification import (
    Report,
    verify,
)
from kgen.version import (
    MOST_RECENT_LANGUAGE_VERSION,
    VERSION,
)

__all__ = [
    "ASTBuilderBase",
    "AddressSpace",
    "ArrayArg",
    "Assignment",
    "AtomicInit",
    "AtomicUpdate",
    "AutomaticTestFailure",
    "BarrierInstruction",
    "CFamilyTarget",
    "CInstruction",
    "CCompiler",
    "CTarget",
    "CWithGNULibcTarget",
    "CacheMode",
    "CallInstruction",
    "CallMangleInfo",
    "CallableKernel",
    "CodeGenerationResult",
    "CodegenError",
    "CompilationError",
    "ConstantArg",
    "CountGranularity",
    "CudaTarget",
    "DependencyCycleFound",
    "Device",
    "DeviceSchedules",
    "DirectCallUncachedWarning",
    "ExecutableCTarget",
    "ExecutableCWithGNULibcTarget",
    "ExecutorBase",
    "Explanation",
    "ExpressionToAffineConversionError",
    "GlobalArg",
    "HappensAfter",
    "ISPCTarget",
    "ImageArg",
    "InKernelCallable",
    "InstructionBase",
    "Interval",
    "InvocationError",
    "KernelArgument",
    "KernelError",
    "KernelReport",
    "KgenError",
    "KgenIndexError",
    "KgenSyntaxError",
    "KgenType",
    "KgenWarning",
    "LinearSubscript",
    "LoopKernel",
    "LoopyIndexError",
    "MOST_RECENT_LANGUAGE_VERSION",
    "MemAccess",
    "MemoryOrdering",
    "MemoryScope",
    "MissingBarrierError",
    "MissingDefinitionError",
    "MultiAssignmentBase",
    "NoOpInstruction",
    "NumpyType",
    "Op",
    "OpenCLTarget",
    "Optional",
    "Options",
    "OrderedAtomic",
    "PreambleInfo",
    "PyCudaTarget",
    "PyOpenCLTarget",
    "Reduction",
    "ReductionIsNotTriangularError",
    "ReductionOperation",
    "Report",
    "Roofline",
    "ScalarCallable",
    "ScalarReductionOperation",
    "ScheduleError",
    "StaticValueFindingError",
    "SubstitutionRule",
    "Sync",
    "TaggedVariable",
    "TargetBase",
    "TemporaryVariable",
    "Timing",
    "ToCountMap",
    "ToCountPolynomialMap",
    "TransformError",
    "TranslationUnit",
    "TypeCast",
    "TypeInferenceFailure",
    "UniqueName",
    "UnscheduledInstructionError",
    "UseStreamingLoadTag",
    "UseStreamingStoreTag",
    "VERSION",
    "ValueArg",
    "VarAtomicity",
    "Variant",
    "VariableAccessNotOrdered",
    "VectorizationWarning",
    "WriteRaceConditionWarning",
    "WriteRaceError",
    "add_and_infer_dtypes",
    "add_barrier",
    "add_dependency",
    "add_dtypes",
    "add_inames_for_unused_hw_axes",
    "add_inames_to_insn",
    "add_nosync",
    "add_padding",
    "add_padding_to_avoid_bank_conflicts",
    "add_prefetch",
    "affine_map_inames",
    "alias_temporaries",
    "align_temporaries",
    "allocate_temporaries_for_base_storage",
    "assignment_to_subst",
    "assume",
    "auto",
    "auto_space",
    "async_copy",
    "auto_test_vs_ref",
    "autoschedule",
    "balance",
    "bench",
    "buffer_array",
    "change_arg_to_image",
    "chunk_iname",
    "clear_in_mem_caches",
    "collect_common_factors_on_increment",
    "concatenate_arrays",
    "diff_kernel",
    "distribute_temporaries",
    "duplicate_inames",
    "expand_subst",
    "explain",
    "export",
    "extract_multiplicative_terms_in_sum_reduction_as_subst",
    "extract_subst",
    "find_instructions",
    "find_most_recent_global_barrier",
    "find_one_rule_matching",
    "find_padding_multiple",
    "find_rules_matching",
    "find_schedule",
    "find_unused_axis_tag",
    "fix_parameters",
    "fold_constants",
    "for_each_kernel",
    "fuse_kernels",
    "gather_access_footprint_bytes",
    "gather_access_footprints",
    "generate_body",
    "generate_code",
    "generate_code_v2",
    "generate_header",
    "get_dot_dependency_graph",
    "get_text_dependency_graph",
    "get_global_barrier_order",
    "get_iname_duplication_options",
    "get_kennedy_unweighted_fusion_candidates",
    "get_mem_access_map",
    "get_one_linearized_kernel",
    "get_one_scheduled_kernel",
    "get_op_map",
    "get_subkernel_to_insn_id_map",
    "get_subkernels",
    "get_synchronization_map",
    "has_schedulable_iname_nesting",
    "hoist_invariant_multiplicative_terms_in_sum_reduction",
    "infer_arg_descr",
    "infer_unknown_types",
    "inline_callable_kernel",
    "join_inames",
    "linearize",
    "load_ipython_extension",
    "load_wisdom",
    "make_copy_kernel",
    "make_einsum",
    "make_function",
    "make_kernel",
    "make_reduction_inames_unique",
    "map_domain",
    "map_instructions",
    "measure_device",
    "memoize_on_disk",
    "merge",
    "pack_and_unpack_args_for_call",
    "pad_inames",
    "parallelize",
    "parse_reduction_op",
    "per_device",
    "pipeline",
    "precompute",
    "preprocess_kernel",
    "prioritize_loops",
    "privatize_temporaries_with_inames",
    "realize_reduction",
    "reduction_arg_to_subst_rule",
    "register_callable",
    "register_preamble_generators",
    "register_reduction_parser",
    "register_symbol_manglers",
    "remove_inames_from_insn",
    "remove_instructions",
    "remove_predicates_from_insn",
    "remove_unused_arguments",
    "remove_unused_inames",
    "rename_argument",
    "rename_callable",
    "rename_iname",
    "rename_inames",
    "rename_inames_in_batch",
    "replace_instruction_ids",
    "report",
    "roofline",
    "save_and_reload_temporaries",
    "set_argument_order",
    "set_array_axis_names",
    "set_caching_enabled",
    "set_instruction_priority",
    "set_launch_bounds",
    "set_options",
    "set_temporary_address_space",
    "show_dependency_graph",
    "simplify_indices",
    "split_array_axis",
    "split_domain",
    "split_iname",
    "split_reduction_inward",
    "split_reduction_outward",
    "split_values",
    "t_unit_to_python",
    "tag_array_axes",
    "tag_arrays",
    "tag_inames",
    "tag_instructions",
    "tensorize",
    "to_batched",
    "to_kgen_type",
    "tune",
    "unprivatize_temporaries_with_inames",
    "untag_inames",
    "verify",
    "verify_equivalent",
]
