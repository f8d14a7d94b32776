"""Snippets of C, parsed by pycparser: expressions, statements, declarations of arguments."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from pcpp import Preprocessor
from pycparser import c_ast
from pycparser.c_parser import CParser, ParseError

from kgen.errors import KgenSyntaxError
from kgen.ready.c_types import NAMED_TYPES, Dtype, find_type, without_templates

__all__ = [
    "CArgument",
    "children_of",
    "nodes_of",
    "inexpressible",
    "parse_arguments",
    "parse_expression",
    "parse_functions",
    "parse_statements",
    "type_of",
]

_TYPEDEFS: Final = " ".join(f"typedef int {name};" for name in NAMED_TYPES)
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


_HINT: Final = "close all brackets, and end each statement with a semicolon"
_HINT_FOR_ARGUMENTS: Final = "declare numbers and arrays of types that C or OpenCL has: float *x"


def _parse(code: str, what: str, hint: str = _HINT) -> c_ast.FileAST:
    """Parse a file; errors tell the line and the column of the part called *what*."""
    try:
        tree: c_ast.FileAST = _with_subscripts(CParser().parse(f"{_TYPEDEFS}\n{code}\n"))
    except ParseError as error:
        raise KgenSyntaxError(f"'{what}' is not valid C: {error}", hint=hint) from None
    return tree


def _with_subscripts(node: Any) -> Any:
    """Write ``*x`` and ``*(x + k)`` as ``x[0]`` and ``x[k]``."""
    for name, child in node.children():
        attribute, _, position = name.partition("[")
        found = _with_subscripts(child)
        if position:
            getattr(node, attribute)[int(position[:-1])] = found
        else:
            setattr(node, attribute, found)
    match node:
        case c_ast.UnaryOp(op="*", expr=c_ast.ID() as array):
            return c_ast.ArrayRef(array, c_ast.Constant("int", "0", node.coord), node.coord)
        case c_ast.UnaryOp(op="*", expr=c_ast.BinaryOp(op="+", left=c_ast.ID() as array)):
            return c_ast.ArrayRef(array, node.expr.right, node.coord)
    return node


def _cleaned(text: str) -> str:
    text = _COMMENTS.sub(lambda found: " " + "\n" * found[0].count("\n"), text)
    return _QUALIFIERS.sub(" ", without_templates(text))


@lru_cache(maxsize=1024)
def parse_statements(text: str, what: str) -> tuple[c_ast.Node, ...]:
    """Return the statements of a snippet; the last one may lack its semicolon."""
    ended = text if text.rstrip().endswith(("}", ";")) or not text.strip() else f"{text};"
    tree = _parse(f'void snippet(void) {{\n#line 1 "{what}"\n{_cleaned(ended)}\n}}', what)
    return tuple(tree.ext[-1].body.block_items or ())


@lru_cache(maxsize=1024)
def parse_expression(text: str, what: str) -> c_ast.Node:
    """Return the expression that a snippet consists of."""
    tree = _parse(f'void snippet(void) {{ return\n#line 1 "{what}"\n{_cleaned(text)}\n; }}', what)
    (statement, *more) = tree.ext[-1].body.block_items
    if more or statement.expr is None:
        raise KgenSyntaxError(f"'{what}' is not one expression: '{text.strip()}'")
    node: c_ast.Node = statement.expr
    return node


@lru_cache(maxsize=256)
def parse_functions(preamble: str) -> Mapping[str, c_ast.FuncDef]:
    """Return the functions that a preamble defines, by name."""
    if not preamble.strip():
        return {}
    tree = _parse(f'#line 1 "preamble"\n{_cleaned(preamble)}', "preamble")
    functions: dict[str, c_ast.FuncDef] = {}
    for node in tree.ext[len(NAMED_TYPES) :]:
        if isinstance(node, c_ast.FuncDef):
            functions[node.decl.name] = node
        elif not (isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl)):
            raise inexpressible(
                node,
                "the preamble declares something other than a function",
                "write functions and macros in it; pass tables as arguments",
            )
    return functions


@lru_cache(maxsize=1024)
def with_macros(preamble: str, text: str) -> tuple[str, str]:
    """Return a preamble and a snippet in which macros of the preamble are replaced."""
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


def parse_arguments(text: str, what: str = "arguments") -> tuple[CArgument, ...]:
    """Return the arguments that a C argument list declares.

    >>> parse_arguments("float a, __global const int *x")[1]
    CArgument(name='x', dtype=dtype('int32'), is_array=True, is_const=True)
    """
    if not text.strip():
        return ()
    code = f'void snippet(\n#line 1 "{what}"\n{_cleaned(text)}\n);'
    tree = _parse(code, what, _HINT_FOR_ARGUMENTS)
    parameters = tree.ext[-1].type.args.params
    return tuple(_argument(node, what) for node in parameters)


def _argument(node: c_ast.Node, what: str) -> CArgument:
    if not isinstance(node, c_ast.Decl) or node.name is None:
        raise inexpressible(node, f"'{what}' has an argument without a name", "write float *x")
    is_array = isinstance(node.type, c_ast.PtrDecl | c_ast.ArrayDecl)
    declared = node.type.type if is_array else node.type
    if not isinstance(declared, c_ast.TypeDecl):
        raise inexpressible(
            node,
            f"argument '{node.name}' is a pointer to a pointer, or to an array",
            f"write float *{node.name}",
        )
    dtype = type_of(declared, f"argument '{node.name}'")
    return CArgument(str(node.name), dtype, is_array, "const" in declared.quals)


def type_of(node: Any, where: str) -> Dtype:
    """Return the type of a declaration or of a cast."""
    declared = node.type if isinstance(node, c_ast.Typename) else node
    if not isinstance(declared, c_ast.TypeDecl) or not isinstance(
        declared.type, c_ast.IdentifierType
    ):
        raise inexpressible(
            node, f"{where} is not a numeric type", "use a type such as float, int or uint"
        )
    return np.dtype(find_type(list(declared.type.names), where))


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
