"""A Gaussian process: predicting times of configurations from those of others."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "GaussianProcess", "Places"]

Array: TypeAlias = NDArray[np.floating]
#: Positions of values in the lists of parameters: ``places[configuration, parameter]``.
Places: TypeAlias = NDArray[np.integer]

_ROOT3 = math.sqrt(3.0)
#: The value added to the diagonal: without it, matrices of equal configurations are singular.
_JITTER = 1e-5
#: Means and deviations in the prior of the logarithms: of a length, a weight, and the noise.
_LENGTH, _WEIGHT, _NOISE = (math.log(0.5), 1.0), (0.0, 1.5), (-4.0, 2.0)
#: Adam's step and decays.
_STEP, _DECAY, _DECAY2 = 0.15, 0.8, 0.95


class GaussianProcess:
    """A Gaussian process over parameters, each with one or more tables of distances of its values.

    The covariance is a weighted sum of two terms: the mean over all parameters of Matérn kernels of
    3/2 (individual effects), and their product (interactions). Length scales,
    weights and noise maximize the posterior density, by gradient steps that start from the
    previous values; the mean and the variance follow from them.

    Rasmussen, Williams: Gaussian processes for machine learning, 2006, chapters 2, 4 and 5;
    Duvenaud, Nickisch, Rasmussen: Additive Gaussian processes, 2011. Lengths in the product grow
    with the root of the number of parameters as in Hvarfner, Hellsten, Nardi: Vanilla Bayesian
    optimization performs great in high dimensions, 2024.

    >>> places = np.arange(0, 20, 2)[:, None]
    >>> process = GaussianProcess([np.abs(np.subtract.outer(np.arange(21), np.arange(21))) / 20])
    >>> process.fit(places, np.sin(places[:, 0] / 4), steps=40)
    >>> mean, deviation = process.predict(np.array([[9], [20]]))
    >>> abs(float(mean[0]) - math.sin(9 / 4)) < 0.02, bool(deviation[0] < deviation[1])
    (True, True)

    :arg distances: for each parameter a table, ``distances[place, place]``, between 0 and 1
    """

    def __init__(self, distances: Sequence[Array]) -> None:
        self.distances = list(distances)
        self._count = len(self.distances)
        self._offsets = np.cumsum([0, *map(len, self.distances)])[:-1]
        self._root = math.sqrt(max(1, self._count))
        prior = np.array([*[_LENGTH] * self._count, _WEIGHT, _WEIGHT, _NOISE])
        self._prior, self._widths = prior.T
        #: Logarithms of the lengths, the weights of the sum and of the product, and the noise.
        self.parameters: Array = self._prior.copy()
        self._first = np.zeros(len(prior))
        self._second = np.zeros(len(prior))
        self._steps = 0

    def fit(self, places: Places, values: Array, steps: int) -> None:
        """Fit the values of configurations, by some gradient steps."""
        pairs = self._pairs(places) if steps else []
        for _ in range(steps):
            self._descend(self.gradient(pairs, values))
        columns = self._columns(places)
        inverse, weights, self._mean, self._variance = self._solve(
            self._covariance(columns, places), values
        )
        # Predictions are for many configurations: in single precision.
        self._known = columns.astype(np.float32)
        self._weights = weights.astype(np.float32)
        self._factor = np.linalg.cholesky(inverse).astype(np.float32)

    def predict(self, places: Places) -> tuple[Array, Array]:
        """Return the mean and the standard deviation of the value of each configuration."""
        known = self._covariance(self._known, places)
        explained = known @ self._factor
        total = float(np.exp(self.parameters[-3:-1]).sum())
        left = total - np.einsum("ij,ij->i", explained, explained)
        deviation = np.sqrt(self._variance * np.maximum(left, 1e-6 * total))
        return self._mean + known @ self._weights, deviation

    def loss(self, places: Places, values: Array) -> float:
        """Return the negative logarithm of the posterior density, up to a constant."""
        single, product, _ = self._terms_of(self._pairs(places))
        inverse, _, _, variance = self._solve(single + product, values)
        steps = (self.parameters - self._prior) / self._widths
        density = len(values) * math.log(variance) - np.linalg.slogdet(inverse)[1]
        return 0.5 * float(density + steps @ steps)

    def gradient(self, pairs: Sequence[Places], values: Array) -> Array:
        """Return the gradient of the loss.

        :arg pairs: for each parameter the places of all pairs in its table of distances
        """
        single, product, slopes = self._terms_of(pairs)
        inverse, weights, _, variance = self._solve(single + product, values)
        # The loss changes by half of this with each element of the covariance.
        change = inverse - np.outer(weights, weights) / variance
        in_sum = change * math.exp(self.parameters[-3]) / self._count
        in_product = change * product
        gradient = [np.vdot(in_sum, one) + np.vdot(in_product, two) for one, two in slopes]
        gradient += [np.vdot(change, single), in_product.sum()]
        gradient.append(np.trace(change) * math.exp(self.parameters[-1]))
        from_prior: Array = (self.parameters - self._prior) / self._widths**2
        return from_prior + 0.5 * np.array(gradient)

    def _pairs(self, places: Places) -> list[Places]:
        columns = zip(places.T, self.distances, strict=True)
        return [column[:, None] * len(table) + column for column, table in columns]

    def _terms_of(self, pairs: Sequence[Places]) -> tuple[Array, Array, list[tuple[Array, Array]]]:
        """Return the sum and the product of kernels, and the slopes of each parameter's in both."""
        terms = [
            [table.take(pair) for table in self._terms(parameter)]
            for parameter, pair in enumerate(pairs)
        ]
        first, second = map(float, np.exp(self.parameters[-3:-1]))
        single = first / self._count * _sum(kernel for kernel, *_ in terms)
        product = second * np.exp(_sum(logarithm for _, logarithm, *_ in terms))
        return single, product, [(one, two) for *_, one, two in terms]

    def _columns(self, places: Places) -> Array:
        """Return the kernels of all values with those of configurations, and their logarithms.

        Each value of each parameter has a row, each configuration two columns.
        """
        first = math.exp(self.parameters[-3]) / max(1, self._count)
        parts = [np.zeros((0, 2 * len(places)))]
        for parameter, column in enumerate(places.T):
            kernel, logarithm, *_ = self._terms(parameter)
            parts.append(np.hstack([first * kernel[:, column], logarithm[:, column]]))
        return np.vstack(parts)

    def _covariance(self, columns: Array, places: Places) -> Array:
        """Return the covariance of configurations with those of some columns."""
        is_of = np.zeros((len(places), len(columns)), columns.dtype)
        np.put_along_axis(is_of, places + self._offsets, 1, axis=1)
        single, logarithm = np.split(is_of @ columns, 2, axis=1)
        product = np.exp(logarithm, out=logarithm)
        product *= math.exp(self.parameters[-2])
        return np.add(single, product, out=product)

    def _terms(self, parameter: int) -> tuple[Array, Array, Array, Array]:
        """Return the kernel of a parameter, its logarithm in the product, and their slopes."""
        length = math.exp(self.parameters[parameter])
        near = self.distances[parameter] * (_ROOT3 / length)
        far = near / self._root
        decay = np.exp(-near)
        return (1 + near) * decay, np.log1p(far) - far, near**2 * decay, far**2 / (1 + far)

    def _solve(self, covariance: Array, values: Array) -> tuple[Array, Array, float, float]:
        """Return the inverse, its product with the centered values, the mean and the variance."""
        noise = math.exp(self.parameters[-1]) + _JITTER
        inverse = np.linalg.inv(covariance + noise * np.eye(len(values)))
        mean = float(inverse.sum(axis=0) @ values / inverse.sum())
        weights = inverse @ (values - mean)
        variance = max(float((values - mean) @ weights) / len(values), 1e-12)
        return inverse, weights, mean, variance

    def _descend(self, gradient: Array) -> None:
        """Make a step of Adam (Kingma, Ba, 2015)."""
        self._steps += 1
        self._first = _DECAY * self._first + (1 - _DECAY) * gradient
        self._second = _DECAY2 * self._second + (1 - _DECAY2) * gradient**2
        first = self._first / (1 - _DECAY**self._steps)
        second = self._second / (1 - _DECAY2**self._steps)
        moved = self.parameters - _STEP * first / (np.sqrt(second) + 1e-6)
        self.parameters = np.clip(moved, self._prior - 5, self._prior + 5)


def _sum(terms: Iterable[Array]) -> Array:
    """Return the sum of arrays, in the memory of the first."""
    return reduce(operator.iadd, terms)
