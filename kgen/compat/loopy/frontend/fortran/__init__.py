"""loopy.frontend.fortran: kernels from subroutines of Fortran."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from pcpp import Preprocessor

from kgen import frontend
from kgen.compat.loopy.frontend.fortran.calls import callees_first
from kgen.compat.loopy.frontend.fortran.source import blocks_of_loopy, statements_of
from kgen.compat.loopy.frontend.fortran.translate import subroutines_of
from kgen.errors import KgenError, KgenSyntaxError
from kgen.ir.kernel import LoopKernel
from kgen.ir.target import TargetBase
from kgen.ir.unit import TranslationUnit
from kgen.transforms.programs.callables import merge

__all__ = ["c_preprocess", "parse_fortran", "parse_transformed_fortran"]

#: The package that this module is in, and that imports it.
_LOOPY: Final = "kgen.compat.loopy"


def parse_fortran(
    source: str,
    filename: str = "<floopy code>",
    free_form: bool | None = None,
    strict: bool | None = None,
    seq_dependencies: bool | None = None,
    auto_dependencies: bool | None = None,
    target: TargetBase | None = None,
) -> TranslationUnit:
    """Make a program of the subroutines in a Fortran source text.

    A single subroutine is the entry point; choose among several with ``with_entrypoints``.
    Instructions are called ``insn0``, ``insn1``... Loop variables begin with 0, as subscripts do.

    :arg free_form: ``False`` for source in fixed form
    :arg strict, auto_dependencies: accepted, and without effect; what is not supported is always an
        error
    :arg seq_dependencies: ``False`` leaves out that each statement depends on the one before it

    >>> from kgen.compat import loopy as lp
    >>> unit = lp.parse_fortran('''
    ... subroutine fill(out, a, n)
    ...   implicit none
    ...   real*8 a, out(n)
    ...   integer n, i
    ...   do i = 1, n
    ...     out(i) = a*i
    ...   end do
    ... end
    ... ''')
    >>> print(unit.default_entrypoint.instructions[0])
    out[i] = a*(i + 1)  {id=insn0}
    """
    try:
        statements = statements_of(source, free_form is not False)
        found = list(subroutines_of(statements))
    except KgenSyntaxError as error:
        error.args = (f"in {filename}: {error}",)
        raise
    if not found:
        raise KgenSyntaxError(f"there is no subroutine in {filename}")
    make = frontend.make_kernel if len(found) == 1 else frontend.make_function
    named = {one.name.lower(): one for one in found}
    callees: dict[str, tuple[Sequence[str], LoopKernel]] = {}
    units: dict[str, TranslationUnit] = {}
    try:
        for name in callees_first({name: one.calls for name, one in named.items()}):
            one = named[name]
            one.resolve(callees)
            units[name] = make(
                [domain.to_set() for domain in one.domains],
                one.instructions,
                one.data(),
                name=one.name,
                target=target,
                assumptions=one.assumptions(),
                seq_dependencies=seq_dependencies is not False,
            )
            callees[name] = [*map(one.scope.spelled, one.arguments)], units[name][one.name]
    except KgenSyntaxError as error:
        error.args = (f"in {filename}: {error}",)
        raise
    return units[name] if len(units) == 1 else merge([units[name] for name in named])


def parse_transformed_fortran(
    source: str,
    free_form: bool = True,
    strict: bool = True,
    pre_transform_code: str | None = None,
    transform_code_context: Mapping[str, Any] | None = None,
    filename: str = "<floopy code>",
) -> Any:
    """Run the blocks between ``!$loopy begin`` and ``!$loopy end`` of a Fortran source text.

    Their lines are comments with Python code, which uses ``lp``, ``np``, ``SOURCE`` (the text
    without the blocks) and ``FILENAME``. The result is what they assign to ``RESULT``.

    :arg pre_transform_code: code that runs before the blocks
    :arg transform_code_context: more names for the code

    >>> from kgen.compat import loopy as lp
    >>> unit = lp.parse_transformed_fortran('''
    ... subroutine fill(out, n)
    ...   real*8 out(n)
    ...   do i = 1, n
    ...     out(i) = i
    ...   end do
    ... end
    ... !$loopy begin
    ... ! fill = lp.parse_fortran(SOURCE, FILENAME)
    ... ! RESULT = lp.split_iname(fill, "i", width)
    ... !$loopy end
    ... ''', transform_code_context={"width": 16})
    >>> sorted(unit.default_entrypoint.inames)
    ['i_inner', 'i_outer']
    """
    rest, blocks = blocks_of_loopy(source)
    names: dict[str, Any] = {
        "lp": sys.modules[_LOOPY],
        "np": np,
        "SOURCE": rest,
        "FILENAME": filename,
    }
    names |= dict(transform_code_context or {})
    for code in filter(None, [pre_transform_code, *blocks]):
        exec(compile(code, filename, "exec"), names)  # noqa: S102  (it is what the user asks for)
    if "RESULT" not in names:
        raise KgenError(f"the blocks '!$loopy begin' of {filename} assign nothing to RESULT")
    return names["RESULT"]


def c_preprocess(
    source: str,
    defines: Iterable[str] | None = None,
    filename: str | None = None,
    include_paths: Iterable[str] | None = None,
) -> str:
    """Expand the macros of a source text, as C's preprocessor does.

    :arg defines: definitions as after ``#define``: ``["twice(x) (2*(x))"]``

    >>> print(c_preprocess("a = twice(b)", ["twice(x) (2*(x))"]).strip())
    a = (2*(b))
    """
    preprocessor = Preprocessor()
    preprocessor.line_directive = None
    for path in include_paths or ():
        preprocessor.add_path(path)
    for definition in defines or ():
        preprocessor.define(definition)
    preprocessor.parse(source, filename or "<floopy code>")
    output = io.StringIO()
    preprocessor.write(output)
    return output.getvalue()
