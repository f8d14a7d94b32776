"""Values that outlive launches: what is saved and reloaded, and that results are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kgen as lp

F = np.float64
Array = np.ndarray[Any, Any]


def program(domain: str, text: str, data: list[Any], tags: str, **options: Any) -> Any:
    """Make a kernel of one group of work-items or several."""
    knl = lp.make_kernel(domain, text, [*data, ...], **options)
    return lp.tag_inames(knl, tags)


def moves(program: Any) -> list[str]:
    """Return what saves and reloads, by launch: ``"0: save t"``."""
    knl = lp.linearize(lp.save_and_reload_temporaries(program)).default_entrypoint
    launches = lp.get_subkernel_to_insn_id_map(knl)
    return [
        f"{number}: {name.partition('.')[2].partition('_')[0]} {name.partition('.')[0]}"
        for number, launch in enumerate(lp.get_subkernels(knl))
        for name in sorted(launches[launch], key=list(knl.id_to_insn).index)
        if "." in name
    ]


ROTATE = """
    <> t = a[i]            {id=w, dep=*}
    ... gbarrier           {id=bar, dep=w}
    a[(i + 1) % 12] = t    {dep=*bar}
"""


def rotate() -> Any:
    knl = lp.make_kernel("{ [i]: 0<=i<12 }", ROTATE, [lp.GlobalArg("a", F, shape=12), ...])
    return lp.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")


def twice() -> Any:
    text = """
        <> t = a[i]                  {id=w, dep=*}
        ... gbarrier                 {id=b1, dep=w}
        a[(i + 1) % 12] = t          {id=r1, dep=*b1}
        ... gbarrier                 {id=b2, dep=r1}
        a[11 - i] = a[11 - i] + t    {dep=*b2}
    """
    return program("{ [i]: 0<=i<12 }", text, [lp.GlobalArg("a", F, shape=12)], "i:g.0")


def part(condition: str) -> Any:
    """Change some of the values in a launch of its own."""
    text = f"""
        <> t = a[i]                       {{id=w, dep=*}}
        ... gbarrier                      {{id=b1, dep=w}}
        if {condition}
          t = 5                           {{id=w2, dep=*b1}}
        end
        ... gbarrier                      {{id=b2, dep=w2}}
        a[(i + 1) % 12] = t               {{dep=*b2}}
    """
    names = "a, c" if "c[" in condition else "a"
    knl = program("{ [i]: 0<=i<12 }", text, [lp.GlobalArg(names, F, shape=12)], "")
    return lp.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")


def column() -> Any:
    """A private array, the values of which are used in another order."""
    text = """
        for k
          t[k] = a[i, k]                {id=w, dep=*}
        end
        ... gbarrier                    {id=bar, dep=w}
        for j
          a[(i + 1) % 6, j] = t[2 - j]  {dep=*bar}
        end
    """
    data = [lp.GlobalArg("a", F, shape=(6, 3)), lp.TemporaryVariable("t", F)]
    return program("{ [i, j, k]: 0<=i<6 and 0<=j,k<3 }", text, data, "i:l.0")


def mixed() -> Any:
    """Elements that a launch writes one by one, and reads before it has written them."""
    text = """
        for k
          t[k] = a[i, k]                   {id=w, dep=*}
        end
        ... gbarrier                       {id=bar, dep=w}
        for j
          a[(i + 1) % 6, j] = t[2 - j]     {id=r, dep=*bar}
          t[j] = 7                         {dep=*r, inames=i:j}
        end
    """
    data = [lp.GlobalArg("a", F, shape=(6, 3)), lp.TemporaryVariable("t", F)]
    return program("{ [i, j, k]: 0<=i<6 and 0<=j,k<3 }", text, data, "i:g.0")


def total() -> Any:
    """A sum that two launches add to."""
    text = """
        for i
          <> acc = 0                     {id=zero}
          for k
            acc = acc + a[i, k]          {id=one, dep=*zero}
          end
          ... gbarrier                   {id=b1, dep=one}
          for j
            acc = acc + a[5 - i, j]      {id=two, dep=*b1}
          end
          ... gbarrier                   {id=b2, dep=two}
          a[i, 0] = acc                  {dep=*b2}
        end
    """
    data = [lp.GlobalArg("a", F, shape=(6, 3))]
    return program("{ [i, j, k]: 0<=i<6 and 0<=j,k<3 }", text, data, "i:l.0")


def tile(shape: int, lanes: int) -> Any:
    """A tile in local memory; its size is no multiple of the work-group's."""
    text = f"""
        t[j + {lanes}*k] = a[g, j + {lanes}*k]                {{id=w, dep=*}}
        ... gbarrier                                          {{id=bar, dep=w}}
        a[2 - g, m + {lanes}*n] = t[{shape - 1} - m - {lanes}*n]  {{dep=*bar}}
    """
    domain = (
        f"{{ [g, j, k, m, n]: 0<=g<3 and 0<=j,m<{lanes} and 0<=k and j + {lanes}*k < {shape} "
        f"and 0<=n and m + {lanes}*n < {shape} }}"
    )
    data = [
        lp.GlobalArg("a", F, shape=(3, shape)),
        lp.TemporaryVariable("t", F, address_space=lp.AddressSpace.LOCAL),
    ]
    return program(domain, text, data, "g:g.0, j:l.0, m:l.0")


def check_rotated(a: Array) -> Array:
    return np.roll(a, 1)


def check_twice(a: Array) -> Array:
    return np.roll(a, 1) + a[::-1]


def check_column(a: Array) -> Array:
    return np.roll(a, 1, 0)[:, ::-1]


def check_mixed(a: Array) -> Array:
    b = np.roll(a, 1, 0)[:, ::-1].copy()
    b[:, 2] = 7
    return b


def check_total(a: Array) -> Array:
    b = a.copy()
    b[:, 0] = a.sum(1) + a[::-1].sum(1)
    return b


def check_tile(a: Array) -> Array:
    return a[::-1, ::-1].copy()


CASES: dict[str, tuple[Callable[[], Any], tuple[int, ...], Callable[[Array], Array], list[str]]] = {
    "rotate": (rotate, (12,), check_rotated, ["0: save t", "1: reload t"]),
    "twice": (twice, (12,), check_twice, ["0: save t", "1: reload t", "2: reload t"]),
    "column": (column, (6, 3), check_column, ["0: save t", "1: reload t"]),
    "mixed": (mixed, (6, 3), check_mixed, ["0: save t", "1: reload t"]),
    "total": (
        total,
        (6, 3),
        check_total,
        ["0: save acc", "1: reload acc", "1: save acc", "2: reload acc"],
    ),
    "tile": (lambda: tile(20, 8), (3, 20), check_tile, ["0: save t", "1: reload t"]),
    "small tile": (lambda: tile(5, 8), (3, 5), check_tile, ["0: save t", "1: reload t"]),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_moved(name: str) -> None:
    make, _, _, wanted = CASES[name]
    assert moves(make()) == wanted


def without_types(program: Any) -> Any:
    """Leave the types of arrays to calls."""
    knl = program.default_entrypoint
    given = {n: t.copy(dtype=None) for n, t in knl.temporary_variables.items()}
    args = [arg.copy(dtype=None) if isinstance(arg, lp.GlobalArg) else arg for arg in knl.args]
    return program.with_kernel(knl.copy(args=tuple(args), temporary_variables=given))


@pytest.mark.parametrize("name", CASES)
def test_types_can_be_open(name: str) -> None:
    typed = CASES[name][0]()
    saved, wanted = map(lp.save_and_reload_temporaries, (without_types(typed), typed))
    shown, expected = (list(map(str, p.default_entrypoint.instructions)) for p in (saved, wanted))
    assert shown == expected


def test_types_of_saved_values_come_from_a_call(opencl_queue: Any) -> None:
    knl = lp.save_and_reload_temporaries(without_types(rotate()))
    for dtype in (np.float32, np.int64):
        a = np.arange(12, dtype=dtype)
        knl(opencl_queue, a=a)
        np.testing.assert_array_equal(a, np.roll(np.arange(12), 1))


def test_a_kernel_of_one_launch_needs_no_types() -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<n }", "<> t = a[i]\no[i] = 2*t")
    assert lp.save_and_reload_temporaries(knl) is knl
    knl = lp.make_kernel("{ [i, j]: 0<=i<n and 0<=j<9 }", "o[i] = sum(j, a[j])")
    with pytest.raises(lp.TypeInferenceFailure, match="the type of 'a' is not known"):
        lp.save_and_reload_temporaries(knl)


@pytest.mark.parametrize("name", CASES)
def test_results_on_a_device(name: str, device: Any) -> None:
    make, shape, expected, _ = CASES[name]
    a = np.random.default_rng(3).random(shape)
    wanted = expected(a)
    device(lp.save_and_reload_temporaries(make()), a=a)
    np.testing.assert_allclose(a, wanted)


@pytest.mark.parametrize("name", [name for name in CASES if "tile" not in name])
def test_results_on_the_host(name: str) -> None:
    make, shape, expected, _ = CASES[name]
    a = np.random.default_rng(3).random(shape)
    wanted = expected(a)
    lp.save_and_reload_temporaries(make().copy(target=lp.ExecutableCTarget()))(a=a)
    np.testing.assert_allclose(a, wanted)


@pytest.mark.parametrize("condition", ["i % 3 == 0", "i >= 5", "c[i] > 0.5"])
def test_the_rest_of_what_is_saved_is_reloaded_before(condition: str, opencl_queue: Any) -> None:
    reloaded = ["1: reload t"] if "c[" in condition else []  # else just those are saved
    assert moves(part(condition)) == ["0: save t", *reloaded, "1: save t", "2: reload t"]
    rng = np.random.default_rng(3)
    for target in (lp.ExecutableCTarget(), lp.PyOpenCLTarget()):
        a, c = rng.random(12), rng.random(12)
        i = np.arange(12)
        chosen = {"i % 3 == 0": i % 3 == 0, "i >= 5": i >= 5, "c[i] > 0.5": c > 0.5}[condition]
        wanted = np.roll(np.where(chosen, 5, a), 1)
        queue = () if isinstance(target, lp.ExecutableCTarget) else (opencl_queue,)
        given = {"c": c} if "c[" in condition else {}
        lp.save_and_reload_temporaries(part(condition).copy(target=target))(*queue, a=a, **given)
        np.testing.assert_allclose(a, wanted)


def test_a_value_that_is_written_anew_is_not_saved() -> None:
    text = """
        <> t = a[i]        {id=w, dep=*}
        b[i] = t           {id=r, dep=w}
        ... gbarrier       {id=bar, dep=r}
        t = a[11 - i]      {id=w2, dep=*bar}
        b[11 - i] = t      {dep=*w2}
    """
    knl = program("{ [i]: 0<=i<12 }", text, [lp.GlobalArg("a,b", F, shape=12)], "i:l.0")
    assert lp.save_and_reload_temporaries(knl) is knl
    lp.generate_code_v2(knl)


def test_a_condition_on_both_sides_covers() -> None:
    # t is written and read where the same data-dependent condition holds
    text = """
        <> t = a[i]        {id=w, dep=*}
        b[i] = t           {id=r, dep=w}
        ... gbarrier       {id=bar, dep=r}
        if c[i] > 0
          t = a[11 - i]    {id=w2, dep=*bar}
          b[11 - i] = t    {dep=*w2}
        end
    """
    knl = program("{ [i]: 0<=i<12 }", text, [lp.GlobalArg("a,b,c", F, shape=12)], "i:l.0")
    assert lp.save_and_reload_temporaries(knl) is knl


def test_a_value_written_under_a_condition_only_is_missed() -> None:
    with pytest.raises(lp.MissingDefinitionError, match="'t' gets used in subkernel"):
        lp.generate_code_v2(part("i >= 5"))


def test_neighbouring_work_items_have_neighbouring_entries() -> None:
    knl = lp.save_and_reload_temporaries(column()).default_entrypoint
    assert knl.temporary_variables["t_save_slot"].fixed_strides == (1, 6)


def test_loops_on_one_axis_share_a_value_on_the_host_too() -> None:
    text = """
        <> t = a[i]                {id=w, dep=*}
        ... gbarrier               {id=bar, dep=w}
        a[11 - j] = t              {id=r1, dep=*bar, inames=j}
        a[11 - k] = 2*t            {dep=*bar:r1, inames=k}
    """
    knl = program(
        "{ [i,j,k]: 0<=i,j,k<12 }", text, [lp.GlobalArg("a", F, shape=12)], "i:l.0,j:l.0,k:l.0"
    )
    assert moves(knl) == ["0: save t", "1: reload t"]
    host = knl.copy(target=lp.ExecutableCTarget())
    assert moves(host) == moves(knl)
    a = np.arange(12, dtype=F)
    lp.save_and_reload_temporaries(host)(a=a)
    assert a.tolist() == [22 - 2 * i for i in range(12)]


def test_cuda_code() -> None:
    knl = lp.save_and_reload_temporaries(rotate().copy(target=lp.CudaTarget()))
    code = lp.generate_code_v2(knl).device_code()
    assert code.count("__global__") == 2
    assert "t_save_slot[4 * gid(x) + lid(x)] = t;" in code


@pytest.mark.parametrize("n", [1, 4, 13])
def test_a_size_that_is_no_multiple_and_elements_of_some_work_items(n: int, device: Any) -> None:
    text = """
        t[k] = a[i] + k               {id=w, dep=*, inames=i:k}
        ... gbarrier                  {id=b1, dep=*w}
        t[l] = c[i]                   {id=w2, dep=*b1, inames=i:l, if=i >= 5}
        ... gbarrier                  {id=b2, dep=*w2}
        t[j] = t[j] + 1               {id=w3, dep=*b2, inames=i:j, if=i < n - 2}
        ... gbarrier                  {id=b3, dep=*w3}
        out[m, i] = t[2 - m]          {dep=*b3, inames=i:m}
    """
    data = [lp.GlobalArg("a, c", F, shape="n"), lp.TemporaryVariable("t", F, shape=3)]
    domain = "{ [i,j,k,l,m]: 0<=i<n and 0<=k,m<3 and 1<=l<3 and 0<=j<2 }"
    knl = program(domain, text, data, "", assumptions="n>=1")
    knl = lp.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    rng = np.random.default_rng(n)
    a, c, i = rng.random(n), rng.random(n), np.arange(n)
    t = a + np.arange(3.0)[:, None]
    t[1:] = np.where(i >= 5, c, t[1:])
    t[:2] = np.where(i < n - 2, t[:2] + 1, t[:2])
    on_host = lp.save_and_reload_temporaries(knl.copy(target=lp.ExecutableCTarget()))
    _, (out,) = on_host(a=a, c=c)
    np.testing.assert_allclose(out, t[::-1])
    _, (out,) = device(lp.save_and_reload_temporaries(knl), a=a, c=c)
    np.testing.assert_allclose(out, t[::-1])


def test_a_write_to_an_element_that_data_names_leaves_the_others(device: Any) -> None:
    text = """
        t[k] = k                      {id=w, inames=i:k}
        ... gbarrier                  {id=bar, dep=w}
        <> at = place[i]              {id=at, dep=bar}
        t[at] = 50                    {id=w2, dep=at}
        out[i] = t[2]                 {dep=w2}
    """
    data = [lp.TemporaryVariable("t", F, shape=4), lp.GlobalArg("place", np.int32, shape=8)]
    knl = program("{ [i,k]: 0<=i<8 and 0<=k<4 }", text, data, "i:l.0")
    place = np.arange(8, dtype=np.int32) % 4
    _, (out,) = device(lp.save_and_reload_temporaries(knl), place=place)
    np.testing.assert_array_equal(out, np.where(place == 2, 50, 2))


def test_the_kernel_of_a_program_that_is_changed() -> None:
    text = "<> t = a[i] {dep=*}\n... gbarrier {id=bar}\nb[i] = t {dep=*bar}"
    knl = program("{ [i]: 0<=i<8 }", text, [lp.GlobalArg("a", F, shape=8)], "i:g.0")
    assert lp.save_and_reload_temporaries(knl, entrypoint=knl.default_entrypoint.name) is not knl
    with pytest.raises(lp.KgenError, match="no kernel 'other'"):
        lp.save_and_reload_temporaries(knl, entrypoint="other")


def test_local_memory_of_launches_with_other_groups_is_not_saved() -> None:
    knl = lp.make_kernel(
        "{ [i, j, m]: 0 <= i < 6 and 0 <= j, m < 8 }",
        "<> h[j] = 3*j {id=h}\n... gbarrier\no[i, m] = h[7 - m]",
        seq_dependencies=True,
        target=lp.OpenCLTarget(),
    )
    knl = lp.tag_inames(knl, "i:g.0, j:l.0, m:l.0")
    local = lp.set_temporary_address_space(knl, "h", "local")
    with pytest.raises(lp.TransformError, match="'h' cannot be saved and reloaded") as refused:
        lp.save_and_reload_temporaries(local)
    assert "launch 'kgen_kernel' (h) has l.0; launch 'kgen_kernel_0' (insn" in str(refused.value)
    inside = lp.add_inames_to_insn(local, "i", "id:h")
    assert (
        "h_save_slot" in lp.generate_code_v2(lp.save_and_reload_temporaries(inside)).device_code()
    )
