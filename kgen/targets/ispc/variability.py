"""Uniform and varying values: the same for all lanes of a gang, or not."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pymbolic.primitives as p

from kgen.ast.nodes import DeviceFunction, For, If, Let, Node, Run
from kgen.ir.assignee import assignee_name, index_of
from kgen.ir.expr import Expr, LocalHardwareAxisIndex, walk
from kgen.ir.instruction import CInstruction
from kgen.ir.stages import DeviceKernel
from kgen.ir.tree import children_of
from kgen.ir.types import AddressSpace

__all__ = ["Variability"]

_NO_VALUES: Mapping[str, Expr] = {}


class Variability:
    """The varying variables of a function, which have a value for each lane.

    If work-groups have one work-item, everything is uniform. Otherwise the index of the lane
    varies, and so does everything that is computed from it, or assigned when only some lanes run.
    Elements of shared arrays vary with their subscripts. A variable whose only value is its
    initializer varies only if that value does, since other lanes do not see it. The host's
    function, ``None``, has no lanes.
    """

    def __init__(self, kernel: DeviceKernel, function: DeviceFunction | None) -> None:
        self.kernel = kernel
        self.has_lanes = function is not None and math.prod(function.locals) > 1
        self.names: set[str] = set()
        if function is None or not self.has_lanes:
            return
        known = -1
        while known != len(self.names):
            known = len(self.names)
            self._visit(function.body, is_divergent=False)

    def is_varying(self, expr: Expr, values: Mapping[str, Expr] = _NO_VALUES) -> bool:
        """Tell whether lanes may have different values of *expr*, after substituting *values*."""
        return self.has_lanes and any(self._varies(node, values) for node in walk(expr))

    def _varies(self, node: Expr, values: Mapping[str, Expr]) -> bool:
        match node:
            case LocalHardwareAxisIndex():
                return True
            case p.Variable():
                value = values.get(node.name)
                return node.name in self.names if value is None else self.is_varying(value)
            case p.Call(function=p.Variable(name)):
                return name in self.kernel.functions  # a user's own
        return False

    def _visit(self, node: Node, *, is_divergent: bool) -> None:
        match node:
            case For():
                self._define(node.iname, node.first)
                varies = self.is_varying(node.first) or self.is_varying(node.stop)
                is_divergent = is_divergent or varies
            case Let():
                self._define(node.name, node.value)
            case If():
                is_divergent = is_divergent or self.is_varying(node.condition)
            case Run():
                self._run(node, is_divergent=is_divergent)
        for child in children_of(node):
            self._visit(child, is_divergent=is_divergent)

    def _define(self, name: str, value: Expr) -> None:
        if self.is_varying(value):
            self.names.add(name)

    def _run(self, node: Run, *, is_divergent: bool) -> None:
        insn = self.kernel.id_to_insn[node.insn_id]
        varies = isinstance(insn, CInstruction) or any(
            self.is_varying(expr, node.values) for expr in insn.read_exprs()
        )
        for lhs in insn.assignees:
            name = assignee_name(lhs)
            temporary = self.kernel.temporary_variables.get(name)
            if temporary is None or temporary.address_space != AddressSpace.PRIVATE:
                continue
            index_varies = any(self.is_varying(index, node.values) for index in index_of(lhs))
            if varies or index_varies or (is_divergent and not node.is_only):
                self.names.add(name)
