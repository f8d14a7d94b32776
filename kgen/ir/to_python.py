"""Programs as Python code that creates the same translation unit."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np
import pymbolic.primitives as p

from kgen.errors import KgenError
from kgen.ir.checked import checked
from kgen.ir.codec import encode
from kgen.ir.digest import canonical
from kgen.ir.expr import to_text
from kgen.ir.fields import Kind, compared_fields, kind_of
from kgen.ir.language.expressions import parse
from kgen.ir.ordered_set import OrderedSet
from kgen.ir.reductions import ReductionOperation, find_reduction_op
from kgen.ir.sets.dims import BasicSet, Set
from kgen.ir.sets.domain import is_read_back
from kgen.ir.types import auto
from kgen.ir.unit import TranslationUnit
from kgen.ir.vector_values import layout_of, numbers_of

__all__ = ["t_unit_to_python"]

_WIDTH = 100


@checked
def t_unit_to_python(
    t_unit: TranslationUnit,
    *,
    var_name: str = "t_unit",
    return_preamble_and_body_separately: bool = False,
) -> tuple[str, str] | str:
    """Return Python code that creates a program equal to *t_unit*.

    :arg var_name: the variable that finally holds the program
    :arg return_preamble_and_body_separately: return the imports and the rest as two texts

    Raises :class:`KgenError` for a part that cannot be imported by name, such as a
    function defined inside another one.

    >>> from kgen.frontend import make_kernel
    >>> text = t_unit_to_python(make_kernel("{ [i]: 0<=i<n }", "a[i] = 2*b[i]"), var_name="knl")
    >>> "    assignee=parse('a[i]')," in text, text.splitlines()[-1]
    (True, ')')
    """
    if not var_name.isidentifier():
        raise KgenError(f"'{var_name}' is not a name")
    writer = _Writer()
    body = f"{var_name} = {writer.text(t_unit, 0)}\n"
    preamble = "".join(f"{line}\n" for line in sorted(writer.imports))
    if return_preamble_and_body_separately:
        return preamble, body
    return f"{preamble}\n{body}"


class _Writer:
    """Writes values as expressions; collects the imports."""

    def __init__(self) -> None:
        self.imports: set[str] = set()

    def text(self, value: Any, indent: int) -> str:
        """Return *value* as code, with its inner lines indented by *indent* more blanks."""
        kind: Any = type(value)
        match kind_of(kind):
            case Kind.LITERAL:
                return _of_number(value)
            case Kind.NUMPY:
                return self._of_numpy(value, indent)
            case Kind.ISL:
                return self._of_set(value)
            case Kind.MAPPING:
                pairs = value.items()
                items = [f"{self.text(k, 0)}: {self.text(v, indent + 4)}" for k, v in pairs]
                return _bracket("{", items, "}", indent)
            case Kind.SEQUENCE | Kind.ORDERED_SET | Kind.UNORDERED:
                return self._of_items(value, indent)
            case Kind.ENUM if value is auto:
                return self._import("kgen.ir.types", "auto")
            case Kind.ENUM:
                return f"{self._name(type(value))}.{value.name}"
            case Kind.FIELDS if not _is_text(value):
                return self._of_fields(value, indent)
            case Kind.FIELDS:
                parse = self._import("kgen.ir.language.expressions", "parse")
                return f"{parse}({to_text(value)!r})"
        return self._of_object(value)

    def _of_set(self, value: BasicSet | Set) -> str:
        """Write a set as its text, or as its constraints if isl reads a different set from that."""
        if not is_read_back(value):
            return f"{self._import('kgen.ir.codec', 'decode')}({encode(value)!r})"
        self.imports.add("import islpy as isl")
        return f"isl.{type(value).__name__}({str(value)!r})"

    def _of_object(self, value: Any) -> str:
        if isinstance(value, ReductionOperation):
            return self._of_reduction(value)
        if callable(value):
            return self._name(value)
        if not vars(value):  # a target is defined by its class
            return f"{self._name(type(value))}()"
        raise KgenError(f"a {type(value).__name__} cannot be written as Python: {value}")

    def _of_reduction(self, value: ReductionOperation) -> str:
        if find_reduction_op(value.name) == value:
            return f"{self._import('kgen.ir.reductions', 'parse_reduction_op')}({value.name!r})"
        raise KgenError(
            f"the reduction '{value.name}' has no name",
            hint="register its name: register_reduction_parser(...)",
        )

    def _of_items(self, value: Iterable[Any], indent: int) -> str:
        items = [self.text(item, indent + 4) for item in value]
        if isinstance(value, tuple | OrderedSet):
            return _bracket("(", items, ")", indent, always=len(items) == 1)
        if isinstance(value, list):
            return _bracket("[", items, "]", indent)
        inside = _bracket("{", sorted(items), "}", indent) if items else ""
        return f"{type(value).__name__}({inside})"

    def _of_numpy(self, value: Any, indent: int) -> str:
        self.imports.add("import numpy as np")
        if isinstance(value, np.dtype):
            return self._of_dtype(value, indent)
        if isinstance(value, np.generic) and value.dtype.fields is None:
            return f"np.{value.dtype.name}({self.text(value.item(), indent)})"
        dtype = self.text(value.dtype, indent)
        items = self.text(value.tolist(), indent)
        return f"np.array({items}, {dtype})" + ("[()]" if isinstance(value, np.generic) else "")

    def _of_dtype(self, value: np.dtype[Any], indent: int) -> str:
        numbers = numbers_of(value)
        if numbers is not None:
            number, count = self.text(numbers[0], indent), numbers[1]
            return (
                f"{self._import('kgen.ir.vector_values', 'vector_type')}({number}, {count}).dtype"
            )
        if value.subdtype is not None:
            base, shape = value.subdtype
            return f"np.dtype(({self.text(base, indent)}, {shape}))"
        if value.fields is None:
            return f"np.dtype({value.str!r})"
        return f"np.dtype({self.text(layout_of(value), indent)})"

    def _of_fields(self, value: Any, indent: int) -> str:
        """Write a call of a dataclass with the fields that differ from their defaults."""
        items = []
        for field in dataclasses.fields(value):
            content = getattr(value, field.name)
            if field.name not in compared_fields(type(value)):
                continue
            if field.default is not dataclasses.MISSING and _are_same(field.default, content):
                continue
            items.append(f"{field.name}={self.text(content, indent + 4)}")
        return f"{self._name(type(value))}{_bracket('(', items, ')', indent)}"

    def _name(self, value: Any) -> str:
        """Return the name of a class or function, which is imported."""
        name = value.__qualname__
        if not name.isidentifier():
            raise KgenError(
                f"'{name}' cannot be imported by name",
                hint="define it at the top level of a module",
            )
        return self._import(value.__module__, name)

    def _import(self, module: str, name: str) -> str:
        if module != "builtins":
            self.imports.add(f"from {module} import {name}")
        return name


def _of_number(value: Any) -> str:
    """Write numbers, including those for which Python has no literal."""
    if isinstance(value, float | complex) and not np.isfinite(value):
        return f"{type(value).__name__}({str(value)!r})"
    return repr(value)


def _bracket(first: str, items: list[str], last: str, indent: int, *, always: bool = False) -> str:
    """Write items on one line, or on one line each if that is too long."""
    line = ", ".join(items)
    if len(line) + indent < _WIDTH - 20 and "\n" not in line:
        return f"{first}{line}{',' if always else ''}{last}"
    blanks = " " * (indent + 4)
    inside = "".join(f"{blanks}{item},\n" for item in items)
    return f"{first}\n{inside}{' ' * indent}{last}"


def _are_same(one: Any, other: Any) -> bool:
    """Tell whether two values are the same: 1 and 1.0 are not."""
    return type(one) is type(other) and bool(one == other)


def _is_text(value: Any) -> bool:
    """Tell whether *value* is an expression that the parser restores from its text."""
    if not isinstance(value, p.ExpressionNode):
        return False
    try:
        return canonical(parse(to_text(value))) == canonical(value)
    except KgenError:
        return False
