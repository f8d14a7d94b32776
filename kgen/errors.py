"""The exceptions and warnings of kgen, one class per phase, and the format of messages."""

from __future__ import annotations

import contextlib
import difflib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypedDict, Unpack

__all__ = [
    "AutomaticTestFailure",
    "CodegenError",
    "CompilationError",
    "DependencyCycleFound",
    "DirectCallUncachedWarning",
    "ExpressionToAffineConversionError",
    "InvalidValueError",
    "InvocationError",
    "KgenError",
    "KgenIndexError",
    "KgenSyntaxError",
    "KgenWarning",
    "KernelError",
    "LoopyIndexError",
    "MissingBarrierError",
    "MissingDefinitionError",
    "MissingValueError",
    "ReductionIsNotTriangularError",
    "ScheduleError",
    "StaticValueFindingError",
    "TransformError",
    "TypeInferenceFailure",
    "UnscheduledInstructionError",
    "VariableAccessNotOrdered",
    "VectorizationWarning",
    "WriteRaceConditionWarning",
    "WriteRaceError",
    "counted",
    "message",
    "naming_kernel",
    "naming_place",
    "near_names",
    "rows_of",
    "warn",
]


_LABELS = ("where", "at", "because", "hint")
_ROWS = tuple(f"  {label}:" for label in _LABELS)


def message(
    what: str,
    *,
    kernel: str | None = None,
    where: str | None = None,
    point: str | None = None,
    because: str | None = None,
    hint: str | None = None,
) -> str:
    """Lay out an error: one sentence, then labelled lines for whatever is known.

    >>> print(message("'j' is not an iname", kernel="mxm", hint="did you mean 'i'?"))
    in kernel 'mxm': 'j' is not an iname
      hint: did you mean 'i'?
    """
    head = f"in kernel '{kernel}': {what}" if kernel is not None else what
    rows = zip(_LABELS, (where, point, because, hint), strict=True)
    return "\n".join([head, *(f"  {label}: {text}" for label, text in rows if text)])


class _Labels(TypedDict, total=False):
    """The keyword arguments of :func:`message`."""

    kernel: str | None
    where: str | None
    point: str | None
    because: str | None
    hint: str | None


class KgenError(RuntimeError):
    """Any error of kgen: the kernel, what is wrong, a counterexample, and a suggested fix.

    Its text is a :func:`message` of the same arguments.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]")
    >>> try:
    ...     lp.split_iname(unit, "j", 16)
    ... except lp.KgenError as error:
    ...     print(error)
    in kernel 'kgen_kernel': there is no iname 'j'
      hint: known names: 'i'
    """

    def __init__(self, what: str, **labels: Unpack[_Labels]) -> None:
        super().__init__(message(what, **labels))
        self.kernel = labels.get("kernel")

    def name_kernel(self, kernel: str) -> None:
        """Prefix the message with the name of a kernel, unless it has one.

        >>> error = KgenError("two axes have the level 'N0'")
        >>> error.name_kernel("mxm")
        >>> print(error)
        in kernel 'mxm': two axes have the level 'N0'
        """
        if self.kernel is None and f"kernel '{kernel}'" not in str(self):
            self.args = (message(str(self), kernel=kernel),)
        self.kernel = self.kernel or kernel

    def name_place(self, where: str) -> None:
        """Add the place of the error, unless the message has one.

        >>> error = KgenError("the constant 300 is no uint8", kernel="mxm", hint="cast it")
        >>> error.name_place("instruction 'a[i] = 300'")
        >>> print(error)
        in kernel 'mxm': the constant 300 is no uint8
          where: instruction 'a[i] = 300'
          hint: cast it
        """
        lines = str(self).split("\n")
        rows = [k for k, line in enumerate(lines) if line.startswith(_ROWS)]
        if not any(lines[k].startswith(_ROWS[0]) for k in rows):
            lines.insert(min(rows, default=len(lines)), f"{_ROWS[0]} {where}")
            self.args = ("\n".join(lines),)


class naming_place:  # noqa: N801  (used like a function)
    """A context that adds the place to errors without one: its *kind*, and the text of *what*.

    >>> with naming_place("instruction", "a[i] = 300"):
    ...     raise CodegenError("the constant 300 is no uint8")
    Traceback (most recent call last):
        ...
    kgen.errors.CodegenError: the constant 300 is no uint8
      where: instruction 'a[i] = 300'
    """

    __slots__ = ("kind", "show", "what")

    def __init__(self, kind: str, what: object, show: Callable[[Any], str] = str) -> None:
        self.kind, self.what, self.show = kind, what, show

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, *traceback: object) -> None:
        if isinstance(error, KgenError):
            error.name_place(f"{self.kind} '{self.show(self.what)}'")


@contextlib.contextmanager
def naming_kernel(kernel: str) -> Iterator[None]:
    """Put the name of a kernel in front of errors of a block that have none.

    >>> with naming_kernel("mxm"):
    ...     raise KernelError("two axes have the level 'N0'")
    Traceback (most recent call last):
        ...
    kgen.errors.KernelError: in kernel 'mxm': two axes have the level 'N0'
    """
    try:
        yield
    except KgenError as error:
        error.name_kernel(kernel)
        raise


@contextlib.contextmanager
def writing(file: object) -> Iterator[None]:
    """Turn failures to write *file* into an error that names it.

    >>> with writing("no/folder/a.html"):
    ...     open("no/folder/a.html", "w")
    Traceback (most recent call last):
    ...
    kgen.errors.KgenError: 'no/folder/a.html' cannot be written: No such file or directory
      hint: pass the path of a file in a folder that exists
    """
    try:
        yield
    except OSError as error:
        raise KgenError(
            f"'{file}' cannot be written: {error.strerror or error}",
            hint="pass the path of a file in a folder that exists",
        ) from error
    except ValueError as error:  # matplotlib has no format of that name
        raise KgenError(f"'{file}' cannot be written: {error}") from error


class KgenSyntaxError(KgenError, ValueError):
    """A text (domain, instruction, match expression) that does not parse; also a ``ValueError``.

    ``line`` and ``column`` count from 1; they are ``None`` if unknown.

    >>> import kgen as lp
    >>> lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*(a[i]")
    Traceback (most recent call last):
        ...
    kgen.errors.KgenSyntaxError: line 1, column 12: this bracket is never closed...
    """

    def __init__(
        self,
        what: str,
        *,
        line: int | None = None,
        column: int | None = None,
        **labels: Unpack[_Labels],
    ) -> None:
        super().__init__(what, **labels)
        self.line, self.column = line, column

    def name_kernel(self, kernel: str) -> None:
        """Change nothing: the message already shows the position in the text."""


class KernelError(KgenError):
    """The parts of a kernel contradict each other.

    >>> import kgen as lp
    >>> lp.make_kernel("{ [i]: 0<=i<n }", ["a[i] = 1 {id=set}", "b[i] = 2 {id=set}"])
    Traceback (most recent call last):
        ...
    kgen.errors.KernelError: in kernel 'kgen_kernel': two instructions have the id 'set'...
    """


class InvalidValueError(KernelError, ValueError):
    """An invalid value of a field or an argument.

    >>> import kgen as lp
    >>> try:
    ...     lp.Op(count_granularity="bushel")
    ... except ValueError as error:
    ...     print(error)
    'bushel' is not a count_granularity of Op
      hint: known names: 'subgroup', 'workgroup', 'workitem'
    """


class MissingValueError(KgenError, AttributeError):
    """An attribute that an object of its kind may have, and this one has not.

    >>> import kgen as lp
    >>> hasattr(lp.Optional(), "value"), lp.Optional(3).value
    (False, 3)
    """


class TransformError(KgenError):
    """A transformation does not apply to a kernel.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]")
    >>> lp.affine_map_inames(unit, "i", "k", "i = k*k")
    Traceback (most recent call last):
        ...
    kgen.errors.TransformError: in kernel 'kgen_kernel': 'k*k' is not affine: it has a product...
    """


class TypeInferenceFailure(KgenError):
    """A type cannot be inferred, or contradicts a declaration.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]")
    >>> lp.generate_code_v2(unit)
    Traceback (most recent call last):
        ...
    kgen.errors.TypeInferenceFailure: in kernel 'kgen_kernel': the type of 'a' is not known: no...
    """


class StaticValueFindingError(KgenError):
    """A shape or bound has no single expression.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]")
    >>> lp.generate_code_v2(lp.tag_inames(lp.add_dtypes(unit, {"a": "float32"}), "i:l.0"))
    Traceback (most recent call last):
        ...
    kgen.errors.StaticValueFindingError: in kernel 'kgen_kernel': the number of work-items for...
    """


class ExpressionToAffineConversionError(KgenError):
    """An expression that is not affine in inames and parameters.

    >>> import islpy as isl
    >>> from kgen.ir.language.expressions import parse
    >>> from kgen.ir.sets.quasi_affine import pw_aff_from_expr
    >>> pw_aff_from_expr(isl.Space.create_from_names(isl.DEFAULT_CONTEXT, ["i"]), parse("i*i"))
    Traceback (most recent call last):
        ...
    kgen.errors.ExpressionToAffineConversionError: 'i*i' is not affine: it has a product of two...
    """


class KgenIndexError(KgenError):
    """A subscript out of bounds, or a wrong number of subscripts.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = a[i+1]", [lp.GlobalArg("a", "float32", shape="n"), ...])
    >>> lp.generate_code_v2(unit)
    Traceback (most recent call last):
        ...
    kgen.errors.KgenIndexError: in kernel 'kgen_kernel': 'a[i + 1]' is outside of array 'a', of...
    """


LoopyIndexError = KgenIndexError  # the documented name of the field's reference


class ScheduleError(KgenError):
    """Loops and dependencies that admit no order.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i, j]: 0<=i,j<8 }", [
    ...     "a[i] = 1 {id=only_i}",
    ...     "c[i, j] = 2 {id=both, dep=only_i}",
    ...     "b[j] = 3 {id=only_j, dep=both}",
    ... ])
    >>> lp.generate_code_v2(unit)
    Traceback (most recent call last):
        ...
    kgen.errors.ScheduleError: in kernel 'kgen_kernel': loops 'i' and 'j' cannot be nested...
    """


class DependencyCycleFound(ScheduleError):
    """The dependencies of instructions form a cycle.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<8 }", ["a[i] = b[i] {id=one, dep=two}", "b[i] = a[i] {id=two, dep=one}"])
    >>> lp.generate_code_v2(lp.add_dtypes(unit, {"a": "float32", "b": "float32"}))
    Traceback (most recent call last):
        ...
    kgen.errors.DependencyCycleFound: in kernel 'kgen_kernel': the dependencies form a cycle:...
    """


class UnscheduledInstructionError(ScheduleError):
    """An instruction that cannot be scheduled.

    kgen raises the more specific errors of scheduling instead. Programs that handle this class
    handle those as well if they name its base class.

    >>> issubclass(UnscheduledInstructionError, ScheduleError)
    True
    """


class MissingBarrier(NamedTuple):
    """A dependency that only a global barrier meets; one of a later iteration of *loop*, if any."""

    first: str
    second: str
    array: str
    loop: str | None

    def __str__(self) -> str:
        carried = f", in a later iteration of '{self.loop}'" if self.loop is not None else ""
        what = f"'{self.second} depends on {self.first}' (for variable '{self.array}'{carried})"
        return f"Dependency {what}"


class MissingBarrierError(ScheduleError):
    """A dependency between work-items without a barrier.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i, j]: 0<=i,j<n }", [
    ...     "t[i] = i {id=write}",
    ...     "out[j] = t[n - 1 - j] {id=read, dep=write}",
    ... ])
    >>> lp.generate_code_v2(lp.tag_inames(unit, "i:g.0, j:g.0"))
    Traceback (most recent call last):
        ...
    kgen.errors.MissingBarrierError: kgen_kernel: Dependency 'read depends on write' (for...
    """

    def __init__(
        self, what: str, missing: Iterable[MissingBarrier] = (), **labels: Unpack[_Labels]
    ) -> None:
        """*missing*: the pairs of instructions that global barriers have to keep apart."""
        super().__init__(what, **labels)
        self.missing = tuple(missing)

    def name_kernel(self, kernel: str) -> None:
        """Change nothing: the message has the name of the kernel."""


class MissingDefinitionError(ScheduleError):
    """A variable is read that no instruction can have written.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = t", [lp.TemporaryVariable("t", "float32"), ...])
    >>> lp.generate_code_v2(unit)
    Traceback (most recent call last):
        ...
    kgen.errors.MissingDefinitionError: in kernel 'kgen_kernel': 't' is read where nothing can...
    """


class WriteRaceError(ScheduleError):
    """Work-items write different values to one element, or read elements that others write.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "out[0] = i")
    >>> lp.generate_code_v2(lp.tag_inames(unit, "i:g.0"))
    Traceback (most recent call last):
        ...
    kgen.errors.WriteRaceError: in kernel 'kgen_kernel': instruction 'insn' writes elements of...
    """


class VariableAccessNotOrdered(ScheduleError):
    """No dependency orders two conflicting accesses.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", ["out[i] = 1 {id=one}", "out[i] = 2 {id=two}"])
    >>> lp.generate_code_v2(unit)
    Traceback (most recent call last):
        ...
    kgen.errors.VariableAccessNotOrdered: in kernel 'kgen_kernel': nothing says whether 'one'...
    """


class ReductionIsNotTriangularError(TransformError):
    """A reduction that is not a scan, although ``force_scan`` requires one.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i, k]: 0<=i,k<n }", "out[i] = sum(k, a[k])", [lp.GlobalArg("a", "float32"), ...])
    >>> lp.realize_reduction(unit, force_scan=True)
    Traceback (most recent call last):
        ...
    kgen.errors.ReductionIsNotTriangularError: in kernel 'kgen_kernel': the reduction...
    """


class CodegenError(KgenError):
    """The target does not support a scheduled kernel.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "a[i] = 1", [lp.GlobalArg("a", "datetime64[s]"), ...],
    ...     target=lp.CTarget())
    >>> lp.generate_code_v2(unit)
    Traceback (most recent call last):
        ...
    kgen.errors.CodegenError: in kernel 'kgen_kernel': C has no element type for datetime...
    """


class CompilationError(KgenError):
    """There is no compiler for the generated code, or the compiler rejects it.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<2 }", "out[i] = i", target=lp.ExecutableCTarget(),
    ...     options=lp.Options(build_options=["--no-such-flag"]))
    >>> unit()
    Traceback (most recent call last):
        ...
    kgen.errors.CompilationError: in kernel 'kgen_kernel': the compiler rejects the generated...
    """


class InvocationError(KgenError, TypeError, ValueError):
    """A call of a kernel, or of ``make_kernel``, with a missing, unknown or invalid argument.

    It is also a ``TypeError`` and a ``ValueError``, which Python raises for such calls.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = 2*a[i]", target=lp.ExecutableCTarget())
    >>> unit(b=1)
    Traceback (most recent call last):
        ...
    kgen.errors.InvocationError: in kernel 'kgen_kernel': there is no argument 'b'...
    """


class AutomaticTestFailure(KgenError):
    """The results of a transformed kernel differ from those of its reference.

    >>> import kgen as lp
    >>> one, two = (
    ...     lp.make_kernel("{ [i]: 0<=i<8 }", f"out[i] = {value}", target=lp.ExecutableCTarget())
    ...     for value in (1, 2))
    >>> lp.auto_test_vs_ref(one, None, two, quiet=True)
    Traceback (most recent call last):
        ...
    kgen.errors.AutomaticTestFailure: in kernel 'kgen_kernel': output 'out' differs from the...
    """


class KgenWarning(UserWarning):
    """Something that may be intended; incorrect code is an error, never just a warning.

    >>> import warnings
    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "out[0] = 1 {inames=i}")
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", KgenWarning)
    ...     lp.generate_code_v2(lp.tag_inames(unit, "i:g.0"))
    Traceback (most recent call last):
        ...
    kgen.errors.WriteRaceConditionWarning: in kernel 'kgen_kernel': instruction 'insn' writes...
    """


class WriteRaceConditionWarning(KgenWarning):
    """Several work-items may write the same element.

    >>> import warnings
    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "out[0] = 1 {inames=i}")
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", WriteRaceConditionWarning)
    ...     lp.generate_code_v2(lp.tag_inames(unit, "i:g.0"))
    Traceback (most recent call last):
        ...
    kgen.errors.WriteRaceConditionWarning: in kernel 'kgen_kernel': instruction 'insn' writes...
    """


class VectorizationWarning(KgenWarning):
    """A loop tagged ``vec`` whose lanes are accessed one by one.

    >>> import warnings
    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i, k]: 0<=i<n and 0<=k<4 }", "a[k, i] = 2*a[k, i]",
    ...     [lp.GlobalArg("a", "float32", shape="4, n"), ...], target=lp.OpenCLTarget())
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", VectorizationWarning)
    ...     lp.generate_code_v2(lp.tag_inames(unit, "k:vec"))
    Traceback (most recent call last):
        ...
    kgen.errors.VectorizationWarning: in kernel 'kgen_kernel': 'a[k, i]' in instruction 'insn'...
    """


class DirectCallUncachedWarning(KgenWarning):
    """A call of a kernel object that had to generate code again.

    kgen never issues it, because programs keep the code that their calls generate; programs
    written for loopy silence it.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.filterwarnings("ignore", category=DirectCallUncachedWarning)
    """


def rows_of(text: str) -> dict[str, str]:
    """Return the labelled lines of an error that :func:`message` laid out.

    >>> rows_of(message("'j' is not an iname", kernel="mxm", point="i = 3"))
    {'at': 'i = 3'}
    """
    rows = (line[2:].split(": ", maxsplit=1) for line in text.splitlines()[1:])
    return {row[0]: row[1] for row in rows if len(row) == 2 and row[0] in _LABELS}


def counted(count: int, noun: str, plural: str = "") -> str:
    """Write a count with its noun, in the singular or plural.

    >>> counted(0, "argument"), counted(1, "axis", "axes"), counted(2, "axis", "axes")
    ('0 arguments', '1 axis', '2 axes')
    """
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def assigned(values: Mapping[str, object]) -> str:
    """Write the values of variables.

    >>> assigned({"n": 8, "i": 7})
    'n=8, i=7'
    """
    return ", ".join(f"{name}={value}" for name, value in values.items())


def near_names(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known names that are similar to *name*.

    >>> near_names("i_iner", ["i_inner", "i_outer"])
    "did you mean 'i_inner', 'i_outer'?"
    """
    names = sorted(set(known))
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    if near:
        return "did you mean " + ", ".join(f"'{n}'" for n in near) + "?"
    if not names:
        return "there are none"
    shown = ", ".join(f"'{n}'" for n in names[:12])
    return f"known names: {shown}" + (", ..." if len(names) > 12 else "")


def is_silenced(silencer: str, silenced: Iterable[str]) -> bool:
    """Tell whether patterns name a warning, or all of its kind.

    >>> [is_silenced("write_race(put)", [name]) for name in ("write_race(p*)", "write_race", "put")]
    [True, True, False]
    """
    kind = silencer.split("(", maxsplit=1)[0]
    return any(fnmatchcase(silencer, pattern) or kind == pattern for pattern in silenced)


def warn(
    text: str,
    category: type[KgenWarning],
    *,
    silencer: str,
    silenced: Iterable[str] = (),
    stacklevel: int = 3,
) -> None:
    """Emit a warning that names its *silencer*, unless *silenced* has that."""
    if is_silenced(silencer, silenced):
        return
    text = f"{text} (add '{silencer}' to silenced_warnings of the kernel to disable)"
    recorder = _recorder.get()
    if recorder is not None:
        recorder.append((text, category))
    warnings.warn(text, category, stacklevel=stacklevel)


#: The list of warnings issued while a cached object is created.
_recorder: ContextVar[list[tuple[str, type[Warning]]] | None] = ContextVar("rec", default=None)


@contextlib.contextmanager
def recorded_warnings() -> Iterator[list[tuple[str, type[Warning]]]]:
    """Collect the warnings that are given in a block, for :func:`emit_again`."""
    given: list[tuple[str, type[Warning]]] = []
    token = _recorder.set(given)
    try:
        yield given
    finally:
        _recorder.reset(token)


def emit_again(given: Iterable[tuple[str, type[Warning]]]) -> None:
    """Issue the recorded warnings of a cached object again."""
    for text, category in given:
        warnings.warn(text, category, stacklevel=3)
