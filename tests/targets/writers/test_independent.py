"""What compilers of C are told of loops whose iterations are independent."""

from __future__ import annotations

import numpy as np
import pytest

import kgen as lp

HINT = "#pragma GCC ivdep"


def _kernel(text: str, **options: bool) -> lp.TranslationUnit:
    return lp.make_kernel(
        "{ [j]: 0 <= j < n }",
        text,
        [lp.GlobalArg("f", np.float64, shape="3, n + 2"), lp.GlobalArg("c", np.float64, 3), ...],
        target=lp.ExecutableCTarget(),
        seq_dependencies=True,
        silenced_warnings="overwritten(*)",
        options=options,
    )


@pytest.mark.parametrize(
    "text",
    [
        "f[0, j] = 1\nf[1, j] = f[0, j] + f[2, j]",
        "<> t = 2*f[0, j]\nf[1, j] = t\nf[2, j] = t {if=t > 1}",
        "f[0, n - j] = 1\nf[1, n - j] = 2",
    ],
)
def test_places_whose_distance_depends_on_sizes(text: str) -> None:
    assert lp.generate_body(_kernel(text)).count(HINT) == 1
    assert HINT not in lp.generate_body(_kernel(text).copy(target=lp.OpenCLTarget()))
    assert HINT not in lp.generate_body(_kernel(text, restrict=False))


@pytest.mark.parametrize(
    "text",
    [
        "f[0, j + 1] = f[1, j]\nf[1, j + 1] = 2",  # what the next iteration reads
        "f[0, j % 4] = j\nf[1, j % 4] = j",  # what others write, too
        "c[0] = c[0] + f[0, j]\nf[0, j] = 1\nf[1, j] = 2",  # from iteration to iteration
        "f[0, j] = 1\nc[1] = 2",  # one place in each array
        "f[0, j] = c[0]\nc[1] = c[0]",
    ],
)
def test_other_loops(text: str) -> None:
    assert HINT not in lp.generate_body(_kernel(text))


def test_subscripts_read_from_memory() -> None:
    text = "<> k = cast(np.int32, c[j])\nf[0, j + k] = 1\nf[1, j + k] = 2"
    knl = lp.make_kernel(
        "{ [j]: 0 <= j < 3 }",
        text,
        [lp.GlobalArg("f", np.float64, shape="3, n"), lp.GlobalArg("c", np.float64, 3), ...],
        target=lp.ExecutableCTarget(),
        silenced_warnings="write_race(*)",
        seq_dependencies=True,
    )
    assert HINT not in lp.generate_body(knl)


@pytest.mark.parametrize(
    ("read", "count"),
    [
        ("b[k, j]", 1),
        ("b[j, k]", 0),  # elements far apart, which the compiler would gather
        ("b[k, 2*j]", 0),
        ("f[1, k]", 0),  # what other iterations write
    ],
)
def test_loops_around_sums(read: str, count: int) -> None:
    text = f"""
    for j
        <> s = 0.0 {{id=first}}
        for k
            s = s + {read} {{id=add, dep=first}}
        end
        f[0, j] = s {{id=one, dep=add}}
        f[1, j] = 2*s {{dep=one}}
    end
    """
    knl = lp.make_kernel(
        "{ [j, k]: 0 <= j, k < n }",
        text,
        [lp.GlobalArg("f", np.float64, shape="2, n"), lp.GlobalArg("b", np.float64, "n, 2*n"), ...],
        target=lp.ExecutableCTarget(),
    )
    code = lp.generate_body(lp.prioritize_loops(knl, "j, k"))
    assert code.count(HINT) == count
    assert not count or f"{HINT}\n  for (int j" in code


@pytest.mark.parametrize("name", ["steps", "insn"])  # that of an instruction, too
def test_loops_of_the_host_around_launches(name: str) -> None:
    text = """
    ... gbarrier {id=wait, inames=t}
    a[t + 1, i] = a[t, n - 1 - i] {dep=wait, id=insn}
    """
    args = [lp.GlobalArg("a", np.float64, shape="m + 1, n"), ...]
    domain = "{ [t, i]: 0 <= t < m and 0 <= i < n }"
    knl = lp.make_kernel(domain, text, args, name=name, target=lp.ExecutableCTarget())
    knl = lp.split_iname(knl, "i", 4, outer_tag="g.0")
    a = np.ones((3, 9))
    knl(a=a)
    assert HINT not in lp.generate_code_v2(knl).host_code()


def test_elements_by_their_number_in_storage() -> None:
    text = "f[[j]] = 2*f[[j]]\nf[1, j] = f[[j + n]]"
    assert HINT not in lp.generate_body(_kernel(text))
