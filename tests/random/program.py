"""A kernel and its transformations as data: made, changed, minimized, and printed as Python."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import kgen as lp

__all__ = ["ArrayDecl", "Linear", "Program", "Step", "minimize", "reason", "without_dependency"]


@dataclass(frozen=True)
class Linear:
    """``n*N + m*M + c`` with sizes N and M that are not negative."""

    n: int = 0
    m: int = 0
    c: int = 0

    def __add__(self, other: Linear | int) -> Linear:
        more = Linear(c=other) if isinstance(other, int) else other
        return Linear(self.n + more.n, self.m + more.m, self.c + more.c)

    def __str__(self) -> str:
        names = [name for name, factor in (("n", self.n), ("m", self.m)) for _ in range(factor)]
        text = " + ".join([*names, str(self.c)] if self.c or not names else names)
        return text.replace("+ -", "- ")

    def largest(self, other: Linear) -> Linear:
        """Return what is at least as large as both, for all sizes."""
        return Linear(max(self.n, other.n), max(self.m, other.m), max(self.c, other.c))


@dataclass(frozen=True)
class ArrayDecl:
    """The declaration of an array; ``values`` are what its elements may be before a run."""

    name: str
    dtype: str
    shape: tuple[str, ...]
    space: str = "global"
    is_inferred: bool = False
    values: range = range(-4, 5)
    #: whether it keeps what a caller passes where nothing writes it
    is_input: bool = False

    def make(self) -> lp.GlobalArg | lp.TemporaryVariable:
        """Declare it to kgen."""
        if self.space == "global":
            shape: Any = lp.auto if self.is_inferred else self.shape
            return lp.GlobalArg(self.name, self.dtype, shape=shape, is_input=self.is_input or None)
        space = getattr(lp.AddressSpace, self.space.upper())
        return lp.TemporaryVariable(self.name, self.dtype, shape=self.shape, address_space=space)

    def __str__(self) -> str:
        start = f"{self.name!r}, {self.dtype!r}, shape="
        if self.space == "global":
            end = ", is_input=True)" if self.is_input else ")"
            return f"lp.GlobalArg({start}{'lp.auto' if self.is_inferred else self.shape}{end}"
        space = f"lp.AddressSpace.{self.space.upper()}"
        return f"lp.TemporaryVariable({start}{self.shape}, address_space={space})"


@dataclass(frozen=True)
class Step:
    """One transformation, by name."""

    function: str
    args: tuple[Any, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()

    def __call__(self, unit: lp.TranslationUnit) -> lp.TranslationUnit:
        function = getattr(lp, self.function)
        result: lp.TranslationUnit = function(unit, *self.args, **dict(self.options))
        return result

    def __str__(self) -> str:
        options = (f"{name}={_text(value)}" for name, value in self.options)
        parts = ["knl", *map(_text, self.args), *options]
        return f"knl = lp.{self.function}({', '.join(parts)})"


def _text(value: Any) -> str:
    is_space = isinstance(value, lp.AddressSpace)
    return f"lp.AddressSpace.{value.name}" if is_space else repr(value)


@dataclass(frozen=True)
class Program:
    """A kernel and its transformations, as a user would write them; prints as such."""

    domains: tuple[str, ...]
    lines: tuple[str, ...]
    arrays: tuple[ArrayDecl, ...]
    assumptions: str = ""
    #: those to be declared; others are known from domains and shapes
    parameters: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    #: what was tried and not accepted
    refused: tuple[Step, ...] = ()
    #: why the last ones of these have no schedule
    unscheduled: tuple[str, ...] = ()
    #: how many loops of variable length are nested
    depth: int = 1
    #: what to run it for, ``n`` and ``m``; by default small sizes that its assumptions allow
    sizes: tuple[tuple[int, int], ...] = ()
    #: the target that its transformations are for
    target: str = "CTarget"
    #: a kernel that means the same, where this one cannot be interpreted instance by instance
    model: Program | None = None

    def make(self, name: str = "k", target: Any = None) -> lp.TranslationUnit:
        """Make the kernel as it is written, before its transformations."""
        return lp.make_kernel(
            list(self.domains),
            "\n".join(self.lines),
            [
                *(array.make() for array in self.arrays),
                *(lp.ValueArg(parameter, "int32") for parameter in self.parameters),
                "...",
            ],
            name=name,
            assumptions=self.assumptions,
            target=getattr(lp, self.target)() if target is None else target,
        )

    def transformed(self, name: str = "k", target: Any = None) -> lp.TranslationUnit:
        """Make what the transformations that were accepted make of the kernel.

        Loops that save values have the kernel's name in theirs, so its *name* is set afterwards. So
        is the *target* of one that copies as only CUDA does.
        """
        is_copied = any(step.function == "async_copy" for step in self.steps)
        unit = self.transform(self.make(target=None if is_copied else target))
        if is_copied and target is not None:
            unit = unit.copy(target=target)
        own = unit.default_entrypoint.name
        return unit if own == name else lp.rename_callable(unit, own, name)

    def transform(self, unit: lp.TranslationUnit) -> lp.TranslationUnit:
        """Apply the transformations that were accepted."""
        for step in self.steps:
            unit = step(unit)
        return unit

    def meant(self) -> lp.TranslationUnit:
        """Make the kernel whose instances say what must come out."""
        return (self.model or self).make()

    def declared(self) -> Program:
        """Return this with the shapes of all arrays given, none to be inferred."""
        given = (dataclasses.replace(array, is_inferred=False) for array in self.arrays)
        return dataclasses.replace(self, arrays=tuple(given))

    def on_host(self, last: str) -> Program:
        """Return this without work-items, up to the step *last*: later ones go by its result."""
        names = [step.function for step in self.steps]
        end = names.index(last) + 1 if last in names else len(names)
        return dataclasses.replace(self, target="CTarget", steps=self.steps[:end])

    def parameter_sets(self, unit: lp.TranslationUnit) -> list[dict[str, int]]:
        """Return sizes to run it for: those that its assumptions allow, and small."""
        sizes = self.sizes or {
            1: ((0, 2), (1, 0), (4, 3), (13, 8), (12, 12)),
            2: ((0, 1), (1, 2), (4, 6), (6, 4), (7, 7)),
        }.get(self.depth, ((0, 1), (2, 3), (4, 4), (5, 4)))
        kernel = unit.default_entrypoint
        names = sorted(kernel.all_params() | {"n", "m"}.intersection(kernel.arg_dict))
        fixed = {k: v for s in self.steps if s.function == "fix_parameters" for k, v in s.options}
        assumed = [self.assumptions, *(s.args[0] for s in self.steps if s.function == "assume")]
        if self.sizes:  # which were drawn such that assumptions hold
            assumed = []
        found: list[dict[str, int]] = []
        for n, m in sizes:
            values = {"n": n, "m": m, **fixed}
            chosen = {name: values[name] for name in sorted({*names, *fixed})}
            if chosen not in found and all(_holds(text, values) for text in assumed):
                found.append(chosen)
        return found

    def smaller(self) -> list[Program]:
        """Return what it may be reduced to when it fails: a step or a statement less.

        One with a model keeps its statements, since the model would not lose them.
        """
        result = [
            dataclasses.replace(self, steps=(*self.steps[:k], *self.steps[k + 1 :]))
            for k in range(len(self.steps))
        ]
        for k, line in enumerate(self.lines if self.model is None else ()):
            found = re.search(r"id=(\w+)", line)
            name = found[1] if found else ""
            rest = (*self.lines[:k], *self.lines[k + 1 :])
            if rest and name and not self._is_needed(k):
                kept = tuple(without_dependency(text, name) for text in rest)
                used = set(re.findall(r"\w+", " ".join(kept)))
                arrays = tuple(a for a in self.arrays if a.name in used)
                result.append(dataclasses.replace(self, lines=kept, arrays=arrays))
        return result

    def _is_needed(self, k: int) -> bool:
        """Tell whether other lines use a temporary that line *k* is the first to write."""
        for name in re.findall(r"\bt\d+\b", self.lines[k]):
            users = [line for line in self.lines if re.search(rf"\b{name}\b", line)]
            if users[0] == self.lines[k] and len(users) > 1:
                return True
        return False

    def __str__(self) -> str:
        body = "\n".join(f"    {line}" for text in self.lines for line in text.splitlines())
        sizes = [f"lp.ValueArg({name!r}, 'int32')" for name in self.parameters]
        data = ",\n     ".join([*map(str, self.arrays), *sizes, '"..."'])
        head = (
            f"knl = lp.make_kernel(\n    {list(self.domains)!r},\n"
            f'    """\n{body}\n    """,\n    [{data}],\n'
            f"    assumptions={self.assumptions!r}, target=lp.{self.target}())"
        )
        return "\n".join([head, *map(str, self.steps)])


def reason(error: Exception) -> str:
    """Return the first line of an error, without the names in it."""
    first = str(error).split("\n", maxsplit=1)[0].split(": ", maxsplit=1)[-1]
    return re.sub(r"'[^']*'|\b\d+\b", "...", first)


def without_dependency(text: str, name: str) -> str:
    def shorter(found: re.Match[str]) -> str:
        names = [other for other in found[3].split(":") if other != name]
        return found[1] + found[2] + ":".join(names) if names or found[2] else ""

    return re.sub(r"(, dep=)(\*?)([\w:]*)", shorter, text)


def minimize(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Drop steps and statements as long as what is left *fails*."""
    for smaller in program.smaller():
        if fails(smaller):
            return minimize(smaller, fails)
    return program


def _holds(assumptions: str, values: dict[str, int]) -> bool:
    """Evaluate assumptions of the forms that random kernels have."""
    for text in filter(None, assumptions.split(" and ")):
        match re.fullmatch(r"(\w) (>=|mod) (\w+)( = 0)?", text.strip()):
            case None:
                raise ValueError(f"'{text}' is of no known form")
            case found:
                left, sign, right = values[found[1]], found[2], found[3]
                bound = values[right] if right in values else int(right)
                if left % bound if sign == "mod" else left < bound:
                    return False
    return True
