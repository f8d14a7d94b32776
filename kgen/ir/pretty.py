"""Kernels as text, in the layout of the documentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kgen.errors import KernelError, near_names
from kgen.ir.expr import to_text
from kgen.ir.linearization import linearization_lines

if TYPE_CHECKING:
    from kgen.ir.kernel import LoopKernel

_RULE = 75 * "-"


def _arguments(kernel: LoopKernel) -> list[str]:
    return [str(arg) for arg in kernel.args]


def _domains(kernel: LoopKernel) -> list[str]:
    depth: dict[int, int] = {}
    lines = []
    for index, domain in enumerate(kernel.domains):
        parents = [
            kernel.home_domain[name]
            for name in kernel._domain_params[index]
            if name in kernel.inames and kernel.home_domain[name] != index
        ]
        depth[index] = max((depth.get(parent, 0) + 1 for parent in parents), default=0)
        lines.append("  " * depth[index] + str(domain))
    return lines


def _tags(kernel: LoopKernel) -> list[str]:
    return [
        f"{name}: {', '.join(sorted(str(tag) for tag in kernel.inames[name].tags)) or None}"
        for name in sorted(kernel.inames)
    ]


def _temporaries(kernel: LoopKernel) -> list[str]:
    return [str(var) for _, var in sorted(kernel.temporary_variables.items())]


def _rules(kernel: LoopKernel) -> list[str]:
    return [str(rule) for _, rule in sorted(kernel.substitutions.items())]


def _instructions(kernel: LoopKernel) -> list[str]:
    """Print instructions inside their loops, which are opened and closed as they change."""
    lines: list[str] = []
    open_loops: list[str] = []
    open_conditions: list[str] = []

    def close_to(loops: int) -> None:
        while open_conditions:
            open_conditions.pop()
            lines.append("  " * (len(open_loops) + len(open_conditions)) + "end")
        while len(open_loops) > loops:
            name = open_loops.pop()
            lines.append("  " * len(open_loops) + f"end {name}")

    for insn in kernel.instructions:
        wanted = kernel.in_order(insn.within_inames)
        shared = [name for name in open_loops if name in insn.within_inames]
        keep = 0
        while keep < len(shared) and open_loops[keep] == shared[keep]:
            keep += 1
        conditions = [to_text(c) for c in insn.predicates]
        if keep < len(open_loops) or len(wanted) > keep or conditions != open_conditions:
            close_to(keep)
        for name in wanted:
            if name not in open_loops:
                lines.append("  " * len(open_loops) + f"for {name}")
                open_loops.append(name)
        for condition in conditions[len(open_conditions) :]:
            lines.append("  " * (len(open_loops) + len(open_conditions)) + f"if {condition}")
            open_conditions.append(condition)
        indent = "  " * (len(open_loops) + len(open_conditions))
        lines.extend(indent + line for line in str(insn).splitlines())
    close_to(0)
    return lines


def _dependencies(kernel: LoopKernel) -> list[str]:
    return [
        f"{insn.id} : {', '.join(sorted(insn.depends_on))}"
        for insn in kernel.instructions
        if insn.depends_on
    ]


def _linearization(kernel: LoopKernel) -> list[str]:
    return list(linearization_lines(kernel.linearization or (), kernel.id_to_insn))


_SECTIONS: tuple[tuple[str, str, Callable[[LoopKernel], list[str]]], ...] = (
    ("arguments", "ARGUMENTS:", _arguments),
    ("domains", "DOMAINS:", _domains),
    ("tags", "INAME TAGS:", _tags),
    ("variables", "TEMPORARIES:", _temporaries),
    ("rules", "SUBSTITUTION RULES:", _rules),
    ("instructions", "INSTRUCTIONS:", _instructions),
    ("dependencies", "DEPENDENCIES: (use show_dependency_graph to visualize)", _dependencies),
    ("linearization", "LINEARIZATION:", _linearization),
)


def stringify_kernel(
    kernel: LoopKernel,
    *,
    what: Any = None,
    with_dependencies: bool = False,
    has_rules: bool = True,
    has_titles: bool = True,
) -> str:
    """Print *kernel*: arguments, domains, tags, temporaries, rules, instructions, order.

    *what* is a section name, several of them (comma-separated or a list), or ``None``.
    *has_rules*: with lines between sections, *has_titles*: with their titles.
    """
    if what is None:
        wanted = {key for key, _, _ in _SECTIONS} | {"name"}
        if not with_dependencies:
            wanted.discard("dependencies")
    else:
        items = what.split(",") if isinstance(what, str) else what
        wanted = {item.strip().lower() for item in items}
        known = ["name", *(key for key, _, _ in _SECTIONS)]
        for name in sorted(wanted.difference(known)):
            raise KernelError(
                f"a kernel has no section '{name}' to print",
                kernel=kernel.name,
                hint=near_names(name, known),
            )
    rule = [_RULE] if has_rules else []
    lines = [*rule]
    if "name" in wanted:
        lines += [f"KERNEL: {kernel.name}", *rule]
    always = ("arguments", "domains", "tags", "instructions")
    for key, title, section in _SECTIONS:
        if key not in wanted:
            continue
        content = section(kernel)
        if content or key in always:
            lines += [*([title] if has_titles else []), *content, *rule]
    return "\n".join(lines)
