"""Random temporaries with two halves that take turns, and what they mean."""

from __future__ import annotations

import dataclasses

from tests.random import choices
from tests.random.choices import Draw
from tests.random.program import ArrayDecl, Program, Step

__all__ = ["draw_turn_program"]


def draw_turn_program(draw: Draw, space: str) -> Program:
    """Draw steps in ``k`` over a temporary of two halves, in each of ``n`` rows."""
    steps, length = draw(choices.integers(2, 4)), draw(choices.integers(2, 5))
    drawn = draw(choices.sampled_from((_ping_pong, _filled, _delayed)))
    program: Program = drawn(draw, steps, length, space)
    return program


def _arrays(steps: int, length: int, space: str) -> tuple[ArrayDecl, ...]:
    return (
        ArrayDecl("a", "int32", ("n", str(length))),
        ArrayDecl("c", "int32", (str(steps), str(length))),
        ArrayDecl("out", "int32", ("n", str(length))),
        ArrayDecl("all", "int32", ("n", str(steps), str(length))),
        ArrayDecl("t", "int32", ("2", str(length)), space),
    )


def _program(
    steps: int, length: int, space: str, lines: tuple[str, ...], order: tuple[str, ...]
) -> Program:
    used = "fgu" if any(":g" in line for line in lines) else "fu"
    domains = ["{ [i] : 0 <= i < n }", f"{{ [k] : 0 <= k < {steps} }}"]
    domains += [f"{{ [{name}] : 0 <= {name} < {length} }}" for name in used]
    text = " ".join(lines)
    arrays = tuple(a for a in _arrays(steps, length, space) if f"{a.name}[" in text)
    priorities = tuple(Step("prioritize_loops", (names,)) for names in order)
    return Program(tuple(domains), lines, arrays, "n >= 0", steps=priorities)


def _other(draw: Draw, name: str, length: int) -> str:
    """Draw another element of a half."""
    kinds = (f"{length - 1} - {name}", f"({name} + 1) % {length}", name, "0")
    return str(draw(choices.sampled_from(kinds)))


def _ping_pong(draw: Draw, steps: int, length: int, space: str) -> Program:
    """Let each step read what the one before has written."""
    element, last = _other(draw, "f", length), _other(draw, "u", length)
    factor = draw(choices.sampled_from(("", "2*", "c[k, f] + ")))
    lines = (
        "t[0, g] = a[i, g] {id=s0, inames=i:g}",
        f"t[(k + 1) % 2, f] = {factor}t[k % 2, {element}] {{id=s1, dep=s0, inames=i:k:f}}",
        f"out[i, u] = t[{steps % 2}, {last}] {{id=s2, dep=s0:s1, inames=i:u}}",
    )
    program = _program(steps, length, space, lines, ("i,k,f",))
    names = [f"f{k}" for k in range(steps)]
    written = ["r0[g] = a[i, g] {id=s0, inames=i:g}"]
    for k, name in enumerate(names):
        term = factor.replace("k, f", f"{k}, {name}")
        read = element.replace("f", name)
        written.append(
            f"r{k + 1}[{name}] = {term}r{k}[{read}] "
            f"{{id=m{k}, dep={f'm{k - 1}' if k else 's0'}, inames=i:{name}}}"
        )
    end = f"out[i, u] = r{steps}[{last}] {{id=s2, dep=m{steps - 1}, inames=i:u}}"
    results = tuple(
        ArrayDecl(f"r{k}", "int32", (str(length),), "private") for k in range(steps + 1)
    )
    domains = ["{ [i] : 0 <= i < n }"]
    domains += [f"{{ [{name}] : 0 <= {name} < {length} }}" for name in (*names, "g", "u")]
    arrays = tuple(a for a in program.arrays if a.name != "t")
    model = dataclasses.replace(
        program, domains=tuple(domains), lines=(*written, end), arrays=(*arrays, *results), steps=()
    )
    return dataclasses.replace(program, model=model)


def _filled(draw: Draw, steps: int, length: int, space: str) -> Program:
    """Fill one half in each step, and use it."""
    last = _other(draw, "u", length)
    lines = (
        "t[k % 2, f] = a[i, f] + k {id=s0, inames=i:k:f}",
        f"all[i, k, u] = t[k % 2, {last}]*c[k, u] {{id=s1, dep=s0, inames=i:k:u}}",
    )
    return _program(steps, length, space, lines, ())


def _delayed(draw: Draw, steps: int, length: int, space: str) -> Program:
    """Fill one half in each step, and use what the one before has left in the other."""
    last = _other(draw, "u", length)
    lines = (
        "t[1, g] = a[i, g] {id=s0, inames=i:g}",
        "t[k % 2, f] = a[i, f] + c[k, f] {id=s1, dep=s0, inames=i:k:f}",
        f"all[i, k, u] = t[(k + 1) % 2, {last}] {{id=s2, dep=s0:s1, inames=i:k:u}}",
    )
    program = _program(steps, length, space, lines, ())
    before = last.replace("u", "q")
    names = f"all[i, 0, u] = a[i, {last}] {{id=m0, inames=i:u}}"
    more = (
        f"all[i, q0 + 1, q] = a[i, {before}] + c[q0, {before}] {{id=m1, inames=i:q0:q}}"
        if steps > 1
        else ""
    )
    domains = (
        "{ [i] : 0 <= i < n }",
        f"{{ [u] : 0 <= u < {length} }}",
        f"{{ [q0] : 0 <= q0 < {steps - 1} }}",
        f"{{ [q] : 0 <= q < {length} }}",
    )
    arrays = tuple(a for a in program.arrays if a.name != "t")
    model = dataclasses.replace(
        program, domains=domains, lines=(names, more), arrays=arrays, steps=()
    )
    return dataclasses.replace(program, model=model)
