"""Bank conflicts: the banks of local memory that a sub-group accesses at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from kgen.analysis.banks import BANKS, passes_of, words_by_bank
from kgen.draw.instances import Instances
from kgen.draw.picture import Picture
from kgen.draw.text import join_numbers, params_text
from kgen.draw.traffic import Request, Selector
from kgen.errors import KgenError
from kgen.ir.checked import checked
from kgen.ir.kernel import LoopKernel
from kgen.ir.unit import TranslationUnit
from kgen.statistics.memory import memory_of

__all__ = ["Banks", "banks"]


@dataclass(frozen=True, kw_only=True)
class Banks(Picture):
    """The accesses of a sub-group to an array of local memory, over its 32 banks of four bytes."""

    plotter: ClassVar[str] = "banks"

    kernel_name: str
    params: Mapping[str, int]
    array: str
    requests: tuple[Request, ...]

    @property
    def passes(self) -> tuple[int, ...]:
        """The number of passes over the banks of each request: one if there is no conflict."""
        return tuple(passes_of(_offsets(r), r.itemsize) for r in self.requests)

    def words(self, request: Request) -> Mapping[int, frozenset[int]]:
        """Return the words of each bank that are requested by the lanes that are served first."""
        first = words_by_bank(_offsets(request), request.itemsize)[0]
        return {bank: frozenset(words) for bank, words in sorted(first.items())}

    def __str__(self) -> str:
        return "\n".join(_text(self))


@checked
def banks(
    program: TranslationUnit | LoopKernel,
    array: str,
    params: Mapping[str, int] | None = None,
    *,
    insn: str | None = None,
    group: tuple[int, ...] | None = None,
    subgroup: int = 0,
    subgroup_size: int = 32,
    at: Mapping[str, int] | None = None,
    entrypoint: str | None = None,
) -> Banks:
    """Find the banks of local memory for each access of a sub-group to an array.

    Work-items that access the same word are served together; those that access different words of
    one bank, one after the other: a bank conflict. Arguments are those of :func:`accesses`.

    >>> import kgen as lp
    >>> knl = lp.make_kernel(
    ...     "{ [i, j]: 0 <= i, j < 32 }", "out[j, i] = a[i, j]",
    ...     [lp.GlobalArg("a", "float32", shape="32, 32"), ...], target=lp.OpenCLTarget())
    >>> knl = lp.tag_inames(knl, "i:l.0, j:l.1")
    >>> knl = lp.add_prefetch(knl, "a", "i, j", default_tag="l.auto")
    >>> print(lp.draw.banks(knl, "a_fetch"))
    store a_fetch[a_dim_0, a_dim_1] by 'a_fetch_rule': no conflict, 1 pass
    load a_fetch[i, j] by 'insn': 32 passes
      bank 0: words 0,32,64,96,128,160,192,224,256,288,320,352,384,416,448,480,...

    Raises :class:`KgenError` for an array that is not in local memory.
    """
    instances = Instances(program, params or {}, entrypoint)
    instances.require_array(array)
    if memory_of(instances.kernel, array) != "local":
        raise KgenError(
            f"'{array}' is not in local memory",
            kernel=instances.kernel.name,
            hint="lp.draw.accesses shows transactions of global memory",
        )
    selector = Selector(instances, subgroup_size)
    found = selector.accesses(array, insn, group, subgroup, dict(at or {}))
    return Banks(
        kernel_name=found.kernel_name, params=found.params, array=array, requests=found.requests
    )


def _offsets(request: Request) -> list[int]:
    return [touch.offset for touch in request.touches]


def heading(request: Request, passes: int) -> str:
    """Describe a request, and its number of passes over the banks, in one line."""
    where = (
        f"{request.direction} {request.text} by '{request.insn_id}'{params_text(request.values)}"
    )
    least = max(1, len(request.touches) * request.itemsize // (4 * BANKS))
    free = "no conflict, " if passes <= least else ""
    return f"{where}: {free}{passes} pass{'' if passes == 1 else 'es'}"


def _text(found: Banks) -> Iterator[str]:
    for request, passes in zip(found.requests, found.passes, strict=True):
        yield heading(request, passes)
        most = max((len(words) for words in found.words(request).values()), default=1)
        if most > 1:
            for bank, words in found.words(request).items():
                if len(words) == most:
                    yield f"  bank {bank}: words {_shortened(sorted(words))}"


def _shortened(words: list[int]) -> str:
    return join_numbers(words[:16]) + (",..." if len(words) > 16 else "")
