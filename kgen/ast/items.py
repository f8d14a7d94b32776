"""Work-items as loops: functions for a thread, which runs a whole work-group.

Between two barriers the work-items of a group are independent of each other, so the code there
can run in loops over them. Karrenberg and Hack, "Improving performance of OpenCL on CPUs" (2012),
and Jääskeläinen et al., "pocl: a performance-portable OpenCL implementation" (2015), do this on
machine code; here it is done on the code tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pymbolic.primitives as p

from kgen.ast.facts import Facts
from kgen.ast.fission import AxesOf, WorkGroup
from kgen.ast.lanes import separate_tiles_of
from kgen.ast.merge import merge_guards
from kgen.ast.nodes import DeviceFunction, For, Node, Run
from kgen.ir.data import Iname
from kgen.ir.expr import Expr, subscript, substitute
from kgen.ir.fields import replace
from kgen.ir.instruction import InstructionBase
from kgen.ir.sets.text import parse_domain
from kgen.ir.stages import DeviceKernel, PreparedKernel
from kgen.ir.tags import LocalInameTagBase
from kgen.ir.tree import map_children, map_exprs
from kgen.transforms.array_accesses import ArrayAccessMapper, Index
from kgen.transforms.storage.privatize import has_lanes, with_axes

__all__ = ["with_item_loops"]

#: The bytes of a cache line, to which arrays of work-items are aligned.
_CACHE_LINE: Final = 64


def with_item_loops(
    kernel: DeviceKernel, functions: tuple[DeviceFunction, ...]
) -> tuple[DeviceKernel, tuple[DeviceFunction, ...]]:
    """Run the work-items of each function in loops, which end at its barriers.

    ::

        t[lid(0)] = a[lid(0)]            for lid0 = 0 .. 16
        x = b[lid(0)]                      t[lid0] = a[lid0]
        barrier                          for lid0 = 0 .. 16
        if lid(0) < n              =>      x[lid0] = b[lid0]
          out[lid(0)] = x + t[0]         for lid0 = 0 .. min(16, n)
                                           out[lid0] = x[lid0] + t[0]

    Private temporaries that several of the loops use become arrays with one element per
    work-item. Values that are the same for all work-items are computed once. Loops that contain
    barriers, or that all work-items run uniformly, enclose the innermost loop over
    work-items, which compilers vectorize.

    Raises :class:`TransformError` for C code that names a temporary which becomes an array.
    """
    if not any(function.locals for function in functions):
        return kernel, functions
    names = _item_names(kernel, functions)
    spread: AxesOf = {}
    while True:
        groups = [WorkGroup(kernel, function, names, spread) for function in functions]
        trees = [group.code() for group in groups]
        found = dict(spread)
        for group, tree in zip(groups, trees, strict=True):
            for name, axes in group.find_spread(tree).items():
                found[name] = found.get(name, frozenset()) | axes
        if found == spread:
            break
        spread = found
    sizes = [max(_size(function, axis) for function in functions) for axis in range(len(names))]
    rewriter = _Rewriter(kernel, names, sizes, {n: axes for n, axes in spread.items() if axes})
    result = rewriter.kernel_after()

    def finished(tree: Node) -> Node:
        rewritten = rewriter.node(tree, frozenset())
        facts = Facts(result.assumptions.params())
        whole = separate_tiles_of(frozenset(names), rewritten, result, facts)
        return merge_guards(whole, result)

    pairs = zip(functions, trees, strict=True)
    return result, tuple(replace(f, locals=(), body=finished(tree)) for f, tree in pairs)


def _item_names(kernel: DeviceKernel, functions: Sequence[DeviceFunction]) -> list[str]:
    make = kernel.get_var_name_generator()
    return [str(make(f"lid{axis}")) for axis in range(max(len(f.locals) for f in functions))]


def _size(function: DeviceFunction, axis: int) -> int:
    return function.locals[axis] if axis < len(function.locals) else 1


class _Rewriter:
    """Adds work-item axes to temporaries, in the kernel and in code trees."""

    def __init__(
        self, kernel: DeviceKernel, names: Sequence[str], sizes: Sequence[int], spread: AxesOf
    ) -> None:
        self.kernel = kernel
        self.names = names
        self.sizes = sizes
        self.axes = {name: sorted(axes, reverse=True) for name, axes in spread.items()}
        self.mapper = ArrayAccessMapper(kernel, dict.fromkeys(self.axes, self._append))

    def _append(self, variable: p.Variable, index: Index) -> Expr:
        items = (p.Variable(self.names[axis]) for axis in self.axes[variable.name])
        return subscript(variable, (*index, *items))

    def kernel_after(self) -> DeviceKernel:
        """Return the kernel with plain loops over work-items."""
        kernel = self.kernel
        items = {name: Iname(name) for name in self.names}
        ranges = zip(self.names, self.sizes, strict=True)
        domains = (parse_domain(f"{{ [{name}] : 0 <= {name} < {size} }}") for name, size in ranges)
        inames = {
            name: iname.without_tags(iname.tags_of_type(LocalInameTagBase))
            for name, iname in kernel.inames.items()
        }
        changed = kernel.map_instructions(
            self._instruction,
            inames={**inames, **items},
            domains=(*kernel.domains, *domains),
        )
        return DeviceKernel(PreparedKernel(changed.with_declarations(self._temporaries())))

    def _instruction(self, insn: InstructionBase) -> InstructionBase:
        used = insn.dependency_names() & self.axes.keys()
        if not used:
            return insn
        items = {self.names[axis] for name in used for axis in self.axes[name]}
        return self.mapper.change(insn, within_inames=insn.within_inames | items)

    def _temporaries(self) -> Mapping[str, object]:
        return {
            name: with_axes(
                self.kernel.temporary_variables[name],
                [self.sizes[axis] for axis in axes],
                tuple(self.names[axis] for axis in axes),
                has_lanes=has_lanes(self.kernel, name, self._users(name)),
            ).copy(base_storage=None, alignment=_CACHE_LINE)
            for name, axes in self.axes.items()
        }

    def _users(self, name: str) -> list[InstructionBase]:
        return [insn for insn in self.kernel.instructions if name in insn.dependency_names()]

    def node(self, node: Node, around: frozenset[str]) -> Node:
        """Rewrite *node*; *around* are the enclosing loops over work-items.

        Outside these, values that all work-items share are those of the first one.
        """
        first = {name: 0 for name in self.names if name not in around}
        if isinstance(node, Run):
            insn = self.kernel.id_to_insn[node.insn_id]
            return Run(node.insn_id, {**self._items_of(insn, first), **node.values})
        node = map_exprs(node, lambda expr: substitute(self.mapper(expr), first))
        if isinstance(node, For) and node.iname in self.names:
            around |= {node.iname}
        return map_children(node, lambda child: self.node(child, around))

    def _items_of(self, insn: InstructionBase, first: Mapping[str, int]) -> Mapping[str, Expr]:
        used = insn.dependency_names() & self.axes.keys()
        items = {self.names[axis] for name in used for axis in self.axes[name]}
        return {name: first.get(name, p.Variable(name)) for name in sorted(items)}
