"""Kernels from subroutines of Fortran."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen.compat.loopy as lp

DECLARATIONS = """
  implicit none
  real*8 a(n), b(n), s, t
  integer n, i, j, k
"""


def subroutine(body: str, name: str = "f") -> str:
    return f"subroutine {name}(a, b, s, n)\n{DECLARATIONS}\n{body}\nend subroutine {name}\n"


def run(body: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Run statements with n = 8, and return 'a' and 'b'."""
    unit = lp.parse_fortran(subroutine(body), target=lp.ExecutableCTarget())
    assert [arg.name for arg in unit.default_entrypoint.args] == ["a", "b", "s", "n"]
    a, b = np.arange(8.0), np.array([3.0, 1, 4, 1.5, 5, 9, 2, 0.5])
    lp.assume(unit, "n >= 8")(a=a, b=b, s=2.0, n=8)
    return a, b


def test_the_kernel_of_a_subroutine() -> None:
    unit = lp.parse_fortran(
        """
        subroutine scale(c, x, n, m)
          implicit none
          real, dimension(n, 0:m) :: c   ! in the order of Fortran
          real(kind=8), intent(in) :: x
          integer n, m, i, j, k
          !$loopy begin tagged: init
          do j = 0, m
            do i = 2, n
              c(i, j) = x*(i + j) &
                + 1
              do k = 1, 3
                c(i, j) = c(i, j) + k
              end do
            end do
          end do
          !$loopy end tagged: init
          do i = 1, n
            c(i, 0) = c(i, 0) + 1d0
          end do
        end
        """
    )
    kernel = unit.default_entrypoint
    first, _, second = kernel.instructions
    assert kernel.name == "scale"
    assert str(first) == "c[i + 1, j] = x*(i + j + 2) + 1  {id=insn0, tags=init}"
    assert str(second) == "c[i_1, 0] = c[i_1, 0] + 1.0  {id=insn2}"
    assert second.depends_on == {"insn1"}
    assert [sorted(domain.get_var_dict()) for domain in kernel.domains] == [
        ["i", "j", "m", "n"],
        ["k"],
        ["i_1", "n"],
    ]
    c = kernel.arg_dict["c"]
    assert isinstance(c, lp.ArrayArg)
    assert [str(tag) for tag in c.dim_tags] == ["N0:stride:1", "N1:stride:n"]
    assert [kernel.arg_dict[name].dtype.numpy_dtype for name in "cx"] == [np.float32, np.float64]


def test_integers_are_truncated() -> None:
    a, b = run(
        """
        do i = 1, n
          k = i - 4
          a(i) = k/2 + 10*mod(k, 3) + 100*(7/(-2)) + i/2 + mod(-k, 3)*b(i)
          k = b(i) - 3.5
          a(i) = a(i) + 1000*k
        end do
        """
    )
    i = np.arange(1, 9)
    k = i - 4
    expected = np.trunc(k / 2) + 10 * np.fmod(k, 3) - 300 + i // 2 + np.fmod(-k, 3) * b
    np.testing.assert_array_equal(a, expected + 1000 * np.trunc(b - 3.5))


def test_loops_and_branches() -> None:
    a, b = run(
        """
        do 10 i = n, 1, -2
          if (b(i) .gt. 2.d0 .and. i /= 4) then
            b(i) = 0; a(max(1, min((i), n))) = max(s, 1.5, -s)
          else if (i == 2) then
            a(i) = -1
          else
            t = sqrt(b(i)*2)
            a(i) = t**2
          end if
  10    continue
        do i = 3, (n - 1)/2 ; do j = i, 3
          if (j >= 3) a(j) = -a(j) - 2**2
        end do ; end do
        """
    )
    np.testing.assert_allclose(a, [0, -1, -6, 3, 4, 2, 6, 1])
    np.testing.assert_array_equal(b, [3.0, 1, 4, 1.5, 5, 0, 2, 0.5])


def test_fixed_form_and_capitals() -> None:
    unit = lp.parse_fortran(
        "C     doubles\n"
        "      SUBROUTINE TWICE(X)\n"
        "      PARAMETER (N = 4)\n"
        "      DIMENSION X(N)\n"
        "      DO 20 I = 1, N\n"
        "   20 X(I) = X(I)\n"
        "     &       *2\n"
        "      END\n",
        free_form=False,
    )
    (arg,) = unit.default_entrypoint.args
    assert isinstance(arg, lp.ArrayArg)
    assert (arg.name, arg.shape, arg.dtype.numpy_dtype) == ("X", (4,), np.float32)
    assert str(unit.default_entrypoint.instructions[0]).startswith("X[I] = X[I]*2")


def test_several_subroutines_are_functions() -> None:
    one = subroutine("do i = 1, n\n a(i) = s\n end do", "one")
    unit = lp.parse_fortran(one + subroutine("do i = 1, n\n b(i) = a(i)\n end do"))
    assert not unit.entrypoints
    assert [insn.id for insn in unit["f"].instructions] == ["insn1"]
    assert unit.with_entrypoints("one").default_entrypoint.name == "one"


def test_named_loops_kinds_and_ends_with_labels() -> None:
    unit = lp.parse_fortran(
        """
        pure subroutine f(a, n)
          use, intrinsic :: iso_c_binding, only: c_int
          implicit none
          integer, parameter :: dp = kind(1.d0)
          integer, intent(in) :: n
          real(dp), intent(inout) :: a(n)
          integer :: i, j
          outer: do i = 1, n
            do 10 j = 1, 3
              a(i) = a(i) + 0.1_dp*real(j, kind=dp)
        10  end do
          end do outer
        end subroutine f
        """
    )
    kernel = unit.default_entrypoint
    assert kernel.arg_dict["a"].dtype.numpy_dtype == np.float64
    assert "a[i] = a[i] + 0.1*cast(np:dtype('float64'), j + 1)" in str(kernel.instructions[0])


def test_what_fparser_logs_or_leaves_out_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    fixed = "      subroutine f(s)\n      real s\nx     s = 2\n      end\n"
    with pytest.raises(lp.LoopyError, match=f"(?s)line 3: {WRONG}.*non-space/digit char 'x'"):
        lp.parse_fortran(fixed, free_form=False)
    with pytest.raises(lp.LoopyError, match="line 1: only subroutines are read"):
        lp.parse_fortran("subroutine f\nend\nx = 3\nend\n")
    assert not caplog.records


def test_columns_that_nobody_reads_in_fixed_form() -> None:
    unit = lp.parse_fortran(
        f"      subroutine f(s)\n{'      s = 1':72}SEQ1\n     0s = 2 ! two\n      end\n",
        free_form=False,
    )
    first, second = unit.default_entrypoint.instructions
    assert (str(first), str(second).split("  ")[0]) == ("s = 1  {id=insn0}", "s = 2")


#: How errors of syntax begin.
WRONG = "this is not Fortran, or not expected here"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("goto 10", "line 7: 'goto' is not supported"),
        ("a(1, 2) = 1", r"'a' has 1 axes, and 2 subscripts\n  where: line 7: a\(1, 2\) = 1"),
        ("a = 1", "'a' is an array"),
        ("a(1:n) = 2", "sections of arrays are not supported"),
        ("q = 1", "'q' has no type, and 'implicit none' is in effect"),
        ("a(1) = g(2)", "'g' is neither an array nor a known function"),
        ("a(1) = 2*(s", f"line 7: {WRONG}"),
        ("a(1) = 2 &\n  + 3*(s", f"line 7: {WRONG}"),
        ("a(1) = 2 3", f"line 7: {WRONG}.*no blanks"),
        ("a(1) = sqrt(s, t)", f"line 7: {WRONG}.*'SQRT' expects 1"),
        ("a(1) = k", "'k' is read in 'f', and never assigned"),
        ("do i = 1, n*n\n a(1) = 2\n end do", "a bound of this loop is not a linear function"),
        ("k = 2\n do i = 1, k\n k = 3\n end do", "'k' is assigned in a loop that it bounds"),
        ("do i = 1, n\n i = 3\n end do", "'i' is a constant or the variable of a loop"),
        ("do i = 1, n\n a(i) = 3\n end do\n s = i", "the loop over 'i' has ended"),
        ("do i = 1, n\n a(i) = 3", f"line 9: {WRONG}"),
        ("end do", f"line 7: {WRONG}"),
        ("-a(1) = 3", f"line 7: {WRONG}"),
        ("a(1)%x = 3", r"'a\(1\) % x' cannot be assigned to"),
        ("else", f"line 7: {WRONG}"),
        ("if (s > 1) then\n else\n else if (s > 2) then\n end if", "there is an 'else' before"),
        ("if (s > 1) return\n a(1) = 2", "line 7: 'return' is not supported in a block"),
        ("return\n a(1) = 2", "line 8: a statement after 'return'"),
        ("do while (s > 1)\n s = 0\n end do", "line 7: only loops with a variable"),
        ("include 'pyproject.toml'", "line 7: 'include' is not supported"),
        ("#define n 3", "line 7: 'cpp macro' is not supported"),
        ("a(1) = 2; stop", "line 7: 'stop' is not supported"),
        ("if (s > 1) goto 10", "line 7: 'goto' is not supported"),
        ("outer:\n a(1) = 2", f"line 7: {WRONG}.*No construct following construct-name"),
        ("!$loopy begin tagged: x", "the subroutine ends inside of a block"),
        ("!$loopy unroll", "this directive is not known"),
        ("10 a(1) = 2", "only the last statement of a loop can have a label"),
        ("k = 2\n do i = 1, n, k\n end do", "the step of a loop is a constant"),
    ],
)
def test_what_is_not_supported_is_an_error(body: str, message: str) -> None:
    with pytest.raises(lp.LoopyError, match=f"(?s)in heat.f90.*{message}"):
        lp.parse_fortran(subroutine(body), "heat.f90")


def test_blocks_transform_the_source() -> None:
    source = subroutine("do i = 1, n\n a(i) = twice(s)\n end do")
    units = lp.parse_transformed_fortran(
        f"""{source}
        !$loopy begin
        !
        ! SOURCE = lp.c_preprocess(SOURCE, ["twice(x) (2*(x))"])
        ! f = lp.parse_fortran(SOURCE, FILENAME)
        ! if split:
        !     f = lp.split_iname(f, "i", width)
        ! RESULT = [f]
        !
        !$loopy end
        """,
        pre_transform_code="split = True",
        transform_code_context={"width": 16},
    )
    insn = units[0].default_entrypoint.instructions[0]
    assert str(insn) == "a[i_inner + i_outer*16] = 2*s  {id=insn0}"
    with pytest.raises(lp.LoopyError, match="assign nothing to RESULT"):
        lp.parse_transformed_fortran(source)


AXPY = """
subroutine axpy(n, alpha, x, y)
  implicit none
  integer n, i
  real*8 alpha, x(n), y(n)
  do i = 1, n
    y(i) = y(i) + alpha*x(i)
  end do
end subroutine
"""
TOTAL = """
subroutine total(n, x, s)
  integer n, i
  real*8 x(n), s
  s = 0
  do i = 1, n
    s = s + x(i)
  end do
end
"""
MIDDLE = """
subroutine middle(n, x, y)
  integer n
  real*8 x(n), y(n)
  call axpy(n, 2d0, x, y)
end
"""


def called(body: str, more: str = AXPY) -> Any:
    """Run a subroutine that calls others, with n = 3."""
    text = f"""
        subroutine main(n, a, b)
        integer n, i
        real*8 a(n, n), b(n), t(n), s
        {body}
        end
        """
    unit = lp.parse_fortran(text + more, target=lp.ExecutableCTarget()).with_entrypoints("main")
    a, b = np.arange(9.0).reshape(3, 3, order="F"), np.ones(3)
    lp.assume(unit, "n >= 3")(n=3, a=a, b=b)
    return a, b


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("call axpy(n, 2d0, a(:, 2), b)", [7.0, 9, 11]),
        ("call axpy(2, 2d0, a(1, 1:n:2), b(2:n))", [1.0, 1, 13]),
        ("do i = 1, n\n call axpy(n, 1d0, a(1:n, i), b)\nend do", [10.0, 13, 16]),
        ("do i = 1, n\n call axpy(i, 1d0, a(1:i, i), b(1:i))\nend do", [10.0, 12, 9]),
        ("if (b(1) > 2) call axpy(n, 2d0, a(:, 2), b)", [1.0, 1, 1]),
        ("t(1) = 1\nt(2) = 2\nt(3) = 3\ncall axpy(n, t(2) + 1, t, b)", [4.0, 7, 10]),
    ],
)
def test_calls_pass_sections_of_arrays(body: str, expected: list[float]) -> None:
    assert called(body)[1].tolist() == expected


def test_subroutines_assign_variables_of_their_callers() -> None:
    body = "do i = 1, n\n call total(n, a(:, i), s)\n b(i) = 2*s\nend do\n"
    assert called(f"{body} call total(n, b, s)\nb(1) = s", TOTAL)[1].tolist() == [72.0, 24, 42]
    twice = "subroutine add(x, y)\n real*8 x, y\n x = x + y\n x = x + y\nend\n"
    assert called("call add(b(1), b(1) + 1)", twice)[1].tolist() == [5.0, 1, 1]


def test_callers_may_come_before_or_after_and_call_each_other_in_turn() -> None:
    for more in (AXPY + MIDDLE, MIDDLE + AXPY):
        assert called("call middle(n, a(:, 2), b)", more)[1].tolist() == [7.0, 9, 11]


def test_subscripts_outside_of_loops_state_what_holds_for_arguments() -> None:
    head = "subroutine f(a, n, i)\n integer n, i\n real*8 a(n, n)\n"
    text = f"{head} call axpy(n, 1d0, a(:, i), a(:, 1))\nend\n{AXPY}"
    unit = lp.parse_fortran(text, target=lp.ExecutableCTarget()).with_entrypoints("f")
    a = np.ones((3, 3), order="F")
    unit(a=a, n=3, i=2)
    assert a[:, 0].tolist() == [2.0, 2, 2]
    with pytest.raises(lp.LoopyError, match="i"):
        unit(a=a, n=3, i=4)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("call axpi(n)", "there is no subroutine 'axpi'(.|\n)*did you mean 'axpy'"),
        ("call main(n, a, b)", "'main' calls itself"),
        ("call axpy(n, b)", "'axpy' takes 4 arguments, and the call passes 2"),
        ("call axpy(n, 1d0, a, b)", "'x' has 1 axis, and what is passed of 'a' has 2"),
        ("call axpy(n, 1d0, a(1, 1), b)", "'x' is an array, and a number is passed"),
        ("call axpy(n, b, b, b)", "'alpha' is a number, and 'b' is an array"),
        ("call axpy(n, 1d0, b(n:1:-1), b)", "the step of a section is a positive constant"),
        ("call total(n, b, 1d0)", "'total' assigns 's'(.|\n)*pass a variable"),
        ("do i = 1, n\n call total(n, b, i)\nend do", "'total' assigns 's'"),
    ],
)
def test_calls_that_do_not_fit_are_rejected(body: str, message: str) -> None:
    with pytest.raises(lp.LoopyError, match=message):
        called(body, AXPY + TOTAL)
