"""Code trees to cgen trees, and a whole kernel to its module."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

import cgen
import pymbolic.primitives as p
from pymbolic.mapper.stringifier import PREC_COMPARISON, PREC_NONE

from kgen.analysis.signs import Interval
from kgen.ast.nodes import (
    Barrier,
    Block,
    Comment,
    DeviceFunction,
    For,
    If,
    Let,
    Node,
    Run,
    children_of,
)
from kgen.errors import CodegenError, message
from kgen.ir.data import ArrayArg, ArrayBase, ValueArg
from kgen.ir.expr import Expr, variable_names
from kgen.ir.kernel import LoopKernel
from kgen.ir.quasi_affine import conditions_of
from kgen.ir.tags import FoundInCallTag
from kgen.ir.types import INT64, AddressSpace, NumpyType
from kgen.targets.access import is_pointer
from kgen.targets.base import CFamilyTarget
from kgen.targets.cexpr import ExpressionWriter
from kgen.targets.declarations import declare_at_top, needs_braces, place
from kgen.targets.module import ArgumentInfo, Launch, Module
from kgen.targets.preamble import Preamble, Rank
from kgen.targets.signature import declare_function, host_driver, parameters_of
from kgen.targets.statements import declare_and_assign, statements_of

__all__ = ["emit_module"]


def emit_module(kernel: LoopKernel, functions: tuple[DeviceFunction, ...]) -> Module:
    """Write the code of *functions*, which together run *kernel*.

    The kernel's types and shapes are known, and its reductions realized. Conditions of
    instructions stand in the trees.
    """
    target = kernel.target
    if not isinstance(target, CFamilyTarget):
        raise CodegenError(
            message(f"{type(target).__name__} does not generate code", kernel=kernel.name)
        )
    _refuse_reserved_words(kernel, target)
    preamble = Preamble()
    writer = ExpressionWriter(kernel, target, preamble)
    bodies: list[cgen.Generable] = []
    heads: list[cgen.FunctionDeclaration] = []
    for function in functions:
        block = cgen.Block(_FunctionEmitter(writer, function).statements())
        heads.append(declare_function(writer, function))
        bodies += [cgen.Line(), cgen.FunctionBody(heads[-1], block)]
    _refuse_hidden_names(kernel, target, preamble)
    preamble.add_user_code(kernel)
    top = list(preamble.generate())
    launches = tuple(
        Launch(f.name, tuple(parameters_of(writer, f)), f.groups, f.locals) for f in functions
    )
    host = host_driver(writer, functions, launches)
    return Module(
        name=kernel.name,
        device_source=str(cgen.Module([*top, *(bodies if top else bodies[1:])])),
        host_source="" if host is None else str(host.body),
        header="\n".join(f"{head}" for head in (heads if host is None else [host.head])),
        arguments=tuple(_argument_infos(writer)),
        launches=launches if host is None else (host.launch,),
        conditions=_conditions(kernel),
    )


def _conditions(kernel: LoopKernel) -> tuple[Expr, ...]:
    """Return the assumptions on value arguments, which a caller must keep to."""
    values = {arg.name for arg in kernel.args if isinstance(arg, ValueArg)}
    return tuple(
        condition
        for condition in conditions_of(kernel.assumptions)
        if values.issuperset(variable_names(condition))
    )


def _refuse_reserved_words(kernel: LoopKernel, target: CFamilyTarget) -> None:
    taken = sorted(kernel.all_variable_names() & target.reserved_words)
    if taken:
        raise CodegenError(
            message(
                f"'{taken[0]}' is a word of {target.language} and cannot be a name",
                kernel=kernel.name,
                hint=f"rename_argument, rename_iname, or write another name for '{taken[0]}'",
            )
        )


def _refuse_hidden_names(kernel: LoopKernel, target: CFamilyTarget, preamble: Preamble) -> None:
    """Refuse names that hide a function that the code calls, or that a header takes."""
    called = {function.c_name for function in preamble.seen_functions}
    for header, words in target.words_of_headers.items():
        if (Rank.INCLUDE, header) in preamble:
            called |= words
    taken = sorted(kernel.all_variable_names() & called)
    if taken:
        raise CodegenError(
            message(
                f"'{taken[0]}' means something else in the {target.language} code of the kernel",
                kernel=kernel.name,
                hint=f"rename_argument, rename_iname, or write another name for '{taken[0]}'",
            )
        )


def _argument_infos(writer: ExpressionWriter) -> Iterable[ArgumentInfo]:
    """Describe what a caller passes, then the global temporaries that the runtime allocates."""
    kernel = writer.kernel
    written = kernel.get_written_variables()
    for arg in kernel.args:
        assert isinstance(arg.dtype, NumpyType)
        if isinstance(arg, ValueArg):
            yield ArgumentInfo(
                arg.name,
                arg.dtype.dtype,
                False,
                True,
                False,
                is_temporary=FoundInCallTag() in arg.tags,
            )
            continue
        is_output = arg.name in written if arg.is_output is None else arg.is_output
        is_input = arg.is_input
        if is_input is None:
            is_input = arg.name in kernel.get_read_variables() or not is_output
        yield _array_info(writer, arg, is_input, is_output, is_temporary=False)
    for _, temporary in sorted(kernel.temporary_variables.items()):
        if is_pointer(temporary):
            yield _array_info(writer, temporary, False, False, is_temporary=True)


def _array_info(
    writer: ExpressionWriter,
    array: ArrayBase,
    is_input: bool,
    is_output: bool,
    *,
    is_temporary: bool,
) -> ArgumentInfo:
    assert isinstance(array.dtype, NumpyType)
    has_shape = isinstance(array.shape, tuple)
    space = array.address_space if isinstance(array, ArrayArg) else AddressSpace.GLOBAL
    return ArgumentInfo(
        name=array.name,
        dtype=array.dtype.dtype,
        is_array=True,
        is_input=is_input,
        is_output=is_output,
        shape=array.shape if has_shape else None,
        strides=array.fixed_strides if has_shape else None,
        offset=writer.accesses.offsets.get(array.name),
        address_space=space,
        is_temporary=is_temporary,
    )


class _FunctionEmitter:
    """Writes the body of one function."""

    def __init__(self, writer: ExpressionWriter, function: DeviceFunction) -> None:
        self.writer = writer
        self.function = function
        self.kernel = writer.kernel
        self.placement = place(self.kernel, function)
        self.runs = 0
        self.scope: dict[str, Interval] = {}

    def statements(self) -> list[cgen.Generable]:
        """Return the declarations at the top and the statements below."""
        self._find_long_names(self.function.body)
        declared = [declare_at_top(self.writer, name) for name in self.placement.top]
        top: list[cgen.Generable] = [line for line in declared if line is not None]
        if top:
            top.append(cgen.Line())
        self._emit(self.function.body, top)
        return top

    def _find_long_names(self, node: Node) -> None:
        if isinstance(node, For | Let) and node.dtype == INT64:
            self.writer.integers.long_names.add(node.iname if isinstance(node, For) else node.name)
        for child in children_of(node):
            self._find_long_names(child)

    def _emit(self, node: Node, out: list[cgen.Generable]) -> None:
        """Append the statements of *node* to *out*."""
        match node:
            case Block():
                for at, child in enumerate(node.children):
                    if needs_braces(node.children, at):
                        inner: list[cgen.Generable] = []
                        self._emit(child, inner)
                        out.append(cgen.Block(inner))
                    else:
                        self._emit(child, out)
            case Run():
                self._run(node, out)
            case For():
                out.extend(self._for(node))
            case If():
                out.append(self._if(node))
            case Let():
                self._outside()
                name = self.writer.type_name(node.dtype)
                value = self._value(node.value, node.dtype)
                declaration = cgen.Const(cgen.Value(name, node.name))
                out.append(cgen.Initializer(declaration, value))
                with self._in_scope(node.name, self.writer.signs.interval(node.value)):
                    self._emit(node.body, out)
            case Barrier():
                out.append(self._barrier(node))
            case Comment():
                out.append(cgen.LineComment(node.text))
                self._emit(node.body, out)

    def _outside(self) -> None:
        """Tell the writer that variables have no values: bounds and conditions of the tree."""
        self.writer.enter(frozenset(), {})
        self.writer.signs.scope = self.scope

    @contextlib.contextmanager
    def _in_scope(self, name: str, values: Interval) -> Iterator[None]:
        """Let a variable have some values in bounds and conditions below."""
        around, self.scope = self.scope, {**self.scope, name: values}
        yield
        self.scope = around

    def _for(self, node: For) -> list[cgen.Generable]:
        self._outside()
        first = self._value(node.first, node.dtype)
        start = f"{self.writer.type_name(node.dtype)} {node.iname} = {first}"
        condition = f"{node.iname} < {self._value(node.stop, node.dtype, PREC_COMPARISON)}"
        step = f"++{node.iname}" if node.step == 1 else f"{node.iname} += {node.step}"
        signs = self.writer.signs
        stop = signs.interval(node.stop).high
        values = Interval(signs.interval(node.first).low, None if stop is None else stop - 1)
        with self._in_scope(node.iname, values):
            body = self._body(node.body)
        loop = cgen.For(cgen.Line(start), cgen.Line(condition), cgen.Line(step), body)
        comment = node.comment
        if comment is None and self.kernel.options.annotate_inames:
            comment = f"loop over '{node.iname}'"
        return [loop] if comment is None else [cgen.LineComment(comment), loop]

    def _value(self, value: Expr, dtype: NumpyType, prec: int = PREC_NONE) -> str:
        """Write what a loop variable becomes, or is compared to; a product may need 64 bits."""
        is_wide = dtype == INT64 and not isinstance(value, int | p.Variable)
        return self.writer.integers.text(value, prec, wide=is_wide)

    def _if(self, node: If) -> cgen.Generable:
        self._outside()
        condition = cgen.Line(self.writer.condition(node.condition))
        body = self._body(node.body)
        if node.orelse is None:
            return cgen.If(condition, body)
        if not isinstance(body, cgen.Block):
            body = cgen.Block([body])  # an else belongs to the nearest if
        return cgen.If(condition, body, self._body(node.orelse))

    def _body(self, node: Node) -> cgen.Generable:
        """Return the statements of *node*, in braces unless there is just one."""
        inner: list[cgen.Generable] = []
        self._emit(node, inner)
        if len(inner) == 1 and isinstance(inner[0], _SINGLE):
            return inner[0]
        return cgen.Block(inner)

    def _barrier(self, node: Barrier) -> cgen.Generable:
        text = self.writer.target.barriers.get(node.memory)
        if text is None:
            raise CodegenError(
                message(
                    f"{self.writer.target.language} has no work-items that could wait for each "
                    "other",
                    kernel=self.kernel.name,
                    because=f"a barrier is needed {node.reason}",
                    hint="take the tags 'l.N' and 'g.N' off with untag_inames, or choose a "
                    "target that has them",
                )
            )
        return cgen.Line(f"{text};  // {node.reason}" if node.reason else f"{text};")

    def _run(self, node: Run, out: list[cgen.Generable]) -> None:
        insn = self.kernel.id_to_insn[node.insn_id]
        self.writer.enter(insn.within_inames, node.values)
        self.writer.signs.scope = None
        declared = self.placement.first.get(self.runs)
        self.runs += 1
        if declared is not None:
            out.extend(declare_and_assign(self.writer, insn, *declared))
        else:
            out.extend(statements_of(self.writer, insn))


_SINGLE = (cgen.Assign, cgen.Statement, cgen.For, cgen.If, cgen.Block, cgen.Line)
