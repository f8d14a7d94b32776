"""loopy.kernel.creation: kernels, by default with the name ``loopy_kernel``."""

from __future__ import annotations

from typing import Any, Final

from kgen import frontend
from kgen.ir.instruction import UniqueName
from kgen.ir.unit import TranslationUnit
from kgen.library import einsum
from kgen.transforms.programs.callables import rename_callable

__all__ = ["UniqueName", "make_copy_kernel", "make_function", "make_kernel"]

_NAME: Final = "loopy_kernel"


def make_kernel(
    domains: Any,
    instructions: Any,
    kernel_data: Any = None,
    *,
    name: str | None = None,
    **settings: Any,
) -> TranslationUnit:
    """Make a program of one kernel, as :func:`kgen.make_kernel` does.

    >>> make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]").default_entrypoint.name
    'loopy_kernel'
    """
    return frontend.make_kernel(domains, instructions, kernel_data, name=_name(name), **settings)


def make_function(
    domains: Any,
    instructions: Any,
    kernel_data: Any = None,
    *,
    name: str | None = None,
    **settings: Any,
) -> TranslationUnit:
    """Make a kernel that others call, as :func:`kgen.make_function` does.

    >>> sorted(make_function("{ [i]: 0<=i<n }", "out[i] = 2*a[i]").callables_table)
    ['loopy_kernel']
    """
    return frontend.make_function(domains, instructions, kernel_data, name=_name(name), **settings)


def make_copy_kernel(new_dim_tags: Any, old_dim_tags: Any = None) -> TranslationUnit:
    """Make the kernel that copies an array to another layout, as :func:`kgen.make_copy_kernel`.

    >>> make_copy_kernel("N0,N1").default_entrypoint.name
    'loopy_kernel'
    """
    unit = einsum.make_copy_kernel(new_dim_tags, old_dim_tags)
    return rename_callable(unit, unit.default_entrypoint.name, _NAME)


def _name(name: str | None) -> str:
    return _NAME if name is None else name
