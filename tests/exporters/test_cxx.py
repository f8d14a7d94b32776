"""The header for C++: views of arrays, sizes that follow from them, errors."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import kgen as lp
from kgen.errors import CodegenError
from kgen.exporters.cxx_sizes import derived_numbers
from kgen.exporters.export import export, library_files
from kgen.exporters.kernels import exported_kernels
from tests.exporters import kernels
from tests.exporters.test_c import scale, turned

WARNINGS = ("-fopenmp", "-Wall", "-Wextra", "-Werror", "-pedantic")


def axpy() -> lp.TranslationUnit:
    """Return a kernel with a number that follows from no array."""
    args = [lp.GlobalArg("x, y", np.complex64, shape="n"), lp.ValueArg("alpha", np.complex64)]
    return lp.make_kernel(
        "{ [i]: 0 <= i < n }", "y[i] = y[i] + alpha*x[i]", [*args, "..."], name="axpy"
    )


def padded() -> lp.TranslationUnit:
    """Return a kernel whose rows are ``lda`` elements apart."""
    args = [
        lp.GlobalArg("a", np.float64, shape="n, m", strides="lda, 1"),
        lp.GlobalArg("total", np.float64, shape=()),
        lp.ValueArg("lda", np.int32),
        "...",
    ]
    code = "total = sum([i, j], a[i, j])"
    return lp.make_kernel("{ [i, j]: 0 <= i < n and 0 <= j < m }", code, args, name="padded")


def entangled() -> lp.TranslationUnit:
    """Return a kernel with two sizes that follow from each other."""
    args = [lp.GlobalArg("a", np.float32, shape="n*m"), lp.ValueArg("n, m", np.int32)]
    code = "a[i*m + j] = 1"
    return lp.make_kernel("{ [i, j]: 0 <= i < n and 0 <= j < m }", code, args, name="entangled")


#: What is before the statements of CALLS, in which `a` has the numbers from 0 to 11.
PROGRAM = """
#include "demo.hpp"
#include <array>
#include <cstdlib>
#include <iostream>
#include <vector>
#if __cplusplus >= 202002L
#include <span>
using floats = std::span<float const>;
#else
using floats = std::vector<float> const &;
#endif

struct mdspan { // what the header uses of C++23's
  float *p;
  static constexpr std::size_t rank() { return 2; }
  float *data_handle() const { return p; }
  int extent(std::size_t axis) const { return axis == 0 ? 3 : 4; }
  int stride(std::size_t axis) const { return axis == 0 ? 4 : 1; }
};

int main(int, char **argv)
{
  std::vector<float> a, b(12);
  for (int i = 0; i < 12; ++i)
    a.push_back(static_cast<float>(i));
  std::size_t n = 3, m = 4;
  try {
    switch (std::atoi(argv[1])) {CASES}
  }
  catch (demo::error const &error) {
    std::cout << error.status() << " " << error.what();
  }
}
"""
CALLS = {
    "demo::scale({&a[0], {n, m}}, {&b[0], {n, m}}); std::cout << b[11];": "22",
    "demo::scale({&a[0], {n, m}}, {&b[0], {3, 4}}, 4, 3); std::cout << b[11];": "22",
    "float c[3][4] = {{1}}, d[3][4]; demo::scale(c, d); std::cout << d[0][0];": "2",
    "float d[3][4]; demo::scale(mdspan{&a[0]}, d); std::cout << d[2][3];": "22",
    "demo::view<float, 2> v(&a[0], {3, 4}); std::cout << v(1, 2);": "6",
    "std::array<float, 12> c; demo::turned(floats(a), c); std::cout << c[0];": "22",
    "double x[3] = {1, 2, 3}, t; demo::padded({x, {2, 1}, {2, 1}}, &t); std::cout << t;": "4",
    "std::complex<float> x[1] = {1}, y[1]; demo::axpy(x, y, {0, 2}); std::cout << y[0];": "(0,2)",
    "demo::entangled(b, 4); std::cout << b[11];": "1",
    "demo::turned_workspace(5, n); std::cout << n;": "64",
    "demo::scale({nullptr, {0, 4}}, {nullptr, {0, 4}});": "",
    "demo::scale({&a[0], {3, 4}}, {&b[0], {3, 3}});": "10 scale: array 'out' has the shape (3, 3), "
    "not (n, m) = (3, 4)",
    "demo::scale({&a[0], {3, 3}, {4, 1}}, {&b[0], {3, 3}});": "10 scale: array 'a' has the strides "
    "(4, 1), not (m, 1) = (3, 1)",
    "demo::scale({&a[0], {3, 1}, {1, 7}}, {&b[0], {3, 1}});": "",
    "demo::turned({&a[0], {5000000000}}, b);": "2 turned: argument 'n' is 5000000000; it must be "
    "in [-2147483648, 2147483647]",
    "demo::entangled(b, 0);": "2 entangled: argument 'm' does not follow from 'a' here: pass it",
    "demo::turned({nullptr, {12}}, b);": "1 turned: array 'a' is a null pointer",
    "demo::scale({&a[0], {-3, 4}}, {&b[0], {-3, 4}});": "2 scale: argument 'n' is outside of "
    "[0, 2146435072]",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an exported library, with its object files."""
    folder = tmp_path_factory.mktemp("demo")
    programs = [scale(), turned(), axpy(), padded(), entangled()]
    files = export(programs, folder, targets=["c"], namespace="demo")
    sources = [str(path) for path in files if path.suffix == ".c"]
    command = ["gcc", "-std=c11", *WARNINGS, f"-I{folder / 'include'}", "-c", *sources]
    subprocess.run(command, cwd=folder, check=True, timeout=60)
    return folder


def built(library: Path, folder: Path, text: str, *options: str) -> Path:
    """Return a program in C++ with the library."""
    source, program = folder / "main.cpp", folder / "main"
    source.write_text(text)
    command = ["g++", *WARNINGS, "-g", f"-I{library / 'include'}", str(source)]
    objects = map(str, library.glob("*.o"))
    command += [*objects, *options, "-o", str(program)]
    subprocess.run(command, check=True, timeout=60)
    return program


def output(*command: str | Path) -> str:
    """Return what a program prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.fixture(scope="module", params=["c++17", "c++20"])
def program(
    library: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return a program that makes the call of the number that it is passed."""
    cases = "".join(f"\n    case {k}: {{ {call} }} break;" for k, call in enumerate(CALLS))
    folder = tmp_path_factory.mktemp("program")
    text = PROGRAM.replace("CASES", cases)
    return built(library, folder, text, f"-std={request.param}", "-fsanitize=address,undefined")


@pytest.mark.parametrize("call", CALLS)
def test_call(program: Path, call: str) -> None:
    assert output(program, str(list(CALLS).index(call))) == CALLS[call]


def test_status_instead_of_exceptions(library: Path, tmp_path: Path) -> None:
    text = """
    #include "demo.hpp"
    #include <cstdio>
    int main() {
      float a[6] = {1};
      int const failed = demo::turned({a, {3}}, {a + 3, {2}});
      int const worked = demo::scale({a, {3, 1}}, {a + 3, {3, 1}});
      std::printf("%d %d %.0f %s", failed, worked, a[3], demo_last_message());
    }"""
    program = built(library, tmp_path, text, "-std=c++17", "-fno-exceptions")
    assert output(program) == "10 0 2 turned: array 'out' has the shape (2,), not (n,) = (3,)"


def test_both_kinds_of_errors_in_one_program(library: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.cpp"
    other.write_text('#include "demo.hpp"\nint status() { return demo::scale({}, {}, 1, 1); }\n')
    text = """
    #include "demo.hpp"
    #include <cstdio>
    int status();
    int main() {
      try { demo::scale({}, {}, 1, 1); } catch (demo::error const &e) { std::puts(e.what()); }
      return status() != demo_invalid_layout;
    }"""
    flags = ["-std=c++17", f"-I{library / 'include'}", "-DDEMO_NO_EXCEPTIONS", "-c", str(other)]
    subprocess.run(["g++", *flags, "-o", str(other.with_suffix(".o"))], check=True, timeout=60)
    program = built(library, tmp_path, text, "-std=c++17", str(other.with_suffix(".o")))
    assert "(0, 0), not (n, m) = (1, 1)" in output(program)


def test_two_libraries_in_one_program(library: Path, tmp_path: Path) -> None:
    files = export(scale(), tmp_path, targets=["c"], namespace="other")
    sources = [str(path) for path in files if path.suffix == ".c"]
    command = ["gcc", f"-I{tmp_path / 'include'}", "-c", *sources]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    text = """
    #include "demo.hpp"
    #include "other.hpp"
    #include <cstdio>
    int main() {
      float a[1][1] = {{1}}, b[1][1], c[1][1];
      demo::scale(a, b);
      other::scale(demo::view<float, 2>(b), c);
      std::printf("%.0f", c[0][0]);
    }"""
    made = [*map(str, tmp_path.glob("*.o")), f"-I{tmp_path / 'include'}"]
    assert output(built(library, tmp_path, text, "-std=c++17", *made)) == "4"


UNFIT = {
    "std::vector<float>, demo::view<float, 2>": "elements of another number of axes",
    "std::vector<double>, demo::view<float, 1>": "of another type",
    "std::vector<float> const &, demo::view<float, 1>": "that are constant",
    "std::vector<float>, demo::device_view<float, 1>": "of the host",
}


def test_other_arrays_are_rejected_by_the_compiler(library: Path, tmp_path: Path) -> None:
    lines = "".join(
        f'static_assert(!std::is_convertible_v<{kinds}>, "{why}");\n'
        for kinds, why in UNFIT.items()
    )
    text = f'#include "demo.hpp"\n#include <vector>\n{lines}int main() {{}}\n'
    assert output(built(library, tmp_path, text, "-std=c++17")) == ""


def test_elements_of_types_that_c_lacks_have_a_size(library: Path, tmp_path: Path) -> None:
    text = """
    #include "demo.hpp"
    #include <vector>
    struct Quad { float x, y, z, w; };
    template <class T> using view = demo::view<T, 1>;
    using bytes = demo::detail::bytes<16>;
    static_assert(std::is_convertible_v<std::vector<Quad> const &, view<bytes const>>);
    static_assert(!std::is_convertible_v<std::vector<Quad> const &, view<bytes>>);
    static_assert(!std::is_convertible_v<std::vector<float> const &, view<bytes const>>);
    int main() {
      Quad quad[2] = {};
      return view<bytes>(quad + 1, {1}).data() != static_cast<void *>(quad + 1);
    }"""
    assert output(built(library, tmp_path, text, "-std=c++17")) == ""


def test_one_of_sizes_in_each_other_is_passed() -> None:
    (kernel,) = exported_kernels([entangled()], ["c"])
    assert [arg.name for arg in kernel.arguments] == ["a", "n", "m"]
    assert derived_numbers(kernel.host) == ("m",)


@pytest.mark.parametrize("name", ["view", "error", "kg_result", "operator", "while", "NULL"])
def test_names_that_no_function_in_cxx_has_are_rejected(name: str) -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", "out[i] = 1.0", name=name)
    with pytest.raises(CodegenError, match=f"cannot have the name '{name}'"):
        library_files(knl, targets=["c"], namespace="demo")


def test_a_function_in_cxx_can_have_a_name_that_is_a_keyword_of_c_alone(tmp_path: Path) -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", "out[i] = 1.0", name="restrict")
    files = export(knl, tmp_path, targets=["c"], namespace="demo")
    sources = [path for path in files if path.suffix == ".c"]
    subprocess.run(["gcc", "-c", *sources, "-I", "include"], cwd=tmp_path, check=True, timeout=60)
    text = """#include "demo.hpp"
    int main() { float out[4] = {}; demo::restrict(out); return out[3] != 1; }"""
    assert output(built(tmp_path, tmp_path, text, "-std=c++17")) == ""


DEVICES = """
#include "demo.hpp"
void call(struct _cl_command_queue *queue, struct _cl_mem *buffer, struct _cl_event *event)
{
  demo::buffer_view<float, 1> a(buffer, {70}), b(buffer, {70}, {1});
  demo::turned(queue, a, b, 70, buffer, {1, &event, &event});
  demo::turned(queue, a, b);
  demo::scale(queue, {buffer, {7}}, {buffer, {7}}, {0, nullptr, &event});
  demo::scale(queue, a.from(8), b);
  demo::steps(queue, {buffer, {7, 10}});
}
void call(struct CUstream_st *stream, float *memory, float const *read, unsigned long long handle)
{
  demo::turned(stream, {read, {70}}, {memory, {70}}, 70, memory);
  demo::scale(stream, {handle, {7}}, {memory, {7}, {1}});
  demo::scale(nullptr, demo::device_view<float, 1>(), demo::device_view<float, 1>(), 0);
  demo::steps(stream, {handle, {7, 10}}, 6, 10);
}
"""


@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_arrays_of_devices(standard: str, tmp_path: Path) -> None:
    export([kernels.scale(), kernels.steps(), kernels.turned()], tmp_path, namespace="demo")
    (tmp_path / "main.cpp").write_text(DEVICES)
    command = ["g++", f"-std={standard}", *WARNINGS, f"-I{tmp_path / 'include'}", "-fsyntax-only"]
    subprocess.run([*command, str(tmp_path / "main.cpp")], check=True, timeout=60)


ON_OPENCL = """
#include "demo.hpp"
#include <CL/cl.h>
#include <cstdio>
int main()
{
  cl_platform_id platform; cl_device_id device; cl_int code; cl_event done;
  clGetPlatformIDs(1, &platform, nullptr);
  clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr);
  cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code);
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
  float a[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[4];
  cl_mem_flags const copied = CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR;
  demo::buffer_view<float, 1> from(clCreateBuffer(context, copied, sizeof a, a, &code), {4});
  demo::buffer_view<float, 1> to(clCreateBuffer(context, 0, sizeof out, nullptr, &code), {4});
  demo::scale(queue, from.from(2), to, {0, nullptr, &done});
  clEnqueueReadBuffer(queue, to.handle(), CL_TRUE, 0, sizeof out, out, 1, &done, nullptr);
  std::printf("%.0f %.0f;", out[0], out[3]);
  try { demo::turned(queue, from.from(2), to); }
  catch (demo::error const &error) { std::puts(error.what()); }
}
"""


@pytest.mark.usefixtures("opencl_queue")
def test_offsets_in_buffers(opencl_headers: tuple[str, ...], tmp_path: Path) -> None:
    files = export([kernels.scale(), turned()], tmp_path, targets="opencl", namespace="demo")
    code = [str(path) for path in files if path.suffix == ".c"]
    command = ["gcc", f"-I{tmp_path / 'include'}", "-DCL_TARGET_OPENCL_VERSION=120", "-c", *code]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    flags = ("-std=c++17", "-DCL_TARGET_OPENCL_VERSION=120", *opencl_headers, "-lpthread")
    text = output(built(tmp_path, tmp_path, ON_OPENCL, *flags))
    message = "turned: array 'a' begins at element 2 of its buffer, not at the first\n"
    assert text == f"6 12;{message}"
