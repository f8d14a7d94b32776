"""What code for PoCL tells its compiler of arrays."""

from __future__ import annotations

import kgen as lp

SCALAR = "#pragma clang loop vectorize(disable)"


def _code(text: str, extent: int = 4) -> str:
    private = lp.TemporaryVariable("t", "float32", extent, address_space=lp.AddressSpace.PRIVATE)
    knl = lp.make_kernel(
        "{[i, j, f]: 0 <= i < n and i < 4 and 0 <= j, f < 4}",
        text,
        [private, lp.GlobalArg("a, out", "float32", shape="n, 4"), ...],
        target=lp.OpenCLTarget(suits_pocl=True),
        assumptions="n >= 1",
        silenced_warnings="overwritten(*)",
        seq_dependencies=True,
    )
    return lp.generate_body(knl)


def test_loops_of_unknown_trip_count_are_scalar() -> None:
    write = "t[f] = a[0, f]\n"
    assert SCALAR not in _code(write + "out[0, j] = t[j]")
    for subscript in ("i", "3 - i", "(i + j) % 4"):
        assert _code(write + f"out[i, j] = t[{subscript}]").count(SCALAR) == 1


def test_loops_stay_as_they_are_where_vectors_fit() -> None:
    fill = "t[f] = a[0, f]\n"
    for text, extent in ((fill + "out[i, 0] = t[2]", 4), (fill + "out[i, 0] = t[i]", 128)):
        assert SCALAR not in _code(text, extent)


def test_arrays_that_are_written_are_not_restrict() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "out[i] = 2*a[i]", lang_version=(2018, 2))
    knl = lp.add_dtypes(knl, {"a": "float32"})
    pocl, plain = (
        lp.generate_code_v2(knl.copy(target=lp.OpenCLTarget(suits_pocl=suits))).device_code()
        for suits in (True, False)
    )
    assert "float *out" in pocl
    assert "float const *__restrict__ a" in pocl
    assert "float *__restrict__ out" in plain
