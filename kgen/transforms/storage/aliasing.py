"""Temporaries that share storage, one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pymbolic.primitives as p

from kgen.errors import TransformError
from kgen.ir.affine import simplify
from kgen.ir.data import TemporaryVariable, read_address_space
from kgen.ir.expr import Expr, is_constant
from kgen.ir.instruction import CInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.types import AddressSpace, NumpyType, auto, to_kgen_type
from kgen.transforms.select import split_names, transform
from kgen.transforms.storage.privatize import chosen_temporaries, users_of

__all__ = ["alias_temporaries", "allocate_temporaries_for_base_storage"]


@transform
def alias_temporaries(
    kernel: LoopKernel,
    names: str | Iterable[str],
    base_name_prefix: str | None = None,
    synchronize_for_exclusive_use: bool = True,
) -> LoopKernel:
    """Place private or local temporaries in shared storage, as large as the largest.

    Their live ranges must not overlap: scheduling rejects an order in which one is read
    after another one overwrote it, and inserts barriers for the storage, not for each temporary.

    :arg base_name_prefix: the prefix of the name of the storage
    :arg synchronize_for_exclusive_use: where dependencies leave a choice, run no instruction that
        uses one of them between instructions that use another one

    ::

        a: type: float32, shape: (16)          union { float a[16]; int b[8]; } temp_storage
        b: type: int32, shape: (8)       =>

    Raises :class:`TransformError` for temporaries that already have storage, have initial values,
    or are in global memory, and for an instruction that uses two of them.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", ["<> s = a[i]", "b[i] = s", "<> t = c[i]", "d[i] = t"])
    >>> knl = alias_temporaries(knl, "s, t").default_entrypoint
    >>> sorted(t.base_storage for t in knl.temporary_variables.values())
    ['temp_storage', 'temp_storage']
    """
    chosen = chosen_temporaries(kernel, split_names(names))
    for temporary in chosen.values():
        _check(temporary)
    users = users_of(kernel, chosen)
    new_name = kernel.get_var_name_generator()
    base: str = new_name(base_name_prefix or "temp_storage")
    groups = {name: f"{base}_{name}" for name in chosen}
    using: dict[str, list[str]] = {}
    for name in chosen:
        for user in users.get(name, ()):
            using.setdefault(str(user.id), []).append(name)
            if isinstance(user, CInstruction):
                raise TransformError(
                    f"temporary '{name}' is used in the C code of instruction '{user.id}'",
                    because="a temporary in shared storage is renamed",
                )
    for insn_id, several in using.items():
        if len(several) > 1:
            raise TransformError(
                f"instruction '{insn_id}' uses '{several[0]}' and '{several[1]}' at once",
                hint="leave one of them out",
            )
    changed = {name: t.copy(base_storage=base) for name, t in chosen.items()}
    kernel = kernel.with_declarations(changed)
    if not synchronize_for_exclusive_use:
        return kernel

    def grouped(insn: InstructionBase) -> InstructionBase:
        mine = using.get(str(insn.id))
        if mine is None:
            return insn
        others = {group for name, group in groups.items() if name not in mine}
        return insn.copy(
            groups=insn.groups | {groups[mine[0]]},
            conflicts_with_groups=insn.conflicts_with_groups | others,
        )

    return kernel.map_instructions(grouped)


def _check(temporary: TemporaryVariable) -> None:
    because = None
    if temporary.base_storage is not None:
        because = f"it is in storage '{temporary.base_storage}'"
    elif temporary.initializer is not None:
        because = "it has initial values"
    elif temporary.address_space == AddressSpace.GLOBAL:
        because = "it is in global memory, which callers and the runtime allocate"
    if because is not None:
        raise TransformError(
            f"temporary '{temporary.name}' cannot share storage",
            because=because,
            hint="leave it out",
        )


@transform
def allocate_temporaries_for_base_storage(
    kernel: LoopKernel,
    only_address_space: Any = None,
    aliased: bool = True,
    max_nbytes: int | None = None,
) -> LoopKernel:
    """Declare each shared storage of temporaries as a temporary of bytes.

    Generated code always declares shared storage, as large as its used part. This makes the
    size of the whole storage a part of the kernel.

    :arg only_address_space: an :class:`AddressSpace`: only storage there
    :arg aliased: whether temporaries in one storage use the same bytes, one after the
        other; otherwise each temporary gets its own storage
    :arg max_nbytes: the maximum bytes of a storage

    Raises :class:`TransformError` while the type, shape or address space of a temporary is unknown,
    and for a storage of more than *max_nbytes*.

    >>> import numpy as np
    >>> from kgen.frontend import make_kernel
    >>> temps = [TemporaryVariable(n, np.float32, shape=4, base_storage="st",
    ...                            address_space=AddressSpace.PRIVATE) for n in "st"]
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", ["s[i] = 1", "t[i] = 2"], [*temps, "..."])
    >>> knl = allocate_temporaries_for_base_storage(knl).default_entrypoint
    >>> print(knl.temporary_variables["st"])
    st: type: np:dtype('uint8'), shape: (16), dim_tags: (N0:stride:1) aspace: private
    """
    wanted = None if only_address_space is None else read_address_space(only_address_space)
    sizes: dict[str, Any] = {}
    spaces: dict[str, Any] = {}
    moved: dict[str, TemporaryVariable] = {}
    new_name = kernel.get_var_name_generator()
    for name, temporary in sorted(kernel.temporary_variables.items()):
        base = temporary.base_storage
        if base is None or base in kernel.temporary_variables:
            continue
        space = temporary.address_space
        if wanted is not None and space not in (wanted, auto):
            continue
        if space is auto or spaces.setdefault(base, space) != space:
            raise TransformError(
                f"the address space of storage '{base}' is not known",
                because=f"of '{name}' it says {AddressSpace.stringify(space)}",
                hint="preprocess_kernel finds it, set_temporary_address_space sets it",
            )
        if not aliased and base in sizes:
            base = new_name(f"{base}_0")
            spaces[base] = space
            moved[name] = temporary.copy(base_storage=base)
        sizes[base] = _larger(sizes.get(base, 0), _size(temporary))
        if max_nbytes is not None and is_constant(sizes[base]) and sizes[base] > max_nbytes:
            raise TransformError(
                f"storage '{base}' needs {sizes[base]} bytes for temporary '{name}', more "
                f"than max_nbytes={max_nbytes}",
                hint=f"give '{name}' separate storage, or a smaller shape",
            )
    added = {
        base: TemporaryVariable(
            base, dtype=to_kgen_type("uint8"), shape=(size,), address_space=spaces[base]
        )
        for base, size in sizes.items()
    }
    if not added:
        return kernel
    return kernel.copy(temporary_variables={**kernel.temporary_variables, **moved, **added})


def _larger(one: Expr, other: Expr) -> Expr:
    """Return the larger one of two sizes."""
    if is_constant(one) and is_constant(other):
        return max(one, other)
    if one == other or (is_constant(one) and one == 0):
        return other
    return p.Max((one, other))


def _size(temporary: TemporaryVariable) -> Expr:
    """Return the size of a temporary in bytes; global temporaries may have any size."""
    shape = temporary.shape
    is_known = isinstance(temporary.dtype, NumpyType) and isinstance(shape, tuple)
    strides = temporary.fixed_strides if is_known else ()
    has_any_size = temporary.address_space == AddressSpace.GLOBAL and auto not in (shape or ())
    if not is_known or not (has_any_size or all(isinstance(n, int) for n in (*shape, *strides))):
        raise TransformError(
            f"the size of temporary '{temporary.name}' is not known",
            because=str(temporary),
            hint="preprocess_kernel finds types and shapes, fix_parameters makes sizes numbers",
        )
    elements = 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    return simplify(elements * temporary.dtype.itemsize)
