"""
Kuramoto ensemble
=================

Oscillators that synchronize when their coupling is strong enough: an ensemble of systems, one for
each coupling, integrated by the fourth-order method of Runge and Kutta. All steps are one launch.
Each system is a work-group, on the host a thread; its oscillators are work-items, or the lanes of
vectors. The mean field, a sum over all oscillators, becomes a tree in local memory by a tag.

    python examples/kuramoto.py --device {c,opencl,cuda} [--n 64] [--picture kuramoto.png]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from harness import Device, check, distance, draw, open_device, parse

import kgen as lp

OSCILLATORS, DT = 128, 0.05
STAGES = (0, 0.5, 0.5, 1)  # of a step: the points at which slopes are evaluated
# Rounding, which the motion amplifies: below the transition, neighbouring states drift apart.
MAX_ERROR = 1e-9


def make_integration(target: Any) -> lp.TranslationUnit:
    """Return the kernel; every stage has its own loops, over the summands and the oscillators."""
    stages = []
    for k, position in enumerate(STAGES):
        state = f"phase{k}(o) := phase[s, o]"
        if position:
            state += f" + {position * DT}*slope{k - 1}[o]"
        stages.append(f"""
            {state}
            <> x{k} = sum(a{k}, cos(phase{k}(a{k})))/{OSCILLATORS}
            <> y{k} = sum(a{k}, sin(phase{k}(a{k})))/{OSCILLATORS}
            <> slope{k}[i{k}] = frequency[i{k}] + coupling[s]*(
                y{k}*cos(phase{k}(i{k})) - x{k}*sin(phase{k}(i{k})))""")
    over = [f"a{k}" for k in range(4)] + [f"i{k}" for k in range(5)]
    return lp.make_kernel(
        [
            "{ [s, t]: 0 <= s < n and 0 <= t < steps }",
            f"{{ [{', '.join(over)}]: 0 <= {', '.join(over)} < {OSCILLATORS} }}",
        ],
        f"""
        for s, t
            {"".join(stages)}
            phase[s, i4] += {DT / 6}*(slope0[i4] + 2*slope1[i4] + 2*slope2[i4] + slope3[i4])
        end
        """,
        [
            lp.GlobalArg("phase", np.float64, shape=f"n, {OSCILLATORS}"),
            lp.GlobalArg("frequency", np.float64, shape=OSCILLATORS),
            lp.GlobalArg("coupling", np.float64, shape="n"),
            ...,
        ],
        name="kuramoto",
        seq_dependencies=True,  # instructions run in the order of the text
        target=target,
    )


def schedule(knl: lp.TranslationUnit, device: Device) -> lp.TranslationUnit:
    """Distribute systems over work-groups, and oscillators over work-items or lanes."""
    tag = "vec" if device.is_host else "l.0"
    oscillators = sorted(knl.default_entrypoint.all_inames() - {"s", "t"})
    return lp.tag_inames(knl, {"s": "g.0", **dict.fromkeys(oscillators, tag)})


def integrate_in_numpy(phase: Any, frequency: Any, coupling: Any, steps: int) -> Any:
    """Return the phases after some steps."""
    for _ in range(steps):
        total, slope = 0, 0 * phase
        for position, weight in zip(STAGES, (1, 2, 2, 1), strict=True):
            state = phase + position * DT * slope
            field = np.exp(1j * state).mean(1, keepdims=True)
            slope = frequency + coupling[:, None] * (field * np.exp(-1j * state)).imag
            total = total + weight * slope
        phase = phase + DT / 6 * total
    return phase


def main(arguments: list[str]) -> None:
    """Integrate all systems, and compare with numpy."""
    given = parse(__doc__, arguments, n=64, steps=400)
    device = open_device(given.device)
    knl = schedule(make_integration(device.target), device)
    # frequencies have Cauchy's distribution, for which Kuramoto found the solution
    frequency = 0.5 * np.tan(np.pi * ((np.arange(OSCILLATORS) + 0.5) / OSCILLATORS - 0.5))
    coupling = np.linspace(0, 3, given.n)
    phase = np.random.default_rng(1).uniform(-np.pi, np.pi, (given.n, OSCILLATORS))
    there = {"frequency": device.array(frequency), "coupling": device.array(coupling)}
    found = device.on_host(device.run(knl, phase=device.array(phase), steps=given.steps, **there))
    expected = integrate_in_numpy(phase, frequency, coupling, given.steps)
    check("phases", distance(found, expected), MAX_ERROR)
    moving = device.array(phase)
    device.compare(
        "10 steps",
        lambda: device.run(knl, phase=moving, steps=10, **there),
        lambda: integrate_in_numpy(phase, frequency, coupling, 10),
    )

    def paint(plt: Any) -> None:
        order = abs(np.exp(1j * found).mean(1))
        plt.plot(coupling, order, "o", label=f"{OSCILLATORS} oscillators")
        theory = np.sqrt(np.maximum(1 - 1 / np.maximum(coupling, 1e-9), 0))
        plt.plot(coupling, theory, label="infinitely many")
        plt.xlabel("coupling")
        plt.ylabel("order parameter")
        plt.legend()

    draw(given.picture, paint)


if __name__ == "__main__":
    main(sys.argv[1:])
