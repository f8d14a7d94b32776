"""Footprints: the elements of arrays that a kernel accesses, and their size in bytes."""

from __future__ import annotations

from kgen.analysis.footprints import Footprints
from kgen.errors import KernelError
from kgen.ir.checked import checked
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import Set
from kgen.ir.sets.effort import limited
from kgen.ir.unit import TranslationUnit
from kgen.statistics.count import count
from kgen.statistics.interval import Interval
from kgen.statistics.memory import memory_of
from kgen.statistics.programs import prepared_kernel
from kgen.statistics.runs import Count

__all__ = ["gather_access_footprint_bytes", "gather_access_footprints"]


@checked
def gather_access_footprints(
    program: TranslationUnit | LoopKernel,
    ignore_uncountable: bool = False,
    entrypoint: str | None = None,
) -> dict[tuple[str, str], Set]:
    """Return the elements that a kernel reads and writes: ``(array, "read" or "write")`` to sets.

    >>> import numpy as np
    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = a[2*i] + a[2*i + 2]")
    >>> knl = lp.add_dtypes(knl, {"a": np.float32})
    >>> print(gather_access_footprints(knl)["a", "read"])
    [n] -> { [i0] : (i0) mod 2 = 0 and n > 0 and 0 <= i0 <= 2n }

    Only arrays in global memory are included. With *ignore_uncountable*, accesses with
    data-dependent subscripts are omitted.

    Raises :class:`KernelError` for such accesses otherwise.
    """
    return _gathered(prepared_kernel(program, entrypoint), ignore_uncountable)


@limited("gathering footprints", KernelError)
def _gathered(kernel: LoopKernel, ignore_uncountable: bool) -> dict[tuple[str, str], Set]:
    footprints = Footprints.of(kernel)
    found: dict[tuple[str, str], Set] = {}
    for array, accesses in footprints.accesses.items():
        if memory_of(kernel, array) != "global":
            continue
        for access in accesses:
            touched = footprints.touched(access)
            if touched is None:
                if ignore_uncountable:
                    continue
                raise KernelError(
                    f"the elements that '{access}' accesses depend on data",
                    where=f"instruction '{access.insn_id}'",
                    hint="gather_access_footprints(knl, ignore_uncountable=True)",
                )
            key = (array, "write" if access.is_write else "read")
            found[key] = found[key].union(touched) if key in found else touched
    return {key: found[key].coalesce() for key in sorted(found)}


@checked
def gather_access_footprint_bytes(
    program: TranslationUnit | LoopKernel,
    ignore_uncountable: bool = False,
    entrypoint: str | None = None,
) -> dict[tuple[str, str], Count]:
    """Return the bytes of each array that a kernel reads and writes; each element counts once.

    >>> import numpy as np
    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = a[i] + a[i + 1]")
    >>> knl = lp.add_dtypes(knl, {"a": np.float32})
    >>> print(gather_access_footprint_bytes(knl)["a", "read"])
    [n] -> { (4 + 4 * n) : n > 0 }

    Takes the options, and raises the errors, of :func:`gather_access_footprints`.
    """
    kernel = prepared_kernel(program, entrypoint)
    footprints = gather_access_footprints(kernel, ignore_uncountable)
    result: dict[tuple[str, str], Count] = {}
    for (array, direction), touched in footprints.items():
        number: Count | Interval = count(touched)
        result[array, direction] = number * kernel.array_vars[array].dtype.itemsize
    return result
