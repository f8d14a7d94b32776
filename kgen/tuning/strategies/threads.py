"""One thread for small matrices: the same digits on all machines, and no waiting for cores."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController

__all__ = ["one_thread"]


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[object]:
    """Return a context in which numpy's linear algebra runs only on the calling thread.

    >>> with one_thread():
    ...     pass
    """
    limits: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return limits
