"""The Gaussian process: against formulas written out, and differences of its own density."""

from __future__ import annotations

import numpy as np

from kgen.tuning.strategies.gaussian import Array, GaussianProcess, Places

RNG = np.random.default_rng(7)
SIZES = (9, 6, 4)
DISTANCES: list[Array] = [
    *(np.abs(np.subtract.outer(np.arange(size), np.arange(size))) / (size - 1) for size in (9, 6)),
    1.0 - np.eye(4),
]
PLACES = np.stack([RNG.integers(size, size=30) for size in SIZES], axis=1)
VALUES = np.sin(PLACES[:, 0] / 2) + (PLACES[:, 1] / 5) ** 2


def test_the_gradient_is_that_of_the_loss() -> None:
    process = GaussianProcess(DISTANCES)
    process.parameters = np.array([0.2, -0.5, 1.0, 0.3, -0.4, -3.0])
    pairs = [c[:, None] * size + c for c, size in zip(PLACES.T, SIZES, strict=True)]
    found = process.gradient(pairs, VALUES)
    for parameter in range(6):
        ends = []
        for step in (-1e-5, 1e-5):
            moved = GaussianProcess(DISTANCES)
            moved.parameters = process.parameters + step * (np.arange(6) == parameter)
            ends.append(moved.loss(PLACES, VALUES))
        np.testing.assert_allclose(found[parameter], (ends[1] - ends[0]) / 2e-5, rtol=1e-4)


def test_steps_make_the_loss_less() -> None:
    losses = []
    for steps in (0, 5, 30):
        process = GaussianProcess(DISTANCES)
        process.fit(PLACES, VALUES, steps)
        losses.append(process.loss(PLACES, VALUES))
    assert losses[0] > losses[1] > losses[2]


def test_predictions_are_those_of_the_definition() -> None:
    process = GaussianProcess(DISTANCES)
    process.fit(PLACES, VALUES, 10)
    *lengths, first, second, noise = np.exp(process.parameters)

    def covariance(one: Places, two: Places) -> Array:
        single, product = np.zeros((len(one), len(two))), np.ones((len(one), len(two)))
        for table, length, a, b in zip(DISTANCES, lengths, one.T, two.T, strict=True):
            near = np.sqrt(3) * table[a[:, None], b] / length
            far = near / np.sqrt(3)  # the root of the number of parameters
            single += (1 + near) * np.exp(-near) / 3
            product *= (1 + far) * np.exp(-far)
        return np.asarray(first * single + second * product)

    inverse = np.linalg.inv(covariance(PLACES, PLACES) + (noise + 1e-5) * np.eye(30))
    mean = (inverse @ VALUES).sum() / inverse.sum()
    variance = (VALUES - mean) @ inverse @ (VALUES - mean) / 30
    new = np.stack([RNG.integers(size, size=50) for size in SIZES], axis=1)
    known = covariance(new, PLACES)
    found, deviation = process.predict(new)
    np.testing.assert_allclose(found, mean + known @ inverse @ (VALUES - mean), atol=5e-3)
    left = first + second - np.einsum("ij,jk,ik->i", known, inverse, known)
    np.testing.assert_allclose(deviation, np.sqrt(variance * left), atol=5e-3)


def test_a_parameter_without_influence_gets_a_large_length() -> None:
    process = GaussianProcess(DISTANCES)
    process.fit(PLACES, VALUES, 60)
    assert process.parameters[2] > process.parameters[0] + 0.5
