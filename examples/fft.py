"""
FFT by stages
=============

Fast Fourier transforms of all windows of a signal: its spectrogram. A transform of 256 values has
four stages of radix four, in Stockham's order, which sorts on the way. A work-group, on the host a
thread, does all stages of a window in one launch. They hand over their values in local memory, and
kgen finds where barriers are needed.

    python examples/fft.py --device {c,opencl,cuda} [--n 2000] [--picture fft.png]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from harness import Device, check, distance, draw, open_device, parse

import kgen as lp

LENGTH, STAGES, STEP = 256, 4, 64
MAX_ERROR = 1e-5  # roundings of float32 in each stage, relative to the largest value


def stage(k: int) -> str:
    """Return the instructions of stage *k*, in which 4**k butterflies have the same factor."""
    same, quarter = 4**k, LENGTH // 4
    source = f"x{k - 1}[" if k else "signal[w, "
    target = f"x{k}[" if k < STAGES - 1 else "spectrum[w, "
    x = [f"{source}i{k} + {part * quarter}]" for part in range(4)]
    y = [f"{target}i{k}//{same}*{4 * same} + i{k}%{same} + {part * same}]" for part in range(4)]
    return f"""
        <> root{k} = roots[i{k}//{same}*{same}]
        <> even{k} = {x[0]} + {x[2]}
        <> odd{k} = {x[1]} + {x[3]}
        <> left{k} = {x[0]} - {x[2]}
        <> right{k} = 1j*({x[1]} - {x[3]})
        {y[0]} = even{k} + odd{k}
        {y[1]} = root{k}*(left{k} - right{k})
        {y[2]} = root{k}*root{k}*(even{k} - odd{k})
        {y[3]} = root{k}*root{k}*root{k}*(left{k} + right{k})"""


def make_fft(target: Any) -> lp.TranslationUnit:
    """Return the kernel; each stage has a loop of its own, over butterflies."""
    loops = ", ".join(f"i{k}" for k in range(STAGES))
    return lp.make_kernel(
        f"{{ [w, {loops}]: 0 <= w < n and 0 <= {loops} < {LENGTH // 4} }}",
        f"for w\n{''.join(map(stage, range(STAGES)))}\nend",
        [
            lp.GlobalArg("signal, spectrum", np.complex64, shape=f"n, {LENGTH}"),
            lp.GlobalArg("roots", np.complex64, shape=LENGTH // 4),
            *[lp.TemporaryVariable(f"x{k}", np.complex64, shape=LENGTH) for k in range(STAGES - 1)],
            ...,
        ],
        name="fft",
        seq_dependencies=True,  # instructions run in the order of the text
        target=target,
    )


def schedule(knl: lp.TranslationUnit, device: Device) -> lp.TranslationUnit:
    """Give each work-group a window, and each work-item a butterfly of each stage."""
    knl = lp.tag_inames(knl, "w:g.0")
    if device.is_host:  # products of complex numbers become vectors if they need not look for nan
        return knl.copy(target=lp.ExecutableCTarget(fast_math=True))
    return lp.tag_inames(knl, {f"i{k}": "l.0" for k in range(STAGES)})


def windows(n: int) -> Any:
    """Return overlapping windows of two tones, of which one rises and one swings."""
    t = np.arange(n * STEP + LENGTH) / (n * STEP)
    hertz = np.array([0.05 + 0.35 * t, 0.3 + 0.1 * np.sin(20 * t)])
    signal = np.exp(2j * np.pi * np.cumsum(hertz, axis=1)).sum(0)
    cut = np.lib.stride_tricks.sliding_window_view(signal, LENGTH)[: n * STEP : STEP]
    return (cut * np.hanning(LENGTH)).astype(np.complex64)


def main(arguments: list[str]) -> None:
    """Transform all windows, and compare with numpy."""
    given = parse(__doc__, arguments, n=2000)
    device = open_device(given.device)
    knl = schedule(make_fft(device.target), device)
    signal = windows(given.n)
    roots = np.exp(-2j * np.pi * np.arange(LENGTH // 4) / LENGTH).astype(np.complex64)
    there = {"signal": device.array(signal), "roots": device.array(roots)}
    spectrum = device.on_host(device.run(knl, **there))
    check("spectrum", distance(spectrum, np.fft.fft(signal)), MAX_ERROR)
    what = f"{given.n} windows"
    device.compare(what, lambda: device.run(knl, **there), lambda: np.fft.fft(signal))

    def paint(plt: Any) -> None:
        power = 20 * np.log10(abs(spectrum[:, : LENGTH // 2].T) + 1e-3)
        plt.imshow(power, origin="lower", aspect="auto", extent=(0, given.n, 0, 0.5))
        plt.xlabel("window")
        plt.ylabel("cycles per sample")
        plt.colorbar(label="power [dB]")

    draw(given.picture, paint)


if __name__ == "__main__":
    main(sys.argv[1:])
