"""Instructions: assignments, calls, C snippets, barriers and no-ops."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Self, TypeVar

import pymbolic.primitives as p
from pytools import UniqueNameGenerator
from pytools.tag import Tag

from kgen.errors import InvalidValueError, KernelError, counted, near_names
from kgen.ir.analyses import AnalysisCache
from kgen.ir.assignee import assignee_name, index_of
from kgen.ir.atomicity import AtomicInit, VarAtomicity
from kgen.ir.checked import unfit
from kgen.ir.data import SubstitutionRule
from kgen.ir.expr import (
    Expr,
    Reduction,
    SubArrayRef,
    same_objects,
    to_text,
    variable_names,
)
from kgen.ir.fields import stored_values
from kgen.ir.instruction_fields import (
    BINDINGS,
    CREATES_NOTHING,
    READERS,
    UniqueName,
    read_accesses,
    read_binding,
    read_names,
    read_temp_type,
    read_value,
    unfit_option,
)
from kgen.ir.language.expressions import parse
from kgen.ir.mentions import Mentions, mentions_of
from kgen.ir.ordered_set import OrderedSet
from kgen.ir.tags import Taggable, UseStreamingStoreTag
from kgen.ir.types import Optional

__all__ = [
    "assign_beside",
    "Assignment",
    "BarrierInstruction",
    "CInstruction",
    "CallInstruction",
    "DataObliviousInstruction",
    "HappensAfter",
    "InstructionBase",
    "MultiAssignmentBase",
    "NoOpInstruction",
    "SourceSpan",
    "UniqueName",
    "UseStreamingStoreTag",
    "make_assignment",
    "unique_ids",
]

Self_ = TypeVar("Self_", bound="InstructionBase")


@dataclass(frozen=True)
class HappensAfter:
    """Orders an instruction after another one; see :attr:`InstructionBase.happens_after`.

    *variable_name* is the variable that causes the order, *instances_rel* a map from
    the instances that come first to those that wait. ``None`` for both has the meaning of
    ``depends_on``: for any reason, within each iteration of the shared loops, all instances of
    the first instruction run before any of the second.

    >>> insn = Assignment("out[i]", "t", depends_on="load")
    >>> insn.happens_after
    {'load': HappensAfter(variable_name=None, instances_rel=None)}
    >>> sorted(insn.copy(depends_on={**insn.happens_after, "set": HappensAfter()}).depends_on)
    ['load', 'set']
    """

    variable_name: str | None = None
    instances_rel: Any = None


@dataclass(frozen=True)
class SourceSpan:
    """The source of an instruction, text and line, for messages."""

    text: str
    line: int

    def __str__(self) -> str:
        return f"line {self.line}: {self.text.strip()}"


_NO_CONDITIONS: Final = OrderedSet[Expr]()


@dataclass(frozen=True, kw_only=True)
class InstructionBase(Taggable):
    """The base class of instructions.

    * ``id``: unique in the kernel; :class:`UniqueName` before it is made so
    * ``within_inames``: the loops around it
    * ``depends_on``: ids that run before; ``depends_on_is_final`` switches off the
      single-writer heuristic
    * ``no_sync_with``: pairs ``(id, scope)``, scope in local, global, any
    * ``predicates``: conditions, all of which must hold; numbers hold unless they are 0, and
      ``None`` is no condition. They are evaluated in order, up to the first that does not hold;
      conditions on loop variables and sizes come first, and may become bounds
    * ``conflicts_with_groups``, ``groups``: sets of instructions that must not interleave

    >>> insn = Assignment("out[i]", "a[i] + t", depends_on="load", predicates=["i > 0"])
    >>> sorted(insn.read_dependency_names()), insn.assignee_var_names()
    (['a', 'i', 't'], ('out',))
    """

    id: Any = None
    depends_on: frozenset[str] = frozenset()
    depends_on_is_final: bool = False
    groups: frozenset[str] = frozenset()
    conflicts_with_groups: frozenset[str] = frozenset()
    no_sync_with: frozenset[tuple[str, str]] = frozenset()
    within_inames: frozenset[str] = frozenset()
    within_inames_is_final: bool = False
    priority: int = 0
    predicates: OrderedSet[Expr] = _NO_CONDITIONS
    tags: frozenset[Tag] = frozenset()
    span: SourceSpan | None = dataclasses.field(default=None, compare=False, repr=False)

    def _set(self, **values: Any) -> None:
        self.__dict__.update(values)

    def copy(self: Self_, **changes: Any) -> Self_:
        """Return this with some fields changed; the same object where none is."""
        state = self.__dict__
        changes = _with_ids(self, changes)
        changes = {k: v for k, v in changes.items() if k not in state or state[k] is not v}
        if changes.keys() <= _BOOKKEEPING.keys() & state.keys():
            return self._with_bookkeeping(changes) if changes else self
        return self._rebuilt(changes)

    def _with_bookkeeping(self: Self_, changes: dict[str, Any]) -> Self_:
        """Change fields other than the expressions, whose cached analyses stay valid."""
        new = object.__new__(type(self))
        state = new.__dict__
        state.update(self.__dict__)
        if "analyses" in state:
            state["analyses"] = self.analyses.after(changes)
        for name, value in changes.items():
            read = _BOOKKEEPING[name]
            state[name] = value if read is None else read(value, name)
        return new

    def _rebuilt(self: Self_, changes: dict[str, Any]) -> Self_:
        """Construct the instruction again."""
        return type(self)(**{**stored_values(self), **changes})

    def __getstate__(self) -> dict[str, Any]:
        """Pickle and copy the instruction without its cached analyses."""
        return stored_values(self)

    @cached_property
    def analyses(self) -> AnalysisCache:
        """Cached analysis results of this instruction."""
        return AnalysisCache(InstructionBase)

    # -- what an instruction reads and writes ---------------------------------

    @property
    def assignees(self) -> tuple[Expr, ...]:
        """The assignees, as expressions."""
        return ()

    @property
    def is_global_barrier(self) -> bool:
        """Whether this is a barrier for all work-items, which ends a launch."""
        return False

    @property
    def happens_after(self) -> dict[str, HappensAfter]:
        """The dependencies of ``depends_on``, as a :class:`HappensAfter` for each id.

        Instructions can be created and copied with either.

        >>> Assignment("out[i]", "t", happens_after=["load"]).depends_on
        frozenset({'load'})
        """
        return {name: HappensAfter() for name in sorted(self.depends_on)}

    @property
    def assignee_name(self) -> str:
        """The name of the variable written, of an instruction that writes one."""
        if len(self._written) != 1:
            raise InvalidValueError(
                f"'{self}' has {counted(len(self._written), 'assignee')}, not one",
                hint="assignee_var_names() returns the names of all",
            )
        return self._written[0]

    def assignee_var_names(self) -> tuple[str, ...]:
        """Return the names of the variables written."""
        return self._written

    @cached_property
    def _written(self) -> tuple[str, ...]:
        return tuple(assignee_name(lhs) for lhs in self.assignees)

    def assignee_subscript_deps(self) -> tuple[frozenset[str], ...]:
        """Return the variables in the subscripts of each assignee."""
        return tuple(frozenset(variable_names(*index_of(lhs))) for lhs in self.assignees)

    def subscripts_of(self, array: str) -> frozenset[str]:
        """Return the variables in the subscripts of assignees of *array*."""
        places = zip(self._written, self.assignee_subscript_deps(), strict=True)
        return frozenset(name for written, names in places if written == array for name in names)

    def read_exprs(self) -> tuple[Expr, ...]:
        """Return the expressions evaluated, except predicates and subscripts of assignees."""
        return ()

    def expressions(self) -> tuple[Expr, ...]:
        """Return all expressions: those evaluated, the predicates, and the assignees."""
        return (*self.read_exprs(), *self.predicates, *self.assignees)

    @cached_property
    def reads(self) -> Mentions:
        """The names read: operands, predicates, subscripts of assignees; and the rules used."""
        return self.reads_through({})

    def reads_through(self, rules: Mapping[str, SubstitutionRule]) -> Mentions:
        """Return the names read, replacing uses of *rules* by the names in the rules."""
        found = Mentions(rules=rules)
        self._add_operands(found)
        found.add(*self.predicates)
        for lhs in self.assignees:
            if isinstance(lhs, SubArrayRef):
                swept = tuple(v.name for v in lhs.swept_inames)
                found.swept.update(dict.fromkeys(swept))
                found.merge(mentions_of(*index_of(lhs), rules=rules), bound=swept)
            else:
                found.add(*index_of(lhs))
        return found

    def _add_operands(self, found: Mentions) -> None:
        """Add what :meth:`read_exprs` mention."""
        found.add(*self.read_exprs())

    @cached_property
    def mentioned(self) -> frozenset[str]:
        """The names of variables and functions; some may be substitution rules."""
        return frozenset((*self.reads.variables, *self.reads.functions, *self._written))

    @cached_property
    def _read_names(self) -> frozenset[str]:
        found = self.reads
        return frozenset((*found.variables, *found.reduced, *found.swept))

    def read_dependency_names(self) -> frozenset[str]:
        """Return all variables read: operands, subscripts, predicates; reduction inames too."""
        return self._read_names

    def write_dependency_names(self) -> frozenset[str]:
        """Return the variables written and those in their subscripts."""
        return frozenset(self.assignee_var_names()).union(*self.assignee_subscript_deps())

    def dependency_names(self) -> frozenset[str]:
        """Return all variables that occur."""
        return self.read_dependency_names() | self.write_dependency_names()

    def reduction_inames(self) -> frozenset[str]:
        """Return the inames of all reductions inside."""
        return frozenset(self.reads.reduced)

    @cached_property
    def has_reductions(self) -> bool:
        """Whether an expression contains a reduction, over inames or over none."""
        return self.reads.has(Reduction)

    def sub_array_ref_inames(self) -> frozenset[str]:
        """Return the inames swept by sub-array references."""
        return frozenset(self.reads.swept)

    def with_transformed_expressions(
        self: Self_,
        f: Callable[[Expr], Expr],
        assignee_f: Callable[[Expr], Expr] | None = None,
        **changes: Any,
    ) -> Self_:
        """Apply *f* to every expression, including predicates, and other *changes*.

        *assignee_f* is applied to assignees, by default *f*, too. Returns the same object if
        nothing changes.
        """
        old = self.predicates.order
        new = tuple(f(condition) for condition in old)
        predicates = self.predicates if same_objects(new, old) else OrderedSet(new)
        places = self._with_places(tuple(map(assignee_f or f, self.assignees)))
        return self.copy(predicates=predicates, **places, **changes)

    def _with_places(self, assignees: tuple[Expr, ...]) -> dict[str, Any]:
        """Return the fields that have other values with other assignees."""
        return {}

    # -- text -------------------------------------------------------------------

    def _body_text(self) -> str:
        raise NotImplementedError

    def get_str_options(self) -> list[str]:
        """Return the options as they are written between braces."""
        options = [f"id={self.id}"] if self.id else []
        if self.priority:
            options.append(f"priority={self.priority}")
        if self.tags:
            options.append("tags=" + ":".join(sorted(str(tag) for tag in self.tags)))
        if self.groups:
            options.append("groups=" + ":".join(sorted(self.groups)))
        if self.conflicts_with_groups:
            options.append("conflicts=" + ":".join(sorted(self.conflicts_with_groups)))
        if self.no_sync_with:
            pairs = (f"{other}@{scope}" for other, scope in sorted(self.no_sync_with))
            options.append("nosync=" + ":".join(pairs))
        return options

    def __str__(self) -> str:
        return f"{self._body_text()}  {{{', '.join(self.get_str_options())}}}"


class MultiAssignmentBase(InstructionBase):
    """An instruction of the form ``assignees = expression``.

    >>> insn = Assignment("out[i]", "2*a[i]")
    >>> isinstance(insn, MultiAssignmentBase), to_text(insn.expression)
    (True, '2*a[i]')
    """

    expression: Expr

    def read_exprs(self) -> tuple[Expr, ...]:
        return (self.expression,)

    def with_transformed_expressions(
        self,
        f: Callable[[Expr], Expr],
        assignee_f: Callable[[Expr], Expr] | None = None,
        **changes: Any,
    ) -> Self:
        """Apply *assignee_f* to assignees, and *f* to expression and predicates."""
        expression = f(self.expression)
        return super().with_transformed_expressions(f, assignee_f, expression=expression, **changes)


@dataclass(frozen=True, init=False)
class Assignment(MultiAssignmentBase):
    """``assignee = expression``, with a single assignee.

    ``temp_var_type``: an :class:`Optional`, empty if the assignee is declared elsewhere;
    if this instruction creates it as a temporary, its type, or ``None`` to infer the type.
    ``None``, ``auto`` and types without :class:`Optional` mean the same.

    >>> print(Assignment("out[i, j]", "2*a[j, i]", id="swap", tags="setup"))
    out[i, j] = 2*a[j, i]  {id=swap, tags=setup}
    """

    assignee: Expr
    expression: Expr
    temp_var_type: Optional = CREATES_NOTHING
    atomicity: tuple[VarAtomicity, ...] = ()

    def __init__(self, assignee: Expr, expression: Expr, id: Any = None, **options: Any) -> None:
        temp_var_type = options.pop("temp_var_type", None)
        atomicity = options.pop("atomicity", ())
        _init_base(self, {"id": id, **options})
        assignee = parse(assignee) if isinstance(assignee, str) else assignee
        assignee_name(assignee)
        self._set(
            assignee=assignee,
            expression=read_value(expression, (assignee,)),
            temp_var_type=read_temp_type(temp_var_type),
            atomicity=read_accesses(atomicity),
        )

    @property
    def assignees(self) -> tuple[Expr, ...]:
        """The single assignee."""
        return (self.assignee,)

    @property
    def temp_var_types(self) -> tuple[Optional, ...]:
        """``temp_var_type`` as a tuple, as for calls."""
        return (self.temp_var_type,)

    def _with_places(self, assignees: tuple[Expr, ...]) -> dict[str, Any]:
        atomicity = _with_names_of(self.atomicity, self.assignees, assignees)
        return {"assignee": assignees[0], "atomicity": atomicity}

    def get_str_options(self) -> list[str]:
        """Return the options as they are written between braces."""
        options = super().get_str_options()
        if self.atomicity:
            inits = any(isinstance(a, AtomicInit) for a in self.atomicity)
            options.append("atomic=init" if inits else "atomic")
        return options

    def _body_text(self) -> str:
        place = _declaration(self.temp_var_type) + to_text(self.assignee)
        return f"{place} = {to_text(self.expression)}"


#: The fields that determine when and where an instruction runs.
_SHARED = (
    "within_inames",
    "predicates",
    "depends_on",
    "no_sync_with",
    "groups",
    "conflicts_with_groups",
    "priority",
    "tags",
    "span",
)


def unique_ids(instructions: Iterable[InstructionBase]) -> list[str]:
    """Return the id of each instruction, a unique one if it has none, or only a prefix.

    >>> unique_ids([Assignment("x", 0), Assignment("y", 0), Assignment("z", 0, id="a")])
    ['insn', 'insn_0', 'a']
    """
    given = [insn.id for insn in instructions]
    fresh = UniqueNameGenerator({name for name in given if isinstance(name, str)})
    return [
        name
        if isinstance(name, str)
        else fresh(name.name if isinstance(name, UniqueName) else "insn")
        for name in given
    ]


def assign_beside(
    insn: InstructionBase, assignee: Expr, value: Expr, id: str, **changes: Any
) -> Assignment:
    """Return an assignment in the loops of *insn*, with its predicates, dependencies and options.

    >>> insn = Assignment("out[i]", "2*a[i]", id="swap", within_inames="i", tags="setup")
    >>> print(assign_beside(insn, "b[i]", "out[i]", "keep", depends_on="swap"))
    b[i] = out[i]  {id=keep, tags=setup}
    """
    options = {**{name: getattr(insn, name) for name in _SHARED}, **changes}
    return Assignment(
        assignee,
        value,
        id,
        within_inames_is_final=True,
        depends_on_is_final=True,
        **options,
    )


@dataclass(frozen=True, init=False)
class CallInstruction(MultiAssignmentBase):
    """``a, b = f(...)``: a call, or a reduction, with several results.

    >>> print(CallInstruction("s[i], c[i]", "sincos(x[i])", id="turn"))
    s[i], c[i] = sincos(x[i])  {id=turn}
    """

    assignees: tuple[Expr, ...] = ()
    expression: Expr = None
    temp_var_types: tuple[Optional, ...] = ()
    atomicity: tuple[VarAtomicity, ...] = ()

    def __init__(
        self, assignees: Iterable[Expr], expression: Expr, id: Any = None, **options: Any
    ) -> None:
        types = options.pop("temp_var_types", None)
        atomicity = options.pop("atomicity", ())
        _init_base(self, {"id": id, **options})
        assignees = parse(assignees) if isinstance(assignees, str) else assignees
        places = tuple(assignees) if isinstance(assignees, list | tuple) else (assignees,)
        expression = read_value(expression, places)
        if not isinstance(expression, p.Call | Reduction | p.CallWithKwargs):
            raise KernelError(
                f"'{to_text(expression)}' has one value and cannot be assigned to "
                f"{len(places)} places\n  hint: only calls and reductions have several"
            )
        if types is None:
            types = (None,) * len(places)
        if not isinstance(types, list | tuple) or len(types) not in (0, len(places)):
            wanted = "a list of a type, or None, for each variable that is assigned"
            raise unfit_option("temp_var_types", wanted, types)
        types = types or (None,) * len(places)
        self._set(
            assignees=places,
            expression=expression,
            temp_var_types=tuple(read_temp_type(t) for t in types),
            atomicity=read_accesses(atomicity),
        )

    def arg_id_to_arg(self) -> dict[int | str, Expr]:
        """Return the arguments of a call, by position or name, and its assignees: -1, -2...

        >>> call = CallInstruction("s[i], c[i]", "sincos(x[i], n=2)").arg_id_to_arg()
        >>> {key: to_text(arg) for key, arg in call.items()}
        {0: 'x[i]', 'n': '2', -1: 's[i]', -2: 'c[i]'}
        """
        if isinstance(self.expression, Reduction):
            raise KernelError(f"'{to_text(self.expression)}' is not a call, and has no arguments")
        named = getattr(self.expression, "kw_parameters", {})
        found: dict[int | str, Expr] = {**dict(enumerate(self.expression.parameters)), **named}
        found.update((-1 - k, place) for k, place in enumerate(self.assignees))
        return found

    def _with_places(self, assignees: tuple[Expr, ...]) -> dict[str, Any]:
        atomicity = _with_names_of(self.atomicity, self.assignees, assignees)
        same = same_objects(assignees, self.assignees)
        return {"assignees": self.assignees if same else assignees, "atomicity": atomicity}

    def _body_text(self) -> str:
        places = ", ".join(
            _declaration(kind) + to_text(lhs)
            for lhs, kind in zip(self.assignees, self.temp_var_types, strict=True)
        )
        return f"{places} = {to_text(self.expression)}" if places else to_text(self.expression)


@dataclass(frozen=True, init=False)
class CInstruction(InstructionBase):
    """A snippet of C: ``CInstruction("i", "b[i] = f(i);", assignees="b[i]", read_variables="a")``.

    ``iname_exprs``: names in the snippet and the expressions that they stand for.

    >>> import kgen as lp
    >>> clip = CInstruction("i", "if (a[i] > 1) a[i] = 1;", read_variables="a", assignees="a[i]")
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", [clip], [lp.GlobalArg("a", "float32"), ...], target=lp.CTarget())
    >>> print(lp.generate_body(unit))
      for (int i = 0; i < n; ++i)
      {
        if (a[i] > 1) a[i] = 1;
      }
    """

    iname_exprs: tuple[tuple[str, Expr], ...] = ()
    code: str = ""
    read_variables: frozenset[str] = frozenset()
    assignees: tuple[Expr, ...] = ()

    def __init__(
        self,
        iname_exprs: Any,
        code: str,
        read_variables: Any = frozenset(),
        assignees: Any = (),
        **options: Any,
    ) -> None:
        _init_base(self, options)
        if isinstance(iname_exprs, str):
            iname_exprs = [n.strip() for n in iname_exprs.split(",") if n.strip()]
        if not isinstance(iname_exprs, list | tuple):
            raise unfit("iname_exprs of C code", BINDINGS, iname_exprs)
        if not isinstance(code, str):
            raise unfit("code of a C instruction", "text", code)
        if isinstance(assignees, str):
            parsed = parse(assignees) if assignees.strip() else ()
            assignees = parsed if isinstance(parsed, tuple) else (parsed,)
        if not isinstance(assignees, list | tuple):
            raise unfit("assignees of C code", "text, or a list of array elements", assignees)
        places = tuple(parse(a) if isinstance(a, str) else a for a in assignees)
        for place in places:
            assignee_name(place)
        self._set(
            iname_exprs=tuple(read_binding(item) for item in iname_exprs),
            code=code,
            read_variables=read_names(read_variables, "read_variables"),
            assignees=places,
        )

    def read_exprs(self) -> tuple[Expr, ...]:
        reads = tuple(p.Variable(name) for name in sorted(self.read_variables))
        return reads + tuple(expr for _, expr in self.iname_exprs)

    def _add_operands(self, found: Mentions) -> None:
        # C code may use the elements of what it reads: no subscripts are known
        found.variables.update(dict.fromkeys(sorted(self.read_variables)))
        found.add(*(value for _, value in self.iname_exprs))

    def with_transformed_expressions(
        self,
        f: Callable[[Expr], Expr],
        assignee_f: Callable[[Expr], Expr] | None = None,
        **changes: Any,
    ) -> CInstruction:
        """Apply *assignee_f* to assignees, and *f* to iname expressions and predicates."""
        exprs = tuple((name, f(expr)) for name, expr in self.iname_exprs)
        return super().with_transformed_expressions(f, assignee_f, iname_exprs=exprs, **changes)

    def _with_places(self, assignees: tuple[Expr, ...]) -> dict[str, Any]:
        return {"assignees": assignees}

    def _body_text(self) -> str:
        bindings = ", ".join(
            name if expr == p.Variable(name) else f"{name}={to_text(expr)}"
            for name, expr in self.iname_exprs
        )
        places = ", ".join(to_text(lhs) for lhs in self.assignees)
        reads = ",".join(sorted(self.read_variables))
        return f"{places + ' ' if places else ''}<- CODE({bindings}|{reads}):"

    def __str__(self) -> str:
        lines = ["    " + line for line in self.code.splitlines()]
        return "\n".join([super().__str__(), *lines])


class DataObliviousInstruction(InstructionBase):
    """An instruction that touches no data: a no-op or a barrier.

    >>> isinstance(NoOpInstruction("last"), DataObliviousInstruction)
    True
    """

    def __init__(self, id: Any = None, **options: Any) -> None:
        _init_base(self, {"id": id, **options})


@dataclass(frozen=True, init=False)
class NoOpInstruction(DataObliviousInstruction):
    """``... nop``: does nothing; other instructions can depend on it.

    >>> str(NoOpInstruction("last", depends_on="first"))
    '... nop  {id=last}'
    """

    def _body_text(self) -> str:
        return "... nop"


@dataclass(frozen=True, init=False)
class BarrierInstruction(DataObliviousInstruction):
    """``... lbarrier`` or ``... gbarrier``: a barrier for a work-group, or for all work-items.

    ``mem_kind`` is the memory made consistent by a local barrier: local or global.

    >>> str(BarrierInstruction("wait", synchronization_kind="local", mem_kind="global"))
    '... lbarrier  {id=wait, mem_kind=global}'
    """

    synchronization_kind: str = "global"
    mem_kind: str = "local"

    def __init__(self, id: Any = None, **options: Any) -> None:
        kind = options.pop("synchronization_kind", "global")
        mem_kind = options.pop("mem_kind", "local")
        super().__init__(id, **options)
        if not isinstance(kind, str) or kind not in ("local", "global"):
            raise unfit("synchronization_kind of a barrier", "'local' or 'global'", kind)
        if not isinstance(mem_kind, str):
            raise unfit("mem_kind of a barrier", "'local' or 'global'", mem_kind)
        self._set(synchronization_kind=kind, mem_kind=mem_kind)

    @property
    def is_global_barrier(self) -> bool:
        """Whether this is a barrier for all work-items, which ends a launch."""
        return self.synchronization_kind == "global"

    def get_str_options(self) -> list[str]:
        """Return the options as they are written between braces."""
        options = super().get_str_options()
        if self.synchronization_kind == "local" and self.mem_kind != "local":
            options.append(f"mem_kind={self.mem_kind}")
        return options

    def _body_text(self) -> str:
        return f"... {self.synchronization_kind[0]}barrier"


_DEFAULTS = {field.name: field.default for field in dataclasses.fields(InstructionBase)}


def _with_ids(insn: InstructionBase, options: dict[str, Any]) -> dict[str, Any]:
    """Return options in which ``happens_after`` is converted to ``depends_on``."""
    if "happens_after" not in options:
        return options
    if options.get("depends_on") is not None:
        raise KernelError(
            f"{type(insn).__name__} is given depends_on and happens_after, which mean the same\n "
            " hint: pass one of them"
        )
    rest = {name: value for name, value in options.items() if name != "happens_after"}
    return {**rest, "depends_on": options["happens_after"]}


def _init_base(insn: InstructionBase, options: dict[str, Any]) -> None:
    state = insn.__dict__
    state.update(_DEFAULTS)
    for name, value in _with_ids(insn, options).items():
        if name not in _DEFAULTS:
            raise KernelError(
                f"{type(insn).__name__} has no option '{name}'\n"
                f"  hint: {near_names(name, _DEFAULTS)}"
            )
        if value is not _DEFAULTS[name]:
            read = READERS.get(name)
            state[name] = value if read is None else read(value, name)


def _with_names_of(
    atomicity: tuple[VarAtomicity, ...], old: tuple[Expr, ...], new: tuple[Expr, ...]
) -> tuple[VarAtomicity, ...]:
    """Rename the atomic accesses to variables that were written to those written now."""
    if not atomicity or same_objects(old, new):
        return atomicity
    names = dict(zip(map(assignee_name, old), map(assignee_name, new), strict=True))
    return tuple(
        dataclasses.replace(item, var_name=names.get(item.var_name, item.var_name))
        for item in atomicity
    )


#: The functions that read the fields without expressions.
_BOOKKEEPING = {name: READERS.get(name) for name in _DEFAULTS if name != "predicates"}
_BOOKKEEPING["temp_var_type"] = read_temp_type


def _declaration(kind: Optional) -> str:
    if not kind.has_value:
        return ""
    return "<> " if kind.value is None else f"<{kind.value}> "


def make_assignment(
    assignees: tuple[Expr, ...], expression: Expr, temp_var_types: Any = None, **options: Any
) -> Assignment | CallInstruction:
    """Make an :class:`Assignment` for one place, a :class:`CallInstruction` for others.

    A one-place call stays an assignment unless it passes parts of arrays.
    """
    types = temp_var_types or (None,) * len(assignees)
    passes_arrays = isinstance(expression, p.Call) and any(
        isinstance(arg, SubArrayRef) for arg in (*expression.parameters, *assignees)
    )
    if len(assignees) == 1 and not passes_arrays:
        return Assignment(assignees[0], expression, temp_var_type=types[0], **options)
    return CallInstruction(assignees, expression, temp_var_types=types, **options)
