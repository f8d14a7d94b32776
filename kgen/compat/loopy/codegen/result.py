"""loopy.codegen.result: the result of code generation."""

from __future__ import annotations

from collections.abc import Iterable

from kgen.codegen import CodeGenerationResult
from kgen.targets.module import GeneratedProgram

__all__ = ["CodeGenerationResult", "GeneratedProgram", "process_preambles"]


def process_preambles(preambles: Iterable[tuple[str, str]]) -> list[str]:
    r"""Return the texts of pairs ``(tag, text)`` in the order of the tags, each tag once.

    >>> process_preambles([("b", "int b;"), ("a", "int a;"), ("b", "int b;")])
    ['int a;\n', 'int b;\n']
    """
    texts: dict[str, str] = {}
    for tag, text in preambles:
        texts.setdefault(str(tag), text)
    return [f"{texts[tag]}\n" for tag in sorted(texts)]
