"""loopy.kernel.tools: queries on kernels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kgen.analysis.footprints import Footprints
from kgen.analysis.infer import *
from kgen.errors import KernelError, near_names
from kgen.ir.graph import *
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import BasicSet, Map, dim_names, param_names, union_of
from kgen.ir.unit import CallableKernel, TranslationUnit
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


def find_all_insn_inames(kernel: LoopKernel) -> dict[str, frozenset[str]]:
    """Return the loops around each instruction, by its id."""
    return {str(insn.id): insn.within_inames for insn in kernel.instructions}


def get_insn_access_map(kernel: LoopKernel, insn_id: str, var: str) -> Map:
    """Return which elements of an array an instruction accesses, for each point of its loops.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<n }", "out[i] = a[i + 1] {id=one}").default_entrypoint
    >>> print(get_insn_access_map(knl, "one", "a"))
    [n] -> { [i] -> [1 + i] : 0 <= i < n }

    Raises :class:`KernelError` if it does not access the array, or if a subscript is not affine.
    """
    insns = kernel.id_to_insn
    if insn_id not in insns:
        raise KernelError(
            f"there is no instruction '{insn_id}'",
            kernel=kernel.name,
            hint=near_names(insn_id, insns),
        )
    found = Footprints.of(kernel)
    accesses = [one for one in found.accesses.get(var, ()) if one.insn_id == insn_id]
    relations = [relation for one in accesses if (relation := found.relation(one)) is not None]
    whole = union_of(relations)
    if whole is None or len(relations) < len(accesses):
        raise KernelError(
            f"the elements of '{var}' that '{insns[insn_id]}' accesses are not known",
            kernel=kernel.name,
            because="a subscript is not affine" if accesses else "it does not access the array",
        )
    return whole


def get_call_graph(
    t_unit: TranslationUnit, only_kernel_callables: bool = False
) -> Mapping[str, frozenset[str]]:
    """Return what each kernel of a program calls: functions, and other kernels.

    With *only_kernel_callables*, functions are left out.

    >>> import kgen as lp
    >>> inner = lp.make_function("{ [i]: 0<=i<4 }", "y[i] = sin(x[i])", name="wave")
    >>> outer = lp.make_kernel("{ : }", "b[:] = wave(a[:])", [lp.GlobalArg("a, b", shape=4)])
    >>> for name, called in sorted(get_call_graph(lp.merge([inner, outer])).items()):
    ...     print(name, *called)
    kgen_kernel wave
    wave sin
    """
    table = t_unit.callables_table
    kernels = {
        name: one.subkernel for name, one in table.items() if isinstance(one, CallableKernel)
    }
    called = {
        name: frozenset().union(*(insn.reads.functions for insn in knl.instructions))
        for name, knl in kernels.items()
    }
    if only_kernel_callables:
        return {name: names & kernels.keys() for name, names in called.items()}
    return called
