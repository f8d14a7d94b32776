"""Reductions over rows of data-dependent lengths, shared evenly among work-items."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ir.kernel import LoopKernel
from kgen.lowering import lower, prepare
from kgen.schedule.place import schedule_kernel
from kgen.schedule.separation import find_unsynchronized
from tests.backends import Backend
from tests.cuda_host import HostCuda
from tests.mutation.mutants import without_barriers
from tests.random.device import Device
from tests.transforms.helpers import instructions, kernel_of

PRODUCT = "out[row] = sum(k, values[k]*x[columns[k]])"
#: The lengths of rows: none, one, some empty, one huge among empty ones, all empty, equal.
LENGTHS: dict[str, list[int]] = {
    "no row": [],
    "one row": [23],
    "one empty row": [0],
    "mixed": [3, 0, 0, 7, 1, 0, 12, 2, 0, 5, 1],
    "huge": [0] * 9 + [200] + [0] * 30 + [1],
    "empty": [0] * 40,
    "equal": [4] * 25,
    "power law": [int(60 / (1 + k)) for k in range(50)],
}


def rows(
    text: str = PRODUCT,
    entries: str | tuple[str, ...] = "{ [k]: first <= k < last }",
    target: Any = None,
    which: str = "{ [row]: 0 <= row < n }",
    dtype: Any = np.float64,
) -> lp.TranslationUnit:
    """Return a kernel over the rows of a sparse matrix."""
    lines = ("<> first = starts[row]", "<> last = starts[row + 1]", *text.splitlines())
    return lp.make_kernel(
        [which, *([entries] if isinstance(entries, str) else entries)],
        ["for row", *lines, "end"],
        [
            lp.GlobalArg("values", dtype, shape="entries"),
            lp.GlobalArg("columns", np.int32, shape="entries"),
            lp.GlobalArg("starts", np.int32, shape="n + 1"),
            lp.GlobalArg("x", dtype, shape="m"),
            lp.GlobalArg("out", dtype, shape="n"),
            lp.ValueArg("n, m, entries", np.int32),
            ...,
        ],
        target=target or lp.ExecutableCTarget(),
    )


def matrix(lengths: list[int], first: int = 0) -> dict[str, Any]:
    """Return a matrix of small integers, and a vector; there are some entries too many."""
    rng = np.random.default_rng(1)
    starts = np.cumsum([first, *lengths], dtype=np.int32)
    count = int(starts[-1]) + 5
    return {
        "values": rng.integers(-4, 5, count).astype(np.float64),
        "columns": rng.integers(0, 10, count).astype(np.int32),
        "starts": starts,
        "x": rng.integers(-4, 5, 10).astype(np.float64),
    }


def each_row(given: dict[str, Any], function: Any) -> np.ndarray[Any, Any]:
    """Apply a function to the values and columns of each row, and the number of the row."""
    ends = given["starts"]
    return np.array(
        [
            function(given["values"][a:b], given["columns"][a:b], row)
            for row, (a, b) in enumerate(pairwise(ends))
        ],
        dtype=np.float64,
    )


def product(given: dict[str, Any]) -> np.ndarray[Any, Any]:
    return each_row(given, lambda v, c, _: v @ given["x"][c])


def run(knl: lp.TranslationUnit, given: dict[str, Any], *queue: Any) -> Any:
    (out,) = knl(*queue, **given, n=len(given["starts"]) - 1)[1]
    return out


# -- results ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("items", "group_size"), [(3, 4), (None, None)])
def test_products_of_all_matrices(items: int | None, group_size: int | None) -> None:
    knl = lp.balance(rows(), "row, k", items=items, group_size=group_size)
    for name, lengths in LENGTHS.items():
        for first in (0, 3):
            given = matrix(lengths, first)
            assert np.array_equal(run(knl, given), product(given)), (name, first)


def test_devices_agree(device: Backend) -> None:
    knl = lp.balance(rows(target=device.target()), "row, k", items=5, group_size=32)
    for name, lengths in LENGTHS.items():
        given = matrix(lengths)
        assert np.array_equal(run(knl, given, *device.leading), product(given)), name
    given["x"] = np.random.default_rng(1).random(10)
    first, second = (np.array(run(knl, given, *device.leading)) for _ in range(2))
    assert first.tobytes() == second.tobytes()  # in the same order each time


def test_the_text_of_cuda_runs_in_any_order(tmp_path: Path) -> None:
    knl = lp.balance(rows(target=lp.CudaTarget()), "row, k", items=3, group_size=32)
    call = HostCuda(knl, tmp_path)
    for lengths in (LENGTHS["huge"], LENGTHS["power law"]):
        given = matrix(lengths)
        out = np.zeros(len(lengths))
        sizes = {"n": len(lengths), "m": 10, "entries": len(given["values"])}
        assert call({**given, "out": out, **sizes}, order="any")
        assert np.array_equal(out, product(given))


LOOP = """<> acc = x[0]
<> top = 1.0
for k
    <> column = columns[k]
    acc = acc + values[k]*x[column]
    top = max(top, values[k])
end
out[row] = acc*top"""
CONDITION = """<> acc = 10.0
for k
    if values[k] > 0
        acc = acc - values[k]
    end
end
out[row] = acc"""
SEVERAL = """<> length = last - first
<> more = sum(k, values[k]*(k - first))*length + (3 if any(k, values[k] > 3) else 0)
<> twice = 2*more
out[row] = sum(k, values[k]*(x[columns[k]] - row)) - 7*product(k, values[k]) + twice"""


@pytest.mark.parametrize(
    ("text", "function"),
    [
        (
            SEVERAL,
            lambda v, x, row: (
                v @ (x - row)
                - 7 * v.prod()
                + 2 * (v @ np.arange(len(v)) * len(v) + 3 * (v > 3).any())
            ),
        ),
        (LOOP, lambda v, x, row: (1 + v @ x) * max(1, *v, 0)),
        (CONDITION, lambda v, x, row: 10 - v[v > 0].sum()),
    ],
)
def test_what_rows_compute(text: str, function: Any) -> None:
    knl = lp.balance(rows(text), "row, k", items=3, group_size=4)
    given = matrix([3, 1, 7, 1, 12, 2, 70, 5, 1])
    given["x"][0] = 1
    expected = each_row(given, lambda v, c, row: function(v, given["x"][c], row))
    assert np.array_equal(run(knl, given), expected)


def test_several_results_of_one_reduction() -> None:
    knl = lp.make_kernel(
        ["{ [row]: 2 <= row < n }", "{ [k]: 0 <= k < count }"],
        """
        for row
            <> count = starts[row + 1] - starts[row]
            out[row], at[row] = argmax(k, values[starts[row] + k], k)
        end
        """,
        [
            lp.GlobalArg("values", np.float64, shape="entries"),
            lp.GlobalArg("starts", np.int64, shape="n + 1"),
            lp.GlobalArg("out", np.float64, shape="n"),
            lp.GlobalArg("at", np.int32, shape="n"),
            ...,
        ],
        target=lp.ExecutableCTarget(),
    )
    given = matrix([1, 2, 3, 1, 30, 1, 1, 9])
    arrays = {"values": given["values"], "starts": given["starts"].astype(np.int64)}
    out, at = np.zeros(8), np.zeros(8, np.int32)
    lp.balance(knl, "row, k", items=2, group_size=3)(**arrays, out=out, at=at, n=8)
    assert np.array_equal(out[2:], each_row(given, lambda v, c, row: v.max())[2:])
    assert np.array_equal(at[2:], each_row(given, lambda v, c, row: v.argmax())[2:])


def test_other_instructions_wait_for_all_rows() -> None:
    knl = lp.make_kernel(
        ["{ [row]: 0 <= row < n }", "{ [k]: first <= k < last }", "{ [i, j]: 0 <= i, j < n }"],
        """
        starts[i + 1] = 3*i + 3 {id=before}
        ... gbarrier {id=bar, dep=before}
        for row
            <> first = starts[row] {dep=bar}
            <> last = starts[row + 1] {dep=bar}
            out[row] = sum(k, values[k]) {id=rows}
        end
        ... gbarrier {id=bar2, dep=rows}
        double[j] = 2*out[j] {dep=bar2}
        """,
        [
            lp.GlobalArg("values", np.float64, shape="3*n"),
            lp.GlobalArg("starts", np.int32, shape="n + 1"),
            lp.GlobalArg("out, double", np.float64, shape="n"),
            ...,
        ],
        target=lp.ExecutableCTarget(),
    )
    values = np.arange(30.0)
    starts = np.zeros(11, np.int32)
    knl = lp.balance(knl, "row, k", items=2, group_size=3)
    out, double = np.zeros((2, 10))
    knl(values=values, starts=starts, out=out, double=double)
    assert np.array_equal(double, 2 * values.reshape(10, 3).sum(axis=1))


# -- code ------------------------------------------------------------------------------------


def test_instructions() -> None:
    knl = lp.balance(rows("out[row] = sum(k, values[k])"), "row, k", items=2, group_size=1)
    assert " ".join(" ".join(instructions(knl)).split()) == " ".join(GOLDEN.split())


def test_warps_read_whole_cache_lines() -> None:
    knl = lp.balance(rows(target=lp.CudaTarget()), "row, k", items=3, group_size=64)
    code = lp.generate_code_v2(knl).device_code()
    assert "row_skipped = row_entry & 31;" in code
    assert "if (lid(x) + 192 < row_entries + row_skipped)" in code  # the tile's last entries
    assert "row_part[row_own_entry + row_skipped]" in code


def test_the_code_tree_does_it_in_reverse() -> None:
    knl = rows("out[row] = sum(k, values[k])", target=lp.CudaTarget())
    lowered = lower(lp.balance(knl, "row, k", items=2, group_size=4).default_entrypoint)
    given = matrix([3, 0, 9, 1, 0])
    memory: dict[str, Any] = {
        name: {index: value.item() for index, value in np.ndenumerate(given[name])}
        for name in ("values", "starts")
    }
    memory["out"] = {}
    sizes = {"n": 5, "entries": len(given["values"]), "m": 10}
    Device(lowered.kernel, sizes, reverse=True).run(lowered.host, lowered.functions, memory)
    expected = each_row(given, lambda v, c, row: v.sum())
    assert memory["out"] == dict(np.ndenumerate(expected))


def test_verify_accepts_rows_of_a_single_group() -> None:
    unit = rows("out[row] = out[row] + values[k] {id=add}", target=lp.CudaTarget())
    unit = lp.balance(unit, "row, k", items=3, group_size=8, entries="entries")
    lp.verify(lp.fix_parameters(unit, n=4, entries=12)).raise_if_violated()


def test_verify_proves_what_no_data_decide() -> None:
    knl = lp.balance(rows(target=lp.CudaTarget()), "row, k", items=3, group_size=32)
    status = {finding.check: finding.status.value for finding in lp.verify(knl).findings}
    assert status["barriers"] == status["order"] == status["schedule"] == "proved"
    assert status["origin"] == status["bounds"] == status["races"] == "unknown"
    racing = {f.array for f in lp.verify(knl).findings if f.check == "races"}
    assert racing == {"out"}  # by rows that would not ascend


# -- mutants ---------------------------------------------------------------------------------


def test_each_barrier_is_needed() -> None:
    knl = lp.balance(rows(target=lp.CudaTarget()), "row, k", items=3, group_size=64)
    kernel = prepare(kernel_of(knl))
    mutants = list(without_barriers(schedule_kernel(kernel)))
    assert len(mutants) >= 5
    for reason, mutant in mutants:
        assert next(find_unsynchronized(kernel, mutant), None) is not None, reason


@pytest.mark.parametrize(
    ("insn_id", "value"),
    [
        ("row_of_tile", "max(row_found - 1, 0)"),
        ("row_first_step", "min(3*row_item + 1, row_entries + row_ending)"),
        ("row_carry", "0"),
        ("row_ended", "True"),
    ],
)
def test_wrong_steps_are_seen(insn_id: str, value: str) -> None:
    knl = lp.balance(rows(), "row, k", items=3, group_size=4)
    kernel: LoopKernel = kernel_of(knl)
    assert insn_id in kernel.id_to_insn
    wrong = lp.map_instructions(knl, f"id:{insn_id}", lambda insn: insn.copy(expression=value))
    given = [matrix(LENGTHS[name]) for name in ("mixed", "huge", "power law")]
    assert not all(np.array_equal(run(wrong, one), product(one)) for one in given)


# -- errors ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::kgen.KgenWarning")
def test_the_form_of_rows_is_checked() -> None:
    for changed, wanted in (
        ({"entries": "{ [k]: first <= k <= last }"}, "not the difference of two elements"),
        ({"entries": "{ [k]: 0 <= k < n }"}, "it has 'n' iterations"),
        ({"entries": "{ [k]: first <= k < last and k < row }"}, "leaves out values"),
        ({"which": "{ [row]: 0 <= row < n and row mod 2 = 0 }"}, "leaves out values"),
        ({"text": "out[row] = sum(k, out[k])"}, "rows depend on each other through 'out'"),
        ({"text": "out[columns[row]] = sum(k, values[k])"}, "rows may meet at elements of 'out'"),
        ({"text": "out[0] = out[0] + sum(k, values[k])"}, "rows may meet at elements of 'out'"),
        ({"text": "out[row] = reduce(segmented(sum), k, (values[k], True))"}, "another order"),
        ({"text": "out[row] = sum(k, x[columns[k // 2]])"}, "the number of entries"),
        ({"text": "out[row] = sum(k, values[k] if k > 2 else 0)"}, "the number of entries"),
        ({"text": "for k\n    out[k] = values[k]\nend"}, "'insn_1' in loop 'k' is not a reduction"),
    ):
        with pytest.raises(lp.TransformError, match=wanted):
            lp.balance(rows(**changed), "row, k")


def test_other_loops_of_a_row_are_rejected() -> None:
    text = "out[row] = sum(k, values[k]) + sum(j, values[j])"
    inner = "{ [j]: first <= j < last }"
    with pytest.raises(lp.TransformError, match="loop 'j' depends on 'first'"):
        lp.balance(rows(text, ("{ [k]: first <= k < last }", inner)), "row, k")
    text = "more[row, b] = sum(k, b*values[k]) {inames=row:b}"
    inner = "{ [b]: 0 <= b < 3 }"
    with pytest.raises(lp.TransformError, match="also inside loop 'b'"):
        lp.balance(rows(text, ("{ [k]: first <= k < last }", inner)), "row, k")


def test_arguments_are_checked() -> None:
    for inames, options, wanted in (
        ("row", {}, "two loops, not 1"),
        ("row, j", {}, "no iname 'j'"),
        ("k, row", {}, "runs over 'row' outside loop 'k'"),
        ("row, k", {"items": 0}, "'items' must be a number from 1"),
        ("row, k", {"items": 2**20, "group_size": 2}, "2 work-items with 1048576 steps each"),
        ("row, k", {"group_size": -1}, "'group_size' must be a number .*, not -1"),
        ("row, k", {"entries": "n*n"}, "'n\\*n' is not a number of entries"),
        ("row, k", {"entries": "q"}, "'q' is not a number that callers pass"),
        ("row, k", {"entries": "1 +"}, "'1 \\+' is not a number of entries"),
    ):
        with pytest.raises(lp.TransformError, match=wanted):
            lp.balance(rows(), inames, **options)


def test_tags_and_types_are_needed_in_order() -> None:
    with pytest.raises(
        lp.TransformError, match=r"has the tag 'g\.0'(.|\n)*hint: call balance before"
    ):
        lp.balance(lp.tag_inames(rows(), "row:g.0"), "row, k")
    with pytest.raises(lp.TransformError, match=r"hint: add_dtypes\(kernel, \{'values'"):
        lp.balance(rows("out[row] = sum(k, values[k])", dtype=None), "row, k")


def test_arrays_without_a_shape_tell_the_number_of_entries() -> None:
    data = [
        lp.GlobalArg("values", np.float64, shape=None),
        lp.GlobalArg("starts", np.int32, shape="n + 1"),
        ...,
    ]
    knl = lp.make_kernel(
        ["{ [row]: 0 <= row < n }", "{ [k]: 0 <= k < starts_after - starts_here }"],
        """
        for row
            <> starts_here = starts[row]
            <> starts_after = starts[row + 1]
            out[row] = sum(k, values[starts_here + k])
        end
        """,
        data,
        target=lp.ExecutableCTarget(),
    )
    given = matrix(LENGTHS["mixed"])
    (out,) = lp.balance(knl, "row, k")(values=given["values"], starts=given["starts"])[1]
    assert np.array_equal(out, each_row(given, lambda v, c, row: v.sum()))


def test_the_number_of_entries_may_be_given() -> None:
    knl = rows("out[row] = sum(k, x[columns[k // 2]])")
    given = matrix(LENGTHS["mixed"])
    found = run(lp.balance(knl, "row, k", items=3, group_size=4, entries="entries + 2"), given)
    terms = given["x"][given["columns"]].repeat(2)
    ends = pairwise(given["starts"])
    assert np.array_equal(found, [terms[a:b].sum() for a, b in ends])


GOLDEN = """
row_search_inner,row_search_outer: row_found = 0
row_round,row_search_inner,row_search_outer: row_quarter = 1073741824 >> 2*row_round
row_round,row_search_inner,row_search_outer: row_early = 1 if row_found + row_quarter <= n and
    cast(np:dtype('int64'), row_found + row_quarter) + (starts[row_found + row_quarter] -
    starts[0]) <= 2*cast(np:dtype('int64'), row_search_inner + row_search_outer*128) else 0
row_round,row_search_inner,row_search_outer: row_early_0 = 1 if row_found + 2*row_quarter <= n
    and cast(np:dtype('int64'), row_found + 2*row_quarter) + (starts[2*row_quarter + row_found]
    - starts[0]) <= 2*cast(np:dtype('int64'), row_search_inner + row_search_outer*128) else 0
row_round,row_search_inner,row_search_outer: row_early_1 = 1 if row_found + 3*row_quarter <= n
    and cast(np:dtype('int64'), row_found + 3*row_quarter) + (starts[3*row_quarter + row_found]
    - starts[0]) <= 2*cast(np:dtype('int64'), row_search_inner + row_search_outer*128) else 0
row_round,row_search_inner,row_search_outer: row_found = row_found + row_quarter*(row_early +
    row_early_0 + row_early_1)
row_search_inner,row_search_outer: row_of_tile[row_search_inner + row_search_outer*128] =
    row_found
: ... gbarrier
row_item,row_tile: row_first = row_of_tile[row_tile]
row_item,row_tile: row_ending = row_of_tile[row_tile + 1] - row_first
row_item,row_tile: row_entry = 2*cast(np:dtype('int64'), row_tile) - row_first + starts[0]
row_item,row_tile: row_left = cast(np:dtype('int64'), n) + starts[n] - starts[0] -
    2*cast(np:dtype('int64'), row_tile)
row_item,row_tile: row_entries = (2 if row_left > 2 else (row_left if row_left > 0 else 0)) -
    row_ending
row_end,row_item,row_tile: row_ends[row_end + row_item] = starts[min(row_first + (row_end +
    row_item), n - 1) + 1] - row_entry
k_stage,row_item,row_tile: row_staged = row_entry + (k_stage + row_item)
k_stage,row_item,row_tile: row_part[k_stage + row_item] = values[row_staged]
row_item,row_tile: row_first_step = min(2*row_item, row_entries + row_ending)
row_item,row_tile: row_done = 0
row_item,row_item_bit,row_tile: row_done = row_done + (2 >> row_item_bit)
row_item,row_tile: row_own_entry = row_first_step - row_done
row_item,row_tile: row_has_ended = False
row_item,row_tile: row_acc = 0.0
row_item,row_step,row_tile: row_is_entry = 2*row_item + row_step < row_entries + row_ending and
    row_own_entry < row_ends[row_done]
row_item,row_step,row_tile: row_is_end = 2*row_item + row_step < row_entries + row_ending and
    not row_is_entry
row_item,row_step,row_tile: row_acc = row_acc + row_part[row_own_entry]
row_item,row_step,row_tile: row_own_entry = row_own_entry + 1
row_item,row_step,row_tile: row_total[2*row_item + row_step] = row_acc
row_item,row_step,row_tile: row_acc = 0.0
row_item,row_step,row_tile: row_done = row_done + 1
row_item,row_step,row_tile: row_has_ended = True
row_item,row_tile: row_own[row_item] = row_acc
row_item,row_tile: row_ended[row_item] = row_has_ended
row_lane,row_tile: acc_row_before = 0.0
row_lane,row_tile: acc_row_before_0 = False
row_before,row_lane,row_tile: operand_row_before = row_own[row_before]
row_before,row_lane,row_tile: operand_row_before_0 = row_ended[row_before]
row_before,row_lane,row_tile: new_acc_row_before = operand_row_before if operand_row_before_0 !=
    0 else acc_row_before + operand_row_before
row_before,row_lane,row_tile: acc_row_before_0 = operand_row_before_0 if operand_row_before_0 !=
    0 else acc_row_before_0
row_before,row_lane,row_tile: acc_row_before = new_acc_row_before
row_lane,row_tile: row_upto[row_lane] = acc_row_before
row_lane,row_tile: row_any_ended[row_lane] = acc_row_before_0
row_carry_item,row_tile: row_carry[row_tile] = row_upto[0]
row_put,row_put_item,row_tile: row_slot = row_put + row_put_item + row_ends[row_put +
    row_put_item]
row_put,row_put_item,row_tile: row_ended_by = row_slot // 2
row_put,row_put_item,row_tile: row_begin = row_put + row_put_item + row_ends[row_put +
    row_put_item - 1] if row_put + row_put_item > 0 else 0
row_put,row_put_item,row_tile: row_sum = row_upto[row_ended_by - 1] + row_total[row_slot] if
    row_begin < 2*row_ended_by else row_total[row_slot]
row_put,row_put_item,row_tile: row_head[row_tile] = row_sum
row_put,row_put_item,row_tile: out[row_first + row_put + row_put_item] = row_sum
: ... gbarrier
row_late,row_late_inner: row_late_row = row_of_tile[row_late + row_late_inner]
row_late,row_late_inner: row_is_late = row_of_tile[row_late + row_late_inner + 1] > row_late_row
    and cast(np:dtype('int64'), row_late_row) + starts[row_late_row] - starts[0] <
    2*cast(np:dtype('int64'), row_late + row_late_inner)
row_late,row_late_inner: row_from = (cast(np:dtype('int64'), row_late_row) +
    starts[row_late_row] - starts[0]) // 2 if row_is_late else row_late + row_late_inner
row_late,row_late_inner: row_behind = row_late + row_late_inner - row_from
row_late,row_late_inner: row_sum = reduce(sum, [k_late, k_late_item], row_carry[row_from +
    k_late + k_late_item])
row_late,row_late_inner,row_late_one: row_sum = row_sum + row_head[row_late + row_late_inner]
row_late,row_late_inner,row_late_one: out[row_late_row] = row_sum
"""
