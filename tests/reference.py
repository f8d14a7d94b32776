"""What a kernel means, found without kgen's scheduler: the yardstick of the random tests.

All instances of all instructions are put in *some* order that the dependencies allow (Kahn's
algorithm on instances, not on loops), and executed on Python numbers. A temporary has one
copy per iteration of the loops that all its users share.
"""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import cache
from typing import Any

import islpy as isl
import numpy as np
import pymbolic.primitives as p
from pymbolic.mapper.evaluator import EvaluationMapper

from kgen.ir.assignee import assignee_name
from kgen.ir.closure import closure
from kgen.ir.data import SubstitutionRule
from kgen.ir.expr import Reduction, TypeCast, variable_names
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import BasicSet, dim_names, param_names

Point = tuple[int, ...]
Values = Mapping[str, int]
#: One variable: its elements by subscript. Elements never written are missing.
Memory = MutableMapping[Point, Any]

_SET = isl.dim_type.set
_PARAM = isl.dim_type.param


class InexactError(Exception):
    """A number that float32 or int32 cannot hold: results may rightly differ."""


# -- domains ------------------------------------------------------------------------------


class Points:
    """The values that loops take, for fixed parameters: isl counts them, one domain at a time."""

    def __init__(self, domains: Sequence[BasicSet], parameters: Values) -> None:
        self.domains = domains
        self.parameters = parameters
        self.home = {n: k for k, domain in enumerate(domains) for n in dim_names(domain)}
        self.nested = self._nested()
        self.extensions = cache(self._extensions)
        self.wanted = cache(self._wanted)

    def closure(self, inames: Iterable[str]) -> tuple[str, ...]:
        """Add the loops that bound *inames*, outer domains first."""
        found = set(inames)
        stack = list(found)
        while stack:
            for name in param_names(self.domains[self.home[stack.pop()]]):
                if name in self.home and name not in found:
                    found.add(name)
                    stack.append(name)
        order = [n for k in self.nested for n in dim_names(self.domains[k])]
        return tuple(name for name in order if name in found)

    def _nested(self) -> list[int]:
        """Order domains such that those that bound others come before them."""
        result: list[int] = []
        while len(result) < len(self.domains):
            for k, domain in enumerate(self.domains):
                outer = {self.home[n] for n in param_names(domain) if n in self.home}
                if k not in result and outer <= set(result):
                    result.append(k)
        return result

    def over(self, inames: Iterable[str], given: Values) -> list[dict[str, int]]:
        """Enumerate the values of *inames*, some of which may be *given*."""
        partial = [dict(given)]
        for index, names in self.wanted(tuple(inames)):
            partial = [{**v, **more} for v in partial for more in self._extend(index, names, v)]
        return partial

    def _wanted(self, inames: tuple[str, ...]) -> list[tuple[int, tuple[str, ...]]]:
        """Return the domains on which the values of *inames* depend, with the loops of each."""
        wanted = self.closure(inames)
        loops = (
            (k, tuple(n for n in dim_names(self.domains[k]) if n in wanted)) for k in self.nested
        )
        return [(index, names) for index, names in loops if names]

    def _extend(self, index: int, names: tuple[str, ...], given: Values) -> list[dict[str, int]]:
        outer = tuple(
            (name, given[name] if name in given else self.parameters[name])
            for name in param_names(self.domains[index])
        )
        known = tuple(name for name in names if name in given)
        found = self.extensions(index, names, outer, known)
        return found.get(tuple(given[name] for name in known), [])

    def _extensions(
        self,
        index: int,
        names: tuple[str, ...],
        outer: tuple[tuple[str, int], ...],
        known: tuple[str, ...],
    ) -> dict[Point, list[dict[str, int]]]:
        """Return the values of *names* in a domain, by those of the names that are *known*."""
        result = defaultdict[Point, list[dict[str, int]]](list)
        for point in self._of_domain(index, names, outer):
            values = dict(zip(names, point, strict=True))
            result[tuple(values[name] for name in known)].append(values)
        return result

    def _of_domain(
        self, index: int, names: tuple[str, ...], outer: tuple[tuple[str, int], ...]
    ) -> list[Point]:
        domain = connected_part(self.domains[index], names)
        for name, value in outer:
            at = domain.find_dim_by_name(_PARAM, name)
            domain = domain.fix_val(_PARAM, at, isl.Val(value))
        points: list[Point] = []
        domain.foreach_point(
            lambda point: points.append(
                tuple(point.get_coordinate_val(_SET, k).to_python() for k in range(len(names)))
            )
        )
        return sorted(points)


def connected_part(domain: BasicSet, names: Sequence[str]) -> isl.Set:
    """Project on *names*; loops that no constraint ties to them have no say, even empty ones."""
    lifted = domain.lift().flatten() if domain.dim(isl.dim_type.div) else domain
    count = lifted.dim(_SET)
    touched = [
        {k for k in range(count) if row.involves_dims(_SET, k, 1)}
        for row in lifted.get_constraints()
    ]
    reached = {k for k, name in enumerate(dim_names(domain)) if name in names}
    grown = set[int]()
    while grown != reached:
        grown = set(reached)
        for dims in touched:
            if dims & reached:
                reached |= dims
    kept = [
        row
        for row, dims in zip(lifted.get_constraints(), touched, strict=True)
        if not dims or dims & reached
    ]
    result = isl.BasicSet.universe(lifted.get_space())
    for row in kept:
        result = result.add_constraint(row)
    projected = isl.Set.from_basic_set(result)
    for k in reversed(range(count)):
        if k >= domain.dim(_SET) or dim_names(domain)[k] not in names:
            projected = projected.project_out(_SET, k, 1)
    return projected


# -- expressions --------------------------------------------------------------------------


class Evaluator(EvaluationMapper[Any]):
    """Evaluate an expression on Python numbers; *load* reads elements of variables."""

    def __init__(
        self,
        values: Values,
        load: Callable[[str, Point], Any],
        points: Points | None,
        rules: Mapping[str, SubstitutionRule] | None = None,
    ) -> None:
        super().__init__(dict(values))
        self.load = load
        self.points = points
        self.rules = rules or {}

    def map_variable(self, expr: p.Variable) -> Any:
        known = self.context.get(expr.name)
        if known is None and expr.name in self.rules:  # one without arguments
            return self.rec(self.rules[expr.name].expression)
        return self.load(expr.name, ()) if known is None else known

    def map_subscript(self, expr: p.Subscript) -> Any:
        return self.load(assignee_name(expr), self.index(expr))

    def index(self, place: p.Subscript | p.Variable) -> Point:
        """Evaluate the subscripts of an array element; a scalar has none."""
        if isinstance(place, p.Variable):
            return ()
        return tuple(int(self.rec(part)) for part in place.index_tuple)

    def map_call(self, expr: p.Call) -> Any:
        functions: dict[str, Callable[..., Any]] = {
            name: function
            for function, names in ((min, "min fmin"), (max, "max fmax"), (abs, "abs fabs"))
            for name in names.split()
        }
        functions["as_uint"] = lambda value: int(np.float32(value).view(np.uint32))
        functions["as_float"] = lambda bits: float(np.uint32(bits).view(np.float32))
        assert isinstance(expr.function, p.Variable)
        values = tuple(map(self.rec, expr.parameters))
        rule = self.rules.get(expr.function.name)
        if rule is None:
            return functions[expr.function.name](*values)
        names = {**self.context, **dict(zip(rule.arguments, values, strict=True))}
        return Evaluator(names, self.load, self.points, self.rules)(rule.expression)

    def map_type_cast(self, expr: TypeCast) -> Any:
        kind = int if expr.type.numpy_dtype.kind == "i" else float
        return kind(self.rec(expr.child))

    def map_reduction(self, expr: Reduction) -> Any:
        assert self.points is not None
        outer = {n: v for n, v in self.context.items() if n not in expr.inames}
        points = self.points
        terms = [
            Evaluator(values, self.load, points, self.rules)(expr.expr)
            for values in points.over((*outer, *expr.inames), outer)
        ]
        match expr.operation.name:
            case "sum":
                return sum(terms)
            case "max":
                return max(terms)
            case "min":
                return min(terms)
        raise NotImplementedError(expr.operation.name)


# -- execution ----------------------------------------------------------------------------


class Reference:
    """A kernel executed for fixed parameters, instance by instance."""

    def __init__(
        self, kernel: LoopKernel, parameters: Values, memory: Mapping[str, Memory]
    ) -> None:
        self.kernel = kernel
        self.parameters = parameters
        self.points = Points(kernel.domains, parameters)
        self.memory: dict[str, Memory] = {name: dict(array) for name, array in memory.items()}
        self.order = self.points.closure(self.points.home)
        self.shared = {name: self._shared(name) for name in kernel.temporary_variables}

    def _shared(self, name: str) -> tuple[str, ...]:
        users = [i for i in self.kernel.instructions if name in i.dependency_names()]
        common = frozenset.intersection(*(i.within_inames for i in users)) if users else ()
        return tuple(n for n in self.order if n in common)

    def inames(self, insn: InstructionBase) -> tuple[str, ...]:
        """Return the loops around an instruction, in an order of their own."""
        return tuple(n for n in self.order if n in insn.within_inames)

    def run(self, *, reverse: bool = False) -> dict[str, Memory]:
        """Execute what arrays depend on; *reverse* chooses another order that is allowed."""
        used = used_names(self.kernel)
        for insn_id, values in self._instances(reverse):
            insn = self.kernel.id_to_insn[insn_id]
            if not used.isdisjoint(insn.assignee_var_names()):
                self._execute(insn, values)
        return self.memory

    def _instances(self, reverse: bool) -> Iterator[tuple[str, dict[str, int]]]:
        """Order instances topologically; a dependency holds where shared loops agree.

        Between the instances of one instruction and those of another stands one node per
        value of the loops that they share.
        """
        values_of: dict[str, dict[Point, dict[str, int]]] = {}
        for insn in self.kernel.instructions:
            inames = self.inames(insn)
            points = self.points.over(inames, {})
            values_of[str(insn.id)] = {tuple(v[n] for n in inames): v for v in points}
        nodes = _Graph((name, point) for name in values_of for point in values_of[name])
        for insn in self.kernel.instructions:
            for dependency in sorted(insn.depends_on):
                other = self.kernel.id_to_insn[dependency]
                shared = [n for n in self.inames(insn) if n in other.within_inames]
                for point, values in values_of[str(insn.id)].items():
                    between = (dependency, insn.id, tuple(values[n] for n in shared))
                    nodes.connect(between, (insn.id, point))
                for point, values in values_of[dependency].items():
                    between = (dependency, insn.id, tuple(values[n] for n in shared))
                    nodes.connect((dependency, point), between)
        for node in nodes.ordered(reverse):
            if len(node) == 2:
                yield node[0], values_of[node[0]][node[1]]

    def _execute(self, insn: InstructionBase, values: Values) -> None:
        def load(name: str, index: Point) -> Any:
            if name in self.parameters and name not in self.memory:
                return self.parameters[name]
            key = self._key(name, index, values)
            assert key in self.memory.get(name, {}), f"{insn.id} reads {name}{key}, not there"
            return self.memory[name][key]

        evaluate = Evaluator(values, load, self.points, self.kernel.substitutions)
        if not all(evaluate(condition) for condition in insn.predicates):
            return
        if not isinstance(insn, Assignment):
            return
        place = insn.assignee
        assert isinstance(place, p.Variable | p.Subscript)
        name = assignee_name(place)
        key = self._key(name, evaluate.index(place), values)
        if name not in self.shared:
            assert key in self.memory[name], f"{insn.id} writes {name}{key}, not there"
        self.memory.setdefault(name, {})[key] = exact(evaluate(insn.expression))

    def _key(self, name: str, index: Point, values: Values) -> Point:
        return (*(values[n] for n in self.shared.get(name, ())), *index)


def used_names(kernel: LoopKernel) -> frozenset[str]:
    """Return the variables on whose values it depends what arrays hold in the end.

    Nothing needs the values of others, which transformations may leave out.
    """
    rules = [variable_names(rule.expression) for rule in kernel.substitutions.values()]
    written = {name for insn in kernel.instructions for name in insn.assignee_var_names()}
    starts = {*written.difference(kernel.temporary_variables), *kernel.all_params()}
    return frozenset(
        closure(
            starts.union(*rules),
            lambda name: (
                read
                for writer in kernel.writers.get(name, ())
                for read in kernel.id_to_insn[writer].dependency_names()
            ),
        )
    )


class _Graph:
    """Nodes, some of which come after others."""

    def __init__(self, nodes: Iterable[Any]) -> None:
        self.after: dict[Any, list[Any]] = {node: [] for node in nodes}
        self.waiting = dict.fromkeys(self.after, 0)

    def connect(self, first: Any, second: Any) -> None:
        """Put *second* after *first*."""
        for node in (first, second):
            self.after.setdefault(node, [])
            self.waiting.setdefault(node, 0)
        self.after[first].append(second)
        self.waiting[second] += 1

    def ordered(self, reverse: bool) -> Iterator[Any]:
        """Yield all nodes in an order that is allowed: the first ready first, or the last."""
        waiting = dict(self.waiting)
        ready = deque(node for node, count in waiting.items() if not count)
        done = 0
        while ready:
            node = ready.pop() if reverse else ready.popleft()
            done += 1
            yield node
            for later in self.after[node]:
                waiting[later] -= 1
                if not waiting[later]:
                    ready.append(later)
        assert done == len(waiting), "the dependencies form a cycle"


def exact(value: Any) -> Any:
    """Return a number that both int32 and float32 would hold, with room for one more step."""
    if value != value or abs(value) > 2**17 or value * 64 != int(value * 64):
        raise InexactError(value)
    return value


def to_memory(array: np.ndarray[Any, Any]) -> Memory:
    """Take the elements of an array apart."""
    return {index: array[index].item() for index in itertools.product(*map(range, array.shape))}


def to_array(memory: Memory, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Put the elements into an array of the type and shape of another one."""
    result = np.empty_like(like)
    for index, value in memory.items():
        result[index] = value
    return result
