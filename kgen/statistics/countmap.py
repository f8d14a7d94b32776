"""Maps from kinds to counts: filtering, grouping, summing, evaluating."""

from __future__ import annotations

import dataclasses
from collections.abc import (
    Callable,
    Hashable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    ValuesView,
)
from dataclasses import dataclass
from numbers import Number
from typing import Any, TypeVar

import islpy as isl
import numpy as np

from kgen.errors import KernelError, near_names
from kgen.ir.checked import unfit
from kgen.ir.sets.dims import add_axis
from kgen.statistics.descriptors import MemAccess, Op, Sync
from kgen.statistics.interval import Interval, sum_of, sums_of, value_of

__all__ = ["Keys", "ToCountMap", "ToCountPolynomialMap"]

Self_ = TypeVar("Self_", bound="ToCountMap")


@dataclass(frozen=True)
class Keys:
    """The possible keys of a map: a query for other keys is an error, and not 0.

    *kind* is their class, *fields* are those that distinguish them, and *names* are the possible
    values of fields, for fields whose values depend on the kernel.
    """

    kind: type[Any]
    fields: tuple[str, ...]
    names: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, kind: type[Any], **names: Iterable[str]) -> Keys:
        """Describe keys that are distinguished by all fields of *kind*."""
        fields = tuple(field.name for field in dataclasses.fields(kind))
        return cls(kind, fields, {field: frozenset(known) for field, known in names.items()})

    @classmethod
    def found_in(cls, keys: Iterable[Any]) -> Keys | None:
        """Describe given keys; ``None`` if they are of different kinds."""
        kinds = {type(key) for key in keys}
        kind = kinds.pop() if len(kinds) == 1 else None
        return cls.of(kind) if kind in (Op, MemAccess, Sync) else None

    def joined(self, other: Keys | None) -> Keys | None:
        """Describe the keys of two maps."""
        if other is None or other.kind is not self.kind:
            return None
        fields = tuple(field for field in self.fields if field in other.fields)
        names = {
            field: self.names[field] | other.names[field]
            for field in self.names.keys() & other.names.keys()
        }
        return Keys(self.kind, fields, names)

    def check_fields(self, names: Iterable[Any]) -> None:
        """Reject fields that the keys lack, or that were dropped by grouping."""
        of_kind = [field.name for field in dataclasses.fields(self.kind)]
        for name in names:
            if name not in of_kind:
                raise KernelError(
                    f"{self.kind.__name__} has no field {name!r}\n"
                    f"  hint: it has {', '.join(of_kind)}"
                )
            if name not in self.fields:
                raise KernelError(
                    f"this map was grouped without the field '{name}'\n"
                    f"  hint: group_by(..., '{name}') keeps it"
                )

    def value(self, field: str, value: Any) -> Any:
        """Return a value of a field in its normal form; reject values that no key can have."""
        normal = getattr(self.kind(**{field: value}), field)
        known = self.names.get(field)
        if isinstance(normal, str) and known is not None and normal not in known:
            raise KernelError(
                f"no counted operation can have the {field} {normal!r}\n  hint: "
                f"{near_names(normal, known)}"
            )
        return normal

    def set_fields(self, key: Any) -> dict[str, Any]:
        """Return the fields that are set in a key, checked."""
        if type(key) is not self.kind:
            raise KernelError(
                f"the keys of this map are instances of {self.kind.__name__}, unlike {key!r}\n"
                f"  hint: map[{self.kind.__name__}(...)], or map.filter_by(...) for a sum over keys"
            )
        values = {f.name: getattr(key, f.name) for f in dataclasses.fields(self.kind)}
        wanted = {n: v for n, v in values.items() if v is not None and v != frozenset()}
        self.check_fields(wanted)
        return {name: self.value(name, value) for name, value in wanted.items()}


class NotCountedError(KernelError, KeyError):
    """Nothing was counted for a key of a map.

    >>> ToCountMap({"add": 2})["mul"]
    Traceback (most recent call last):
        ...
    kgen.statistics.countmap.NotCountedError: nothing was counted for mul
      hint: map.get(mul, 0) is 0 for such keys
    """

    __str__ = RuntimeError.__str__


class ToCountMap(Mapping[Any, Any]):
    """A map from keys to counts.

    Maps can be added, subtracted, and multiplied by numbers; each operation returns a new map.
    A key with unset fields stands for all keys that agree with it in the other fields:
    ``counts[Op(np.float32, "add")]``. A key for which nothing was counted is a ``KeyError``, and
    ``counts.get(key, 0)`` is 0. A field, or a value, that no key can have is an error.

    >>> first = ToCountMap({"add": 2, "mul": 3})
    >>> print((first + ToCountMap({"add": 1})) * 2)
    add: 6
    mul: 6
    """

    def __init__(
        self, count_map: Mapping[Any, Any] | None = None, *, known_keys: Keys | None = None
    ) -> None:
        if not isinstance(count_map, Mapping | None):
            raise unfit(
                "argument 'count_map' of a ToCountMap", "a dict from keys to counts", count_map
            )
        if not isinstance(known_keys, Keys | None):
            raise unfit(
                "argument 'known_keys' of a ToCountMap", "that of another map, or None", known_keys
            )
        self.count_map: dict[Any, Any] = dict(count_map or {})
        self.known_keys = known_keys or Keys.found_in(self.count_map)

    def copy(self: Self_, count_map: Mapping[Any, Any] | None = None) -> Self_:
        """Return a copy, optionally with other counts."""
        return self._copied(count_map, self.known_keys)

    def _copied(self: Self_, count_map: Mapping[Any, Any] | None, known_keys: Keys | None) -> Self_:
        return type(self)(self.count_map if count_map is None else count_map, known_keys=known_keys)

    def _zero(self) -> Any:
        return 0

    # -- as a mapping -----------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, Hashable):
            raise KernelError(f"{key!r} cannot be a key of a map")
        if key in self.count_map:
            return self.count_map[key]
        if self.known_keys is not None:
            fields = self.known_keys.set_fields(key).items()
            found = self._where({name: (value,) for name, value in fields})
            if found:
                return found.sum()
        raise NotCountedError(
            f"nothing was counted for {key}", hint=f"map.get({key}, 0) is 0 for such keys"
        )

    def __contains__(self, key: object) -> bool:
        return key in self.count_map

    def __iter__(self) -> Iterator[Any]:
        return iter(self.count_map)

    def __len__(self) -> int:
        return len(self.count_map)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return ``map[key]``, or *default* if nothing was counted for *key*."""
        try:
            return self[key]
        except NotCountedError:
            return default

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
        result = sums_of((*self.items(), *other.items()))
        known = self.known_keys
        return self._copied(result, known.joined(other.known_keys) if known else None)

    __radd__ = __add__

    def __sub__(self: Self_, other: ToCountMap) -> Self_:
        if not isinstance(other, ToCountMap):
            return NotImplemented
        return self + other * -1

    def __mul__(self: Self_, factor: Any) -> Self_:
        if not isinstance(factor, Number | isl.PwQPolynomial | Interval):
            raise KernelError(
                "a map of counts is multiplied by a number or a function of parameters, "
                f"not by {type(factor).__name__}\n"
                "  hint: map.sum() is the sum of another map"
            )
        return self.copy({key: count * factor for key, count in self.items()})

    __rmul__ = __mul__

    # -- choosing -------------------------------------------------------------------------------

    def _keys(self) -> Keys:
        if self.known_keys is None:
            raise KernelError(
                "the keys of this map have no fields, or different ones\n"
                "  hint: filter_by_func(...) keeps the keys for which a function holds"
            )
        return self.known_keys

    def filter_by(self: Self_, **allowed: Any) -> Self_:
        """Keep the keys whose fields have one of the given values: ``dtype=[np.float32]``.

        A single value may be given without a list: ``name="mul"``. Raises :class:`KernelError` for
        a field that the keys do not have, and for a value that the field cannot have.
        """
        if not allowed or (self.known_keys is None and not self):
            return self.copy()
        known = self._keys()
        known.check_fields(allowed)
        return self._where(
            {
                name: tuple(known.value(name, v) for v in _several(vs))
                for name, vs in allowed.items()
            }
        )

    def _where(self: Self_, allowed: Mapping[str, tuple[Any, ...]]) -> Self_:
        return self.filter_by_func(
            lambda key: all(getattr(key, name) in values for name, values in allowed.items())
        )

    def filter_by_func(self: Self_, func: Callable[[Any], bool]) -> Self_:
        """Keep the keys for which *func* returns true."""
        if not callable(func):
            raise KernelError(
                f"{func!r} is not a function of a key\n"
                "  hint: filter_by_func(lambda key: key.direction == 'load')"
            )
        return self.copy({key: count for key, count in self.items() if func(key)})

    def group_by(self: Self_, *names: str) -> Self_:
        """Sum the counts of keys that agree in the fields *names*; the new keys have only these.

        Raises :class:`KernelError` for a field that the keys do not have.
        """
        known = self._keys()
        known.check_fields(names)
        result = sums_of(
            (known.kind(**{name: getattr(key, name) for name in names}), count)
            for key, count in self.items()
        )
        return self._copied(result, dataclasses.replace(known, fields=names))

    def with_set_attributes(self: Self_, **values: Any) -> Self_:
        """Set fields of all keys, and sum the counts of keys that become equal."""
        known = self._keys()
        known.check_fields(values)
        result = sums_of((key.copy(**values), count) for key, count in self.items())
        names = {field: given for field, given in known.names.items() if field not in values}
        return self._copied(result, dataclasses.replace(known, names=names))

    def to_bytes(self: Self_) -> Self_:
        """Count bytes instead of accesses: multiply each count by the size of its type."""
        for key in self:
            if not isinstance(key, MemAccess):
                raise KernelError(
                    f"{key!r} moves no bytes\n  hint: get_mem_access_map counts accesses to memory"
                )
        return self.copy({key: count * key.itemsize for key, count in self.items()})

    def sum(self) -> Any:
        """Return the sum of all counts."""
        total = self._zero()
        for count in self.values():
            total = sum_of(total, count)
        return total


class ToCountPolynomialMap(ToCountMap):
    """A map to counts that are functions of parameters: :class:`islpy.PwQPolynomial`.

    A count that depends on data is an :class:`~kgen.statistics.interval.Interval` of two functions.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = 2*a[i]", [lp.GlobalArg("a", "float32"), ...])
    >>> counts = lp.get_op_map(unit, subgroup_size=32)
    >>> isinstance(counts, ToCountPolynomialMap), counts.eval_and_sum({"n": 100})
    (True, 100)
    """

    def __init__(
        self,
        count_map: Mapping[Any, Any] | None = None,
        space: isl.Space | None = None,
        *,
        known_keys: Keys | None = None,
    ) -> None:
        super().__init__(count_map, known_keys=known_keys)
        self.space = isl.Space.params_alloc(isl.DEFAULT_CONTEXT, 0) if space is None else space

    @classmethod
    def of(
        cls, counts: Iterable[tuple[Any, Any]], space: isl.Space, known_keys: Keys
    ) -> ToCountPolynomialMap:
        """Return the sums of the counts of equal keys, sorted by key."""
        sums = sums_of(counts)
        return cls({key: sums[key] for key in sorted(sums, key=str)}, space, known_keys=known_keys)

    def _copied(self: Self_, count_map: Mapping[Any, Any] | None, known_keys: Keys | None) -> Self_:
        assert isinstance(self, ToCountPolynomialMap)
        counts = self.count_map if count_map is None else count_map
        return type(self)(counts, self.space, known_keys=known_keys)

    def _zero(self) -> isl.PwQPolynomial:
        return isl.PwQPolynomial.zero(add_axis(self.space))

    def eval(self, params: Mapping[str, int]) -> ToCountMap:
        """Return the map of numbers for these values of the parameters.

        Raises :class:`KernelError` for a parameter without a value.
        """
        values = _whole_numbers(params)
        try:
            numbers = {key: value_of(count, values) for key, count in self.items()}
        except KeyError as err:
            raise KernelError(
                f"the counts depend on {err}, which has no value\n"
                f"  hint: eval_and_sum({{{err}: ...}}) takes a value for each parameter"
            ) from None
        return ToCountMap(numbers, known_keys=self.known_keys)

    def eval_and_sum(self, params: Mapping[str, int] | None = None) -> Any:
        """Return the sum of all counts for these values of the parameters."""
        return self.eval({} if params is None else params).sum()


def _several(values: Any) -> Iterable[Any]:
    """Return values of a field: a text, a type or a mapping is a single one."""
    if isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping | np.dtype):
        return values
    return (values,)


def _whole_numbers(params: Any) -> dict[str, int]:
    if not isinstance(params, Mapping):
        raise KernelError(
            f"values of parameters are given by name, not as {type(params).__name__}\n"
            "  hint: eval_and_sum({'n': 1024})"
        )
    for name, value in params.items():
        if not isinstance(value, int | np.integer) or isinstance(value, bool):
            raise KernelError(f"the value of parameter '{name}' is an integer, not {value!r}")
    return {name: int(value) for name, value in params.items()}
