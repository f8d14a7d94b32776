"""Random graphs of loops: what is fused can be scheduled, and computes what numpy does."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.transforms.helpers import run

N = 6
START = np.arange(1.0, N + 1)

#: How an array is read at ``{0}``; by position, which of its elements that is.
READS = {"{0}": lambda k: k, "{0} + 1": lambda k: k + 1, f"{N - 1} - {{0}}": lambda k: N - 1 - k}

Statement = tuple[str, str, list[tuple[int, str]]]


def random_program(rng: random.Random, n_loops: int) -> list[Statement]:
    """Return statements: the loop, the loop around it or "", and which arrays they read how."""
    around = {f"i{k}": rng.choice(["", "", "t"]) for k in range(n_loops)}
    result: list[Statement] = []
    for number in range(n_loops + rng.randrange(3)):
        loop = f"i{number if number < n_loops else rng.randrange(n_loops)}"
        reads = [
            (k, "{0}" if result[k][0] == loop else rng.choice(list(READS)))
            for k in range(number)
            if rng.random() < 0.35
        ]
        result.append((loop, around[loop], reads))
    return result


def kernel(program: Sequence[Statement]) -> lp.TranslationUnit:
    lines = []
    for number, (loop, outer, reads) in enumerate(program):
        terms = [f"x{k}[{how.format(loop)}]" for k, how in reads]
        waits = ":".join(f"s{k}" for k, _ in reads)
        inames = f"{outer}:{loop}" if outer else loop
        lines.append(
            f"x{number}[{loop}] = {' + '.join(['x[' + loop + ']', *terms])}*0.5 + {number}"
            f" {{id=s{number}, dep=*{waits}, inames={inames}}}"
        )
    loops = sorted({loop for loop, _, _ in program})
    arrays = [lp.GlobalArg(f"x{k}", np.float64, shape=(N + 1,)) for k in range(len(program))]
    return lp.make_kernel(
        ["{ [t]: 0<=t<1 }", *(f"{{ [{loop}]: 0<={loop}<{N} }}" for loop in loops)],
        "\n".join(lines),
        [lp.GlobalArg("x", np.float64, shape=(N,)), *(a.copy(is_input=True) for a in arrays)],
        silenced_warnings=["write_race(*)"],
    )


def computed(program: Sequence[Statement]) -> dict[str, Any]:
    """Return what the program computes, statement by statement."""
    values = {f"x{k}": np.zeros(N + 1) for k in range(len(program))}
    for number, (_, _, reads) in enumerate(program):
        for k in range(N):
            terms = [values[f"x{e}"][READS[how](k)] for e, how in reads]
            total = START[k]
            for term in terms[:-1]:
                total += term
            values[f"x{number}"][k] = (total + terms[-1] * 0.5 if terms else total * 0.5) + number
    return values


def is_right(knl: lp.TranslationUnit, program: Sequence[Statement]) -> bool:
    given = {f"x{k}": np.zeros(N + 1) for k in range(len(program))}
    found = run(knl, x=START, **given)
    return all(np.allclose(found[name], value) for name, value in computed(program).items())


def can_be_scheduled(knl: lp.TranslationUnit) -> bool:
    try:
        lp.generate_code_v2(knl.copy(target=lp.CTarget()))
    except lp.KgenError:
        return False
    return True


@pytest.mark.parametrize("seed", range(25))
def test_fused_loops_compute_the_same(seed: int) -> None:
    rng = random.Random(seed)
    program = random_program(rng, rng.randrange(3, 7))
    knl = kernel(program)
    if not can_be_scheduled(knl):
        return
    loops = sorted({loop for loop, _, _ in program})
    candidates = [loop for loop in loops if rng.random() < 0.7]
    groups = lp.get_kennedy_unweighted_fusion_candidates(knl, candidates)
    assert sorted(loop for group in groups.values() for loop in group) == candidates
    assert is_right(lp.rename_inames_in_batch(knl, groups), program), (program, groups)


@pytest.mark.parametrize("seed", range(25))
def test_two_loops_are_fused_exactly_where_that_is_right(seed: int) -> None:
    rng = random.Random(1000 + seed)
    program = random_program(rng, rng.randrange(2, 5))
    knl = kernel(program)
    loops = sorted({loop for loop, _, _ in program})
    if not can_be_scheduled(knl):
        return
    pair = rng.sample(loops, 2)
    try:
        fused = lp.rename_inames_in_batch(knl, {"f": pair})
    except lp.KgenError:
        may = False  # test_fused_loops_compute_the_same has those that are candidates
    else:
        may = can_be_scheduled(fused)
        assert not may or is_right(fused, program), program
    assert (len(lp.get_kennedy_unweighted_fusion_candidates(knl, pair)) == 1) == may, program


def test_a_loop_that_runs_as_a_whole_keeps_others_apart() -> None:
    """Between i0 and i2 runs i1, of which one statement waits for i0, and i2 for another."""
    program: list[Statement] = [
        ("i0", "", []),
        ("i1", "", [(0, "{0}")]),
        ("i1", "", []),
        ("i2", "", [(2, "{0}")]),
    ]
    groups = lp.get_kennedy_unweighted_fusion_candidates(kernel(program), ["i0", "i2"])
    assert len(groups) == 2
