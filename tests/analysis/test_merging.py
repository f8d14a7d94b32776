"""Whether loops can be one."""

from __future__ import annotations

import numpy as np
import pytest

import kgen as lp
from kgen.errors import TransformError
from kgen.transforms.programs import fuse
from tests.random.checks import check_alone, fails
from tests.random.choices import Draw
from tests.random.fused import draw_fused_program


def _two(read: str) -> lp.TranslationUnit:
    text = f"b[i] = b[i] + 1 {{id=w}}\no[j] = b[{read}] {{id=r, dep=w}}"
    arrays = [lp.GlobalArg("b, o", np.float64, shape="8")]
    return lp.make_kernel("{ [i, j]: 0 <= i, j < 8 }", text, arrays, target=lp.ExecutableCTarget())


@pytest.mark.parametrize("read", ["7 - j", "(j + 4) % 8"])
def test_loops_that_read_later_iterations_are_not_renamed_into_one(read: str) -> None:
    with pytest.raises(TransformError, match=r"'r' depend on later iterations of 'w'"):
        lp.rename_iname(_two(read), "j", "i", existing_ok=True)
    with pytest.raises(TransformError, match="loops over"):
        lp.rename_inames(_two(read), ["i", "j"], "k")


@pytest.mark.parametrize("read", ["j", "j // 2"])
def test_loops_that_read_earlier_iterations_are_renamed_into_one(read: str) -> None:
    knl = _two(read)
    fused = lp.rename_iname(knl, "j", "i", existing_ok=True)
    (_, before), (_, after) = (k(b=np.arange(8.0)) for k in (knl, fused))
    assert all(map(np.array_equal, before, after))


def test_parallel_loops_become_one_and_have_a_barrier() -> None:
    knl = lp.rename_iname(lp.tag_inames(_two("7 - j"), "i:l.0, j:l.0"), "j", "i", existing_ok=True)
    _, (b, o) = knl(b=np.arange(8.0))
    assert o.tolist() == b[::-1].tolist() == list(range(8, 0, -1))


def _fused(read: str) -> lp.TranslationUnit:
    arrays = [lp.GlobalArg("b", np.float64, shape="8")]
    domain, target = "{ [i]: 0 <= i < 8 }", lp.ExecutableCTarget()
    one = lp.make_kernel(domain, "b[i] = b[i] + 1", arrays, target=target)
    arrays = [*arrays, lp.GlobalArg("o", np.float64, shape="8")]
    two = lp.make_kernel(domain, f"o[i] = b[{read}]", arrays, target=target)
    return lp.fuse_kernels([one, two], data_flow=[("b", 0, 1)])


def _adding(text: str, added: str, dtype: type = np.float64) -> lp.TranslationUnit:
    data = [
        lp.GlobalArg("o", np.float64, shape="4"),
        lp.GlobalArg(added, np.float64, shape="4, 5"),
        lp.TemporaryVariable("t", dtype),
    ]
    domain = "{ [i, k]: 0 <= i < 4 and 0 <= k < 5 }"
    target = lp.ExecutableCTarget()
    return lp.make_kernel(domain, text, data, seq_dependencies=True, target=target)


def test_sums_that_read_the_old_value_to_a_temporary_are_fused() -> None:
    text = "t = o[i]\no[i] = t + {}[i, k]"
    parts = [_adding(text.format(name), name) for name in "ab"]
    fused = lp.fuse_kernels(parts, data_flow=[("o", 0, 1)])
    a, b, o = np.arange(20.0).reshape(4, 5), np.ones((4, 5)), np.ones(4)
    fused(o=o, a=a, b=b)
    assert o.tolist() == (a.sum(1) + 6).tolist()
    scaled = _adding("t = o[i]\no[i] = 2*t + b[i, k]", "b")
    truncated = _adding(text.format("b"), "b", np.int32)
    for other in (scaled, truncated):
        with pytest.raises(TransformError, match="the loops over i cannot be fused"):
            lp.fuse_kernels([parts[0], other], data_flow=[("o", 0, 1)])


def test_data_flow_from_later_iterations_is_rejected() -> None:
    with pytest.raises(TransformError, match="the loops over i cannot be fused"):
        _fused("7 - i")
    _, (_, o) = _fused("i // 2")(b=np.arange(8.0))
    assert o.tolist() == [1, 1, 2, 2, 3, 3, 4, 4]


@pytest.mark.parametrize("value", ["if(c[i] > 0, b[7 - i], 0)", "b[p[i]]"])
def test_data_that_may_flow_from_later_iterations_are_rejected(value: str) -> None:
    one = lp.make_kernel("{ [i]: 0 <= i < 8 }", "b[i] = 2*a[i]", name="one")
    b = lp.GlobalArg("b", shape=8)
    two = lp.make_kernel("{ [i]: 0 <= i < 8 }", f"o[i] = {value}", [b, ...], name="two")
    with pytest.raises(TransformError, match=r"iterations of 'insn_0' may depend on later"):
        lp.fuse_kernels([one, two], data_flow=[("b", 0, 1)])
    lp.fuse_kernels([one, lp.rename_iname(two, "i", "j")], data_flow=[("b", 0, 1)])


def test_sums_of_two_loops_are_added_in_any_order() -> None:
    text = "<> acc = 0 {id=z}\nacc = acc + a[i] {id=p, dep=z}\nacc = acc + 2*a[j] {id=q, dep=p}"
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i, j < 8 }",
        f"{text}\no = acc {{dep=q}}",
        [lp.GlobalArg("a", np.float64, shape=8), lp.GlobalArg("o", np.float64, shape=()), ...],
        target=lp.ExecutableCTarget(),
    )
    _, (o,) = lp.rename_iname(knl, "j", "i", existing_ok=True)(a=np.arange(8.0))
    assert o == 3 * 28


def test_random_programs_notice_if_nothing_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuse, "check_order_kept", lambda *_: None)
    drawn = (draw_fused_program(Draw(f"unchecked {k}")) for k in range(38, 80))
    assert any(fails(check_alone, AssertionError, program) for program in drawn)
