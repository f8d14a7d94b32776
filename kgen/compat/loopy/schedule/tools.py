"""loopy.schedule.tools: queries on a linearization."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kgen.compat.renamed import refuser
from kgen.errors import KernelError, near_names
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.linearization import (
    CallKernel,
    EnterLoop,
    LeaveLoop,
    ReturnFromKernel,
    ScheduleItem,
)
from kgen.launches.linearize import get_subkernel_to_insn_id_map

__all__ = [
    "args_read_in_subkernel",
    "args_written_in_subkernel",
    "get_block_boundaries",
    "get_return_from_kernel_mapping",
    "temporaries_read_in_subkernel",
    "temporaries_written_in_subkernel",
]

__getattr__ = refuser("linearize(kernel) gives the order as a list")


def get_block_boundaries(schedule: Sequence[ScheduleItem]) -> Mapping[int, int]:
    """Return where launches and loops that begin at an index end, and the other way round.

    >>> get_block_boundaries([CallKernel("f"), EnterLoop("i"), LeaveLoop("i"),
    ...     ReturnFromKernel("f")])
    {1: 2, 2: 1, 0: 3, 3: 0}
    """
    found: dict[int, int] = {}
    open_blocks: list[int] = []
    for index, item in enumerate(schedule):
        if isinstance(item, CallKernel | EnterLoop):
            open_blocks.append(index)
        elif isinstance(item, ReturnFromKernel | LeaveLoop):
            first = open_blocks.pop()
            found[first], found[index] = index, first
    return found


def get_return_from_kernel_mapping(kernel: LoopKernel) -> dict[int, int]:
    """Return, for each item within a launch, where in the order that launch ends."""
    found: dict[int, int] = {}
    launch: list[int] = []
    for index, item in enumerate(kernel.linearization or ()):
        if isinstance(item, CallKernel):
            launch = []
        launch.append(index)
        if isinstance(item, ReturnFromKernel):
            found.update(dict.fromkeys(launch, index))
    return found


def temporaries_read_in_subkernel(kernel: LoopKernel, subkernel_name: str) -> frozenset[str]:
    r"""Return the temporaries that a launch of a linearized kernel reads.

    >>> from kgen.frontend import make_kernel
    >>> from kgen.ir.data import GlobalArg
    >>> from kgen.launches.linearize import linearize
    >>> unit = make_kernel(
    ...     "{ [i]: 0<=i<n }", "<> t = a[i]\nb[i] = 2*t", [GlobalArg("a", "f4"), ...])
    >>> knl = linearize(unit)["kgen_kernel"]
    >>> temporaries_read_in_subkernel(knl, "kgen_kernel")
    frozenset({'t'})
    >>> sorted(args_read_in_subkernel(knl, "kgen_kernel"))
    ['a', 'n']
    """
    return _read(kernel, subkernel_name).intersection(kernel.temporary_variables)


def temporaries_written_in_subkernel(kernel: LoopKernel, subkernel_name: str) -> frozenset[str]:
    """Return the temporaries that a launch of a linearized kernel writes."""
    return _written(kernel, subkernel_name).intersection(kernel.temporary_variables)


def args_read_in_subkernel(kernel: LoopKernel, subkernel_name: str) -> frozenset[str]:
    """Return the arguments that a launch reads, those that bound its loops included."""
    return _read(kernel, subkernel_name).intersection(kernel.arg_dict)


def args_written_in_subkernel(kernel: LoopKernel, subkernel_name: str) -> frozenset[str]:
    """Return the arguments that a launch of a linearized kernel writes."""
    return _written(kernel, subkernel_name).intersection(kernel.arg_dict)


def _read(kernel: LoopKernel, launch: str) -> frozenset[str]:
    insns = list(_instructions(kernel, launch))
    inames = frozenset[str]().union(*(insn.within_inames for insn in insns))
    sizes = (kernel.domain_parameters(iname) for iname in inames)
    return frozenset[str]().union(*sizes, *(insn.read_dependency_names() for insn in insns))


def _written(kernel: LoopKernel, launch: str) -> frozenset[str]:
    insns = _instructions(kernel, launch)
    return frozenset(name for insn in insns for name in insn.assignee_var_names())


def _instructions(kernel: LoopKernel, launch: str) -> Iterator[InstructionBase]:
    """Yield the instructions that a launch runs."""
    launches = get_subkernel_to_insn_id_map(kernel)
    if launch not in launches:
        raise KernelError(
            f"there is no launch '{launch}'",
            kernel=kernel.name,
            hint=near_names(launch, launches),
        )
    for insn_id in sorted(launches[launch]):
        yield kernel.id_to_insn[insn_id]
