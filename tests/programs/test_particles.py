"""Particles: forces between all, between neighbouring boxes, expansions, and deposits on a grid."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pymbolic.primitives as p
from pymbolic.mapper.evaluator import evaluate

import kgen as lp
from tests.programs.support import (
    Array,
    assert_computes,
    assert_trace,
    double,
    integer,
    numbers,
    tile,
)


def n_body() -> lp.TranslationUnit:
    """The force on each particle, its position and three sums in registers."""
    return lp.make_kernel(
        "{ [i, j, a, b, c]: 0 <= i, j < n and 0 <= a, b, c < 3 }",
        """
        for i
            <> here[a] = x[i, a]               {id=here}
            <> total[b] = 0                    {id=zero}
            for j
                <> dx = x[j, 0] - here[0]      {dep=here}
                <> dy = x[j, 1] - here[1]      {dep=here}
                <> dz = x[j, 2] - here[2]      {dep=here}
                <> r2 = eps + dx**2 + dy**2 + dz**2
                <> w = mass[j]/(r2*sqrt(r2))
                total[0] = total[0] + w*dx     {id=x, dep=zero}
                total[1] = total[1] + w*dy     {id=y, dep=zero}
                total[2] = total[2] + w*dz     {id=z, dep=zero}
            end
            force[i, c] = total[c]             {dep=x:y:z}
        end
        """,
        [double("x", "n, 3"), double("mass", "n"), lp.ValueArg("eps", np.float64), ...],
    )


def n_body_in_tiles() -> lp.TranslationUnit:
    """A tile of the others in local memory, read by all."""
    knl = lp.split_iname(n_body(), "i", 8, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "j", 8)
    knl = lp.tag_inames(knl, "a:unr, b:unr, c:unr")
    knl = lp.add_prefetch(knl, "x", ["j_inner"], within="iname:j_inner")
    return lp.add_prefetch(knl, "mass", ["j_inner"])


def test_n_bodies(device: Any) -> None:
    x, mass = numbers(19, 3), numbers(19)
    d = x - x[:, None]
    weights = mass / (0.1 + (d**2).sum(2)) ** 1.5
    arguments = {"x": x, "mass": mass, "eps": 0.1}
    want = {"force": (weights[:, :, None] * d).sum(1)}
    assert_computes(n_body(), arguments, want)
    assert_computes(n_body_in_tiles(), arguments, want, device)


def test_n_bodies_wait_twice_for_each_tile() -> None:
    assert_trace(n_body_in_tiles(), n=11)
    assert lp.generate_body(n_body_in_tiles()).count("barrier(") == 2


# -- neighbouring boxes ---------------------------------------------------------------------------


def near_field() -> lp.TranslationUnit:
    """Loops in loops, their bounds read from lists; a particle does not meet itself."""
    return lp.make_kernel(
        [
            "{ [box]: 0 <= box < nboxes }",
            "{ [t]: first_target <= t < last_target }",
            "{ [near]: first_near <= near < last_near }",
            "{ [s]: first_source <= s < last_source }",
        ],
        """
        for box
            <> first_target = targets[box]
            <> last_target = targets[box + 1]
            <> first_near = lists[box]
            <> last_near = lists[box + 1]
            for t
                <> sum_t = 0.0 {id=zero}
                for near
                    <> other = neighbors[near]
                    <> first_source = sources[other]
                    <> last_source = sources[other + 1]
                    for s
                        <> distance = abs(x[s] - y[t])
                        if distance > 0
                            sum_t = sum_t + charge[s]*log(distance) {id=add, dep=zero}
                        end
                    end
                end
                potential[t] = sum_t {dep=add}
            end
        end
        """,
        [
            integer("targets, sources, lists", "nboxes + 1"),
            integer("neighbors", None),
            double("x, y, charge, potential", None),
            ...,
        ],
    )


TARGETS, SOURCES = np.array([0, 2, 2, 5, 6], np.int32), np.array([0, 3, 5, 5, 9], np.int32)
LISTS, NEIGHBORS = np.array([0, 2, 3, 6, 8], np.int32), np.array([0, 1, 2, 1, 2, 3, 3, 0], np.int32)


def near_field_in_numpy(x: Array, y: Array, charge: Array) -> Array:
    potential = np.zeros_like(y)
    for box in range(4):
        for other in NEIGHBORS[LISTS[box] : LISTS[box + 1]]:
            for t in range(TARGETS[box], TARGETS[box + 1]):
                some = slice(SOURCES[other], SOURCES[other + 1])
                distance = np.abs(x[some] - y[t])
                apart = distance > 0
                potential[t] += charge[some][apart] @ np.log(distance[apart])
    return potential


def test_near_fields(device: Any) -> None:
    x, y, charge = numbers(9), numbers(6, seed=2), numbers(9, seed=3)
    y[0] = x[0]
    arguments = {
        "targets": TARGETS,
        "sources": SOURCES,
        "lists": LISTS,
        "neighbors": NEIGHBORS,
        "x": x,
        "y": y,
        "charge": charge,
        "potential": np.zeros(6),
    }
    want = {"potential": near_field_in_numpy(x, y, charge)}
    assert_computes(near_field(), arguments, want)
    knl = lp.split_iname(near_field(), "t", 2, inner_tag="l.0")
    assert_computes(lp.tag_inames(knl, "box:g.0"), arguments, want, device)


# -- generated expressions ------------------------------------------------------------------------

COEFFICIENTS, TERMS = 20, 25


def expansion(k: int) -> p.ExpressionNode:
    """Return a sum of 25 products of powers, as a program for expansions writes them."""
    random = np.random.default_rng(k)
    dx, dy, rinv, source = map(p.Variable, ("dx", "dy", "rinv", "source"))
    terms = [
        float(factor) / 8 * source[int(at)] * dx ** int(a) * dy ** int(b) * rinv ** int(c)
        for factor, at, a, b, c in random.integers([1, 0, 0, 0, 1], [9, 20, 4, 4, 5], (TERMS, 5))
    ]
    return p.Sum(tuple(terms))


def translation() -> lp.TranslationUnit:
    target, i = p.Variable("target"), p.Variable("i")
    return lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        [
            "<> dx = from[i, 0] - to[i, 0]",
            "<> dy = from[i, 1] - to[i, 1]",
            "<> rinv = rsqrt(dx**2 + dy**2)",
            *(lp.Assignment(target[i, k], expansion(k)) for k in range(COEFFICIENTS)),
        ],
        [double("from, to", "n, 2"), double("source", COEFFICIENTS), ...],
    )


def translate_in_numpy(names: Mapping[str, Any]) -> Array:
    return np.stack([evaluate(expansion(k), names) for k in range(COEFFICIENTS)], 1)


def test_expansions_are_translated(device: Any) -> None:
    before, after, source = numbers(5, 2), 1 + numbers(5, 2, seed=8), numbers(COEFFICIENTS)
    dx, dy = (before - after).T
    names = {"dx": dx, "dy": dy, "rinv": 1 / np.hypot(dx, dy), "source": source}
    arguments, want = {"from": before, "to": after, "source": source}, translate_in_numpy(names)
    assert_computes(translation(), arguments, {"target": want})
    assert_computes(tile(translation(), "i", 8), arguments, {"target": want}, device)


def test_long_expressions_are_generated_fast() -> None:
    """500 terms of 10 nodes: two seconds are allowed, a fifth of that is usual."""
    start = time.process_time()
    lp.generate_code_v2(tile(translation(), "i", 8)).device_code()
    assert time.process_time() - start < 2


# -- deposits -------------------------------------------------------------------------------------


def deposit() -> lp.TranslationUnit:
    """Each particle gives its charge to the two cells around it."""
    return lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        """
        <int32> cell = floor(x[i])
        <> part = x[i] - cell
        rho[cell] = rho[cell] + (1 - part)*charge[i]   {atomic}
        rho[cell + 1] = rho[cell + 1] + part*charge[i] {atomic}
        """,
        [
            double("x, charge", "n"),
            lp.GlobalArg("rho", np.float64, shape="cells", for_atomic=True),
            "cells",
            ...,
        ],
    )


def test_deposits_of_particles(device: Any) -> None:
    x, charge = 6 * numbers(50), numbers(50, seed=1)
    cell, part = x.astype(int), x % 1
    want = np.bincount(cell, (1 - part) * charge, 7) + np.bincount(cell + 1, part * charge, 7)
    arguments = {"x": x, "charge": charge, "rho": np.zeros(7)}
    assert_computes(deposit(), arguments, {"rho": want})
    assert_computes(tile(deposit(), "i", 16), arguments, {"rho": want}, device)
