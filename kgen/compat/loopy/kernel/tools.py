"""loopy.kernel.tools: queries on kernels."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kgen.analysis.infer import *
from kgen.ir.graph import *
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import BasicSet, dim_names, param_names
from kgen.launches.linearize import *
from kgen.transforms.storage.declarations import *


def find_recursive_dependencies(kernel: LoopKernel, insn_ids: Iterable[str]) -> frozenset[str]:
    r"""Return instructions and all that have to run before them.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ : }", "<> a = 1 {id=a}\n<> b = a {id=b}\nc[0] = b {id=c}")
    >>> sorted(find_recursive_dependencies(knl.default_entrypoint, ["b"]))
    ['a', 'b']
    """
    before = kernel.recursive_insn_dep_map()
    return frozenset(insn_ids).union(*(before[insn_id] for insn_id in insn_ids))


def find_reverse_dependencies(kernel: LoopKernel, insn_ids: Collection[str]) -> frozenset[str]:
    """Return the instructions that depend on one of *insn_ids*, and say so themselves."""
    return frozenset(
        str(insn.id) for insn in kernel.instructions if not insn.depends_on.isdisjoint(insn_ids)
    )


def get_outer_params(domains: Iterable[BasicSet]) -> frozenset[str]:
    """Return the parameters of domains that are no loop variables of one of them."""
    domains = list(domains)
    inames = {name for domain in domains for name in dim_names(domain)}
    return frozenset(name for domain in domains for name in param_names(domain)) - inames


def kernel_has_global_barriers(kernel: LoopKernel) -> bool:
    """Tell whether the text of a kernel has a ``... gbarrier``."""
    return any(insn.is_global_barrier for insn in kernel.instructions)
