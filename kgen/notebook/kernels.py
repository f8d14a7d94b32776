"""A kernel as HTML: loops, arrays, instructions, and the lines of code that belong to them.

No script is needed: styles with ``:has()`` link an instruction to its lines of code, which
notebooks show, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from kgen.codegen import CodeLine, generate_lines
from kgen.errors import KgenError
from kgen.html import table
from kgen.ir.data import ArrayBase
from kgen.ir.expr import to_text
from kgen.ir.kernel import LoopKernel
from kgen.ir.types import AddressSpace, NumpyType
from kgen.ir.unit import TranslationUnit
from kgen.runtime.highlight import highlighted_lines
from kgen.statistics.trips import trip_count

__all__ = ["code_html", "kernel_html", "program_html"]

#: Backgrounds of instructions and their lines, darker under the mouse.
_STYLE = """
.kgen-kernel { color: #222; background: #fff; }
.kgen-kernel summary { font-weight: bold; cursor: pointer; margin-top: 0.5em; }
.kgen-kernel table { border-collapse: collapse; }
.kgen-kernel td, .kgen-kernel th {
  border: 1px solid #ccc; padding: 0.1em 0.6em; text-align: left; font-family: monospace; }
.kgen-kernel pre { overflow-x: auto; background: #fff; color: #222; line-height: 1.3; }
.kgen-kernel tr[data-insn]:hover, .kgen-kernel span[data-insn]:hover { background: #ffe9a8; }
"""


def program_html(program: TranslationUnit) -> str:
    """Return all kernels of a program, with the code of those that can be called."""
    return "\n".join(
        kernel_html(
            kernel, lines_or_reason(program, kernel.name) if is_entry(program, kernel) else None
        )
        for kernel in program.kernels()
    )


def is_entry(program: TranslationUnit, kernel: LoopKernel) -> bool:
    """Tell whether a kernel of a program can be called."""
    return kernel.name in program.entrypoints


def lines_or_reason(
    program: TranslationUnit | LoopKernel, entrypoint: str | None = None
) -> Sequence[CodeLine] | str:
    """Return the lines of the code, or why there is none."""
    try:
        return generate_lines(program, entrypoint)
    except KgenError as err:
        return str(err)


def kernel_html(kernel: LoopKernel, code: Sequence[CodeLine] | str | None) -> str:
    """Return a kernel with its *code*, or with the reason why there is none."""
    ids = [str(insn.id) for insn in kernel.instructions]
    head = f"<p><b>{escape(kernel.name)}</b>, {escape(type(kernel.target).__name__)}</p>"
    parts = [
        head,
        _part("loops", _loops(kernel)),
        _part("arrays and numbers", _variables(kernel)),
        _part("instructions", _instructions(kernel)),
    ]
    if kernel.substitutions:
        rules = (escape(str(rule)) for _, rule in sorted(kernel.substitutions.items()))
        parts.append(_part("rules", "<pre>" + "\n".join(rules) + "</pre>"))
    if isinstance(code, str):
        parts.append(_part("code", f"<pre>no code: {escape(code)}</pre>"))
    elif code is not None:
        parts.append(_part("code", code_html(code, ids)))
    return linked("\n".join(parts), ids)


def linked(content: str, ids: Iterable[str]) -> str:
    """Return a part of a page that highlights everything that belongs to an instruction."""
    name = "k" + hashlib.sha256(content.encode()).hexdigest()[:12]
    rules = "\n".join(
        f'#{name}:has([data-insn~="{insn}"]:hover) [data-insn~="{insn}"] {{ background: #ffe9a8; }}'
        for insn in map(escape, ids)
    )
    style = f"<style>{_STYLE}{rules}</style>"
    return f'{style}\n<div class="kgen-kernel" id="{name}">\n{content}\n</div>'


def _part(title: str, content: str) -> str:
    return f"<details open><summary>{title}</summary>\n{content}\n</details>"


def _loops(kernel: LoopKernel) -> str:
    domains = "".join(f"<pre>{escape(str(domain))}</pre>" for domain in kernel.domains)
    rows = [
        (name, ", ".join(sorted(map(str, kernel.inames[name].tags))), _trips(kernel, name))
        for name in kernel.in_order(kernel.all_inames())
    ]
    return domains + table(("loop", "tags", "iterations"), rows)


def _trips(kernel: LoopKernel, name: str) -> str:
    """Return the trip count of a loop, in each iteration of the enclosing ones."""
    domain = kernel.home_domain[name]
    around = [
        other
        for other in kernel.all_inames()
        if other != name
        and kernel.home_domain[other] == domain
        and kernel.iname_order[other] < kernel.iname_order[name]
    ]
    return str(trip_count(kernel, name, around))


def _variables(kernel: LoopKernel) -> str:
    every = (*kernel.args, *kernel.temporary_variables.values())
    rows = [(var.name, type(var).__name__, _type(var), _shape(var), _space(var)) for var in every]
    return table(("name", "kind", "type", "shape", "memory"), rows)


def _type(variable: object) -> str:
    dtype = getattr(variable, "dtype", None)
    return str(dtype.numpy_dtype) if isinstance(dtype, NumpyType) else "inferred"


def _shape(variable: object) -> str:
    shape = variable.shape if isinstance(variable, ArrayBase) else ()
    return " x ".join(map(_axis, shape)) if isinstance(shape, tuple) else "inferred"


def _axis(extent: object) -> str:
    return "?" if extent is None else to_text(extent)


def _space(variable: object) -> str:
    space = getattr(variable, "address_space", None)
    return space.name.lower() if isinstance(space, AddressSpace) else ""


def _instructions(kernel: LoopKernel) -> str:
    head = "".join(f"<th>{title}</th>" for title in ("id", "loops", "instruction", "waits for"))
    return f"<table><tr>{head}</tr>{''.join(_rows(kernel))}</table>"


def _rows(kernel: LoopKernel) -> Iterator[str]:
    for insn in kernel.instructions:
        loops = kernel.in_order(insn.within_inames)
        text = str(insn).rpartition("  {")[0] or str(insn)
        texts = (str(insn.id), ", ".join(loops), text.strip(), ", ".join(sorted(insn.depends_on)))
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in texts)
        yield f'<tr data-insn="{escape(str(insn.id))}">{cells}</tr>'


def code_html(lines: Sequence[CodeLine], ids: Sequence[str]) -> str:
    """Return code in colours; each line refers to the instructions *ids* that it implements."""
    coloured = highlighted_lines("\n".join(line.text for line in lines))
    texts = (_line(text, line, ids) for text, line in zip(coloured, lines, strict=True))
    return "<pre>" + "\n".join(texts) + "</pre>"


def _line(text: str, line: CodeLine, ids: Sequence[str]) -> str:
    owners = dict.fromkeys(owner_of(insn, ids) for insn in line.insn_ids)
    if not owners:
        return text
    return f'<span data-insn="{escape(" ".join(owners))}">{text}</span>'


def owner_of(insn_id: str, ids: Sequence[str]) -> str:
    """Return the user's instruction from which another one, with a longer id, was derived.

    >>> owner_of("insn_j_update", ["insn", "insn_0"])
    'insn'
    """
    parents = (name for name in ids if insn_id == name or insn_id.startswith(f"{name}_"))
    return max(parents, key=len, default=insn_id)
