"""loopy.kernel.creation: kernels, by default with the name ``loopy_kernel``."""

from __future__ import annotations

from typing import Any, Final

from kgen import frontend
from kgen.ir.data import SubstitutionRule
from kgen.ir.instruction import InstructionBase, UniqueName
from kgen.ir.language import instructions as language
from kgen.ir.unit import TranslationUnit
from kgen.library import einsum
from kgen.transforms.programs.callables import rename_callable

__all__ = ["UniqueName", "make_copy_kernel", "make_function", "make_kernel", "parse_instructions"]

_NAME: Final = "loopy_kernel"


def make_kernel(
    domains: Any,
    instructions: Any,
    kernel_data: Any = None,
    *,
    name: str | None = None,
    **settings: Any,
) -> TranslationUnit:
    """Make a program of one kernel, as :func:`kgen.make_kernel` does.

    >>> make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]").default_entrypoint.name
    'loopy_kernel'
    """
    return frontend.make_kernel(domains, instructions, kernel_data, name=_name(name), **settings)


def make_function(
    domains: Any,
    instructions: Any,
    kernel_data: Any = None,
    *,
    name: str | None = None,
    **settings: Any,
) -> TranslationUnit:
    """Make a kernel that others call, as :func:`kgen.make_function` does.

    >>> sorted(make_function("{ [i]: 0<=i<n }", "out[i] = 2*a[i]").callables_table)
    ['loopy_kernel']
    """
    return frontend.make_function(domains, instructions, kernel_data, name=_name(name), **settings)


def make_copy_kernel(new_dim_tags: Any, old_dim_tags: Any = None) -> TranslationUnit:
    """Make the kernel that copies an array to another layout, as :func:`kgen.make_copy_kernel`.

    >>> make_copy_kernel("N0,N1").default_entrypoint.name
    'loopy_kernel'
    """
    unit = einsum.make_copy_kernel(new_dim_tags, old_dim_tags)
    return rename_callable(unit, unit.default_entrypoint.name, _NAME)


def parse_instructions(
    instructions: Any,
) -> tuple[list[InstructionBase], list[list[tuple[str, str]]], dict[str, SubstitutionRule]]:
    r"""Read text, or a list of texts and objects: instructions, and substitution rules by name.

    Between them are the loops of each instruction to duplicate: none, kgen's text has no syntax for
    these. Nothing is resolved yet: ids, dependencies and loops are as written.

    >>> insns, _, rules = parse_instructions("twice(x) := 2*x\nout[i] = twice(a[i]) {id=one}")
    >>> print(*insns, *rules)
    out[i] = twice(a[i])  {id=one} twice

    Raises :class:`KgenSyntaxError` with line, column and a caret.
    """
    insns, rules = language.parse_instructions(instructions)
    return insns, [[] for _ in insns], rules


def _name(name: str | None) -> str:
    return _NAME if name is None else name
