"""The C snippets of a scan: its input, its combination and its output statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pymbolic.primitives as p

from kgen.errors import KernelError
from kgen.ir.expr import Expr
from kgen.ir.instruction import Assignment
from kgen.ready.arguments import read_arguments
from kgen.ready.c_functions import Value
from kgen.ready.c_text import parse_functions, with_macros
from kgen.ready.expressions import Scope, to_condition, to_value
from kgen.ready.indices import Indices
from kgen.ready.operations import read_combination
from kgen.ready.snippet import Signature
from kgen.ready.statements import Program, read_statements

__all__ = ["ScanSnippets"]

_RESULTS: Final = frozenset(["item", "prev_item", "last_item"])


class ScanSnippets:
    """The C snippets of a scan, with its arguments; ``uses`` are the results that it stores.

    ``stores_results``: the output statement needs all results in separate arrays, since it
    overwrites the input, or uses the last result.
    """

    def __init__(
        self,
        kernel: str,
        dtype: np.dtype[Any],
        arguments: Any,
        texts: Mapping[str, str | None],
        neutral: str | None,
        fetches: Iterable[tuple[str, str, int]],
        preamble: str,
    ) -> None:
        self.dtype = dtype
        expanded = {
            what: with_macros(preamble, text) for what, text in texts.items() if text is not None
        }
        functions = parse_functions(expanded["scan_expr"][0])
        self.texts = {what: text for what, (_, text) in expanded.items()}
        self.signature = Signature(kernel, read_arguments(arguments), functions)
        self.fetched = _read_fetches(self.signature, fetches)
        self.combination = read_combination(
            self.texts["scan_expr"], "scan_expr", dtype, neutral, functions
        )
        self._check()

    def _check(self) -> None:
        """Find the results that the output statement uses, and reject unknown names."""
        scope = self.with_results(self.signature.scope(Indices(self.signature.size)))
        program = read_statements(self.texts["output_statement"], "output_statement", scope, ["i"])
        self.uses = frozenset(_RESULTS.intersection(program.read))
        if "prev_item" in self.uses and self.combination.neutral is None:
            raise KernelError(
                "'prev_item' of the first element is not known without a neutral element",
                kernel=self.signature.kernel,
                hint='pass neutral, such as "0"',
            )
        if "last_item" in self.uses and self.is_segmented:
            raise KernelError("a segmented scan has no 'last_item'", kernel=self.signature.kernel)
        read = self._names_read(scope)
        self.written = program.written
        self.stores_results = "last_item" in self.uses or not read.isdisjoint(program.written)

    @property
    def neutral(self) -> Expr:
        """The value before the first element."""
        return self.combination.neutral

    @property
    def is_exclusive(self) -> bool:
        """Tell whether the scan stores preceding results."""
        return "prev_item" in self.uses

    @property
    def is_segmented(self) -> bool:
        """Tell whether the scan restarts at some elements."""
        return "is_segment_start_expr" in self.texts

    def input(self, scope: Scope) -> tuple[Expr, ...]:
        """Return the operands of the scan for an index: the value, and its flag if there is one."""
        scope = self._with_fetched(scope)
        value = to_value(self.texts["input_expr"], "input_expr", scope, self.dtype)
        if self.is_segmented:
            inside = scope.with_numbers({"a": Value(value, self.dtype)})
            text = self.texts["is_segment_start_expr"]
            return value, to_condition(text, "is_segment_start_expr", inside)
        return (value,) if self.combination.neutral is not None else (value, True)

    def _with_fetched(self, scope: Scope) -> Scope:
        numbers: dict[str, Value] = {}
        at = scope.numbers["i"].expr
        for name, array, offset in self.fetched:
            dtype = scope.arrays[array]
            element = scope.element(array, p.Sum((at, np.int64(offset))) if offset else at)
            if offset:
                condition = p.Comparison(at, ">=", np.int64(-offset))
                element = p.If(condition, element, dtype.type(0))
            numbers[name] = Value(element, dtype)
        return scope.with_numbers(numbers)

    def with_results(self, scope: Scope) -> Scope:
        """Return a scope in which the output statement finds the results."""
        return scope.with_numbers(
            {name: Value(p.Variable(name), self.dtype) for name in sorted(_RESULTS)}
        )

    def read_all(self, scope: Scope) -> None:
        """Read all snippets for an index."""
        self.input(scope)
        self.output(self.with_results(scope), ("i",))

    def output(self, scope: Scope, inames: Sequence[str]) -> Program:
        """Return the instructions of the output statement."""
        text = self.texts["output_statement"]
        taken = {*inames, *_RESULTS, *(one.name for one in self.signature.arguments)}
        return read_statements(text, "output_statement", scope, inames, taken)

    def _names_read(self, scope: Scope) -> frozenset[str]:
        """Return the arrays that the input reads."""
        return Assignment(
            "kgen_input",
            p.Sum(
                tuple(p.If(part, 1, 0) if k else part for k, part in enumerate(self.input(scope)))
            ),
        ).read_dependency_names()

    def stored(self) -> tuple[str, ...]:
        """Return the results that are stored in separate arrays."""
        names = []
        if self.uses & {"item", "last_item"} or not self.uses:
            names.append("kgen_item")
        if "prev_item" in self.uses:
            names.append("kgen_prev_item")
        return tuple(names)


def _read_fetches(
    signature: Signature, fetches: Iterable[tuple[str, str, int]]
) -> tuple[tuple[str, str, int], ...]:
    """Return the fetched values of a scan; rejects malformed ones."""
    arrays = {one.name for one in signature.arrays}
    found = []
    for name, array, offset in fetches:
        if array not in arrays or offset not in (0, -1):
            raise KernelError(
                f"input_fetch_exprs has ({name!r}, {array!r}, {offset!r})",
                kernel=signature.kernel,
                hint="write (NAME, ARRAY, OFFSET) with an array of the arguments, and 0 or -1",
            )
        found.append((str(name), str(array), int(offset)))
    return tuple(found)
