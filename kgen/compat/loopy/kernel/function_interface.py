"""loopy.kernel.function_interface: callables."""

from __future__ import annotations

from kgen.analysis.parts import get_arg_descriptor_for_expression
from kgen.ir.arg_descriptors import *
from kgen.ir.callables import *
from kgen.ir.kernel import LoopKernel
from kgen.ir.unit import CallableKernel, inputs_and_outputs

__all__ = [
    "ArgDescriptor",
    "ArrayArgDescriptor",
    "CallMangleInfo",
    "CallableKernel",
    "InKernelCallable",
    "ScalarCallable",
    "ValueArgDescriptor",
    "get_arg_descriptor_for_expression",
    "get_kw_pos_association",
]


def get_kw_pos_association(kernel: LoopKernel) -> tuple[dict[str, int], dict[int, str]]:
    """Return the positions of a called kernel's arguments by name, and the names by position.

    What is read stands at 0, 1..., what is written at -1, -2...; an argument that is both has two
    positions, of which the first dict has the one where it is read.

    >>> import kgen as lp
    >>> axpy = lp.make_function("{ [i]: 0<=i<8 }", "y[i] = y[i] + a*x[i]")
    >>> get_kw_pos_association(axpy.callables_table["kgen_kernel"].subkernel)
    ({'y': 2, 'x': 1, 'a': 0}, {0: 'a', 1: 'x', 2: 'y', -1: 'y'})
    """
    inputs, outputs = inputs_and_outputs(kernel)
    names = {**dict(enumerate(inputs)), **{-1 - k: name for k, name in enumerate(outputs)}}
    positions = {name: position for position, name in reversed(names.items())}
    return positions, names
