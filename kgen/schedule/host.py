"""Loops on the host: what their variables are on the device."""

from __future__ import annotations

from collections.abc import Collection

import islpy as isl
import pymbolic.primitives as p

from kgen.analysis.range import PARAM_LIMIT, Ranges
from kgen.errors import ScheduleError, message
from kgen.ir.data import ValueArg
from kgen.ir.domain import BasicSet, Set, dim_names, param_names, to_named
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import HostLoopTag
from kgen.ir.types import INT32, INT64, NumpyType

__all__ = ["on_device"]


def on_device(kernel: LoopKernel, host_inames: Collection[str]) -> LoopKernel:
    """Make the variables of host loops value arguments, which every launch is passed.

    That they are within their loops is assumed of them.
    """
    if not host_inames:
        return kernel
    key = (on_device, tuple(sorted(host_inames)))
    found: LoopKernel | None = kernel.memo.get(key)
    if found is None:
        found = kernel.memo[key] = _on_device(kernel, frozenset(host_inames))
    return found


def _on_device(kernel: LoopKernel, host_inames: frozenset[str]) -> LoopKernel:
    ordered = sorted(host_inames, key=kernel.iname_order.__getitem__)
    values = tuple(
        ValueArg(name, _value_type(kernel, name), tags=frozenset((HostLoopTag(),)))
        for name in ordered
    )
    inside = to_named(kernel.domain_of(tuple(ordered))).params()
    domains = [_with_params(domain, host_inames, inside) for domain in kernel.domains]
    for domain, moved in zip(kernel.domains, domains, strict=True):
        on_device = [n for n in param_names(moved) if n in kernel.inames and n not in host_inames]
        if on_device and not moved.dim(isl.dim_type.set):
            raise ScheduleError(
                message(
                    f"the loop '{dim_names(domain)[0]}' has a global barrier inside, so it runs on "
                    f"the host, and its bounds depend on '{on_device[0]}', which does not",
                    kernel=kernel.name,
                    hint="put the dependent bound into a condition: if ...",
                )
            )
    return kernel.copy(
        domains=tuple(domain for domain in domains if domain.dim(isl.dim_type.set)),
        inames={name: iname for name, iname in kernel.inames.items() if name not in host_inames},
        iname_slab_increments={
            name: slabs
            for name, slabs in kernel.iname_slab_increments.items()
            if name not in host_inames
        },
        loop_priority=tuple(
            tuple(name for name in nest if name not in host_inames) for nest in kernel.loop_priority
        ),
        instructions=tuple(
            insn.copy(within_inames=insn.within_inames - host_inames)
            for insn in kernel.instructions
        ),
        args=(*kernel.args, *values),
        assumptions=kernel.assumptions.intersect(inside),
    )


def _value_type(kernel: LoopKernel, iname: str) -> NumpyType:
    """Return the type of a host loop's variable: integers of 32 bits are sizes in kernels."""
    values = Ranges.of(kernel).interval(p.Variable(iname))
    is_small = values is not None and values[0] >= -PARAM_LIMIT and values[1] <= PARAM_LIMIT
    return INT32 if is_small else INT64


def _with_params(domain: BasicSet, inames: frozenset[str], inside: Set) -> BasicSet:
    """Move set dimensions to the parameters, and drop what is known of these: *inside*."""
    if inames.isdisjoint(dim_names(domain)):
        return domain
    for name in dim_names(domain):
        if name in inames:
            at = dim_names(domain).index(name)
            end = len(param_names(domain))
            domain = domain.move_dims(isl.dim_type.param, end, isl.dim_type.set, at, 1)
    anything = isl.BasicSet.universe(domain.get_space()).align_params(inside.get_space())
    hull = inside.simple_hull().align_params(anything.get_space())
    known = anything.intersect_params(hull)
    known, domain = known.align_params(domain.get_space()), domain.align_params(known.get_space())
    domain = domain.gist(known)
    for at in reversed(range(domain.dim(isl.dim_type.param))):
        if not domain.involves_dims(isl.dim_type.param, at, 1):
            domain = domain.project_out(isl.dim_type.param, at, 1)
    return domain
