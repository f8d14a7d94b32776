"""Interfaces for Fortran."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import kgen as lp
from kgen.errors import CodegenError
from kgen.exporters.export import library_files
from tests.exporters.test_c import scale, turned
from tests.exporters.test_cxx import axpy, padded

PROGRAM = """
program main
  use demo
  use, intrinsic :: iso_c_binding
  implicit none
  real(c_float) :: a(4, 3), b(4, 3)
  real(c_double) :: rows(5, 2) = 1, total
  complex(c_float_complex) :: x(2) = 1, y(2) = 0
  integer :: k
  integer(c_size_t) :: n_bytes
  a = reshape([(real(k), k = 1, 12)], [4, 3])
  call check(demo_scale(a, b, 4, 3))
  call check(demo_turned(a, b, 12, c_null_ptr))
  call check(demo_turned_workspace(12, n_bytes))
  call check(demo_axpy(x, y, (0.0, 1.0), 2))
  call check(demo_padded(rows, total, 5, 3, 2))
  print "(2f5.0, i4, f5.0, f5.0)", b(1, 1), b(4, 3), n_bytes, aimag(y(2)), total
  if (demo_scale(a, b, 4, -3) == demo_success) error stop "a negative size"
  print "(a)", demo_last_message()
contains
  subroutine check(status)
    integer(c_int), intent(in) :: status
    if (status /= demo_success) error stop 1
  end subroutine
end program
"""


def test_program(gfortran: str, tmp_path: Path) -> None:
    programs = [scale(), turned(), axpy(), padded()]
    files = lp.export(programs, tmp_path, targets="c", namespace="demo", fortran=True)
    main = tmp_path / "main.f90"
    main.write_text(PROGRAM)
    sources = [str(path) for path in files if path.suffix == ".c"]
    command = ["gcc", f"-I{tmp_path / 'include'}", "-c", *sources]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    flags = ["-std=f2008", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-J{tmp_path}"]
    made = [str(tmp_path / "include/demo.f90"), str(main), *map(str, tmp_path.glob("*.o"))]
    subprocess.run([gfortran, *flags, *made, "-o", str(tmp_path / "main")], check=True, timeout=60)
    done = subprocess.run([str(tmp_path / "main")], check=True, capture_output=True, text=True)
    figures, message = done.stdout.splitlines()
    assert figures.split() == ["24.", "2.", "64", "1.", "6."]
    assert message == "scale: argument 'n' is outside of [0, 2146435072]"


def test_names_differ_without_capitals() -> None:
    args = [lp.GlobalArg("a, A, _b, c_x", np.float32, shape=4)]
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", "a[i] = A[i] + _b[i] + c_x[i]", args, name="add")
    text = library_files(knl, targets="c", namespace="demo", fortran=True)["include/demo.f90"]
    assert 'function demo_add(a, A_2, arg_b, argc_x) bind(c, name="demo_add")' in text


def test_names_that_are_too_long_are_rejected() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", "out[i] = 1.0", name="n" * 60)
    with pytest.raises(CodegenError, match="has more than the 63 characters of names in Fortran"):
        library_files(knl, targets="c", namespace="demo", fortran=True)
