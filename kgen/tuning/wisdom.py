"""Wisdom: results of tunes, and kernels that choose their configuration from them."""

from __future__ import annotations

import inspect
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from pymbolic import evaluate

from kgen.errors import InvocationError, KgenError
from kgen.host.devices import MAKERS
from kgen.host.program import solve_for
from kgen.host.variants import Variant
from kgen.ir.checked import checked
from kgen.ir.data import ArrayArg
from kgen.ir.expr import variable_names
from kgen.ir.target import TargetBase
from kgen.ir.unit import TranslationUnit
from kgen.statistics.programs import prepared_kernel
from kgen.tuning.devices import device_info
from kgen.tuning.records import Record, Records
from kgen.tuning.task import Builder, Problem, Task, Transformed, as_builder

__all__ = ["Choice", "TunedKernel", "Wisdom", "load_wisdom", "sizes_of_call"]

#: Weights of sizes in conditions for C are rounded to fractions with at most this denominator.
_DENOMINATOR = 4
_DEFAULT = "no record: the default configuration"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The configuration for a call, the kernel of it, and the rule that chose it, in words."""

    configuration: Mapping[str, Any]
    kernel: TranslationUnit
    rule: str
    record: Record | None = None


@dataclass(frozen=True)
class Wisdom:
    """Records of measurements, for looking up the best configuration for a call.

    >>> Wisdom(()).tuned(lambda block=16: None).choose(n=100).rule
    Traceback (most recent call last):
        ...
    kgen.errors.KgenError: build returned None, not a kernel...
    """

    records: tuple[Record, ...]

    def tuned(
        self,
        build: Any,
        default: Mapping[str, Any] | None = None,
        *,
        target: TargetBase | None = None,
    ) -> TunedKernel:
        """Return a kernel that chooses its configuration in each call.

        *build* is the argument of :func:`kgen.tune`. *default* is the configuration if there is no
        record; without it, it is that of the defaults of *build*, or the unchanged kernel of a
        pair.
        """
        return TunedKernel(self, as_builder(build), default, target)

    def candidates(
        self, kernel: str, device: Mapping[str, str], sizes: Mapping[str, Any]
    ) -> list[tuple[Record, str]]:
        """Return the best record of each device and problem, with its rule, the nearest first.

        The device comes first: this one, one of the same interface and maker, of the same kind, any
        other. Then the sizes, by the distance of their logarithms. Tunes of a kernel with other
        parameters may share a file: each of them has a best record, the winner of the last
        comparison.
        """
        best: dict[str, Record] = {}
        for record in self.records:
            if record.kernel == kernel and record.time is not None and record.status == "measured":
                parameters = sorted(record.configuration)
                key = repr((sorted(record.device.items()), record.problem, parameters))
                known = best.setdefault(key, record)
                best[key] = record if record.is_best else min(known, record, key=_rank)
        ordered = sorted(
            best.values(),
            key=lambda r: (_dissimilarity(r.device, device), _distance(r, sizes), _rank(r)),
        )
        return [(record, _rule(record, device, sizes)) for record in ordered]


@checked
def load_wisdom(file: str | os.PathLike[str]) -> Wisdom:
    """Read the records of tunes; a missing file has none.

    >>> wisdom = load_wisdom("no such file")
    >>> len(wisdom.records)
    0

    Raises :class:`KgenError` for a file that cannot be read, or has other contents than records.
    """
    if not os.path.exists(file):
        return Wisdom(())
    return Wisdom(tuple(Records(file, is_read_only=True).all()))


def _why_no_kernel(records: Sequence[Record]) -> str:
    """Describe the records, by kernel and status, if none of them gives a kernel.

    >>> _why_no_kernel(())
    'the wisdom has no records: its file is missing or empty'
    """
    if not records:
        return "the wisdom has no records: its file is missing or empty"
    counts = Counter(f"{record.kernel} ({record.status})" for record in records)
    listed = ", ".join(f"{n} of {of}" for of, n in counts.items())
    return f"no record has a time and makes a kernel: {listed}"


def _rank(record: Record) -> tuple[bool, float]:
    """Order records of one problem: the winner of a comparison comes first, then the fastest."""
    return not record.is_best, record.time or 0.0


def _dissimilarity(one: Mapping[str, str], other: Mapping[str, str]) -> int:
    steps = (("api", "name"), ("api", "kind", "vendor"), ("kind",))
    same = (all(one.get(n) == other.get(n) for n in names) for names in steps)
    return next((far for far, is_same in enumerate(same) if is_same), len(steps))


def _distance(record: Record, sizes: Mapping[str, Any]) -> float:
    """Return the distance of the logarithms of sizes; others are equal or far apart."""
    total = 0.0
    for name, value in record.problem.sizes.items():
        given = sizes.get(name, value)
        if given != value:
            both = _is_size(given) and _is_size(value)
            total += math.log(given / value) ** 2 if both else 1e6
    return math.sqrt(total)


def _is_size(value: Any) -> bool:
    return isinstance(value, int | float) and value > 0


def _rule(record: Record, device: Mapping[str, str], sizes: Mapping[str, Any]) -> str:
    far = _dissimilarity(record.device, device)
    name = record.device.get("name", "")
    where = ("this device", f"a similar device, {name}", f"a device of the same kind, {name}")
    place = where[far] if far < len(where) else f"another device, {name}"
    if _distance(record, sizes) == 0:
        return f"measured on {place}, for these sizes"
    return f"the nearest sizes on {place}: {record.problem}"


@dataclass(eq=False)
class TunedKernel:
    """A kernel that chooses its configuration by the device and the sizes of each call.

    ``last`` is the choice of the last call. It is exported as a function that chooses by the same
    rule: ``kgen.export(tuned, folder)``.
    """

    wisdom: Wisdom
    build: Builder
    default: Mapping[str, Any] | None = None
    target: TargetBase | None = None
    last: Choice | None = None
    _kernels: dict[str, TranslationUnit] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.general = self._general()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel in the configuration for the call."""
        self.last = self.choose(*args, **sizes_of_call(self.general.kernel, kwargs))
        return self.last.kernel(*args, **kwargs)

    def choose(self, *args: Any, **sizes: Any) -> Choice:
        """Return the configuration for some sizes, on the device of a queue in *args*, if any.

        A record whose configuration no longer makes a kernel is skipped.
        """
        device = self._device(args)
        name = self.general.kernel.default_entrypoint.name
        for record, rule in self.wisdom.candidates(name, device, sizes):
            kernel = self._kernel_of(record, sizes)
            if kernel is not None:
                return Choice(
                    configuration=record.configuration, kernel=kernel, rule=rule, record=record
                )
        return self.general

    def _kernel_of(self, record: Record, sizes: Mapping[str, Any]) -> TranslationUnit | None:
        """Return the kernel of a record, unless its configuration makes none."""
        try:
            return self._kernel(record.configuration, {**record.problem.sizes, **sizes})
        except (KgenError, TypeError):
            return None

    def variants(self) -> tuple[Variant, ...]:
        """Return the kernels for each kind of device and sizes, with conditions for :func:`export`.

        With one size the limit between two records is the geometric mean of theirs; with several,
        exponents in products of sizes are rounded to quarters.
        """
        name = self.general.kernel.default_entrypoint.name
        found = []
        for word in dict.fromkeys(_word(r.device) for r in self.wisdom.records if r.kernel == name):
            devices = [r.device for r in self.wisdom.records if _word(r.device) == word]
            near = self.wisdom.candidates(name, devices[0], {})
            made = {
                repr(record.problem): (record, kernel)
                for record, _ in reversed(near)
                if record.device == near[0][0].device
                and (kernel := self._kernel_of(record, {})) is not None
            }
            usable = list(made.values())[::-1]
            for number, (record, kernel) in enumerate(usable):
                others = [other for other, _ in usable[number + 1 :]]
                found.append(Variant(kernel, _condition(record, others), word))
        return (*found, Variant(self.general.kernel))

    def _kernel(
        self, configuration: Mapping[str, Any], sizes: Mapping[str, Any]
    ) -> TranslationUnit:
        key = repr((configuration, sorted(sizes.items())))
        if key not in self._kernels:
            task = Task(build=self.build, problem=Problem(sizes), target=self.target)
            self._kernels[key] = task.kernel(configuration)
        return self._kernels[key]

    def _general(self) -> Choice:
        """Return the kernel to run if there is no record."""
        if self.default is not None:
            kernel = self._kernel(self.default, {})
            return Choice(configuration=self.default, kernel=kernel, rule=_DEFAULT)
        if isinstance(self.build, Transformed):
            kernel = self.build.kernel
            if self.target is not None:
                kernel = kernel.copy(target=self.target)
            return Choice(configuration={}, kernel=kernel, rule="no record: the kernel as written")
        for configuration, kernel in self._first_kernels():
            return Choice(configuration=configuration, kernel=kernel, rule=_DEFAULT)
        raise KgenError(
            "no configuration is given for problems where there is no record",
            because=_why_no_kernel(self.wisdom.records),
            hint="wisdom.tuned(build, default={...}) names a configuration that always works",
        )

    def _first_kernels(self) -> Iterator[tuple[Mapping[str, Any], TranslationUnit]]:
        parameters = inspect.signature(self.build).parameters.values()
        if all(p.default is not p.empty or p.kind is p.VAR_KEYWORD for p in parameters):
            yield {}, self._kernel({}, {})
        for record in self.wisdom.records:
            kernel = None if record.time is None else self._kernel_of(record, {})
            if kernel is not None:
                yield record.configuration, kernel

    def _device(self, args: Sequence[Any]) -> dict[str, str]:
        """Describe the device of a call; empty if the kernel does not run here."""
        target = self.general.kernel.target
        if target.runs_in_queue and not args:
            return {}
        try:
            return device_info(target, tuple(args[:1])).identity
        except InvocationError:
            return {}


def sizes_of_call(unit: TranslationUnit, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sizes in a call of a kernel, and those that follow from the shapes of arrays."""
    sizes = {name: value for name, value in given.items() if isinstance(value, int)}
    for arg in prepared_kernel(unit).args:
        shape = getattr(given.get(arg.name), "shape", None)
        if isinstance(arg, ArrayArg) and shape is not None and isinstance(arg.shape, tuple):
            for extent, length in zip(arg.shape, shape, strict=False):
                sizes.update(_solved(extent, length, sizes))
    return sizes


def _solved(extent: Any, length: int, known: Mapping[str, Any]) -> dict[str, int]:
    """Return the size that follows from the length of one axis, if exactly one does."""
    unknown = [name for name in variable_names(extent) if name not in known]
    solved = solve_for(extent, unknown[0]) if len(unknown) == 1 else None
    if solved is None:
        return {}
    factor, rest = (evaluate(part, dict(known)) for part in solved)
    return {unknown[0]: int((length - rest) // factor)} if factor else {}


def _word(device: Mapping[str, str]) -> str:
    """Return the word of :data:`kgen.host.devices.DEVICE_TYPES` for a device."""
    api, kind, vendor = (device.get(name, "") for name in ("api", "kind", "vendor"))
    if api in ("c", "cuda"):
        return api
    if kind != "gpu":
        return kind if kind == "cpu" else "other"
    makers = (word for word, names in MAKERS.items() if any(n in vendor.lower() for n in names))
    return next(makers, "gpu")


def _condition(record: Record, others: Iterable[Record]) -> str | None:
    """Return the condition that a record is nearer than others, in the distance of logarithms."""
    mine = record.problem.sizes
    tests = [_nearer(mine, other.problem.sizes) for other in others]
    return " and ".join(dict.fromkeys(test for test in tests if test)) or None


def _nearer(mine: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return when sizes are nearer to *mine* than to *other*, as a comparison of products.

    The two have the same distance on a plane of logarithms, whose normal is their difference.

    >>> _nearer({"n": 100}, {"n": 10000})
    'n < 1000'
    >>> _nearer({"n": 64, "m": 64}, {"n": 16, "m": 16})
    'n*m >= 1024'
    """
    names = [n for n in mine if n in other and mine[n] != other[n] and _is_size(mine[n])]
    if not names:
        return ""
    logs = {name: math.log(other[name] / mine[name]) for name in names}
    most = max(map(abs, logs.values()))
    weights = {n: Fraction(logs[n] / most).limit_denominator(_DENOMINATOR) for n in names}
    scale = math.lcm(*(weight.denominator for weight in weights.values()))
    powers = {name: int(weight * scale) for name, weight in weights.items()}
    middle = sum(power * math.log(mine[n] * other[n]) / 2 for n, power in powers.items())
    if all(power <= 0 for power in powers.values()):
        powers = {name: -power for name, power in powers.items()}
        return f"{_product(powers)} >= {math.ceil(round(math.exp(-middle), 6))}"
    above = _product({n: power for n, power in powers.items() if power > 0})
    below = {n: -power for n, power in powers.items() if power < 0}
    limit = math.exp(middle)
    if not below:
        return f"{above} < {math.ceil(round(limit, 6))}"
    left, right = Fraction(limit).limit_denominator(64).as_integer_ratio()
    return f"{right}*{above} < {left}*{_product(below)}"


def _product(powers: Mapping[str, int]) -> str:
    return "*".join(name for name, power in powers.items() for _ in range(power))
