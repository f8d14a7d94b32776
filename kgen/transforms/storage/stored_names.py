"""What storing values adds to a kernel: names, a temporary, loops and their tags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytools import UniqueNameGenerator
from pytools.tag import Tag

from kgen.analysis.domains import difference
from kgen.analysis.swept import Box, first_outside
from kgen.errors import TransformError, message
from kgen.ir.data import SubstitutionRule, TemporaryVariable
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.domain import BasicSet, Set, dim_names
from kgen.ir.tags import TagLike, parse_tag
from kgen.ir.types import auto, to_kgen_type
from kgen.transforms.select import (
    require_new_name,
    taken_names,
)
from kgen.transforms.storage.storing import Storage

__all__ = [
    "Names",
    "check_covered",
    "new_domains",
    "tag_of",
]


class Names:
    """The names of what is added: loops, temporary, instruction."""

    def __init__(
        self, kernel: LoopKernel, rule: SubstitutionRule, storage: Storage, *, rule_stays: bool
    ) -> None:
        self.kernel = kernel
        self.rule = rule
        self.storage = storage
        others = kernel
        if not rule_stays:
            rules = {n: r for n, r in kernel.substitutions.items() if n != rule.name}
            others = kernel.copy(substitutions=rules)
        self._names = UniqueNameGenerator({*taken_names(others), rule.name, *storage.inames})
        self.temporary = storage.temporary or self._names(f"{rule.name}_0")
        if self.temporary not in kernel.temporary_variables:
            require_new_name(kernel, self.temporary)
        ids = kernel.get_instruction_id_generator()
        self.insn_id = str(storage.insn_id or ids(rule.name))
        if self.insn_id in kernel.id_to_insn:
            raise TransformError(
                message(f"the instruction id '{self.insn_id}' is taken", kernel=kernel.name)
            )

    def of(self, axes: Sequence[str]) -> list[str]:
        """Return the names of the loops along *axes*: those given, then new ones."""
        given = self.storage.inames[: len(axes)]
        for name in given:
            if name not in self.kernel.inames:
                require_new_name(self.kernel, name)
        made = [
            self._names(axis if axis in self.rule.arguments else f"{self.rule.name}_{axis}")
            for axis in axes[len(given) :]
        ]
        return [*given, *made]

    def declared(self, extents: tuple[int, ...]) -> TemporaryVariable:
        """Return the temporary of a size; an existing one must have it already, or none."""
        storage = self.storage
        space = auto if storage.address_space is None else storage.address_space
        found = self.kernel.temporary_variables.get(self.temporary)
        if found is None:
            dtype = to_kgen_type(storage.dtype)
            return TemporaryVariable(
                self.temporary, dtype=dtype, shape=extents, address_space=space
            )
        checks = (
            ("shape", found.shape, extents),
            ("type", found.dtype or auto, to_kgen_type(storage.dtype) or auto),
            ("address space", found.address_space, space),
        )
        for what, has, wanted in checks:
            if auto not in (has, wanted) and has != wanted:
                raise TransformError(
                    message(
                        f"temporary '{self.temporary}' has the {what} {has}, not {wanted}",
                        kernel=self.kernel.name,
                        hint="choose another temporary_name",
                    )
                )
        changes: dict[str, Any] = {"dtype": found.dtype or to_kgen_type(storage.dtype)}
        if found.address_space is auto:
            changes["address_space"] = space
        changed = found.copy(**changes)
        return changed.with_shape(extents) if changed.shape is auto else changed


def new_domains(
    kernel: LoopKernel, box: Box, loops: tuple[str, ...], outer: frozenset[str]
) -> tuple[BasicSet, ...]:
    """Return the domain of the new loops, if any; existing loops must have it already."""
    domain = box.domain
    old = [name for name in loops if name in kernel.inames]
    if domain is None or not old:
        return () if domain is None else (domain,)
    if len(old) < len(loops):
        raise TransformError(
            message(
                f"iname '{old[0]}' exists, and others of {', '.join(loops)} do not",
                kernel=kernel.name,
                hint="name all loops along the axes, or only new ones",
            )
        )
    order = tuple(sorted(outer, key=kernel.iname_order.__getitem__))
    point = difference(
        kernel.domain_of((*order, *loops)),
        box.with_outer(kernel.domain_of(order), order),
        {},
        kernel.assumptions,
    )
    if point is not None:
        shown = ", ".join(f"{name} = {value}" for name, value in point.items())
        raise TransformError(
            message(
                f"the existing loops over {', '.join(loops)} do not compute what is needed",
                kernel=kernel.name,
                because=f"only one of both contains {shown}",
                hint="give new names in precompute_inames",
            )
        )
    return ()


def tag_of(storage: Storage, rule: SubstitutionRule, axis: str) -> Tag | None:
    """Return the tag of the loop along an axis."""
    keys: list[str | int] = [axis]
    if axis in rule.arguments:
        keys.append(rule.arguments.index(axis))
    tag: TagLike = next((storage.tags[k] for k in keys if k in storage.tags), storage.default_tag)
    return parse_tag(tag)


def check_covered(kernel: LoopKernel, used: Set, stored: Set, what: str) -> None:
    """Refuse a given footprint that does not hold all that the uses need."""
    found = first_outside(kernel, used, stored)
    if found is not None:
        element = ", ".join(str(found[name]) for name in dim_names(used))
        raise TransformError(
            message(
                f"{what} need more than the footprint that is given",
                kernel=kernel.name,
                because=f"element [{element}] is not in it, for {found}",
                hint="leave those uses out with within=..., or tag the others",
            )
        )
