"""Checks of views in C++, and numbers inferred from their extents and strides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, Final

import cgen
import numpy as np
import pymbolic.primitives as p

from kgen.exporters.integers import IntegerWriter, Range
from kgen.exporters.kernels import ExportedKernel, c_type
from kgen.host.program import HostProgram, SizeSource
from kgen.ir.affine import simplify
from kgen.ir.expr import Expr, is_constant, is_zero, to_text
from kgen.targets.definitions import constant
from kgen.targets.module import ArgumentInfo

__all__ = ["SizeWriter", "derived_numbers", "rank_of"]

_INT64: Final[Range] = (-(2**63), 2**63 - 1)
_SIZE: Final = "::std::int64_t"


def rank_of(arg: ArgumentInfo) -> int:
    """Return the number of axes of an array, given by its strides if the shape is unknown."""
    axes = arg.shape if arg.shape is not None else arg.strides
    return 1 if axes is None else len(axes)


def derived_numbers(host: HostProgram) -> tuple[str, ...]:
    """Return the numbers that follow once all arrays and all other numbers are passed.

    Of sizes that only follow from each other, such as ``n`` and ``m`` from an extent ``n*m``, the
    first is passed.
    """
    names = dict.fromkeys(step.name for step in host.size_steps)
    passed = {arg.name for arg in host.values if arg.name not in names}
    while True:
        found = set(passed)
        for step in host.size_steps:
            if any(found.issuperset(source.needs) for source in step.sources):
                found.add(step.name)
        missing = [arg.name for arg in host.values if arg.name not in found]
        if not missing:
            return tuple(arg.name for arg in host.values if arg.name not in passed)
        passed.add(missing[0])


class SizeWriter:
    """Writes two functions for each kernel, which all targets share, in the namespace ``detail``.

    ``check_K`` compares the layouts of all arrays with those that the kernel declares; ``find_K``
    finds ``derived`` numbers by the steps of the host program.
    """

    def __init__(self, namespace: str, kernel: ExportedKernel) -> None:
        self.namespace = namespace
        self.kernel = kernel
        self.host = kernel.host
        self.arrays = tuple(arg for arg in kernel.arguments if arg.is_array)
        self.numbers = tuple(arg for arg in kernel.arguments if not arg.is_array)
        names = derived_numbers(kernel.host)
        self.derived = tuple(arg for arg in self.numbers if arg.name in names)
        self.passed = tuple(arg for arg in self.numbers if arg.name not in names)

    # -- names and types ----------------------------------------------------------------------

    def scoped(self, name: str) -> str:
        """Return the qualified name of a declaration, which no argument hides."""
        return f"::{self.namespace}::{name}"

    def detail(self, name: str) -> str:
        """Return the qualified name of an internal declaration of the header."""
        return self.scoped(f"detail::{name}")

    def status(self, name: str) -> str:
        """Return the full name of a status."""
        return f"::{self.namespace}_{name}"

    def type_of(self, dtype: np.dtype[Any]) -> str:
        """Return the type of a number, or of the elements of an array."""
        found = c_type(self.namespace, dtype)
        if found == "void":
            return f"{self.detail('bytes')}<{dtype.itemsize}>"
        return found if found in ("bool", "float", "double") else f"::{found}"

    def number(self, arg: ArgumentInfo) -> cgen.Declarator:
        """Declare a number that is passed."""
        return cgen.Value(self.type_of(arg.dtype), arg.name)

    def _parameters(self, numbers: Iterable[ArgumentInfo]) -> list[cgen.Declarator]:
        """Declare the layouts of all arrays, and some numbers; not every check needs all."""
        unused = "[[maybe_unused]] "
        found: list[cgen.Declarator] = []
        for arg in self.arrays:
            kind = f"{unused}{self.detail('layout')}<{rank_of(arg)}> const"
            found.append(cgen.Reference(cgen.Value(kind, arg.name)))
        return [*found, *(cgen.Value(unused + self.type_of(a.dtype), a.name) for a in numbers)]

    def _function(
        self, name: str, parameters: list[cgen.Declarator], body: list[cgen.Generable]
    ) -> cgen.FunctionBody:
        """Write a function that returns a status: success, unless a statement returns earlier."""
        declared = cgen.Value(f"inline {self.status('status')}", f"{name}_{self.kernel.name}")
        end = cgen.Statement(f"return {self.status('success')}")
        return cgen.FunctionBody(
            cgen.FunctionDeclaration(declared, parameters), cgen.Block([*body, end])
        )

    def _fail_if(self, condition: str, status: str) -> cgen.If:
        """``if (condition) return fail(status);`` where the condition notes the message."""
        call = f"{self.detail('fail')}({self.status(status)})"
        return cgen.If(cgen.Line(condition), cgen.Statement(f"return {call}"))

    def _integers(self, unknown: Iterable[ArgumentInfo]) -> IntegerWriter:
        """Return a writer of integers, in numbers of which nothing is checked."""
        ranges = {arg.name: _limits(arg) for arg in self.numbers if arg.dtype.kind in "biu"}
        ranges.update((arg.name, _INT64) for arg in unknown)
        return IntegerWriter(self.detail(""), ranges)

    # -- the functions ------------------------------------------------------------------------

    def functions(self) -> Iterator[cgen.FunctionBody]:
        """Write the functions of the kernel."""
        if self.arrays:
            yield self._check()
        if self.derived:
            yield self._find()

    def _check(self) -> cgen.FunctionBody:
        integers = self._integers(())
        body: list[cgen.Generable] = []
        for arg in self.arrays:
            for name, entries in (("shape", arg.shape), ("strides", arg.strides)):
                if not entries:
                    continue
                wanted = ", ".join(map(integers.text, entries))
                texts = (self.kernel.name, arg.name, _tuple_text(entries))
                shown = ", ".join(f'"{text}"' for text in texts)
                call = f"{self.detail(f'has_{name}')}({arg.name}, {{{wanted}}}, {shown})"
                body.append(self._fail_if(f"!{call}", "invalid_layout"))
        return self._function("check", self._parameters(self.numbers), body)

    def _find(self) -> cgen.FunctionBody:
        integers = self._integers(self.derived)
        equations = tuple(self._equations())
        single = {name for name, _, is_certain in equations if is_certain}
        single -= {name for name, _, is_certain in equations if not is_certain}
        body: list[cgen.Generable] = []
        for arg in self.derived:
            if arg.name not in single:
                body.append(cgen.Initializer(cgen.Value(_SIZE, arg.name), "0"))
                body.append(cgen.Initializer(cgen.Value("bool", f"kg_has_{arg.name}"), "false"))
        for name, source, _ in equations:
            value = self._solve(source, integers)
            if name in single:
                body.append(constant(_SIZE, name, value))
                continue
            tests = [f"!kg_has_{name}"]
            tests += [f"kg_has_{n}" for n in source.needs if n in self._names and n not in single]
            if not is_constant(source.factor):
                tests.append(f"{integers.operand(source.factor)} != 0")
            found = [cgen.Assign(name, value), cgen.Assign(f"kg_has_{name}", "true")]
            body.append(cgen.If(cgen.Line(" && ".join(tests)), cgen.Block(found)))
        for arg in self.derived:
            if arg.name not in single:
                body.append(self._fail_if(self._is_missing(arg, equations), "invalid_size"))
            low, high = map(_literal, _limits(arg))
            texts = f'{low}, {high}, "{self.kernel.name}", "{arg.name}"'
            test = f"!{self.detail('is_inside')}({arg.name}, {texts})"
            body.append(self._fail_if(test, "invalid_size"))
        for arg in self.derived:
            value = f"static_cast<{self.type_of(arg.dtype)}>({arg.name})"
            body.append(cgen.Assign(f"kg_{arg.name}", value))
        places: list[cgen.Declarator] = [
            cgen.Reference(cgen.Value(self.type_of(arg.dtype), f"kg_{arg.name}"))
            for arg in self.derived
        ]
        return self._function("find", [*self._parameters(self.passed), *places], body)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(arg.name for arg in self.derived)

    def _equations(self) -> Iterator[tuple[str, SizeSource, bool]]:
        """Yield what may give each size, in order, and whether that is certain: it is the last."""
        certain = {arg.name for arg in self.passed}
        tried = set(certain)
        for step in self.host.size_steps:
            if step.name in certain:
                continue
            for source in step.sources:
                if not tried.issuperset(source.needs):
                    continue
                is_certain = is_constant(source.factor) and certain.issuperset(source.needs)
                yield step.name, source, is_certain
                tried.add(step.name)
                if is_certain:
                    certain.add(step.name)
                    break

    def _solve(self, source: SizeSource, integers: IntegerWriter) -> str:
        """``(a.extent(0) - rest) / factor``; the check of the shape proves it exact."""
        entry = "extent" if source.attribute == "shape" else "stride"
        value = f"{source.array}.{entry}({source.axis})"
        if not is_zero(source.rest):
            rest = integers.text(simplify(p.Product((-1, source.rest))))
            value = f"{self.detail('add')}({value}, {rest})"
        if not is_constant(source.factor) or source.factor != 1:
            factor = integers.text(source.factor)
            value = f"{self.detail('floor_div')}({value}, {factor})"
        return value

    def _is_missing(
        self, arg: ArgumentInfo, equations: Iterable[tuple[str, SizeSource, bool]]
    ) -> str:
        """Return the condition that a number is not found, with its message."""
        arrays = dict.fromkeys(source.array for name, source, _ in equations if name == arg.name)
        shown = ", ".join(f"'{name}'" for name in arrays)
        text = f"{self.kernel.name}: argument '{arg.name}' does not follow from {shown} here"
        return f'!kg_has_{arg.name} && {self.detail("note")}("{text}: pass it")'


def _limits(arg: ArgumentInfo) -> Range:
    """Return the least and the greatest value of the type of an integer."""
    if arg.dtype.kind == "b":
        return 0, 1
    info = np.iinfo(arg.dtype)
    return int(info.min), int(info.max)


def _literal(value: int) -> str:
    """Return an integer of 64 bits in C++, or the nearest one."""
    if value <= _INT64[0]:
        return "INT64_MIN"
    return "INT64_MAX" if value >= _INT64[1] else f"INT64_C({value})"


def _tuple_text(entries: Iterable[Expr]) -> str:
    texts = [to_text(entry) for entry in entries]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
