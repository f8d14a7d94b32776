"""Function results, such as long transformations, cached on disk."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from kgen.errors import KgenError
from kgen.ir.codec import CodecError, decode, encode
from kgen.runtime.cache import DiskCache, content_key, process_caches
from kgen.runtime.generated import own_identity

__all__ = ["memoize_on_disk"]

P = ParamSpec("P")
R = TypeVar("R")


def memoize_on_disk(func: Callable[P, R], *, disk: DiskCache | None = None) -> Callable[P, R]:
    """Cache the results of *func* on disk.

    ::

        @memoize_on_disk
        def transform(knl, tile):
            return split_iname(knl, "i", tile)

    The function's result must depend only on its arguments, its own source, and kgen.
    Kernels, expressions, numbers, texts, arrays and containers of these are cached; with any
    other argument or result, the function is called as if without this decorator.

    >>> import kgen as lp
    >>> @memoize_on_disk
    ... def tiled(knl, size):
    ...     return lp.split_iname(knl, "i", size)
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]")
    >>> print(tiled(unit, 16)["kgen_kernel"].instructions[0])
    out[i_inner + i_outer*16] = 2*a[i_inner + i_outer*16]  {id=insn}
    """
    source = _source_of(func)

    @functools.wraps(func)
    def memoized(*args: P.args, **kwargs: P.kwargs) -> R:
        used = process_caches.disk if disk is None else disk
        if source is None or not used.enabled:
            return func(*args, **kwargs)
        try:
            key = content_key("memoize", own_identity(), source, encode((args, kwargs)))
        except CodecError:
            return func(*args, **kwargs)
        content = used.load(key)
        if content is not None:
            try:
                found: R = decode(content.decode())
                return found
            except CodecError:  # from a program with other classes
                pass
        result = func(*args, **kwargs)
        text = _faithful_text(result)
        if text is not None:
            used.store(key, text.encode())
        return result

    return memoized


def _faithful_text(value: Any) -> str | None:
    """Return the JSON of *value* if an equal value comes back from it."""
    try:
        text = encode(value)
        return text if encode(decode(text)) == text else None
    except KgenError:
        return None


def _source_of(function: Callable[..., Any]) -> str | None:
    """Return the source text of a function; ``None`` if it uses enclosing variables."""
    if inspect.getclosurevars(function).nonlocals:
        return None
    try:
        text = inspect.getsource(function)
    except OSError:  # typed into a prompt
        return None
    return f"{function.__module__}:{function.__qualname__}\n{text}"
