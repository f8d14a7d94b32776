"""A program: kernels that can call each other, and its entry points."""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from constantdict import constantdict

from kgen.errors import InvalidValueError, InvocationError, KernelError, near_names
from kgen.ir.arg_descriptors import ArgDescriptor, ArrayArgDescriptor, ValueArgDescriptor
from kgen.ir.callables import InKernelCallable
from kgen.ir.checked import check_fields, unfit
from kgen.ir.closure import closure
from kgen.ir.data import ArrayArg, ValueArg
from kgen.ir.digest import Digested, digest
from kgen.ir.fields import stored_fields, stored_values
from kgen.ir.kernel import KernelState, LoopKernel
from kgen.ir.optional import load
from kgen.ir.tags import GroupInameTag, LocalInameTag
from kgen.ir.target import TargetBase
from kgen.ir.types import auto


class NoSuchKernelError(KernelError, KeyError):
    """A name that no kernel of a program has."""

    __str__ = Exception.__str__


@dataclass(frozen=True)
class CallableKernel(InKernelCallable):
    """A kernel that other kernels call.

    >>> import kgen as lp
    >>> unit = lp.make_function("{ [i]: 0<=i<4 }", "y[i] = 2*x[i]", name="double")
    >>> unit.callables_table["double"].subkernel.name
    'double'
    """

    subkernel: LoopKernel

    @property
    def name(self) -> str:
        """The name that calls use."""
        return self.subkernel.name

    def with_name(self, name: str) -> CallableKernel:
        """Return this for calls by *name*."""
        return self.copy(subkernel=self.subkernel.copy(name=name))

    def is_type_specialized(self) -> bool:
        """Tell whether all arguments have types."""
        return all(arg.dtype not in (None, auto) for arg in self.subkernel.args)

    def is_ready_for_codegen(self) -> bool:
        """Tell whether the types and shapes of all arguments are known."""
        return self.arg_id_to_dtype is not None and self.arg_id_to_descr is not None

    @property
    def arg_id_to_dtype(self) -> Mapping[int | str, Any] | None:
        """Types by name and by position: 0, 1... of inputs, -1, -2... of outputs.

        ``None`` until the kernel has all types; the types of a call are known when it is inlined.

        >>> import kgen as lp
        >>> data = [lp.GlobalArg("x, y", "f4", shape=4)]
        >>> unit = lp.make_function("{ [i]: 0<=i<4 }", "y[i] = 2*x[i]", data, name="double")
        >>> sorted(unit.callables_table["double"].arg_id_to_dtype, key=str)
        [-1, 0, 'x', 'y']
        """
        if not self.is_type_specialized():
            return None
        types: dict[int | str, Any] = {arg.name: arg.dtype for arg in self.subkernel.args}
        types.update((k, types[name]) for k, name in self._positions().items())
        return constantdict(types)

    @property
    def arg_id_to_descr(self) -> Mapping[int | str, ArgDescriptor] | None:
        """Shapes and layouts by position, as in ``arg_id_to_dtype``.

        ``None`` until the shapes of all arrays are known.

        >>> import kgen as lp
        >>> unit = lp.make_function("{ [i]: 0<=i<4 }", "y[i] = c*x[i]", name="scale")
        >>> descriptors = unit.callables_table["scale"].arg_id_to_descr
        >>> descriptors[1].shape, descriptors[0]
        ((4,), ValueArgDescriptor())
        """
        args = self.subkernel.arg_dict
        arrays = [arg for arg in args.values() if isinstance(arg, ArrayArg)]
        if not all(isinstance(arg.shape, tuple) for arg in arrays):
            return None
        return constantdict({k: _described(args[name]) for k, name in self._positions().items()})

    def _positions(self) -> dict[int, str]:
        inputs, outputs = inputs_and_outputs(self.subkernel)
        return {**dict(enumerate(inputs)), **{-1 - k: name for k, name in enumerate(outputs)}}

    def get_called_callables(
        self, callables_table: Mapping[str, InKernelCallable], recursive: bool = True
    ) -> frozenset[str]:
        """Return the names in *callables_table* that this calls, or with *recursive* reaches.

        >>> import kgen as lp
        >>> inner = lp.make_function("{ [i]: 0<=i<4 }", "y[i] = 2*x[i]", name="double")
        >>> outer = lp.make_kernel("{ : }", "b[:] = double(a[:])", [lp.GlobalArg("a, b", shape=4)])
        >>> table = lp.merge([inner, outer]).callables_table
        >>> table["kgen_kernel"].get_called_callables(table)
        frozenset({'double'})
        """
        insns = self.subkernel.instructions
        direct = frozenset[str]().union(*(insn.mentioned for insn in insns)) & set(callables_table)
        if not recursive:
            return direct
        return frozenset(
            closure(
                direct,
                lambda name: callables_table[name].get_called_callables(callables_table, False),
            )
        )

    def get_used_hw_axes(
        self, callables_table: Mapping[str, InKernelCallable]
    ) -> tuple[frozenset[int], frozenset[int]]:
        """Return the work-group and work-item axes that this and its callees use."""
        tags = [tag for iname in self.subkernel.inames.values() for tag in iname.tags]
        groups = frozenset(tag.axis for tag in tags if isinstance(tag, GroupInameTag))
        items = frozenset(tag.axis for tag in tags if isinstance(tag, LocalInameTag))
        for name in self.get_called_callables(callables_table, recursive=False):
            used = callables_table[name].get_used_hw_axes(callables_table)
            groups, items = groups | used[0], items | used[1]
        return groups, items


@dataclass(frozen=True, kw_only=True, eq=False)
class TranslationUnit(Digested):
    """Kernels and functions by name; callers can launch the ``entrypoints``.

    ``unit["name"]`` is a kernel, ``unit(queue, a=...)`` runs the only entry point.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]", name="double")
    >>> sorted(unit.entrypoints), unit["double"] is unit.default_entrypoint
    (['double'], True)
    """

    callables_table: Mapping[str, InKernelCallable]
    entrypoints: frozenset[str]
    target: TargetBase

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "callables_table", constantdict(self.callables_table))
            object.__setattr__(self, "entrypoints", frozenset(self.entrypoints))
        finally:
            check_fields(TranslationUnit, vars(self), stored_fields(TranslationUnit))
        for name in sorted(self.entrypoints):
            if name not in self.callables_table:
                raise KernelError(
                    f"there is no kernel '{name}' to start\n"
                    f"  hint: {near_names(name, self.callables_table)}"
                )

    def copy(self, **changes: Any) -> TranslationUnit:
        """Return this program with some fields changed; a new ``target`` is set for every kernel.

        So does ``origin=None``, which makes each kernel its own origin (:func:`verify`).
        """
        of_kernels = {name: changes[name] for name in ("target", "origin") if name in changes}
        changes.pop("origin", None)
        unit = dataclasses.replace(self, **changes)
        return unit.map_kernels(lambda kernel: kernel.copy(**of_kernels)) if of_kernels else unit

    def code_digest(self) -> str:
        """Return the SHA-256 of everything that determines code: all but the kernels' origins."""
        table = {
            name: item.subkernel.code_digest() if isinstance(item, CallableKernel) else item
            for name, item in self.callables_table.items()
        }
        return digest((table, self.entrypoints, self.target))

    def __getstate__(self) -> dict[str, Any]:
        """Pickle and copy what the program is, without what has been compiled for it."""
        return stored_values(self)

    # -- kernels --------------------------------------------------------------------------

    def __getitem__(self, name: Any) -> LoopKernel:
        found = self.callables_table.get(name) if isinstance(name, str) else None
        if not isinstance(found, CallableKernel):
            known = [kernel.name for kernel in self.kernels()]
            raise NoSuchKernelError(
                f"there is no kernel {name!r}\n  hint: {near_names(str(name), known)}"
            )
        return found.subkernel

    def __contains__(self, name: object) -> bool:
        return name in self.callables_table

    def kernels(self) -> Iterator[LoopKernel]:
        """Return all kernels by name, entry points and called ones."""
        for _, item in sorted(self.callables_table.items()):
            if isinstance(item, CallableKernel):
                yield item.subkernel

    @property
    def state(self) -> KernelState:
        """The earliest :attr:`LoopKernel.state` of the kernels."""
        return min((kernel.state for kernel in self.kernels()), default=KernelState.INITIAL)

    @property
    def default_entrypoint(self) -> LoopKernel:
        """The only entry point; raises an error if there are several."""
        if not self.entrypoints:
            raise KernelError(
                "the program has no entry point, only functions that kernels call\n"
                "  hint: merge it with a kernel that does, or unit.with_entrypoints('name')"
            )
        if len(self.entrypoints) != 1:
            raise InvalidValueError(
                f"the program has {len(self.entrypoints)} entry points: "
                f"{', '.join(sorted(self.entrypoints))}\n"
                "  hint: choose one with unit['name'], or unit.with_entrypoints('name')"
            )
        (name,) = self.entrypoints
        return self[name]

    def with_kernel(self, kernel: LoopKernel) -> TranslationUnit:
        """Add *kernel*, replacing a kernel of the same name."""
        table = dict(self.callables_table)
        table[kernel.name] = CallableKernel(kernel)
        return dataclasses.replace(self, callables_table=table)

    def with_entrypoints(self, entrypoints: Any) -> TranslationUnit:
        """Set the entry points, which callers may launch."""
        names = entrypoints.split(",") if isinstance(entrypoints, str) else entrypoints
        return dataclasses.replace(self, entrypoints=frozenset(n.strip() for n in names))

    def map_kernels(self, change: Callable[[LoopKernel], LoopKernel]) -> TranslationUnit:
        """Apply *change* to every kernel; returns the same unit if nothing changes."""
        table = dict(self.callables_table)
        changed = False
        for name, item in self.callables_table.items():
            if isinstance(item, CallableKernel):
                kernel = change(item.subkernel)
                if kernel is not item.subkernel:
                    table[name] = CallableKernel(kernel)
                    changed = True
        if not changed:
            return self
        unit = object.__new__(type(self))  # of the same names: there is nothing to check
        state = stored_values(self)
        vars(unit).update(state, callables_table=constantdict(table))
        return unit

    # -- text, running -------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<program: {', '.join(map(repr, self.kernels()))}>"

    def __str__(self) -> str:
        return "\n".join(str(kernel) for kernel in self.kernels())

    def _repr_html_(self) -> str:
        """Show the program in a notebook: loops, arrays, instructions, code."""
        return str(load("kgen.notebook.kernels", "notebook").program_html(self))

    @cached_property
    def _executors(self) -> dict[Any, Any]:
        return {}

    def executor(self, *args: Any, entrypoint: Any = None, **kwargs: Any) -> Any:
        """Return the executor of one entry point; *args* are the target's: a queue, a context...

        The same arguments give the same executor, which keeps its compiled code. It serves all
        calls; the keyword arguments of a call may be given as well, and are only checked to be
        arguments of the kernel.
        """
        name = entrypoint or self.default_entrypoint.name
        if not isinstance(name, str) or name not in self.entrypoints:
            raise InvocationError(
                f"{name!r} is not an entry point of the program",
                hint=near_names(str(name), self.entrypoints)
                + " (unit.with_entrypoints chooses others)",
            )
        found = self.target.load_runtime().executor_for(self._executors, self, name, *args)
        if kwargs:
            found.check_arguments(kwargs)
        return found

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel: ``evt, (out,) = knl(queue, a=x)``, or ``knl(a=x)`` on the host."""
        entrypoint = kwargs.pop("entrypoint", None)
        if entrypoint is not None and not isinstance(entrypoint, str):
            raise InvocationError(
                f"entrypoint= is the name of a kernel, not {reprlib.repr(entrypoint)}",
                hint="where a kernel has an argument 'entrypoint': "
                "rename_argument(knl, 'entrypoint', ...)",
            )
        return self.executor(*args[:1], entrypoint=entrypoint)(*args, **kwargs)


def inputs_and_outputs(callee: LoopKernel) -> tuple[list[str], list[str]]:
    """Return the arguments that calls pass, in order, and those to which the results go."""
    inputs = [arg.name for arg in callee.args if isinstance(arg, ValueArg) or arg.is_input]
    outputs = [arg.name for arg in callee.args if isinstance(arg, ArrayArg) and arg.is_output]
    return inputs, outputs


def _described(arg: Any) -> ArgDescriptor:
    if isinstance(arg, ValueArg):
        return ValueArgDescriptor()
    return ArrayArgDescriptor(arg.shape, arg.address_space, arg.dim_tags)


def kernel_of(program: TranslationUnit | LoopKernel) -> LoopKernel:
    """Return a kernel itself, or the default entry point of a program."""
    return program.default_entrypoint if isinstance(program, TranslationUnit) else program


def kernels_of(program: TranslationUnit | LoopKernel) -> tuple[LoopKernel, ...]:
    """Return a kernel itself, or all those of a program."""
    return tuple(program.kernels()) if isinstance(program, TranslationUnit) else (program,)


def for_each_kernel(
    transform: Callable[..., LoopKernel],
) -> Callable[..., TranslationUnit | LoopKernel]:
    """Turn a function on kernels into one on programs, applied to each kernel.

    >>> import kgen as lp
    >>> @for_each_kernel
    ... def renamed(kernel, prefix):
    ...     return lp.rename_iname(kernel, "i", prefix + "i")
    >>> unit = renamed(lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]"), "my_")
    >>> print(unit["kgen_kernel"].instructions[0])
    out[my_i] = 2*a[my_i]  {id=insn}
    """
    if isinstance(transform, TranslationUnit) or not callable(transform):
        raise unfit("function to apply to each kernel", "a function on kernels", transform)
    name = getattr(transform, "__name__", repr(transform))

    def apply(unit: TranslationUnit | LoopKernel, *args: Any, **kwargs: Any) -> Any:
        if isinstance(unit, TranslationUnit):
            return unit.map_kernels(lambda kernel: transform(kernel, *args, **kwargs))
        if not isinstance(unit, LoopKernel):
            raise unfit(f"argument of '{name}'", "a program or a kernel", unit)
        return transform(unit, *args, **kwargs)

    apply.__name__ = name
    apply.__doc__ = transform.__doc__
    return cast("Callable[..., TranslationUnit | LoopKernel]", apply)
