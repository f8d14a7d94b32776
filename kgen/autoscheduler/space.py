"""The schedules of a kernel that are worth measuring: parameters, restrictions, and a builder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from kgen.autoscheduler.choices import Choices
from kgen.autoscheduler.find import make_planner, recipe_for
from kgen.autoscheduler.iterations import iterations_on_items, iterations_on_threads, sum_of_all
from kgen.autoscheduler.machine import Machine, machine_of
from kgen.autoscheduler.nests import Nest
from kgen.autoscheduler.planner import Planner
from kgen.autoscheduler.products import product_on_items, product_on_threads
from kgen.autoscheduler.stated import Stated, read_statements
from kgen.autoscheduler.steps import Schedule
from kgen.autoscheduler.tensors import product_on_tensor_cores
from kgen.errors import KernelError, KgenError, TransformError, near_names
from kgen.ir.checked import checked
from kgen.ir.target import Execution
from kgen.ir.unit import TranslationUnit
from kgen.tuning.space import SearchSpace

__all__ = ["AutoSpace", "auto_space"]

#: Lanes that are fetched together may be stored one by one, in a tile of another layout.
_LANES_ALONE = "vectorize_failed*"
#: The parameter that chooses the schedule of analysis instead of the other parameters.
_ANALYSIS = "autoschedule"
#: The maximum number of varied nests; others get the schedule that analysis finds.
_VARIED = 2


@dataclass(frozen=True, eq=False)
class AutoSpace:
    """The schedules of one kernel for one device; made by :func:`auto_space`.

    ``tune_params`` are the values of each parameter, ``restrictions`` expressions of them, and
    ``build(**configuration)`` returns the program with the schedule of a configuration, of which
    ``start`` is the one that analysis suggests: that of :func:`autoschedule`. If no values of the
    other parameters give it, a parameter ``autoschedule`` chooses it.
    """

    program: TranslationUnit
    machine: Machine = field(repr=False)
    stated: Stated = field(default=Stated(), repr=False)

    @property
    def tune_params(self) -> dict[str, list[Any]]:
        """For each parameter the list of its values."""
        return {
            f"{name}{suffix}": list(values)
            for suffix, _, choices in self._varied
            for name, values in choices.params.items()
        }

    @property
    def restrictions(self) -> list[str]:
        """The restrictions of configurations: expressions in Python's syntax."""
        return [
            _renamed(text, choices.params, suffix)
            for suffix, _, choices in self._varied
            for text in choices.restrictions
        ]

    @property
    def start(self) -> dict[str, Any]:
        """The configuration that has the schedule of :func:`autoschedule`."""
        return {
            f"{name}{suffix}": value
            for suffix, _, choices in self._varied
            for name, value in choices.first.items()
        }

    def build(self, **configuration: Any) -> TranslationUnit:
        """Return the program with one of the schedules.

        Raises :class:`TransformError` if it is not proved right for the given values.
        """
        built = self.schedule(**configuration)(self.program)
        return built.map_kernels(lambda one: one.silencing(_LANES_ALONE))

    def schedule(self, **configuration: Any) -> Schedule:
        """Return one of the schedules, as steps that print as Python.

        ``autoschedule`` may be omitted, and is false then.
        """
        switches = {f"{_ANALYSIS}{suffix}" for suffix, _, _ in self._varied}
        configuration = dict.fromkeys(switches & self.tune_params.keys(), False) | configuration
        for name in configuration.keys() ^ self.tune_params.keys():
            raise KernelError(
                f"only one of the configuration and the space has a parameter '{name}'",
                kernel=self.program.default_entrypoint.name,
                hint=near_names(name, self.tune_params),
            )
        planner = self._new_planner()
        chosen = {nest.insn_ids: (suffix, choices) for suffix, nest, choices in self._varied}
        for nest in self._nests:
            if nest.insn_ids in chosen:
                suffix, choices = chosen[nest.insn_ids]
                own = {name: configuration[f"{name}{suffix}"] for name in choices.params}
                if not own.get(_ANALYSIS):
                    planner.schedule = self._extended(planner, nest, choices, own)
                    continue
            planner.plan_nest(recipe_for(self.machine), nest)
        return planner.schedule

    def _extended(
        self, planner: Planner, nest: Nest, choices: Choices, own: Mapping[str, Any]
    ) -> Schedule:
        found = planner.extended(nest, choices.steps(own))
        if found is None:
            values = ", ".join(f"{name}={value!r}" for name, value in own.items())
            raise TransformError(
                f"the schedule with {values} is not proved correct",
                kernel=self.program.default_entrypoint.name,
                hint="choose a configuration that satisfies the restrictions of the space",
            )
        return found

    def _new_planner(self) -> Planner:
        return make_planner(self.program, self.program.default_entrypoint.name, self.stated)

    @cached_property
    def _nests(self) -> Sequence[Nest]:
        return self._new_planner().nests

    @cached_property
    def _varied(self) -> list[tuple[str, Nest, Choices]]:
        """The varied nests, the suffixes of their parameters' names, and the choices."""
        planner, recipe = self._new_planner(), recipe_for(self.machine)
        found: list[tuple[str, Nest, Choices]] = []
        for nest in self._nests:
            choices = None
            if not nest.is_on_axes and len(found) < _VARIED:
                choices = self._choices(planner, nest, planner.parallel_loops(nest))
            first = choices and planner.extended(nest, choices.steps(choices.first))
            legal = _legal(planner, nest, choices) if choices and first else None
            planner.plan_nest(recipe, nest)
            if legal is not None:
                is_found = first == planner.schedule and _is_allowed(legal, legal.first)
                suffix = f"_{len(found)}" if found else ""
                found.append((suffix, nest, legal if is_found else _with_analysis(legal)))
        return found

    def _choices(self, planner: Planner, nest: Nest, loops: Sequence[str]) -> Choices | None:
        """Return the family of schedules of a nest; ``None`` if there is nothing to choose."""
        machine = self.machine
        on_items = machine.kind is Execution.ITEMS
        found = nest.find_product(loops)
        product = None
        if found is not None and on_items:
            precision = self.stated.precision
            product = product_on_tensor_cores(machine, nest, *found, precision) or product_on_items(
                machine, nest, *found
            )
        elif found is not None:
            product = product_on_threads(nest, *found)
        if product is not None or machine.kind is Execution.SERIAL:
            return product
        if not loops:
            return sum_of_all(machine, nest)
        if not on_items:
            return iterations_on_threads(nest, loops)
        are_typed = not planner.prover.types
        return iterations_on_items(machine, self.stated, nest, loops, are_typed=are_typed)

    def __reduce__(self) -> Any:
        return AutoSpace, (self.program, self.machine, self.stated)

    def __repr__(self) -> str:
        return f"AutoSpace({', '.join(self.tune_params)})"


def _legal(planner: Planner, nest: Nest, choices: Choices) -> Choices:
    """Return choices without the values that are not proved right one by one.

    If restrictions exclude a value while a switch is on, it is tried with all switches off.
    """
    if choices.are_right:
        return choices
    off = {name: False if value is True else value for name, value in choices.first.items()}
    dropped: dict[str, tuple[Any, ...]] = {}
    for name, values in choices.params.items():
        wrong = []
        for value in values:
            changed = ({**base, name: value} for base in (choices.first, off))
            config = next((one for one in changed if _is_allowed(choices, one)), choices.first)
            if config != choices.first and not planner.extended(nest, choices.steps(config)):
                wrong.append(value)
        dropped[name] = tuple(wrong)
    return choices.without(dropped)


def _with_analysis(choices: Choices) -> Choices:
    """Add the schedule of analysis, which no values of the parameters give: one configuration."""
    first = choices.first
    if not _is_allowed(choices, first):
        first = SearchSpace(choices.params, choices.restrictions)[0]
    only = " and ".join(f"{name} == {value!r}" for name, value in first.items())
    return replace(
        choices,
        params={**choices.params, _ANALYSIS: (False, True)},
        restrictions=(*choices.restrictions, f"not {_ANALYSIS} or {only}"),
        first={**first, _ANALYSIS: True},
    )


def _is_allowed(choices: Choices, config: Mapping[str, Any]) -> bool:
    try:
        SearchSpace({name: [value] for name, value in config.items()}, choices.restrictions)
    except KgenError:  # no configuration is left
        return False
    return True


def _renamed(text: str, names: Mapping[str, Any], suffix: str) -> str:
    """Return an expression in which all parameters get a suffix."""
    if suffix:
        for name in names:
            text = re.sub(rf"\b{name}\b", f"{name}{suffix}", text)
    return text


@checked
def auto_space(
    program: TranslationUnit,
    device: Any = None,
    *,
    ascending: str | Iterable[str] = (),
    trips: Mapping[str, int] | None = None,
    precision: str | None = None,
) -> AutoSpace:
    """Return the schedules of a kernel that are worth measuring on a device.

    The space has parameters for the sizes of work-groups and tiles, loop orders, prefetched
    tiles, vectors, layouts, unrolled copies and independent sums: those that suit the kernel,
    with values that are proved right. The kernel needs no schedule; tagged loops keep their tags.

    :arg device: as for :func:`autoschedule`
    :arg ascending: arrays whose elements ascend, such as the starts of rows: as for
        :func:`autoschedule`; then work-items of a GPU may share the entries of rows evenly
    :arg trips: mean trip counts of loops that data decide, as for :func:`autoschedule`
    :arg precision: of products of float32 on tensor cores, as for :func:`autoschedule`

    ::

        space = lp.auto_space(knl)
        result = lp.tune(space.build, space.tune_params, restrictions=space.restrictions)

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]", target=lp.ExecutableCTarget())
    >>> space = auto_space(unit)
    >>> space.tune_params
    {'i_block': [0, 16, 64, 256, 1024, 4096, 16384], 'autoschedule': [False, True]}
    >>> print(space.schedule(i_block=64))
    knl = lp.split_iname(knl, 'i', 64, outer_tag='g.0')
    """
    target, machine = machine_of(program, device)
    moved = program if target == program.target else program.copy(target=target)
    space = AutoSpace(moved, machine, read_statements(moved, ascending, trips, precision))
    if not space.tune_params:
        raise KernelError(
            "the schedule of this kernel has no parameters to choose",
            kernel=program.default_entrypoint.name,
            because="no loop without a tag is proved to have independent iterations",
        )
    return space
