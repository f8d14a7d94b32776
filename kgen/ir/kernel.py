"""A kernel: domains, instructions, declarations, and queries on them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import Any, TypeAlias, TypeVar

from constantdict import constantdict
from pytools import UniqueNameGenerator
from pytools.tag import Tag

from kgen.errors import KernelError, KgenWarning, near_names, warn
from kgen.ir.analyses import AnalysisCache, Derived, derived
from kgen.ir.callables import ScalarCallable
from kgen.ir.checked import check_fields
from kgen.ir.closure import closure
from kgen.ir.codec import decode, encode
from kgen.ir.containers import Joinable, Parts, Table
from kgen.ir.data import (
    ArrayArg,
    ArrayBase,
    Iname,
    SubstitutionRule,
    TemporaryVariable,
    ValueArg,
)
from kgen.ir.digest import Digested, digest
from kgen.ir.expr import Expr, same_objects
from kgen.ir.fields import stored_fields, stored_values
from kgen.ir.grid import Axis, Grid, axes_of, grid_of
from kgen.ir.instruction import InstructionBase, unique_ids
from kgen.ir.linearization import ScheduleItem
from kgen.ir.mentions import mentions_of
from kgen.ir.optional import load
from kgen.ir.options import Options
from kgen.ir.pending import Pending
from kgen.ir.pretty import stringify_kernel
from kgen.ir.sets.dims import (
    BasicSet,
    Set,
    dim_names,
    from_named,
    outer_dims,
    to_named,
    without_params,
)
from kgen.ir.sets.domain import PwAff, as_basic_set
from kgen.ir.sets.existential import drop_implied_in_pieces
from kgen.ir.sets.facts import DomainFacts
from kgen.ir.sets.loop_range import LoopRange
from kgen.ir.sets.text import parse_assumptions
from kgen.ir.tags import AutoFitLocalInameTag, Taggable, filter_iname_tags_by_type
from kgen.ir.target import TargetBase
from kgen.ir.types import INT32, AddressSpace, KgenType, NumpyType, to_kgen_type

T = TypeVar("T", bound=Tag)
P = TypeVar("P")
Q = TypeVar("Q")
#: Sizes along hardware axes, in order or by axis.
Sizes: TypeAlias = tuple[P, ...] | dict[int, P]

#: The fields that hold isl sets.
_SETS = ("domains", "assumptions")
_PARTS = ("domains", "instructions", "args")
_MAPS = ("temporary_variables", "inames", "substitutions", "iname_slab_increments", "functions")


def _is_same(new: Any, old: Any) -> bool:
    """Tell whether a field holds the very same objects."""
    if new is old or not (isinstance(new, tuple) and isinstance(old, tuple)):
        return new is old
    return len(new) == len(old) and all(map(operator.is_, new, old))


class KernelState(IntEnum):
    """The stages of a kernel during lowering, for :attr:`LoopKernel.state`.

    >>> KernelState.INITIAL < KernelState.LINEARIZED
    True
    """

    INITIAL = 0
    CALLS_RESOLVED = 1
    PREPROCESSED = 2
    LINEARIZED = 3


class _Origin:
    """The field that holds a kernel's origin, which may be pending until it is read."""

    def __get__(self, kernel: LoopKernel | None, owner: type) -> LoopKernel | None:
        held: Any = None if kernel is None else vars(kernel)["origin"]
        return held.kernel if isinstance(held, Pending) else held

    def __set__(self, kernel: LoopKernel, origin: LoopKernel | Pending[LoopKernel] | None) -> None:
        vars(kernel)["origin"] = origin


@dataclass(frozen=True, kw_only=True, eq=False)
class LoopKernel(Digested, Taggable):
    """Polyhedral loop domains and instructions, unordered except for dependencies.

    A kernel is an immutable value: every transformation returns another one. ``domains`` form a
    forest: a domain whose parameter is an iname of another one is nested in it. All sizes are in
    elements.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]")["kgen_kernel"]
    >>> sorted(knl.arg_dict), sorted(knl.all_inames()), sorted(knl.all_params())
    (['a', 'n', 'out'], ['i'], ['n'])
    """

    name: str
    domains: tuple[BasicSet, ...]
    instructions: tuple[InstructionBase, ...]
    args: tuple[ArrayArg | ValueArg, ...] = ()
    temporary_variables: Mapping[str, TemporaryVariable] = constantdict()
    inames: Mapping[str, Iname] = constantdict()
    substitutions: Mapping[str, SubstitutionRule] = constantdict()
    assumptions: Set = field(default_factory=lambda: parse_assumptions(None))
    loop_priority: tuple[tuple[str, ...], ...] = ()
    #: per iname: (first, last) iterations of the loop that get their own code
    iname_slab_increments: Mapping[str, tuple[int, int]] = constantdict()
    options: Options = field(default_factory=Options)
    target: TargetBase
    index_dtype: NumpyType = INT32
    silenced_warnings: tuple[str, ...] = ()
    preambles: tuple[tuple[str, str], ...] = ()
    preamble_generators: tuple[Callable[..., Any], ...] = ()
    symbol_manglers: tuple[Callable[..., Any], ...] = ()
    #: user-defined functions, by the names that calls use
    functions: Mapping[str, ScalarCallable] = constantdict()
    tags: frozenset[Tag] = frozenset()
    #: the linearization of this kernel; changed copies have none
    linearization: tuple[ScheduleItem, ...] | None = None
    #: replaced inames as expressions of the inames that replaced them, oldest first
    applied_iname_rewrites: tuple[Mapping[str, Expr], ...] = ()
    #: the kernel as the user wrote it; ``None`` if it was not transformed since
    origin: _Origin = _Origin()

    def __post_init__(self) -> None:
        self._settle(stored_fields(type(self)))
        state = vars(self)
        empty = {name for name in _CHECKED if type(state[name]) in _EMPTY and not state[name]}
        check_fields(LoopKernel, state, _CHECKED - empty)

    def map_instructions(
        self, change: Callable[[InstructionBase], InstructionBase], **changes: Any
    ) -> LoopKernel:
        """Return this kernel with *change* applied to each instruction, and with other changes.

        Returns the same object if nothing changes.

        >>> import kgen as lp
        >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]").default_entrypoint
        >>> print(*knl.map_instructions(lambda insn: insn.copy(priority=3)).instructions)
        out[i] = 2*a[i]  {id=insn, priority=3}
        """
        instructions = tuple(map(change, self.instructions))
        if not changes and same_objects(instructions, self.instructions):
            return self
        return self.copy(instructions=instructions, **changes)

    def _settle(self, names: Collection[str]) -> None:
        """Make the fields *names* constant; reject contents of a wrong type."""
        state = vars(self)
        try:
            for name in _CONSTANT.keys() & names:
                state[name] = _CONSTANT[name](state[name])
        except (AttributeError, TypeError, ValueError):
            check_fields(LoopKernel, state, _CHECKED.intersection(names))
            raise

    def copy(self, **changes: Any) -> LoopKernel:
        """Return this kernel with some fields changed.

        The loop variables follow the domains: if *changes* has no ``inames``, new ones are
        declared, and those without a domain are dropped. The :attr:`state` follows from
        ``linearization``: ``state=KernelState.INITIAL`` has no effect.

        >>> import islpy as isl
        >>> import kgen as lp
        >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]").default_entrypoint
        >>> more = knl.copy(domains=[*knl.domains, isl.BasicSet("{ [k]: 0<=k<4 }")])
        >>> sorted(more.inames), sorted(more.copy(domains=knl.domains).inames)
        (['i', 'k'], ['i'])
        """
        old = vars(self)
        if "state" in changes:
            self._check_state(changes.pop("state"), changes)
        changed = object.__new__(type(self))
        new = vars(changed)
        new.update({name: old[name] for name in _STORED}, linearization=None)
        if unknown := changes.keys() - new.keys():
            raise TypeError(f"a kernel has no field '{min(unknown)}'")
        new.update(changes)
        changed._settle(changes)
        check_fields(LoopKernel, new, _PLAIN.intersection(changes))
        touched = {name for name in changes if not _is_same(new[name], old[name])}
        if "domains" in touched:
            facts = dict(zip(map(id, self.domains), self._domain_facts, strict=True))
            new_facts = tuple(
                facts.get(id(domain)) or DomainFacts(domain) for domain in changed.domains
            )
            if "inames" not in changes and changed._declare_inames(new_facts):
                touched.add("inames")
        for name, is_shared in _kept(frozenset(touched)):
            if is_shared or name in old:
                new[name] = getattr(self, name)
        new["analyses"] = self.analyses.after(touched)
        if "domains" in touched:
            new["_domain_facts"] = new_facts
        return changed

    def _check_state(self, state: KernelState, changes: Mapping[str, Any]) -> None:
        if state == KernelState.LINEARIZED and changes.get("linearization") is None:
            raise KernelError(
                "copy(state=KernelState.LINEARIZED) needs the linearization",
                kernel=self.name,
                hint="get_one_linearized_kernel(kernel) computes it",
            )

    def _declare_inames(self, domains: Iterable[DomainFacts]) -> bool:
        """Let the inames be the dimensions of *domains*; tell whether that changes them."""
        dims = dict.fromkeys(name for domain in domains for name in domain.dims)
        if dims.keys() == self.inames.keys():
            return False
        inames = {name: self.inames.get(name) or Iname(name) for name in sorted(dims)}
        vars(self)["inames"] = Table(inames)
        return True

    @property
    def written(self) -> LoopKernel | Pending[LoopKernel]:
        """The kernel as the user wrote it, possibly pending: the origin, or this without one."""
        held: LoopKernel | Pending[LoopKernel] | None = vars(self)["origin"]
        if isinstance(held, Pending):
            return held.or_else(self)
        return self if held is None else held

    def origin_after(
        self, change: Callable[[LoopKernel], LoopKernel], *, may_fail: bool
    ) -> Pending[LoopKernel] | None:
        """Return the origin of the kernel that *change* returns: the same change of the origin.

        Without an origin, or if the origin cannot be changed so, the result is its own origin.
        """
        held = vars(self)["origin"]
        return None if held is None else Pending(held, change, may_fail=may_fail)

    def with_declarations(self, changed: Mapping[str, Any]) -> LoopKernel:
        """Replace the arguments and temporaries of the same names by changed ones."""
        changes: dict[str, Any] = {}
        if not self.arg_dict.keys().isdisjoint(changed):
            changes["args"] = tuple(changed.get(arg.name, arg) for arg in self.args)
        variables = self.temporary_variables
        if not variables.keys().isdisjoint(changed):
            changes["temporary_variables"] = {n: changed.get(n, v) for n, v in variables.items()}
        return self.copy(**changes) if changes else self

    def with_origin(self, origin: LoopKernel | Pending[LoopKernel] | None) -> LoopKernel:
        """Return this kernel with another origin; cached analyses are kept."""
        if vars(self)["origin"] is origin:
            return self
        changed = object.__new__(type(self))
        analyses = self.analyses.after(("origin",))
        vars(changed).update(vars(self), origin=origin, analyses=analyses)
        vars(changed).pop("_digest", None)
        return changed

    @cached_property
    def _digest(self) -> str:
        return digest((self._code_digest, self.origin))

    def code_digest(self) -> str:
        """Return the SHA-256 of everything that determines code: all content but the origin."""
        return self._code_digest

    @cached_property
    def _code_digest(self) -> str:
        return digest(self, without=("origin",))

    def __getstate__(self) -> dict[str, Any]:
        """Pickle and copy the content of the kernel, without cached analyses.

        Sets are pickled as constraints, because isl would rewrite some sets that it reads as text.
        """
        state = stored_values(self)
        return {**state, **{name: encode(state[name]) for name in _SETS}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__dict__.update((name, decode(state[name])) for name in _SETS)

    @property
    def state(self) -> KernelState:
        """``LINEARIZED`` for a kernel that has a linearization, ``INITIAL`` for any other.

        Earlier stages can be computed, and are cached, at any time, so no kernel is in a state
        between these two.
        """
        return KernelState.INITIAL if self.linearization is None else KernelState.LINEARIZED

    # -- names ------------------------------------------------------------------------

    @derived("instructions")
    def id_to_insn(self) -> Mapping[str, InstructionBase]:
        """Instructions by id."""
        return {insn.id: insn for insn in self.instructions if insn.id is not None}

    @derived("args")
    def arg_dict(self) -> Mapping[str, ArrayArg | ValueArg]:
        """Arguments by name."""
        return {arg.name: arg for arg in self.args}

    @derived("args", "temporary_variables")
    def array_vars(self) -> Mapping[str, ArrayArg | TemporaryVariable]:
        """Array arguments and temporaries by name."""
        arrays: dict[str, ArrayArg | TemporaryVariable] = {
            arg.name: arg for arg in self.args if isinstance(arg, ArrayArg)
        }
        arrays.update(self.temporary_variables)
        return arrays

    def all_inames(self) -> frozenset[str]:
        """Return all loop variables."""
        return frozenset(self.inames)

    @derived("domains")
    def iname_order(self) -> Mapping[str, int]:
        """Position of each iname in the declaration of the domains."""
        order: dict[str, int] = {}
        for facts in self._domain_facts:
            for name in facts.dims:
                order.setdefault(name, len(order))
        return order

    def in_order(self, inames: Iterable[str]) -> tuple[str, ...]:
        """Return loop variables in the order in which the domains declare them."""
        return tuple(sorted(inames, key=self.iname_order.__getitem__))

    def all_params(self) -> frozenset[str]:
        """Return all parameters of domains that are not inames."""
        return self._all_params

    @derived("domains", "inames")
    def _all_params(self) -> frozenset[str]:
        return self.bounding_names - self.inames.keys()

    @derived("domains")
    def bounding_names(self) -> frozenset[str]:
        """The parameters of all domains: sizes, data, and inames in bounds of other loops."""
        return frozenset(name for params in self._domain_params for name in params)

    outer_params = all_params

    def get_unwritten_value_args(self) -> frozenset[str]:
        """Return the names of the value arguments, which no instruction writes.

        >>> import kgen as lp
        >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "a[i] = 2*b[i]").default_entrypoint
        >>> knl.get_unwritten_value_args()
        frozenset({'n'})
        """
        return frozenset(arg.name for arg in self.args if isinstance(arg, ValueArg))

    def all_variable_names(self) -> frozenset[str]:
        """Return every name that is in use."""
        return frozenset(self.inames).union(
            self.arg_dict,
            self.temporary_variables,
            self.substitutions,
            self.all_params(),
            (self.name,),
        )

    def non_iname_variable_names(self) -> frozenset[str]:
        """Return the names of arguments and temporaries."""
        return frozenset((*self.arg_dict, *self.temporary_variables))

    @property
    def scalar_loop_args(self) -> list[str]:
        """The arguments that bound loops.

        >>> import kgen as lp
        >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "a[i] = x")
        >>> knl.default_entrypoint.scalar_loop_args
        ['n']
        """
        return sorted(self.all_params() & self.arg_dict.keys())

    def all_insn_inames(self) -> dict[str, frozenset[str]]:
        """Return the loops around each instruction, by its id."""
        return {insn.id: insn.within_inames for insn in self.instructions}

    def all_referenced_inames(self) -> frozenset[str]:
        """Return the loops around instructions; those of reductions are none."""
        return frozenset[str]().union(*self.all_insn_inames().values())

    def all_group_names(self) -> frozenset[str]:
        """Return the groups that instructions are in, or conflict with."""
        return frozenset[str]().union(
            *(insn.groups | insn.conflicts_with_groups for insn in self.instructions)
        )

    def get_group_name_generator(self) -> UniqueNameGenerator:
        """Return a generator of names of groups that are not taken."""
        return UniqueNameGenerator(set(self.all_group_names()))

    def get_var_name_generator(self) -> UniqueNameGenerator:
        """Return a generator of unused names."""
        return UniqueNameGenerator(set(self.all_variable_names()))

    def get_instruction_id_generator(self) -> UniqueNameGenerator:
        """Return a generator of unused instruction ids."""
        return UniqueNameGenerator(set(self.id_to_insn))

    def make_unique_instruction_id(
        self,
        insns: Iterable[InstructionBase] | None = None,
        based_on: str = "insn",
        extra_used_ids: Iterable[str] = (),
    ) -> str:
        """Return an id that no instruction has, of *insns* or by default of this kernel.

        It is not one of *extra_used_ids* either.
        """
        taken = {insn.id for insn in self.instructions if insns is None}
        taken.update(insn.id for insn in insns or ())
        return str(UniqueNameGenerator({*taken, *extra_used_ids})(based_on))

    def variable(self, name: str) -> ArrayBase | ValueArg | None:
        """Return the argument or temporary called *name*, if there is one."""
        return self.temporary_variables.get(name) or self.arg_dict.get(name)

    def get_var_descriptor(self, name: str) -> ArrayBase | ValueArg:
        """Return the argument or temporary called *name*, or raise an error."""
        found = self.variable(name)
        if found is None:
            known = {*self.temporary_variables, *self.arg_dict}
            raise KernelError(
                f"there is no variable '{name}'", kernel=self.name, hint=near_names(name, known)
            )
        return found

    def silencing(self, *silencers: str) -> LoopKernel:
        """Return this kernel without some warnings."""
        return self.copy(silenced_warnings=(*self.silenced_warnings, *silencers))

    # -- instructions -------------------------------------------------------------------

    @derived("instructions")
    def writers(self) -> Mapping[str, tuple[str, ...]]:
        """Ids of the instructions that write each variable, in program order."""
        found: dict[str, list[str]] = {}
        for insn in self.instructions:
            for name in dict.fromkeys(insn.assignee_var_names()):
                found.setdefault(name, []).append(str(insn.id))
        return {name: tuple(ids) for name, ids in found.items()}

    @derived("instructions", "args", "temporary_variables", "substitutions")
    def readers(self) -> Mapping[str, tuple[str, ...]]:
        """Ids of the instructions that read each variable, also through rules, in program order."""
        variables = {*self.arg_dict, *self.temporary_variables}
        found: dict[str, list[str]] = {}
        for insn in self.instructions:
            reads = insn.read_dependency_names() | self._read_by_rules(insn)
            for name in sorted(reads & variables):
                found.setdefault(name, []).append(str(insn.id))
        return {name: tuple(ids) for name, ids in found.items()}

    def _read_by_rules(self, insn: InstructionBase) -> frozenset[str]:
        """Return the names that an instruction reads through substitution rules."""
        rules = self.substitutions
        direct = insn.mentioned & rules.keys()
        if not direct:
            return frozenset()

        def inner(name: str) -> list[str]:
            found = mentions_of(rules[name].expression)
            return [used for used in (*found.functions, *found.variables) if used in rules]

        return frozenset[str]().union(*(rules[name].free_names for name in closure(direct, inner)))

    def writer_map(self) -> dict[str, set[str]]:
        """Return the ids of the writers of each variable."""
        return {name: set(ids) for name, ids in self.writers.items()}

    def reader_map(self) -> dict[str, set[str]]:
        """Return the ids of the readers of each variable."""
        return {name: set(ids) for name, ids in self.readers.items()}

    def get_written_variables(self) -> frozenset[str]:
        """Return the names of all variables that some instruction writes."""
        return frozenset(self.writers)

    def get_read_variables(self) -> frozenset[str]:
        """Return the names of all variables that some instruction reads."""
        return frozenset(self.readers)

    @derived("instructions")
    def _all_dependencies(self) -> Mapping[str, frozenset[str]]:
        known = self.id_to_insn
        return {
            name: frozenset(closure(sorted(insn.depends_on), lambda n: sorted(known[n].depends_on)))
            for name, insn in known.items()
        }

    def recursive_insn_dep_map(self) -> dict[str, frozenset[str]]:
        """Return the direct and indirect dependencies of each instruction."""
        return dict(self._all_dependencies)

    def get_nosync_set(self, insn_id: str, scope: str) -> frozenset[str]:
        """Return the instructions with which *insn_id* needs no barrier of a scope.

        :arg scope: ``"local"`` or ``"global"``
        """
        if scope not in ("local", "global"):
            raise KernelError(
                f"'{scope}' is not a scope", kernel=self.name, hint="'local' or 'global'"
            )
        if insn_id not in self.id_to_insn:
            hint = near_names(insn_id, self.id_to_insn)
            raise KernelError(f"there is no instruction '{insn_id}'", kernel=self.name, hint=hint)
        pairs = self.id_to_insn[insn_id].no_sync_with
        return frozenset(other for other, own in pairs if own in (scope, "any"))

    def insn_inames(self, insn: str | InstructionBase) -> frozenset[str]:
        """Return the loops around an instruction."""
        found = self.id_to_insn[insn] if isinstance(insn, str) else insn
        return found.within_inames

    @derived("instructions", "inames")
    def _iname_to_insns(self) -> Mapping[str, frozenset[str]]:
        found: dict[str, set[str]] = {name: set() for name in self.inames}
        for insn in self.instructions:
            for name in insn.within_inames:
                found[name].add(str(insn.id))
        return {name: frozenset(ids) for name, ids in found.items()}

    def iname_to_insns(self) -> Mapping[str, frozenset[str]]:
        """Return the ids of the instructions inside each loop."""
        return self._iname_to_insns

    def global_var_names(self) -> frozenset[str]:
        """Return the arrays in device memory."""
        return self._in_space(AddressSpace.GLOBAL)

    def local_var_names(self) -> frozenset[str]:
        """Return the arrays shared by a work-group."""
        return self._in_space(AddressSpace.LOCAL)

    def _in_space(self, space: AddressSpace) -> frozenset[str]:
        return frozenset(
            name for name, array in self.array_vars.items() if array.address_space == space
        )

    # -- tags -----------------------------------------------------------------------------

    def all_are_in(self, inames: Collection[str]) -> bool:
        """Tell whether each instruction that assigns something is in one of these loops."""
        return not any(
            insn.assignees and insn.within_inames.isdisjoint(inames) for insn in self.instructions
        )

    def iname_tags(self, iname: str) -> frozenset[Tag]:
        """Return the tags of *iname*."""
        return self.inames[iname].tags

    def iname_tags_of_type(
        self,
        iname: str,
        tag_type_or_types: type[T] | tuple[type[T], ...],
        max_num: int | None = None,
        min_num: int | None = None,
    ) -> frozenset[T]:
        """Return the tags of *iname* of a type: at least *min_num*, at most *max_num*."""
        tags = self.inames[iname].tags
        if not tags and not min_num:
            return frozenset()
        return frozenset(filter_iname_tags_by_type(tags, tag_type_or_types, max_num, min_num))

    def has_tag(self, iname: str, kind: type[T] | tuple[type[T], ...]) -> bool:
        """Tell whether *iname* has a tag of a type."""
        tags = self.inames[iname].tags
        return bool(tags) and any(isinstance(tag, kind) for tag in tags)

    # -- domains --------------------------------------------------------------------------

    @derived("domains")
    def home_domain(self) -> Mapping[str, int]:
        """The index of the domain that declares each iname."""
        home: dict[str, int] = {}
        for index, facts in enumerate(self._domain_facts):
            for name in facts.dims:
                if name in home:
                    raise KernelError(
                        f"iname '{name}' is in two domains",
                        kernel=self.name,
                        hint="rename one of them, or write one domain",
                    )
                home[name] = index
        return home

    @derived("domains")
    def _domain_params(self) -> tuple[tuple[str, ...], ...]:
        return tuple(facts.params for facts in self._domain_facts)

    def domain_parameters(self, iname: str) -> tuple[str, ...]:
        """Return the parameters of the domain that declares *iname*."""
        return self._domain_params[self.home_domain[iname]]

    def restricted(self, iname: str) -> Set:
        """Return the values of *iname*, a named set over parameters and enclosing inames."""
        return self._domain_facts[self.home_domain[iname]].restricted((iname,))

    def with_outer_inames(self, inames: frozenset[str]) -> frozenset[str]:
        """Add the inames on which the bounds of *inames* depend."""
        if not self._nests_domains:
            return inames
        result, stack = set(inames), list(inames)
        while stack:
            for name in self._domain_params[self.home_domain[stack.pop()]]:
                if name in self.inames and name not in result:
                    result.add(name)
                    stack.append(name)
        return frozenset(result)

    @derived("domains", "inames")
    def _nests_domains(self) -> bool:
        return not self.inames.keys().isdisjoint(self.bounding_names)

    @derived("domains", "inames", "instructions")
    def _parents_per_domain(self) -> tuple[int | None, ...]:
        return tuple(self._parent_of(facts.params) for facts in self._domain_facts)

    def _parent_of(self, params: tuple[str, ...]) -> int | None:
        """Return the innermost domain that declares *params*, or of the loops that set them."""
        loops: set[str] = set()
        for name in params:
            writers = [self.id_to_insn[n].within_inames for n in self.writers.get(name, ())]
            loops |= {name} & self.inames.keys() if not writers else frozenset().union(*writers)
        homes = {self.home_domain[name] for name in self.with_outer_inames(frozenset(loops))}
        inner = {
            index
            for index in homes
            if not any(index in self._domains_around(other) for other in homes - {index})
        }
        return max(inner, default=None)

    def _domains_around(self, index: int) -> frozenset[int]:
        """Return the domains of the loops that bound the loops of a domain."""
        outer = self.with_outer_inames(frozenset(self._domain_facts[index].dims))
        return frozenset(self.home_domain[name] for name in outer) - {index}

    def parents_per_domain(self) -> list[int | None]:
        """Return the index of the parent of each domain, or ``None``.

        If its bounds depend on a loop variable, or on a temporary, a domain is nested in the domain
        of that variable, or of the loops around the instruction that sets the temporary.

        >>> import kgen as lp
        >>> knl = lp.make_kernel(["{[i]: 0<=i<n}", "{[j]: 0<=j<i}"], "a[i,j] = 1")
        >>> knl.default_entrypoint.parents_per_domain()
        [None, 0]
        """
        return list(self._parents_per_domain)

    def all_parents_per_domain(self) -> list[list[int]]:
        """Return all ancestors of each domain, innermost first."""
        found = []
        for parent in self._parents_per_domain:
            parents: list[int] = []
            while parent is not None and parent not in parents:
                parents.append(parent)
                parent = self._parents_per_domain[parent]
            found.append(parents)
        return found

    def get_home_domain_index(self, iname: str) -> int:
        """Return the index of the domain that declares a loop variable, or raise an error."""
        if iname not in self.home_domain:
            hint = near_names(iname, self.inames)
            raise KernelError(f"there is no iname '{iname}'", kernel=self.name, hint=hint)
        return self.home_domain[iname]

    def get_leaf_domain_indices(self, inames: Iterable[str]) -> list[int]:
        """Return the innermost domains that, with their ancestors, declare *inames*."""
        homes = {self.get_home_domain_index(name) for name in inames}
        parents = self.all_parents_per_domain()
        return sorted(homes - {outer for home in homes for outer in parents[home]})

    @cached_property
    def analyses(self) -> AnalysisCache:
        """Cached analysis results of this kernel."""
        return AnalysisCache(LoopKernel)

    @derived()
    def typed(self) -> Any:
        """The cached types of expressions, which typers of copies check before reuse."""
        return None

    def keep_typed(self, typed: Any) -> None:
        """Cache the types of expressions for typers of this kernel and of its copies."""
        vars(self)["typed"] = typed

    def domain_of(self, inames: tuple[str, ...]) -> Set:
        """Return the joint values of *inames*: ``[params] -> { [inames] }``.

        Other inames in the bounds are projected out.
        """
        result = self._domain_memo.get(inames)
        if result is None:
            result = self._domain_memo[inames] = self._domain_of(inames)
        return result

    def deciding(self, inames: tuple[str, ...], names: frozenset[str]) -> tuple[str, ...]:
        """Return those of *inames* that the joint values of *names* depend on."""
        homes = {self.home_domain[iname] for iname in inames}
        kept = {
            home
            for home in homes
            if not self._domain_facts[home].holds_always
            or not names.isdisjoint(self._domain_facts[home].dims)
        }
        if len(kept) == len(homes):
            return inames
        return tuple(iname for iname in inames if self.home_domain[iname] in kept)

    @derived("domains", "inames", is_shared=True)
    def _domain_memo(self) -> dict[tuple[str, ...], Set]:
        """Results of :meth:`domain_of`; copies with the same domains share it."""
        return {}

    @derived("domains", is_shared=True)
    def _domain_facts(self) -> tuple[DomainFacts, ...]:
        """The cached facts about each domain; copies with the same domain share them."""
        return tuple(map(DomainFacts, self.domains))

    def _domain_of(self, inames: tuple[str, ...]) -> Set:
        needed = self.with_outer_inames(frozenset(inames))
        facts = self._domain_facts[self.home_domain[inames[0]]] if inames else None
        if facts is not None and facts.dims == inames and len(needed) == len(inames):
            return facts.domain.to_set().reset_tuple_id()
        by_home: dict[int, list[str]] = {}
        for name in self.in_order(needed):
            by_home.setdefault(self.home_domain[name], []).append(name)
        named: Set | None = None
        for index in sorted(by_home):
            part = self._domain_facts[index].restricted(tuple(by_home[index]))
            named = part if named is None else named.intersect(part)
        if named is None:
            return parse_assumptions(None)
        named = drop_implied_in_pieces(named)
        result = from_named(named, [*inames, *sorted(needed - set(inames))])
        return outer_dims(result, len(inames)) if len(needed) > len(inames) else result

    def get_inames_domain(self, inames: Any) -> Set:
        """Return the domain of some inames and all others of their domains and of those around.

        >>> import kgen as lp
        >>> unit = lp.make_kernel(["{ [i, j]: 0<=j<=i<n }", "{ [k]: 0<=k<m }"], "a[i, j, k] = 1")
        >>> print(unit.default_entrypoint.get_inames_domain("i"))
        [n] -> { [i, j] : i < n and 0 <= j <= i }
        """
        names = (inames,) if isinstance(inames, str) else inames
        homes = {self.get_home_domain_index(name) for name in names}
        parents = self.all_parents_per_domain()
        needed = homes.union(*(parents[home] for home in homes))
        together = (name for home in sorted(needed) for name in dim_names(self.domains[home]))
        return self.domain_of(tuple(together))

    def combine_domains(self, domains: Iterable[int]) -> BasicSet:
        """Return the intersection of some of the kernel's domains, by their numbers.

        Inames of one that bound loops of another are no parameters of the result.

        >>> import kgen as lp
        >>> unit = lp.make_kernel(["{ [i]: 0<=i<n }", "{ [j]: 0<=j<i }"], "a[i, j] = 1")
        >>> print(unit.default_entrypoint.combine_domains((0, 1)))
        [n] -> { [i, j] : 0 <= i < n and 0 <= j < i }
        """
        combined = to_named(Set("{ [] }"))
        names: list[str] = []
        for number in domains:
            combined = combined.intersect(to_named(self.domains[number]))
            names += [name for name in dim_names(self.domains[number]) if name not in names]
        return as_basic_set(from_named(combined, names))

    @property
    def isl_context(self) -> Any:
        """The islpy.Context of all sets."""
        return self.assumptions.get_ctx()

    def get_iname_bounds(self, iname: str, constants_only: bool = False) -> LoopRange:
        """Return the bounds of a loop under the assumptions, in parameters and enclosing inames.

        With *constants_only*, the bounds are numbers that are valid for all parameters.

        >>> import kgen as lp
        >>> knl = lp.make_kernel("{ [i]: 2 <= i < n }", "a[i] = 1").default_entrypoint
        >>> str(knl.get_iname_bounds("i").size)
        '[n] -> { [(-2 + n)] : n >= 3 }'
        """
        domain = self.domain_of((iname,))
        if constants_only:
            domain = domain.intersect_params(self.assumptions)
            domain = without_params(domain)
        return LoopRange(domain, iname, self.assumptions, self.inames.keys())

    def get_constant_iname_length(self, iname: str) -> int:
        """Return the maximum trip count of a loop, for all parameters.

        Raises :class:`StaticValueFindingError` if there is no maximum.

        >>> import kgen as lp
        >>> knl = lp.make_kernel("{ [i]: 0 <= i < 12 }", "a[i] = 1").default_entrypoint
        >>> knl.get_constant_iname_length("i")
        12
        """
        size = self.get_iname_bounds(iname, constants_only=True).size
        return int(size.max_val().to_python())

    def local_mem_use(self) -> int:
        """Return the bytes of local memory that the temporaries of a work-group take."""
        taken: dict[str, int] = {}
        for name, temporary in self.temporary_variables.items():
            is_held = temporary.distribution is not None and self.target.has_tensor_cores
            if temporary.address_space == AddressSpace.LOCAL and not is_held:
                storage = temporary.base_storage or name
                taken[storage] = max(taken.get(storage, 0), int(temporary.nbytes))
        return sum(taken.values())

    def get_grid_size_upper_bounds(
        self,
        callables_table: Mapping[str, Any] | None = None,
        ignore_auto: bool = False,
        return_dict: bool = False,
    ) -> tuple[Sizes[PwAff], Sizes[PwAff]]:
        """Return the numbers of work-groups, and of work-items per group, along each axis.

        They are tuples, or with *return_dict* ``{axis: size}``. Loops of called kernels, found in
        *callables_table*, count only after inlining.

        Raises :class:`KernelError` if loops tagged ``l.auto``, which have no axis yet, determine
        a size, unless *ignore_auto*; and for a called kernel with loops on hardware axes.
        """
        self._reject_unknown_axes(callables_table, ignore_auto)
        return _sizes(self.grid.group_counts, self.grid.local_sizes, return_dict)

    def get_grid_size_upper_bounds_as_exprs(
        self,
        callables_table: Mapping[str, Any] | None = None,
        ignore_auto: bool = False,
        return_dict: bool = False,
    ) -> tuple[Sizes[Expr], Sizes[int]]:
        """Return :meth:`get_grid_size_upper_bounds`, as expressions of arguments."""
        self._reject_unknown_axes(callables_table, ignore_auto)
        return _sizes(self.grid.groups, self.grid.locals, return_dict)

    def get_grid_sizes_for_insn_ids(
        self,
        insn_ids: Iterable[str],
        callables_table: Mapping[str, Any] | None = None,
        ignore_auto: bool = False,
        return_dict: bool = False,
    ) -> tuple[Sizes[PwAff], Sizes[PwAff]]:
        """Return :meth:`get_grid_size_upper_bounds` of the loops around some instructions."""
        self._reject_unknown_axes(callables_table, ignore_auto)
        grid = self.grid_of_launch(insn_ids)
        return _sizes(grid.group_counts, grid.local_sizes, return_dict)

    def get_grid_sizes_for_insn_ids_as_exprs(
        self,
        insn_ids: Iterable[str],
        callables_table: Mapping[str, Any] | None = None,
        ignore_auto: bool = False,
        return_dict: bool = False,
    ) -> tuple[Sizes[Expr], Sizes[int]]:
        """Return :meth:`get_grid_sizes_for_insn_ids`, as expressions of arguments."""
        self._reject_unknown_axes(callables_table, ignore_auto)
        grid = self.grid_of_launch(insn_ids)
        return _sizes(grid.groups, grid.locals, return_dict)

    def mangled_symbol(self, name: str) -> tuple[KgenType, str] | None:
        """Return the type and the code of a name, if a symbol mangler knows it, else ``None``."""
        for mangler in self.symbol_manglers:
            found = mangler(self, name)
            if found is None:
                continue
            if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], str)):
                raise KernelError(
                    f"a symbol mangler returns {found!r} for '{name}'",
                    kernel=self.name,
                    hint="return a pair (dtype, text in the code), or None",
                )
            return to_kgen_type(found[0], allow_none=False), found[1]
        return None

    def _reject_unknown_axes(
        self, callables_table: Mapping[str, Any] | None, ignore_auto: bool
    ) -> None:
        """Reject kernels in which loops tagged ``l.auto`` determine the size of a hardware axis.

        If an instruction is in no such loop, these loops share the axes that others have sized.
        """
        waiting = [iname for iname in self.inames if self.has_tag(iname, AutoFitLocalInameTag)]
        if waiting and not ignore_auto and self.all_are_in(waiting):
            raise KernelError(
                f"the loop '{waiting[0]}' is tagged 'l.auto': its hardware axis is not known",
                kernel=self.name,
                hint="tag it l.0, l.1 or l.2; or pass ignore_auto=True to leave it out",
            )
        table = callables_table or {}
        exprs = [expr for insn in self.instructions for expr in insn.expressions()]
        called = mentions_of(*exprs).functions
        for name in sorted(called.keys() & table.keys()):
            callee = getattr(table[name], "subkernel", None)
            if isinstance(callee, LoopKernel) and callee.axes:
                raise KernelError(
                    f"the called kernel '{name}' has loops on hardware axes",
                    kernel=self.name,
                    hint=f"call inline_callable_kernel(program, '{name}') first",
                )

    @derived("domains", "inames", "assumptions")
    def axes(self) -> Mapping[str, Axis]:
        """The inames on hardware axes."""
        return axes_of(self)

    @derived("domains", "inames", "assumptions")
    def grid(self) -> Grid:
        """The hardware axes of the kernel: those of all its launches."""
        return grid_of(self, self.axes.values())

    def grid_of_launch(self, insn_ids: Iterable[str]) -> Grid:
        """Return the hardware axes of a launch that runs some of the instructions."""
        axes = self.axes_around(insn_ids)
        return self.grid if len(axes) == len(self.axes) else grid_of(self, axes.values())

    def axes_around(self, insn_ids: Iterable[str]) -> dict[str, Axis]:
        """Return the inames on hardware axes around some of the instructions."""
        used = frozenset[str]().union(*(self.id_to_insn[n].within_inames for n in insn_ids))
        return {iname: axis for iname, axis in self.axes.items() if iname in used}

    def warn(self, text: str, silencer: str, category: type[KgenWarning] = KgenWarning) -> None:
        """Issue a warning, unless ``silenced_warnings`` contains its *silencer*."""
        warn(text, category, silencer=silencer, silenced=self.silenced_warnings, stacklevel=4)

    # -- text -----------------------------------------------------------------------------

    def stringify(
        self,
        what: Any = None,
        with_dependencies: bool = False,
        use_separators: bool = True,
        show_labels: bool = True,
    ) -> str:
        """Print the kernel; *what* restricts it to sections such as ``"INSTRUCTIONS"``.

        *use_separators*: with lines between sections; *show_labels*: with titles of sections.
        """
        return stringify_kernel(
            self,
            what=what,
            with_dependencies=with_dependencies,
            has_rules=use_separators,
            has_titles=show_labels,
        )

    def __repr__(self) -> str:
        parts = {
            "loop": len(self.all_inames()),
            "instruction": len(self.instructions),
            "argument": len(self.args),
        }
        counts = (f"{count} {what}{'' if count == 1 else 's'}" for what, count in parts.items())
        return f"<kernel '{self.name}': {', '.join(counts)}>"

    def __str__(self) -> str:
        return self.stringify()

    def _repr_html_(self) -> str:
        """Show the kernel in a notebook: loops, arrays, instructions, code."""
        pages = load("kgen.notebook.kernels", "notebook")
        return str(pages.kernel_html(self, pages.lines_or_reason(self)))


_STORED = stored_fields(LoopKernel)
_DERIVED = {name: known for name, known in vars(LoopKernel).items() if isinstance(known, Derived)}


def _with_ids(held: Iterable[InstructionBase]) -> Parts[InstructionBase]:
    """Return instructions with unique ids for those that have none, or only a prefix."""
    insns = held if type(held) is Parts else Parts(held)
    if all(isinstance(insn.id, str) for insn in insns):
        return insns
    named = zip(insns, unique_ids(insns), strict=True)
    return Parts(insn if insn.id == name else insn.copy(id=name) for insn, name in named)


#: Functions that make fields constant.
_CONSTANT: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_PARTS, lambda held: held if type(held) is Parts else Parts(held)),
    "instructions": _with_ids,
    **dict.fromkeys(
        _MAPS, lambda held: held if type(held) is Table else Table(sorted(held.items()))
    ),
    **dict.fromkeys(
        ("preambles", "preamble_generators", "symbol_manglers"),
        lambda held: tuple(held) if isinstance(held, list) else held,
    ),
    "applied_iname_rewrites": lambda held: tuple(map(constantdict, held)),
    "silenced_warnings": Joinable,
    "assumptions": lambda held: held.to_set() if isinstance(held, BasicSet) else held,
    "loop_priority": lambda held: (
        held
        if type(held) is Joinable
        else Joinable(sorted(held) if isinstance(held, AbstractSet) else held)
    ),
    "options": lambda held: held.held(),
}


@lru_cache(maxsize=256)
def _kept(changed: frozenset[str]) -> tuple[tuple[str, bool], ...]:
    """Return the properties that copies keep after changes of fields, and if they are shared."""
    return tuple(
        (name, known.is_shared)
        for name, known in _DERIVED.items()
        if known.fields.isdisjoint(changed)
    )


def _sizes(
    groups: tuple[P, ...], locals_: tuple[Q, ...], as_dicts: bool
) -> tuple[Sizes[P], Sizes[Q]]:
    return (dict(enumerate(groups)), dict(enumerate(locals_))) if as_dicts else (groups, locals_)


#: The fields whose types are checked: all but those that transformations keep of the origin.
_CHECKED = frozenset(_STORED) - {"origin"}
#: Fields of these types need no check when empty.
_EMPTY = (tuple, Parts, Table, frozenset)
#: The fields checked in copies, which exclude unchanged instructions, arguments and declarations.
_PLAIN = _CHECKED.difference(_MAPS, ("instructions", "args"))
