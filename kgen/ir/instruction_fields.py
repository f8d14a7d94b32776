"""The fields of instructions, as users give them: names, conditions, ids, types, accesses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pymbolic.primitives as p
from pytools.tag import Tag

from kgen.errors import KernelError
from kgen.ir.assignee import assignee_name
from kgen.ir.atomicity import VarAtomicity
from kgen.ir.checked import unfit
from kgen.ir.expr import Expr
from kgen.ir.language.expressions import read_expression
from kgen.ir.ordered_set import OrderedSet
from kgen.ir.tags import UseStreamingStoreTag, reject_hints, to_tags
from kgen.ir.types import Optional, read_type, to_kgen_type

__all__ = [
    "BINDINGS",
    "CREATES_NOTHING",
    "READERS",
    "UniqueName",
    "read_accesses",
    "read_binding",
    "read_names",
    "read_temp_type",
    "read_value",
    "unfit_option",
]

#: The ``temp_var_type`` of instructions whose assignees are declared elsewhere.
CREATES_NOTHING: Final = Optional()
#: The valid forms of bindings and ids, for errors.
BINDINGS: Final = "text, or a list of names and pairs (name, expression)"
_PAIRS: Final = "a list of ids, or of pairs (id, 'local', 'global' or 'any')"
_FLAGS: Final = (bool, np.bool_, type(None))


@dataclass(frozen=True)
class UniqueName:
    """An id to be made unique: ``id=UniqueName("load")`` is ``{id_prefix=load}``.

    >>> import kgen as lp
    >>> load = lp.Assignment("out[i]", "a[i]", id=UniqueName("load"))
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", [load, "b[i] = 1 {id=load}"])
    >>> [insn.id for insn in unit["kgen_kernel"].instructions]
    ['load_0', 'load']
    """

    name: str


def read_names(value: Any, field: str, *, tests: bool = False) -> frozenset[str]:
    """Read names, and with *tests* also functions that select instructions."""
    if value is None:
        return frozenset()
    if isinstance(value, str):
        return frozenset(name.strip() for name in value.split(",") if name.strip())
    items = _items(value, field, "text, or a list of texts")
    if not all(isinstance(item, str) or (tests and callable(item)) for item in items):
        raise unfit_option(field, "text, or a list of texts", value)
    return items


def unfit_option(field: str, wanted: str, value: Any) -> KernelError:
    """Return the error of an option that is not what is *wanted*."""
    return unfit(f"option '{field}' of an instruction", wanted, value)


def _items(value: Any, field: str, wanted: str) -> frozenset[Any]:
    """Return the items of a collection, or reject other values."""
    try:
        return frozenset(value)
    except TypeError:
        raise unfit_option(field, wanted, value) from None


def _scoped(pairs: Any, field: str) -> frozenset[tuple[str, str]]:
    items = _items(() if pairs is None else pairs, field, _PAIRS)
    if not all(isinstance(item, str) or _is_pair(item) for item in items):
        raise unfit_option(field, _PAIRS, pairs)
    return frozenset((item, "any") if isinstance(item, str) else tuple(item) for item in items)


def _is_pair(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and item[1] in ("local", "global", "any")


def _conditions(given: Any, field: str) -> OrderedSet[Expr]:
    if given is None:
        return OrderedSet()
    items = given if isinstance(given, list | tuple | frozenset | set) else (given,)
    ordered = items if isinstance(items, list | tuple) else OrderedSet(items)
    return OrderedSet(read_expression(item, "condition of an instruction") for item in ordered)


def read_binding(item: Any) -> tuple[str, Expr]:
    """Read a name that C code uses for a loop variable, or for an expression of them."""
    if isinstance(item, str):
        return item, p.Variable(item)
    is_pair = isinstance(item, list | tuple) and len(item) == 2 and isinstance(item[0], str)
    if not is_pair:
        raise unfit("iname_exprs of C code", BINDINGS, item)
    return item[0], read_expression(item[1], f"value of '{item[0]}' in iname_exprs")


def read_value(given: Any, places: tuple[Expr, ...]) -> Expr:
    """Read the value assigned to *places*: one expression, or a tuple of them."""
    if isinstance(given, p.ExpressionNode | tuple):
        return given
    names = ", ".join(f"'{assignee_name(place)}'" for place in places)
    return read_expression(given, f"value that is assigned to {names}")


def _flag(given: Any, field: str) -> bool:
    if not isinstance(given, _FLAGS):
        raise unfit_option(field, "True or False", given)
    return bool(given)


def _id(given: Any, field: str) -> Any:
    if given is not None and not isinstance(given, str | UniqueName):
        raise unfit_option(field, "text, a UniqueName or None", given)
    return given


def _priority(given: Any, field: str) -> int:
    if not isinstance(given, int | np.integer):
        raise unfit_option(field, "an integer", given)
    return int(given)


def _tags(given: Any, field: str) -> frozenset[Tag]:
    tags = to_tags(given)
    reject_hints(tags, "an instruction", UseStreamingStoreTag)
    return tags


def read_accesses(given: Any) -> tuple[VarAtomicity, ...]:
    """Read which variables an instruction accesses atomically."""
    if given is None:
        return ()
    items = tuple(given) if isinstance(given, list | tuple) else (given,)
    if not all(isinstance(item, VarAtomicity) for item in items):
        raise unfit("atomicity of an instruction", "a list of AtomicInit and AtomicUpdate", given)
    return items


#: The functions that read the values that users give for fields.
READERS: dict[str, Callable[[Any, str], Any]] = {
    "id": _id,
    "depends_on": partial(read_names, tests=True),
    "depends_on_is_final": _flag,
    "groups": read_names,
    "conflicts_with_groups": read_names,
    "no_sync_with": _scoped,
    "within_inames": read_names,
    "within_inames_is_final": _flag,
    "priority": _priority,
    "predicates": _conditions,
    "tags": _tags,
}


def read_temp_type(value: Any, field: str = "temp_var_type") -> Optional:
    """Read the type of a temporary that an instruction creates, if it creates one."""
    if value is None:
        return CREATES_NOTHING
    if not isinstance(value, Optional):
        return Optional(read_type(value, "what an instruction assigns, temp_var_type"))
    return Optional(to_kgen_type(value.value)) if value.has_value else value
