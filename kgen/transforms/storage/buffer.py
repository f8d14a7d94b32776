"""Buffering: array elements are read and written in a temporary, and written back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pymbolic.primitives as p

from kgen.analysis.access import Access
from kgen.analysis.footprints import Footprints
from kgen.analysis.loop_bounds import bound_writers
from kgen.analysis.swept import Axis, Box, box_of, swept_footprint
from kgen.errors import TransformError
from kgen.ir.affine import simplify
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.data import Iname, TemporaryVariable, read_address_space
from kgen.ir.expr import Expr, minus, subscript, substitute, variable_names
from kgen.ir.instruction import (
    Assignment,
    BarrierInstruction,
    CInstruction,
    InstructionBase,
)
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.expressions import read_expression
from kgen.ir.mentions import mentions_of
from kgen.ir.sets.domain import sample_point
from kgen.ir.tags import TagLike, parse_tag
from kgen.ir.types import AddressSpace, auto
from kgen.transforms.array_accesses import (
    ArrayAccessMapper,
    Index,
    reject_bounds,
    renamed,
)
from kgen.transforms.expressions.rules import expand_subst
from kgen.transforms.launches import begin_with_loops
from kgen.transforms.loops.tag import add_tags
from kgen.transforms.select import (
    NothingSelectedError,
    matcher,
    require_array,
    require_inames,
    split_names,
    taken_names,
    transform,
)
from kgen.transforms.storage.filling import (
    loops_around,
    reject_bound_inside,
    reject_local_in_divergent_loop,
)

__all__ = ["buffer_array"]


@transform
def buffer_array(
    kernel: LoopKernel,
    var_name: str,
    buffer_inames: str | Iterable[str],
    init_expression: Any = None,
    store_expression: Any = None,
    within: Any = None,
    default_tag: TagLike = "l.auto",
    temporary_scope: Any = None,
    temporary_address_space: Any = None,
    fetch_bounding_box: bool = False,
) -> LoopKernel:
    """Keep the elements of an array that are accessed in some loops in a temporary.

    The temporary holds the elements accessed over all values of *buffer_inames*. It is initialized
    before these loops and written back after them, in separate loops.

    :arg buffer_inames: the loops in which the buffer is used; every other loop around
        all uses encloses the buffer
    :arg init_expression: the initial value, an expression that may use ``base``
        for the element of the array; by default that element. ``False`` omits the initialization,
        if the instructions are proved to write each element before it is read or stored.
    :arg store_expression: the value written back, an expression that may use ``base`` and
        ``buffer``; by default the latter. ``False`` writes nothing.
    :arg within: which instructions use the buffer; by default all that use the array
    :arg default_tag: the tag of the new loops; none in private memory
    :arg temporary_address_space: the address space of the buffer, by default inferred
    :arg temporary_scope: another name of *temporary_address_space*
    :arg fetch_bounding_box: initialize the whole bounding box of the accessed elements

    ::

        for i, k                              for i
          b[i] = b[i] + a[i, k]                 b_buf = b[i]             {id=init_b}
                                       =>       for k
                                                  b_buf = b_buf + a[i, k]
                                                b[i] = b_buf             {id=store_b}

    Raises :class:`StaticValueFindingError` if the buffer has no constant size, and
    :class:`TransformError` if it does not cover a use, if remaining uses of the array
    are not ordered with those of the buffer, if the footprint is not a box, and, with
    ``init_expression=False``, if an element may be read or stored before it is written.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i,k]: 0<=i<n and 0<=k<m }", "b[i] = b[i] + a[i,k] {dep=*}")
    >>> for insn in buffer_array(knl, "b", "k", init_expression="0",
    ...                          store_expression="base + buffer").default_entrypoint.instructions:
    ...     print(insn)
    b_buf = 0  {id=init_b}
    b_buf = b_buf + a[i, k]  {id=insn}
    b[i] = b[i] + b_buf  {id=store_b}
    """
    require_array(kernel, var_name)
    reject_bounds(kernel, (var_name,))
    rules = kernel.substitutions.values()
    if any(var_name in mentions_of(rule.expression).variables for rule in rules):
        kernel = expand_subst(kernel)
    space = temporary_address_space if temporary_scope is None else temporary_scope
    private = space is not None and read_address_space(space) == AddressSpace.PRIVATE
    return _Buffer(
        kernel,
        var_name,
        split_names(buffer_inames),
        tuple(insn for insn in _users(kernel, var_name) if matcher(kernel, within)(insn)),
        auto if space is None else read_address_space(space),
        None if private else default_tag,
        whole_box=fetch_bounding_box,
    ).put_in(
        _read_or_none(init_expression, "init_expression", p.Variable("base")),
        _read_or_none(store_expression, "store_expression", p.Variable("buffer")),
    )


def _users(kernel: LoopKernel, name: str) -> tuple[InstructionBase, ...]:
    return tuple(insn for insn in kernel.instructions if name in insn.dependency_names())


def _read_or_none(given: Any, what: str, default: Expr) -> Expr | None:
    """Return an expression; ``None`` for ``False``."""
    if given is False:
        return None
    return default if given is None else read_expression(given, what)


@dataclass(frozen=True)
class _Region:
    """New loops over the elements of a box, and the positions of the elements in the buffer."""

    box: Box
    inames: tuple[str, ...]  # of axes that are longer than 1

    @property
    def kept(self) -> tuple[int, ...]:
        """The axes that are longer than 1."""
        return self.box.kept

    def element(self) -> tuple[Expr, ...]:
        """Return the subscripts of the array."""
        loops = dict(zip(self.kept, self.inames, strict=True))
        return tuple(
            simplify(p.Sum((p.Variable(loops[k]), low))) if k in loops else low
            for k, low in enumerate(self.box.lower)
        )


@dataclass(frozen=True)
class _Buffer:
    kernel: LoopKernel
    array: str
    sweep: tuple[str, ...]
    users: tuple[InstructionBase, ...]
    space: Any
    tag: TagLike
    whole_box: bool

    def __post_init__(self) -> None:
        kernel = self.kernel
        require_inames(kernel, self.sweep)
        if not self.users:
            raise NothingSelectedError(f"no instruction that is selected uses '{self.array}'")
        for user in self.users:
            if isinstance(user, CInstruction):
                raise self._reject(user, "it is C code", "leave it out with within=...")
            odd = sorted(user.within_inames - self.outer - set(self.sweep))
            if odd:
                raise self._reject(
                    user,
                    f"it is inside '{odd[0]}', which is not around all uses of the array",
                    f"add '{odd[0]}' to buffer_inames, or leave it out with within=...",
                )
        reject_bound_inside(kernel, f"a buffer for '{self.array}'", self.outer, self.sweep)
        if self.space == AddressSpace.LOCAL:
            reject_local_in_divergent_loop(kernel, f"a buffer for '{self.array}'", self.outer)

    def _reject(self, insn: InstructionBase, because: str, hint: str) -> TransformError:
        return TransformError(
            f"instruction '{insn.id}' cannot use a buffer for '{self.array}'",
            where=str(insn.span or insn),
            because=because,
            hint=hint,
        )

    @cached_property
    def outer(self) -> frozenset[str]:
        """The loops around the buffer: those around all uses, without the swept loops."""
        around = frozenset.intersection(*(user.within_inames for user in self.users))
        return around.difference(self.sweep)

    # -- order -------------------------------------------------------------------------------

    @cached_property
    def ids(self) -> frozenset[str]:
        """The ids of the instructions that use the buffer."""
        return frozenset(str(user.id) for user in self.users)

    def _order(
        self, init: Expr | None, store: Expr | None
    ) -> tuple[frozenset[str], frozenset[str]]:
        """Return the instructions before the initialization, and those after the write-back."""
        kernel = self.kernel
        before_users = frozenset[str]().union(*(ancestors(kernel, u) for u in self.users))
        used = {*variable_names(init), *variable_names(store)} - {"base", "buffer"}
        first: set[str] = set()
        last: set[str] = set()
        for insn in kernel.instructions:
            if insn.id in self.ids:
                continue
            touches = self.array in insn.dependency_names()
            writes = not used.isdisjoint(insn.assignee_var_names())
            if not (touches or writes or isinstance(insn, BarrierInstruction)):
                continue
            follows = not self.ids.isdisjoint(ancestors(kernel, insn))
            precedes = insn.id in before_users
            if (follows and precedes) or (
                (touches or writes) and not insn.within_inames.isdisjoint(self._inside)
            ):
                raise self._between(insn)
            if precedes:
                first.add(str(insn.id))
            elif follows:
                last.add(str(insn.id))
            elif touches:
                raise self._unordered(insn)
        return frozenset(first), frozenset(last)

    @cached_property
    def _inside(self) -> frozenset[str]:
        """The loops inside the lifetime of the buffer."""
        around = (loops_around(self.kernel, access) for access in self.accesses)
        return frozenset[str]().union(*around) - self.outer

    def _between(self, insn: InstructionBase) -> TransformError:
        return TransformError(
            f"instruction '{insn.id}' runs while the buffer for '{self.array}' is in use",
            where=str(insn.span or insn),
            because=f"it uses '{self.array}' itself, or makes work-items wait, between "
            "instructions that use the buffer",
            hint="let it use the buffer as well (within=...), or sweep fewer loops",
        )

    def _unordered(self, insn: InstructionBase) -> TransformError:
        (user, *_) = self.users
        return TransformError(
            f"instructions '{insn.id}' and '{user.id}' use '{self.array}' in an undefined order",
            because=f"only '{user.id}' would use the buffer",
            hint=f"add_dependency(kernel, 'id:{insn.id}', 'id:{user.id}'), or the reverse",
        )

    # -- elements ----------------------------------------------------------------------------

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        """The accesses that the buffer replaces."""
        found = Footprints.of(self.kernel).accesses.get(self.array, ())
        mine = tuple(access for access in found if access.insn_id in self.ids)
        for access in mine:
            if access.index is None:
                user = self.kernel.id_to_insn[access.insn_id]
                raise self._reject(
                    user, "an element is not named by axis", "write one subscript per axis"
                )
        return mine

    def _region(
        self, accesses: Sequence[Access], word: str, names: Callable[[str], str]
    ) -> _Region:
        """Return new loops over the footprint of some accesses."""
        what = f"the uses of '{self.array}'"
        index = accesses[0].index
        assert index is not None
        if not index:
            return _Region(Box((), (), None, ()), ())
        dims = [Axis(names(f"{self.array}_{word}_{k}")) for k in range(len(index))]
        footprint = swept_footprint(self.kernel, accesses, self.outer, dims)
        whole_box = self.whole_box and word == "init"
        box = box_of(
            self.kernel,
            footprint,
            self.outer,
            whole_box=whole_box,
            sized=self.kernel.target.allocates_arrays,
            what=what,
        )
        kept = [dim.name for dim, n in zip(dims, box.extents, strict=True) if n != 1]
        return _Region(box, tuple(kept))

    # -- written elements --------------------------------------------------------------------

    def _require_written(self, *, is_stored: bool) -> None:
        """Reject an uninitialized buffer unless its elements are written before they are used."""
        for user in self.users:
            before = ancestors(self.kernel, user) - {user.id}
            reads = self._accesses_of({str(user.id)}, is_write=False)
            self._require_covered(reads, before, user.within_inames, f"'{user.id}' reads it")
        if is_stored:
            every = self._accesses_of(self.ids, is_write=True)
            self._require_covered(every, self.ids, self.outer, "it is stored")

    def _accesses_of(self, ids: Collection[str], *, is_write: bool) -> list[Access]:
        return [a for a in self.accesses if a.insn_id in ids and a.is_write == is_write]

    def _require_covered(
        self, used: Sequence[Access], ids: Collection[str], around: frozenset[str], use: str
    ) -> None:
        """Require that instructions certainly write the *used* elements inside the loops *around*.

        Each of these writes precedes the use in every iteration of the loops that they share.
        """
        if not used:
            return
        assert used[0].index is not None
        axes = [Axis(f"{self.array}'{k}") for k in range(len(used[0].index))]
        missing = swept_footprint(self.kernel, used, around, axes)
        for access in self._accesses_of(ids, is_write=True):
            insn = self.kernel.id_to_insn[access.insn_id]
            shared = around & insn.within_inames
            if self._always_writes(access) and self.outer <= shared:
                missing = missing.subtract(swept_footprint(self.kernel, [access], shared, axes))
        point = sample_point(missing.intersect_params(self.kernel.assumptions))
        if point is None:
            return
        element = ", ".join(str(point.pop(axis.name)) for axis in axes)
        where = ", ".join(f"{name} = {value}" for name, value in point.items())
        raise TransformError(
            f"a buffer for '{self.array}' that is not filled in may be used before it is written",
            point=where or None,
            because=f"element [{element}] may not be written before {use}",
            hint="set its initial values: init_expression='0', or 'base' for those of the array",
        )

    def _always_writes(self, access: Access) -> bool:
        """Tell whether a write is known exactly: without conditions on data, and not by a call."""
        insn = self.kernel.id_to_insn[access.insn_id]
        _, is_exact = Footprints.of(self.kernel).domain(access.place)
        return is_exact and not mentions_of(*insn.assignees).swept

    # -- the transformation ------------------------------------------------------------------

    def put_in(self, init: Expr | None, store: Expr | None) -> LoopKernel:
        """Return the kernel with the buffer."""
        kernel = self.kernel
        names = kernel.get_var_name_generator()
        names.add_names(taken_names(kernel), conflicting_ok=True)
        ids = kernel.get_instruction_id_generator()
        buffer: str = names(f"{self.array}_buf")
        first, last = self._order(init, store)
        filled = self._region(self.accesses, "init", names)
        written = [access for access in self.accesses if access.is_write]
        stored = self._region(written, "store", names) if written and store is not None else None

        def at(variable: p.Variable, element: Index) -> Expr:
            index = tuple(simplify(minus(element[k], filled.box.lower[k])) for k in filled.kept)
            return subscript(renamed(variable, buffer), index)

        inits: dict[str, Assignment] = {}
        stores: dict[str, Assignment] = {}
        regions: list[_Region] = []
        if init is None:
            self._require_written(is_stored=stored is not None)
        else:
            init_id = ids(f"init_{self.array}")
            base, entry = self._elements(filled, at)
            value = substitute(init, {"base": base, "buffer": entry})
            inits[init_id] = self._move(filled, init_id, entry, value, first)
            regions.append(filled)
        if stored is not None and store is not None:
            store_id = ids(f"store_{self.array}")
            base, entry = self._elements(stored, at)
            value = substitute(store, {"base": base, "buffer": entry})
            stores[store_id] = self._move(stored, store_id, base, value, self.ids.union(inits))
            regions.append(stored)
        inames = [name for region in regions for name in region.inames]
        redirect = ArrayAccessMapper(kernel, {self.array: at})
        result = kernel.copy(
            instructions=self._instructions(redirect, inits, stores, last),
            temporary_variables={
                **kernel.temporary_variables,
                buffer: self._temporary(buffer, filled),
            },
            domains=(
                *kernel.domains,
                *(region.box.domain for region in regions if region.box.domain is not None),
            ),
            inames={**kernel.inames, **{name: Iname(name) for name in inames}},
        )
        result = add_tags(result, {name: (parse_tag(self.tag),) for name in inames})
        is_of_launch = self.space != AddressSpace.GLOBAL
        return begin_with_loops(result, [buffer]) if is_of_launch else result

    def _elements(
        self, region: _Region, at: Callable[[p.Variable, Index], Expr]
    ) -> tuple[Expr, Expr]:
        """Return an element in the loops of a region: of the array, and of the buffer by *at*."""
        array = p.Variable(self.array)
        return subscript(array, region.element()), at(array, region.element())

    def _move(
        self, region: _Region, insn_id: str, place: Expr, value: Expr, waits: frozenset[str]
    ) -> Assignment:
        """Return the instruction that sets all elements of a region."""
        return Assignment(
            place,
            value,
            id=insn_id,
            within_inames=self.outer.union(region.inames),
            within_inames_is_final=True,
            predicates=tuple(region.box.conditions),
            depends_on=waits | bound_writers(self.kernel, self.outer),
            depends_on_is_final=True,
        )

    def _temporary(self, name: str, filled: _Region) -> TemporaryVariable:
        """Return the declaration of the buffer, large enough for a region."""
        return TemporaryVariable(
            name,
            dtype=self.kernel.array_vars[self.array].dtype,
            shape=tuple(filled.box.extents[k] for k in filled.kept),
            address_space=self.space,
        )

    def _instructions(
        self,
        redirect: ArrayAccessMapper,
        inits: Mapping[str, Assignment],
        stores: Mapping[str, Assignment],
        last: frozenset[str],
    ) -> list[InstructionBase]:
        """Return the instructions, the new ones before the first use and after the last one."""
        result: list[InstructionBase] = []
        left = len(self.users)
        for insn in self.kernel.instructions:
            if insn.id in self.ids:
                if left == len(self.users):
                    result.extend(inits.values())
                left -= 1
                result.append(redirect.change(insn, depends_on=insn.depends_on.union(inits)))
                result += [] if left else stores.values()
            elif insn.id in last:
                result.append(insn.copy(depends_on=insn.depends_on.union(stores)))
            else:
                result.append(insn)
        return result
