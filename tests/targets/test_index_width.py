"""Where 32 bits are not proved to be enough, no factor is multiplied in 32 bits."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp


def body_of(domain: str, instruction: str, assumptions: str | None = None) -> str:
    arrays = [lp.GlobalArg("a", np.int8), ...]
    target = lp.CTarget()
    knl = lp.make_kernel(domain, instruction, arrays, target=target, assumptions=assumptions)
    return lp.generate_body(knl)


SIZES = [lp.ValueArg("n", np.int32), lp.ValueArg("m", np.int32)]


def test_subscripts_with_a_group_index_are_long_for_pocl() -> None:
    data = [
        lp.GlobalArg("u, o", np.float32, shape="800, 10"),
        lp.GlobalArg("s", np.float32, shape=800),
    ]
    code = "o[e, j] = 2*u[e, j] + s[e]"
    knl = lp.make_kernel("{ [e, j]: 0 <= e < 800 and 0 <= j < 10 }", code, data)
    knl = lp.split_iname(knl, "e", 32, outer_tag="g.0")
    plain, pocl = (
        lp.generate_body(knl.copy(target=lp.OpenCLTarget(suits_pocl=suits)))
        for suits in (False, True)
    )
    assert "u[320 * gid(0) + 10 * e_inner + j] + s[32 * gid(0) + e_inner]" in plain
    assert "u[320 * (long) gid(0) + 10 * e_inner + j] + s[32 * gid(0) + e_inner]" in pocl


def test_product_of_variables() -> None:
    assert "a[(int64_t) n * i + j]" in body_of("{ [i, j]: 0 <= i, j < n }", "a[i, j] = 1")


def test_product_with_a_number() -> None:
    text = body_of("{ [i, j]: 0 <= i < n and 0 <= j < 3 }", "a[i, j] = 1")
    assert "a[3 * (int64_t) i + j]" in text


def test_subscripts_that_are_not_computed_take_no_cast() -> None:
    knl = lp.make_kernel(
        ["{ [i]: 0 <= i < n }", "{ [k]: start <= k < stop }"],
        """
        <> start = starts[i]
        <> stop = starts[i + 1]
        a[i] = sum(k, x[columns[k]])
        """,
        [lp.GlobalArg("columns", np.int32, shape=None), lp.GlobalArg("x", shape=None), ...],
        target=lp.CTarget(),
    )
    knl = lp.add_dtypes(knl, {"starts": np.int32, "x": np.float64})
    assert "acc_k += x[columns[k]];" in lp.generate_body(knl)


def test_bound_of_a_long_loop() -> None:
    text = body_of("{ [i]: 0 <= i < 3*n }", "a[i] = 1")
    assert "for (int64_t i = 0; i < 3 * (int64_t) n; ++i)" in text


def test_assumption_proves_32_bits() -> None:
    text = body_of("{ [i]: 0 <= i < 3*n }", "a[i] = 1", "n <= 1000")
    assert (
        "for (int32_t i = 0; i < 3 * n; ++i)" in text or "for (int i = 0; i < 3 * n; ++i)" in text
    )


def test_term_that_fits_is_not_cast() -> None:
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i, j < n }", "a[i, j] = 1", [lp.GlobalArg("a", np.int8), ...]
    )
    knl = lp.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    assert "a[(long) n * i + 16 * gid(0) + lid(0)]" in lp.generate_body(knl)


def test_terms_that_32_bits_do_not_hold_are_long_where_the_index_is_small() -> None:
    args = [lp.GlobalArg("out", np.int32, shape=(13, 13)), lp.ValueArg("n", np.int32), ...]
    domain = "{[i, j]: n - 5 <= i <= n and i <= j < i + 3}"
    knl = lp.make_kernel(domain, "out[n - i, j - i] = 1", args, target=lp.CTarget())
    assert "out[13 * (int64_t) n - 14 * (int64_t) i + j]" in lp.generate_code_v2(knl).device_code()


def test_ends_of_loops_are_computed_in_64_bits_where_terms_need_them() -> None:
    text = body_of("{ [i]: n + 2 <= 2*i < m + n and m <= n + 20 }", "a[i - n // 2] = 1", "n >= 0")
    assert "(int64_t) m + n" in text or "(int64_t) n + m" in text


def test_the_start_of_an_empty_loop_is_not_cut() -> None:
    text = body_of("{ [i]: i >= 2*n - 4 and 0 <= i < n - m }", "a[i] = 1", "n >= m >= 0")
    assert "for (int64_t i = kgen_max_int64(0, 2 * (int64_t) n - 4); i < (int64_t) n - m" in text


def test_guards_are_computed_in_64_bits_where_terms_need_them() -> None:
    args = [lp.GlobalArg("a", np.int8, shape="24*n"), ...]
    knl = lp.make_kernel("{ [i]: 0 <= i < 24*n }", "a[i] = 1", args)
    knl = lp.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    assert "if (128 * (long) gid(0) + lid(0) < 24 * (long) n)" in lp.generate_body(knl)


def near_each_other(domain: str, instruction: str) -> lp.TranslationUnit:
    args = [lp.GlobalArg("out", np.int32, shape=20), lp.ValueArg("n, m, p", np.int32), ...]
    assumptions = "0 <= m <= n <= m + 9 and p = m"
    target = lp.CTarget()
    return lp.make_kernel(domain, instruction, args, assumptions=assumptions, target=target)


def test_sums_that_32_bits_do_not_hold_on_the_way_are_long() -> None:
    knl = near_each_other("{ [i]: m <= i < n }", "out[i + n - m - p] = 1")
    assert "out[(int64_t) i + n - m - p]" in lp.generate_body(knl)


def test_branches_that_32_bits_do_not_hold_on_the_way_are_long() -> None:
    knl = near_each_other("{ [i]: m <= i < n }", "out[if(i < n, n + i - 2*m, 0)] = 1")
    assert "out[i < n ? n - 2 * (int64_t) m + i : 0]" in lp.generate_body(knl)


def test_quotients_in_sums_are_long_where_their_numerators_need_it() -> None:
    knl = near_each_other("{ [i]: n - 3 <= i < n and i mod 3 = 1 }", "out[i - n + 3] = 1")
    text = lp.generate_body(lp.split_iname(knl, "i", 4))
    assert "int const i_outer = (int64_t) n - (2 * (int64_t) n + 1) / 3 - (n + 4) / 12 - 1" in text


def test_values_of_loops_are_as_wide_in_expressions_as_in_subscripts() -> None:
    knl = near_each_other("{ [i]: m <= i < n }", "out[i - m] = i % 5 {if=i % 3 < 2}")
    knl = lp.split_iname(knl, "i", 7, inner_tag="unr", slabs=(0, 1))
    written = [line for line in lp.generate_body(knl).splitlines() if "] = (6 + (int) (" in line]
    assert any("(6 * (int64_t) m + 6) / 7) * 7) % 5;" in line for line in written)


def test_sides_of_comparisons_that_32_bits_do_not_hold_have_the_values_of_loops() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "a[i] = if(-3*i < b[0], 1, 2)",
        [lp.GlobalArg("a, b", np.int32), ...],
        assumptions="n >= 1",
    )
    body = lp.generate_body(lp.tag_inames(knl, "i:g.0"))
    assert "a[gid(0)] = -3 * (long) gid(0) < b[0] ? 1 : 2;" in body


def test_indices_of_axes_that_stand_for_loops_of_64_bits_are_computed_in_64_bits() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "out[i] = a[i] if i < m else 2*i",
        [lp.GlobalArg("a, out", np.int64, shape="n"), lp.ValueArg("m", np.int64), ...],
        index_dtype=np.int64,
        target=lp.CudaTarget(),
    )
    knl = lp.split_iname(knl, "i", 4096, outer_tag="g.0")
    body = lp.generate_body(lp.split_iname(knl, "i_inner", 256, inner_tag="l.0"))
    assert "(long long) gid(x) * 4096 < m ?" in body
    assert "2 * ((long long) lid(x) + i_inner_outer * 256 + (long long) gid(x) * 4096)" in body


def test_guards_on_loops_of_64_bits_are_computed_in_64_bits() -> None:
    knl = near_each_other("{ [i, j]: n - 5 <= i <= n and n - 3 <= 2*j < n }", "out[i - n + 5] = j")
    knl = lp.join_inames(lp.split_iname(knl, "i", 6), ("j", "i_inner"))
    text = lp.generate_body(knl)
    assert "for (int64_t i_inner_and_j" in text
    assert "kgen_floor_div_int64(i_inner_and_j, 6) < n" in text


def test_indices_that_fit_are_not_cast_where_others_of_the_array_do_not() -> None:
    args = [lp.GlobalArg("a", np.int8, shape="n, n"), ...]
    knl = lp.make_kernel("{ [i]: 1 <= i < n }", "b[i] = a[0, i % 2] + a[i, 0]", args)
    assert "a[i % 2] + a[(int64_t) n * i]" in lp.generate_body(knl.copy(target=lp.CTarget()))


def test_guards_on_sizes_of_64_bits_are_computed_in_64_bits() -> None:
    args = [lp.GlobalArg("a", np.int8, shape="n"), lp.ValueArg("n", np.int64)]
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "a[i] = 1", args)
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    assert "if (16 * (long) gid(0) + lid(0) < n)" in lp.generate_body(knl)


def test_functions_are_given_loop_variables_in_the_type_that_they_have(device: Any) -> None:
    # 3*m - 5*n takes 64 bits, so i has them; OpenCL knows no max(long, int)
    args = [lp.GlobalArg("out", np.int32, shape="n"), ...]
    knl = lp.make_kernel("{[i]: max(0, 3*m - 5*n) <= i < n}", "out[i] = max(i, 1)", args)
    assert "out[i] = max((int) i, 1);" in lp.generate_body(knl)
    _, (out,) = device(knl, m=0, n=4, out=np.zeros(4, np.int32))
    assert out.tolist() == [1, 1, 2, 3]


def test_loops_of_one_name_have_one_type() -> None:
    knl = lp.make_kernel(
        "{[i, j, k]: 0 <= i < n and i < j < m and 0 <= k < m}",
        """
        out[i, m - 1 - j] = a[j] - b[i]    {id=s, inames=i:j}
        ... gbarrier                       {id=wait, dep=s}
        c[k] = a[k]                        {inames=k, dep=wait}
        """,
        [lp.GlobalArg("out", "float32", ("n", "m")), "..."],
        target=lp.OpenCLTarget(),
        assumptions="n >= 0 and m >= 0",
    )
    knl = lp.add_and_infer_dtypes(knl, {"a,b": "float32"})
    knl = lp.split_iname(knl, "i", 5, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "j", 3, slabs=(0, 1))
    knl = lp.split_iname(knl, "j_inner", 2, slabs=(1, 1))
    code = lp.generate_code_v2(lp.tag_inames(knl, "k:g.0")).device_code()
    assert "long j_inner_inner = " in code
    for name in ("j_outer", "j_inner_outer", "j_inner_inner"):
        assert len(set(re.findall(rf"(long|int) (?:const )?{name} =", code))) == 1


@pytest.mark.parametrize("value", ["k % 4", "(k + 2) % 3", "k // 3 % 2"])
def test_a_loop_variable_beyond_32_bits_is_divided_in_64(value: str) -> None:
    """A joined loop counts further than the sizes that it is made of."""
    knl = lp.make_kernel(
        "{ [i,k]: n - 2 <= i < n and i - 1 <= k < i + 3 }",
        f"out[i - n + 2, k - i + 1] = {value}",
        [lp.GlobalArg("out", np.int32, shape=(2, 4)), lp.ValueArg("n", np.int32)],
        target=lp.CTarget(),
    )
    knl = lp.join_inames(lp.split_iname(knl, "k", 3), ("i", "k_inner"))
    code = lp.generate_code_v2(knl).device_code()
    assert "int64_t k_inner_and_i" in code
    assert not re.search(r"kgen_\w+_int32\(k_inner_and_i", code)


def test_guards_are_as_wide_as_the_values_that_loops_give_their_variables() -> None:
    """The domain has 0 <= i_outer < 4; the code tries (n - 1) / 3, and asks behind."""
    knl = lp.make_kernel(
        ["{ [i]: 0 <= i < n - m }", "{ [j]: 0 <= j < 4 }"],
        "out[i, j] = a[j] {id=s, inames=i:j, if=i + 4 >= n}",
        [lp.GlobalArg("a,out", np.int32, shape=lp.auto), *SIZES],
        assumptions="0 <= m <= n <= m + 12",
        target=lp.CTarget(),
    )
    knl = lp.tag_inames(lp.split_iname(knl, "i", 3, slabs=(1, 0)), "i_inner:ilp")
    code = lp.generate_code_v2(knl).device_code()
    assert "int const i_outer = (n - 1) / 3;" in code
    assert "if (3 * (int64_t) i_outer + m + 1 < n)" in code
    assert "3 * i_outer + m" not in code


def test_numbers_that_were_put_in_for_variables_take_no_cast() -> None:
    knl = lp.make_kernel(
        "{ [i]: m <= 8*i < n }",
        "out[8*i - m] = a[8*i - m] {id=s, if=i % 3 < 2}",
        [lp.GlobalArg("a,out", np.int32, shape=(13,)), *SIZES],
        assumptions="0 <= m <= n <= m + 12",
        target=lp.CTarget(),
    )
    knl = lp.split_iname(knl, "i", 7, inner_tag="unr", slabs=(1, 0), within="id:s")
    code = lp.generate_code_v2(knl).device_code()
    assert "24 * (((int64_t) m + 119) / 168) + m" in code
    assert "24 * ((m + 119) / 168)" not in code


def test_branches_that_are_all_numbers_are_long_where_the_index_is() -> None:
    text = body_of("{ [i]: 0 <= i < n }", "a[1500000000*if(i < 1, 0, if(i < 2, 1, 2))] = 1")
    assert "a[1500000000 * (i < 1 ? 0 : (int64_t) (i < 2 ? 1 : 2))]" in text


def drawn(rng: random.Random, depth: int) -> str:
    """Return the text of a number that is 2 at least, of int32 each part."""
    if depth == 0:
        return rng.choice(["n", "m", "i", "2", "3", "5"])
    a, b, c = (drawn(rng, depth - 1) for _ in range(3))
    form = rng.choice(["if({a} < {b}, {b}, {c})", "min({a}, {b})", "max({a}, {b})", "({a} + {b})"])
    form = rng.choice([form, form, "({a} % 7 + 2)", "({a} // 9 + {b})", "({a} * {b})"])
    return form.format(a=a, b=b, c=c)


@pytest.mark.parametrize("seed", range(20))
def test_all_subscripts_that_32_bits_do_not_hold_are_computed_in_64(
    seed: int, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    index = f"1500000000*{drawn(rng, rng.randint(1, 2))}"
    arrays = [lp.GlobalArg("a", np.int8, shape=None), lp.ValueArg("n, m", np.int32)]
    domain, assumptions = "{ [i]: 2 <= i < n }", "m >= 2"
    knl = lp.make_kernel(
        domain, f"a[{index}] = 1", arrays, target=lp.CTarget(), assumptions=assumptions
    )
    code = lp.generate_code_v2(knl).device_code()
    check, count = re.subn(r"a\[(.*)\] = 1;", r'{ _Static_assert(sizeof(\1) == 8, ""); }', code)
    assert count == 1
    (tmp_path / "width.c").write_text(check)
    subprocess.run(["gcc", "-fsyntax-only", "width.c"], cwd=tmp_path, check=True)


@pytest.mark.parametrize(
    "index",
    [
        "min(i*1000000, 96)",
        "max(96 - i*1000000, 0)",
        "abs(i*1000000) % 97",
        "min((i*1000000) % 97, i*i*i)",
        "(i*1000000) & 63",
        "(i << 20) % 97",
        "(i*1000000) >> 26",
        "((i*1000000) ^ (i*999999)) % 97",
        "((i*1000000) | 5) % 97",
        "~(i*1000000) & 63",
        "i**3 % 97",
        "if(i*1000000 > 5000000, 1, 2)",
    ],
)
def test_steps_inside_of_functions_and_bits_have_64_bits(index: str) -> None:
    a, n = np.arange(97), 5000
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        f"out[i] = a[{index}]",
        [
            lp.GlobalArg("a", np.int64, shape=97),
            lp.GlobalArg("out", np.int64, shape="n"),
            *SIZES[:1],
        ],
        target=lp.ExecutableCTarget(),
        assumptions="n <= 6000",
    )
    _, (out,) = knl(a=a, n=n)
    exactly = index.replace("if(i*1000000 > 5000000, 1, 2)", "1 if i*1000000 > 5000000 else 2")
    expected = [eval(exactly, {"i": i}) for i in range(n)]  # noqa: S307 (our own text)
    np.testing.assert_array_equal(out, expected)


def test_functions_without_large_steps_keep_the_types_of_their_arguments() -> None:
    arrays = [lp.GlobalArg("a", np.int64, shape=5000), *SIZES[:1], ...]
    line = "out[i] = a[min(abs(i), i*1000000)]"
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", line, arrays, target=lp.CTarget())
    text = lp.generate_body(lp.assume(knl, "n <= 5000"))
    assert "a[kgen_min_int64((int64_t) abs(i), (int64_t) i * 1000000)]" in text
