"""The search space: all configurations of parameters that satisfy the restrictions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kgen.errors import KgenError, near_names
from kgen.tuning.product import Positions, restricted_product
from kgen.tuning.restrictions import Restriction, conditions_of

__all__ = ["Configuration", "Rows", "SearchSpace"]

Configuration: TypeAlias = dict[str, Any]
Rows: TypeAlias = NDArray[np.intp]
Neighborhood: TypeAlias = Literal["hamming", "Hamming", "adjacent"]


class SearchSpace:
    """All configurations of *tune_params* that satisfy all *restrictions*.

    Each configuration has a number, its row, in the order of ``itertools.product``.

    >>> space = SearchSpace(
    ...     {"block": [16, 32, 64], "tile": [1, 2, 4]}, ["block * tile <= 64", "tile != 2"])
    >>> len(space), space[1], space.row({"block": 32, "tile": 1})
    (4, {'block': 16, 'tile': 4}, 2)
    >>> space.indices.tolist()
    [[0, 0], [0, 2], [1, 0], [2, 0]]
    >>> space.neighbors(0, "hamming").tolist(), space.neighbors(0, "adjacent").tolist()
    ([1, 2, 3], [2])

    :arg tune_params: the list of values of each parameter
    :arg restrictions: expressions in Python's syntax, such as ``"block % tile == 0"``, with
        functions such as ``min`` and ``math.ceil``; or functions, of a configuration (a dict) or of
        some parameters by their names
    :raises KgenError: a parameter or a restriction is invalid, or no configuration remains
    """

    #: For each configuration the positions of its values: ``indices[row, parameter]``.
    indices: Positions

    def __init__(
        self,
        tune_params: Mapping[str, Sequence[Any]],
        restrictions: Restriction | Iterable[Restriction] | None = (),
    ) -> None:
        self.tune_params = _checked(tune_params)
        restrictions = () if restrictions is None else restrictions
        if isinstance(restrictions, str) or not isinstance(restrictions, Iterable):
            restrictions = [restrictions]
        self.restrictions = tuple(restrictions)
        conditions = [c for r in self.restrictions for c in conditions_of(r, self.names)]
        self._set_rows(restricted_product(self.tune_params, conditions))

    @classmethod
    def from_configurations(
        cls,
        configurations: Iterable[Mapping[str, Any]],
        tune_params: Mapping[str, Sequence[Any]] | None = None,
    ) -> SearchSpace:
        """Return the space of the given configurations, such as those of a file of results.

        Without *tune_params*, the values of a parameter are those that occur, in sorted order.

        >>> space = SearchSpace.from_configurations([{"a": 2, "b": "x"}, {"a": 1, "b": "x"}])
        >>> space.tune_params, list(space)
        ({'a': (1, 2), 'b': ('x',)}, [{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'x'}])
        """
        listed = list(configurations)
        if not listed:
            raise KgenError("a search space has at least one configuration")
        space = cls.__new__(cls)
        space.tune_params = _checked(tune_params or _values_of(listed))
        space.restrictions = ()
        rows = np.array([space.positions(config) for config in listed], np.int32)
        space._set_rows(np.unique(rows, axis=0))
        return space

    def _set_rows(self, rows: Positions) -> None:
        rows.flags.writeable = False
        self.indices = rows
        self._columns = np.ascontiguousarray(rows.T)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(self.tune_params)

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def size(self) -> int:
        """The number of configurations."""
        return len(self)

    def __repr__(self) -> str:
        return f"SearchSpace({len(self)} configurations of {', '.join(self.names)})"

    def __getitem__(self, row: int) -> Configuration:
        """Return a configuration."""
        places = self.indices[row].tolist()
        pairs = zip(self.tune_params.items(), places, strict=True)
        return {name: values[place] for (name, values), place in pairs}

    def __iter__(self) -> Iterator[Configuration]:
        return (self[row] for row in range(len(self)))

    def __contains__(self, config: object) -> bool:
        return isinstance(config, Mapping) and self.row(config) is not None

    def positions(self, config: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the positions of a configuration's values in the lists of the parameters.

        :raises KgenError: it lacks a parameter, or has a parameter or value outside the space
        """
        if config.keys() != self.tune_params.keys():
            raise self._differs(config)
        return tuple(self._position(name, config[name]) for name in self.tune_params)

    def _differs(self, config: Mapping[str, Any]) -> KgenError:
        """Return the error for a configuration with other parameters."""
        for name in self.names:
            if name not in config:
                hint = near_names(name, config)
                return KgenError(f"the configuration has no parameter '{name}'", hint=hint)
        name = next(name for name in config if name not in self.tune_params)
        hint = near_names(name, self.names)
        return KgenError(f"the search space has no parameter '{name}'", hint=hint)

    def _position(self, name: str, value: Any) -> int:
        values = self.tune_params[name]
        try:
            return values.index(value)
        except ValueError:
            hint = f"it has {', '.join(map(repr, values))}"
            raise KgenError(f"parameter '{name}' has no value {value!r}", hint=hint) from None

    def row(self, config: Mapping[str, Any]) -> int | None:
        """Return the number of a configuration, ``None`` if restrictions exclude it.

        :raises KgenError: as :meth:`positions` does
        """
        return self.row_at(self.positions(config))

    def row_at(self, positions: Iterable[int]) -> int | None:
        """Return the number of the configuration with values at *positions* in the lists."""
        low, high = 0, len(self)
        for column, place in zip(self._columns, positions, strict=True):
            part = column[low:high]
            end = int(np.searchsorted(part, place, "right"))
            low, high = low + int(np.searchsorted(part, place)), low + end
        return low if low < high else None

    def sample(self, count: int, seed: int | np.random.Generator = 0) -> Rows:
        """Return *count* different rows at random, or all rows if there are fewer."""
        rng = np.random.default_rng(seed)
        return rng.choice(len(self), min(count, len(self)), replace=False)

    def neighbors(self, row: int, kind: Neighborhood = "hamming") -> Rows:
        """Return the rows of the neighbors of a configuration.

        :arg kind: ``"hamming"``: one parameter has another value; ``"adjacent"``: all parameters
            have equal or consecutive values of their lists. Kernel Tuner's
            ``"Hamming"`` is accepted
        """
        here = self.indices[row]
        name = kind.lower()
        if name == "adjacent":
            near = np.ones(len(self), bool)
            for column, place in zip(self._columns, here, strict=True):
                near &= (column >= place - 1) & (column <= place + 1)
            near[row] = False
            return np.flatnonzero(near)
        if name != "hamming":
            raise KgenError(
                f"'{kind}' is not a neighborhood", hint=near_names(kind, ["adjacent", "hamming"])
            )
        different = np.zeros(len(self), np.uint8)
        for column, place in zip(self._columns, here, strict=True):
            different += column != place
        return np.flatnonzero(different == 1)


def _checked(tune_params: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Any, ...]]:
    if not tune_params:
        raise KgenError("a search space has at least one parameter", hint="{'block': [16, 32]}")
    return {name: _checked_values(name, values) for name, values in tune_params.items()}


def _checked_values(name: str, values: Sequence[Any]) -> tuple[Any, ...]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise KgenError(
            f"parameter '{name}' needs a list of values, not {values!r}", hint=f"[{values!r}]"
        )
    plain = tuple(v.item() if isinstance(v, np.generic) else v for v in values)
    if not plain:
        raise KgenError(f"parameter '{name}' has no values", hint="remove it, or give it some")
    for place, value in enumerate(plain):
        if _is_among(name, value, plain[:place]):
            raise KgenError(f"parameter '{name}' has the value {value!r} twice", hint="remove one")
    return plain


def _is_among(name: str, value: Any, others: tuple[Any, ...]) -> bool:
    """Tell whether a value is equal to one of others; reject values without such an answer."""
    try:
        return value in others
    except Exception as error:
        raise KgenError(
            f"values of parameter '{name}' cannot be compared, such as {value!r}",
            because=f"{type(error).__name__}: {error}",
            hint="pass numbers, texts or tuples, such as (4, 8) instead of an array",
        ) from None


def _values_of(configurations: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for config in configurations for name in config)
    return {name: _in_order([c[name] for c in configurations if name in c]) for name in names}


def _in_order(values: Iterable[Any]) -> list[Any]:
    """Return different values, sorted if they have an order."""
    different: list[Any] = []
    for value in values:
        if value not in different:
            different.append(value)
    try:
        return sorted(different)
    except TypeError:
        return different
