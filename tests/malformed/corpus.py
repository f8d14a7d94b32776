"""What tests, examples and pages say to kgen: texts of kernels, and calls of public functions."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import kgen as lp

ROOT = Path(__file__).parents[2]
#: Calls without a kernel to change, that take long, or that change this process or its files.
LEFT_OUT = {
    "auto_test_vs_ref",
    "clear_in_mem_caches",
    "for_each_kernel",
    "make_function",
    "make_kernel",
    "measure_device",
    "memoize_on_disk",
    "per_device",
    "register_reduction_parser",
    "set_caching_enabled",
    "show_dependency_graph",
}


@dataclass(frozen=True)
class Source:
    """The domains and instructions of a kernel, and whether they are in sequence."""

    domains: Any
    instructions: Any
    options: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Call:
    """A call of a public function on a kernel: what it takes beside the kernel."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        given = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwargs)]
        return f"{self.name}({', '.join(['knl', *given])})"


def _trees() -> Iterator[ast.Module]:
    for folder in ("tests", "examples", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "malformed" not in path.parts:
                yield ast.parse(path.read_text())
    for path in sorted((ROOT / "docs").glob("*.md")):
        for block in re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL):
            lines = re.findall(r"^(?:>>>|\.\.\.) ?(.*)$", block, re.MULTILINE)
            try:
                yield ast.parse("\n".join(lines))
            except SyntaxError:
                continue


@cache
def calls_in_suite() -> tuple[tuple[str, ast.Call], ...]:
    """Return all calls of functions of kgen, by name."""
    return tuple(
        (node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id, node)
        for tree in _trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name)
    )


def _literal(node: ast.expr) -> Any:
    """Return the value of what stands for itself; raises ValueError for anything else."""
    match node:
        case ast.Attribute(value=ast.Name(id="np"), attr=name):
            return name
        case ast.Attribute(value=ast.Name(id="lp"), attr=name):
            return getattr(lp, name)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="lp"), attr=name)) if name in _OBJECTS:
            args = [_literal(arg) for arg in node.args]
            return getattr(lp, name)(
                *args, **{str(k.arg): _literal(k.value) for k in node.keywords}
            )
        case ast.List():
            return [_literal(item) for item in node.elts]
    return ast.literal_eval(node)


_OBJECTS = (
    "Assignment",
    "BarrierInstruction",
    "CInstruction",
    "ConstantArg",
    "GlobalArg",
    "NoOpInstruction",
    "TemporaryVariable",
    "ValueArg",
)


def _values(call: ast.Call, leading: int) -> tuple[tuple[Any, ...], tuple[tuple[str, Any], ...]]:
    args = tuple(_literal(arg) for arg in call.args[leading:])
    return args, tuple((str(k.arg), _literal(k.value)) for k in call.keywords)


@cache
def sources() -> tuple[Source, ...]:
    """Return all kernels that are written out."""
    found: dict[str, Source] = {}
    for name, call in calls_in_suite():
        if name in ("make_kernel", "make_function") and len(call.args) >= 2:
            try:
                args, options = _values(call, 0)
            except (ValueError, TypeError, lp.KgenError):
                continue
            kept = tuple((name, value) for name, value in options if name in _SETTINGS)
            if len(args) > 2:
                kept += (("kernel_data", args[2]),)
            found.setdefault(repr(args), Source(args[0], args[1], kept))
    return tuple(found.values())


_SETTINGS = ("assumptions", "seq_dependencies", "lang_version", "loop_priority", "options", "name")


@cache
def calls() -> tuple[Call, ...]:
    """Return all calls of public functions whose arguments beside the kernel are written out."""
    public = {n for n in {*lp.__all__} - LEFT_OUT if inspect.isfunction(getattr(lp, n))}
    found: dict[str, Call] = {}
    for name, node in calls_in_suite():
        if name in public:
            try:
                args, kwargs = _values(node, 1)
            except (ValueError, TypeError, lp.KgenError):
                continue
            call = Call(name, args, kwargs)
            found.setdefault(str(call), call)
    for name in sorted(public):
        found.setdefault(name, Call(name))
    return tuple(found.values())
