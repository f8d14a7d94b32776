"""The Gaussian process: against formulas written out, and differences of its own density."""

from __future__ import annotations

import numpy as np

from kgen.tuning.strategies.gaussian import Array, GaussianProcess

RNG = np.random.default_rng(7)
POINTS = RNG.random((30, 3))
VALUES = np.sin(4 * POINTS[:, 0]) + POINTS[:, 1] ** 2


def squares_of(points: Array) -> Array:
    squares: Array = (points[:, None] - points) ** 2
    return squares.reshape(len(points) ** 2, -1)


def test_the_gradient_is_that_of_the_loss() -> None:
    process = GaussianProcess(3)
    process.parameters = np.array([0.2, -0.5, 1.0, -3.0])
    found = process.loss(squares_of(POINTS), VALUES)[1]
    for place in range(4):
        ends = []
        for step in (-1e-5, 1e-5):
            moved = GaussianProcess(3)
            moved.parameters = process.parameters + step * (np.arange(4) == place)
            ends.append(moved.loss(squares_of(POINTS), VALUES)[0])
        np.testing.assert_allclose(found[place], (ends[1] - ends[0]) / 2e-5, rtol=1e-4)


def test_steps_make_the_loss_less() -> None:
    losses = []
    for steps in (0, 5, 30):
        process = GaussianProcess(3)
        process.fit(POINTS, VALUES, steps)
        losses.append(process.loss(squares_of(POINTS), VALUES)[0])
    assert losses[0] > losses[1] > losses[2]


def test_predictions_are_those_of_the_definition() -> None:
    process = GaussianProcess(3)
    process.fit(POINTS, VALUES, 10)
    lengths, noise = np.exp(process.parameters[:-1]), np.exp(process.parameters[-1]) + 1e-5

    def kernel(one: Array, two: Array) -> Array:
        distances = np.sqrt((((one[:, None] - two) / lengths) ** 2).sum(axis=2) * 3)
        values: Array = (1 + distances) * np.exp(-distances)
        return values

    inverse = np.linalg.inv(kernel(POINTS, POINTS) + noise * np.eye(30))
    mean = (inverse @ VALUES).sum() / inverse.sum()
    variance = (VALUES - mean) @ inverse @ (VALUES - mean) / 30
    new = RNG.random((50, 3))
    known = kernel(new, POINTS)
    found, deviation = process.predict(new)
    np.testing.assert_allclose(found, mean + known @ inverse @ (VALUES - mean), atol=2e-3)
    left = 1 - np.einsum("ij,jk,ik->i", known, inverse, known)
    np.testing.assert_allclose(deviation, np.sqrt(variance * left), atol=2e-3)


def test_a_dimension_without_influence_gets_a_large_length() -> None:
    process = GaussianProcess(3)
    process.fit(POINTS, VALUES, 60)
    assert process.parameters[2] > process.parameters[0] + 1
