"""Definitions in generated code: constants, and functions that the code calls."""

from __future__ import annotations

from collections.abc import Iterable

import cgen

from kgen.targets.preamble import Need, Rank

__all__ = ["constant", "helper_function"]


def constant(kind: str, name: str, value: str) -> cgen.Initializer:
    """Return the definition of a constant.

    >>> print(constant("int", "n", "a + 1"))
    int const n = a + 1;
    """
    return cgen.Initializer(cgen.Const(cgen.Value(kind, name)), value)


def helper_function(
    head: str, name: str, parameters: Iterable[cgen.Declarator], body: Iterable[cgen.Generable]
) -> Need:
    """Return the definition of a function; *head* has the specifiers and the type before its name.

    >>> print(helper_function("int", "f", [cgen.Value("int", "a")], [cgen.Line("return a;")]).text)
    int f(int a)
    {
      return a;
    }
    """
    declaration = cgen.FunctionDeclaration(cgen.Value(head, name), list(parameters))
    text = str(cgen.FunctionBody(declaration, cgen.Block(list(body))))
    return Need(Rank.HELPER, name, text)
