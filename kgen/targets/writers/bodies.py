"""Code trees to statements: loops, conditions, barriers and variables of a body."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import cgen
import pymbolic.primitives as p
from pymbolic.mapper.stringifier import PREC_COMPARISON, PREC_NONE

from kgen.analysis.range import Sizes, is_int32
from kgen.ast.expr import conjuncts, negation
from kgen.ast.nodes import Block, Comment, For, If, Let, Node, Persistent, Run
from kgen.errors import CodegenError, naming_place
from kgen.ir.expr import Expr, to_text
from kgen.ir.tree import Barrier, children_of
from kgen.ir.types import INT32, INT64, NumpyType, Reach
from kgen.targets.builder import ASTBuilderBase
from kgen.targets.writers.declarations import needs_braces
from kgen.targets.writers.expressions import ExpressionWriter
from kgen.targets.writers.negations import hidden, is_reversed
from kgen.targets.writers.pragmas import loop_pragmas
from kgen.targets.writers.site import EmissionSite

__all__ = ["NOT_JOINED", "BodyEmitter", "Joined"]

#: The number of consecutive nodes that are emitted together, and their statements.
Joined: TypeAlias = tuple[int, Sequence[cgen.Generable]]
NOT_JOINED: Final[Joined] = 0, ()


class BodyEmitter:
    """Writes loops, conditions and barriers; subclasses write ``Run`` nodes.

    Methods take the current *site*, and a *writer* for that site or an enclosing one; bounds
    and conditions are written with ``writer.at(site)``.
    """

    def __init__(self, builder: ASTBuilderBase, writer: ExpressionWriter) -> None:
        self.writer = writer.at(writer.site.at_top())
        self.whole_bodies: set[int] = set()
        self.builder = builder
        self.kernel = writer.kernel

    def statements(self, body: Node) -> list[cgen.Generable]:
        """Return the statements of a function's body."""
        self._find_long_names(body, self.writer.site.sizes)
        return list(self._emit(body, self.writer, self.writer.site))

    def run(
        self, node: Run, writer: ExpressionWriter, site: EmissionSite
    ) -> Iterable[cgen.Generable]:
        """Return the statements of *node*."""
        raise NotImplementedError

    def persistent(self, node: Persistent, writer: ExpressionWriter) -> list[cgen.Generable]:
        """Return the statements of persistent groups."""
        raise NotImplementedError

    def _find_long_names(self, node: Node, sizes: Sizes) -> None:
        """Record the variables that need 64 bits, for values inside or outside their domain.

        Values outside the domain occur in empty loops, or before a condition on the value.
        """
        if isinstance(node, For | Let):
            first, stop = (node.first, node.stop) if isinstance(node, For) else (node.value, None)
            values = sizes.interval(first)
            if node.dtype == INT64 or (values.count is not None and not is_int32(values)):
                self.writer.integers.long_names.add(node.name)
            sizes = sizes.inside(node.name, first, stop)
        for child in children_of(node):
            if not isinstance(child, Run):
                self._find_long_names(child, sizes)

    def _type_of(self, node: For | Let) -> NumpyType:
        """Return the type of a variable of the code; variables of one name share one type."""
        is_long = node.name in self.writer.integers.long_names
        return INT64 if is_long else node.dtype

    def _emit(
        self, node: Node, writer: ExpressionWriter, site: EmissionSite
    ) -> Iterable[cgen.Generable]:
        """Return the statements of *node*."""
        match node:
            case Run():
                return self.run(node, writer, site)
            case For():
                return self._for(node, writer.at(site))
            case Block():
                return self._block(node.children, writer.at(site))
            case If():
                return [self._if(node, writer.at(site))]
            case Let():
                writer = writer.at(site)
                inside = site.inside(node.name, node.value)
                return [self._let(node, writer), *self._emit(node.body, writer, inside)]
            case Barrier():
                return [self._barrier(node)]
            case Comment():
                comment = self.builder.emit_comment(node.text)
                return [comment, *self._emit(node.body, writer, site)]
            case Persistent():
                return self.persistent(node, writer.at(site))

    def _let(self, node: Let, writer: ExpressionWriter) -> cgen.Generable:
        dtype = self._type_of(node)
        type_name = writer.declared_type(node.name, dtype)
        value = self._value(writer, node.value, dtype)
        if writer.target.mistakes_reversed and dtype == INT32 and is_reversed(node.value):
            value = hidden(writer.target, writer.preamble, value)  # it may be a subscript
        return self.builder.emit_initializer(type_name, node.name, value, is_const=True)

    def _block(self, nodes: tuple[Node, ...], writer: ExpressionWriter) -> list[cgen.Generable]:
        written: list[cgen.Generable] = []
        at = 0
        while at < len(nodes):
            count, statements = self.together(nodes, at, writer)
            written += statements if count else self._child(nodes, at, writer)
            at += max(1, count)
        return written

    def together(self, nodes: tuple[Node, ...], at: int, writer: ExpressionWriter) -> Joined:
        """Emit nodes from ``nodes[at]`` on together; return their number and statements."""
        return NOT_JOINED

    def _child(
        self, nodes: tuple[Node, ...], at: int, writer: ExpressionWriter
    ) -> Iterable[cgen.Generable]:
        statements = self._emit(nodes[at], writer, writer.site)
        return [cgen.Block(list(statements))] if needs_braces(nodes, at) else statements

    def _for(self, node: For, writer: ExpressionWriter) -> list[cgen.Generable]:
        self.whole_bodies.add(id(node.body))
        dtype = self._type_of(node)
        first = self._value(writer, node.first, dtype)
        condition = f"{node.iname} < {self._value(writer, node.stop, dtype, PREC_COMPARISON)}"
        type_name = writer.declared_type(node.iname, dtype)
        inside = writer.site.inside(node.iname, node.first, node.stop)
        inside = writer.divergent(inside, node.first, node.stop)
        if node.is_simd:
            inside = inside._replace(in_lanes=True)
        body = self._body(node.body, writer, inside)
        loop = self.builder.emit_sequential_loop(
            node.iname, type_name, first, condition, node.step, body
        )
        comment = node.comment
        if comment is None and self.kernel.options.annotate_inames:
            comment = f"loop over '{node.iname}'"
        lines = [] if comment is None else [self.builder.emit_comment(comment)]
        lines += [cgen.Pragma(text) for text in self._pragmas(node)]
        return [*lines, loop]

    def _pragmas(self, node: For) -> list[str]:
        """Return the pragmas of a loop."""
        return loop_pragmas(
            self.kernel,
            self.writer.target,
            node,
            is_whole_body=id(node) in self.whole_bodies,
            hides_independence=self.hides_independence,
        )

    def hides_independence(self, node: For) -> bool:
        """Tell whether iterations are independent in a way that the compiler can hardly prove."""
        return False

    def _value(
        self, writer: ExpressionWriter, value: Expr, dtype: NumpyType, prec: int = PREC_NONE
    ) -> str:
        """Write the value or bound of a loop variable; products in it may need 64 bits."""
        integers = writer.integers
        is_wide = dtype == INT64 and not isinstance(value, int | p.Variable)
        return integers.text(value, prec, wide=is_wide or integers.overflows(value))

    def _if(self, node: If, writer: ExpressionWriter) -> cgen.Generable:
        with naming_place("condition", node.condition, to_text):
            condition = writer.condition(node.condition)
        site = writer.divergent(writer.site, node.condition)
        body = self._body(node.body, writer, site.under(*conjuncts(node.condition)))
        if writer.decision(node.condition):
            return body
        orelse = None
        if node.orelse is not None:
            otherwise = site.under(*conjuncts(negation(node.condition)))
            orelse = self._body(node.orelse, writer, otherwise)
        return self.builder.emit_if(condition, body, orelse)

    def _body(self, node: Node, writer: ExpressionWriter, site: EmissionSite) -> cgen.Generable:
        """Return the statements of *node*, in braces unless there is exactly one."""
        inner = list(self._emit(node, writer, site))
        if len(inner) == 1 and isinstance(inner[0], _SINGLE):
            return inner[0]
        return cgen.Block(inner)

    def _barrier(self, node: Barrier) -> cgen.Generable:
        target = self.writer.target
        if node.reach is Reach.DEVICE:
            self.writer.preamble.add(*target.grid_barrier_needs)
            return self.builder.emit_barrier(target.grid_barrier or "", node.reason)
        is_of_warp = node.reach is Reach.WARP
        text = target.warp_barrier if is_of_warp else target.barriers.get(node.memory)
        if text is None:
            raise CodegenError(
                f"{target.language} has no work-items that could wait for each other",
                because=f"there is a barrier, {node.reason}",
                hint="remove the barriers of the kernel, and remove the tags 'l.N' and 'g.N' "
                "with untag_inames; or choose a target that has work-items",
            )
        return self.builder.emit_barrier(text, node.reason)


_SINGLE = (cgen.Assign, cgen.Statement, cgen.For, cgen.If, cgen.Block, cgen.Line)
