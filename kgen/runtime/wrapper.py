"""The Python function that binds one call of a compiled kernel, built as a syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter, index
from types import CodeType
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import pymbolic.primitives as p

from kgen.errors import InvocationError
from kgen.host.program import (
    HostProgram,
    SizeSource,
    SizeStep,
    has_no_gaps,
    is_dense,
    strides_fit,
    variable_extents,
)
from kgen.ir.expr import Expr, is_constant, variable_names
from kgen.ir.options import Options
from kgen.ir.types import kind_of
from kgen.ir.vector_values import numbers_of
from kgen.runtime.faults import reject_faults
from kgen.runtime.overlap import reject_shared_elements
from kgen.runtime.pyast import (
    PREFIX,
    all_of,
    any_of,
    assign,
    attribute,
    builtin,
    call,
    compare,
    const,
    define,
    do,
    from_expr,
    function_of,
    if_,
    item,
    name,
    named,
    negate,
    return_,
    to_code,
    to_text,
    tuple_,
)
from kgen.runtime.refusals import CallChecker
from kgen.targets.module import ArgumentInfo, Faults, HostIf, HostLoop, Launch, Step

__all__ = ["Own", "WrapperBuilder", "WrapperCode"]

#: Returns the value of a wrapper's name in one executor, given the executor's builder.
Own: TypeAlias = Callable[[Any], Any]

NONE = const(None)
#: The variables of a wrapper for surplus positional and keyword arguments.
MORE = PREFIX + "more"
UNKNOWN = PREFIX + "unknown"
#: The variable for the shape or strides from which it derives a size.
ENTRIES = PREFIX + "entries"


#: The Python type of numbers, by the type that numpy gives them.
_PYTHON_NUMBERS: Final[dict[str, type[Any]]] = {
    "bool": bool,
    "int64": int,
    "float64": float,
    "complex128": complex,
}


@dataclass(frozen=True, kw_only=True)
class WrapperCode:
    """The compiled text of a wrapper, which executors of the same module share.

    ``names`` are common to all executors; each executor computes its ``own``.
    """

    function: str
    code: CodeType
    names: Mapping[str, Any]
    own: Mapping[str, Own]
    #: the source text, if the options request it
    text: str | None


class WrapperBuilder:
    """Builds the wrapper of one compiled kernel; each backend overrides methods.

    The wrapper quickly checks that a call satisfies the host program. If not, it calls
    ``reject``, which finds the reason. Calls with other types go to ``other``, and calls with
    other layouts to ``relayout``; both run the call. Unknown arguments go to ``explain``, which
    rejects them, except positional ones that are passed by name. If a call fails, ``recover``
    runs it again if it has arrays of other libraries, and raises otherwise.
    """

    #: The wrapper's own parameters: those before the kernel's, and optional keywords.
    positional: ClassVar[tuple[str, ...]] = ()
    optional: ClassVar[tuple[str, ...]] = ()
    #: Vectors can be passed by value.
    passes_vectors: ClassVar[bool] = False

    def __init__(
        self,
        host: HostProgram,
        options: Options,
        *,
        untyped: Iterable[str],
        other: Callable[..., Any],
        relayout: Callable[..., Any],
        explain: Callable[..., Any],
        recover: Callable[..., Any],
    ) -> None:
        self.host = host
        self.checker = CallChecker(host)
        self.options = options
        self.untyped = frozenset(untyped)
        self.names: dict[str, Any] = {}
        self.own_names: dict[str, Own] = {}
        self.other = other
        self.relayout = relayout
        self.explain = explain
        self.recover = recover

    def check_names(self) -> None:
        """Reject names that the wrapper uses itself."""
        for text in self.host.host_variables:
            if text in (*self.positional, *self.optional) or text.startswith(PREFIX):
                raise InvocationError(
                    f"loop '{text}' runs on the host and has the name of an argument of every call",
                    kernel=self.host.kernel,
                    hint=f"rename_iname(knl, '{text}', ...)",
                )
        for arg in self.host.arguments:
            if not (arg.is_array or self.is_passable(arg)):
                raise InvocationError(
                    f"a value of type {arg.dtype} cannot be passed",
                    kernel=self.host.kernel,
                    where=f"argument '{arg.name}'",
                    hint="pass it in an array with one element",
                )

    def is_passable(self, arg: ArgumentInfo) -> bool:
        """Tell whether values of the type of *arg* can be passed: numbers, and declared vectors."""
        if kind_of(arg.dtype) in "biufc":
            return True
        is_vector = numbers_of(arg.dtype) is not None
        return self.passes_vectors and is_vector and arg.name not in self.host.typed_by_call

    def write(self) -> WrapperCode:
        """Return the code of the wrapper, which depends only on the host program."""
        self.check_names()
        arguments = [arg.name for arg in self.host.passed]
        tree = define(
            f"invoke_{self.host.kernel}",
            self.positional,
            [*self.optional, *arguments],
            (MORE, UNKNOWN),
            self.or_recover([self.reject_more(), *self.body()]),
        )
        return WrapperCode(
            function=tree.name,
            code=to_code(tree),
            names=self.names,
            own=self.own_names,
            text=to_text(tree) if self.options.write_wrapper else None,
        )

    def bind(self, code: WrapperCode) -> Callable[..., Any]:
        """Return the wrapper: *code* with the values of this executor."""
        own = {text: find(self) for text, find in code.own.items()}
        return function_of(code.function, code.code, {**code.names, **own})

    def body(self) -> list[ast.stmt]:
        """Return the statements of a call."""
        return [*self.check(), *self.run()]

    def check(self) -> list[ast.stmt]:
        """Return the statements that find sizes and check arguments."""
        return [*self.choose_types(), *self.find_sizes(), *self.check_inputs()]

    def run(self) -> list[ast.stmt]:
        """Return the statements that allocate, launch and return."""
        raise NotImplementedError

    # -- parts of statements --------------------------------------------------------------

    def known(self, text: str, value: Any) -> ast.expr:
        """Make *value*, common to all executors, a global name of the wrapper."""
        before = self.names.setdefault(PREFIX + text, value)
        if _function_of(before) is not _function_of(value):
            raise AssertionError(f"two functions are called '{text}': {before} and {value}")
        return name(PREFIX + text)

    def own(self, text: str, find: Own) -> ast.expr:
        """Make what *find* returns for the builder of an executor a global name of its wrapper."""
        self.own_names[PREFIX + text] = find
        return name(PREFIX + text)

    def dtype(self, dtype: np.dtype[Any]) -> ast.expr:
        """Return the name of a numpy type."""
        return self.known(f"dtype_{dtype.name}", dtype)

    def reject(self) -> list[ast.stmt]:
        """Return the statement that finds out why the call is rejected, and raises that."""
        function = self.own("reject", lambda builder: _with_dict(builder.checker.explain))
        # 'return', so that the reader and the compiler see that nothing follows
        return [return_(call(function, **_named(self.host.passed)))]

    def reject_more(self) -> ast.stmt:
        """Return the test for arguments that are none of the kernel's, mostly rejected."""
        explained = self.call_with_all(self.own("explain", attrgetter("explain")))
        return if_(any_of([name(MORE), name(UNKNOWN)]), [return_(explained)])

    def call_with_all(self, function: ast.expr) -> ast.expr:
        """Return the call of *function* with the arguments by position and a dict of the others."""
        positional = tuple_([*map(name, self.positional), ast.Starred(name(MORE), ast.Load())])
        named = [*self.optional, *(arg.name for arg in self.host.passed)]
        keywords: list[ast.expr | None] = [*map(const, named), None]
        values: list[ast.expr] = [*map(name, named), name(UNKNOWN)]
        return call(function, positional, ast.Dict(keywords, values))

    def or_recover(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Return *body*, with a handler that may run a failing call in another way."""
        recovered = self.call_with_all(self.own("recover", attrgetter("recover")))
        failed = ast.ExceptHandler(builtin("Exception"), None, [return_(recovered)])
        return [ast.Try(body, [failed], [], [])]

    def call_other(self) -> list[ast.stmt]:
        """Return the statement that runs the call with the code for its types."""
        return self.hand_over(self.own("other", attrgetter("other")))

    def call_relayout(self) -> list[ast.stmt]:
        """Return the statement that runs the call with code for its layouts, or rejects it."""
        return self.hand_over(self.own("relayout", attrgetter("relayout")))

    def hand_over(self, function: ast.expr) -> list[ast.stmt]:
        """Return the statement that hands all arguments on to *function*."""
        extra = {text: name(text) for text in self.optional}
        arguments = {**extra, **_named(self.host.passed)}
        return [return_(call(function, *map(name, self.positional), **arguments))]

    def is_none(self, text: str) -> ast.expr:
        """``text is None``."""
        return compare(name(text), "is", NONE)

    def is_given(self, text: str) -> ast.expr:
        """``text is not None``."""
        return compare(name(text), "is not", NONE)

    # -- types ----------------------------------------------------------------------------

    def choose_types(self) -> list[ast.stmt]:
        """Switch to other code if the caller's types require it; reject unsupported types."""
        elsewhere: list[ast.expr] = []
        wrong: list[ast.expr] = []
        for arg in self.host.passed:
            by_call = arg.name in self.host.typed_by_call
            if not arg.is_array:
                if by_call:
                    kind = self.known(f"type_{arg.dtype.name}", arg.dtype.type)
                    is_type = call(builtin("type"), name(arg.name))
                    conditions = [compare(is_type, "is not", kind)]
                    if arg.dtype.name in _PYTHON_NUMBERS:
                        own = _PYTHON_NUMBERS[arg.dtype.name]
                        python = self.known(f"python_{own.__name__}", own)
                        conditions.append(compare(is_type, "is not", python))
                    elsewhere.append(all_of(conditions))
                continue
            missing, others = self.is_none(arg.name), self.has_other_type(arg)
            is_required = self.host.is_required_array(arg)
            if by_call:
                elsewhere.append(any_of([missing, others]))
            elif arg.name not in self.untyped:
                given = self.is_given(arg.name)
                wrong.append(any_of([missing, others]) if is_required else all_of([given, others]))
            else:  # other code needs it too: a call without it goes nowhere else
                elsewhere.append(all_of([self.is_given(arg.name), others]))
                wrong += [missing] if is_required else []
        body: list[ast.stmt] = []
        if elsewhere:
            body.append(if_(any_of(elsewhere), self.call_other()))
        if wrong and not self.options.skip_arg_checks:
            body.append(if_(any_of(wrong), self.reject()))
        return body

    def has_other_type(self, arg: ArgumentInfo) -> ast.expr:
        """``a.dtype is not T and a.dtype != T``: the first test is fast, and usually suffices."""
        mine = attribute(name(arg.name), "dtype")
        wanted = self.dtype(arg.dtype)
        return all_of([compare(mine, "is not", wanted), compare(mine, "!=", wanted)])

    # -- numbers --------------------------------------------------------------------------

    def find_sizes(self) -> list[ast.stmt]:
        """Find the integers that the caller left out, and check all numbers."""
        body: list[ast.stmt] = []
        passed = {arg.name for arg in self.host.passed}
        body += [assign(a.name, NONE) for a in self.host.values if a.name not in passed]
        certain: set[str] = set()
        for step in self.host.size_steps:
            if step.name not in certain:
                body.append(self.find_size(step, certain))
        return [*body, *self.check_numbers(certain)]

    def find_size(self, step: SizeStep, certain: set[str]) -> ast.stmt:
        """Return the chain of tests that finds one size; note in *certain* if it cannot fail."""
        branches: list[tuple[list[ast.expr], list[ast.stmt]]] = []
        for source in step.sources:
            arg = self.host.by_name[source.array]
            conditions: list[ast.expr] = []
            if not self.host.is_required_array(arg):
                conditions.append(self.is_given(source.array))
            conditions += [self.is_given(need) for need in source.needs if need not in certain]
            if not is_constant(source.factor):
                conditions.append(compare(from_expr(source.factor), "!=", const(0)))
            branches.append((conditions, self.solve(step.name, source, arg)))
            if not conditions:
                certain.add(step.name)
                break
        chain: list[ast.stmt] = []
        for conditions, statements in reversed(branches):
            chain = [if_(all_of(conditions), statements, chain)] if conditions else statements
        return if_(self.is_none(step.name), chain)

    def solve(self, size: str, source: SizeSource, arg: ArgumentInfo) -> list[ast.stmt]:
        """``size = (a.shape[0] - rest) // factor``; the check of the shape proves it exact."""
        entries = attribute(name(source.array), source.attribute)
        body: list[ast.stmt] = []
        if not self.options.skip_arg_checks:
            n_axes = len(arg.shape if arg.shape is not None else arg.strides or ())
            count = call(builtin("len"), named(ENTRIES, entries))
            body.append(if_(compare(count, "!=", const(n_axes)), self.reject()))
            entries = name(ENTRIES)
        value = item(entries, source.axis)
        if source.attribute == "strides" and arg.dtype.itemsize != 1:
            value = ast.BinOp(value, ast.FloorDiv(), const(arg.dtype.itemsize))
        if not (is_constant(source.rest) and source.rest == 0):
            value = ast.BinOp(value, ast.Sub(), from_expr(source.rest))
        if not (is_constant(source.factor) and source.factor == 1):
            value = ast.BinOp(value, ast.FloorDiv(), from_expr(source.factor))
        return [*body, assign(size, value)]

    def check_numbers(self, certain: Collection[str]) -> list[ast.stmt]:
        """Return the tests of numbers; integers become Python's."""
        missing = [self.is_none(arg.name) for arg in self.host.values if arg.name not in certain]
        converted: list[ast.stmt] = []
        inside: list[ast.expr] = []
        for arg in self.host.values:
            limits = self.host.range_of(arg)
            if limits is not None:
                number = call(self.known("integer", as_integer), name(arg.name))
                is_other = compare(call(builtin("type"), name(arg.name)), "is not", builtin("int"))
                converted.append(if_(is_other, [assign(arg.name, number)]))
                low, high = map(const, limits)
                inside.append(compare(low, "<=", name(arg.name), "<=", high))
        if self.options.skip_arg_checks:
            return converted
        rejected = [if_(any_of(missing), self.reject())] if missing else []
        outside = [if_(negate(all_of(inside)), self.reject())] if inside else []
        return [*rejected, *converted, *outside]

    # -- layouts --------------------------------------------------------------------------

    def shape_of(self, arg: ArgumentInfo) -> ast.expr:
        """Return the tuple of an array's extents."""
        return tuple_(map(from_expr, arg.shape or ()))

    def strides_of(self, arg: ArgumentInfo) -> ast.expr:
        """Return the tuple of an array's strides, in bytes."""
        return tuple_(from_expr(arg.dtype.itemsize * stride) for stride in arg.strides or ())

    def misfit(self, arg: ArgumentInfo) -> ast.expr | None:
        """Return the condition that an array has a wrong shape or layout, if that can be."""
        array = name(arg.name)
        conditions: list[ast.expr] = []
        if self.options.skip_arg_checks:
            return None
        if arg.shape is not None:
            conditions.append(compare(attribute(array, "shape"), "!=", self.shape_of(arg)))
        if arg.strides is not None:
            strides = attribute(array, "strides")
            fit = call(
                self.known("strides_fit", strides_fit),
                attribute(array, "shape"),
                strides,
                self.strides_of(arg),
            )
            different = compare(strides, "!=", self.strides_of(arg))
            conditions.append(all_of([different, negate(fit)]))
        elif arg.shape is None:
            layout = attribute(array, "shape"), attribute(array, "strides")
            dense = call(self.known("is_dense", is_dense), *layout, const(arg.dtype.itemsize))
            conditions.append(negate(dense))
        return any_of(conditions) if conditions else None

    def check_inputs(self) -> list[ast.stmt]:
        """Reject arrays of a wrong layout among those that a caller must pass."""
        body: list[ast.stmt] = []
        if self.host.conditions and not self.options.skip_arg_checks:
            kept = all_of(from_expr(condition) for condition in self.host.conditions)
            body.append(if_(negate(kept), self.reject()))
        required = filter(self.host.is_required_array, self.host.arrays)
        misfits = [misfit for arg in required if (misfit := self.misfit(arg)) is not None]
        if misfits:
            body.append(if_(any_of(misfits), self.call_relayout()))
        return body

    def make_outputs(self) -> list[ast.stmt]:
        """Reject invalid outputs that were passed, and allocate missing ones."""
        optional = self.host.optional_arrays
        misfits = [
            all_of([self.is_given(arg.name), misfit])
            for arg in optional
            if (misfit := self.misfit(arg)) is not None
        ]
        rejected = [if_(any_of(misfits), self.call_relayout())] if misfits else []
        return [*rejected, *self.allocate_missing(optional), *self.check_elements()]

    def check_elements(self) -> list[ast.stmt]:
        """Reject outputs with elements that share memory, if their strides are not constant.

        Those of outputs without gaps do not; about constant strides, ``conditions`` decide.
        """
        if self.options.skip_arg_checks:
            return []
        layouts = [
            arg
            for arg in self.host.outputs
            if variable_names(*(arg.strides or ())) and not has_no_gaps(arg)
        ]
        check = self.own(
            "elements", lambda builder: partial(reject_shared_elements, builder.checker.reject)
        )
        return [do(call(check, **_named(layouts)))] if layouts else []

    def allocate_missing(self, arrays: tuple[ArgumentInfo, ...]) -> list[ast.stmt]:
        """Allocate those of *arrays* that were not passed."""
        made = [(self.is_none(a.name), [assign(a.name, self.allocate(a))]) for a in arrays]
        if not made:
            return []
        if len(made) == 1:
            return [if_(made[0][0], [*self.check_extents(arrays), *made[0][1]])]
        each = [if_(is_missing, allocated) for is_missing, allocated in made]
        return [if_(any_of(test for test, _ in made), [*self.check_extents(arrays), *each])]

    def check_extents(self, arrays: tuple[ArgumentInfo, ...]) -> list[ast.stmt]:
        """Reject sizes with which one of *arrays* would have a negative extent."""
        extents = dict.fromkeys(extent for arg in arrays for extent in arg.shape or ())
        negative = [
            compare(from_expr(extent), "<", const(0))
            for extent in extents
            if not is_constant(extent)
        ]
        if not negative or self.options.skip_arg_checks:
            return []
        check = self.own("check", lambda builder: _with_dict(builder.checker.check))
        return [if_(any_of(negative), [do(call(check, **_named(self.host.passed)))])]

    def fill_value(self, arg: ArgumentInfo) -> ast.expr:
        """Return the initial value of a new output whose elements may stay unwritten."""
        if not arg.is_filled:
            return NONE
        name = arg.dtype.name if arg.dtype.fields is None else arg.name
        return self.known(f"fill_{name}", self.checker.fill_value(arg, self.options))

    def allocate(self, arg: ArgumentInfo) -> ast.expr:
        """Return the expression that makes a new array."""
        raise NotImplementedError

    def allocate_bytes(self, size: ast.expr) -> ast.expr:
        """Return the expression that makes memory of *size* bytes."""
        raise NotImplementedError

    def allocate_temporaries(self) -> list[ast.stmt]:
        """Allocate the memory of temporaries, which several may share."""
        statements: list[ast.stmt] = []
        if self.host.faults is not None:
            statements.append(assign(self.host.faults.name, self.allocate_faults(self.host.faults)))
        for buffer in self.host.buffers:
            first, *others = (arg.name for arg in buffer.temporaries)
            made = self.allocate_bytes(from_expr(p.Max((buffer.n_bytes, 0))))
            statements += [assign(first, made), *(assign(other, name(first)) for other in others)]
        return statements

    def allocate_faults(self, faults: Faults) -> ast.expr:
        """Return the expression for a new array in which guards record stray subscripts."""
        raise NotImplementedError

    def check_arrays(self, text: str, check: Callable[..., None], *more: Any) -> ast.stmt:
        """Return the statement that runs *check*, given a function for errors, on all arrays."""
        find = self.own(text, lambda builder: partial(check, builder.checker.reject, *more))
        return do(call(find, **_named(self.host.arrays)))

    def reject_faults(self, faults: Faults, noted: ast.expr) -> ast.stmt:
        """Return the statement that raises an error for faults that guards *noted*, if any."""
        function = partial(reject_faults, self.host.kernel, faults)
        return do(call(self.known("reject_faults", function), noted))

    def make_result(self, event: ast.expr) -> ast.stmt:
        """``return event, (out, ...)``, or a dict by name if the options request it."""
        outputs = [arg.name for arg in self.host.outputs]
        result: ast.expr
        if self.options.return_dict:
            result = ast.Dict([const(text) for text in outputs], [name(t) for t in outputs])
        else:
            result = tuple_(name(text) for text in outputs)
        return return_(tuple_([event, result]))

    # -- launches ---------------------------------------------------------------------------

    def take_steps(self, steps: Iterable[Step]) -> list[ast.stmt]:
        """Return the statements that make all launches, in the loops of the host."""
        body: list[ast.stmt] = []
        for step in steps:
            match step:
                case Launch():
                    number = self.host.launches.index(step)
                    body += self.launch(number, step)
                case HostLoop():
                    bounds = map(from_expr, (step.first, step.stop, step.step))
                    values = call(builtin("range"), *bounds)
                    variable = ast.Name(step.name, ast.Store())
                    body.append(ast.For(variable, values, self.take_steps(step.steps), []))
                case HostIf():
                    body.append(if_(from_expr(step.condition), self.take_steps(step.steps)))
        return body

    def launch(self, number: int, launch: Launch) -> list[ast.stmt]:
        """Return the statements that make one launch, of that *number*."""
        raise NotImplementedError

    def pass_parameter(self, text: str) -> ast.expr:
        """Return the argument of a device function for its parameter *text*."""
        if text in self.host.host_variables:
            return name(text)
        if text in self.host.offsets:
            return self.pass_offset(self.host.by_name[self.host.offsets[text]])
        arg = self.host.by_name[text]
        return self.pass_array(arg) if arg.is_array else name(text)

    def pass_array(self, arg: ArgumentInfo) -> ast.expr:
        """Return the argument of a device function for an array."""
        raise NotImplementedError

    def pass_offset(self, arg: ArgumentInfo) -> ast.expr:
        """Return the offset of an array, in elements; 0 if addresses include it."""
        return const(0)

    def is_launched(self, launch: Launch) -> ast.expr | None:
        """Return the condition that the grid is not empty; ``None`` if it never is."""
        tests = [compare(from_expr(size), ">", const(0)) for size in variable_extents(launch)]
        return all_of(tests) if tests else None


def _named(arguments: Iterable[ArgumentInfo]) -> dict[str, ast.expr]:
    """Return arguments as keywords of a call."""
    return {arg.name: name(arg.name) for arg in arguments}


def _function_of(value: Any) -> Any:
    """Return a function without its bound arguments; ``None`` for other objects."""
    return getattr(value, "func", value) if callable(value) else None


def _with_dict(function: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
    """Return *function* of a dict as one of named arguments."""
    return lambda **given: function(given)


def as_integer(value: Any) -> int:
    """Return an integer or truth value of any kind as Python's; raise TypeError for others."""
    return int(value) if isinstance(value, np.bool_) else index(value)


def is_fortran_ordered(strides: Sequence[Expr] | None) -> bool:
    """Tell whether the first of several axes is the one without gaps."""
    first = strides[0] if strides is not None and len(strides) > 1 else None
    return is_constant(first) and bool(first == 1)
