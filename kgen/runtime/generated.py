"""The cache of generated code, by content of program and types: in memory, and on disk."""

from __future__ import annotations

import functools
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from kgen.errors import emit_again, recorded_warnings
from kgen.host.program import HostProgram
from kgen.ir.codec import CodecError, decode, encode
from kgen.ir.digest import canonical
from kgen.ir.expr import Reduction, walk
from kgen.ir.kernel import LoopKernel
from kgen.ir.reductions import KnownOperation, ReductionOperation
from kgen.ir.types import NumpyType
from kgen.ir.unit import CallableKernel, TranslationUnit
from kgen.lowering import generate_module
from kgen.runtime.cache import DiskCache, ProcessCaches, content_key
from kgen.runtime.wrapper import WrapperBuilder, WrapperCode
from kgen.targets.module import Module

__all__ = ["Generated", "GeneratedCode", "code_of", "own_identity"]

#: The maximum number of modules that a process caches.
N_KEPT: Final = 256
#: The packages besides kgen that determine code: for sets, expressions, syntax trees, types.
_PARTS: Final = ("islpy", "pymbolic", "cgen", "numpy")
_Content: TypeAlias = tuple[Module, tuple[tuple[str, type[Warning]], ...]]
_Dtypes: TypeAlias = frozenset[tuple[str, np.dtype[Any]]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Generated:
    """A module, with the results that executors in this process derive from it for callers.

    The conditions on calls and the code of wrappers follow from the program and the caller's types.
    """

    module: Module
    warnings: tuple[tuple[str, type[Warning]], ...] = ()
    hosts: dict[_Dtypes, HostProgram] = field(default_factory=dict)
    wrappers: dict[tuple[type[WrapperBuilder], _Dtypes], WrapperCode] = field(default_factory=dict)


class GeneratedCode:
    """The modules that a process has generated, by the content of program and types.

    They are cached on disk as well, as JSON, so that reading them cannot run code. Code that
    depends on functions and classes of a user is not shared, since their behaviour depends on
    more than their text.
    """

    def __init__(self) -> None:
        self._found: OrderedDict[str, Generated] = OrderedDict()
        self._lock = threading.Lock()

    def clear(self) -> None:
        """Drop all code of this process."""
        with self._lock:
            self._found.clear()

    def find(
        self,
        disk: DiskCache,
        unit: TranslationUnit,
        entrypoint: str,
        dtypes: Mapping[str, np.dtype[Any]],
    ) -> Generated:
        """Return the code of an entry point for some types, generated on first use.

        The warnings of its generation are issued each time.
        """
        if not _is_kgen_alone(unit):
            return Generated(module=generate_module(unit, entrypoint, dtypes, for_calls=True))
        names = _structure_names(unit, dtypes)
        key = "\n".join((unit.code_digest(), entrypoint, canonical(dict(dtypes)), names))
        with self._lock:
            found = self._found.get(key)
        if found is None:
            found = _from_disk(disk, key)
        if found is None:
            with recorded_warnings() as given:
                module = generate_module(unit, entrypoint, dtypes, for_calls=True)
            found = Generated(module=module, warnings=tuple(given))
            _to_disk(disk, key, (module, found.warnings))
        else:
            emit_again(found.warnings)
        self._keep(key, found)
        return found

    def _keep(self, key: str, found: Generated) -> None:
        with self._lock:
            self._found[key] = found
            self._found.move_to_end(key)
            while len(self._found) > N_KEPT:
                self._found.popitem(last=False)


_code: WeakKeyDictionary[ProcessCaches, GeneratedCode] = WeakKeyDictionary()


def code_of(caches: ProcessCaches) -> GeneratedCode:
    """Return the generated code that executors with the same caches share."""
    found = _code.get(caches)
    if found is None:
        found = _code.setdefault(caches, GeneratedCode())
        caches.in_memory.add(found)
    return found


def _structure_names(unit: TranslationUnit, dtypes: Mapping[str, np.dtype[Any]]) -> str:
    """Return the target's names of structures, some of which are in a registry of the process."""
    arrays = (a for k in unit.kernels() for a in (*k.args, *k.temporary_variables.values()))
    declared = (array.dtype.numpy_dtype for array in arrays if isinstance(array.dtype, NumpyType))
    return canonical(
        [
            unit.target.structure_name(dtype)
            for dtype in _with_fields((*declared, *(dtypes[name] for name in sorted(dtypes))))
        ]
    )


def _with_fields(dtypes: Iterable[np.dtype[Any]]) -> Iterator[np.dtype[Any]]:
    """Yield the structures among some types, and those of their fields."""
    for dtype in dtypes:
        if dtype.fields is not None:
            yield dtype
            yield from _with_fields(entry[0] for entry in dtype.fields.values())


def _from_disk(disk: DiskCache, key: str) -> Generated | None:
    content = disk.load(_disk_key(key)) if disk.enabled else None
    if content is None:
        return None
    try:
        found = decode(content.decode())
    except (CodecError, UnicodeDecodeError):
        return None
    is_whole = isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], Module)
    return Generated(module=found[0], warnings=found[1]) if is_whole else None


def _to_disk(disk: DiskCache, key: str, found: _Content) -> None:
    if not disk.enabled:
        return
    try:
        text = encode(found)
        if encode(decode(text)) == text:
            disk.store(_disk_key(key), text.encode())
    except CodecError:  # another process could not read it
        pass


def _disk_key(key: str) -> str:
    return content_key("code", own_identity(), key)


@functools.lru_cache(maxsize=1)
def own_identity() -> str:
    """Describe everything that determines kgen's code: its files, and the packages it uses."""
    package = Path(__file__).parent.parent
    files = sorted(package.rglob("*.py"))
    texts = (part for file in files for part in (str(file.relative_to(package)), file.read_bytes()))
    parts = (f"{name} {version(name)}" for name in _PARTS)
    return content_key(sys.version, *parts, *texts)


# -- user-defined functions and classes in programs -------------------------------------------


def _is_kgen_alone(unit: TranslationUnit) -> bool:
    """Tell whether the content of a program and kgen alone determine its code."""
    others = (v for v in unit.callables_table.values() if not isinstance(v, CallableKernel))
    return all(map(_is_own, (unit.target, *others))) and all(map(_has_own_parts, unit.kernels()))


def _has_own_parts(kernel: LoopKernel) -> bool:
    if kernel.preamble_generators or kernel.symbol_manglers:
        return False
    operations = {
        node.operation
        for expr in _expressions(kernel)
        for node in walk(expr)
        if isinstance(node, Reduction)
    }
    return all(map(_is_own, (kernel.target, *kernel.functions.values(), *operations)))


def _expressions(kernel: LoopKernel) -> tuple[Any, ...]:
    rules = (rule.expression for rule in kernel.substitutions.values())
    return (*rules, *(expr for insn in kernel.instructions for expr in insn.expressions()))


def _is_own(value: Any) -> bool:
    if isinstance(value, KnownOperation):
        return value.inner is None or _is_own(value.inner)
    is_of_kgen = type(value).__module__.partition(".")[0] == __name__.partition(".")[0]
    return is_of_kgen and not isinstance(value, ReductionOperation)
