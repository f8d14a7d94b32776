"""Replay a recorded space with a strategy of Kernel Tuner, in its simulation mode; print JSON.

Arguments: the cache file (not gzipped), a strategy, the number of seeds, then evaluations to allow.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from kernel_tuner import tune_kernel


def main(_: str, file: str, strategy: str, seeds: str, *budgets: str) -> None:
    recorded = json.loads(Path(file).read_text())
    names, known = recorded["tune_params_keys"], set(recorded["cache"])

    def is_recorded(config: dict[str, Any]) -> bool:
        return ",".join(str(config[name]) for name in names) in known

    def best(evaluations: int, seed: int) -> float:
        results, _ = tune_kernel(
            recorded["kernel_name"],
            "__global__ void none() {}",
            recorded["problem_size"],
            [],
            recorded["tune_params"],
            restrictions=is_recorded,
            strategy=strategy,
            strategy_options={"max_fevals": evaluations},
            cache=file,
            simulation_mode=True,
            lang="CUDA",
            quiet=True,
            seed=seed,
        )
        times = [result["time"] for result in results]
        return min((time for time in times if isinstance(time, int | float)), default=float("inf"))

    found = {n: [best(int(n), seed) for seed in range(int(seeds))] for n in budgets}
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
