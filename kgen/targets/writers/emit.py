"""A whole kernel to its module: texts, arguments, launches."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import cgen

from kgen.ast.nodes import DeviceFunction, For, Node, Persistent, simd_loops_in
from kgen.ast.separate import has_fragile_barriers
from kgen.errors import CodegenError
from kgen.ir.data import ArrayArg, KernelArgument, ValueArg, dtype_of
from kgen.ir.expr import Expr, GroupHardwareAxisIndex, variable_names
from kgen.ir.fields import replace
from kgen.ir.sets.dims import Set
from kgen.ir.sets.quasi_affine import conditions_of
from kgen.ir.stages import DeviceKernel
from kgen.ir.tree import exprs_of, nodes_in
from kgen.ir.types import INT64, NumpyType
from kgen.targets.builder import ASTBuilderBase, CFamilyTarget
from kgen.targets.limits import local_layout
from kgen.targets.module import GeneratedProgram, Launch, Module
from kgen.targets.preamble import Preamble
from kgen.targets.writers.arguments import argument_infos
from kgen.targets.writers.declarations import with_declarations
from kgen.targets.writers.device_bodies import Written, body_of
from kgen.targets.writers.expressions import ExpressionWriter
from kgen.targets.writers.host import host_driver, host_steps
from kgen.targets.writers.look_back import GROUP_NUMBERS, number_groups, published_arrays
from kgen.targets.writers.loop_values import conditions_of_values
from kgen.targets.writers.persistent import groups_of_launch
from kgen.targets.writers.signature import declare_function, parameters_of

__all__ = ["emit_module"]


def emit_module(
    kernel: DeviceKernel,
    functions: tuple[DeviceFunction, ...],
    host: Node,
    assumptions: Set,
    host_inames: Collection[str] = (),
    written: Written | None = None,
) -> Module:
    """Write the code of *functions*, which together run *kernel*, in the order of *host*.

    Callers must satisfy the *assumptions*; they do not pass the variables *host_inames* of host
    loops. *written* receives the statements of instructions.

    The kernel's types and shapes are known, and its reductions realized. The trees contain the
    conditions of instructions.
    """
    target = kernel.target
    if not isinstance(target, CFamilyTarget):
        raise CodegenError(f"{type(target).__name__} does not generate code")
    preamble = Preamble()
    preamble.add(*target.needs)
    builder = target.get_device_ast_builder()
    is_fragile = any(has_fragile_barriers(f.body, math.prod(f.locals)) for f in functions)
    code_names = {f.name: builder.get_function_name(f) for f in functions}
    writer = builder.get_expression_to_code_mapper(kernel, preamble)
    functions = tuple(
        _in_language(writer, replace(function, name=code_names[function.name]))
        for function in functions
    )
    emitted = [_emit_function(builder, writer, function, written) for function in functions]
    writer = writer.for_function(None)
    launches = tuple(_launch_of(writer, function) for function in functions)
    if target.argument_limit is not None:
        for launch in launches:
            _check_argument_size(kernel, launch, target.argument_limit)
    passed = [arg for arg in kernel.args if arg.name not in host_inames]
    driver = host_driver(builder, writer, functions, launches, host, passed, code_names)
    heads = [each.head for each in emitted] if driver is None else [driver.head]
    preamble.add_user_code(kernel, builder.preamble_generators())
    return Module(
        name=kernel.name,
        preamble=preamble.text(),
        device_programs=tuple(each.program for each in emitted),
        host_source="" if driver is None else str(driver.body),
        declarations="\n".join(f"{head}" for head in heads),
        arguments=tuple(argument_infos(writer, passed)),
        steps=host_steps(kernel, launches, host) if driver is None else (driver.launch,),
        conditions=_conditions(writer, assumptions, passed),
        build_options=builder.get_build_options(
            launches,
            has_simd_loops=any(simd_loops_in(f.body) for f in functions),
            has_halves=any(dtype.is_half for dtype in preamble.seen_dtypes),
        ),
        has_fragile_barriers=is_fragile,
    )


def _in_language(writer: ExpressionWriter, function: DeviceFunction) -> DeviceFunction:
    """Return a function adapted to its language, with the types of its indices."""
    adapted = replace(function, body=writer.target.adapt_tree(function.body))
    declared = with_declarations(writer.kernel, adapted)
    return _with_long_groups(writer, declared) if writer.target.has_long_groups else declared


class _Emitted(NamedTuple):
    """A function in the language of the target."""

    head: cgen.NestedDeclarator
    program: GeneratedProgram


def _emit_function(
    builder: ASTBuilderBase,
    writer: ExpressionWriter,
    function: DeviceFunction,
    written: Written | None,
) -> _Emitted:
    """Write a function; *written* receives the statements of instructions."""
    kernel = writer.kernel
    _check_types(writer, function)
    own = writer.for_function(function)
    start: list[cgen.Generable] = []
    arrays = published_arrays(kernel, function)
    if arrays and not any(isinstance(node, Persistent) for node in nodes_in(function.body)):
        numbered = own.site.indices._replace(group=GROUP_NUMBERS)
        own = own.at(own.site._replace(indices=numbered))
        start = list(number_groups(own, function, arrays[0]))
    block = cgen.Block([*start, *body_of(builder, own, function, written)])
    head = declare_function(builder, own, function)
    code = str(builder.get_function_definition(head, block))
    return _Emitted(head, GeneratedProgram(function.name, True, code))


def _launch_of(writer: ExpressionWriter, function: DeviceFunction) -> Launch:
    kernel = writer.kernel
    local_bytes = local_layout(kernel, function.temporaries, writer.target.static_local_memory)[1]
    return Launch(
        function.name,
        tuple(parameters_of(writer, function)),
        groups_of_launch(function),
        function.locals,
        function.is_serial,
        _is_uneven(kernel, function),
        function.is_long,
        local_bytes,
        function.is_cooperative,
        zeroed=published_arrays(kernel, function),
        local_memory_share=writer.target.local_memory_share,
    )


def _check_types(writer: ExpressionWriter, function: DeviceFunction) -> None:
    """Reject arguments whose types the language does not have."""
    kernel = writer.kernel
    for name in function.arguments:
        declared = kernel.get_var_descriptor(name)
        kind = "argument" if isinstance(declared, KernelArgument) else "temporary"
        where = f"{kind} '{name}'"
        writer.target.type_name(dtype_of(declared), kernel=kernel.name, where=where)


#: The bytes of a pointer, and of the offset of an array.
_POINTER: Final = 8


def _with_long_groups(writer: ExpressionWriter, function: DeviceFunction) -> DeviceFunction:
    """Record the 64-bit indices of work-groups."""
    integers = writer.integers
    axes = map(GroupHardwareAxisIndex, range(len(function.groups)))
    if all(integers.ranges.fits(axis) for axis in axes):
        return function
    integers.long_names.update(writer.target.group_index)
    integers.preamble.add(*writer.target.type_needs.get(INT64.dtype, ()))
    return replace(function, is_long=True)


def _is_uneven(kernel: DeviceKernel, function: DeviceFunction) -> bool:
    """Tell whether work-groups have loops of different lengths: computed bounds."""
    computed = kernel.temporary_variables.keys() | kernel.get_written_variables()
    if computed.isdisjoint(kernel.bounding_names):
        return False
    loops = (node for node in nodes_in(function.body) if isinstance(node, For))
    bounds = (expr for loop in loops for expr in exprs_of(loop))
    return not computed.isdisjoint(variable_names(*bounds))


def _check_argument_size(kernel: DeviceKernel, launch: Launch, limit: int) -> None:
    """Reject a function whose arguments take more bytes than a launch can pass."""
    sizes = {
        arg.name: arg.dtype.itemsize
        for arg in kernel.args
        if isinstance(arg, ValueArg) and isinstance(arg.dtype, NumpyType)
    }
    used = sum(sizes.get(name, _POINTER) for name in launch.parameters)
    if used > limit:
        raise CodegenError(
            f"the {len(launch.parameters)} arguments of '{launch.function}' take {used} bytes",
            because=f"the target's limit_arg_size_nbytes is {limit}",
            hint="split the kernel, put numbers into an array, or join arrays: concatenate_arrays",
        )


def _conditions(
    writer: ExpressionWriter, assumptions: Set, passed: Sequence[ArrayArg | ValueArg]
) -> tuple[Expr, ...]:
    """Return the conditions on value arguments that a caller must satisfy."""
    kernel = writer.kernel
    values = {arg.name for arg in passed if isinstance(arg, ValueArg)}
    of_loops = conditions_of_values(kernel, writer.integers.long_names)
    return tuple(
        condition
        for condition in (*conditions_of(assumptions), *of_loops)
        if values.issuperset(variable_names(condition))
    )
