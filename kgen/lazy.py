"""Public names of a package that are imported on first use, as listed in its stub."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["public_names"]


def public_names(
    package: str, more: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    The stub beside the package's ``__init__.py`` has an import for each name; type checkers read
    it, too. Modules of the package are attributes as well. A name is looked up once, by
    PEP 562: then it is an attribute like others. Names that the package does not have are
    those of the module *more*, if that has them; they are not listed.
    """
    module = sys.modules[package]
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
            value = other(name)
        setattr(module, name, value)
        return value

    def other(name: str) -> Any:
        found = importlib.import_module(more) if more and not name.startswith("_") else None
        if found is None or not hasattr(found, name):
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}", name=name, obj=module
            )
        unlisted.add(name)
        return getattr(found, name)

    def names() -> list[str]:
        modules = (found.name for found in pkgutil.iter_modules(module.__path__))
        public = (name for name in modules if not name.startswith("_"))
        return sorted({*vars(module), *origins, *public} - unlisted)

    return get, names, list(origins)


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
