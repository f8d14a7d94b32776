"""Headers: what C11, C++17 and CUDA programs include to call generated code."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ir.vector_values import vector_type

SCALARS = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
)
C = ["gcc", "-std=c11"]
CPP = ["g++", "-std=c++17"]


def copying(dtypes: dict[str, Any], target: Any = None, name: str = "copy") -> lp.TranslationUnit:
    """Return a kernel that has arrays of all types, and numbers of those that numbers have."""
    args: list[Any] = []
    code = []
    for key, dtype in dtypes.items():
        args += [lp.GlobalArg(f"{key}_in,{key}_out", dtype, shape="n", offset=lp.auto)]
        code.append(f"{key}_out[i] = {key}_in[i]")
        if np.dtype(dtype).fields is None:
            args.append(lp.ValueArg(f"{key}_value", dtype))
            code[-1] = f"{key}_out[i] = {key}_value if i == 0 else {key}_in[i]"
    return lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "\n".join(code),
        [*args, ...],
        name=name,
        target=target or lp.CTarget(),
    )


def compiled(command: list[str], path: Path, text: str) -> Path:
    """Compile *text* without a warning."""
    path.write_text(text)
    flags = ["-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{path.parent}", "-c", str(path)]
    output = path.with_suffix(path.suffix + ".o")
    command = [*command, *flags, "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return output


@pytest.mark.parametrize("dtype", [*SCALARS, "float32 4", "int64 2"])
def test_headers_are_complete(dtype: str, tmp_path: Path) -> None:
    """Alone, twice, before the code that they declare, and beside a header of the same types."""
    number, _, count = dtype.partition(" ")
    one = vector_type(np.dtype(number), int(count)).dtype if count else np.dtype(number)
    for name in ("one", "two"):
        unit = copying({"x": one}, name=name)
        (header,) = lp.generate_header(unit)
        (tmp_path / f"{name}.h").write_text(header + "\n")
    texts = {
        "alone": '#include "one.h"\n',
        "twice": '#include "one.h"\n#include "two.h"\n#include "one.h"\n',
    }
    for name, text in texts.items():
        compiled(C, tmp_path / f"{name}.c", text)
        compiled(CPP, tmp_path / f"{name}.cpp", text)
    code = lp.generate_code_v2(unit).device_code()
    compiled(C, tmp_path / "code.c", f'#include "two.h"\n{code}\n')
    (declared,) = (line for line in code.splitlines() if line.startswith("void two("))
    assert f"{declared};" in header.splitlines()


CALLER = """\
#include "copy.h"
#include <cstdio>
int main() {
  bool b_in[2] = {false, true}, b_out[2];
  int64_t l_in[2] = {1, 1l << 40}, l_out[2];
  std::complex<float> c_in[2] = {{1, 2}, {3, 4}}, c_out[2];
  std::complex<double> z_in[2] = {{5, 6}, {7, 8}}, z_out[2];
  copy(b_in, 0, b_out, 0, true, l_in, 0, l_out, 0, -1, c_in, 0, c_out, 0, {9, 10},
       z_in, 0, z_out, 0, {11, 12}, 2);
  std::printf("%d %d %ld %ld ", b_out[0], b_out[1], (long) l_out[0], (long) l_out[1]);
  for (auto z : {z_out[0], z_out[1], {c_out[0].real(), c_out[0].imag()},
                 {c_out[1].real(), c_out[1].imag()}})
    std::printf("%g %g ", z.real(), z.imag());
}
"""


def test_cpp_programs_call_generated_c(tmp_path: Path) -> None:
    unit = copying({"b": bool, "l": np.int64, "c": np.complex64, "z": np.complex128})
    (tmp_path / "copy.h").write_text(lp.generate_header(unit)[0])
    objects = [
        compiled(C, tmp_path / "copy.c", lp.generate_code_v2(unit).device_code()),
        compiled(CPP, tmp_path / "main.cpp", CALLER),
    ]
    program = tmp_path / "main"
    subprocess.run(["g++", *objects, "-o", program], check=True)
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "1 1 -1 1099511627776 11 12 7 8 9 10 3 4"


def test_the_header_of_several_launches_declares_the_function_that_makes_them() -> None:
    unit = lp.make_kernel(
        "{ [i, j]: 0 <= i, j < n }",
        "b[i] = a[i] {id=b}\n... gbarrier {id=g, dep=b}\nc[j] = b[n - 1 - j] {dep=g}",
        [lp.GlobalArg("a,b,c", np.float32, shape="n"), ...],
        target=lp.CTarget(),
    )
    header = lp.generate_header(unit)[0]
    (line,) = (line for line in header.splitlines() if line.endswith(");"))
    assert line.startswith("void kgen_kernel_all(float const *__restrict__ a, float *")


def test_opencl_and_ispc_have_declarations_only() -> None:
    for target in (lp.OpenCLTarget(), lp.ISPCTarget()):
        result = lp.generate_code_v2(copying({"x": np.float32}, target))
        (header,) = lp.generate_header(copying({"x": np.float32}, target), result)
        assert header.removesuffix(";") in result.all_code()
        assert "\n" not in header


def test_nvcc_reads_cuda_headers_and_other_compilers_find_them_empty(
    nvcc: str, tmp_path: Path
) -> None:
    dtypes: dict[str, Any] = {f"x{k}": dtype for k, dtype in enumerate(SCALARS)}
    dtypes["v"] = vector_type(np.dtype("float64"), 4).dtype
    unit = copying(dtypes, lp.CudaTarget())
    (tmp_path / "copy.h").write_text(lp.generate_header(unit)[0])
    compiled(CPP, tmp_path / "host.cpp", '#include "copy.h"\n')
    compiled(C, tmp_path / "host.c", '#include "copy.h"\ntypedef int not_empty;\n')
    code = lp.generate_code_v2(unit).device_code()
    path = tmp_path / "device.cu"
    path.write_text(f'#include "copy.h"\n#include "copy.h"\n{code}\n')
    done = subprocess.run(
        [nvcc, "-arch=sm_90", "-c", path, "-o", tmp_path / "device.o"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
