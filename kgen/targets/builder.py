"""Building statements and declarations: the hooks of a user-defined target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import cgen

from kgen.ast.nodes import DeviceFunction
from kgen.ir.callables import ScalarCallable
from kgen.ir.data import ArrayArg, ArrayBase, TemporaryVariable
from kgen.ir.instruction import InstructionBase
from kgen.ir.stages import DeviceKernel
from kgen.ir.types import AddressSpace
from kgen.targets.base import CFamilyLanguage
from kgen.targets.header import c_header
from kgen.targets.module import Launch, Module
from kgen.targets.preamble import Need, Preamble, PreambleInfo
from kgen.targets.writers.expressions import ExpressionWriter

__all__ = ["ASTBuilderBase"]

PreambleGenerator: TypeAlias = Callable[[PreambleInfo], Iterable[tuple[str, str]]]


class _If(cgen.If):
    """An ``if`` whose ``else`` may have another one on its line."""

    def generate(self, with_semicolon: bool = False) -> Iterator[str]:
        if not isinstance(self.else_, cgen.If):
            yield from super().generate()
            return
        yield from cgen.If(self.condition, self.then_).generate()
        first, *rest = self.else_.generate()
        yield f"else {first}"
        yield from rest


def _has_else(body: cgen.Generable) -> bool:
    """Tell whether a statement without braces ends in an ``else``."""
    while isinstance(body, cgen.Loop):
        body = body.body
    return isinstance(body, cgen.If) and body.else_ is not None


class ASTBuilderBase:
    """Builds the syntax tree of a target's code: declarations, statements, preambles.

    One emitter traverses the code of a kernel for all targets. It passes expressions as text, with
    types and casts, to the methods of this class, which return nodes of :mod:`cgen`. To define a
    target, derive from an existing one; its ``get_device_ast_builder`` returns a builder whose
    class derives from the builder of that target.

    >>> import cgen
    >>> import kgen as lp
    >>> class StaticBuilder(lp.ASTBuilderBase):
    ...     def get_function_declaration(self, function, parameters):
    ...         return cgen.Static(super().get_function_declaration(function, parameters))
    ...     def emit_sequential_loop(self, iname, type_name, first, condition, step, body):
    ...         loop = super().emit_sequential_loop(
    ...             iname, type_name, first, condition, step, body)
    ...         return cgen.Collection([cgen.Pragma("GCC ivdep"), loop])
    >>> class StaticTarget(lp.CTarget):
    ...     def get_device_ast_builder(self):
    ...         return StaticBuilder(self)
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "a[i] = i", [lp.GlobalArg("a", "int32"), ...], target=StaticTarget())
    >>> print(lp.generate_code_v2(unit).device_code())
    static void kgen_kernel(int *__restrict__ a, int const n)
    {
      #pragma GCC ivdep
      for (int i = 0; i < n; ++i)
        a[i] = i;
    }
    """

    def __init__(self, target: CFamilyLanguage) -> None:
        self.target = target

    # -- what is known, and what stands in front ---------------------------------------------

    @property
    def known_callables(self) -> Mapping[str, ScalarCallable]:
        """The functions that expressions can call, by name.

        A class returns these with others added, or with some replaced.

        >>> import kgen as lp
        >>> known = lp.CTarget().get_device_ast_builder().known_callables
        >>> known["sqrt"].specialized((lp.to_kgen_type("float32"),)).name_in_target
        'sqrtf'
        """
        return dict(self.target.functions.callables)

    def preamble_generators(self) -> list[PreambleGenerator]:
        """Return functions from a :class:`PreambleInfo` to pairs ``(key, text)``."""
        return []

    def get_expression_to_code_mapper(
        self, kernel: DeviceKernel, preamble: Preamble
    ) -> ExpressionWriter:
        """Return the writer of expressions of *kernel*, which adds its needs to *preamble*."""
        return ExpressionWriter(kernel, self.target, preamble)

    # -- functions -----------------------------------------------------------------------------

    def get_function_declaration(
        self, function: DeviceFunction, parameters: Sequence[cgen.Declarator]
    ) -> cgen.NestedDeclarator:
        """Declare a device function."""
        return cgen.FunctionDeclaration(cgen.Value("void", function.name), parameters)

    def get_function_definition(
        self, declaration: cgen.NestedDeclarator, body: cgen.Block
    ) -> cgen.Generable:
        """Define a function."""
        return cgen.FunctionBody(declaration, body)

    def get_function_name(self, function: DeviceFunction) -> str:
        """Return the name of a device function in the code."""
        return function.name

    def get_header(self, module: Module) -> str:
        """Return the header that programs include to call the functions of *module*."""
        return c_header(module, self.target)

    def has_host_function(self, launches: Sequence[Launch], *, is_single: bool) -> bool:
        """Tell whether a function makes the launches, or, if it *is_single*, the only launch.

        If the host's compiler compiles the code, there is such a function for several launches.
        """
        return not is_single and not self.target.has_work_items

    def get_build_options(
        self, launches: Sequence[Launch], *, has_simd_loops: bool, has_halves: bool
    ) -> tuple[str, ...]:
        """Return the compiler flags that the code needs."""
        return ()

    def get_host_function_declaration(
        self, name: str, parameters: Sequence[cgen.Declarator]
    ) -> cgen.NestedDeclarator:
        """Declare the host function that makes all launches."""
        return cgen.FunctionDeclaration(cgen.Value("void", name), parameters)

    #: A negative number of work-groups makes no launch.
    takes_negative_counts: ClassVar[bool] = False

    def get_host_function_start(self, launches: Sequence[Launch]) -> list[cgen.Generable]:
        """Return the statements of the host before all *launches*."""
        return []

    def get_kernel_call(
        self, launch: Launch, groups: Sequence[str], arguments: Sequence[str], *, is_only: bool
    ) -> list[cgen.Generable]:
        """Launch a function on the host; *groups* are the numbers of work-groups.

        *is_only*: nothing else is launched, now or later.
        """
        return [cgen.Statement(f"{launch.function}({', '.join(arguments)})")]

    def get_kernel_call_needs(self, launch: Launch, groups: Sequence[str]) -> tuple[Need, ...]:
        """Return the preamble that the code for a call of a function needs."""
        return ()

    def get_array_arg_decl(
        self, array: ArrayBase, element: cgen.Declarator, *, is_written: bool, restrict: bool
    ) -> cgen.Declarator:
        """Declare a parameter for an array, or a piece of one, whose *element* is declared."""
        pointer: cgen.Declarator = (
            cgen.RestrictPointer(element) if restrict else cgen.Pointer(element)
        )
        if not is_written:
            pointer = cgen.Const(pointer)  # of what it points to
        is_constant = isinstance(array, ArrayArg) and array.is_constant
        qualifier = self.target.constant_qualifier if is_constant else self.target.global_qualifier
        return cgen.DeclSpecifier(pointer, qualifier) if qualifier else pointer

    # -- variables -----------------------------------------------------------------------------

    def get_temporary_decl(
        self, temporary: TemporaryVariable, declaration: cgen.Declarator
    ) -> cgen.Declarator:
        """Declare a temporary, or the storage that several temporaries share."""
        if temporary.address_space == AddressSpace.LOCAL and self.target.local_qualifier:
            return cgen.DeclSpecifier(declaration, self.target.local_qualifier)
        return declaration

    def emit_initializer(
        self, type_name: str, name: str, value: str, *, is_const: bool
    ) -> cgen.Generable:
        """Declare a variable with its initial or, if it *is_const*, only value."""
        declaration: cgen.Declarator = cgen.Value(type_name, name)
        return cgen.Initializer(cgen.Const(declaration) if is_const else declaration, value)

    # -- statements ----------------------------------------------------------------------------

    def emit_assignment(self, insn: InstructionBase, place: str, value: str) -> cgen.Generable:
        """Assign a value; *insn* is the source instruction, with its tags."""
        return cgen.Assign(place, value)

    def emit_update(
        self, insn: InstructionBase, place: str, operator: str, value: str
    ) -> cgen.Generable:
        """Update a variable: ``place += value``."""
        return cgen.Statement(f"{place} {operator}= {value}")

    def emit_sequential_loop(
        self,
        iname: str,
        type_name: str,
        first: str,
        condition: str,
        step: int,
        body: cgen.Generable,
    ) -> cgen.Generable:
        """Make a loop over *iname* from *first*, with a step, while *condition* is true."""
        ahead = f"++{iname}" if step == 1 else f"{iname} += {step}"
        start = cgen.Line(f"{type_name} {iname} = {first}")
        return cgen.For(start, cgen.Line(condition), cgen.Line(ahead), body)

    def emit_if(
        self, condition: str, body: cgen.Generable, orelse: cgen.Generable | None = None
    ) -> cgen.Generable:
        """Make an ``if`` with statements, and optionally an ``else``."""
        if orelse is None:
            # braces say which 'if' an else is of; NVIDIA's OpenCL compiler rejects it without
            return cgen.If(cgen.Line(condition), cgen.Block([body]) if _has_else(body) else body)
        if not isinstance(body, cgen.Block | cgen.Assign | cgen.Statement):
            body = cgen.Block([body])  # an else belongs to the nearest if
        return _If(cgen.Line(condition), body, orelse)

    def emit_barrier(self, text: str, reason: str) -> cgen.Generable:
        """Make a barrier of the work-items of a group, by the target's *text*."""
        return cgen.Line(f"{text};  // {reason}" if reason else f"{text};")

    def emit_comment(self, text: str) -> cgen.Generable:
        """Make a comment."""
        return cgen.LineComment(text)


@dataclass(frozen=True)
class CFamilyTarget(CFamilyLanguage):
    """A target whose language is of the C family; a common emitter generates its code.

    Two targets are equal when their types and fields are.

    >>> import kgen as lp
    >>> [issubclass(target, CFamilyTarget) for target in (lp.CTarget, lp.OpenCLTarget)]
    [True, True]
    """

    fixed_settings: ClassVar[Mapping[str, tuple[Any, str]]] = {
        "fortran_abi": (
            False,
            "export(..., fortran=True) writes a module of Fortran with interfaces",
        )
    }

    def get_device_ast_builder(self) -> ASTBuilderBase:
        """Return the builder of the code of functions: an :class:`ASTBuilderBase`."""
        raise NotImplementedError

    @property
    def known_callables(self) -> Mapping[str, ScalarCallable]:
        """The functions that expressions can call, by name."""
        return self.get_device_ast_builder().known_callables
