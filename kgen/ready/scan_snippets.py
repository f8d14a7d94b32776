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
from kgen.ready.c_functions import Value, chosen, converted, from_leaves, stored_at, zero_of
from kgen.ready.c_text import parse_preamble, with_macros
from kgen.ready.expressions import Scope, to_condition, to_values
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
        self.texts = {what: text for what, (_, text) in expanded.items()}
        if isinstance(neutral, str):
            _, neutral = with_macros(preamble, neutral)
        known = parse_preamble(
            expanded["scan_expr"][0], *self.texts.values(), str(neutral), str(arguments)
        )
        self.signature = Signature(kernel, read_arguments(arguments, known.types), known)
        self.fetched = _read_fetches(self.signature, fetches)
        self.combination = read_combination(
            self.texts["scan_expr"], "scan_expr", dtype, neutral, known
        )
        self._check()

    def _check(self) -> None:
        """Find the results that the output statement uses, and reject unknown names."""
        scope = self.with_results(self.signature.scope(Indices(self.signature.size)))
        program = read_statements(self.texts["output_statement"], "output_statement", scope, ["i"])
        self.uses = frozenset(
            result for result in _RESULTS if not program.read.isdisjoint(self.names_of(result))
        )
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
    def neutral(self) -> tuple[Expr, ...]:
        """The value before the first element."""
        assert self.combination.neutral is not None
        return self.combination.neutral

    def names_of(self, result: str) -> tuple[str, ...]:
        """Return the variables for the numbers of a result: one, or those of a structure."""
        count = len(self.combination.dtypes)
        return (result, *(f"{result}_{k}" for k in range(1, count)))

    @property
    def is_exclusive(self) -> bool:
        """Tell whether the scan stores preceding results."""
        return "prev_item" in self.uses

    @property
    def is_segmented(self) -> bool:
        """Tell whether the scan restarts at some elements."""
        return "is_segment_start_expr" in self.texts

    def input(self, scope: Scope) -> tuple[Expr, ...]:
        """Return the operands of the scan for an index: the numbers of the value, and its flag."""
        scope = self._with_fetched(scope)
        values = to_values(self.texts["input_expr"], "input_expr", scope, self.dtype)
        if self.is_segmented:
            inside = scope.with_numbers({"a": from_leaves(self.dtype, values)})
            text = self.texts["is_segment_start_expr"]
            return (*values, to_condition(text, "is_segment_start_expr", inside))
        return values if self.combination.neutral is not None else (*values, True)

    def split(self, operands: Sequence[Expr]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        """Return the numbers of the value among some operands, and the flag, if there is one."""
        count = len(self.combination.dtypes)
        return tuple(operands[:count]), tuple(operands[count:])

    def _with_fetched(self, scope: Scope) -> Scope:
        numbers: dict[str, Value] = {}
        at = scope.numbers["i"].expr
        for name, array, offset in self.fetched:
            dtype = scope.arrays[array]
            place = scope.element(array, p.Sum((at, np.int64(offset))) if offset else at)
            element = stored_at(place, dtype)
            if offset:
                condition = p.Comparison(at, ">=", np.int64(-offset))
                element = converted(chosen(condition, element, zero_of(dtype)), dtype)
            numbers[name] = element
        return scope.with_numbers(numbers)

    def with_results(self, scope: Scope) -> Scope:
        """Return a scope in which the output statement finds the results."""
        return scope.with_numbers(
            {
                name: from_leaves(self.dtype, map(p.Variable, self.names_of(name)))
                for name in sorted(_RESULTS)
            }
        )

    def read_all(self, scope: Scope) -> None:
        """Read all snippets for an index."""
        self.input(scope)
        self.output(self.with_results(scope), ("i",))

    def output(self, scope: Scope, inames: Sequence[str]) -> Program:
        """Return the instructions of the output statement."""
        text = self.texts["output_statement"]
        results = (own for result in _RESULTS for own in self.names_of(result))
        taken = {*inames, *results, *(one.name for one in self.signature.arguments)}
        return read_statements(text, "output_statement", scope, inames, taken)

    def _names_read(self, scope: Scope) -> frozenset[str]:
        """Return the arrays that the input reads."""
        return Assignment(
            "kgen_input",
            p.Sum(tuple(p.If(p.Comparison(part, "==", part), 1, 0) for part in self.input(scope))),
        ).read_dependency_names()

    def stored(self) -> tuple[str, ...]:
        """Return the results that are stored in separate arrays, whose names begin with kgen."""
        results = []
        if self.uses & {"item", "last_item"} or not self.uses:
            results.append("item")
        if "prev_item" in self.uses:
            results.append("prev_item")
        return tuple(f"kgen_{name}" for result in results for name in self.names_of(result))


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
