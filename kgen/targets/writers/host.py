"""Host code of a call: launches, and the loops around them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import cgen
import numpy as np
import pymbolic.primitives as p
from pymbolic.mapper.stringifier import PREC_COMPARISON

from kgen.ast.nodes import Block, DeviceFunction, For, If, Let, Node, Run
from kgen.ir.data import ArrayArg, ValueArg
from kgen.ir.expr import Expr, TruncQuotient, is_constant, substitute, variable_names
from kgen.ir.stages import DeviceKernel
from kgen.ir.tree import exprs_of, nodes_in
from kgen.ir.types import NumpyType
from kgen.targets.builder import ASTBuilderBase
from kgen.targets.module import HostIf, HostLoop, Launch, Step
from kgen.targets.writers.bodies import BodyEmitter
from kgen.targets.writers.expressions import ExpressionWriter
from kgen.targets.writers.signature import declare_parameters, parameters_of
from kgen.targets.writers.site import EmissionSite

__all__ = ["HostDriver", "host_driver", "host_steps"]


def host_steps(kernel: DeviceKernel, launches: tuple[Launch, ...], host: Node) -> tuple[Step, ...]:
    """Return the steps of a call, in which *host* runs *launches*."""
    return tuple(_steps(kernel, {launch.function: launch for launch in launches}, host))


def _steps(kernel: DeviceKernel, launches: Mapping[str, Launch], node: Node) -> Iterator[Step]:
    match node:
        case Block():
            for child in node.children:
                yield from _steps(kernel, launches, child)
        case Run():
            yield from _once(kernel, node.values, launches[node.insn_id])
        case For():
            inside = tuple(_steps(kernel, launches, node.body))
            yield _loop(kernel, node.iname, node.first, node.stop, node.step, inside)
        case Let():
            inside = tuple(_steps(kernel, launches, node.body))
            yield _loop(kernel, node.name, node.value, p.Sum((node.value, 1)), 1, inside)
        case If():
            yield HostIf(node.condition, tuple(_steps(kernel, launches, node.body)))
            if node.orelse is not None:
                otherwise = tuple(_steps(kernel, launches, node.orelse))
                yield HostIf(p.LogicalNot(node.condition), otherwise)


def _once(kernel: DeviceKernel, values: Mapping[str, Expr], launch: Launch) -> Iterator[Step]:
    """Yield a launch, inside loops for the variables that have a single value."""
    step: Step = launch
    for name, value in values.items():
        step = _loop(kernel, name, value, p.Sum((value, 1)), 1, (step,))
    yield step


def _loop(
    kernel: DeviceKernel, name: str, first: Expr, stop: Expr, by: int, steps: tuple[Step, ...]
) -> HostLoop:
    dtype = kernel.arg_dict[name].dtype
    assert isinstance(dtype, NumpyType)
    return HostLoop(name, np.dtype(dtype.dtype), first, stop, by, steps)


@dataclass(frozen=True)
class HostDriver:
    """A host function that runs several functions one after the other."""

    head: cgen.NestedDeclarator
    body: cgen.Generable
    launch: Launch


def host_driver(
    builder: ASTBuilderBase,
    writer: ExpressionWriter,
    functions: tuple[DeviceFunction, ...],
    launches: tuple[Launch, ...],
    host: Node,
    passed: Collection[ArrayArg | ValueArg],
    code_names: Mapping[str, str],
) -> HostDriver | None:
    """Write a function that makes all launches, if the host can call them as functions.

    *passed* are the arguments of a call, *code_names* the names of launches in the code.
    """
    if not builder.has_host_function(launches, is_single=isinstance(host, Run)):
        return None
    kernel = writer.kernel
    used = {name for function in functions for name in function.arguments} | _read_by(host)
    used |= {name for launch in launches for name in variable_names(*launch.groups)}
    names = [arg.name for arg in passed if arg.name in used]
    names += [name for name in sorted(kernel.temporary_variables) if name in used]
    written = set(kernel.get_written_variables())
    name = _driver_name(kernel.name, functions)
    parameters = declare_parameters(builder, writer, names, written)
    head = builder.get_host_function_declaration(name, parameters)
    calls = builder.get_host_function_start(launches)
    called = {launch.function: launch for launch in launches}
    by_name = {name: called[code_name] for name, code_name in code_names.items()}
    emitter = _DriverEmitter(builder, writer, by_name, is_single=isinstance(host, Run))
    calls += emitter.statements(host)
    together = DeviceFunction(name, host, (), (), tuple(names), (), ())
    launch = Launch(name, tuple(parameters_of(writer, together)), (), ())
    return HostDriver(head, builder.get_function_definition(head, cgen.Block(calls)), launch)


class _DriverEmitter(BodyEmitter):
    """Writes calls of the functions that a host tree runs."""

    def __init__(
        self,
        builder: ASTBuilderBase,
        writer: ExpressionWriter,
        launches: Mapping[str, Launch],
        *,
        is_single: bool,
    ) -> None:
        super().__init__(builder, writer)
        self.launches = launches
        self.is_single = is_single

    def run(
        self, node: Run, writer: ExpressionWriter, site: EmissionSite
    ) -> Iterable[cgen.Generable]:
        writer = writer.at(site)
        launch = self.launches[node.insn_id]
        passed = [
            writer.integers.text(node.values[name]) if name in node.values else name
            for name in launch.parameters
        ]
        groups = [self._count(writer, substitute(count, node.values)) for count in launch.groups]
        writer.preamble.add(*self.builder.get_kernel_call_needs(launch, groups))
        return self.builder.get_kernel_call(launch, groups, passed, is_only=self.is_single)

    def _count(self, writer: ExpressionWriter, count: Expr) -> str:
        """Write a number of work-groups: 0 if it would be negative."""
        if self.builder.takes_negative_counts:
            count = _truncated(count)
        elif not writer.site.signs.is_at_least(count, 0):
            count = p.Max((0, count))
        is_wide = writer.integers.overflows(count)
        return writer.integers.text(count, PREC_COMPARISON, wide=is_wide)


def _truncated(count: Expr) -> Expr:
    """Return an expression that is positive where *count* is, and equal there."""
    is_quotient = isinstance(count, p.FloorDiv) and is_constant(count.denominator)
    if not is_quotient or count.denominator <= 0:
        return count
    return TruncQuotient(count.numerator, count.denominator)


def _driver_name(name: str, functions: tuple[DeviceFunction, ...]) -> str:
    taken = {function.name for function in functions}
    return f"{name}_all" if name in taken else name


def _read_by(node: Node) -> set[str]:
    """Return the variables in the bounds and conditions of the host."""
    return {name for part in nodes_in(node) for name in variable_names(*exprs_of(part))}
