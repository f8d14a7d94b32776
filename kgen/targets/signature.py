"""Declarations of functions, and the host function that calls several of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import cgen

from kgen.ast.nodes import DeviceFunction
from kgen.ir.data import ArrayArg, ArrayBase, ValueArg
from kgen.ir.types import INT64, NumpyType
from kgen.targets.cexpr import ExpressionWriter
from kgen.targets.module import Launch

__all__ = ["HostDriver", "declare_function", "host_driver", "parameters_of"]


def parameters_of(writer: ExpressionWriter, function: DeviceFunction) -> Iterable[str]:
    """Return the names of the parameters of *function*: each array before its offset."""
    for name in function.arguments:
        yield name
        offset = writer.accesses.offsets.get(name)
        if offset is not None:
            yield offset


def declare_function(
    writer: ExpressionWriter, function: DeviceFunction
) -> cgen.FunctionDeclaration:
    """Declare *function* with all its qualifiers."""
    kernel = writer.kernel
    written = {
        name
        for insn_id in function.insn_ids
        for name in kernel.id_to_insn[insn_id].assignee_var_names()
    }
    parameters = _declare_parameters(writer, function.arguments, written)
    head = writer.target.wrap_function(cgen.Value("void", function.name), function)
    return cgen.FunctionDeclaration(head, parameters)


def _declare_parameters(
    writer: ExpressionWriter, names: Iterable[str], written: set[str]
) -> list[cgen.Declarator]:
    kernel = writer.kernel
    parameters: list[cgen.Declarator] = []
    for name in names:
        declared = kernel.arg_dict.get(name) or kernel.temporary_variables[name]
        assert isinstance(declared.dtype, NumpyType)
        value = cgen.Value(writer.type_name(declared.dtype), name)
        if isinstance(declared, ValueArg):
            parameters.append(cgen.Const(value))
            continue
        parameters.append(_declare_pointer(writer, declared, value, name in written))
        offset = writer.accesses.offsets.get(name)
        if offset is not None:
            parameters.append(cgen.Const(cgen.Value(writer.type_name(INT64), offset)))
    return parameters


def _declare_pointer(
    writer: ExpressionWriter, array: ArrayBase, value: cgen.Declarator, is_written: bool
) -> cgen.Declarator:
    target = writer.target
    restrict = writer.kernel.options.restrict
    pointer: cgen.Declarator = cgen.RestrictPointer(value) if restrict else cgen.Pointer(value)
    if not is_written:
        pointer = cgen.Const(pointer)  # of what it points to
    is_constant = isinstance(array, ArrayArg) and array.is_constant
    qualifier = target.constant_qualifier if is_constant else target.global_qualifier
    return cgen.DeclSpecifier(pointer, qualifier) if qualifier else pointer


@dataclass(frozen=True)
class HostDriver:
    """A host function that runs several functions one after the other."""

    head: cgen.FunctionDeclaration
    body: cgen.Generable
    launch: Launch


def host_driver(
    writer: ExpressionWriter,
    functions: tuple[DeviceFunction, ...],
    launches: tuple[Launch, ...],
) -> HostDriver | None:
    """Write a function that makes all launches, where the host can call them as functions."""
    if writer.target.has_hardware_axes or len(functions) == 1:
        return None
    kernel = writer.kernel
    used = {name for function in functions for name in function.arguments}
    names = [arg.name for arg in kernel.args if arg.name in used]
    names += [name for name in sorted(kernel.temporary_variables) if name in used]
    written = set(kernel.get_written_variables())
    name = _driver_name(kernel.name, functions)
    head = cgen.FunctionDeclaration(
        cgen.Value("void", name), _declare_parameters(writer, names, written)
    )
    calls = [
        cgen.Statement(f"{launch.function}({', '.join(launch.parameters)})") for launch in launches
    ]
    together = DeviceFunction(
        name, functions[0].body, (), (), tuple(names), (), functions[0].insn_ids
    )
    launch = Launch(name, tuple(parameters_of(writer, together)), (), ())
    return HostDriver(head, cgen.FunctionBody(head, cgen.Block(calls)), launch)


def _driver_name(name: str, functions: tuple[DeviceFunction, ...]) -> str:
    taken = {function.name for function in functions}
    return f"{name}_all" if name in taken else name
