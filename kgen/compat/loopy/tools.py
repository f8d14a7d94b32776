"""loopy.tools: keys of dictionaries on disk, caches, programs as Python, calls by ctypes."""

from __future__ import annotations

import ctypes
import math
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pytools.persistent_dict import KeyBuilder

from kgen.errors import CompilationError
from kgen.ir.checked import unfit
from kgen.ir.digest import canonical
from kgen.ir.to_python import t_unit_to_python
from kgen.ir.types import Optional
from kgen.runtime.cache import clear_in_mem_caches
from kgen.runtime.memoize import memoize_on_disk

__all__ = [
    "LoopyKeyBuilder",
    "Optional",
    "address_from_numpy",
    "build_ispc_shared_lib",
    "clear_in_mem_caches",
    "cptr_from_numpy",
    "empty_aligned",
    "memoize_on_disk",
    "t_unit_to_python",
]


class LoopyKeyBuilder(KeyBuilder):
    """Make keys of :class:`pytools.persistent_dict.PersistentDict` of kernels and their parts.

    Equal values give equal keys, in every process. Beside what pytools' own builder knows, it
    takes dicts and whatever a kernel can hold: isl's sets, mappings, expressions, declarations.

    >>> import kgen as lp
    >>> one, other = (lp.make_kernel("{[i]: 0<=i<n}", "a[i] = 2*b[i]") for _ in range(2))
    >>> key = LoopyKeyBuilder()
    >>> key(one) == key(other), key(one.default_entrypoint.domains) == key(one)
    (True, False)
    """

    def rec(self, key_hash: Any, key: Any) -> Any:
        """Add *key* to a hash."""
        try:
            return super().rec(key_hash, key)
        except TypeError:
            key_hash.update(canonical(key).encode())
            return key_hash


# -- arrays for calls by ctypes -----------------------------------------------------------------


def address_from_numpy(obj: Any) -> int:
    """Return the address of the first element of a numpy array.

    >>> array = np.arange(4)
    >>> address_from_numpy(array[1:]) - address_from_numpy(array)
    8

    Raises :class:`KgenError` for what is no array.
    """
    interface = getattr(obj, "__array_interface__", None)
    if interface is None:
        raise unfit("value whose address is asked for", "a numpy array", obj)
    address: int = interface["data"][0]
    return address


def cptr_from_numpy(obj: Any) -> ctypes.c_void_p:
    """Return the address of the first element of a numpy array as a pointer of ctypes.

    >>> array = np.arange(4)
    >>> cptr_from_numpy(array).value == array.ctypes.data
    True

    Raises :class:`KgenError` for what is no array.
    """
    return ctypes.c_void_p(address_from_numpy(obj))


def empty_aligned(
    shape: int | Sequence[int], dtype: Any, order: Literal["C", "F"] = "C", n: int = 64
) -> np.ndarray[Any, Any]:
    """Return an array of undefined elements whose address is a multiple of *n* bytes.

    >>> array = empty_aligned((3, 4), np.float32, n=128)
    >>> array.shape, array.ctypes.data % 128
    ((3, 4), 0)
    """
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    element = np.dtype(dtype)
    memory = np.empty(math.prod(extents) * element.itemsize + n, np.uint8)
    start = -memory.ctypes.data % n
    return np.ndarray(extents, element, memory, start, order=order)


# -- ISPC ---------------------------------------------------------------------------------------


def build_ispc_shared_lib(
    cwd: str | Path,
    ispc_sources: Iterable[tuple[str, str]],
    cxx_sources: Iterable[tuple[str, str]],
    ispc_options: Sequence[str] | None = None,
    cxx_options: Sequence[str] | None = None,
    ispc_bin: str = "ispc",
    cxx_bin: str = "g++",
    quiet: bool = True,
) -> None:
    """Build ``shared.so`` in the folder *cwd* from sources in ISPC and C++.

    Sources are pairs of a file name and a text, which is written to that file in *cwd*. ISPC's
    compiler makes an object file of each of its sources; the other compiler links these.
    ``quiet=False`` prints the commands and what they say::

        build_ispc_shared_lib(
            folder, [("axpy.ispc", code)], [("tasksys.cpp", tasks)], cxx_options=["-O2"])
        library = ctypes.cdll.LoadLibrary(os.path.join(folder, "shared.so"))

    Raises :class:`CompilationError` where a compiler is missing or rejects a source.
    """
    folder = Path(cwd)
    objects = []
    for name in _written(folder, ispc_sources):
        objects.append(f"{name}.o")
        command = [ispc_bin, "--pic", *(ispc_options or ()), name, "-o", objects[-1]]
        _run(command, folder, "ispc_bin", quiet=quiet)
    names = _written(folder, cxx_sources)
    command = [
        cxx_bin,
        "-shared",
        "-fPIC",
        *(cxx_options or ()),
        *objects,
        *names,
        "-o",
        "shared.so",
    ]
    _run(command, folder, "cxx_bin", quiet=quiet)


def _written(folder: Path, sources: Iterable[tuple[str, str]]) -> list[str]:
    names = []
    for name, text in sources:
        (folder / name).write_text(text)
        names.append(name)
    return names


def _run(command: list[str], folder: Path, argument: str, *, quiet: bool) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as failure:
        raise CompilationError(
            f"'{command[0]}' cannot be run: {failure}",
            hint=f"install it, or pass its path: {argument}=...",
        ) from None
    if not quiet:
        print(" ".join(command), done.stdout, done.stderr, sep="\n")
    if done.returncode != 0:
        raise CompilationError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
