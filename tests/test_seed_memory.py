"""The programs of loopy's tutorial on memory and order, with only the import changed.

From 'Temporaries in local memory' to 'Obtaining Performance Statistics'. Results, warnings and
errors are checked; the text of generated code is not compared, since it may differ.
"""

# The programs are as they are:
# ruff: noqa: C408, RUF059

from __future__ import annotations

from typing import Any
from warnings import catch_warnings, filterwarnings

import numpy as np
import pytest

import kgen as lp
from kgen.compat.loopy import diagnostic
from tests.test_seed_programs import Data, TUnit, data, preparation, pytestmark

__all__ = ["data", "preparation", "pytestmark"]  # fixtures and filters are found by name


# -- Temporaries ---------------------------------------------------------------------------


def test_temporaries_in_local_memory(data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    knl = lp.make_kernel(
        "{ [i_outer,i_inner, k]:  0<= 16*i_outer + i_inner <n and 0<= i_inner,k <16}",
        """
        <> a_temp[i_inner] = a[16*i_outer + i_inner]
        out[16*i_outer + i_inner] = sum(k, a_temp[k])
        """,
    )
    knl = lp.tag_inames(knl, dict(i_outer="g.0", i_inner="l.0"))
    knl = lp.set_temporary_address_space(knl, "a_temp", "local")
    knl = lp.set_options(knl, write_code=True)
    evt, (out,) = knl(data.queue, a=data.x_vec_dev)
    code = capsys.readouterr().out
    assert "__local float a_temp[16];" in code
    assert code.count("barrier(CLK_LOCAL_MEM_FENCE)") == 1
    assert "for a_temp (insn_0_k_update depends on insn)" in code
    sums = data.x_vec_dev.get().reshape(-1, 16).sum(1)
    np.testing.assert_allclose(out.get(), np.repeat(sums, 16), rtol=1e-5)


def make_prefetchable() -> TUnit:
    knl = lp.make_kernel(
        "{ [i_outer,i_inner, k]:  0<= 16*i_outer + i_inner <n and 0<= i_inner,k <16}",
        """
        out[16*i_outer + i_inner] = sum(k, a[16*i_outer + i_inner])
        """,
    )
    knl = lp.tag_inames(knl, dict(i_outer="g.0", i_inner="l.0"))
    return lp.set_options(knl, write_code=True)


def test_prefetching_one_element(data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    knl_pf = lp.add_prefetch(make_prefetchable(), "a")
    evt, (out,) = knl_pf(data.queue, a=data.x_vec_dev)
    assert "a_fetch = a[16 * gid(0) + lid(0)];" in capsys.readouterr().out
    np.testing.assert_allclose(out.get(), 16 * data.x_vec_dev.get(), rtol=1e-5)


def test_prefetching_a_loop(data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    knl_pf = lp.add_prefetch(make_prefetchable(), "a", ["i_inner"], default_tag="l.0")
    evt, (out,) = knl_pf(data.queue, a=data.x_vec_dev)
    assert "a_fetch[lid(0)] = a[16 * gid(0) + lid(0)];" in capsys.readouterr().out
    np.testing.assert_allclose(out.get(), 16 * data.x_vec_dev.get(), rtol=1e-5)


# -- Synchronization -----------------------------------------------------------------------


def test_a_missing_global_barrier() -> None:
    knl = lp.make_kernel(
        "[n] -> {[i] : 0<=i<n}",
        """
        for i
           <>tmp = arr[i] {id=maketmp,dep=*}
           arr[(i + 1) % n] = tmp {id=rotate,dep=*maketmp}
        end
        """,
        [
            lp.GlobalArg("arr", shape=("n",), dtype=np.int32),
            "...",
        ],
        name="rotate_v1",
        assumptions="n mod 16 = 0",
    )
    knl = lp.split_iname(knl, "i", 16, inner_tag="l.0", outer_tag="g.0")
    with pytest.raises(diagnostic.MissingBarrierError) as caught:
        lp.generate_code_v2(knl)
    assert str(caught.value).splitlines()[0] == (
        "rotate_v1: Dependency 'rotate depends on maketmp' (for variable 'arr') requires "
        "synchronization by a global barrier (add a 'no_sync_with' instruction option to state "
        "that no synchronization is needed)"
    )


def make_rotation() -> TUnit:
    prog = lp.make_kernel(
        "[n] -> {[i] : 0<=i<n}",
        """
        for i
           <>tmp = arr[i] {id=maketmp,dep=*}
           ... gbarrier {id=bar,dep=*maketmp}
           arr[(i + 1) % n] = tmp {id=rotate,dep=*bar}
        end
        """,
        [
            lp.GlobalArg("arr", shape=("n",), dtype=np.int32),
            "...",
        ],
        name="rotate_v2",
        assumptions="n mod 16 = 0",
    )
    prog = lp.split_iname(prog, "i", 16, inner_tag="l.0", outer_tag="g.0")
    return prog.with_kernel(
        prog.default_entrypoint.copy(silenced_warnings=["v1_scheduler_fallback"])
    )


def test_a_value_that_does_not_outlive_a_launch() -> None:
    with pytest.raises(diagnostic.MissingDefinitionError) as caught:
        lp.generate_code_v2(make_rotation())
    assert str(caught.value).splitlines()[0] == (
        "temporary variable 'tmp' gets used in subkernel 'rotate_v2_0' without a definition "
        "(maybe you forgot to call save_and_reload_temporaries?)"
    )


def linearization(prog: TUnit) -> list[str]:
    lines = str(prog).splitlines()
    return lines[lines.index("LINEARIZATION:") + 1 : -1]


def test_saving_temporaries_across_global_barriers(data: Data) -> None:
    prog = make_rotation()
    prog = lp.preprocess_kernel(prog)
    knl = lp.get_one_linearized_kernel(prog["rotate_v2"], prog.callables_table)
    prog = prog.with_kernel(knl)
    assert (
        linearization(prog)
        == """\
   0: CALL KERNEL rotate_v2
   1:     tmp = arr[i_inner + i_outer*16]  {id=maketmp}
   2: RETURN FROM KERNEL rotate_v2
   3: ... gbarrier
   4: CALL KERNEL rotate_v2_0
   5:     arr[(i_inner + i_outer*16 + 1) % n] = tmp  {id=rotate}
   6: RETURN FROM KERNEL rotate_v2_0""".splitlines()
    )

    prog = lp.save_and_reload_temporaries(prog)
    knl = lp.get_one_linearized_kernel(prog["rotate_v2"], prog.callables_table)
    prog = prog.with_kernel(knl)
    lines = str(prog).splitlines()
    at = lines.index("TEMPORARIES:")
    assert (
        lines[at + 1 : at + 3]
        == """\
tmp: type: np:dtype('int32'), shape: () aspace: private
tmp_save_slot: type: np:dtype('int32'), shape: (n // 16, 16), \
dim_tags: (N1:stride:16, N0:stride:1) aspace: global""".splitlines()
    )
    assert (
        linearization(prog)
        == """\
   0: CALL KERNEL rotate_v2
   1:     tmp = arr[i_inner + i_outer*16]  {id=maketmp}
   2:     tmp_save_slot[tmp_save_hw_dim_0_rotate_v2, tmp_save_hw_dim_1_rotate_v2] = tmp  \
{id=tmp.save}
   3: RETURN FROM KERNEL rotate_v2
   4: ... gbarrier
   5: CALL KERNEL rotate_v2_0
   6:     tmp = tmp_save_slot[tmp_reload_hw_dim_0_rotate_v2_0, tmp_reload_hw_dim_1_rotate_v2_0]  \
{id=tmp.reload}
   7:     arr[(i_inner + i_outer*16 + 1) % n] = tmp  {id=rotate}
   8: RETURN FROM KERNEL rotate_v2_0""".splitlines()
    )

    cgr = lp.generate_code_v2(prog)
    assert cgr.device_code().count("__kernel") == 2

    cl_array = pytest.importorskip("pyopencl.array")
    arr = cl_array.arange(data.queue, 16, dtype=np.int32)
    evt, (out,) = prog(data.queue, arr=arr)
    assert str(arr) == "[15  0  1  2  3  4  5  6  7  8  9 10 11 12 13 14]"


def test_saving_temporaries_on_the_host() -> None:
    prog = make_rotation().copy(target=lp.ExecutableCTarget())
    with pytest.raises(diagnostic.MissingDefinitionError, match="'tmp' gets used"):
        prog(arr=np.arange(16, dtype=np.int32))
    prog = lp.save_and_reload_temporaries(prog)
    arr = np.arange(32, dtype=np.int32)
    prog(arr=arr)
    assert (arr == np.roll(np.arange(32), 1)).all()


def test_saving_temporaries_on_cuda() -> None:
    prog = lp.save_and_reload_temporaries(make_rotation().copy(target=lp.CudaTarget()))
    code = lp.generate_code_v2(prog).device_code()
    assert "tmp_save_slot[16 * gid(x) + lid(x)] = tmp;" in code
    assert "int const tmp = tmp_save_slot[16 * gid(x) + lid(x)];" in code


def test_atomic_operations(data: Data) -> None:
    dtype = np.float32
    knl = lp.make_kernel(
        "{ [i]: 0<=i<n }",
        "out[i%20] = out[i%20] + 2*a[i] {atomic}",
        [
            lp.GlobalArg("out", dtype, shape=lp.auto, for_atomic=True),
            lp.GlobalArg("a", dtype, shape=lp.auto),
            "...",
        ],
        assumptions="n>0",
    )
    knl = lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    out = np.zeros(20, dtype)
    knl(data.queue, a=data.x_vec_host, out=out)
    wanted = np.zeros(20)
    np.add.at(wanted, np.arange(data.x_vec_host.size) % 20, 2 * data.x_vec_host)
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)


# -- Common problems -----------------------------------------------------------------------


def make_racing_transposition() -> TUnit:
    knl = lp.make_kernel(
        "{ [i,j]: 0<=i,j<n }",
        """
          out[j,i] = a[i,j]
          """,
        assumptions="n>=1",
        name="transpose",
    )
    knl = lp.split_iname(knl, "j", 16, inner_tag="l.1", outer_tag="g.0")
    knl = lp.split_iname(knl, "i", 16, inner_tag="l.0", outer_tag="g.1")
    return lp.add_prefetch(knl, "a", "i_inner", default_tag="l.auto")


def test_a_write_race(data: Data) -> None:
    knl = make_racing_transposition()
    with pytest.raises(diagnostic.WriteRaceConditionWarning) as caught:
        evt, (out,) = knl(data.queue, a=data.a_mat_dev)
    # the way to silence it is spelled our way
    assert str(caught.value).partition(" (add ")[0] == (
        "in kernel transpose: instruction 'a_fetch_rule' looks invalid: it assigns to indices "
        "based on local IDs, but its temporary 'a_fetch' cannot be made local because a write "
        "race across the iname(s) 'j_inner' would emerge. (Do you need to add an extra iname to "
        "your prefetch?)"
    )
    assert "'write_race_local(a_fetch_rule)' to silenced_warnings" in str(caught.value)


def test_code_with_a_write_race(data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    knl = lp.set_options(make_racing_transposition(), write_code=True)
    with catch_warnings():
        filterwarnings("always", category=lp.KgenWarning)
        evt, (out,) = knl(data.queue, a=data.a_mat_dev)
    code: Any = capsys.readouterr().out
    assert "float a_fetch[16]" in code
    assert "__local" not in code
    assert (out.get() == data.a_mat_dev.get().T).all()
