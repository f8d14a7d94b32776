"""Packing sub-arrays into contiguous temporaries around calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

import pymbolic.primitives as p

from kgen.analysis.domains import domains_of_copies, set_where
from kgen.errors import TransformError, near_names
from kgen.ir.affine import simplify
from kgen.ir.assignee import assignee_name
from kgen.ir.checked import checked
from kgen.ir.data import ArrayArg, Iname, TemporaryVariable, ValueArg
from kgen.ir.expr import Expr, SubArrayRef, is_zero, minus, substitute, to_text
from kgen.ir.instruction import Assignment, CallInstruction, InstructionBase, assign_beside
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import BasicSet
from kgen.ir.sets.domain import as_basic_set
from kgen.ir.unit import CallableKernel, TranslationUnit
from kgen.transforms.programs.inline import calls_of
from kgen.transforms.select import check_well_formed, new_names, split_names

__all__ = ["pack_and_unpack_args_for_call"]


@checked
def pack_and_unpack_args_for_call(
    t_unit: TranslationUnit,
    call_name: str,
    args_to_pack: str | Iterable[str] | None = None,
    args_to_unpack: str | Iterable[str] | None = None,
) -> TranslationUnit:
    """Make the calls of a kernel use contiguous copies of their array arguments.

    :arg call_name: the kernel that is called
    :arg args_to_pack: the arguments that are copied before the call; all by default. Names are
        those of the arrays that calls pass, or of the arguments of the called kernel
    :arg args_to_unpack: the arguments that are copied back; all by default

    ::

                                                  x_pack[j] = x[2*j]
        [i]: y[2*i] = f([j]: x[2*j])    =>        [i]: y_pack[i] = f([j]: x_pack[j])
                                                  y[2*i] = y_pack[i]

    Raises :class:`TransformError` if nothing calls it, and for names that are neither.

    >>> from kgen.frontend import make_function, make_kernel
    >>> from kgen.transforms.programs.callables import merge
    >>> f = make_function("{ [i]: 0<=i<4 }", "y[i] = 3*x[i]", name="f")
    >>> knl = make_kernel("{ [i,j]: 0<=i,j<4 }", "[i]: y[2*i] = f([j]: x[2*j])")
    >>> knl = pack_and_unpack_args_for_call(merge([knl, f]), "f", args_to_unpack=())
    >>> for insn in knl.default_entrypoint.instructions:
    ...     print(insn)
    x_pack[j_0] = x[2*j_0]  {id=insn_x_pack}
    [i]: y[2*i] = f([j]: x_pack[j])  {id=insn}

    If the numbers of axes differ, and the numbers of elements are equal, the copy has the shape of
    the argument of the called kernel.
    """
    if not isinstance(t_unit.callables_table.get(call_name), CallableKernel):
        kernels = [kernel.name for kernel in t_unit.kernels()]
        raise TransformError(
            f"there is no kernel '{call_name}' in the program\n  hint: "
            f"{near_names(call_name, kernels)}"
        )
    callee = t_unit[call_name]
    inputs = tuple(a.name for a in callee.args if isinstance(a, ValueArg) or a.is_input)
    outputs = tuple(a.name for a in callee.args if isinstance(a, ArrayArg) and a.is_output)
    packed, unpacked = (
        None if given is None else split_names(given) for given in (args_to_pack, args_to_unpack)
    )
    known = {*inputs, *outputs}
    found = False

    def change(kernel: LoopKernel) -> LoopKernel:
        nonlocal found
        for insn_id in [str(insn.id) for insn, name in calls_of(kernel) if name == call_name]:
            found = True
            packing = _Packing(kernel, kernel.id_to_insn[insn_id])
            operands, results = packing.passed(inputs, outputs)
            known.update(operands.values(), results.values())
            kernel = packing.result(
                {inputs.index(a): callee.arg_dict[a] for a in _chosen(operands, packed)},
                {outputs.index(a): callee.arg_dict[a] for a in _chosen(results, unpacked)},
            )
        return kernel

    changed = t_unit.map_kernels(change)
    if not found:
        raise TransformError(f"no kernel of the program calls '{call_name}'")
    for name in (*(packed or ()), *(unpacked or ())):
        if name not in known:
            raise TransformError(
                f"'{name}' is not an argument of '{call_name}', and no call passes it\n  hint: "
                f"{near_names(name, sorted(known))}"
            )
    return changed


def _chosen(passed: Mapping[str, str], wanted: tuple[str, ...] | None) -> list[str]:
    """Return the array arguments that are selected by their own name or that of the operand."""
    return [a for a, array in passed.items() if wanted is None or not {a, array}.isdisjoint(wanted)]


class _Packing:
    """One call and the copies around it."""

    def __init__(self, kernel: LoopKernel, insn: InstructionBase) -> None:
        assert isinstance(insn, Assignment | CallInstruction)
        self.kernel = kernel
        self.insn = insn
        self.names = new_names(kernel)
        self.ids = kernel.get_instruction_id_generator()
        self.domains: list[BasicSet] = []
        self.inames: dict[str, Iname] = {}
        self.temporaries: dict[str, TemporaryVariable] = {}
        self.copy_of: dict[str, str] = {}
        self.before: list[Assignment] = []
        self.after: list[Assignment] = []

    def passed(self, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> list[dict[str, str]]:
        """Return the arrays that are passed as *inputs* and *outputs*, by their arguments."""
        assert isinstance(self.insn, Assignment | CallInstruction)
        given = (inputs, self.insn.expression.parameters), (outputs, self.insn.assignees)
        return [
            {
                argument: assignee_name(place)
                for argument, place in zip(arguments, places, strict=False)
                if isinstance(place, SubArrayRef)
            }
            for arguments, places in given
        ]

    def result(
        self,
        inputs: Mapping[int, ArrayArg | ValueArg],
        outputs: Mapping[int, ArrayArg | ValueArg],
    ) -> LoopKernel:
        """Return the kernel with copies for the arguments and results at some positions."""
        kernel, insn = self.kernel, self.insn
        assert isinstance(insn, Assignment | CallInstruction)
        call = insn.expression
        parameters = list(call.parameters)
        assignees = list(insn.assignees)
        for k, arg in inputs.items():
            parameters[k] = self._copied(parameters[k], arg, self.before)
        for k, arg in outputs.items():
            assignees[k] = self._copied(assignees[k], arg, self.after)
        keywords = dict(getattr(call, "kw_parameters", {}))
        new_call = (
            p.CallWithKwargs(call.function, tuple(parameters), keywords)
            if keywords
            else p.Call(call.function, tuple(parameters))
        )
        waits = insn.depends_on.union(str(copy.id) for copy in self.before)
        changed = insn.copy(expression=new_call, depends_on=waits)
        if isinstance(changed, CallInstruction):
            changed = changed.copy(assignees=tuple(assignees))
        else:
            changed = changed.copy(assignee=assignees[0])
        stores = frozenset(str(copy.id) for copy in self.after)
        instructions: list[InstructionBase] = []
        for other in kernel.instructions:
            if other.id == insn.id:
                instructions += [*self.before, changed, *self.after]
            elif insn.id in other.depends_on:
                instructions.append(other.copy(depends_on=other.depends_on | stores))
            else:
                instructions.append(other)
        result = kernel.copy(
            instructions=instructions,
            domains=(*kernel.domains, *self.domains),
            inames={**kernel.inames, **self.inames},
            temporary_variables={**kernel.temporary_variables, **self.temporaries},
        )
        check_well_formed(result)
        return result

    def _copied(
        self, place: SubArrayRef, arg: ArrayArg | ValueArg, copies: list[Assignment]
    ) -> SubArrayRef:
        """Return a contiguous temporary that replaces a sub-array."""
        kernel, insn = self.kernel, self.insn
        array = assignee_name(place)
        inames = [var.name for var in place.swept_inames]
        own = {name: str(self.names(name)) for name in inames}
        bounds = [kernel.get_iname_bounds(name) for name in inames]
        starts = [0 if b.interval.low == 0 else b.lower for b in bounds]
        extents: list[Expr] = [b.extent for b in bounds]
        shape = self._shape(place, arg, extents)
        self.inames |= {new: Iname(new, frozenset()) for new in own.values()}
        self.domains += domains_of_copies(kernel, own, insn.within_inames)
        held = self._held(array, arg.name, tuple(shape))
        renamed = {old: p.Variable(new) for old, new in own.items()}
        from_zero = [_minus(new, start) for new, start in zip(own.values(), starts, strict=True)]
        element = _element(held, _reshaped(from_zero, extents, shape))
        original = substitute(place.subscript, renamed)
        is_load = copies is self.before
        copies.append(
            assign_beside(
                insn,
                element if is_load else original,
                original if is_load else element,
                self.ids(f"{insn.id}_{held}"),
                within_inames=insn.within_inames.union(own.values()),
                depends_on=insn.depends_on if is_load else frozenset({str(insn.id)}),
            )
        )
        if shape == extents:
            passed = [_minus(n, start) for n, start in zip(inames, starts, strict=True)]
            return SubArrayRef(place.swept_inames, _element(held, passed))
        return self._whole(held, shape)

    def _shape(
        self, place: SubArrayRef, arg: ArrayArg | ValueArg, extents: list[Expr]
    ) -> list[Expr]:
        """Return the shape of the copy: that of the argument, where its number of axes differs."""
        wanted = getattr(arg, "shape", None)
        if not isinstance(wanted, tuple) or len(wanted) == len(extents):
            return extents
        if not all(isinstance(n, int) for n in (*wanted, *extents)) or prod(wanted) != prod(
            extents
        ):
            sizes, known = (" x ".join(map(to_text, part)) for part in (extents, wanted))
            raise TransformError(
                f"'{to_text(place)}', of {sizes} elements, does not have the shape of "
                f"'{arg.name}', {known}",
                kernel=self.kernel.name,
                where=f"instruction '{self.insn}'",
                hint="pass as many elements as it has: fix_parameters makes sizes numbers",
            )
        return list(wanted)

    def _held(self, array: str, arg: str, shape: tuple[Expr, ...]) -> str:
        """Return the copy for an argument, of an array; the result of one that is changed too."""
        if arg in self.copy_of and self.temporaries[self.copy_of[arg]].shape == shape:
            return self.copy_of[arg]
        held = self.copy_of[arg] = str(self.names(f"{array}_pack"))
        dtype = self.kernel.array_vars[array].dtype
        self.temporaries[held] = TemporaryVariable(held, dtype=dtype, shape=shape)
        return held

    def _whole(self, held: str, shape: list[Expr]) -> SubArrayRef:
        """Return the whole copy as an operand of a call, a sub-array over new loops."""
        axes = [str(self.names(f"{held}_dim_{axis}")) for axis in range(len(shape))]
        bounds = [
            p.Comparison(p.Variable(name), relation, limit)
            for name, extent in zip(axes, shape, strict=True)
            for relation, limit in ((">=", 0), ("<", extent))
        ]
        self.domains.append(as_basic_set(set_where(axes, bounds)))
        self.inames.update((name, Iname(name, frozenset())) for name in axes)
        variables = tuple(map(p.Variable, axes))
        return SubArrayRef(variables, _element(held, list(variables)))


def _minus(name: str, start: Expr) -> Expr:
    variable = p.Variable(name)
    return variable if is_zero(start) else simplify(minus(variable, start))


def _reshaped(index: list[Expr], extents: list[Expr], shape: list[Expr]) -> list[Expr]:
    """Return the index after a row-major reshape of the element at *index* of an array."""
    if shape == extents:
        return index
    linear: Expr = 0
    for part, extent in zip(index, extents, strict=True):
        linear = p.Sum((p.Product((extent, linear)), part))
    parts: list[Expr] = []
    for axis, extent in enumerate(shape):
        inner = prod(shape[axis + 1 :])
        part = linear if inner == 1 else p.FloorDiv(linear, inner)
        parts.append(simplify(part if axis == 0 else p.Remainder(part, extent)))
    return parts


def _element(array: str, index: Sequence[Expr]) -> p.Subscript:
    return p.Subscript(p.Variable(array), tuple(index) if len(index) > 1 else index[0])
