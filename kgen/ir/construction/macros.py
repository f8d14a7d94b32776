"""Macros of the texts of a kernel: names that stand for texts, in one or in several copies."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pymbolic.primitives as p

from kgen.errors import KernelError
from kgen.ir.affine import simplify
from kgen.ir.data import ArrayArg, TemporaryVariable
from kgen.ir.expr import Expr, SubstitutionMapper
from kgen.ir.language.expressions import parse
from kgen.ir.language.instructions import items_of, statements

__all__ = ["Macros"]

_NAME = re.compile(r"[A-Za-z_]\w*")
#: What statements with an end of their own begin with: there cannot be several copies of these.
_BLOCK = re.compile(r"(for|if|elif|else|with|end)\b")


class Macros:
    """Replaces names by texts, ``NAME`` and ``${NAME}``.

    >>> macros = Macros({"J": [1, 2], "N": 4})
    >>> for text in macros.in_instructions("out${J}[i] = J*a[i] {id=w${J}}"):
    ...     print(text)
    out1[i] = 1*a[i] {id=w1}
    out2[i] = 2*a[i] {id=w2}
    >>> macros.in_domains("{ [i]: 0 <= i < N }")
    '{ [i]: 0 <= i < 4 }'
    """

    def __init__(self, defines: Mapping[str, Any]) -> None:
        for name in defines:
            if not _NAME.fullmatch(str(name)):
                raise KernelError(
                    f"a macro has a name, not {name!r}", hint='defines={"N": 4, "J": [1, 2]}'
                )
        self._texts: dict[str, tuple[str, ...]] = {
            name: tuple(map(str, value)) if isinstance(value, list | tuple) else (str(value),)
            for name, value in defines.items()
        }
        for name, values in self._texts.items():
            if not values:
                raise KernelError(
                    f"the macro '{name}' has no value", hint=f'defines={{"{name}": [1, 2]}}'
                )
        names = "|".join(sorted(self._texts, key=len, reverse=True))
        self._pattern = re.compile(rf"\$\{{({names})\}}|\b({names})\b")

    def in_instructions(self, given: Any) -> list[Any]:
        """Return instructions, those that are texts with one copy for each combination of values.

        Blocks cannot be copied: a name at their beginning stands for one value.
        """
        items = items_of(given)
        return [self._in_text(item) if isinstance(item, str) else item for item in items]

    def _in_text(self, source: str) -> str:
        return "\n".join(copy for _, text in statements(source) for copy in self._copies(text))

    def in_domains(self, given: Any) -> Any:
        """Return domains, those that are texts with the only value of each macro."""
        if isinstance(given, str):
            return self._only(given)
        if isinstance(given, list | tuple):
            return [self._only(one) if isinstance(one, str) else one for one in given]
        return given

    def in_data(self, given: Any) -> Any:
        """Return declarations, with the only value of each macro in shapes and strides."""
        if not isinstance(given, list | tuple):
            return given
        return [self._in_declaration(one) for one in given]

    def _in_declaration(self, one: Any) -> Any:
        if not isinstance(one, ArrayArg | TemporaryVariable):
            return one
        replace = SubstitutionMapper(self._value)
        return one.map_exprs(lambda expr: simplify(replace(expr)))

    def _value(self, expr: Expr) -> Expr | None:
        if not isinstance(expr, p.Variable) or expr.name not in self._texts:
            return None
        return parse(self._only(expr.name))

    def _copies(self, text: str) -> Sequence[str]:
        if _BLOCK.match(text):
            return [self._only(text)]
        used = dict.fromkeys(one or other for one, other in self._pattern.findall(text))
        copies = itertools.product(*(self._texts[name] for name in used))
        chosen = (dict(zip(used, values, strict=True)) for values in copies)
        return [self._replaced(text, values.__getitem__) for values in chosen]

    def _only(self, text: str) -> str:
        """Replace names that stand for one value."""

        def only(name: str) -> str:
            values = self._texts[name]
            if len(values) != 1:
                raise KernelError(
                    f"the macro '{name}' has {len(values)} values in '{text}'",
                    because="only instructions are copied for each value",
                    hint=f"repeat the text, or define '{name}' as one value",
                )
            return values[0]

        return self._replaced(text, only)

    def _replaced(self, text: str, value_of: Callable[[str], str]) -> str:
        return self._pattern.sub(lambda found: value_of(found[1] or found[2]), text)
