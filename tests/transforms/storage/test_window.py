"""Windows: what iterations of a loop share is kept from each to the next."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.lowering import lower, prepare
from kgen.schedule.place import schedule_kernel
from kgen.schedule.separation import find_unsynchronized
from tests.mutation.mutants import without_barriers
from tests.oracle import Oracle
from tests.transforms.helpers import assert_same_results, instructions, kernel_of

STAR = [(0, 1, 1), (2, 1, 1), (1, 0, 1), (1, 2, 1), (1, 1, 0), (1, 1, 2), (1, 1, 1)]
BOX = [(i, j, k) for i in range(3) for j in range(3) for k in range(3)]
HOST, DEVICE = lp.ExecutableCTarget(), lp.CudaTarget()
PRIVATE = lp.AddressSpace.PRIVATE


def stencil(taps: list[tuple[int, int, int]] = STAR, target: Any = HOST) -> lp.TranslationUnit:
    """A stencil of three axes, the reads above and below of which are tagged."""
    reads = (
        f"{n + 2}*a{'$col' if (y, x) == (1, 1) else ''}[z + {z}, y + {y}, x + {x}]"
        for n, (z, y, x) in enumerate(taps)
    )
    return lp.make_kernel(
        "{ [z, y, x]: 0 <= z, y, x < n }",
        f"b[z, y, x] = {' + '.join(reads)}",
        [
            lp.GlobalArg("a", np.float32, shape="n + 2, n + 2, n + 2"),
            lp.GlobalArg("b", np.float32, shape="n, n, n"),
            "...",
        ],
        assumptions="1 <= n <= 1000",
        target=target,
        name="stencil",
    )


def tiled(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    knl = lp.split_iname(knl, "y", 4, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "x", 8, outer_tag="g.0", inner_tag="l.0")


def expected(taps: list[tuple[int, int, int]], a: Any) -> Any:
    n = len(a) - 2
    return sum((k + 2) * a[z : z + n, y : y + n, x : x + n] for k, (z, y, x) in enumerate(taps))


def check_on_host(knl: lp.TranslationUnit, taps: list[tuple[int, int, int]]) -> None:
    for size in (1, 2, 9):
        a = np.random.default_rng(size).random((size + 2,) * 3).astype(np.float32)
        _, (b,) = knl(a=a)
        np.testing.assert_allclose(b, expected(taps, a), rtol=1e-5)


def rows(text: str, domain: str = "0 <= z < n", **more: Any) -> lp.TranslationUnit:
    """A kernel over planes and rows, without work-items."""
    return lp.make_kernel(
        f"{{ [z, x]: {domain} and 0 <= x < 8 }}",
        text,
        [lp.GlobalArg("a, b", np.float64, shape="2*n + 4, 10"), "..."],
        assumptions="n >= 1",
        **more,
    )


# -- what is made ---------------------------------------------------------------------------------


IN_REGISTERS = """\
  float a_col_fetch[3];
  __shared__ float a_plane[60];

  a_col_fetch[1] = a[136 * gid(y) + 34 * lid(y) + 8 * gid(x) + lid(x) + 35];
  a_col_fetch[2] = a[136 * gid(y) + 34 * lid(y) + 8 * gid(x) + lid(x) + 1191];
  for (int z = 0; z < 32; ++z)
  {
    a_col_fetch[0] = a_col_fetch[1];
    a_col_fetch[1] = a_col_fetch[2];
    a_col_fetch[2] = a[1156 * z + 136 * gid(y) + 34 * lid(y) + 8 * gid(x) + lid(x) + 2347];
    __syncwarp();  // for a_plane (a_fetch_rule rev-depends on insn)
    a_plane[10 * lid(y) + lid(x)] = a[1156 * z + 136 * gid(y) + 34 * lid(y) + 8 * gid(x) + lid(x) \
+ 1156];
"""


def test_the_planes_above_and_below_are_registers() -> None:
    knl = lp.add_prefetch(tiled(stencil(target=DEVICE)), "a$col", window="z")
    knl = lp.add_prefetch(knl, "a", "y_inner, x_inner", temporary_name="a_plane", within="id:insn")
    code = lp.generate_body(lp.fix_parameters(knl, n=32))
    assert code.startswith(IN_REGISTERS)
    assert "2.0f * a_col_fetch[0] + 3.0f * a_col_fetch[2] + 4.0f * a_plane[10 * lid(y)" in code


SHARED = """\
  __shared__ float a_fetch[40];

  #pragma unroll
  for (int a_dim_0_prologue = 0; a_dim_0_prologue < 2; ++a_dim_0_prologue)
  {
    a_fetch[10 * a_dim_0_prologue + lid(x)] = a[34 * a_dim_0_prologue + 8 * gid(x) + lid(x)];
    if (lid(x) < 2)
      a_fetch[10 * a_dim_0_prologue + lid(x) + 8] = a[34 * a_dim_0_prologue + 8 * gid(x) + lid(x) \
+ 8];
  }
  for (int z = 0; z < 32; ++z)
  {
    a_fetch[10 * ((z + 2) % 4) + lid(x)] = a[34 * z + 8 * gid(x) + lid(x) + 68];
    if (lid(x) < 2)
      a_fetch[10 * ((z + 2) % 4) + lid(x) + 8] = a[34 * z + 8 * gid(x) + lid(x) + 76];
    __syncwarp();  // for a_fetch (insn depends on a_fetch_rule)
    b[32 * z + 8 * gid(x) + lid(x)] = a_fetch[10 * (z % 4) + lid(x) + 1] + \
a_fetch[10 * ((z + 1) % 4) + lid(x)] + a_fetch[10 * ((z + 1) % 4) + lid(x) + 2] + \
a_fetch[10 * ((z + 2) % 4) + lid(x) + 1];
  }
"""


def test_the_address_space_of_a_window_may_be_text() -> None:
    knl = rows("b[z, x] = a[z, x] + a[z + 1, x]")
    private, text = (
        lp.generate_body(lp.add_prefetch(knl, "a", "x", window="z", temporary_address_space=space))
        for space in (PRIVATE, "private")
    )
    assert private == text
    assert " = a_fetch[" in private  # they move
    with pytest.raises(lp.KgenError, match="is not an address space"):
        lp.add_prefetch(knl, "a", window="z", temporary_address_space=np.arange(3))


def flat() -> lp.TranslationUnit:
    knl = lp.make_kernel(
        "{ [z, x]: 0 <= z, x < n }",
        "b[z, x] = a$col[z, x + 1] + a[z + 1, x] + a[z + 1, x + 2] + a$col[z + 2, x + 1]",
        [
            lp.GlobalArg("a", np.float32, shape="n + 2, n + 2"),
            lp.GlobalArg("b", np.float32, shape="n, n"),
            "...",
        ],
        assumptions="1 <= n <= 1000",
        target=DEVICE,
    )
    return lp.split_iname(knl, "x", 8, outer_tag="g.0", inner_tag="l.0")


def test_shared_planes_take_turns_with_one_barrier() -> None:
    knl = lp.add_prefetch(flat(), "a", "x_inner", ["p", "c"], window="z")
    knl = lp.rename_iname(knl, "p_prologue", "a_dim_0_prologue")
    knl = lp.tag_inames(knl, "a_dim_0_prologue:unr_hint", force=True)
    assert lp.generate_body(lp.fix_parameters(knl, n=32)) + "\n" == SHARED


def test_each_plane_is_fetched_once_and_in_order() -> None:
    knl = kernel_of(lp.add_prefetch(flat(), "a", "x_inner", window="z"))
    for size in (1, 2, 5):
        lowered = lower(knl)
        Oracle(lowered.kernel, {"n": size}).check(lowered.functions)


def test_backwards_and_several_planes_at_once() -> None:
    knl = rows("b[z, x] = a[2*n - 2*z, x] + a[2*n - 2*z + 1, x] + a[2*n - 2*z + 3, x]")
    assert instructions(lp.add_prefetch(knl, "a", window="z", dim_arg_names="p, q"))[:3] == [
        "p_prologue,x,z_prologue: a_fetch[p_prologue] = a[2*n - 2*z_prologue + p_prologue + 2, x]",
        "p_kept,x,z: a_fetch[3 - p_kept] = a_fetch[1 - p_kept]",
        "p,x,z: a_fetch[p] = a[2*n - 2*z + p, x]",
    ]
    for size in (1, 2, 5):
        data = {"a": np.random.default_rng(size).random((2 * size + 4, 10))}
        data["b"] = np.zeros_like(data["a"])
        for sweep in ("", "x"):
            ahead = lp.add_prefetch(knl, "a", sweep, window="z", default_tag=None)
            assert_same_results(knl, ahead, data)


# -- results --------------------------------------------------------------------------------------


@pytest.mark.parametrize("taps", [BOX, [(0, 0, 1), (2, 1, 0)]])
@pytest.mark.parametrize("where", [None, PRIVATE])
def test_stencils_are_right_on_the_host(taps: Any, where: Any) -> None:
    plain = stencil(taps)
    if where is None:
        check_on_host(lp.add_prefetch(tiled(plain), "a", "y_inner, x_inner", window="z"), taps)
        return
    check_on_host(lp.add_prefetch(plain, "a", window="z", temporary_address_space=where), taps)


@pytest.mark.parametrize(("taps", "is_chunked"), [(STAR, True), (BOX, False)])
def test_stencils_are_right_on_opencl(opencl_queue: Any, taps: Any, is_chunked: bool) -> None:
    knl, loop = tiled(stencil(taps, lp.PyOpenCLTarget())), "z"
    if is_chunked:
        knl, loop = lp.split_iname(knl, "z", 4, outer_tag="g.2"), "z_inner"
    knl = lp.add_prefetch(knl, "a", "y_inner, x_inner", window=loop)
    for size in (1, 9):
        a = np.random.default_rng(size).random((size + 2,) * 3).astype(np.float32)
        _, (b,) = knl(opencl_queue, a=a)
        np.testing.assert_allclose(b, expected(taps, a), rtol=1e-5)


@pytest.mark.parametrize("sweep", ["", "y_inner, x_inner"])
def test_a_window_is_proved_to_compute_the_same(sweep: str) -> None:
    knl = tiled(stencil(target=DEVICE))
    report = lp.verify(lp.add_prefetch(knl, "a" if sweep else "a$col", sweep, window="z"))
    assert report.ok
    assert not report.unknown, report


def test_a_plane_may_be_pipelined_beside_a_window() -> None:
    knl = lp.add_prefetch(flat(), "a$col", window="z")
    knl = lp.add_prefetch(
        knl, "a", "x_inner", temporary_name="row", within="id:insn", fetch_bounding_box=True
    )
    assert lp.verify(lp.pipeline(knl, "z", 2, "row")).ok


# -- mutations ------------------------------------------------------------------------------------


def test_each_barrier_of_a_window_is_needed() -> None:
    knl = lp.fix_parameters(lp.add_prefetch(flat(), "a", "x_inner", window="z"), n=32)
    kernel = prepare(kernel_of(knl))
    mutants = list(without_barriers(schedule_kernel(kernel)))
    assert mutants
    assert all(next(find_unsynchronized(kernel, mutant), None) for _, mutant in mutants)


@pytest.mark.parametrize(
    ("insn_id", "right", "wrong"),
    [
        ("a_fetch_rule", "(z + 2) % 4", "(z + 1) % 4"),
        ("a_fetch_rule", "a[z + 2", "a[z + 1"),
        ("a_fetch_rule_prologue", "a_dim_0_prologue + z_prologue,", "z_prologue,"),
        ("insn", "(z + 2) % 4", "z % 4"),
    ],
)
def test_a_faulty_window_is_found(insn_id: str, right: str, wrong: str) -> None:
    knl = rows("b[z, x] = a[z, x] + 2*a[z + 2, 7 - x]")
    kernel = kernel_of(lp.add_prefetch(knl, "a", "x", window="z", default_tag=None))
    insn = kernel.id_to_insn[insn_id]
    text = str(insn).partition("  {")[0]
    assert right in text
    place, value = (part.strip() for part in text.replace(right, wrong).split(" = "))
    changed = insn.copy(assignee=lp.symbolic.parse(place), expression=lp.symbolic.parse(value))
    others = [changed if i is insn else i for i in kernel.instructions]
    assert not lp.verify(kernel.copy(instructions=others)).ok


def test_registers_that_do_not_move_are_found() -> None:
    kernel = kernel_of(lp.add_prefetch(rows("b[z, x] = a[z, x] + a[z + 2, x]"), "a", window="z"))
    others = [
        i.copy(depends_on=i.depends_on - {"a_fetch_rule_kept"})
        for i in kernel.instructions
        if i.id != "a_fetch_rule_kept"
    ]
    assert not lp.verify(kernel.copy(instructions=others)).ok


# -- what is rejected -----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*overwrite each other")
@pytest.mark.parametrize(
    ("text", "options", "because"),
    [
        ("b[z, x] = a[z, x] + a[z + 1, x]", {"window": "zz"}, "no iname 'zz'"),
        (
            "b[z, x] = a[z, x] + a[z + 1, x]",
            {"window": "x", "sweep_inames": "x"},
            "is both swept and",
        ),
        ("b[z, x] = a[0, x] + a[1, x]", {"window": "z"}, "no subscript depends on that loop"),
        ("b[z, x] = a[z, x]", {"window": "z"}, "no element is read in two iterations"),
        ("b[z, x] = a[z, x] + a[2*z, x]", {"window": "z"}, "move by 1 along axis 0 and 2"),
        (
            "b[z, x] = a[z % 2, x] + a[z, x]",
            {"window": "z"},
            "'z % 2' does not move at a constant rate",
        ),
        ("a[z + 1, x] = a[z, x] + a[z + 1, x]", {"window": "z"}, "a dependence through 'a'"),
        (
            "for z\n<> t = a[z, x] + a[z + 1, x] {id=t}\n... gbarrier {dep=t}\nb[z, x] = 0\nend",
            {"window": "z"},
            "ends the launch",
        ),
        (
            "for z\nb[z, x] = a[z, x] + a[z + 1, x]\nb[z, 9] = 1\nend",
            {"window": "z"},
            "loop 'x' is inside 'z'",
        ),
    ],
)
def test_what_has_no_window(text: str, options: dict[str, Any], because: str) -> None:
    with pytest.raises(lp.KgenError, match=re.escape(because)):
        lp.add_prefetch(rows(text), "a", **options)


def test_a_parallel_loop_has_no_window() -> None:
    knl = lp.tag_inames(rows("b[z, x] = a[z, x] + a[z + 1, x]", target=DEVICE), "x:l.0")
    with pytest.raises(lp.KgenError, match="it is tagged"):
        lp.add_prefetch(knl, "a", window="x")


def test_a_loop_with_gaps_has_no_window() -> None:
    knl = rows("b[z, x] = a[z, x] + a[z + 2, x]", "0 <= z < n and z mod 2 = 0")
    with pytest.raises(lp.KgenError, match="the loop skips 1"):
        lp.add_prefetch(knl, "a", window="z")
