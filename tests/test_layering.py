"""The architecture, read off the imports: direction, who may use which package, none hidden."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from pytools.graph import compute_sccs

import kgen
from tools import files_md

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "kgen"

# Each room and the rooms that it may import besides itself. A file directly below kgen/ is a room
# of its own; one that is not listed is a facade: it may import all, and only __init__ imports it.
# On top of all are rooms that nothing in kgen imports: loopy's names for kgen, the command line.
ON_TOP = {"compat": set[str](), "cli": set[str](), "__main__": {"cli"}}
# Names that are looked up when they are used, in any room that has loopy's names, too.
ANYWHERE = {"lazy"}
BELOW_ANALYSIS = {"errors", "ir"}
BELOW_AST = BELOW_ANALYSIS | {"analysis", "transforms", "schedule"}
BELOW_HOST = BELOW_AST | {"ast", "targets", "lowering", "codegen", "launches"}
BELOW_RUNTIME = BELOW_HOST | {"host"}
ON_READY = BELOW_RUNTIME | {"frontend", "ready"}
MAY_IMPORT: dict[str, set[str]] = {
    "lazy": set(),
    "errors": set(),
    "html": set(),
    "version": set(),
    "ir": {"errors"},
    "analysis": BELOW_ANALYSIS,
    "transforms": BELOW_ANALYSIS | {"analysis"},
    "schedule": BELOW_ANALYSIS | {"analysis"},
    "ast": BELOW_AST,
    "targets": BELOW_AST | {"ast"},
    "statistics": BELOW_RUNTIME,  # what it counts is prepared as code is
    "work_items": BELOW_AST,
    "lowering": BELOW_AST | {"ast", "targets", "work_items"},
    "codegen": BELOW_AST | {"ast", "targets", "lowering"},
    "launches": BELOW_AST | {"ast", "targets", "lowering"},
    "host": BELOW_HOST,
    "exporters": BELOW_RUNTIME | {"version"},
    "runtime": BELOW_RUNTIME | {"version"},
    "performance": BELOW_RUNTIME | {"runtime", "statistics", "frontend", "html"},
    "library": BELOW_RUNTIME | {"frontend"},
    "draw": BELOW_RUNTIME | {"runtime", "statistics", "performance"},
    "notebook": BELOW_RUNTIME
    | {"runtime", "statistics", "frontend", "performance", "verification", "draw", "html"},
    "tuning": BELOW_RUNTIME
    | {"runtime", "statistics", "frontend", "performance", "verification", "equivalence", "html"},
    "ready": BELOW_RUNTIME | {"runtime", "frontend", "tuning"},
    "elementwise": ON_READY,
    "reduction": ON_READY,
    "scan": ON_READY,
    "algorithm": ON_READY | {"elementwise", "scan"},
    "linalg": ON_READY | {"autoscheduler", "library", "runtime", "tuning"},
    "autoscheduler": BELOW_RUNTIME | {"runtime", "statistics", "performance", "tuning", "origin"},
    "origin": BELOW_RUNTIME,
    "verification": BELOW_RUNTIME | {"origin"},
    "equivalence": BELOW_RUNTIME | {"origin", "verification"},
}

ISL_IN_IR = {"kgen.ir.sets", "kgen.ir.grid"}
ISL_ABOVE_IR = {"kgen.analysis", "kgen.schedule", "kgen.ast", "kgen.statistics"}
# Functions of loopy's that take isl's sets, and its frontend, which makes domains.
FORTRAN = "kgen.compat.loopy.frontend.fortran"
ISL_IN_COMPAT = {"kgen.compat.loopy.symbolic", "kgen.compat.loopy.isl_helpers", FORTRAN}

# Packages whose use is confined, and to where (a module, or a folder with all below it).
CONFINED: dict[str, set[str]] = {
    "islpy": {
        *ISL_IN_IR,
        *ISL_IN_COMPAT,
        "kgen.analysis",
        "kgen.schedule",
        "kgen.ast",
        "kgen.statistics",
    },
    "namedisl": {*ISL_IN_IR, *ISL_ABOVE_IR},
    "cgen": {"kgen.ast", "kgen.targets", "kgen.exporters"},
    "pyopencl": {"kgen.runtime.opencl"},
    "pycuda": {"kgen.runtime.cuda"},
    "pygments": {"kgen.runtime.highlight"},
    "pycparser": {"kgen.ready"},
    "pcpp": {"kgen.ready.c_text", FORTRAN},
    "fparser": {f"{FORTRAN}.source"},
    "click": {"kgen.cli"},
    "rich": {"kgen.cli", "kgen.performance.coloured"},
    "matplotlib": {"kgen.draw.plots", "kgen.performance.plot", "kgen.tuning.plots"},
    "optuna": {"kgen.tuning.strategies.with_optuna"},
    "threadpoolctl": {"kgen.tuning.strategies.threads"},
}
SOURCES = sorted(PACKAGE.rglob("*.py"))


@dataclass(frozen=True)
class Import:
    """One imported module, and where it is imported."""

    importer: str
    imported: str
    line: int
    in_function: bool
    for_types_only: bool

    def __str__(self) -> str:
        return f"{self.importer}, line {self.line}: {self.imported}"


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def walk(node: ast.AST, around: tuple[ast.AST, ...] = ()) -> Iterator[tuple[ast.AST, ...]]:
    """Yield each node below *node*, after those around it."""
    for child in ast.iter_child_nodes(node):
        yield (*around, child)
        yield from walk(child, (*around, child))


def is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imported_by(node: ast.AST, importer: str, is_package: bool) -> list[str]:
    """Return the modules that a statement imports, by full name."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        parts = importer.split(".")
        kept = parts[: len(parts) - node.level + is_package]
        base = ".".join([*kept, base] if base else kept)
    # 'from kgen.ir import data' is an import of kgen.ir.data; the last part may be no module.
    submodules = [f"{base}.{alias.name}" for alias in node.names]
    return [name if base.startswith("kgen") and is_module(name) else base for name in submodules]


@cache
def imports_of(path: Path) -> tuple[Import, ...]:
    importer = module_name(path)
    return tuple(
        Import(
            importer,
            imported,
            line=getattr(node, "lineno", 0),
            in_function=any(map(is_function, around)),
            for_types_only=any(map(is_type_checking, around)),
        )
        for *around, node in walk(ast.parse(path.read_text()))
        for imported in dict.fromkeys(imported_by(node, importer, path.name == "__init__.py"))
    )


ALL_IMPORTS = [item for path in SOURCES for item in imports_of(path)]


def room_of(module: str) -> str:
    """Return the folder or file directly below kgen/ that holds *module*; '' for kgen itself."""
    return module.partition(".")[2].partition(".")[0]


@cache
def allowed_rooms(room: str) -> set[str]:
    facades = {room_of(module_name(path)) for path in SOURCES} - {*MAY_IMPORT, *ON_TOP, ""}
    everything = set(MAY_IMPORT)
    if room in ON_TOP:
        return everything | facades | {""} | ON_TOP[room]
    return everything | facades if room == "" else MAY_IMPORT.get(room, everything)


def inside(module: str, place: str) -> bool:
    return module == place or module.startswith(place + ".")


def test_there_is_something_to_check() -> None:
    assert {room_of(module_name(path)) for path in SOURCES} >= {"errors", "ir", "targets"}
    assert any(item.imported.startswith("kgen.ir.") for item in ALL_IMPORTS)


def test_no_module_has_the_name_of_a_function() -> None:
    public = {name for name in kgen.__all__ if not isinstance(getattr(kgen, name), ModuleType)}
    assert not public & {room_of(module_name(path)) for path in SOURCES}


def test_imports_point_down() -> None:
    wrong = []
    for item in ALL_IMPORTS:
        if item.imported.partition(".")[0] != "kgen":
            continue
        room, target = room_of(item.importer), room_of(item.imported)
        if target not in {room, *allowed_rooms(room), *ANYWHERE}:
            wrong.append(str(item))
    assert not wrong, wrong


def test_rooms_of_transformations_point_down() -> None:
    # What is directly in the folder is shared by all rooms.
    rooms = ["", "expressions", "loops", "storage", "reductions", "programs"]
    wrong = []
    for item in ALL_IMPORTS:
        if inside(item.importer, "kgen.transforms") and inside(item.imported, "kgen.transforms"):
            importer, imported = (
                name.split(".")[2] if name.count(".") > 2 else ""
                for name in (item.importer, item.imported)
            )
            if rooms.index(imported) > rooms.index(importer):
                wrong.append(str(item))
    assert not wrong, wrong


def cycles(items: Iterable[Import]) -> list[list[str]]:
    """Return the cycles of modules that import each other, in the order of their names."""
    graph: dict[str, list[str]] = {module_name(path): [] for path in SOURCES}
    for item in items:
        if item.imported in graph:
            graph[item.importer].append(item.imported)
    return sorted(sorted(part) for part in compute_sccs(graph) if len(part) > 1)


def test_modules_form_no_cycle() -> None:
    assert cycles(item for item in ALL_IMPORTS if not item.for_types_only) == []


def test_one_cycle_of_types_is_left() -> None:
    # A kernel prints itself, and finds its grid, by modules that name its type.
    assert cycles(ALL_IMPORTS) == [["kgen.ir.grid", "kgen.ir.kernel", "kgen.ir.pretty"]]


@pytest.mark.parametrize("package", sorted(CONFINED))
def test_package_stays_where_it_belongs(package: str) -> None:
    wrong = [
        str(item)
        for item in ALL_IMPORTS
        if inside(item.imported, package)
        and not any(inside(item.importer, place) for place in CONFINED[package])
    ]
    assert not wrong, wrong


def test_positions_of_dimensions_are_known_in_one_place() -> None:
    # isl numbers the dimensions of each kind; all other modules go by name (kgen/ir/sets/dims.py).
    wrong = [
        f"{module_name(path)}, line {node.lineno}: {node.attr}"
        for path in SOURCES
        if not inside(module_name(path), "kgen.ir.sets")
        for *_, node in walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in {"dim_type", "find_dim_by_name"}
    ]
    assert not wrong, wrong


def test_no_import_inside_a_function() -> None:
    wrong = [str(item) for item in ALL_IMPORTS if item.in_function]
    assert not wrong, wrong


def test_only_a_target_loads_a_module_by_name() -> None:
    # How the runtime of a target comes in, on its first call, with the package that it needs.
    users = {item.importer for item in ALL_IMPORTS if item.imported == "importlib"}
    # And the command line, for files of users.
    assert users == {
        "kgen.ir.target",
        "kgen.cli.programs",
        "kgen.ir.optional",  # and packages that only some programs need
        "kgen.lazy",  # and public names, when they are used, and loopy's modules
    }
    text = "".join(path.read_text() for path in SOURCES)
    named = set(re.findall(r'runtime_module\b[^"\n]*= "([\w.]+)"', text))
    assert named == {f"kgen.runtime.{backend}" for backend in ("c", "opencl", "cuda")}


def test_every_package_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    declared = {re.split(r"[^\w-]", spec)[0] for group in groups for spec in group}
    imported = {item.imported.partition(".")[0] for item in ALL_IMPORTS}
    undeclared = imported - declared - sys.stdlib_module_names - {"kgen"}
    assert not undeclared, undeclared


def test_init_holds_no_logic() -> None:
    body = ast.parse((PACKAGE / "__init__.py").read_text()).body
    plain = ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.Expr
    wrong = [f"line {node.lineno}" for node in body if not isinstance(node, plain)]
    assert not wrong, wrong


def test_files_md_names_every_file_in_one_sentence() -> None:
    # Each line is made from a file's docstring; a file without one raises here.
    hint = "docs/files.md is out of date; run python tools/files_md.py"
    assert files_md.PAGE.read_text() == files_md.render(), hint
    entries = re.findall(r"^- `(kgen/\S+)`: .+\.$", files_md.render(), re.MULTILINE)
    assert sorted(entries) == sorted(str(path.relative_to(ROOT)) for path in SOURCES)
