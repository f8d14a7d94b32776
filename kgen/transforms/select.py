"""The transformation decorator, selection of names, and validation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from enum import Enum
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar, cast

from pytools import UniqueNameGenerator

from kgen.errors import KernelError, TransformError, near_names
from kgen.ir.checked import check_arguments
from kgen.ir.data import ArrayArg, ArrayBase, Iname, ValueArg
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.match import parse_match
from kgen.ir.sets.effort import limited
from kgen.ir.unit import TranslationUnit, kernels_of

__all__ = [
    "InstructionTest",
    "Meaning",
    "NameTakenError",
    "NoSuchNameError",
    "NothingSelectedError",
    "Program",
    "Transform",
    "check_dependencies_exist",
    "check_ids_unique",
    "check_well_formed",
    "has_several_kernels",
    "matcher",
    "require_argument",
    "require_array",
    "require_iname",
    "require_inames",
    "require_instruction",
    "require_new_iname",
    "require_new_name",
    "split_names",
    "taken_names",
    "transform",
    "transform_of",
]

P = ParamSpec("P")
Program = TypeVar("Program", LoopKernel, TranslationUnit)
V = TypeVar("V")

#: Tells whether an instruction is selected.
InstructionTest = Callable[[InstructionBase], bool]


class NothingSelectedError(TransformError):
    """A kernel that contains nothing of the caller's selection.

    In a program of several kernels, such kernels stay as they are.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]")
    >>> lp.split_iname(unit, "i", 16, within="writes:b")
    Traceback (most recent call last):
        ...
    kgen.transforms.select.NothingSelectedError: in kernel 'kgen_kernel': 'within' selects no...
    """


class NameTakenError(TransformError, ValueError):
    """A new name that the kernel uses already; also a ``ValueError``."""


class NoSuchNameError(NothingSelectedError, KeyError, ValueError):
    """An iname, instruction, array... that the kernel does not have.

    Programs for loopy expect a ``KeyError`` or a ``ValueError``, depending on the transformation.

    >>> print(NoSuchNameError("mxm", "iname", "k_iner", ["k_inner", "k_outer"]))
    in kernel 'mxm': there is no iname 'k_iner'
      hint: did you mean 'k_inner', 'k_outer'?
    """

    __str__ = RuntimeError.__str__

    def __init__(self, kernel: str, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(known)
        hint = near_names(name, self.known)
        super().__init__(f"there is no {kind} '{name}'", kernel=kernel, hint=hint)


class Meaning(Enum):
    """How a transformation affects what a kernel computes, as the user wrote it.

    ``verify`` compares a kernel with its ``origin``: the kernel as it was written.

    >>> Meaning("changed")
    <Meaning.CHANGED: 'changed'>
    """

    #: the kernel computes the same: the origin stays
    KEPT = "kept"
    #: the user states an order: of what the origin has, too; the rest is about the code only
    STATED = "stated"
    #: the program changes, by intent: the origin in the same way; where that is impossible
    #: the result is the kernel as it was written
    CHANGED = "changed"
    #: where arrays are in memory changes: of arguments by intent, which is ``CHANGED``; nobody
    #: sees where temporaries are, which the origin may not even have, and that is ``KEPT``
    LAYOUT = "layout"
    #: the result is the kernel as it was written
    NEW = "new"


class Transform(Protocol[P]):
    """A function on kernels that also works on whole programs.

    >>> import kgen as lp
    >>> both: Transform[[str]] = transform(lambda kernel, name: kernel.copy(name=name))
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "a[i] = 1")
    >>> both(unit.default_entrypoint, "fill").name
    'fill'
    """

    __name__: str

    def __call__(self, program: Program, /, *args: P.args, **kwargs: P.kwargs) -> Program: ...


def transform(function: Callable[Concatenate[LoopKernel, P], LoopKernel]) -> Transform[P]:
    """Turn a function on kernels into a transformation that preserves what they compute.

    The result also works on a :class:`TranslationUnit`: on every kernel in it, or, if it
    names something, on those kernels that have it; :class:`NothingSelectedError` if none has.
    The changed kernel is checked with :func:`check_well_formed`.

    >>> import kgen as lp
    >>> @transform
    ... def run_last(kernel: LoopKernel, insn_id: str) -> LoopKernel:
    ...     last = require_instruction(kernel, insn_id)
    ...     rest = [insn for insn in kernel.instructions if insn is not last]
    ...     return kernel.copy(instructions=(*rest, last))
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", ["a[i] = 1 {id=one}", "b[i] = 2"])
    >>> [insn.id for insn in run_last(unit, "one").default_entrypoint.instructions]
    ['insn', 'one']
    """
    return _transform(function, Meaning.KEPT)


def transform_of(
    meaning: Meaning,
) -> Callable[[Callable[Concatenate[LoopKernel, P], LoopKernel]], Transform[P]]:
    """Turn a function on kernels into a transformation that may change what they compute.

    >>> import kgen as lp
    >>> @transform_of(Meaning.CHANGED)
    ... def without(kernel: LoopKernel, insn_id: str) -> LoopKernel:
    ...     gone = require_instruction(kernel, insn_id)
    ...     rest = [insn for insn in kernel.instructions if insn is not gone]
    ...     return kernel.copy(instructions=rest)
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", ["a[i] = 1 {id=one}", "b[i] = 2 {id=two}"])
    >>> tiled = lp.split_iname(unit, "i", 16)
    >>> print(*without(tiled, "one").default_entrypoint.origin.instructions)
    b[i] = 2  {id=two}
    """
    return lambda function: _transform(function, meaning)


#: The names of the first argument in loopy's documentation.
_FIRST: Final = ("kernel", "program", "t_unit")


def _transform(
    function: Callable[Concatenate[LoopKernel, P], LoopKernel], meaning: Meaning
) -> Transform[P]:
    first = function.__code__.co_varnames[0]

    @limited(function.__name__.lstrip("_"), TransformError)
    def on_kernel(kernel: LoopKernel, *args: P.args, **kwargs: P.kwargs) -> LoopKernel:
        changed = function(kernel, *args, **kwargs)
        if changed is kernel:
            return kernel
        if not isinstance(changed, LoopKernel):
            what = f"{function.__name__} returned {type(changed).__name__}, not a kernel"
            raise TransformError(what, hint="return kernel.copy(...)")
        check_well_formed(changed)
        is_unseen = meaning is Meaning.LAYOUT and changed.args == kernel.args
        if meaning is Meaning.KEPT or is_unseen:
            return changed.with_origin(kernel.written)
        if meaning is Meaning.NEW:
            return changed.with_origin(None)
        given, named = _kept(args), _kept(kwargs)
        origin = kernel.origin_after(
            lambda one: function(one, *given, **named).with_origin(None),
            may_fail=meaning is Meaning.STATED,
        )
        return changed.with_origin(origin)

    @functools.wraps(function)
    def apply(*args: Any, **kwargs: Any) -> Any:
        if not args:
            args = (kwargs.pop(next((n for n in (first, *_FIRST) if n in kwargs), first), None),)
        program = args[0]
        kernel = program.name if isinstance(program, LoopKernel) else None
        check_arguments(function, args, kwargs, skip=1, error=TransformError, kernel=kernel)
        if isinstance(program, LoopKernel):
            return on_kernel(program, *args[1:], **kwargs)
        if isinstance(program, TranslationUnit):
            return _on_unit(program, lambda kernel: on_kernel(kernel, *args[1:], **kwargs))
        raise TransformError(
            f"{function.__name__.lstrip('_')}: the first argument is a kernel or a program, "
            f"not {type(program).__name__}"
        )

    return cast("Transform[P]", apply)


def _kept(value: Any) -> Any:
    """Copy arguments that are lists, dicts or sets, since callers may change these later."""
    if type(value) in (list, tuple, set):
        return type(value)(map(_kept, value))
    if type(value) is dict:
        return {key: _kept(item) for key, item in value.items()}
    return value


def has_several_kernels(program: LoopKernel | TranslationUnit) -> bool:
    """Tell whether *program* is a unit of more than one kernel."""
    return len(kernels_of(program)) > 1


def _on_unit(unit: TranslationUnit, change: Callable[[LoopKernel], LoopKernel]) -> TranslationUnit:
    missing: list[NothingSelectedError] = []
    tried = 0

    def attempt(kernel: LoopKernel) -> LoopKernel:
        nonlocal tried
        tried += 1
        try:
            return change(kernel)
        except NothingSelectedError as err:
            missing.append(err)
            return kernel

    result = unit.map_kernels(attempt)
    if missing and len(missing) == tried:
        raise _merged(unit, missing)
    return result


def _merged(unit: TranslationUnit, errors: list[NothingSelectedError]) -> NothingSelectedError:
    """Merge the errors of all kernels into one, with the names that any of them has."""
    unnamed = [err for err in errors if isinstance(err, NoSuchNameError)]
    if len(errors) == 1 or len(unnamed) < len(errors):
        return errors[0]
    names = "', '".join(kernel.name for kernel in unit.kernels())
    known = sorted({name for err in unnamed for name in err.known})
    return NoSuchNameError(names, unnamed[0].kind, unnamed[0].name, known)


# -- names given by callers --------------------------------------------------------------------


def split_names(names: str | Iterable[str]) -> tuple[str, ...]:
    """Read ``"i, j"`` or several names, each once; those of a set in alphabetical order.

    >>> split_names("i, j"), split_names({"j", "i"})
    (('i', 'j'), ('i', 'j'))
    """
    items: Any = names.split(",") if isinstance(names, str) else names
    if isinstance(items, Set):
        items = sorted(items, key=str)
    items = tuple(items) if isinstance(items, Iterable) else (items,)
    for item in items:
        if not isinstance(item, str):
            raise TransformError(f"a name is text, not {item!r}\n  hint: 'i, j', or ['i', 'j']")
    return tuple(dict.fromkeys(name.strip() for name in items if name.strip()))


def matcher(kernel: LoopKernel, within: Any) -> InstructionTest:
    """Return the predicate for *within*: a match expression, a function of (kernel, insn), or None.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", ["a[i] = 1", "b[i] = 2"]).default_entrypoint
    >>> list(map(matcher(knl, "writes:b"), knl.instructions))
    [False, True]
    """
    if within is None:
        return lambda _: True
    test = parse_match(within)
    return lambda insn: test(kernel, insn)


def require_iname(kernel: LoopKernel, name: str) -> Iname:
    """Return the iname called *name*, or raise an error with similar names.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "a[i] = 1").default_entrypoint
    >>> require_iname(knl, "i").name
    'i'
    """
    return _require(kernel, "iname", name, kernel.inames)


def require_inames(kernel: LoopKernel, names: str | Iterable[str]) -> tuple[str, ...]:
    """Read names of inames, or raise an error with similar names.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i, j]: 0<=i,j<n }", "a[i, j] = 1").default_entrypoint
    >>> require_inames(knl, "j, i")
    ('j', 'i')
    """
    inames = split_names(names)
    for name in inames:
        require_iname(kernel, name)
    return inames


def require_instruction(kernel: LoopKernel, insn_id: str) -> InstructionBase:
    """Return the instruction called *insn_id*, or raise an error with similar names.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "a[i] = 1 {id=set}").default_entrypoint
    >>> print(require_instruction(knl, "set"))
    a[i] = 1  {id=set}
    """
    return _require(kernel, "instruction", insn_id, kernel.id_to_insn)


def require_array(kernel: LoopKernel, name: str) -> ArrayBase:
    """Return the argument or temporary array called *name*, or raise an error with similar names.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "<> t = a[i]").default_entrypoint
    >>> require_array(knl, "t").shape
    ()
    """
    return _require(kernel, "array", name, kernel.array_vars)


def require_argument(kernel: LoopKernel, name: str) -> ArrayArg | ValueArg:
    """Return the argument called *name*, or raise an error with similar names.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "<> t = a[i]").default_entrypoint
    >>> require_argument(knl, "t")
    Traceback (most recent call last):
        ...
    kgen.transforms.select.NoSuchNameError: in kernel 'kgen_kernel': there is no argument 't'...
    """
    return _require(kernel, "argument", name, kernel.arg_dict)


def _require(kernel: LoopKernel, kind: str, name: str, known: Mapping[str, V]) -> V:
    found = known.get(name)
    if found is None:
        raise NoSuchNameError(kernel.name, kind, name, known)
    return found


def taken_names(kernel: LoopKernel) -> frozenset[str]:
    """Return every name that a new iname or variable must not have, including rule arguments."""
    arguments = (name for rule in kernel.substitutions.values() for name in rule.arguments)
    return kernel.all_variable_names().union(arguments)


def new_names(kernel: LoopKernel, taken: Iterable[str] = ()) -> UniqueNameGenerator:
    """Return a generator of unused names for inames and variables, which also avoid *taken*.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "a[i] = 1").default_entrypoint
    >>> new_names(knl)("i")
    'i_0'
    """
    return UniqueNameGenerator({*taken_names(kernel), *taken})


def require_new_name(kernel: LoopKernel, name: str, taken: Collection[str] = ()) -> str:
    """Return *name*; raise an error if it is no identifier, or in use, also by *taken*.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "a[i] = 1").default_entrypoint
    >>> require_new_name(knl, "n")
    Traceback (most recent call last):
        ...
    kgen.transforms.select.NameTakenError: in kernel 'kgen_kernel': the name 'n' is taken...
    """
    return _require_free(kernel, name, taken_names(kernel).union(taken))


def require_new_iname(kernel: LoopKernel, name: str) -> str:
    """Return *name*, or raise an error; unlike others, names of rule arguments are allowed."""
    return _require_free(kernel, name, kernel.all_variable_names())


def _require_free(kernel: LoopKernel, name: str, taken: Collection[str]) -> str:
    if not name.isidentifier():
        raise TransformError(f"'{name}' is not a name")
    if name in taken:
        raise NameTakenError(
            f"the name '{name}' is taken",
            kernel=kernel.name,
            hint=f"kernel.get_var_name_generator()('{name}') finds a free one",
        )
    return name


# -- validity ------------------------------------------------------------------------------------


def check_well_formed(kernel: LoopKernel) -> None:
    """Reject a kernel that refers to undefined names.

    Domains and inames agree, ids are unique, loops around instructions and dependencies exist.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "a[i] = 1").default_entrypoint
    >>> check_well_formed(knl.copy(domains=(), inames=knl.inames))
    Traceback (most recent call last):
        ...
    kgen.errors.KernelError: in kernel 'kgen_kernel': 'i' is an iname or has a domain, but not both
    """
    inames = frozenset(kernel.inames)
    if inames != kernel.home_domain.keys():
        odd = sorted(inames ^ kernel.home_domain.keys())
        raise KernelError(
            f"'{odd[0]}' is an iname or has a domain, but not both", kernel=kernel.name
        )
    check_ids_unique(kernel)
    for insn in kernel.instructions:
        if not insn.within_inames <= inames:
            name = min(insn.within_inames - inames)
            raise KernelError(
                f"instruction '{insn.id}' is inside '{name}', which is not an iname",
                hint=near_names(name, inames),
            )
    check_dependencies_exist(kernel)


def check_ids_unique(kernel: LoopKernel) -> None:
    """Reject an instruction without an id, or with that of another one."""
    if len(kernel.id_to_insn) == len(kernel.instructions):
        return
    seen: set[str | None] = set()
    for insn in kernel.instructions:
        if insn.id is None or insn.id in seen:
            raise KernelError(f"the instruction id '{insn.id}' is not unique", kernel=kernel.name)
        seen.add(insn.id)


def check_dependencies_exist(kernel: LoopKernel) -> None:
    """Reject a dependency on an instruction that does not exist."""
    ids = frozenset(kernel.id_to_insn)
    for insn in kernel.instructions:
        if not insn.depends_on <= ids:
            name = min(insn.depends_on - ids)
            raise KernelError(
                f"instruction '{insn.id}' depends on '{name}', which does not exist",
                kernel=kernel.name,
                hint=near_names(name, ids),
            )
