"""``verify`` compares a kernel with the kernel that the user wrote, before transformations."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pymbolic.primitives as p
import pytest

import kgen as lp
from kgen.errors import KernelError, TransformError
from kgen.ir.codec import decode, encode
from kgen.ir.expr import Reduction
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.expressions import parse
from kgen.ir.reductions import ScalarReductionOperation, parse_reduction_op
from kgen.transforms.select import Meaning, transform, transform_of
from kgen.verification import Finding


def product(**options: Any) -> lp.TranslationUnit:
    return lp.make_kernel(
        "{ [i, k]: 0 <= i, k < 16 }",
        "c[i] = sum(k, a[i, k]*b[k])",
        [
            lp.GlobalArg("a", "float64", shape="16, 16"),
            lp.GlobalArg("b, c", "float64", shape="16"),
        ],
        target=lp.CTarget(),
        **options,
    )


@transform
def wrong(kernel: LoopKernel) -> LoopKernel:
    """Read the fetched tile outside of the loop that refills it: a transformation's fault."""
    return kernel.copy(
        instructions=[
            insn.copy(within_inames=insn.within_inames - {"k_outer"}) if insn.id == "last" else insn
            for insn in kernel.instructions
        ]
    )


@transform
def shifted(kernel: LoopKernel) -> LoopKernel:
    """Read another element."""
    return kernel.copy(
        instructions=[
            insn.copy(expression=parse("a[7 - 4*i_outer - i_inner]"))
            for insn in kernel.instructions
        ]
    )


def fetched_twice() -> lp.TranslationUnit:
    knl = lp.split_iname(product(), "k", 8)
    knl = lp.add_prefetch(knl, "b", "k_inner", temporary_name="bs", default_tag=None)
    return lp.add_prefetch(
        knl, "bs", "k_inner", temporary_name="br", default_tag=None, prefetch_insn_id="last"
    )


def origin(program: lp.TranslationUnit | LoopKernel) -> Finding:
    (found,) = (finding for finding in lp.verify(program).findings if finding.check == "origin")
    return found


def test_a_fault_of_a_transformation_is_violated_with_a_point() -> None:
    assert origin(fetched_twice()).status.value == "proved"
    found = origin(wrong(fetched_twice()))
    assert (found.status.value, found.instruction, found.array) == ("violated", "insn", "c")
    assert found.point == "c[0]"
    with pytest.raises(KernelError, match="'c' differs from that of the kernel as it was written"):
        lp.verify(wrong(fetched_twice())).raise_if_violated()


@pytest.mark.parametrize(
    "through",
    [
        lambda kernel: pickle.loads(pickle.dumps(kernel)),  # noqa: S301
        lambda kernel: decode(encode(kernel)),
    ],
)
def test_the_origin_goes_with_the_kernel(through: Callable[[LoopKernel], LoopKernel]) -> None:
    kernel = wrong(fetched_twice()).default_entrypoint
    again = through(kernel)
    assert again.origin == kernel.origin
    assert again.digest() == kernel.digest() != kernel.copy(origin=None).digest()
    assert origin(again) == origin(kernel)


def test_the_origin_is_in_programs_written_as_python() -> None:
    names: dict[str, Any] = {}
    exec(str(lp.t_unit_to_python(wrong(fetched_twice()), var_name="knl")), names)  # noqa: S102
    assert origin(names["knl"]).status.value == "violated"


#: Changes that users mean: the origin changes too, or is the kernel that results.
MEANT: dict[str, Callable[[lp.TranslationUnit], lp.TranslationUnit]] = {
    "rename": lambda knl: lp.rename_argument(knl, "a", "matrix"),
    "layout": lambda knl: lp.tag_array_axes(knl, "a", "N0,N1"),
    "split": lambda knl: lp.split_array_axis(knl, "a", 1, 4),
    "batch": lambda knl: lp.to_batched(knl, 3, ["c", "a"], batch_iname_prefix="batch"),
    "order": lambda knl: lp.set_argument_order(knl, "d, c, b, a"),
    "instructions": lambda knl: lp.map_instructions(
        knl, "id:insn", lambda insn: insn.copy(expression=parse("a[i_inner, 1]"))
    ),
    "remove": lambda knl: lp.remove_instructions(knl, {"other"}),
}


@pytest.mark.parametrize("change", MEANT)
def test_what_the_user_means_is_no_violation(change: str) -> None:
    knl = lp.make_kernel(
        "{ [i, k]: 0 <= i, k < 16 }",
        ["c[i] = sum(k, a[i, k]*b[k]) {id=insn}", "d[i] = b[i] {id=other}"],
        [
            lp.GlobalArg("a", "float64", shape="16, 16"),
            lp.GlobalArg("b, c, d", "float64", shape="16"),
        ],
        target=lp.CTarget(),
    )
    changed = MEANT[change](lp.split_iname(knl, "i", 4))
    assert origin(changed).status.value == "proved"
    assert origin(lp.split_iname(changed, "k", 4)).status.value == "proved"


@pytest.mark.parametrize(
    "change",
    [
        lambda knl: lp.split_array_axis(knl, "b_fetch", 0, 4),
        lambda knl: lp.concatenate_arrays(knl, "b_fetch, t"),
    ],
)
def test_where_temporaries_are_changes_nothing_that_was_written(change: Any) -> None:
    knl = lp.make_kernel(
        "{ [i, k]: 0 <= i, k < 16 }",
        "t[i] = 0 {id=t}\nc[i] = sum(k, b[k]) + t[i] {dep=t}",
        [
            lp.GlobalArg("b, c", "float64", shape="16"),
            lp.TemporaryVariable("t", "float64", shape="16"),
        ],
        target=lp.CTarget(),
    )
    fetched = lp.add_prefetch(knl, "b", "k", default_tag=None)
    changed = change(fetched).default_entrypoint
    assert changed.origin == knl.default_entrypoint
    assert origin(changed).status.value == "proved"


@transform_of(Meaning.CHANGED)
def renamed(kernel: LoopKernel, names: list[str], seen: list[LoopKernel]) -> LoopKernel:
    """Rename instructions; note the kernel."""
    seen.append(kernel)
    old, new = names
    return lp.rename_argument(kernel, old, new)


def test_a_change_is_made_to_the_origin_when_somebody_asks() -> None:
    seen: list[LoopKernel] = []
    names = ["a", "matrix"]
    knl = lp.split_iname(product(), "k", 4).default_entrypoint
    changed = lp.split_iname(renamed(knl, names, seen), "i", 4)
    names[:] = "b", "vector"  # no matter to what was called before
    assert seen == [knl]
    assert origin(changed).status.value == "proved"
    assert changed.origin is not None
    assert "matrix" in changed.origin.arg_dict


def test_a_long_row_of_changes_has_an_origin() -> None:
    knl = lp.split_iname(product(), "k", 4).default_entrypoint
    for number in range(600):
        knl = lp.rename_argument(knl, "a" if number == 0 else f"a{number - 1}", f"a{number}")
    assert knl.origin is not None
    assert "a599" in knl.origin.arg_dict


@transform_of(Meaning.CHANGED)
def doubled_fetch(kernel: LoopKernel) -> LoopKernel:
    """Change an instruction that only a transformed kernel has."""
    fetch = kernel.id_to_insn.get("fetch")
    if not isinstance(fetch, lp.Assignment):
        raise TransformError("there is no fetch")
    twice = fetch.copy(expression=2 * fetch.expression)
    return kernel.copy(instructions=[i for i in kernel.instructions if i is not fetch] + [twice])


def test_a_kernel_whose_origin_cannot_change_alike_is_what_was_written() -> None:
    knl = doubled_fetch(
        lp.add_prefetch(product(), "b", "k", default_tag=None, prefetch_insn_id="fetch")
    )
    assert knl.default_entrypoint.origin is None
    split = lp.split_iname(knl, "i", 4).default_entrypoint
    assert split.origin == knl.default_entrypoint


@pytest.mark.parametrize("first", [True, False])
def test_a_fault_is_seen_behind_a_change_of_the_program(first: bool) -> None:
    """Sizes that are fixed, in the kernel as it was written too."""
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "c[i] = a[i]",
        [lp.GlobalArg("a, c", "float64", shape="n"), lp.ValueArg("n", "int32")],
        target=lp.CTarget(),
    )
    knl = lp.split_iname(knl, "i", 4)
    fixed = lp.fix_parameters(knl, n=8)
    changed = shifted(fixed) if first else lp.fix_parameters(shifted(knl), n=8)
    found = origin(changed)
    assert (found.status.value, found.point) == ("violated", "c[0]")


@transform
def expanded(kernel: LoopKernel) -> LoopKernel:
    """Multiply out, which is the same and needs more than operands in another order."""
    return kernel.copy(
        instructions=[
            insn.copy(expression=parse("a[i]*a[i] + a[i]")) for insn in kernel.instructions
        ]
    )


def test_sizes_that_are_open_are_tried_where_there_is_no_proof() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "c[i] = a[i]*(a[i] + 1)",
        [lp.GlobalArg("a, c", "float64", shape="n"), lp.ValueArg("n", "int32")],
        target=lp.CTarget(),
    )
    assert origin(lp.split_iname(knl, "i", 4)).status.value == "proved"
    found = origin(expanded(knl))
    assert found.status.value == "unknown"
    assert "n = 17" in found.message
    assert "'c' is not proved to be the same" in found.message


def test_sizes_for_which_there_is_no_proof_are_tried_first() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "c[i] = a[i]",
        [lp.GlobalArg("a, c", "float64", shape="n"), lp.ValueArg("n", "int32")],
        target=lp.CTarget(),
    ).default_entrypoint
    fewer = lp.make_kernel("{ [i]: 0 <= i < n and i < 1000 }", "c[i] = a[i]").default_entrypoint
    found = origin(knl.copy(domains=fewer.domains, origin=knl))
    assert (found.status.value, found.point) == ("violated", "n = 1001: c[1000]")


@pytest.mark.parametrize("domain", ["m <= i < n", "n <= i < m"])
def test_a_loop_between_two_sizes_is_tried_with_several_iterations(domain: str) -> None:
    """The inner loop outside of the other turns the order of the running product around."""
    knl = lp.make_kernel(
        f"{{ [i]: {domain} }}",
        "a[i + 1] = a[i]*b[i]",
        [lp.GlobalArg("a, b", "float64", shape="n + m + 1"), "..."],
        assumptions="0 <= n, m <= 32",
        target=lp.CTarget(),
    )
    split = lp.prioritize_loops(lp.split_iname(knl, "i", 4), "i_inner,i_outer")
    assert [f.check for f in lp.verify(split).violated] == ["origin"]


@transform
def doubled(kernel: LoopKernel) -> LoopKernel:
    """Store other values: never right, whatever the arithmetic."""
    return kernel.copy(
        instructions=[
            insn.copy(expression=p.Sum((insn.expression, insn.expression)))
            for insn in kernel.instructions
            if isinstance(insn, lp.Assignment)
        ]
    )


@pytest.mark.parametrize("factor", ["(0.1 + 0.2)", "(1/3)", "0.5"])
def test_numbers_computed_ahead_of_time_are_no_violation(factor: str) -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 4 }",
        f"out[i] = {factor}*a[i]",
        [lp.GlobalArg("a, out", "float64", shape="4")],
        target=lp.CTarget(),
    )
    folded = lp.fold_constants(knl, fast_math=True)
    assert origin(doubled(knl)).status.value == "violated"
    status, message = origin(folded).status.value, origin(folded).message
    assert status == "proved" or (status == "unknown" and "rounds" in message)


class Mix(ScalarReductionOperation):
    """An operation that kgen knows nothing of."""

    def neutral_element(self, *dtypes: Any, callables_table: Any, target: Any) -> Any:
        return 0, callables_table

    def __call__(self, dtypes: Any, one: Any, other: Any, callables_table: Any, target: Any) -> Any:
        return p.Sum((p.Product((31, one)), other)), callables_table


@pytest.mark.parametrize("operation", [Mix(), parse_reduction_op("sum")])
def test_an_operation_of_a_users_own_is_unknown_in_another_order(operation: Any) -> None:
    value = p.Call(p.Variable("lround"), (p.Variable("a")[p.Variable("k")],))
    knl = lp.make_kernel(
        "{ [k]: 0 <= k < 16 }",
        [lp.Assignment(p.Variable("out"), Reduction(operation, ("k",), value), id="s")],
        [lp.GlobalArg("a", "float64", shape="16"), lp.GlobalArg("out", "int64", shape=())],
        target=lp.OpenCLTarget(),
    )
    knl = lp.split_iname(knl, "k", 4, inner_tag="l.0")
    knl = lp.split_reduction_inward(knl, "k_inner")
    found = origin(lp.realize_reduction(knl))
    is_known = not isinstance(operation, Mix)
    assert found.status.value == ("proved" if is_known else "unknown")
    assert is_known or "'Mix' may be applied in another order" in found.message


# -- values that last across global barriers -----------------------------------------------------


def saved(text: str = "c[7 - i] = t + b[i]   {id=use, dep=two:t:b}") -> lp.TranslationUnit:
    """Save a temporary over two global barriers; without work-items, the loop has to be cut."""
    lines = [
        "<> t = 2*a[i]             {id=t}",
        "... gbarrier              {id=one, dep=t}",
        "b[i] = a[7 - i] + t       {id=b, dep=one:t}",
        "... gbarrier              {id=two, dep=b}",
    ]
    data = [lp.GlobalArg("a, b, c", "float32", shape=8)]
    knl = lp.make_kernel("{ [i]: 0 <= i < 8 }", [*lines, text], data, target=lp.CudaTarget())
    knl = lp.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    return lp.save_and_reload_temporaries(knl)


@transform
def reloaded_elsewhere(kernel: LoopKernel) -> LoopKernel:
    """Reload what another work-item has saved."""

    def change(insn: Any) -> Any:
        if str(insn.id) != "t.reload":
            return insn
        group, item = insn.expression.index_tuple
        return insn.copy(expression=insn.expression.aggregate[group, 3 - item])

    return kernel.map_instructions(change)


@pytest.mark.parametrize(
    "text", ["c[7 - i] = t + b[i]   {dep=two:b:t}", "c[i] = b[7 - i]   {dep=two:b}"]
)
def test_values_saved_across_barriers_are_proved(text: str) -> None:
    assert origin(saved(text)).status.value == "proved"


def test_values_reloaded_elsewhere_are_a_violation() -> None:
    findings = lp.verify(reloaded_elsewhere(saved())).violated
    assert [finding.check for finding in findings] == ["origin"]


@pytest.mark.parametrize(("other", "status"), [("k", "proved"), ("31 - k", "unknown")])
def test_tags_that_only_some_loops_have_as_written_do_not_prevent_a_proof(
    other: str, status: str
) -> None:
    knl = lp.make_kernel(
        "{ [k, q]: 0 <= k < 32 and 0 <= q < 64 }",
        "t[k] = x[k] {id=load}\ny[q] = t[q // 2] {id=store, dep=load}",
        [
            lp.GlobalArg("x, y", "float64", shape=lp.auto),
            lp.TemporaryVariable("t", "float64", 32, address_space=lp.AddressSpace.LOCAL),
        ],
        target=lp.CudaTarget(),
    )
    knl = lp.split_iname(lp.tag_inames(knl, "k:l.0"), "q", 32, inner_tag="l.0")
    read = parse(f"x[{other}]")
    changed = [
        insn.copy(expression=read) if insn.id == "load" else insn
        for insn in knl.default_entrypoint.instructions
    ]
    found = origin(knl.default_entrypoint.copy(instructions=changed))
    assert found.status.value == status
