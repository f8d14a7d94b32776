"""loopy.transform.iname: loop variables."""

from collections.abc import Sequence

from kgen.compat.renamed import warn_once
from kgen.ir.kernel import LoopKernel
from kgen.transforms.loops.affine import *
from kgen.transforms.loops.inames import *
from kgen.transforms.loops.rename import *
from kgen.transforms.loops.split import *
from kgen.transforms.loops.tag import *
from kgen.transforms.loops.tag import prioritize_loops
from kgen.transforms.reductions.nesting import *
from kgen.transforms.select import Program, transform
from kgen.transforms.statements import *


def set_loop_priority(kernel: Program, loop_priority: str | Sequence[str]) -> Program:
    """Replace all priorities of loops by one: do what ``prioritize_loops`` adds."""
    warn_once("set_loop_priority", "prioritize_loops")
    return prioritize_loops(_without_priorities(kernel), loop_priority)


def get_used_inames(kernel: LoopKernel) -> frozenset[str]:
    """Return the loop variables that contain an instruction, or that a reduction runs over.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i, j, k]: 0<=i, j, k<8 }", "out[i] = sum(k, a[i, k])")
    >>> sorted(get_used_inames(knl.default_entrypoint))
    ['i', 'k']
    """
    insns = kernel.instructions
    return frozenset().union(*(insn.within_inames | insn.reduction_inames() for insn in insns))


@transform
def _without_priorities(kernel: LoopKernel) -> LoopKernel:
    return kernel.copy(loop_priority=())
