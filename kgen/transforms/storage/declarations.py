"""Changing declarations: types, arguments, layouts, address spaces, options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pymbolic.primitives as p
from pytools.tag import Tag

from kgen.analysis.domains import rename_params
from kgen.errors import KernelError, TransformError, counted
from kgen.ir.checked import checked
from kgen.ir.closure import closure
from kgen.ir.data import ArrayArg, ArrayBase, TemporaryVariable, ValueArg, read_address_space
from kgen.ir.expr import variable_names
from kgen.ir.kernel import LoopKernel
from kgen.ir.options import make_options
from kgen.ir.tags import TagLike, to_tags
from kgen.ir.types import AddressSpace, read_type
from kgen.transforms.array_accesses import reject_elements_by_number
from kgen.transforms.expressions.variables import substitute_everywhere
from kgen.transforms.select import (
    Meaning,
    NoSuchNameError,
    Program,
    has_several_kernels,
    require_argument,
    require_array,
    require_new_name,
    split_names,
    transform,
    transform_of,
)
from kgen.transforms.storage.banks import swizzled
from kgen.transforms.uses import rules_of

__all__ = [
    "add_dtypes",
    "align_temporaries",
    "register_preamble_generators",
    "register_symbol_manglers",
    "remove_unused_arguments",
    "rename_argument",
    "set_argument_order",
    "set_array_axis_names",
    "set_launch_bounds",
    "set_options",
    "set_temporary_address_space",
    "tag_array_axes",
    "tag_arrays",
]


@checked
def add_dtypes(kernel: Program, dtype_dict: Any) -> Program:
    """Set the types of arguments and temporaries: ``{"a": ..., "b, c": ...}``.

    ::

        a: type: <auto/runtime>  =>  a: type: np:dtype('float32')

    Raises :class:`TransformError` for a name that is neither, or that has another type already.

    >>> import numpy as np
    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]")
    >>> add_dtypes(knl, {"a": np.float32}).default_entrypoint.arg_dict["a"].dtype
    np:dtype('float32')
    """
    program = kernel
    if not isinstance(dtype_dict, Mapping):
        raise TransformError(f"types are a map: {{'a': numpy.float64}}, not {dtype_dict!r}")
    dtypes: dict[str, Any] = {}
    for names, dtype in dtype_dict.items():
        for name in split_names(names):
            what = f"'{name}'"
            if read_type(dtypes.setdefault(name, dtype), what) != read_type(dtype, what):
                raise TransformError(f"'{name}' is given two types: {dtypes[name]}, {dtype}")
    if has_several_kernels(program):
        for name, dtype in dtypes.items():  # each must be in one kernel, not all in the same
            program = _add_dtypes(program, {name: dtype})
        return program
    return _add_dtypes(program, dtypes)


@transform_of(Meaning.CHANGED)
def _add_dtypes(kernel: LoopKernel, dtype_dict: Mapping[str, Any]) -> LoopKernel:
    known = {**kernel.arg_dict, **kernel.temporary_variables}
    changed: dict[str, Any] = {}
    for name, given in dtype_dict.items():
        declared = known.get(name)
        if declared is None:
            raise NoSuchNameError(kernel.name, "argument or temporary", name, known)
        dtype = read_type(given, f"'{name}'")
        if dtype is None or dtype == declared.dtype:
            continue
        if declared.dtype is not None:
            raise TransformError(
                f"'{name}' is declared as {declared.dtype} and cannot be {dtype}",
                hint="change the declaration in kernel_data",
            )
        changed[name] = declared.copy(dtype=dtype)
    return kernel.with_declarations(changed)


@transform_of(Meaning.CHANGED)
def set_options(kernel: LoopKernel, *args: Any, **kwargs: Any) -> LoopKernel:
    """Change options: ``set_options(kernel, write_code=True)`` or ``"write_code,no_numpy"``.

    Other options keep their values. See :class:`~kgen.ir.options.Options`.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", "a[i] = 0")
    >>> set_options(knl, return_dict=True).default_entrypoint.options.return_dict
    True
    """
    if args and (kwargs or len(args) > 1):
        raise TransformError("set_options takes one text, or options by name, not both")
    given = args[0] if args else kwargs
    return kernel.copy(options=make_options(given, kernel.options))


@checked
def set_launch_bounds(
    prog_or_kernel: Program,
    *,
    min_groups: int | None = None,
    max_registers: int | None = None,
    local_memory_share: int | None = None,
) -> Program:
    """Limit registers and local memory on CUDA; other targets stay as they are.

    :arg min_groups: how many work-groups a multiprocessor should hold at once; the compiler limits
        registers accordingly
    :arg max_registers: the maximum registers of a work-item
    :arg local_memory_share: the percentage of a multiprocessor's memory that should be local
        memory. The rest is the first cache, which also holds what is on its way. By default, CUDA
        makes room for as many work-groups as possible; kernels that gather need more cache. A
        work-group always has the local memory that it needs

    Arguments that are left out keep their values. All launches of the program are limited alike.

    ::

        void __launch_bounds__(256) f(...)  =>  void __launch_bounds__(256, 2) f(...)

    Raises :class:`KgenError` for numbers that are not positive, and for more than 100 percent.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]", target=lp.CudaTarget())
    >>> set_launch_bounds(knl, min_groups=2).target.min_groups
    2
    """
    given = {
        "min_groups": min_groups,
        "max_registers": max_registers,
        "local_memory_share": local_memory_share,
    }
    settings = {name: value for name, value in given.items() if value is not None}
    return prog_or_kernel.copy(target=prog_or_kernel.target.having(**settings))


# -- arguments -------------------------------------------------------------------------------


@transform_of(Meaning.CHANGED)
def set_argument_order(kernel: LoopKernel, arg_names: str | Sequence[str]) -> LoopKernel:
    """Sort all arguments in the order of *arg_names*.

    ::

        void f(float *a, int n, float *out)  =>  void f(float *out, float *a, int n)

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]")
    >>> [arg.name for arg in set_argument_order(knl, "out,a,n").default_entrypoint.args]
    ['out', 'a', 'n']
    """
    names = split_names(arg_names)
    args = tuple(require_argument(kernel, name) for name in names)
    left_out = [arg.name for arg in kernel.args if arg.name not in names]
    if left_out:
        raise TransformError(
            f"argument '{left_out[0]}' is not in the order '{', '.join(names)}'",
            hint=f"name all of {', '.join(repr(arg.name) for arg in kernel.args)}",
        )
    return kernel.copy(args=args)


@transform_of(Meaning.CHANGED)
def rename_argument(
    kernel: LoopKernel, old_name: str, new_name: str, existing_ok: bool = False
) -> LoopKernel:
    """Rename an argument wherever it occurs: instructions, rules, domains, shapes, assumptions.

    :arg existing_ok: *new_name* may already be an argument of the same type and shape, which
        replaces the old one

    ::

        out[i] = 2*a[i]  =>  out[i] = 2*b[i]

    >>> from kgen.frontend import make_kernel
    >>> knl = rename_argument(make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]"), "a", "b")
    >>> print(knl.default_entrypoint.instructions[0])
    out[i] = 2*b[i]  {id=insn}
    """
    old = require_argument(kernel, old_name)
    existing = kernel.arg_dict.get(new_name) if existing_ok else None
    if existing is None:
        require_new_name(kernel, new_name)
    elif old.copy(name=new_name) != existing:
        raise TransformError(
            f"argument '{old_name}' cannot become the existing '{new_name}'",
            because=f"they differ: {old}; {existing}",
        )
    renamed = kernel.copy(
        args=tuple(
            arg.copy(name=new_name) if arg is old else arg
            for arg in kernel.args
            if arg is not existing
        ),
        domains=tuple(rename_params(domain, {old_name: new_name}) for domain in kernel.domains),
        assumptions=rename_params(kernel.assumptions, {old_name: new_name}),
    )
    return substitute_everywhere(renamed, {old_name: p.Variable(new_name)})


@transform
def remove_unused_arguments(kernel: LoopKernel) -> LoopKernel:
    """Remove the arguments that no instruction, domain or shape uses.

    Uses in substitution rules count if an instruction uses the rule.

    >>> from kgen.frontend import make_kernel
    >>> from kgen.ir.data import GlobalArg
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", "a[i] = 0", [GlobalArg("b", shape="n"), "..."])
    >>> [arg.name for arg in remove_unused_arguments(knl).default_entrypoint.args]
    ['a']
    """
    rules = kernel.substitutions
    called = rules_of(rules, kernel.instructions)
    used = set(kernel.all_params())
    used.update(*(insn.dependency_names() for insn in kernel.instructions))
    used.update(*(variable_names(rules[name].expression) for name in called))
    arrays = kernel.array_vars
    used.update(kernel.temporary_variables)
    known = closure(used, lambda name: arrays[name].layout_names if name in arrays else ())
    args = tuple(arg for arg in kernel.args if arg.name in known)
    return kernel if len(args) == len(kernel.args) else kernel.copy(args=args)


# -- arrays ----------------------------------------------------------------------------------


@transform
def set_temporary_address_space(
    kernel: LoopKernel, temp_var_names: str | Iterable[str], address_space: AddressSpace | str
) -> LoopKernel:
    """Set address spaces: ``set_temporary_address_space(kernel, "a_temp", "local")``.

    :arg address_space: ``"private"``, ``"local"`` or ``"global"``, or an :class:`AddressSpace`

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", "<> t[i] = 2*i")
    >>> knl = set_temporary_address_space(knl, "t", "local")
    >>> knl.default_entrypoint.temporary_variables["t"].address_space.name
    'LOCAL'
    """
    space = read_address_space(address_space)
    changed = {
        name: _require_temporary(kernel, name).copy(address_space=space)
        for name in split_names(temp_var_names)
    }
    return kernel.with_declarations(changed)


@transform
def align_temporaries(
    kernel: LoopKernel, temp_var_names: str | Iterable[str], alignment: int
) -> LoopKernel:
    """Align temporaries to a number of bytes, so that whole vectors can be loaded from them.

    :arg temp_var_names: names, also as one text: ``"a_fetch,b_fetch"``
    :arg alignment: in bytes, a power of two

    ::

        __local float t[64];  =>  __local float t[64] __attribute__ ((aligned (16)));

    Raises :class:`TransformError` for an alignment that no compiler accepts.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", "<> t[i] = 2*i")
    >>> knl = align_temporaries(knl, "t", 16)
    >>> knl.default_entrypoint.temporary_variables["t"].alignment
    16
    """
    alignment = int(alignment)
    if alignment < 1 or alignment & (alignment - 1):
        raise TransformError(
            f"temporaries cannot be aligned to {alignment} bytes, which is not a power of two",
            hint=f"align_temporaries(kernel, ..., {1 << max(0, alignment - 1).bit_length()})",
        )
    changed = {
        name: _require_temporary(kernel, name).copy(alignment=alignment)
        for name in split_names(temp_var_names)
    }
    return kernel.with_declarations(changed)


def _require_temporary(kernel: LoopKernel, name: str) -> TemporaryVariable:
    found = kernel.temporary_variables.get(name)
    if found is None:
        raise NoSuchNameError(kernel.name, "temporary", name, kernel.temporary_variables)
    return found


@transform
def set_array_axis_names(
    kernel: LoopKernel, ary_names: str | Sequence[str], dim_names: str | Sequence[str]
) -> LoopKernel:
    """Name the axes of arrays, the same for all: ``set_array_axis_names(knl, "a", "row,column")``.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i,j]: 0<=i,j<4 }", "a[i,j] = 0")
    >>> set_array_axis_names(knl, "a", "x,y").default_entrypoint.arg_dict["a"].dim_names
    ('x', 'y')
    """
    names = split_names(dim_names)
    changed: dict[str, ArrayBase] = {}
    for ary_name in split_names(ary_names):
        array = require_array(kernel, ary_name)
        naxes = array.num_user_axes(require_answer=False)
        if naxes and naxes != len(names):
            raise TransformError(
                f"array '{ary_name}' has {counted(naxes, 'axis', 'axes')}, and the names "
                "of axes are "
                f"{len(names)}: {', '.join(names)}"
            )
        changed[ary_name] = array.copy(dim_names=names)
    return kernel.with_declarations(changed)


@transform
def tag_array_axes(kernel: LoopKernel, ary_names: str | Sequence[str], dim_tags: Any) -> LoopKernel:
    """Set the layout of arrays: ``tag_array_axes(kernel, "a", "N0,N1")`` is Fortran order.

    :arg dim_tags: ``"C"``, ``"F"``, or one tag per axis: ``N0`` for the contiguous axis,
        ``N1`` for the next, ``stride:EXPR``, ``sep``, ``vec``; or a map of these
        from the names of the axes. The names of axes of a prefetched array are its
        ``dim_arg_names``; axes of one element, which it does not have, may be named.
        ``"swizzle:128"`` is for a temporary in local memory, see below

    ::

        a: shape: (n, m), strides (m, 1)  =>  a: shape: (n, m), strides (1, n)

    A swizzle permutes the elements of each row of 128 bytes, or another power of two,
    in chunks, depending on the number of the row. The elements of a column are then in different
    banks, without padding. Chunks have 16, 8 or 4 bytes: the largest size that minimizes the passes
    of a warp over the banks, summed over all accesses::

        t[32*i + j]  =>  t[(32*i + j) ^ (i % 32)]    # chunks of one float

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i,j]: 0<=i<n and 0<=j<4 }", "a[i,j] = 0")
    >>> print(*tag_array_axes(knl, "a", "N0,N1").default_entrypoint.arg_dict["a"].dim_tags)
    N0:stride:1 N1:stride:n
    """
    changed: dict[str, ArrayBase] = {}
    for name in split_names(ary_names):
        array = require_array(kernel, name)
        if isinstance(dim_tags, str) and dim_tags.startswith("swizzle:"):
            changed[name] = swizzled(kernel, name, dim_tags.removeprefix("swizzle:"))
            continue
        if isinstance(array, TemporaryVariable):
            array = array.copy(swizzle=None)
        try:
            changed[name] = array.copy(dim_tags=_of_axes(kernel, array, dim_tags))
        except KernelError as err:
            raise TransformError(
                f"array '{name}' cannot be laid out as '{dim_tags}'",
                because=str(err).splitlines()[0],
            ) from None
        reject_elements_by_number(kernel, array, changed[name])
    return kernel.with_declarations(changed)


@transform
def tag_arrays(kernel: LoopKernel, ary_names: str | Sequence[str], new_tag: TagLike) -> LoopKernel:
    """Add a tag to arrays: a hint for their loads, or any word, to find them by later.

    :arg new_tag: ``"!streaming_load"`` for arguments whose elements are each read about once, so
        that caches keep what is read again; see :class:`~kgen.UseStreamingLoadTag`

    ::

        values[k]*x[columns[k]]  =>  __ldcs(&values[k])*x[__ldcs(&columns[k])]

    Raises :class:`TransformError` for a name that is no array, and :class:`KernelError` for a hint
    that is not for arrays, or not for temporaries.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [k]: 0<=k<n }", "out[k] = values[k]*x[columns[k]]",
    ...     [lp.GlobalArg("values, x", "float32", shape="n"),
    ...      lp.GlobalArg("columns", "int32", shape="n"), ...], target=lp.CudaTarget())
    >>> print(lp.generate_body(tag_arrays(knl, "values, columns", "!streaming_load")))
      for (int k = 0; k < n; ++k)
        out[k] = __ldcs(&values[k]) * x[__ldcs(&columns[k])];
    """
    tags: frozenset[Tag] = to_tags(new_tag)
    arrays = [require_array(kernel, name) for name in split_names(ary_names)]
    return kernel.with_declarations(
        {array.name: array.copy(tags=array.tags | tags) for array in arrays}
    )


def _of_axes(kernel: LoopKernel, array: ArrayBase, dim_tags: Any) -> Any:
    """Return tags by the names of axes, without inames of one value, which have no axis."""
    if not isinstance(dim_tags, Mapping):
        return dim_tags
    known = array.dim_names or ()

    def is_single(name: str) -> bool:
        if name in known or name not in kernel.inames:
            return False
        values = kernel.get_iname_bounds(name).interval
        return values.low is not None and values.low == values.high

    return {name: tag for name, tag in dim_tags.items() if not is_single(name)}


# -- extension points --------------------------------------------------------------------------


@transform
def register_preamble_generators(
    kernel: LoopKernel, preamble_generators: Iterable[Callable[..., Any]]
) -> LoopKernel:
    """Add functions that generate code before the kernel: ``f(preamble_info)``.

    Each yields pairs ``(sort_key, code)``; equal pairs are written once.

    ::

        void kgen_kernel(...)  =>  #include <special.h>
                                   void kgen_kernel(...)

    >>> from kgen.frontend import make_kernel
    >>> def include_special(info):
    ...     yield "special", "#include <special.h>"
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", "a[i] = 0")
    >>> knl = register_preamble_generators(knl, [include_special])
    >>> len(knl.default_entrypoint.preamble_generators)
    1
    """
    new = _not_in(preamble_generators, kernel.preamble_generators)
    return kernel.copy(preamble_generators=(*kernel.preamble_generators, *new))


@transform
def register_symbol_manglers(
    kernel: LoopKernel, manglers: Iterable[Callable[..., Any]]
) -> LoopKernel:
    """Add functions that give types to undeclared names: ``f(kernel, name)``.

    Each returns ``(dtype, name in the code)`` or ``None``; the last one added is tried first.
    A name that was inferred to be an argument, without a type, is no longer an argument if a
    mangler recognizes it.

    ::

        a[i] = pi    # pi is an argument  =>  a[i] = M_PI;

    >>> import numpy as np
    >>> from kgen.frontend import make_kernel
    >>> from kgen.targets.c import CTarget
    >>> from kgen.codegen import generate_body
    >>> def explain_pi(kernel, name):
    ...     return (np.dtype(np.float64), "M_PI") if name == "pi" else None
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", "a[i] = pi", target=CTarget())
    >>> print(generate_body(register_symbol_manglers(knl, [explain_pi])))
      for (int i = 0; i < 4; ++i)
        a[i] = M_PI;
    """
    new = _not_in(manglers, kernel.symbol_manglers)
    asked = kernel.copy(symbol_manglers=new)

    def is_explained(arg: ArrayArg | ValueArg) -> bool:
        is_guess = isinstance(arg, ValueArg) and arg.dtype is None
        return is_guess and asked.mangled_symbol(arg.name) is not None

    return kernel.copy(
        args=tuple(arg for arg in kernel.args if not is_explained(arg)),
        symbol_manglers=(*new, *kernel.symbol_manglers),
    )


def _not_in(
    given: Iterable[Callable[..., Any]], known: Sequence[Callable[..., Any]]
) -> tuple[Callable[..., Any], ...]:
    return tuple(f for f in dict.fromkeys(given) if f not in known)
