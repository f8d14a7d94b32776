"""Public names of a package that are imported on first use, as listed in its stub."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

__all__ = ["LoadedModule", "more_names", "public_names"]


def public_names(
    package: str, more: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    The stub beside the package's ``__init__.py`` has an import for each name; type checkers read
    it, too. Modules of the package are attributes as well. A name is looked up once, by
    PEP 562: then it is an attribute like others. Names that the package does not have are
    those of the module *more*, if that has them; they are not listed. So are its modules.
    """
    module = sys.modules[package]
    if more:
        sys.meta_path.insert(0, _ModulesOfBoth(package, more))
    stub = pkgutil.get_data(package, "__init__.pyi") or b""  # also from a zipped package
    places = _imports(stub.decode())
    origins = {name: place for name, place in places.items() if place[0] != package}
    unlisted: set[str] = set()  # looked up in *more*

    def get(name: str) -> Any:
        if name in origins:
            place, own_name = origins[name]
            value = getattr(importlib.import_module(place), own_name)
        elif not name.startswith("_") and importlib.util.find_spec(f"{package}.{name}"):
            value = importlib.import_module(f"{package}.{name}")
        else:
            return other(name)
        setattr(module, name, value)
        return value

    def other(name: str) -> Any:
        found = importlib.import_module(more) if more and not name.startswith("_") else None
        if found is None or not hasattr(found, name):
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}", name=name, obj=module
            )
        value = getattr(found, name)
        if name in vars(found):  # else it may change
            unlisted.add(name)
            setattr(module, name, value)
        return value

    def names() -> list[str]:
        modules = (found.name for found in pkgutil.iter_modules(module.__path__))
        public = (name for name in modules if not name.startswith("_"))
        others = (
            name
            for name, value in vars(module).items()
            if isinstance(value, ModuleType) and more and value.__name__.startswith(f"{more}.")
        )
        return sorted({*vars(module), *origins, *public}.difference(unlisted, others))

    return get, names, list(origins)


def more_names(module: str, more: str) -> Callable[[str], Any]:
    """Return ``__getattr__`` of a module: names that it does not have are those of *more*.

    >>> import kgen
    >>> kgen.diagnostic.LoopyError is kgen.KgenError
    True
    """

    def get(name: str) -> Any:
        is_package = not name.startswith("_") and hasattr(sys.modules[module], "__path__")
        if not name.startswith("_") and not (is_package and _own_spec(f"{module}.{name}")):
            try:
                return getattr(importlib.import_module(more), name)
            except AttributeError as error:
                if type(error) is not AttributeError:  # it says what to use instead
                    raise
        raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)

    return get


def _own_spec(name: str) -> ModuleSpec | None:
    """Find a module in the folder of its package; ``None`` for modules of other packages."""
    package = sys.modules[name.rpartition(".")[0]]
    if package.__name__ != name.rpartition(".")[0]:
        return None
    return PathFinder.find_spec(name, package.__path__)


class _ModulesOfBoth(MetaPathFinder):
    """Find modules of a package, and as modules of it those that only another package has.

    They are the same objects under both names.
    """

    def __init__(self, package: str, more: str) -> None:
        self.prefix, self.more = f"{package}.", f"{more}."

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(self.prefix) or fullname.startswith(self.more):
            return None
        if own := _own_spec(fullname):
            return own
        other = self.more + fullname.removeprefix(self.prefix)
        try:
            found = importlib.util.find_spec(other)
        except ModuleNotFoundError:  # its package is a module in the other one
            return None
        return found and ModuleSpec(fullname, LoadedModule(other))


class LoadedModule(Loader):
    """Give a module that is loaded under its own name, as it is."""

    def __init__(self, own: str) -> None:
        self.own = own
        self.spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module."""
        module = importlib.import_module(self.own)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Keep its own name: importlib has put that of the other name in its place."""
        module.__spec__ = self.spec


def _imports(stub: str) -> dict[str, tuple[str, str]]:
    """Return the imported names of a stub: where each is, and its name there.

    >>> _imports("from kgen.codegen import generate_body as body")
    {'body': ('kgen.codegen', 'generate_body')}
    """
    return {
        alias.asname or alias.name: (str(node.module), alias.name)
        for node in ast.parse(stub).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
