"""Maps from what is counted to how often: filtering, grouping, adding up, evaluating."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any, TypeVar

import islpy as isl

from kgen.errors import KernelError
from kgen.ir.types import to_kgen_type
from kgen.statistics.interval import sum_of

__all__ = ["ToCountMap", "ToCountPolynomialMap"]

Self_ = TypeVar("Self_", bound="ToCountMap")


class ToCountMap(Mapping[Any, Any]):
    """A map from any keys to counts; what it does not name counts 0.

    Maps can be added, subtracted, and multiplied by numbers; each operation makes a new one.

    >>> first = ToCountMap({"add": 2, "mul": 3})
    >>> print((first + ToCountMap({"add": 1})) * 2)
    add: 6
    mul: 6
    """

    def __init__(self, count_map: Mapping[Any, Any] | None = None) -> None:
        self.count_map: dict[Any, Any] = dict(count_map or {})

    def copy(self: Self_, count_map: Mapping[Any, Any] | None = None) -> Self_:
        """Return a copy, with other counts where they are given."""
        return type(self)(self.count_map if count_map is None else count_map)

    def _zero(self) -> Any:
        return 0

    # -- as a mapping -----------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        found = self.count_map.get(key)
        return self._zero() if found is None else found

    def __contains__(self, key: object) -> bool:
        return key in self.count_map

    def __iter__(self) -> Iterator[Any]:
        return iter(self.count_map)

    def __len__(self) -> int:
        return len(self.count_map)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the count of *key*, or *default*."""
        return self.count_map.get(key, default)

    def items(self) -> ItemsView[Any, Any]:
        """Return keys and counts."""
        return self.count_map.items()

    def keys(self) -> KeysView[Any]:
        """Return the keys."""
        return self.count_map.keys()

    def values(self) -> ValuesView[Any]:
        """Return the counts."""
        return self.count_map.values()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToCountMap) and self.count_map == other.count_map

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        if not self.count_map:
            return "<empty>"
        return "\n".join(sorted(f"{key}: {count}" for key, count in self.count_map.items()))

    __repr__ = __str__

    # -- arithmetic ---------------------------------------------------------------------------

    def __add__(self: Self_, other: ToCountMap | int) -> Self_:
        if isinstance(other, int) and other == 0:  # sum(maps)
            return self.copy()
        if not isinstance(other, ToCountMap):
            return NotImplemented
        result = dict(self.count_map)
        for key, count in other.items():
            result[key] = sum_of(result[key], count) if key in result else count
        return self.copy(result)

    __radd__ = __add__

    def __sub__(self: Self_, other: ToCountMap) -> Self_:
        if not isinstance(other, ToCountMap):
            return NotImplemented
        return self + other * -1

    def __mul__(self: Self_, factor: Any) -> Self_:
        if isinstance(factor, ToCountMap):
            raise KernelError(
                "a map of counts is multiplied by a number or a function of parameters\n"
                "  hint: map.sum() is the sum of another map"
            )
        return self.copy({key: count * factor for key, count in self.items()})

    __rmul__ = __mul__

    # -- choosing -------------------------------------------------------------------------------

    def filter_by(self: Self_, **allowed: Any) -> Self_:
        """Keep the keys whose fields are among the values given: ``dtype=[np.float32]``.

        Raises :class:`KernelError` for a field that the keys do not have.
        """
        wanted = {name: tuple(_field(name, v) for v in vs) for name, vs in allowed.items()}
        for key in self:
            _check_fields(key, wanted)
        return self.filter_by_func(
            lambda key: all(getattr(key, name) in values for name, values in wanted.items())
        )

    def filter_by_func(self: Self_, func: Callable[[Any], bool]) -> Self_:
        """Keep the keys for which *func* holds."""
        return self.copy({key: count for key, count in self.items() if func(key)})

    def group_by(self: Self_, *names: str) -> Self_:
        """Add up what agrees in the fields *names*; in the new keys the others are not set.

        Raises :class:`KernelError` for a field that the keys do not have.
        """
        result: dict[Any, Any] = {}
        for key, count in self.items():
            _check_fields(key, names)
            short = type(key)(**{name: getattr(key, name) for name in names})
            result[short] = sum_of(result[short], count) if short in result else count
        return self.copy(result)

    def with_set_attributes(self: Self_, **values: Any) -> Self_:
        """Set fields of all keys, and add up what has become equal."""
        result: dict[Any, Any] = {}
        for key, count in self.items():
            _check_fields(key, values)
            changed = key.copy(**values)
            result[changed] = sum_of(result[changed], count) if changed in result else count
        return self.copy(result)

    def to_bytes(self: Self_) -> Self_:
        """Count bytes in the place of accesses: multiply each count by the size of its type."""
        return self.copy({key: count * key.itemsize for key, count in self.items()})

    def sum(self) -> Any:
        """Return the sum of all counts."""
        total = self._zero()
        for count in self.values():
            total = sum_of(total, count)
        return total


class ToCountPolynomialMap(ToCountMap):
    """A map to functions of the kernel's parameters: :class:`islpy.PwQPolynomial`.

    A count that depends on data is an :class:`~kgen.statistics.interval.Interval` of two.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = 2*a[i]", [lp.GlobalArg("a", "float32"), ...])
    >>> counts = lp.get_op_map(unit, subgroup_size=32)
    >>> isinstance(counts, ToCountPolynomialMap), counts.eval_and_sum({"n": 100})
    (True, 100)
    """

    def __init__(
        self, count_map: Mapping[Any, Any] | None = None, space: isl.Space | None = None
    ) -> None:
        super().__init__(count_map)
        self.space = isl.Space.params_alloc(isl.DEFAULT_CONTEXT, 0) if space is None else space

    def copy(self: Self_, count_map: Mapping[Any, Any] | None = None) -> Self_:
        """Return a copy, with other counts where they are given."""
        assert isinstance(self, ToCountPolynomialMap)
        return type(self)(self.count_map if count_map is None else count_map, self.space)

    def _zero(self) -> isl.PwQPolynomial:
        return isl.PwQPolynomial.zero(self.space.add_dims(isl.dim_type.out, 1))

    def eval(self, params: Mapping[str, int]) -> ToCountMap:
        """Return the map of numbers for these values of the parameters.

        Raises :class:`KernelError` for a parameter without a value.
        """
        try:
            return ToCountMap({key: c.eval_with_dict(params) for key, c in self.items()})
        except KeyError as err:
            raise KernelError(
                f"the counts depend on {err}, which has no value\n"
                f"  hint: eval_and_sum({{{err}: ...}}) takes a value for each parameter"
            ) from None

    def eval_and_sum(self, params: Mapping[str, int] | None = None) -> Any:
        """Return the sum of all counts for these values of the parameters."""
        return self.eval(params or {}).sum()


def _field(name: str, value: Any) -> Any:
    return to_kgen_type(value) if name == "dtype" else value


def _check_fields(key: Any, names: Any) -> None:
    fields = [field.name for field in dataclasses.fields(key)]
    for name in names:
        if name not in fields:
            raise KernelError(
                f"{type(key).__name__} has no field '{name}'\n  hint: it has {', '.join(fields)}"
            )
