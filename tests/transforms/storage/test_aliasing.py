"""Temporaries in one storage: what is declared, what order they need, where barriers stand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.transforms.helpers import run

F = np.float64
TILES = """
    s[i] = a[i]             {id=ws}
    b[j] = s[7 - j]         {id=rs, dep=ws}
    t[k] = 2*c[k]           {id=wt, dep=rs}
    d[l] = t[7 - l]         {id=rt, dep=wt}
"""


def tiles(dtype: Any = np.float32, text: str = TILES, tags: str = "l.0") -> Any:
    """Make two tiles of different types that are used one after the other."""
    local = lp.AddressSpace.LOCAL if tags else lp.AddressSpace.PRIVATE
    temporaries = [
        lp.TemporaryVariable("s", F, shape=8, address_space=local),
        lp.TemporaryVariable("t", dtype, shape=8, address_space=local),
    ]
    data = [lp.GlobalArg("a,b,c,d", F, shape=8), *temporaries]
    knl = lp.make_kernel("{ [i,j,k,l]: 0<=i,j,k,l<8 }", text, data)
    return lp.tag_inames(knl, dict.fromkeys("ijkl", tags)) if tags else knl


def code(program: Any, target: Any = None) -> str:
    text = lp.generate_code_v2(program if target is None else program.copy(target=target))
    return str(text.device_code())


@pytest.mark.parametrize("later", ["", "t[k] = 2*c[k]   {id=wt, dep=rt}\nt[k] = c[k]   {dep=wt}"])
@pytest.mark.parametrize("threads", [None, 1, 3])
@pytest.mark.parametrize("tags", ["", "l.0"])
def test_what_another_temporary_left_is_no_value(later: str, threads: Any, tags: str) -> None:
    first = "\n".join(TILES.splitlines()[1:3])
    text = f"{first}\nd[l] = t[7 - l]   {{id=rt, dep=rs}}\n{later}"
    knl = lp.alias_temporaries(tiles(text=text, tags=tags), "s,t", "both")
    knl = knl.copy(target=lp.ExecutableCTarget(threads=threads))
    with pytest.raises(lp.KgenError, match=r"'t.7 - l.' is read where nothing can have written"):
        code(knl)


def test_storage_is_a_union_as_code_has_it() -> None:
    knl = lp.alias_temporaries(tiles(), "s,t", base_name_prefix="both")
    assert "__local union\n  {\n    double s[8];\n    float t[8];\n  } both;" in code(knl)
    assert "both.t[lid(0)] = 2.0 * c[lid(0)];" in code(knl)
    cuda = code(knl, lp.CudaTarget())
    assert "__shared__ union" in cuda
    assert "d[lid(x)] = both.t[7 - lid(x)];" in cuda


def test_a_barrier_keeps_the_tiles_apart() -> None:
    assert code(tiles()).count("barrier(") == 2
    text = code(lp.alias_temporaries(tiles(), "s,t"))
    assert text.count("barrier(") == 3
    assert "for s (wt depends on rs)" in text


def test_results_on_a_device(device: Any) -> None:
    a, c = np.arange(8.0), np.arange(8.0) + 0.5
    knl = lp.set_options(lp.alias_temporaries(tiles(), "s,t"), return_dict=True)
    _, out = device(knl, a=a, c=c)
    np.testing.assert_array_equal(out["b"], a[::-1])
    np.testing.assert_array_equal(out["d"], 2 * c[::-1])


def test_results_on_the_host() -> None:
    a, c = np.arange(8.0), np.arange(8.0)
    found = run(lp.alias_temporaries(tiles(np.int32, tags=""), "s,t"), a=a, c=c)
    np.testing.assert_array_equal(found["b"], a[::-1])
    np.testing.assert_array_equal(found["d"], 2 * c[::-1])


def test_exclusive_use_orders_what_dependencies_leave_open() -> None:
    text = """
        s[i] = a[i]             {id=ws}
        t[k] = 2*c[k]           {id=wt}
        b[j] = s[7 - j]         {id=rs, dep=ws}
        d[l] = t[7 - l]         {id=rt, dep=wt}
    """
    knl = tiles(text=text)
    shared = lp.linearize(lp.alias_temporaries(knl, "s,t")).default_entrypoint
    order = [item.insn_id for item in shared.linearization or () if hasattr(item, "insn_id")]
    assert order == ["ws", "rs", "wt", "rt"]
    free = lp.alias_temporaries(knl, "s,t", synchronize_for_exclusive_use=False)
    with pytest.raises(
        lp.VariableAccessNotOrdered, match="'rs' reads 's', which 'wt' has overwritten"
    ):
        lp.generate_code_v2(free)
    on_host = lp.alias_temporaries(tiles(text=text, tags=""), "s,t")
    a = np.arange(8.0)
    np.testing.assert_array_equal(run(on_host, a=a, c=a)["b"], a[::-1])


def test_values_that_last_to_the_next_iteration_are_missed() -> None:
    text = """
        <> s = 0                   {id=zero}
        for i
          <> t = 2*a[i]            {id=wt, dep=zero}
          b[i] = t                 {id=rt, dep=wt}
          s = s + 1                {id=ws, dep=rt:zero}
        end
        c[0] = s                   {dep=ws}
    """
    data = [lp.GlobalArg("a,b,c", F, shape=8), ...]
    knl = lp.make_kernel("{ [i]: 0<=i<8 }", text, data)
    lp.generate_code_v2(knl)
    shared = lp.alias_temporaries(knl, "s,t", synchronize_for_exclusive_use=False)
    with pytest.raises(lp.VariableAccessNotOrdered, match="'ws' reads 's'"):
        lp.generate_code_v2(shared)


def test_what_cannot_share_storage() -> None:
    with pytest.raises(lp.TransformError, match="'s' cannot share storage"):
        lp.alias_temporaries(lp.set_temporary_address_space(tiles(), "s", "global"), "s,t")
    with pytest.raises(lp.TransformError, match="'s' cannot share storage"):
        lp.alias_temporaries(lp.alias_temporaries(tiles(), "s,t"), "s,t")
    both = "s[i] = a[i] {id=w}\nt[i] = s[i] {id=both, dep=w}\nb[i] = t[i] {dep=both}"
    with pytest.raises(lp.TransformError, match="'both' uses 's' and 't' at once"):
        lp.alias_temporaries(tiles(text=both), "s,t")
    with pytest.raises(lp.TransformError, match="there is no temporary 'x'"):
        lp.alias_temporaries(tiles(), "s,x")
    knl = lp.set_temporary_address_space(lp.alias_temporaries(tiles(), "s,t"), "s", "private")
    with pytest.raises(lp.ScheduleError, match="are not in one address space"):
        lp.generate_code_v2(knl)


def test_declared_storage_has_room_for_all() -> None:
    knl = lp.alias_temporaries(tiles(), "s,t", base_name_prefix="both")
    knl = lp.allocate_temporaries_for_base_storage(knl)
    both = knl.default_entrypoint.temporary_variables["both"]
    assert (both.shape, both.address_space) == ((64,), lp.AddressSpace.LOCAL)
    assert "uchar both[64];\n  } both;" in code(knl)
    assert lp.allocate_temporaries_for_base_storage(knl, aliased=False) is knl


def test_only_storage_in_one_address_space_is_declared() -> None:
    knl = lp.alias_temporaries(tiles(), "s,t")
    only = lp.allocate_temporaries_for_base_storage(knl, only_address_space="private")
    assert only is knl


def test_storage_that_is_not_aliased_is_apart() -> None:
    temps = [
        lp.TemporaryVariable(n, np.float32, 16, lp.AddressSpace.PRIVATE, base_storage="st")
        for n in ("a", "b")
    ]
    knl = lp.make_kernel(
        "{[i]: 0<=i<16}", ["a[i] = x[i]", "b[i] = a[i] + 1", "c[i] = a[i] + b[i]"], [*temps, ...]
    )
    apart = lp.allocate_temporaries_for_base_storage(knl, aliased=False, max_nbytes=64)
    found = apart.default_entrypoint.temporary_variables
    assert {found[n].base_storage for n in "ab"} == {"st", "st_0"}
    assert found["st"].shape == found["st_0"].shape == (64,)
    x = np.arange(16, dtype=np.float32)
    _, (c,) = apart.copy(target=lp.ExecutableCTarget())(x=x)
    np.testing.assert_array_equal(c, 2 * x + 1)


ROUNDS = """
    t[f] = a[f]             {id=wt, inames=r:f}
    c[r, u] = t[u]          {id=rt, dep=wt, inames=r:u}
    s[%s] = b[r]            {id=ws, dep=rt, inames=r}
    d[v] = s[%s]            {id=rs, dep=ws, inames=v}
"""


@pytest.mark.parametrize(("written", "read", "is_lost"), [("r", "v", True), ("0", "0", False)])
def test_what_each_iteration_puts_in_another_place_is_lost_to_the_next_one(
    written: str, read: str, is_lost: bool
) -> None:
    temporaries = [
        lp.TemporaryVariable(n, np.float32, 4, lp.AddressSpace.PRIVATE) for n in ("s", "t")
    ]
    knl = lp.make_kernel(
        "{ [r, f, u, v]: 0 <= r, f, u, v < 4 }",
        ROUNDS % (written, read),
        [*temporaries, lp.GlobalArg("a,b,d", np.float32, 4), lp.GlobalArg("c", np.float32, (4, 4))],
        target=lp.CTarget(),
    )
    knl = lp.alias_temporaries(knl, "s,t")
    if is_lost:
        with pytest.raises(lp.VariableAccessNotOrdered, match="which 'wt' has overwritten"):
            lp.generate_code_v2(knl)
    else:
        assert "temp_storage.s[0] = b[r];" in code(knl)
