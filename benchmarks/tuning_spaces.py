"""Synthetic search spaces: models of kernels on devices at random, and functions at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgen.tuning import Evaluation, Recording, SearchSpace

Array = NDArray[np.floating]
ABOUT = {"device_name": "synthetic", "kernel_name": "synthetic", "problem_size": [1]}


def values_of(space: SearchSpace) -> dict[str, Array]:
    """Return for each parameter of numbers its values, one for each row."""
    columns = zip(space.tune_params.items(), space.indices.T, strict=True)
    return {
        name: np.array(values, float)[places]
        for (name, values), places in columns
        if not isinstance(values[0], str)
    }


def interaction(space: SearchSpace, rng: np.random.Generator, count: int, size: float) -> Array:
    """Return a summand at random for each combination of some parameters' values."""
    chosen = rng.choice(len(space.names), min(count, len(space.names)), replace=False)
    sizes = [len(list(space.tune_params.values())[place]) for place in chosen]
    table = rng.normal(0, size, sizes)
    return np.asarray(table[tuple(space.indices[:, place] for place in chosen)])


def recording(
    space: SearchSpace, logarithms: Array, failed: NDArray[np.bool_], seed: int, rough: float
) -> Recording:
    """Return a space with times, made rougher: by interactions, and for each configuration."""
    rng = np.random.default_rng(seed)
    for count in (2, 2, 2, 3):
        logarithms = logarithms + interaction(space, rng, count, rough)
    times = np.exp(logarithms + rng.normal(0, rough / 2, len(space)))
    results = zip(space, times.tolist(), failed.tolist(), strict=True)
    evaluations = [
        Evaluation(configuration=config, value=None if fails else time, invalidity="runtime")
        if fails
        else Evaluation(configuration=config, value=time)
        for config, time, fails in results
    ]
    return Recording(evaluations=evaluations, tune_params=space.tune_params, unit="ms", about=ABOUT)


def tiled(seed: int, params: Mapping[str, Sequence[Any]], restrictions: Sequence[str]) -> Recording:
    """Return a model of a kernel with work-groups, tiles and local memory: times by occupancy."""
    rng = np.random.default_rng(seed)
    space = SearchSpace(params, restrictions)
    v = values_of(space)
    items, tile = v["block_size_x"] * v["block_size_y"], v["tile_size_x"] * v["tile_size_y"]
    registers = np.minimum(16 + tile * rng.uniform(1, 3) + 2 * v["unroll"], 255)
    local = v["shared"] * 4 * (items * tile + rng.integers(16, 64) * v["block_size_x"])
    warps = np.ceil(items / 32)
    groups = np.floor(rng.choice([32, 48, 64]) / warps)
    groups = np.minimum(groups, np.floor(65536 / (registers * warps * 32)))
    groups = np.minimum(groups, np.floor(rng.choice([48, 96, 164]) * 1024 / np.maximum(local, 1)))
    occupancy = np.maximum(groups, 0.5) * warps / 64
    efficiency = 1 - np.exp(-occupancy * (2 + np.log2(tile)) / rng.uniform(0.3, 1.5))
    compute = 1 + 0.4 / v["unroll"] + 0.6 / tile + 0.2 * (v["unroll"] > 8)
    coalesced = 1 + 0.8 * (v["block_size_x"] < 32) + 0.2 * (v["block_size_x"] % 32 != 0)
    memory = rng.uniform(0.3, 2) * coalesced * (0.3 + 1 / tile) * np.where(v["shared"], 0.6, 1)
    logarithms = np.log((np.maximum(compute, memory) + 0.3 * memory) / efficiency)
    return recording(space, logarithms, groups < 1, seed, rng.choice([0.03, 0.08]))


def random_function(seed: int, sizes: Sequence[int], rough: float) -> Recording:
    """Return a function of ordered and other parameters, with valleys across pairs of them."""
    rng = np.random.default_rng(seed)
    params: dict[str, list[Any]] = {
        f"p{place}": [f"v{n}" for n in range(size)]
        if place % 3 == 2
        else [2**n for n in range(size)]
        for place, size in enumerate(sizes)
    }
    space = SearchSpace(params, [f"p0 * p1 <= {2 ** (max(sizes[:2]) + 1)}"])
    logarithms = np.zeros(len(space))
    for place, size in enumerate(sizes):
        effects = rng.normal(0, 1, size)
        if place % 3 != 2:
            effects = 3 * ((np.arange(size) - rng.uniform(0, size)) / size) ** 2 + effects / 5
        logarithms += rng.exponential(0.4) * effects[space.indices[:, place]]
    for _ in sizes:
        one, two = rng.choice(len(sizes), 2, replace=False)
        scaled = space.indices / (np.array(sizes) - 1)
        valley = np.abs(scaled[:, one] - rng.uniform(0.5, 2) * scaled[:, two])
        logarithms += rng.exponential(0.6) * valley
    fails = interaction(space, rng, 2, 1.0)
    return recording(space, logarithms, fails > np.quantile(fails, 0.85), seed, rough)


def synthetic_spaces() -> dict[str, Recording]:
    """Return spaces of 200 to 50,000 configurations."""
    params: dict[str, list[Any]] = {
        "block_size_x": [16 * n for n in range(1, 17)],
        "block_size_y": [1, 2, 4, 8, 16],
        "tile_size_x": [1, 2, 4, 8],
        "tile_size_y": [1, 2, 4, 8],
        "unroll": [1, 2, 4, 8, 16],
        "shared": [0, 1],
        "layout": ["rows", "columns", "blocks"],
    }
    limits = ["32 <= block_size_x * block_size_y <= 1024", "tile_size_x * tile_size_y <= 32"]
    return {
        "tiles": tiled(1, params, limits),
        "rough_tiles": tiled(4, params, [*limits, "shared or unroll <= 4"]),
        "few": random_function(2, [5, 4, 3, 4], 0.1),
        "smooth": random_function(3, [8, 8, 4, 6, 4], 0.02),
        "rough": random_function(5, [8, 6, 3, 5, 4, 3, 4], 0.25),
        "many": random_function(6, [6, 6, 4, 4, 4, 3, 3, 2, 2, 2], 0.1),
    }
