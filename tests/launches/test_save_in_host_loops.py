"""Values that outlive launches in loops on the host: into them, around them, and out of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kgen as lp

F = np.float64
Array = np.ndarray[Any, Any]


def make(domain: Any, text: str, tags: str) -> Any:
    data = [lp.GlobalArg("a", F, shape=12), lp.ValueArg("m", np.int32), ...]
    return lp.tag_inames(lp.make_kernel(domain, text, data), tags)


def carried() -> Any:
    """A value that each iteration leaves to the next one, and the last one to what follows."""
    text = """
        <> acc = a[i]                       {id=first, dep=*, inames=i}
        for t
            ... gbarrier                    {id=g1, dep=first, inames=t}
            a[(i + 1) % 12] = acc + t       {id=put, dep=g1, inames=t:i}
            ... gbarrier                    {id=g2, dep=put, inames=t}
            acc = acc + a[i]                {id=get, dep=g2, inames=t:i}
        end
        ... gbarrier                        {id=g3, dep=get}
        a[11 - i] = acc                     {dep=g3, inames=i}
        """
    return make(["{ [t]: 0<=t<m }", "{ [i]: 0<=i<12 }"], text, "i:g.0")


def carried_expected(a: Array, m: int) -> Array:
    acc = a.copy()
    for t in range(m):
        acc = acc + np.roll(acc + t, 1)
    return acc[::-1].copy()


def entered() -> Any:
    """A value made before the loop, which every iteration reads."""
    text = """
        <> b = a[i]                         {id=first, dep=*, inames=i}
        for t
            ... gbarrier                    {id=g1, dep=first, inames=t}
            a[(i + 1) % 12] = 2*a[(i + 1) % 12] + b + t    {id=put, dep=g1, inames=t:i}
        end
        """
    return make(["{ [t]: 0<=t<m }", "{ [i]: 0<=i<12 }"], text, "i:l.0")


def entered_expected(a: Array, m: int) -> Array:
    b, a = np.roll(a, 1), a.copy()
    for t in range(m):
        a = 2 * a + b + t
    return a


def within() -> Any:
    """A value that no iteration needs of the one before; a trailing barrier ends each."""
    text = """
        for t
            <> b = a[i]                     {id=get, dep=*, inames=t:i}
            ... gbarrier                    {id=g1, dep=get, inames=t}
            a[(i + 1) % 12] = b + t         {id=put, dep=g1, inames=t:i}
            ... gbarrier                    {id=g2, dep=put, inames=t}
        end
        """
    return make(["{ [t]: 0<=t<m }", "{ [i]: 0<=i<12 }"], text, "i:g.0")


def within_expected(a: Array, m: int) -> Array:
    for t in range(m):
        a = np.roll(a, 1) + t
    return a.copy()


def part() -> Any:
    """Iterations that change some of what is carried: the others keep it."""
    text = """
        <> acc = a[i]                       {id=first, dep=*, inames=i}
        for t
            ... gbarrier                    {id=g1, dep=first, inames=t}
            acc = 2*acc                     {id=two, dep=g1, inames=t:i, if=i >= t}
            ... gbarrier                    {id=g2, dep=two, inames=t}
            a[(i + 1) % 12] = acc           {id=put, dep=g2, inames=t:i}
        end
        """
    return make(["{ [t]: 0<=t<m }", "{ [i]: 0<=i<12 }"], text, "i:g.0")


def part_expected(a: Array, m: int) -> Array:
    acc = a.copy()
    for t in range(m):
        acc[t:] *= 2
    return np.roll(acc, 1) if m else a


def nested() -> Any:
    """A column of values, which the inner of two loops changes and the outer one reads."""
    text = """
        for k
            c[k] = a[i] + k                 {id=first, dep=*, inames=i:k}
        end
        for t
            for s
                ... gbarrier                {id=g1, dep=first, inames=t:s}
                c[l] = c[l] + s*a[11 - i]   {id=add, dep=*g1, inames=t:s:i:l}
            end
            ... gbarrier                    {id=g2, dep=add, inames=t}
            a[(i + 1) % 12] = c[0] + c[1]   {id=put, dep=g2, inames=t:i}
            ... gbarrier                    {id=g3, dep=put, inames=t}
        end
        """
    domains = ["{ [t]: 0<=t<m }", "[t] -> { [s]: 0<=s<=t }", "{ [i,k,l]: 0<=i<12 and 0<=k,l<2 }"]
    data = [
        lp.GlobalArg("a", F, shape=12),
        lp.TemporaryVariable("c", F, shape=2),
        lp.ValueArg("m", np.int32),
    ]
    knl = lp.prioritize_loops(lp.make_kernel(domains, text, data), "t, s")
    return lp.tag_inames(knl, "i:g.0")


def nested_expected(a: Array, m: int) -> Array:
    c = np.array([a, a + 1])
    for t in range(m):
        for s in range(t + 1):
            c = c + s * a[::-1]
        a = np.roll(c[0] + c[1], 1)
    return a.copy()


CASES: dict[str, tuple[Callable[[], Any], Callable[[Array, int], Array], list[str]]] = {
    "carried": (
        carried,
        carried_expected,
        ["0: save acc", "1: reload acc", "2: reload acc", "2: save acc", "3: reload acc"],
    ),
    "entered": (entered, entered_expected, ["0: save b", "1: reload b"]),
    "within": (within, within_expected, ["0: save b", "1: reload b"]),
    "part": (part, part_expected, ["0: save acc", "1: reload acc", "1: save acc", "2: reload acc"]),
    "nested": (nested, nested_expected, ["0: save c", "1: reload c", "1: save c", "2: reload c"]),
}


def moves(program: Any) -> list[str]:
    """Return what saves and reloads, by launch: ``"0: save t"``."""
    knl = lp.linearize(lp.save_and_reload_temporaries(program)).default_entrypoint
    launches = lp.get_subkernel_to_insn_id_map(knl)
    return [
        f"{number}: {name.partition('.')[2].partition('_')[0]} {name.partition('.')[0]}"
        for number, launch in enumerate(lp.get_subkernels(knl))
        for name in sorted(launches[launch], key=list(knl.id_to_insn).index)
        if "." in name
    ]


@pytest.mark.parametrize("name", CASES)
def test_what_is_moved(name: str) -> None:
    make, _, wanted = CASES[name]
    assert moves(make()) == wanted


@pytest.mark.parametrize("name", CASES)
def test_results_on_a_device(name: str, device: Any) -> None:
    make, expected, _ = CASES[name]
    knl = lp.save_and_reload_temporaries(make())
    for m in (0, 1, 2, 5):
        a = np.random.default_rng(3).random(12)
        wanted = expected(a, m)
        device(knl, a=a, m=m)
        np.testing.assert_allclose(a, wanted, err_msg=f"m={m}")


@pytest.mark.parametrize("name", CASES)
def test_results_on_the_host(name: str) -> None:
    make, expected, _ = CASES[name]
    knl = lp.save_and_reload_temporaries(make().copy(target=lp.ExecutableCTarget()))
    for m in (0, 1, 2, 5):
        a = np.random.default_rng(3).random(12)
        wanted = expected(a, m)
        knl(a=a, m=m)
        np.testing.assert_allclose(a, wanted, err_msg=f"m={m}")


def test_work_items_that_move_with_the_loop_are_refused() -> None:
    text = """
        for t
            <> b = a[i]                     {id=get, dep=*, inames=t:i}
            ... gbarrier                    {id=g1, dep=get, inames=t}
            a[(i + 1) % 12] = b             {id=put, dep=g1, inames=t:i}
        end
        """
    with pytest.raises(lp.TransformError, match="first value changes with 't'"):
        lp.save_and_reload_temporaries(make("{ [t, i]: 0<=t<5 and t<=i<12 }", text, "i:g.0"))


def test_the_linearization_has_the_loops_of_the_host() -> None:
    knl = lp.linearize(within()).default_entrypoint
    _, _, text = knl.stringify("LINEARIZATION").partition("LINEARIZATION:\n")
    lines = [line.partition(": ")[2].partition("{")[0].rstrip() for line in text.splitlines()]
    assert lines[:-1] == [
        "for t",
        "  CALL KERNEL kgen_kernel",
        "      b = a[i]",
        "  RETURN FROM KERNEL kgen_kernel",
        "  ... gbarrier",
        "  CALL KERNEL kgen_kernel_0",
        "      a[(i + 1) % 12] = b + t",
        "  RETURN FROM KERNEL kgen_kernel_0",
        "end t",
    ]
    assert lp.get_subkernels(knl) == ("kgen_kernel", "kgen_kernel_0")
