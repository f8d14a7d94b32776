"""Synthetic search spaces: models of kernels on devices at random, and functions at random.

A model of a kernel computes, for each configuration, what a work-group needs and does: work-items,
registers, local memory, operations, bytes. A device at random, with limits such as GPUs have, makes
times of these: work-groups that fit on a multiprocessor hide latencies, the last ones of a launch
leave others idle, what does not fit fails. Effects of pairs of parameters' values at random are
added. The parameters are those that such kernels usually have; nothing is fitted to recorded times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kgen.tuning import Evaluation, Recording, SearchSpace

Array: TypeAlias = NDArray[np.floating]
Values: TypeAlias = Mapping[str, Array]
#: For each configuration the logarithm of its time, and whether it fails.
Model: TypeAlias = tuple[Array, NDArray[np.bool_]]

ABOUT = {"device_name": "synthetic", "kernel_name": "synthetic", "problem_size": [1]}


@dataclass(frozen=True, kw_only=True)
class Device:
    """What times of kernels depend on."""

    multiprocessors: int
    warps: int
    local_memory: int
    #: bytes in the time of an operation, on a multiprocessor, and how occupancy hides latencies
    bandwidth: float
    latency: float
    #: how much slower accesses in short rows are
    short_rows: float

    @classmethod
    def random(cls, rng: np.random.Generator) -> Device:
        return cls(
            multiprocessors=int(rng.choice([20, 60, 108, 220])),
            warps=int(rng.choice([32, 48, 64])),
            local_memory=1024 * int(rng.choice([48, 64, 100, 164])),
            bandwidth=float(rng.uniform(0.1, 0.8)),
            latency=float(rng.uniform(0.1, 0.6)),
            short_rows=float(rng.uniform(0.2, 2)),
        )

    def run(
        self,
        *,
        items: Array,
        registers: Array,
        groups: Array,
        operations: Array,
        bytes_: Array,
        local: Array | float = 0.0,
        independent: Array | float = 1.0,
        row: Array | float = 32.0,
    ) -> Model:
        """Return times of launches.

        :arg items: work-items of a group, each with some *registers*; *local* bytes for all
        :arg groups: work-groups; each has *operations*, and moves *bytes_* in rows of some elements
        :arg independent: operations of a work-item that do not wait for each other
        """
        warps = np.ceil(items / 32)
        spilled = np.maximum(registers - 255, 0)
        resident = np.minimum(32, np.floor(self.warps / warps))
        fitting = np.floor(65536 / (np.minimum(registers, 255) * warps * 32))
        resident = np.minimum(resident, fitting)
        resident = np.minimum(resident, np.floor(self.local_memory / np.maximum(local, 1)))
        is_failed = (resident < 1) | (items > 1024) | (np.asarray(local) > self.local_memory / 2)
        resident = np.maximum(resident, 1)
        occupancy = resident * warps / self.warps
        hidden = 1 - np.exp(-occupancy * (1 + np.log2(independent)) / self.latency)
        compute = operations / hidden * warps * 32 / items
        coalescing = 1 + self.short_rows * np.maximum(0, 1 - np.asarray(row) / 32)
        memory = bytes_ * (1 + spilled / 50) * coalescing / self.bandwidth / np.sqrt(hidden)
        at_once = self.multiprocessors * resident
        waves = np.ceil(groups / at_once) * at_once / groups
        times = np.maximum(compute, memory) + 0.25 * np.minimum(compute, memory) + 300
        logarithms: Array = np.log(times * groups * np.minimum(waves, 20))
        return logarithms, is_failed


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
    times = np.exp(logarithms - logarithms.min() + rng.normal(0, rough / 2, len(space)))
    results = zip(space, times.tolist(), failed.tolist(), strict=True)
    evaluations = [
        Evaluation(configuration=config, value=None, invalidity="runtime")
        if fails
        else Evaluation(configuration=config, value=time)
        for config, time, fails in results
    ]
    return Recording(evaluations=evaluations, tune_params=space.tune_params, unit="ms", about=ABOUT)


# -- kernels ----------------------------------------------------------------------------------


def product(v: Values, device: Device, rng: np.random.Generator) -> Model:
    """Multiply matrices in tiles, of which each work-item computes a part."""
    items = v["MDIMC"] * v["NDIMC"]
    each = v["MWG"] * v["NWG"] / items
    shared = 4 * v["KWG"] * (v["SA"] * v["MWG"] + v["SB"] * v["NWG"])
    vectors = 1 + 0.3 / v["VWM"] + 0.3 / v["VWN"] + 0.2 * (v["VWM"] * v["VWN"] > 16)
    again_a, again_b = (np.where(v[name], 1, rng.uniform(1, 4)) for name in ("SA", "SB"))
    depth = 2048 / v["KWG"]
    return device.run(
        items=items,
        registers=24 + each * rng.uniform(1, 1.6) + 2 * (v["VWM"] + v["VWN"]),
        groups=2048**2 / (v["MWG"] * v["NWG"]),
        operations=(2 * v["MWG"] * v["NWG"] * 2048 * vectors + depth * 4000 / v["KWI"]) / 128,
        bytes_=4 * 2048 * (again_a * v["MWG"] + again_b * v["NWG"]) / 128,
        local=shared,
        independent=np.minimum(each, 32),
        row=8 * np.minimum(v["MDIMA"], v["NDIMB"]) * np.sqrt(v["VWM"] * v["VWN"]) / 4,
    )


def stencil(v: Values, device: Device, rng: np.random.Generator) -> Model:
    """Make several time steps of a stencil on a tile with its halo in local memory."""
    steps = v["temporal_tiling"]
    width = v["block_size_x"] * v["tile_size_x"]
    height = v["block_size_y"] * v["tile_size_y"]
    outer = (width + 2 * steps) * (height + 2 * steps)
    each = v["tile_size_x"] * v["tile_size_y"]
    return device.run(
        items=v["block_size_x"] * v["block_size_y"],
        registers=20 + each * rng.uniform(1, 2) + 2 * v["unroll_t"],
        groups=4096**2 / (width * height) / steps,
        operations=outer * steps * (15 + 6 / v["unroll_t"] + 5 / each) / 128,
        bytes_=outer * 4 * (3 - v["sh_power"]) / 128 * 8,
        local=4 * outer * (2 + v["sh_power"]),
        independent=np.minimum(each, 8),
        row=v["block_size_x"],
    )


def sums(v: Values, device: Device, rng: np.random.Generator) -> Model:
    """Sum up channels with a shift for each: many inputs are read again by other work-items."""
    items = v["block_size_x"] * v["block_size_y"]
    each = v["items_per_thread_x"] * v["items_per_thread_y"]
    stride = 1 + 0.3 * v["tile_stride_x"] * (v["items_per_thread_x"] > 2) - 0.1 * v["tile_stride_y"]
    unroll = np.maximum(v["loop_unroll_channel"], 1)
    shared = np.log2(v["block_size_y"] * v["items_per_thread_y"] + 1)
    return device.run(
        items=items,
        registers=16 + each * rng.uniform(1, 3) + np.minimum(unroll, 32) / 2,
        groups=np.ceil(25000 / (v["block_size_x"] * v["items_per_thread_x"]))
        * np.ceil(2048 / (v["block_size_y"] * v["items_per_thread_y"])),
        operations=items * each * 1536 * (1 + 2 / each + 1.5 / unroll + (unroll > 64)) / 128,
        bytes_=items * each * 1536 * stride / shared / 64,
        independent=np.minimum(each * np.sqrt(unroll), 16),
        row=v["block_size_x"],
    )


def pairs(v: Values, device: Device, rng: np.random.Generator) -> Model:
    """Distances of all pairs of two sets of points, summed up by columns of work-groups."""
    width = v["block_size_x"] * v["tile_size_x"]
    height = v["block_size_y"] * v["tile_size_y"]
    each = v["tile_size_x"] * v["tile_size_y"]
    unrolled = v["loop_unroll_x"] * v["loop_unroll_y"]
    shared = np.choose(v["use_shared_mem"].astype(int), [1.0, 1.6, 1.3]) - 1
    rows = np.where(v["use_column"], v["n_y_blocks"], np.ceil(8192 / height))
    return device.run(
        items=v["block_size_x"] * v["block_size_y"],
        registers=18 + unrolled * rng.uniform(2, 5) + 3 * v["tile_size_x"],
        groups=np.ceil(8192 / width) * rows,
        operations=width * 8192 / rows * (20 + 8 / unrolled + 6 * (shared == 0)) / 128,
        bytes_=width * 8192 / rows * (1 - shared) * 16 / each / 32,
        local=np.where(shared > 0, 24 * (width + height), 0),
        independent=np.minimum(unrolled, 8),
        row=v["block_size_x"],
    )


def bodies(v: Values, device: Device, rng: np.random.Generator) -> Model:
    """Sum up forces between all pairs of bodies: those on a work-item's own bodies."""
    outer = v["outer_unroll_factor"]
    inner = np.maximum(v["inner_unroll_factor1"], 1) * np.maximum(v["inner_unroll_factor2"], 1)
    lanes = v["vector_type"]
    loads = np.where(v["use_soa"], 1 + 0.3 * (lanes > 2), 1.5 - 0.2 * lanes)
    return device.run(
        items=v["block_size"],
        registers=14 + 6 * outer + np.minimum(inner, 64) * rng.uniform(0.5, 2) * lanes,
        groups=131072 / (v["block_size"] * outer),
        operations=v["block_size"] * outer * (20 + 6 / inner + 4 / outer + (inner > 200)) * 100,
        bytes_=v["block_size"] * loads * 16 * np.where(v["local_mem"], 0.4, 1) * 60,
        local=v["local_mem"] * v["block_size"] * 16,
        independent=np.minimum(outer * inner, 16),
    )


def polygon(v: Values, device: Device, rng: np.random.Generator) -> Model:
    """Which points are in a polygon: one of some methods, with a tile of points for each item."""
    methods = rng.uniform(0.8, 2.2, (4, 3))
    method = v["between_method"].astype(int), v["use_method"].astype(int)
    registers = rng.uniform(1, 4, (4, 3))[method]
    return device.run(
        items=v["block_size_x"],
        registers=12 + registers * v["tile_size"],
        groups=np.ceil(2e7 / (v["block_size_x"] * v["tile_size"])),
        operations=v["block_size_x"]
        * v["tile_size"]
        * 600
        * (methods[method] + 2 / v["tile_size"])
        / 128,
        bytes_=v["block_size_x"] * v["tile_size"] * 8 / 16,
        independent=np.minimum(v["tile_size"], 4),
        row=v["block_size_x"],
    )


POWERS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
KERNELS: dict[str, tuple[Callable[..., Model], dict[str, list[Any]], list[str]]] = {
    "product": (
        product,
        {
            "MWG": [16, 32, 64, 128],
            "NWG": [16, 32, 64, 128],
            "KWG": [16, 32],
            "MDIMC": [8, 16, 32],
            "NDIMC": [8, 16, 32],
            "MDIMA": [8, 16, 32],
            "NDIMB": [8, 16, 32],
            "KWI": [2, 8],
            "VWM": [1, 2, 4, 8],
            "VWN": [1, 2, 4, 8],
            "SA": [0, 1],
            "SB": [0, 1],
        },
        [
            "MWG % (MDIMC * VWM) == 0 and NWG % (NDIMC * VWN) == 0",
            "MWG % (MDIMA * VWM) == 0 and NWG % (NDIMB * VWN) == 0",
            "KWG % (MDIMC * NDIMC / MDIMA) == 0 and KWG % (MDIMC * NDIMC / NDIMB) == 0",
        ],
    ),
    "stencil": (
        stencil,
        {
            "block_size_x": [8, 16, 32, 64, 128, 256, 512],
            "block_size_y": [1, 2, 4, 8, 16, 32],
            "tile_size_x": list(range(1, 11)),
            "tile_size_y": list(range(1, 11)),
            "temporal_tiling": list(range(1, 9)),
            "unroll_t": list(range(1, 9)),
            "sh_power": [0, 1],
        },
        [
            "32 <= block_size_x * block_size_y <= 1024 and temporal_tiling % unroll_t == 0",
            "block_size_x * tile_size_x > 2 * temporal_tiling",
            "block_size_y * tile_size_y > 2 * temporal_tiling",
        ],
    ),
    "sums": (
        sums,
        {
            "block_size_x": [1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 512],
            "block_size_y": [1, 2, 4, 8, 12, 16, 24, 32, 64, 128],
            "items_per_thread_x": [1, 2, 3, 4, 6, 8],
            "items_per_thread_y": [1, 2, 3, 4, 6, 8],
            "tile_stride_x": [0, 1],
            "tile_stride_y": [0, 1],
            "loop_unroll_channel": [0, 2, 4, 8, 16, 96],
        },
        [
            "32 <= block_size_x * block_size_y <= 1024",
            "items_per_thread_x > 1 or tile_stride_x == 0",
            "items_per_thread_y > 1 or tile_stride_y == 0",
        ],
    ),
    "pairs": (
        pairs,
        {
            "block_size_x": [32, 64, 128, 256, 512, 1024],
            "block_size_y": [1, 2, 4, 8, 16, 32],
            "tile_size_x": list(range(1, 9)),
            "tile_size_y": list(range(1, 9)),
            "use_shared_mem": [0, 1, 2],
            "loop_unroll_x": list(range(1, 9)),
            "loop_unroll_y": list(range(1, 9)),
            "use_column": [0, 1],
            "n_y_blocks": POWERS[3:9],
        },
        [
            "block_size_x * block_size_y <= 1024",
            "tile_size_x % loop_unroll_x == 0 and tile_size_y % loop_unroll_y == 0",
            "use_column or n_y_blocks == 8",
        ],
    ),
    "bodies": (
        bodies,
        {
            "block_size": [64, 96, 128, 192, 256, 384, 512, 768, 1024],
            "outer_unroll_factor": [1, 2, 4, 8],
            "inner_unroll_factor1": [0, 1, 2, 4, 8, 16, 32],
            "inner_unroll_factor2": [0, 1, 2, 4, 8, 16, 32],
            "use_soa": [0, 1],
            "local_mem": [0, 1],
            "vector_type": [1, 2, 4],
        },
        ["local_mem or inner_unroll_factor2 == 0", "not use_soa or vector_type <= 2"],
    ),
    "polygon": (
        polygon,
        {
            "block_size_x": [32 * n for n in range(1, 33)],
            "tile_size": [1, *range(2, 22, 2)],
            "between_method": [0, 1, 2, 3],
            "use_method": [0, 1, 2],
        },
        [],
    ),
}


def kernel_space(name: str, seed: int) -> Recording:
    """Return the times of one of the kernels on a device at random."""
    model, params, restrictions = KERNELS[name]
    rng = np.random.default_rng(seed)
    space = SearchSpace(params, restrictions)
    device = Device.random(rng)
    logarithms, failed = model(values_of(space), device, rng)
    return recording(space, logarithms, failed, seed, rng.choice([0.02, 0.05, 0.1]))


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
    return recording(
        space, logarithms, fails > np.quantile(fails, rng.uniform(0.5, 0.95)), seed, rough
    )


def synthetic_spaces(seed: int = 1) -> dict[str, Recording]:
    """Return spaces of 200 to 200,000 configurations; other devices for each seed."""
    return {
        **{name: kernel_space(name, seed) for name in KERNELS},
        "few": random_function(seed + 1, [5, 4, 3, 4], 0.1),
        "smooth": random_function(seed + 2, [8, 8, 4, 6, 4], 0.02),
        "rough": random_function(seed + 4, [8, 6, 3, 5, 4, 3, 4], 0.25),
        "many": random_function(seed + 5, [6, 6, 4, 4, 4, 3, 3, 2, 2, 2], 0.1),
    }
