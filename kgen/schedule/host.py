"""Host loops: the values of their variables on the device."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl
import pymbolic.primitives as p

from kgen.analysis.domains import coupled_dims
from kgen.analysis.range import PARAM_LIMIT, Ranges
from kgen.errors import ScheduleError
from kgen.ir.analyses import Analysis
from kgen.ir.data import ValueArg
from kgen.ir.expr import Expr
from kgen.ir.instruction import BarrierInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import (
    BasicSet,
    Set,
    dim_names,
    dims_to_params,
    involved_params,
    param_names,
    project_out_params,
    project_out_unused_params,
    to_named,
)
from kgen.ir.sets.domain import as_basic_set, keep_dims
from kgen.ir.sets.interval import Interval
from kgen.ir.sets.quasi_affine import conditions_of
from kgen.ir.stages import DeviceKernel, PreparedKernel
from kgen.ir.types import INT32, INT64, NumpyType

__all__ = ["in_launch", "on_device"]

_ON_DEVICE = Analysis[DeviceKernel](LoopKernel)


def on_device(kernel: PreparedKernel, host_inames: Collection[str]) -> DeviceKernel:
    """Turn the variables of host loops into value arguments, which every launch is passed.

    Their bounds become assumptions. A device loop that also occurs in
    launches outside a host loop keeps a domain without the host loop's variable; the constraints
    that relate the two become conditions of the instructions inside the host loop.
    """
    if not host_inames:
        return DeviceKernel(kernel)
    key = frozenset(host_inames)
    return kernel.analyses.answer(_ON_DEVICE, key, lambda: _on_device(kernel, key))


def in_launch(kernel: DeviceKernel, others: Collection[str]) -> DeviceKernel:
    """Drop the assumptions on host loops that are not around a launch: *others*.

    Two consecutive host loops may both be related to a loop inside them, and so to each other;
    a launch in one of them is not passed the variable of the other.
    """
    gone = [name for name in param_names(kernel.assumptions) if name in others]
    if not gone:
        return kernel
    assumptions = project_out_params(kernel.assumptions, gone)
    return DeviceKernel(PreparedKernel(kernel.copy(assumptions=assumptions)))


def _on_device(kernel: PreparedKernel, host_inames: frozenset[str]) -> DeviceKernel:
    ordered = kernel.in_order(host_inames)
    values = tuple(ValueArg(name, _value_type(kernel, name)) for name in ordered)
    device = kernel.map_instructions(
        lambda insn: insn.copy(within_inames=insn.within_inames - host_inames),
        domains=tuple(
            part
            for domain in kernel.domains
            for part in _DomainSplitter(kernel, host_inames, domain).parts()
        ),
        inames={name: iname for name, iname in kernel.inames.items() if name not in host_inames},
        iname_slab_increments={
            name: slabs
            for name, slabs in kernel.iname_slab_increments.items()
            if name not in host_inames
        },
        loop_priority=tuple(
            tuple(name for name in nest if name not in host_inames) for nest in kernel.loop_priority
        ),
        args=(*kernel.args, *values),
        assumptions=_assumptions(kernel, ordered),
    )
    tied = device.copy(
        instructions=tuple(
            changed.copy(predicates=changed.predicates.union(_ties(kernel, device, insn)))
            if insn.within_inames & host_inames and not isinstance(insn, BarrierInstruction)
            else changed
            for insn, changed in zip(kernel.instructions, device.instructions, strict=True)
        )
    )
    return DeviceKernel(PreparedKernel(tied))


def _inside(kernel: PreparedKernel, inames: Collection[str]) -> Set:
    """Return the constraints on variables of host loops inside them, as parameters."""
    return to_named(kernel.domain_of(kernel.in_order(inames))).params()


def _assumptions(kernel: PreparedKernel, host: tuple[str, ...]) -> Set:
    """Return the assumptions on host loop variables that are valid in all launches.

    A launch outside a loop also runs if the loop has no iterations. There its variable is
    meaningless: the assumptions must leave it some value, for all possible
    parameters. ``0 <= t < n`` implies that n is positive, so only ``0 <= t`` is kept.
    """
    contexts = dict.fromkeys(
        tuple(name for name in host if name in insn.within_inames) for insn in kernel.instructions
    )
    contexts[()] = None  # the assumptions on the arguments of a call
    cases = [
        (
            [name for name in host if name not in context],
            kernel.assumptions.intersect(_inside(kernel, context)),
        )
        for context in contexts
    ]

    def holds(assumed: Set) -> bool:
        return all(case.is_subset(project_out_params(assumed, free)) for free, case in cases)

    inside = _inside(kernel, host)
    everything = kernel.assumptions.intersect(inside)
    if holds(everything):
        return everything
    result = kernel.assumptions
    hull = inside.simple_hull().remove_divs()
    rows = hull.get_constraints()
    for row in sorted(rows, key=lambda row: (len(involved_params(row)), str(row))):
        more = result.intersect(isl.BasicSet.universe(hull.get_space()).add_constraint(row))
        if holds(more):
            result = more
    return result


def _ties(kernel: PreparedKernel, device: LoopKernel, insn: InstructionBase) -> tuple[Expr, ...]:
    """Return the constraints between an instruction's loops and host loops, beyond domains.

    The domain of a loop that is also used outside the host loop does not contain its variable.
    """
    inner = kernel.in_order(insn.within_inames & device.inames.keys())
    if not inner:
        return ()
    outer = insn.within_inames - device.inames.keys()
    wanted = to_named(kernel.domain_of(kernel.in_order(insn.within_inames)))
    known = to_named(device.domain_of(inner)).intersect_params(_inside(kernel, outer))
    if known.is_subset(wanted):
        return ()
    return conditions_of(wanted.gist(known))


@dataclass(frozen=True)
class _DomainSplitter:
    """The domains on the device: one for loops inside host loops, one for other loops."""

    kernel: PreparedKernel
    host: frozenset[str]
    domain: BasicSet

    def parts(self) -> Iterator[BasicSet]:
        """Yield the domains in which no variable of a host loop is a dimension."""
        domain = self.domain
        around = self.host.intersection((*dim_names(domain), *param_names(domain)))
        if not around:
            yield domain
            return
        self._reject_unknown_bounds()
        groups: dict[tuple[str, ...], list[str]] = {}
        for name in dim_names(domain):
            if name not in self.host:
                groups.setdefault(self._context(name, around), []).append(name)
        shared = groups.pop((), [])
        pieces = list(self._pieces(groups, shared))
        while loose := [name for piece in pieces for name in self._loose(piece, shared)]:
            shared += loose
            groups = {at: [n for n in names if n not in loose] for at, names in groups.items()}
            pieces = list(self._pieces(groups, shared))
        base = keep_dims(domain, shared)
        for tied in coupled_dims(base) if shared else ():
            yield self._shared(tied)  # whether one is empty is no concern of the others
        for context, piece in pieces:
            outer = frozenset(dim_names(piece)).intersection(shared)
            known = _inside(self.kernel, context)
            if outer:
                known = known.intersect(to_named(keep_dims(domain, outer)).params())
            yield _with_params(piece, outer, known)

    def _shared(self, names: Sequence[str]) -> BasicSet:
        """Return the domain of loops outside of host loops: their values in any iteration."""
        part = keep_dims(self.domain, names)
        if self.host.isdisjoint(param_names(part)):
            return part
        outer = self.kernel.with_outer_inames(frozenset(names)).difference(names, self.host)
        values = self.kernel.domain_of((*dim_names(part), *self.kernel.in_order(outer)))
        return _with_params(as_basic_set(values), outer, _inside(self.kernel, outer))

    def _pieces(
        self, groups: Mapping[tuple[str, ...], Sequence[str]], shared: Sequence[str]
    ) -> Iterator[tuple[tuple[str, ...], BasicSet]]:
        """Yield host loops and the domains of loops that occur only inside, each with constraints.

        The constraints are on *shared* loops, which also occur elsewhere; host variables are
        parameters.
        """
        for context, names in groups.items():
            whole = keep_dims(self.domain, {*names, *context, *shared})
            inside = _as_params(whole, frozenset(context))
            for tied in coupled_dims(inside):
                if not set(tied).isdisjoint(names):
                    yield context, keep_dims(inside, tied)

    def _loose(
        self, piece: tuple[tuple[str, ...], BasicSet], shared: Sequence[str]
    ) -> Iterator[str]:
        """Yield the loops of a domain that occur without the shared ones around an instruction."""
        names = dim_names(piece[1])
        outer = frozenset(names).intersection(shared)
        for name in names:
            if name not in outer and any(
                name in insn.within_inames and not outer <= insn.within_inames
                for insn in self.kernel.instructions
            ):
                yield name

    def _context(self, iname: str, around: frozenset[str]) -> tuple[str, ...]:
        """Return the host loops around all instructions in *iname*, if they are the same."""
        found = {
            insn.within_inames & around
            for insn in self.kernel.instructions
            if iname in insn.within_inames
        }
        return self.kernel.in_order(next(iter(found))) if len(found) == 1 else ()

    def _reject_unknown_bounds(self) -> None:
        own = dim_names(self.domain)
        inames = self.kernel.inames.keys() - self.host
        inner = [name for name in param_names(self.domain) if name in inames]
        if inner and self.host.issuperset(own):
            raise ScheduleError(
                f"the loop '{own[0]}' has a global barrier inside, so it runs on "
                f"the host, and its bounds depend on '{inner[0]}', which does not",
                kernel=self.kernel.name,
                hint="put the dependent bound into a condition: if ...",
            )


def _value_type(kernel: PreparedKernel, iname: str) -> NumpyType:
    """Return the type of a host loop's variable: 32-bit integers are sizes in kernels."""
    values = Ranges.of(kernel).interval(p.Variable(iname))
    return INT32 if values.is_inside(Interval(-PARAM_LIMIT, PARAM_LIMIT)) else INT64


def _as_params(domain: BasicSet, inames: frozenset[str]) -> BasicSet:
    return dims_to_params(domain, [name for name in dim_names(domain) if name in inames])


def _with_params(domain: BasicSet, inames: frozenset[str], known: Set) -> BasicSet:
    """Move set dimensions to the parameters, and drop *known* constraints on these.

    The gist is that of sets, which isl writes with explicit quotients first: the gist of a basic
    set with a quotient that is not may be empty. A gist of several pieces is not simpler.
    """
    domain = _as_params(domain, inames)
    hull = isl.Set.from_basic_set(known.params().simple_hull())
    if not hull.is_empty():
        pieces = isl.Set.from_basic_set(domain).gist_params(hull).get_basic_sets()
        domain = pieces[0] if len(pieces) == 1 else domain
    return project_out_unused_params(domain)
