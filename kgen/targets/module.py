"""The product of code generation for the runtime: texts, argument table, launches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import cgen
import numpy as np

from kgen.ir.expr import Expr, is_constant
from kgen.ir.types import AddressSpace
from kgen.transforms.guards import GuardTag


@dataclass(frozen=True)
class ArgumentInfo:
    """One argument of the kernel, as a caller sees it.

    Sizes are in elements. ``shape`` and ``strides`` are expressions of the value
    arguments; ``offset`` is the name of the int64 parameter of the device function for the array's
    offset; ``None`` if the array starts at its first element. ``shape`` is ``None`` for an array of
    unknown extent.
    """

    name: str
    dtype: np.dtype[Any]
    is_array: bool
    is_input: bool
    is_output: bool
    shape: tuple[Expr, ...] | None = None
    strides: tuple[Expr, ...] | None = None
    offset: str | None = None
    address_space: AddressSpace = AddressSpace.GLOBAL
    #: never passed by the caller: a global temporary, which the runtime allocates, or a number that
    #: follows from the shapes and strides of arrays
    is_temporary: bool = False
    #: temporaries of one storage share their memory
    storage: str | None = None
    #: the alignment of the first element in bytes
    alignment: int = 1
    #: an output that the code may write only in part: a call that allocates it fills it first;
    #: determined only for code that is generated for calls
    is_filled: bool = False
    #: subscripts or loop bounds depend on the values of the array
    is_index: bool = False


@dataclass(frozen=True)
class Launch:
    """One device function: its parameters by name, in order, and its launch grid.

    ``is_serial``: work-groups must run one after the other; ``is_uneven``: they take different
    times; ``is_long``: their number may exceed 32 bits. ``local_memory`` is the number of bytes of
    local memory that the launch must request; 0 if it is declared. ``is_cooperative``: work-groups
    wait for each other, so all of them must run concurrently. ``zeroed`` are the temporaries that
    must be zero when it begins. ``local_memory_share``: the percentage of a multiprocessor's memory
    that should be local memory; ``None``: the driver chooses.
    """

    function: str
    parameters: tuple[str, ...]
    groups: tuple[Expr, ...]
    locals: tuple[int, ...]
    is_serial: bool = False
    is_uneven: bool = False
    is_long: bool = False
    local_memory: int = 0
    is_cooperative: bool = False
    zeroed: tuple[str, ...] = ()
    local_memory_share: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there are no work-groups for any sizes: CUDA and OpenCL reject such launches."""
        return any(size <= 0 for size in self.groups if is_constant(size))


@dataclass(frozen=True)
class HostLoop:
    """``for name = first, first + step .. stop - 1`` on the host, around *steps*.

    The device functions take *name* as a parameter of type *dtype*.
    """

    name: str
    dtype: np.dtype[Any]
    first: Expr
    stop: Expr
    step: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class HostIf:
    """Steps of the host under a condition on parameters and variables of its loops."""

    condition: Expr
    steps: tuple[Step, ...]


#: The actions of the host in a call.
Step: TypeAlias = Launch | HostLoop | HostIf
StepT = TypeVar("StepT", Launch, HostLoop)


@dataclass(frozen=True)
class GeneratedProgram:
    """One function of the generated code.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<4 }", "out[i] = 2*i", target=lp.CTarget())
    >>> (program,) = lp.generate_code_v2(unit).device_programs
    >>> print(program.ast)
    void kgen_kernel(int *__restrict__ out)
    {
      for (int i = 0; i < 4; ++i)
        out[i] = 2 * i;
    }
    """

    name: str
    is_device_program: bool
    code: str

    def __str__(self) -> str:
        return self.code

    @property
    def ast(self) -> cgen.Generable:
        """The function as a node of :mod:`cgen`, whose text is ``code``."""
        return cgen.Module([cgen.Line(line) for line in self.code.split("\n")])

    @property
    def body(self) -> str:
        """The code between the braces of the function."""
        _, _, body = self.code.partition("\n{\n")
        return body.rpartition("\n}")[0]

    @property
    def body_ast(self) -> cgen.Block:
        """The body of the function, with its braces, as a node of :mod:`cgen`."""
        lines = self.body.split("\n") if self.body else ()
        return cgen.Block([cgen.Line(line.removeprefix("  ")) for line in lines])


@dataclass(frozen=True)
class Faults:
    """The array in which guards record out-of-bounds subscripts, and the guard of each element.

    Other elements are ``NO_FAULT``.
    """

    name: str
    guards: tuple[GuardTag, ...]


#: No subscript has this value.
NO_FAULT = -(2**63)


@dataclass(frozen=True)
class Module:
    """Generated code with everything that is needed to run it.

    ``arguments`` are in the caller's order; ``steps`` run one after the other. ``preamble``
    precedes the device functions, ``device_programs``. The code is valid for value arguments that
    satisfy the ``conditions``. ``has_fragile_barriers``: compilers that miscompile barriers must
    not optimize. ``faults``: the record of out-of-bounds subscripts; ``None`` if there are no
    guards.
    """

    name: str
    preamble: str
    device_programs: tuple[GeneratedProgram, ...]
    host_source: str
    declarations: str
    arguments: tuple[ArgumentInfo, ...]
    steps: tuple[Step, ...]
    build_options: tuple[str, ...] = ()
    conditions: tuple[Expr, ...] = ()
    has_fragile_barriers: bool = False
    faults: Faults | None = None

    @property
    def device_source(self) -> str:
        """The complete device code."""
        return "\n\n".join(filter(None, (self.preamble, *map(str, self.device_programs))))

    @property
    def launches(self) -> tuple[Launch, ...]:
        """All launches, in the order of the text."""
        return steps_of(Launch, self.steps)

    @property
    def host_loops(self) -> tuple[HostLoop, ...]:
        """All loops on the host, outer ones first."""
        return steps_of(HostLoop, self.steps)


def steps_of(kind: type[StepT], steps: Iterable[Step]) -> tuple[StepT, ...]:
    """Return the steps of a type, outer ones before those inside them."""
    found: list[StepT] = []
    for step in steps:
        if isinstance(step, kind):
            found.append(step)
        if not isinstance(step, Launch):
            found += steps_of(kind, step.steps)
    return tuple(found)
