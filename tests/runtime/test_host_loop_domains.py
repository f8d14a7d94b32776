"""Host loops that share domains with loops of the device: what holds inside holds inside only."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import islpy as isl
import numpy as np
import pytest

import kgen as lp
from kgen.analysis.domains import fix_dims

F = np.float64
Array = np.ndarray[Any, Any]
N = 9


def around(domain: Any) -> Any:
    """Launches before, inside and after a host loop, all of them over the same i."""
    text = """
        v[i] = v[i] + 1             {id=before, inames=i}
        ... gbarrier                {id=g, dep=before}
        for t
            ... gbarrier            {id=g1, inames=t, dep=g}
            w[i] = v[i] + t         {id=one, dep=g1, inames=t:i}
            ... gbarrier            {id=g2, inames=t, dep=one}
            v[i] = v[i] + w[i]      {id=two, dep=g2, inames=t:i}
        end
        ... gbarrier                {id=g3, dep=two}
        v[i] = 2*v[i]               {id=after, dep=g3, inames=i}
        """
    data = [lp.GlobalArg("v,w", F, shape="n"), lp.ValueArg("n, m", np.int32)]
    knl = lp.make_kernel(domain, text, data, assumptions="n >= 1 and m <= n")
    return lp.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")


def bounded() -> Any:
    """The same, where t bounds i from outside; launches outside its loop take all values of i."""
    domains = ["{ [t]: 0 <= t < m }", "[t, n] -> { [i]: t <= i < n }"]
    return around(domains).map_kernels(
        lambda kernel: kernel.map_instructions(
            lambda insn: (
                insn.copy(within_inames=insn.within_inames - {"t"})
                if insn.id in {"before", "after"}
                else insn
            )
        )
    )


def around_expected(inside: Callable[[int], Array]) -> Callable[[Array, int], Array]:
    def expected(v: Array, m: int) -> Array:
        some = np.any([inside(t) for t in range(m)], axis=0)  # the values that i has at all
        v = v + some
        for t in range(m):
            chosen = inside(t)
            v[chosen] += v[chosen] + t
        return np.where(some, 2 * v, v)

    return expected


def between() -> Any:
    """A launch between two nested host loops, of which the inner one may be empty."""
    text = """
        for t
            ... gbarrier                {id=g1, inames=t}
            v[i] = v[i] + 1             {id=one, dep=g1, inames=t:i, if=t < 1}
            for s
                ... gbarrier            {id=g2, inames=t:s, dep=one}
                v[j] = v[j] + s*t       {id=two, dep=g2, inames=t:s:j}
            end
        end
        ... gbarrier                    {id=g3, dep=two}
        v[i] = 2*v[i]                   {dep=g3, inames=i, if=m < 1}
        """
    domain = ["{ [t, i]: 0 <= t < m and 0 <= i < n }"]
    domain += ["[t, n] -> { [s, j]: 1 <= s <= t and s + t <= j < n }"]
    data = [lp.GlobalArg("v,w", F, shape="n"), lp.ValueArg("n, m", np.int32)]
    knl = lp.make_kernel(domain, text, data, assumptions="n >= 1 and m <= n")
    return lp.tag_inames(lp.prioritize_loops(knl, "t, s"), "i:g.0, j:g.0")


def between_expected(v: Array, m: int) -> Array:
    v = v.copy()
    for t in range(m):
        v += t < 1
        for s in range(1, t + 1):
            v[s + t :] += s * t
    return v if m > 0 else 2 * v


def two_loops() -> Any:
    """Two host loops one after the other: the second has iterations where the first has none."""
    text = """
        for t
            ... gbarrier                {id=g1, inames=t}
            v[i] = v[i] + t             {id=one, dep=g1, inames=t:i}
        end
        for s
            ... gbarrier                {id=g2, inames=s, dep=one}
            v[j] = 2*v[j] + s           {id=two, dep=g2, inames=s:j, if=m < 5}
        end
        """
    domain = ["{ [t, i]: 0 <= t < m - 3 and t <= i < n }", "{ [s, j]: 0 <= s < m and s <= j < n }"]
    data = [lp.GlobalArg("v,w", F, shape="n"), lp.ValueArg("n, m", np.int32)]
    knl = lp.make_kernel(domain, text, data, assumptions="n >= 1 and m <= n")
    return lp.tag_inames(knl, "i:g.0, j:g.0")


def two_expected(v: Array, m: int) -> Array:
    v = v.copy()
    for t in range(m - 3):
        v[t:] += t
    for s in range(m if m < 5 else 0):
        v[s:] = 2 * v[s:] + s
    return v


I = np.arange(N)  # noqa: E741
CASES: dict[str, tuple[Callable[[], Any], Callable[[Array, int], Array]]] = {
    "triangle": (
        lambda: around("{ [t, i]: 0 <= t < m and t <= i < n }"),
        around_expected(lambda t: t <= I),
    ),
    "bounded": (bounded, around_expected(lambda t: t <= I)),
    "stride": (
        lambda: around("{ [t, i]: 0 <= t < m and 0 <= i < n and (i + t) mod 2 = 0 }"),
        around_expected(lambda t: (I + t) % 2 == 0),
    ),
    "independent": (
        lambda: around(["{ [t]: 0 <= t < m }", "{ [i]: 0 <= i < n }"]),
        around_expected(lambda t: I >= 0),
    ),
    "between": (between, between_expected),
    "two loops": (two_loops, two_expected),
}


@pytest.mark.parametrize("name", CASES)
def test_on_a_device(name: str, device: Any) -> None:
    make, expected = CASES[name]
    knl = make()
    for m in (1, 2, 4, 6):
        v = np.random.default_rng(m).random(N)
        wanted = expected(v, m)
        device(knl, v=v, w=np.zeros(N), n=N, m=m)
        np.testing.assert_allclose(v, wanted, err_msg=f"m={m}")


@pytest.mark.parametrize("name", CASES)
def test_on_the_host(name: str) -> None:
    make, expected = CASES[name]
    knl = make().copy(target=lp.ExecutableCTarget())
    for m in (1, 2, 4, 6):
        v = np.random.default_rng(m).random(N)
        wanted = expected(v, m)
        knl(v=v, w=np.zeros(N), n=N, m=m)
        np.testing.assert_allclose(v, wanted, err_msg=f"m={m}")


@pytest.mark.parametrize("name", ["between", "two loops"])
def test_loops_without_iterations(name: str, device: Any) -> None:
    make, expected = CASES[name]
    v = np.random.default_rng(0).random(N)
    wanted = expected(v, 0)
    device(make(), v=v, w=np.zeros(N), n=N, m=0)
    np.testing.assert_allclose(v, wanted)


@pytest.mark.parametrize("name", ["triangle", "bounded"])
def test_launches_outside_of_the_loop_do_not_take_its_variable(name: str) -> None:
    make, _ = CASES[name]
    code = lp.generate_code_v2(make().copy(target=lp.OpenCLTarget())).device_code()
    before, one, two, after = code.split("__kernel void")[1:]
    assert "int const t" in one
    assert "t <= 4 * gid(0) + lid(0)" in one
    assert "int const t" in two
    assert "t <= 4 * gid(0) + lid(0)" in two
    assert "int const t" not in before
    assert "int const t" not in after


def test_loops_inside_of_the_loop_only_have_its_bounds() -> None:
    make, _ = CASES["two loops"]
    code = lp.generate_code_v2(make().copy(target=lp.CTarget())).device_code()
    assert "for (int i = t; i < n; ++i)\n    v[i] += t;" in code
    assert "for (int j = s; j < n; ++j)" in code


# -- random domains ------------------------------------------------------------------------------

CONDITIONS = [
    *("i >= t", "i <= t + 3", "i + t < n", "(i + t) mod 2 = 0", "j <= i", "j >= t", "2*i >= t"),
    *("j + t <= n", "i <= 2*t", "t <= 4", "j >= 1", "3*j <= i + t", "i >= 1", "t >= 1"),
    "t mod 2 = 0",
]

RANDOM = """
    v[i] = v[i] + 1                 {id=before, dep=*, inames=i}
    ... gbarrier                    {id=g, dep=before}
    for t
        ... gbarrier                {id=g1, inames=t, dep=g}
        w[i] = v[i] + t             {id=one, dep=*g1, inames=t:i}
        ... gbarrier                {id=g2, inames=t, dep=one}
        v[j] = v[j] + w[j] + 2*t    {id=two, dep=*g2, inames=t:j}
        ... gbarrier                {id=g3, inames=t, dep=two}
    end
    ... gbarrier                    {id=g4, dep=g3}
    v[LAST] = 2*v[LAST] + m         {id=after, dep=*g4, inames=LAST}
    """


def points(knl: lp.LoopKernel, names: tuple[str, ...], sizes: dict[str, int]) -> list[Any]:
    """Return the values that loops take together."""
    domain = fix_dims(knl.domain_of(names), sizes)
    found: list[Any] = []
    domain.foreach_point(
        lambda point: found.append(
            {
                name: point.get_coordinate_val(isl.dim_type.set, k).to_python()
                for k, name in enumerate(names)
            }
        )
    )
    return sorted(found, key=lambda point: tuple(point.values()))


def random_expected(knl: lp.LoopKernel, v: Array, last: str, sizes: dict[str, int]) -> Array:
    """Run the kernel by its domains."""
    v, w = v.copy(), np.zeros_like(v)
    for at in points(knl, ("i",), sizes):
        v[at["i"]] += 1
    for outer in points(knl, ("t",), sizes):
        t = outer["t"]
        for at in points(knl, ("t", "i"), sizes):
            if at["t"] == t:
                w[at["i"]] = v[at["i"]] + t
        for at in points(knl, ("t", "j"), sizes):
            if at["t"] == t:
                v[at["j"]] += w[at["j"]] + 2 * t
    for at in points(knl, (last,), sizes):
        v[at[last]] = 2 * v[at[last]] + sizes["m"]
    return v


@pytest.mark.parametrize("seed", range(16))
def test_random_domains(seed: int, opencl_queue: Any) -> None:
    rng = random.Random(seed)
    chosen = rng.sample(CONDITIONS, seed % 5)
    domain = " and ".join(["0 <= t < m and 0 <= i, j < n", *chosen])
    last = rng.choice("ij")
    knl = lp.make_kernel(
        f"{{ [t, i, j]: {domain} }}",
        RANDOM.replace("LAST", last),
        [lp.GlobalArg("v,w", F, shape="n"), lp.ValueArg("n, m", np.int32)],
        assumptions="n >= 1",
        target=lp.PyOpenCLTarget() if seed % 4 == 0 else lp.ExecutableCTarget(),
    )
    tagged = lp.tag_inames(knl, rng.choice(["i:g.0, j:g.0", "i:g.1, j:g.0"]))
    for n, m in ((7, 0), (7, 1), (7, 3), (5, 6), (8, 8)):
        v = np.arange(1.0, n + 1)
        wanted = random_expected(knl.default_entrypoint, v, last, {"n": n, "m": m})
        tagged(*([opencl_queue] if seed % 4 == 0 else []), v=v, w=np.zeros(n), n=n, m=m)
        np.testing.assert_array_equal(v, wanted, err_msg=f"{domain}, n={n}, m={m}")
