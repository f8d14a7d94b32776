"""The options of an instruction: in braces after it, or after ``with``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pytools.tag import Tag

from kgen.errors import KernelError, near_names
from kgen.ir.atomicity import AtomicInit, AtomicUpdate
from kgen.ir.instruction import UniqueName
from kgen.ir.language.expressions import parse_expression
from kgen.ir.language.match import read_match
from kgen.ir.language.tokens import NotParsable
from kgen.ir.ordered_set import OrderedSet
from kgen.ir.tags import UseStreamingStoreTag, reject_hints, to_tags


@dataclass(frozen=True)
class DuplicateInamesTag(Tag):
    """``{dup=i:j->new}``: loops to duplicate for an instruction after its creation."""

    inames: tuple[tuple[str, str | None], ...]


class Exactly(frozenset[str]):
    """The loops of ``{inames=i:j}``, which override those of enclosing blocks."""


#: Values of fields of an instruction, by field name.
Fields = dict[str, Any]

_SCOPES = ("any", "local", "global")

#: Fields of an instruction that do not add to those of the block around it.
_REPLACED: Final = ("tags", "groups", "conflicts_with_groups")


def parse_options(text: str, at: int, end: int) -> Fields:
    """Read ``id=a, dep=b:c*`` from ``text[at:end]`` into fields of an instruction.

    ``atomicity`` comes as the class that the assignment applies to its variables.
    """
    fields: Fields = {}
    for start, stop in _split(text, at, end, ","):
        item = text[start:stop]
        if not item.strip():
            continue
        key, has_value, value = item.partition("=")
        name = key.strip()
        place = start + len(key) - len(key.lstrip())
        read = _OPTIONS.get(name)
        if read is None:
            raise NotParsable(
                f"'{name}' is not an option of instructions", place, near_names(name, _OPTIONS)
            )
        if not has_value and name != "atomic":
            raise NotParsable(f"the option '{name}' needs a value", place, f"write {name}=...")
        lead = len(value) - len(value.lstrip())
        more = read(value.strip(), start + len(key) + len(has_value) + lead)
        if any(_contradicts(fields[field], more[field]) for field in fields.keys() & more.keys()):
            raise NotParsable(
                f"the option '{name}' contradicts one before it", place, "keep one of the two"
            )
        merge(fields, more)
    return fields


def _contradicts(old: Any, new: Any) -> bool:
    """Tell whether two values of a field conflict; sets are united unless they are exact."""
    is_added = isinstance(old, frozenset) and Exactly not in (type(old), type(new))
    return not is_added and bool(old != new)


def merge(fields: Fields, more: Mapping[str, Any]) -> None:
    """Add *more* to *fields*: sets are united, other values and exact sets replaced."""
    for name, value in more.items():
        old = fields.get(name)
        is_added = isinstance(old, frozenset) and not isinstance(value, Exactly)
        fields[name] = old | value if is_added else value


def merge_inner(fields: Fields, inner: Mapping[str, Any]) -> None:
    """Add the options inside a block to those of the block, *fields*.

    Tags and groups replace those of the block; other sets are united.
    """
    replaced = {name: value for name, value in inner.items() if name in _REPLACED}
    for name, value in replaced.items():
        kept = {item for item in fields.get(name, ()) if isinstance(item, DuplicateInamesTag)}
        is_only_dup = all(isinstance(item, DuplicateInamesTag) for item in value)
        fields[name] = value | (fields.get(name, frozenset()) if is_only_dup else kept)
    merge(fields, {name: value for name, value in inner.items() if name not in replaced})


def _split(text: str, at: int, end: int, separator: str) -> Iterator[tuple[int, int]]:
    """Cut ``text[at:end]`` at separators that no bracket surrounds."""
    depth, start = 0, at
    for k in range(at, end):
        sign = text[k]
        if sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        elif sign == separator and depth == 0:
            yield start, k
            start = k + 1
    yield start, end


def _words(value: str) -> frozenset[str]:
    return frozenset(word.strip() for word in value.split(":") if word.strip())


_Reader = Callable[[str, int], Fields]


def _identity(value: str, at: int) -> Fields:
    return {"id": value}


def _id_prefix(value: str, at: int) -> Fields:
    return {"id": UniqueName(value)}


def _dependencies(value: str, at: int) -> Fields:
    if value.startswith("*"):
        return {"depends_on": _words(value[1:]), "depends_on_is_final": True}
    return {"depends_on": _words(value)}


def _dependency_query(value: str, at: int) -> Fields:
    if value.startswith("*"):
        query = _match(value[1:], at + 1)
        return {"depends_on": frozenset((query,)), "depends_on_is_final": True}
    return {"depends_on": frozenset((_match(value, at),))}


def _match(value: str, at: int) -> Any:
    try:
        return read_match(value)
    except NotParsable as err:
        raise NotParsable(err.what, err.at + at, err.hint) from None


def _scoped(value: str, at: int) -> tuple[str, str]:
    name, _, scope = value.rpartition("@") if "@" in value else (value, "", "any")
    if scope not in _SCOPES:
        raise NotParsable(
            f"'{scope}' is not a scope of synchronization", at, "one of any, local, global"
        )
    return name.strip(), scope


def _no_sync(value: str, at: int) -> Fields:
    return {"no_sync_with": frozenset(_scoped(word, at) for word in sorted(_words(value)))}


def _no_sync_query(value: str, at: int) -> Fields:
    query, scope = _scoped(value, at)
    return {"no_sync_with": frozenset(((_match(query, at), scope),))}


def _priority(value: str, at: int) -> Fields:
    try:
        return {"priority": int(value)}
    except ValueError:
        raise NotParsable(f"the priority '{value}' is not an integer", at) from None


def _inames(value: str, at: int) -> Fields:
    if value.startswith("+"):
        return _more_inames(value[1:], at)
    return {"within_inames": Exactly(_words(value)), "within_inames_is_final": True}


def _more_inames(value: str, at: int) -> Fields:
    return {"within_inames": _words(value)}


def _conditions(value: str, at: int) -> Fields:
    conditions = []
    for start, stop in _split(value, 0, len(value), ":"):
        try:
            conditions.append(parse_expression(value[start:stop]))
        except NotParsable as err:
            raise NotParsable(err.what, err.at + at + start, err.hint) from None
    return {"predicates": OrderedSet(conditions)}


def _tags(value: str, at: int) -> Fields:
    try:
        tags = to_tags(sorted(_words(value)))
        reject_hints(tags, "an instruction", UseStreamingStoreTag)
    except KernelError as err:
        what, hint = str(err).split("\n  hint: ")
        raise NotParsable(what, at, hint) from None
    return {"tags": tags}


def _duplications(value: str, at: int) -> Fields:
    pairs = []
    for word in value.split(":"):
        old, _, new = (part.strip() for part in word.partition("->"))
        if not old.isidentifier() or not (new.isidentifier() or (not new and "->" not in word)):
            raise NotParsable(f"'{word}' is not a loop to duplicate", at, "write i or i->new")
        pairs.append((old, new or None))
    return {"tags": frozenset((DuplicateInamesTag(tuple(pairs)),))}


def _groups(value: str, at: int) -> Fields:
    return {"groups": _words(value)}


def _conflicts(value: str, at: int) -> Fields:
    return {"conflicts_with_groups": _words(value)}


def _atomic(value: str, at: int) -> Fields:
    kinds = {"": AtomicUpdate, "update": AtomicUpdate, "init": AtomicInit}
    if value not in kinds:
        raise NotParsable(f"'{value}' is not a kind of atomic", at, "write atomic or atomic=init")
    return {"atomicity": kinds[value]}


def _mem_kind(value: str, at: int) -> Fields:
    if value not in ("local", "global"):
        raise NotParsable(f"'{value}' is not a kind of memory", at, "write local or global")
    return {"mem_kind": value}


_OPTIONS: Final[dict[str, _Reader]] = {
    "id": _identity,
    "id_prefix": _id_prefix,
    "dep": _dependencies,
    "dep_query": _dependency_query,
    "nosync": _no_sync,
    "nosync_query": _no_sync_query,
    "priority": _priority,
    "inames": _inames,
    "inames_dep": _more_inames,
    "if": _conditions,
    "tags": _tags,
    "groups": _groups,
    "conflicts": _conflicts,
    "conflicts_grp": _conflicts,
    "dup": _duplications,
    "atomic": _atomic,
    "mem_kind": _mem_kind,
}
