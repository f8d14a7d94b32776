"""Random kernels whose loops have bounds that the kernel computes, against numpy.

``KGEN_RANDOM_KERNELS`` is the number of kernels, ``KGEN_RANDOM_SEED`` chooses others.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest

import kgen as lp

COUNT = int(os.environ.get("KGEN_RANDOM_KERNELS", "60")) // 2
SEED = int(os.environ.get("KGEN_RANDOM_SEED", "1"))
ROWS = (1, 2, 5, 13)
DOMAINS = {
    "b": "0<=b<n",
    "i": "s<=i<e",
    "j": "t<=j<u",
    "d": "0<=d<2",
    "r": "0<=r<3",
}


@dataclass(frozen=True)
class Case:
    """What a kernel has: its body is for each row ``b``, in loops over ``i``, perhaps ``j``."""

    is_nested: bool  # a loop over j in that over i
    is_repeated: bool  # all of it in a loop over r, which moves the bounds
    has_flag: bool  # bounds are set, and loops run, where a flag is set
    has_inner_flag: bool  # inside, only some elements count
    is_sum: bool  # the innermost loop is a reduction
    tags: str
    split: int
    inner_split: int
    inner_tag: str | None  # of the pieces of a reduction's loop
    is_inward: bool  # whose reduction over all of these pieces is inside of that over one
    slabs: tuple[int, int]
    assumed: str

    def text(self) -> str:
        """Write the kernel."""
        flag = ", if=f > 0" if self.has_flag else ""
        shift = " + r % 2" if self.is_repeated else ""
        start = ["<> f = flag[b] {id=f}"]
        rows = [f"<> s = starts[b]{shift} {{id=s{flag}}}", f"<> e = starts[b + 1] {{id=e{flag}}}"]
        at, inner = "i", f"{flag}, if=a[0, i] > 0" if self.has_inner_flag else flag
        inside = []
        if self.is_nested:
            at = "j"
            inside = [f"<> t = i - 1 + s - s {{id=t{inner}}}", f"<> u = i + 1 {{id=u{inner}}}"]
        if self.is_sum:
            work = [f"acc[b] = acc[b] + sum({at}, a[0, {at}]*a[1, {at}]) {{id=w{flag}}}"]
            loop = rows if at == "i" else [*rows, "for i", *inside, *work, "end"]
            if at == "i":
                loop = [*rows, *work]
        else:
            body = [
                "for d",
                f"<> x[d] = a[d, {at}] {{id=x{inner}}}",
                "end",
                f"acc[b] = acc[b] + x[0]*x[1] {{id=w{inner}}}",
            ]
            body = [*inside, "for j", *body, "end"] if self.is_nested else body
            loop = [*rows, "for i", *body, "end"]
        if self.is_repeated:
            loop = ["for r", *loop, "end"]
        return "\n".join(["for b", *start, *loop, "end"])

    def make(self, target: Any) -> Any:
        """Make the kernel, transformed."""
        unused = {"j": not self.is_nested, "d": self.is_sum, "r": not self.is_repeated}
        knl = lp.make_kernel(
            [f"{{[{k}]: {d}}}" for k, d in DOMAINS.items() if not unused.get(k, False)],
            self.text(),
            [
                lp.GlobalArg("starts", np.int32, shape="n + 1"),
                lp.GlobalArg("flag", np.int32, shape="n"),
                lp.GlobalArg("a", np.float64, shape="2, m"),
                lp.GlobalArg("acc", np.float64, shape="n"),
                ...,
            ],
            seq_dependencies=True,
            target=target,
            assumptions=self.assumed,
        )
        knl = lp.split_iname(knl, "b", self.split, slabs=self.slabs)
        if self.inner_split and self.is_sum:
            loop = "j" if self.is_nested else "i"
            knl = lp.split_iname(knl, loop, self.inner_split, inner_tag=self.inner_tag)
            if self.is_inward:
                knl = lp.split_reduction_inward(knl, f"{loop}_outer")
        elif self.inner_split:
            knl = lp.split_iname(knl, "i", self.inner_split)
        return lp.tag_inames(knl, self.tags)

    def expected(self, starts: Any, flag: Any, a: Any) -> Any:
        """Compute what a kernel means."""
        acc = np.zeros(len(flag))
        counts = [
            (b, r % 2 if self.is_repeated else 0)
            for b in range(len(flag))
            for r in range(3 if self.is_repeated else 1)
            if flag[b] > 0 or not self.has_flag
        ]
        for b, shift in counts:
            for i in range(starts[b] + shift, starts[b + 1]):
                if self.has_inner_flag and not self.is_sum and a[0, i] <= 0:
                    continue
                for j in range(i - 1, i + 1) if self.is_nested else (i,):
                    acc[b] += a[0, j] * a[1, j]
        return acc


def draw(random: Random) -> Case:
    is_sum = random.random() < 0.3
    tags = random.choice(
        ("", "b_inner:unr", "b_outer:g.0, b_inner:l.0", "b_outer:g.0, b_inner:l.0", "b_outer:g.0")
    )
    is_unrolled = random.random() < 0.5 and not is_sum
    return Case(
        is_nested=random.random() < 0.5,
        is_repeated=random.random() < 0.4,
        has_flag=random.random() < 0.5,
        has_inner_flag=random.random() < 0.4 and not is_sum,
        is_sum=is_sum,
        tags=", ".join(filter(None, (tags, "d:unr" if is_unrolled else ""))),
        split=random.choice((2, 4, 64)),
        inner_split=random.choice((0, 0, 3)),
        inner_tag=random.choice((None, "ilp", "unr")),
        is_inward=random.random() < 0.7,
        slabs=random.choice(((0, 0), (0, 0), (0, 1), (1, 0))),
        assumed=random.choice(("n >= 1", "n >= 1", "n >= 1 and n mod 4 = 0")),
    )


def check(case: Case, target: Any, call: Callable[..., Any]) -> None:
    knl = case.make(target)
    for rows in (r for r in (*ROWS, 8) if "mod" not in case.assumed or r % 4 == 0):
        numbers = np.random.default_rng(rows)
        starts = np.cumsum(numbers.integers(1, 5, rows + 1)).astype(np.int32)
        flag = numbers.integers(0, 2, rows).astype(np.int32)
        a = numbers.integers(-3, 4, (2, int(starts[-1]) + 2)).astype(np.float64)
        acc = np.zeros(rows)
        call(knl, starts=starts, flag=flag, a=a, acc=acc)
        assert np.array_equal(acc, case.expected(starts, flag, a)), f"{rows} rows of {case}"


def cases(of: str) -> list[Case]:
    random = Random(f"{SEED} {of}")
    return [draw(random) for _ in range(COUNT if of == "C" else COUNT // 6)]


@pytest.mark.parametrize("case", cases("C"), ids=str)
def test_loops_with_computed_bounds_on_the_host(case: Case) -> None:
    check(case, lp.ExecutableCTarget(), lambda knl, **arrays: knl(**arrays))


@pytest.mark.parametrize("case", cases("OpenCL"), ids=str)
def test_loops_with_computed_bounds_on_opencl(case: Case, device: Any) -> None:
    check(case, lp.PyOpenCLTarget(), device)
