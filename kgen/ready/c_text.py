"""Snippets of C, parsed by pycparser: expressions, statements, declarations of arguments."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np
from pcpp import Preprocessor
from pycparser import c_ast
from pycparser.c_parser import CParser, ParseError

from kgen.errors import KgenSyntaxError
from kgen.ready.c_types import NAMED_TYPES, Dtype, find_type, without_templates
from kgen.ready.structures import as_in_c, fields_of, is_structure, named_in, type_text

__all__ = [
    "CArgument",
    "Preamble",
    "children_of",
    "nodes_of",
    "inexpressible",
    "parse_arguments",
    "parse_expression",
    "parse_preamble",
    "parse_statements",
    "type_of",
]

#: Words of OpenCL C and CUDA C++ for address spaces and kinds of functions.
_QUALIFIERS: Final = re.compile(
    r"\b(?:__global|__constant|__local|__private|global|constant|__restrict__|__restrict|restrict"
    r"|volatile|__volatile|__device__|__host__|__forceinline__|__inline__|__inline|inline|static"
    r"|__read_only|__write_only|__read_write|extern|\"C\")\b"
)


_COMMENTS: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True)
class CArgument:
    """An argument of a ready kernel: an array, whose elements may be constant, or a number."""

    name: str
    dtype: Dtype
    is_array: bool
    is_const: bool = False


@dataclass(frozen=True)
class Preamble:
    """What the snippets of a kernel can use: functions, and types by name."""

    functions: Mapping[str, c_ast.FuncDef] = field(default_factory=dict)
    types: Mapping[str, Dtype] = field(default_factory=dict)


_HINT: Final = "close all brackets, and end each statement with a semicolon"
_HINT_FOR_ARGUMENTS: Final = (
    "declare numbers and arrays of types that C or OpenCL has: float *x; name structures by "
    "kgen.tools.get_or_register_dtype('pair_t', dtype)"
)


def _parse(code: str, what: str, hint: str = _HINT, types: Iterable[str] = ()) -> Any:
    """Parse a file; errors tell the line and the column of the part called *what*.

    *types* are names of types, besides those that are always known. Returns the declarations.
    """
    types = [*NAMED_TYPES, *types]
    typedefs = " ".join(f"typedef int {name};" for name in types)
    try:
        tree: c_ast.FileAST = _with_subscripts(CParser().parse(f"{typedefs}\n{code}\n"))
    except ParseError as error:
        raise KgenSyntaxError(f"'{what}' is not valid C: {error}", hint=hint) from None
    return tree.ext[len(types) :]


def _with_subscripts(node: Any) -> Any:
    """Write ``*x`` and ``*(x + k)`` as ``x[0]`` and ``x[k]``, ``p->part`` as ``(*p).part``."""
    for name, child in node.children():
        attribute, _, position = name.partition("[")
        found = _with_subscripts(child)
        if position:
            getattr(node, attribute)[int(position[:-1])] = found
        else:
            setattr(node, attribute, found)
    match node:
        case c_ast.UnaryOp(op="*"):
            return _target_of(node.expr) or node
        case c_ast.StructRef(type="->"):
            target = _target_of(node.name)
            return node if target is None else c_ast.StructRef(target, ".", node.field, node.coord)
    return node


def _target_of(pointer: Any) -> Any:
    """Return what a pointer points to; ``None`` if it is neither an array nor an address."""
    match pointer:
        case c_ast.ID():
            return c_ast.ArrayRef(pointer, c_ast.Constant("int", "0", pointer.coord), pointer.coord)
        case c_ast.BinaryOp(op="+", left=c_ast.ID() as array):
            return c_ast.ArrayRef(array, pointer.right, pointer.coord)
        case c_ast.UnaryOp(op="&"):
            return pointer.expr
    return None


def _cleaned(text: str) -> str:
    text = _COMMENTS.sub(lambda found: " " + "\n" * found[0].count("\n"), text)
    return _QUALIFIERS.sub(" ", without_templates(text))


@lru_cache(maxsize=1024)
def parse_statements(text: str, what: str, types: tuple[str, ...] = ()) -> tuple[c_ast.Node, ...]:
    """Return the statements of a snippet; the last one may lack its semicolon.

    *types* are the names of types of the preamble.
    """
    code = f'void snippet(void) {{\n#line 1 "{what}"\n{_cleaned(text)}\n;}}'
    return tuple(_parse(code, what, types=types)[-1].body.block_items or ())


@lru_cache(maxsize=1024)
def parse_expression(text: str, what: str, types: tuple[str, ...] = ()) -> c_ast.Node:
    """Return the expression that a snippet consists of."""
    code = f'void snippet(void) {{ return\n#line 1 "{what}"\n{_cleaned(text)}\n; }}'
    (statement, *more) = _parse(code, what, types=types)[-1].body.block_items
    if more or statement.expr is None:
        raise KgenSyntaxError(f"'{what}' is not one expression: '{text.strip()}'")
    node: c_ast.Node = statement.expr
    return node


def parse_preamble(preamble: str, *texts: str) -> Preamble:
    """Return the functions and types that a preamble defines.

    Registered structures are known in it, and in the snippets *texts*.
    """
    known = named_in(preamble, *texts)
    if not preamble.strip():
        return Preamble({}, known)
    return _read_preamble(preamble, tuple(known.items()))


@lru_cache(maxsize=256)
def _read_preamble(preamble: str, known: tuple[tuple[str, Dtype], ...]) -> Preamble:
    types = dict(known)
    code = _cleaned(preamble)
    names = dict.fromkeys([*types, *_TAGS.findall(code)])
    functions: dict[str, c_ast.FuncDef] = {}
    for node in _parse(f'#line 1 "preamble"\n{code}', "preamble", types=names):
        match node:
            case c_ast.FuncDef():
                functions[node.decl.name] = node
            case c_ast.Typedef(type=c_ast.TypeDecl() as declared):
                _define(types, node.name, declared.type, declared)
            case c_ast.Decl(type=c_ast.Struct() as structure, name=None):
                _define(types, structure.name, structure, structure)
            case c_ast.Decl(type=c_ast.FuncDecl()):
                pass
            case _:
                raise inexpressible(
                    node,
                    "the preamble declares something other than a function or a type",
                    "write functions, structures and macros in it; pass tables as arguments",
                )
    return Preamble(functions, types)


#: The names of structures that are declared without ``typedef``, as in C++.
_TAGS: Final = re.compile(r"\bstruct\s+(\w+)\s*\{")


def _define(types: dict[str, Dtype], name: str, definition: Any, node: Any) -> None:
    """Add a type to *types*; a structure that is registered keeps its layout."""
    if not isinstance(definition, c_ast.Struct) or definition.decls is None:
        types[name] = type_of(node, f"the type '{name}'", types)
        return
    fields = []
    for one in definition.decls:
        if not isinstance(one, c_ast.Decl) or not isinstance(one.type, c_ast.TypeDecl):
            field_name = getattr(one, "name", None)
            raise inexpressible(
                one,
                f"field '{field_name}' of the structure '{name}' is an array or a pointer",
                "declare each element as a field: float v0; float v1;",
            )
        fields.append((one.name, type_of(one.type, f"field '{one.name}' of '{name}'", types)))
    dtype = as_in_c(np.dtype(fields))
    known = types.get(name, dtype)
    if not is_structure(known) or fields_of(known) != fields_of(dtype):
        raise inexpressible(
            node,
            f"the preamble declares '{name}' with the fields {_listed(fields)}, and it is "
            f"registered as a {type_text(known)}, of {_listed(fields_of(known).items())}",
            "use the declaration that match_dtype_to_c_struct returns",
        )
    types[name] = known
    if definition.name is not None:
        types[definition.name] = known


def _listed(fields: Iterable[tuple[str, Dtype]]) -> str:
    return ", ".join(f"'{dtype} {name}'" for name, dtype in fields)


@lru_cache(maxsize=1024)
def with_macros(preamble: str, text: str) -> tuple[str, str]:
    """Return a preamble and a snippet in which macros of the preamble are replaced.

    Headers whose functions kgen knows are left out; others are rejected.
    """
    preamble = _INCLUDES.sub(_included, preamble)
    if "#" not in preamble:
        return preamble, text
    marker = "kgen_end_of_preamble"
    preprocessor = Preprocessor()
    preprocessor.line_directive = None
    preprocessor.parse(f"{preamble}\n{marker}\n{text}\n")
    written = io.StringIO()
    preprocessor.write(written)
    if preprocessor.return_code:
        raise KgenSyntaxError("the C preprocessor rejects the preamble")
    before, _, after = written.getvalue().partition(marker)
    return before, after


_INCLUDES: Final = re.compile(
    r"""^[ \t]*\#[ \t]*(?: include[ \t]*[<"]([^>"\n]*)[>"] | pragma\b[^\n]* )""", re.M | re.X
)
#: The headers of functions and types that snippets have without them.
_HEADERS: Final = frozenset(
    [
        "pyopencl-complex.h",
        "pycuda-complex.hpp",
        "pycuda-complex-impl.hpp",
        "thrust/complex.h",
        "math.h",
        "cmath",
        "tgmath.h",
        "complex.h",
        "complex",
        "stdint.h",
        "cstdint",
        "stddef.h",
        "stdbool.h",
        "float.h",
        "cfloat",
        "limits.h",
        "climits",
    ]
)


def _included(found: re.Match[str]) -> str:
    """Return what replaces an ``#include`` or a ``#pragma``."""
    header = found[1]
    if header is not None and header not in _HEADERS:
        raise KgenSyntaxError(
            f"the preamble includes '{header}', which kgen does not read",
            hint="write the functions that are used into the preamble",
        )
    return ""


def parse_arguments(text: str, types: Mapping[str, Dtype] | None = None) -> tuple[CArgument, ...]:
    """Return the arguments that a C argument list declares; *types* are those of the preamble.

    >>> parse_arguments("float a, __global const int *x")[1]
    CArgument(name='x', dtype=dtype('int32'), is_array=True, is_const=True)
    """
    if not text.strip():
        return ()
    code = f'void snippet(\n#line 1 "arguments"\n{_cleaned(text)}\n);'
    types = named_in(text) if types is None else types
    parameters = _parse(code, "arguments", _HINT_FOR_ARGUMENTS, types)[-1].type.args.params
    return tuple(_argument(node, types) for node in parameters)


def _argument(node: c_ast.Node, types: Mapping[str, Dtype]) -> CArgument:
    if not isinstance(node, c_ast.Decl) or node.name is None:
        raise inexpressible(node, "'arguments' has an argument without a name", "write float *x")
    is_array = isinstance(node.type, c_ast.PtrDecl | c_ast.ArrayDecl)
    declared = node.type.type if is_array else node.type
    if not isinstance(declared, c_ast.TypeDecl):
        raise inexpressible(
            node,
            f"argument '{node.name}' is a pointer to a pointer, or to an array",
            f"write float *{node.name}",
        )
    dtype = type_of(declared, f"argument '{node.name}'", types)
    return CArgument(str(node.name), dtype, is_array, "const" in declared.quals)


def type_of(node: Any, where: str, types: Mapping[str, Dtype]) -> Dtype:
    """Return the type of a declaration or of a cast; *types* are those of the preamble."""
    declared = node.type if isinstance(node, c_ast.Typename) else node
    kind = declared.type if isinstance(declared, c_ast.TypeDecl) else declared
    if isinstance(kind, c_ast.Struct) and kind.decls is None:
        return np.dtype(find_type([kind.name], where, types))
    if not isinstance(kind, c_ast.IdentifierType):
        raise inexpressible(
            node, f"{where} is not of a type with a name", "use a type such as float, int or uint"
        )
    return np.dtype(find_type(list(kind.names), where, types))


def children_of(node: c_ast.Node) -> Iterator[c_ast.Node]:
    """Yield the children of a node."""
    for _, child in node.children():
        yield child


def nodes_of(*nodes: c_ast.Node) -> Iterator[c_ast.Node]:
    """Yield some nodes and all their descendants."""
    for node in nodes:
        yield node
        yield from nodes_of(*children_of(node))


def inexpressible(node: Any, what: str, hint: str) -> KgenSyntaxError:
    """Return the error for C that kgen cannot express; *hint* is the suggested fix."""
    place = getattr(node, "coord", None)
    if place is None or not place.file:
        return KgenSyntaxError(what, hint=hint)
    where = f"'{place.file}', line {place.line}, column {place.column}"
    return KgenSyntaxError(what, line=place.line, column=place.column, where=where, hint=hint)
