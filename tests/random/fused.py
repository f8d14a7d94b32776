"""Two kernels that are fused, held against one with the same statements in loops of their own."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import kgen as lp
from kgen.errors import KgenError
from kgen.lowering import lower
from tests.random import choices
from tests.random.choices import Draw
from tests.random.kernels import draw_kernel
from tests.random.program import ArrayDecl, Program, without_dependency

__all__ = ["FusedProgram", "draw_fused_program"]

_LOOP = re.compile(r"\b([ijkrqfu]\d*)\b")


@dataclass(frozen=True)
class FusedProgram(Program):
    """A kernel of *lines*, fused with one of the *later* lines, which come after all of these."""

    later: tuple[str, ...] = ()
    #: arrays that carry values from one to the other
    flow: tuple[str, ...] = ()

    def make(self, name: str = "k", target: Any = None) -> lp.TranslationUnit:
        """Make both kernels, and fuse them."""
        parts = [part.make(name, target) for part in self._parts()]
        return lp.fuse_kernels(parts, data_flow=self._data_flow())

    def _data_flow(self) -> list[tuple[str, int, int]]:
        return [(array, 0, 1) for array in self.flow]

    def _parts(self) -> list[Program]:
        return [self._part(lines) for lines in (self.lines, self.later)]

    def _part(self, lines: tuple[str, ...]) -> Program:
        arrays = tuple(
            dataclasses.replace(array, is_input=array.name in self.flow)
            for array in self.arrays
            if array.name in _words(*lines)
        )
        named = _words(*lines, *(size for array in arrays for size in array.shape))
        parameters = tuple(sorted({"n", "m"} & named - _words(*self.domains)))
        changed = {"lines": lines, "arrays": arrays, "parameters": parameters, "steps": ()}
        return Program(**{**_fields(self), **changed})

    def __str__(self) -> str:
        first, second = self._parts()
        fused = f"knl = lp.fuse_kernels([first, knl], data_flow={self._data_flow()})"
        return "\n".join([f"{first}\nfirst = knl\n{second}\n{fused}", *map(str, self.steps)])


def draw_fused_program(draw: Draw) -> FusedProgram:
    """Draw statements, the last of which become a second kernel with the same loops."""
    while True:
        program = draw_kernel(draw).program().declared()
        rules = tuple(line for line in program.lines if not _id(line))
        lines = program.lines[len(rules) :]
        cuts = [k for k in range(1, len(lines)) if _is_cut(program, lines[:k], lines[k:])]
        if not cuts or _LOOP.search(" ".join(rules)) or "dep=*" in " ".join(lines):
            continue
        cut = draw(choices.sampled_from(cuts))
        fused = _fused(draw, program, rules, lines[:cut], lines[cut:])
        try:
            lower(fused.make().default_entrypoint)
        except KgenError:  # an iteration needs a later one, or a part alone has a cycle
            continue
        return fused


def _fused(
    draw: Draw,
    program: Program,
    rules: tuple[str, ...],
    first: tuple[str, ...],
    later: tuple[str, ...],
) -> FusedProgram:
    for line in first:
        later = tuple(without_dependency(text, _id(line)) for text in later)
    flow = tuple(sorted(_written(first) & _words(*later)))
    only_read = [a for a in program.arrays if a.name in {*flow} - _written(later)]
    later = tuple(_with_other_reads(draw, text, only_read) for text in later)
    model = _one_after_another(program, rules, first, later)
    changed = {"lines": (*rules, *first), "model": model}
    return FusedProgram(**{**_fields(program), **changed}, later=(*rules, *later), flow=flow)


def _one_after_another(
    program: Program, rules: Sequence[str], first: Sequence[str], later: Sequence[str]
) -> Program:
    """Return one kernel in which the later statements have other loops, and wait for all before."""
    before = ":".join(map(_id, first))
    lines = []
    for text in later:
        linked = re.sub(r"(\bid=\w+), dep=", r"\1:", text)
        linked = re.sub(r"\bid=(\w+):?", rf"id=\1, dep={before}:", linked)
        lines.append(re.sub(r":(?=[,}])", "", _LOOP.sub(r"\g<1>x", linked)))
    domains = (_LOOP.sub(r"\g<1>x", domain) for domain in program.domains)
    return dataclasses.replace(
        program, lines=(*rules, *first, *lines), domains=(*program.domains, *domains)
    )


def _with_other_reads(draw: Draw, text: str, arrays: Sequence[ArrayDecl]) -> str:
    """Let a line read the first or last element of some arrays, which other iterations wrote."""
    left, sign, right = text.partition(" = ")
    for array in arrays:
        end = draw(choices.sampled_from((None, "first", "last", "last")))
        start = right.find(f"{array.name}[") + len(array.name) + 1
        if end is None or start == len(array.name):
            continue
        depths = itertools.accumulate("([".count(c) - ")]".count(c) for c in right[start:])
        rest = right[start + list(depths).index(-1) :]
        index = ["0" if end == "first" else f"{size} - 1" for size in array.shape]
        right = right[:start] + ", ".join(index) + rest
    return left + sign + right


def _fields(program: Program) -> dict[str, Any]:
    """Return the fields of a program that is not fused with another one."""
    return {field.name: getattr(program, field.name) for field in dataclasses.fields(Program)}


def _words(*texts: str) -> set[str]:
    return set(re.findall(r"\w+", " ".join(texts)))


def _id(line: str) -> str:
    found = re.search(r"\bid=(\w+)", line)
    return found[1] if found else ""


def _written(lines: Sequence[str]) -> set[str]:
    return {name for line in lines for name in re.findall(r"(\w+)(?:\[[^=]*\])? = ", line)}


def _is_cut(program: Program, first: Sequence[str], later: Sequence[str]) -> bool:
    """Tell whether both have a loop in common, and only global arrays that the first writes."""
    one, other = _words(*first), _words(*later)
    own = {array.name for array in program.arrays if array.space != "global"}
    own |= set(re.findall(r"<\w*> (\w+)", " ".join(first)))
    has_loop = any(_LOOP.fullmatch(name) for name in one & other)
    is_ordered = _written(later) & one <= _written(first)
    return has_loop and is_ordered and not own & one & other and bool(_written(first) & other)
