"""loopy.tools: keys of dictionaries on disk, caches, programs as Python."""

from __future__ import annotations

from typing import Any

from pytools.persistent_dict import KeyBuilder

from kgen.ir.digest import canonical
from kgen.ir.to_python import t_unit_to_python
from kgen.ir.types import Optional
from kgen.runtime.cache import clear_in_mem_caches
from kgen.runtime.memoize import memoize_on_disk

__all__ = [
    "LoopyKeyBuilder",
    "Optional",
    "clear_in_mem_caches",
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
