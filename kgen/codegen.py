"""Generated code for users: programs, headers, function bodies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgen.errors import CodegenError
from kgen.ir.checked import checked
from kgen.ir.kernel import LoopKernel
from kgen.ir.unit import TranslationUnit, kernel_of
from kgen.lazy import more_names
from kgen.lowering import generate_module
from kgen.targets.builder import CFamilyTarget
from kgen.targets.module import GeneratedProgram, Module

__all__ = [
    "CodeGenerationResult",
    "generate_body",
    "generate_code",
    "generate_code_v2",
    "generate_header",
]

if not TYPE_CHECKING:  # programs written for loopy use its names, too
    __getattr__ = more_names(__name__, "kgen.compat.loopy.codegen")


@dataclass(frozen=True)
class CodeGenerationResult:
    """The generated code of all entry points of a program.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = 2*a[i]", [lp.GlobalArg("a", "float32"), ...],
    ...     target=lp.CTarget())
    >>> code = lp.generate_code_v2(unit)
    >>> [program.name for program in code.device_programs]
    ['kgen_kernel']
    """

    modules: tuple[Module, ...]

    def __str__(self) -> str:
        return self.all_code()

    def device_code(self) -> str:
        """Return the device code."""
        return "\n\n".join(module.device_source for module in self.modules)

    def host_code(self) -> str:
        """Return the host code, which launches the device code."""
        return "\n\n".join(module.host_source for module in self.modules)

    def all_code(self) -> str:
        """Return host and device code."""
        texts = [self.device_code()]
        texts += [module.host_source for module in self.modules if module.host_source]
        return "\n\n".join(texts)

    @property
    def device_programs(self) -> tuple[GeneratedProgram, ...]:
        """The device functions of all entry points: one for each launch."""
        return tuple(program for module in self.modules for program in module.device_programs)

    @property
    def device_preambles(self) -> list[tuple[str, str]]:
        """The preamble of the device functions of each entry point: its name, and the text."""
        return [(module.name, module.preamble) for module in self.modules if module.preamble]

    @property
    def host_preambles(self) -> list[tuple[str, str]]:
        """The preambles of host code, like ``device_preambles``: none, on all targets."""
        return []

    @property
    def host_programs(self) -> dict[str, GeneratedProgram]:
        """The host code of each entry point, by name."""
        return {m.name: GeneratedProgram(m.name, False, m.host_source) for m in self.modules}

    @property
    def host_program(self) -> GeneratedProgram:
        """The host code of the only entry point; raises :class:`CodegenError` if there are more."""
        programs = self.host_programs
        if len(programs) > 1:
            raise CodegenError(
                f"the program has {len(programs)} entry points: {', '.join(programs)}",
                hint="host_programs has the host code of each",
            )
        return next(iter(programs.values()))


@checked
def generate_code_v2(t_unit: TranslationUnit | LoopKernel) -> CodeGenerationResult:
    """Generate code for all entry points; all types must be known.

    ``generate_code_v2(add_dtypes(knl, {"a": np.float32})).device_code()`` is the text.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = 2*a[i]", [lp.GlobalArg("a", "float32"), ...],
    ...     target=lp.CTarget())
    >>> print(generate_code_v2(unit).device_code())
    void kgen_kernel(float const *__restrict__ a, int const n, float *__restrict__ out)
    {
      for (int i = 0; i < n; ++i)
        out[i] = 2.0f * a[i];
    }
    """
    if isinstance(t_unit, LoopKernel):
        return CodeGenerationResult((generate_module(t_unit),))
    return CodeGenerationResult(
        tuple(generate_module(t_unit, name) for name in sorted(t_unit.entrypoints))
    )


@dataclass(frozen=True)
class CodeLine:
    """A line of generated code, and the instructions that it is written for."""

    text: str
    insn_ids: tuple[str, ...] = ()


def generate_lines(
    unit: TranslationUnit | LoopKernel, entrypoint: str | None = None
) -> tuple[CodeLine, ...]:
    """Generate device code line by line, with the instructions whose statements the lines are.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<4 }", "out[i] = 2*i {id=double}", target=lp.CTarget())
    >>> [line for line in generate_lines(unit) if line.insn_ids]
    [CodeLine(text='    out[i] = 2 * i;', insn_ids=('double',))]
    """
    statements: list[tuple[str, str]] = []
    lines = generate_module(unit, entrypoint, statements=statements).device_source.split("\n")
    found: dict[int, tuple[str, ...]] = {}
    at = 0
    for insn_id, statement in statements:
        for text in map(str.strip, statement.split("\n")):
            place = next((k for k in range(at, len(lines)) if lines[k].strip() == text), None)
            if place is not None:
                found[place] = (*found.get(place, ()), insn_id)
                at = place + 1
    return tuple(CodeLine(text, found.get(k, ())) for k, text in enumerate(lines))


@checked
def generate_code(kernel: TranslationUnit | LoopKernel) -> tuple[str, tuple[Any, ...]]:
    """Return the device code of a kernel, and its arguments; :func:`generate_code_v2` has more.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = 2*a[i]", [lp.GlobalArg("a", "float32"), ...],
    ...     target=lp.CTarget())
    >>> code, args = generate_code(unit)
    >>> code == generate_code_v2(unit).device_code(), [arg.name for arg in args]
    (True, ['a', 'n', 'out'])
    """
    result = generate_code_v2(kernel)
    return result.device_code(), kernel_of(kernel).args


@checked
def generate_header(
    kernel: TranslationUnit, codegen_result: CodeGenerationResult | None = None
) -> list[str]:
    """Return a header for each entry point, with the declarations of its functions.

    Headers for C are complete files, for programs in C11 and C++17. Headers for CUDA are for files
    that nvcc compiles; other compilers see an empty file. Headers for OpenCL and ISPC contain only
    declarations, in the language of the device.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = 2*a[i]", [lp.GlobalArg("a", "float32"), ...],
    ...     target=lp.CTarget())
    >>> print(generate_header(unit)[0])
    #ifndef KGEN_kgen_kernel_H
    #define KGEN_kgen_kernel_H
    <BLANKLINE>
    #ifdef __cplusplus
    extern "C" {
    #endif
    <BLANKLINE>
    void kgen_kernel(float const *__restrict__ a, int const n, float *__restrict__ out);
    <BLANKLINE>
    #ifdef __cplusplus
    }
    #endif
    <BLANKLINE>
    #endif
    """
    result = codegen_result or generate_code_v2(kernel)
    assert isinstance(kernel.target, CFamilyTarget)
    builder = kernel.target.get_device_ast_builder()
    return [builder.get_header(module) for module in result.modules]


@checked
def generate_body(kernel: TranslationUnit | LoopKernel) -> str:
    """Return the body of the only device function; nothing for a kernel without instructions.

    Raises :class:`CodegenError` for a kernel of several launches.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = 2*a[i]", [lp.GlobalArg("a", "float32"), ...],
    ...     target=lp.CTarget())
    >>> print(generate_body(unit))
      for (int i = 0; i < n; ++i)
        out[i] = 2.0f * a[i];
    """
    name = kernel_of(kernel).name  # rejects several entry points
    (module,) = generate_code_v2(kernel).modules
    if len(module.device_programs) > 1:
        raise CodegenError(
            f"there are {len(module.device_programs)} device functions, one for each launch",
            kernel=name,
            hint="generate_code_v2(...).device_code() returns the text of all",
        )
    return "".join(program.body for program in module.device_programs)
