"""The storage of precomputed values: axes and name of the temporary, and names of its loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from constantdict import constantdict
from pytools import UniqueNameGenerator
from pytools.tag import Tag

from kgen.errors import TransformError
from kgen.ir.data import SubstitutionRule, TemporaryVariable, read_address_space
from kgen.ir.expr import Expr
from kgen.ir.tags import TagLike, parse_tag
from kgen.ir.types import auto, read_type, to_kgen_type
from kgen.transforms.select import require_new_iname, require_new_name
from kgen.transforms.storage.sites import Values

__all__ = ["Storage", "StoredNames", "ordered_axes"]


@dataclass(frozen=True, kw_only=True)
class Storage:
    """Where values are stored, and how they are computed; see :func:`precompute`."""

    sweep: tuple[str, ...]
    axes: tuple[str | int, ...] | None = None
    temporary: str | None = None
    inames: tuple[str, ...] = ()
    axis_names: tuple[str, ...] = ()  # names that the user gives to the loops along axes
    outer: tuple[str, ...] | None = None
    tags: Mapping[str | int, TagLike] = constantdict()
    default_tag: TagLike = None
    dtype: Any = None
    whole_box: bool = False
    address_space: Any = None
    insn_id: str | None = None
    window: str | None = None

    def tag_of(self, rule: SubstitutionRule, axis: str) -> Tag | None:
        """Return the tag of the loop along an axis."""
        keys: list[str | int] = [axis]
        if axis in rule.arguments:
            keys.append(rule.arguments.index(axis))
        return parse_tag(next((self.tags[k] for k in keys if k in self.tags), self.default_tag))


def ordered_axes(rule: SubstitutionRule, storage: Storage, free: frozenset[str]) -> tuple[str, ...]:
    """Return the axes of the storage in order: swept inames in the rule, and its arguments.

    Axes that the caller does not list come last; they must turn out to have length 1.
    """
    direct = tuple(name for name in storage.sweep if name in free)
    known = (*direct, *rule.arguments)
    if storage.axes is None:
        return known
    chosen: list[str] = []
    for given in storage.axes:
        axis: str | int = given
        if isinstance(given, int) and 0 <= given < len(rule.arguments):
            axis = rule.arguments[given]
        if axis not in known or axis in chosen:
            raise TransformError(
                f"'{given}' is not a storage axis, or occurs twice",
                hint=f"the axes for '{rule}' are {', '.join(known) or 'none'}",
            )
        chosen.append(str(axis))
    return (*chosen, *(axis for axis in known if axis not in chosen))


class StoredNames:
    """The names of the new loops, temporary and instruction."""

    def __init__(self, values: Values, storage: Storage) -> None:
        self.kernel = kernel = values.kernel
        self.rule = rule = values.rule
        self.storage = storage
        # an argument of another rule may have the name of a loop
        self.others = UniqueNameGenerator(
            {*kernel.all_variable_names(), rule.name, *storage.inames}
        )
        self.temporary = storage.temporary or self.others(f"{rule.name}_0")
        if self.temporary not in kernel.temporary_variables:
            require_new_name(kernel, self.temporary, (rule.name, *rule.arguments))
        ids = kernel.get_instruction_id_generator()
        self.insn_id = str(storage.insn_id or ids(rule.name))
        if self.insn_id in kernel.id_to_insn:
            raise TransformError(f"the instruction id '{self.insn_id}' is taken")

    @property
    def space(self) -> Any:
        """The address space of the temporary; ``auto`` if not given."""
        found = self.kernel.temporary_variables.get(self.temporary)
        known = self.storage.address_space
        if known is None:
            return auto if found is None else found.address_space
        return known if known is auto else read_address_space(known)

    def of(self, axes: Sequence[str]) -> list[str]:
        """Return the names of the loops along *axes*: those given, then new ones."""
        given = self.storage.inames[: len(axes)]
        for name in given:
            if name not in self.kernel.inames:
                require_new_iname(self.kernel, name)
        made = [
            self.others(axis if axis in self.rule.arguments else f"{self.rule.name}_{axis}")
            for axis in axes[len(given) :]
        ]
        return [*given, *made]

    def declared(self, extents: tuple[Expr, ...], loops: tuple[str, ...]) -> TemporaryVariable:
        """Return the temporary with the given extents; an existing one must have these or none.

        Axes of a new one are named after the *loops* along them, if the user names these.
        """
        storage = self.storage
        found = self.kernel.temporary_variables.get(self.temporary)
        if found is None:
            dtype = read_type(storage.dtype, "what is stored")
            is_named = bool(extents) and bool({*storage.inames, *storage.axis_names})
            return TemporaryVariable(
                self.temporary,
                dtype=dtype,
                shape=extents,
                address_space=self.space,
                dim_names=loops if is_named else None,
            )
        checks = (
            ("shape", found.shape, extents),
            ("type", found.dtype or auto, to_kgen_type(storage.dtype) or auto),
            ("address space", found.address_space, self.space),
        )
        for what, has, wanted in checks:
            if auto not in (has, wanted) and has != wanted:
                raise TransformError(
                    f"temporary '{self.temporary}' has the {what} {has}, not {wanted}",
                    hint="choose another temporary_name",
                )
        changes: dict[str, Any] = {"dtype": found.dtype or to_kgen_type(storage.dtype)}
        if found.address_space is auto:
            changes["address_space"] = self.space
        changed = found.copy(**changes)
        return changed.with_shape(extents) if changed.shape is auto else changed
