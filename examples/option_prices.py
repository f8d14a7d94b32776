"""
Monte Carlo option prices
=========================

Prices of a European and of an Asian call: means over random paths of a stock. Philox computes
random numbers from a counter and a key. The number of a path is its key, so that any number of
threads or work-items draws the same numbers, and no state is stored between calls.

    python examples/option_prices.py --device {c,opencl,cuda} [--n 200000] [--picture prices.png]
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
from harness import Device, check, draw, open_device, parse

import kgen as lp

START, STRIKE, RATE, VOLATILITY, DATES = 100.0, 105.0, 0.03, 0.25, 16
DRIFT = (RATE - VOLATILITY**2 / 2) / DATES  # of the logarithm of the price, between two dates
SPREAD = VOLATILITY / math.sqrt(DATES)
MAX_ERROR = 4.0  # standard errors: a right mean is outside once in 16000 times


def make_paths(target: Any) -> lp.TranslationUnit:
    """Return the kernel that simulates paths and finds the payoffs of both options for each."""
    return lp.make_kernel(
        f"{{ [path, pair]: 0 <= path < n and 0 <= pair < {DATES // 2} }}",
        f"""
        for path
            <> counter = make_uint4(0, 0, 0, 0)
            <float64> x = {math.log(START)}
            <float64> total = 0
            for pair
                <> u, counter = philox4x32_f32(counter, make_uint2(path, seed))
                # Box and Muller: two normal numbers from two uniform ones
                <> radius = {SPREAD}*sqrt(-2*log(1 - u.s0))
                x = x + {DRIFT} + radius*cos({2 * math.pi}*u.s1)
                total = total + exp(x)
                x = x + {DRIFT} + radius*sin({2 * math.pi}*u.s1)
                total = total + exp(x)
            end
            european[path] = max(exp(x) - {STRIKE}, 0)
            asian[path] = max(total/{DATES} - {STRIKE}, 0)
        end
        """,
        [lp.GlobalArg("european, asian", shape=lp.auto), lp.ValueArg("seed", np.uint32), ...],
        name="paths",
        seq_dependencies=True,  # instructions run in the order of the text
        target=target,
    )


def schedule(knl: lp.TranslationUnit, device: Device) -> lp.TranslationUnit:
    """Give each thread of the host pieces of 1024 paths, each work-item a path."""
    if not device.is_host:
        return lp.split_iname(knl, "path", 128, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "path", 1024, outer_tag="g.0")
    # 64 paths in step: log, cos and exp are then functions of vectors, three times as fast
    return lp.split_iname(knl, "path_inner", 64, inner_tag="vec")


def paths_in_numpy(n: int) -> tuple[Any, Any]:
    """Simulate paths with numpy's generator."""
    normal = np.random.default_rng(1).standard_normal((DATES, n))
    prices = START * np.exp(np.cumsum(DRIFT + SPREAD * normal, axis=0))
    return np.maximum(prices[-1] - STRIKE, 0), np.maximum(prices.mean(0) - STRIKE, 0)


def black_scholes() -> float:
    """Return the price of the European call in closed form."""
    d = (math.log(START / STRIKE) + RATE + VOLATILITY**2 / 2) / VOLATILITY
    below, above = (0.5 * math.erfc(-x / math.sqrt(2)) for x in (d - VOLATILITY, d))
    return START * above - STRIKE * math.exp(-RATE) * below


def main(arguments: list[str]) -> None:
    """Find both prices, and compare with Black and Scholes, and with numpy."""
    given = parse(__doc__, arguments, n=200_000)
    device = open_device(given.device)
    knl = schedule(make_paths(device.target), device)

    def simulate() -> Any:
        return device.run(knl, n=given.n, seed=np.uint32(2026))

    discount = math.exp(-RATE)
    european, asian = (discount * device.on_host(payoffs) for payoffs in simulate())
    *_, numpys = paths_in_numpy(given.n)
    expected = {"European": black_scholes(), "Asian": discount * numpys.mean()}
    for (name, price), payoffs in zip(expected.items(), (european, asian), strict=True):
        standard_error = payoffs.std() / math.sqrt(given.n)
        print(f"{name} call: {payoffs.mean():.4f} +- {standard_error:.4f}, expected {price:.4f}")
        samples = 1 if name == "European" else 2  # the Asian price is compared with a mean
        error = abs(payoffs.mean() - price) / standard_error / math.sqrt(samples)
        check(f"{name}, in standard errors", error, MAX_ERROR)
    device.compare(f"{given.n} paths", simulate, lambda: paths_in_numpy(given.n))

    def paint(plt: Any) -> None:
        counts = np.arange(1, given.n + 1)
        band = 2 * european.std() / np.sqrt(counts)
        plt.fill_between(
            counts, expected["European"] - band, expected["European"] + band, alpha=0.3
        )
        plt.semilogx(counts, np.cumsum(european) / counts)
        plt.axhline(expected["European"], color="black", linewidth=0.8)
        plt.ylim(expected["European"] - 3, expected["European"] + 3)
        plt.xlabel("paths")
        plt.title("European call: mean, Black and Scholes, two standard errors")

    draw(given.picture, paint)


if __name__ == "__main__":
    main(sys.argv[1:])
