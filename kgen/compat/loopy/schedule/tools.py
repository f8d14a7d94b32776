"""loopy.schedule.tools: queries on a linearization."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from kgen.compat.loopy.schedule.tree import Tree
from kgen.compat.renamed import refuser
from kgen.errors import KernelError, ScheduleError, near_names
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.linearization import (
    CallKernel,
    EnterLoop,
    LeaveLoop,
    ReturnFromKernel,
    ScheduleItem,
)
from kgen.ir.tags import HARDWARE_AXES
from kgen.launches.linearize import get_subkernel_to_insn_id_map

__all__ = [
    "LoopNestTree",
    "LoopTree",
    "args_read_in_subkernel",
    "args_written_in_subkernel",
    "get_block_boundaries",
    "get_loop_tree",
    "get_partial_loop_nest_tree",
    "get_return_from_kernel_mapping",
    "temporaries_read_in_subkernel",
    "temporaries_written_in_subkernel",
]

#: The loops of a kernel, below the root ``""``.
LoopTree: TypeAlias = Tree[str]
#: Sets of loops, in any order within each, below an empty set.
LoopNestTree: TypeAlias = Tree[frozenset[str]]

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


def get_loop_tree(kernel: LoopKernel) -> LoopTree:
    r"""Return a nesting of the loops around instructions: by priority, then as in the domains.

    Loops on hardware axes, and those of reductions alone, are not in it. The root is ``""``.

    >>> from kgen.frontend import make_kernel
    >>> unit = make_kernel("{ [i, j, k]: 0<=i, j, k<8 }", "a[i, j] = 1\nb[i, k] = 2")
    >>> print(get_loop_tree(unit.default_entrypoint))
    <BLANKLINE>
    └── i
        ├── j
        └── k

    Raises :class:`ScheduleError` if no nesting contains the loops of all instructions.
    """
    nests = get_partial_loop_nest_tree(kernel)
    tree = Tree.from_root("")
    innermost = {nests.root: ""}
    for nest in nests.nodes():
        outer = "" if nest == nests.root else innermost[nests.ancestors(nest)[0]]
        for name in _in_order(kernel, nest):
            tree = tree.add_node(name, parent=outer)
            outer = name
        innermost[nest] = outer
    return tree


def _in_order(kernel: LoopKernel, inames: frozenset[str]) -> Iterator[str]:
    """Yield loops of one nest from the outermost to the innermost one."""
    left = [name for name in kernel.home_domain if name in inames]
    pairs = [pair for names in kernel.loop_priority for pair in itertools.combinations(names, 2)]
    pairs += [(outer, name) for name in left for outer in kernel.domain_parameters(name)]
    while left:
        inner = {name for outer, name in pairs if outer in left}
        first = next((name for name in left if name not in inner), left[0])
        left.remove(first)
        yield first


def get_partial_loop_nest_tree(kernel: LoopKernel) -> LoopNestTree:
    r"""Return sets of loops, such that those of a node are around those of the nodes below.

    Only the loops around each instruction are considered; those on hardware axes are left out.

    >>> from kgen.frontend import make_kernel
    >>> unit = make_kernel("{ [i, j, k]: 0<=i, j, k<8 }", "a[i, j] = 1\nb[i, k] = 2")
    >>> tree = get_partial_loop_nest_tree(unit.default_entrypoint)
    >>> tree.children(frozenset({"i"}))
    (frozenset({'j'}), frozenset({'k'}))

    Raises :class:`ScheduleError` if no nesting contains the loops of all instructions.
    """
    axes = {name for name in kernel.inames if kernel.has_tag(name, HARDWARE_AXES)}
    nests = dict.fromkeys(insn.within_inames - axes for insn in kernel.instructions)
    root = frozenset[str]()
    return _with_nests(Tree.from_root(root), root, [nest for nest in nests if nest])


def _with_nests(
    tree: LoopNestTree, parent: frozenset[str], nests: Sequence[frozenset[str]]
) -> LoopNestTree:
    """Add sets of loops below *parent*: first what all sets that share loops have in common."""
    for group in _connected(nests):
        common = group[0].intersection(*group)
        if not common:
            shown = ", ".join(str(sorted(nest)) for nest in group)
            raise ScheduleError(
                "loops cannot be nested",
                because=f"there are instructions in {shown}, and no loop is around all of these",
                hint="duplicate_inames gives some instructions loops of their own",
            )
        rest = [nest - common for nest in group if nest != common]
        tree = _with_nests(tree.add_node(common, parent=parent), common, rest)
    return tree


def _connected(nests: Collection[frozenset[str]]) -> list[list[frozenset[str]]]:
    """Return groups of sets, such that sets of different groups have no common loop."""
    groups: list[list[frozenset[str]]] = []
    for nest in nests:
        joined = [group for group in groups if not nest.isdisjoint(frozenset().union(*group))]
        groups = [group for group in groups if group not in joined]
        groups.append([one for group in joined for one in group] + [nest])
    return groups


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
