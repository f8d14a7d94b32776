"""A Gaussian process: what times of some configurations say of those of others."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["GaussianProcess"]

Array: TypeAlias = NDArray[np.floating]

_ROOT3 = math.sqrt(3.0)
#: What is always added to the diagonal: without it, equal points are not invertible.
_JITTER = 1e-5
#: The prior of the logarithm of the noise, by its mean and deviation.
_NOISE = (-4.0, 2.0)
#: Deviation of the logarithms of lengths in their prior.
_LENGTHS = 1.7
#: Adam's step and decays.
_STEP, _DECAY, _DECAY2 = 0.15, 0.8, 0.95


class GaussianProcess:
    """A Gaussian process with a Matérn kernel of 3/2, and a length for each dimension.

    Lengths and noise are those of the largest posterior density, found by gradient steps that go on
    from the last ones; the mean and the variance follow from them.

    Rasmussen, Williams: Gaussian processes for machine learning, 2006, chapters 2, 4 and 5. The
    prior of the lengths grows with the number of dimensions as in Hvarfner, Hellsten, Nardi:
    Vanilla Bayesian optimization performs great in high dimensions, 2024.

    >>> x = np.linspace(0, 1, 12)[:, None]
    >>> process = GaussianProcess(1)
    >>> process.fit(x, np.sin(5 * x[:, 0]), steps=40)
    >>> mean, deviation = process.predict(np.array([[0.5], [2.0]]))
    >>> abs(float(mean[0]) - math.sin(2.5)) < 0.02, bool(deviation[0] < deviation[1])
    (True, True)

    :arg dimensions: the number of coordinates of a point, each between 0 and 1
    """

    def __init__(self, dimensions: int) -> None:
        self._prior = np.full(dimensions, math.log(0.5) + 0.5 * math.log(max(1, dimensions)))
        #: The logarithms of the lengths, then that of the noise.
        self.parameters: Array = np.append(self._prior, _NOISE[0])
        self._first = np.zeros(dimensions + 1)
        self._second = np.zeros(dimensions + 1)
        self._steps = 0

    def fit(self, points: Array, values: Array, steps: int) -> None:
        """Take the values at points, ``points[number, dimension]``, after some gradient steps."""
        count = len(points)
        squares = (points[:, None, :] - points[None]) ** 2
        flat = squares.reshape(count * count, -1)
        for _ in range(steps):
            self._descend(self.loss(flat, values)[1])
        scale = np.exp(-self.parameters[:-1])
        inverse, weights, mean, variance = self._solve(_matern(flat @ scale**2), values)
        self._mean, self._variance = mean, variance
        # Predictions are for many points: in single precision.
        self._scale = scale.astype(np.float32)
        self._points = (points * scale).astype(np.float32)
        self._weights = weights.astype(np.float32)
        self._factor = np.linalg.cholesky(inverse).astype(np.float32)

    def predict(self, points: Array) -> tuple[Array, Array]:
        """Return the mean and the standard deviation of the value at each point."""
        scaled = points.astype(np.float32) * self._scale
        squares = scaled @ (-2 * self._points.T)
        squares += (scaled**2).sum(axis=1)[:, None] + (self._points**2).sum(axis=1)
        known = _matern(np.maximum(squares, 0, out=squares))
        explained = known @ self._factor
        left = 1 - np.einsum("ij,ij->i", explained, explained)
        deviation = np.sqrt(self._variance * np.maximum(left, 1e-6))
        return self._mean + known @ self._weights, deviation

    def loss(self, squares: Array, values: Array) -> tuple[float, Array]:
        """Return the negative logarithm of the posterior density, and its gradient.

        :arg squares: squared differences of all pairs of points, ``squares[pair, dimension]``
        """
        count = len(values)
        scale2 = np.exp(-2 * self.parameters[:-1])
        distances = squares @ scale2
        inverse, weights, _, variance = self._solve(_matern(distances), values)
        change = np.outer(weights, weights) / variance - inverse
        slope = 3 * np.exp(-_ROOT3 * np.sqrt(distances))
        noise = math.exp(self.parameters[-1])
        from_prior = np.append(
            (self.parameters[:-1] - self._prior) / _LENGTHS**2,
            (self.parameters[-1] - _NOISE[0]) / _NOISE[1] ** 2,
        )
        gradient = -0.5 * np.append(((change.ravel() * slope) @ squares) * scale2, 0)
        gradient[-1] = -0.5 * np.trace(change) * noise
        density = count * math.log(variance) - np.linalg.slogdet(inverse)[1]
        widths = np.append(np.full(len(scale2), _LENGTHS), _NOISE[1])
        prior = float(((from_prior * widths) ** 2).sum())
        return 0.5 * (density + prior), gradient + from_prior

    def _solve(self, kernel: Array, values: Array) -> tuple[Array, Array, float, float]:
        """Return the inverse, its product with the centered values, the mean and the variance."""
        count = len(values)
        noise = math.exp(self.parameters[-1]) + _JITTER
        inverse = np.linalg.inv(kernel.reshape(count, count) + noise * np.eye(count))
        mean = float(inverse.sum(axis=0) @ values / inverse.sum())
        weights = inverse @ (values - mean)
        variance = max(float((values - mean) @ weights) / count, 1e-12)
        return inverse, weights, mean, variance

    def _descend(self, gradient: Array) -> None:
        """Make a step of Adam (Kingma, Ba, 2015)."""
        self._steps += 1
        self._first = _DECAY * self._first + (1 - _DECAY) * gradient
        self._second = _DECAY2 * self._second + (1 - _DECAY2) * gradient**2
        first = self._first / (1 - _DECAY**self._steps)
        second = self._second / (1 - _DECAY2**self._steps)
        self.parameters = self.parameters - _STEP * first / (np.sqrt(second) + 1e-6)
        np.clip(self.parameters[:-1], -3, 5, out=self.parameters[:-1])
        self.parameters[-1] = np.clip(self.parameters[-1], -9, 1)


def _matern(squares: Array) -> Array:
    """Return the kernel for squared distances."""
    scaled = np.sqrt(squares) * np.asarray(_ROOT3, squares.dtype)
    kernel: Array = (1 + scaled) * np.exp(-scaled)
    return kernel
