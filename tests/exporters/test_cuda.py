"""Exported functions for CUDA: on a device, and on a driver that only notes what is asked of it."""

from __future__ import annotations

import ctypes
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.exporters.export import export, library_files
from tests.exporters.kernels import rotated, scale, steps, turned

FAKE = Path(__file__).with_name("fake_cuda.c")
FLAGS = ("-shared", "-cudart=none", "-Xcompiler=-std=c11,-Wall,-Wextra,-Werror,-pedantic,-fPIC")
MAGIC = bytes.fromhex("50ed55ba01001000")
NULL_POINTER, INVALID_SIZE, MISALIGNED, OVERLAP, OUT_OF_MEMORY, CUDA_ERROR = 1, 2, 4, 5, 6, 9


def embed(fatbin: bytes, path: Path) -> Path:
    """Write compiled code as the array that the launcher of a kernel expects."""
    values = ",".join(map(str, fatbin))
    path.write_text(f"_Alignas(16) unsigned char const {path.stem}[] = {{{values}}};\n")
    return path


def compiled_for_cuda(
    nvcc: str, files: Sequence[Path], folder: Path, arch: str | None
) -> list[Path]:
    """Return the sources in C of a library, with its compiled kernels as arrays.

    Without an architecture the kernels are empty.
    """
    kernels = [path for path in files if path.suffix == ".cu"]
    runs = {}
    if arch is not None:
        for path in kernels:
            made = path.with_suffix(".fatbin")
            runs[made] = subprocess.Popen([nvcc, "-fatbin", f"-arch={arch}", path, "-o", made])
    assert [run.wait(timeout=120) for run in runs.values()] == [0] * len(runs)
    code = [path for path in files if path.suffix == ".c"]
    for path in kernels:
        made = path.with_suffix(".fatbin")
        content = made.read_bytes() if made in runs else MAGIC
        code.append(embed(content, folder / f"{path.stem}_fatbin.c"))
    return code


def load(
    nvcc: str, folder: Path, programs: Sequence[lp.TranslationUnit], arch: str | None, *more: str
) -> ctypes.CDLL:
    """Return the library ``demo`` of *programs*; without an architecture, its kernels are empty."""
    files = export(programs, folder, targets="cuda", namespace="demo")
    code = map(str, compiled_for_cuda(nvcc, files, folder, arch))
    library = folder / "demo.so"
    command = [nvcc, *FLAGS, f"-I{folder / 'include'}", *code, *more, "-o", str(library)]
    subprocess.run(command, check=True, timeout=60)
    found = ctypes.CDLL(str(library))
    found.demo_last_message.restype = ctypes.c_char_p
    return found


# -- without a device -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loaded(nvcc: str, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("demo")
    cooperative = steps("cooperative", cooperative=True)
    kernels = [scale(), turned(), steps(), cooperative, summed()]
    return load(nvcc, folder, kernels, None, str(FAKE))


def summed() -> lp.TranslationUnit:
    """Return a scan whose groups look back, in words that are zero when it begins."""
    args = [lp.GlobalArg("a, out", np.float32, shape="n"), "..."]
    domain = "{ [i, j]: 0 <= j <= i < n }"
    knl = lp.make_kernel(
        domain, "out[i] = sum(j, a[j])", args, name="summed", target=lp.CudaTarget()
    )
    knl = lp.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    return lp.realize_reduction(knl, force_scan=True)


@pytest.fixture
def fake(loaded: ctypes.CDLL) -> ctypes.CDLL:
    """Return the library, about which the driver knows nothing."""
    for name in ("loaded", "allocated", "freed", "launched", "error", "position"):
        number(loaded, name).value = 0
    loaded.demo_cuda_release(None)
    ctypes.c_uint64.in_dll(loaded, "fake_range_size").value = 0
    number(loaded, "unloaded").value = 0
    return loaded


def number(library: ctypes.CDLL, name: str) -> ctypes.c_int:
    return ctypes.c_int.in_dll(library, f"fake_{name}")


def noted(library: ctypes.CDLL, name: str, count: int) -> list[int]:
    return list((ctypes.c_int * 16).in_dll(library, f"fake_{name}"))[:count]


def at(address: int) -> ctypes.c_uint64:
    return ctypes.c_uint64(address)


def test_launches_and_memory(fake: ctypes.CDLL) -> None:
    assert fake.demo_turned_cuda(None, at(0x10000), at(0x20000), 70, at(0)) == 0
    assert noted(fake, "groups", 3) == [3, 3, 3]
    assert noted(fake, "threads", 3) == [32, 32, 32]
    counts = [number(fake, name).value for name in ("loaded", "launched", "allocated", "freed")]
    assert counts == [1, 3, 1, 1]


def test_words_that_groups_wait_for_are_zero_before_a_launch(fake: ctypes.CDLL) -> None:
    assert fake.demo_summed_cuda(None, at(0x10000), at(0x20000), 70, at(0)) == 0
    assert number(fake, "launched").value == 1
    assert number(fake, "zeroed").value == (3 + 1) * 8


def test_workspace_is_not_allocated(fake: ctypes.CDLL) -> None:
    n_bytes = ctypes.c_size_t()
    assert fake.demo_turned_cuda_workspace(70, ctypes.byref(n_bytes)) == 0
    assert n_bytes.value == 2 * 512
    assert fake.demo_turned_cuda(None, at(0x10000), at(0x20000), 70, at(0x30000)) == 0
    assert number(fake, "allocated").value == 0


def test_loops_of_the_host_pass_their_variable(fake: ctypes.CDLL) -> None:
    number(fake, "position").value = 3
    assert fake.demo_steps_cuda(None, at(0x10000), 5, 70) == 0
    assert number(fake, "launched").value == 5
    assert noted(fake, "numbers", 5) == [0, 1, 2, 3, 4]


def test_cooperative_kernels_are_launched_once(fake: ctypes.CDLL) -> None:
    number(fake, "cooperative").value = 0
    assert fake.demo_cooperative_cuda(None, at(0x10000), 5, 70) == 0
    assert (number(fake, "launched").value, number(fake, "cooperative").value) == (1, 1)
    assert noted(fake, "groups", 1) == [3]


def test_empty_grids_are_not_launched(fake: ctypes.CDLL) -> None:
    assert fake.demo_scale_cuda(None, at(0), at(0), 0) == 0
    assert number(fake, "launched").value == 0


def test_contexts_load_kernels_once_each(fake: ctypes.CDLL) -> None:
    context = ctypes.c_uint64.in_dll(fake, "fake_context")
    for current in (1, 2, 1, 2):
        context.value = current
        assert fake.demo_scale_cuda(None, at(0x10000), at(0x20000), 70) == 0
    context.value = 1
    assert number(fake, "loaded").value == 2
    assert fake.demo_cuda_release(ctypes.c_void_p(2)) == 0
    assert fake.demo_scale_cuda(None, at(0x10000), at(0x20000), 70) == 0
    assert [number(fake, name).value for name in ("loaded", "unloaded")] == [2, 1]


def test_threads_load_kernels_once(fake: ctypes.CDLL) -> None:
    def run() -> None:
        for _ in range(100):
            fake.demo_scale_cuda(None, at(0x10000), at(0x20000), 70)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [number(fake, name).value for name in ("loaded", "launched")] == [1, 800]


A, OUT = 0x10000, 0x20000
WRONG = {
    "argument 'n' is outside of [0,": (INVALID_SIZE, (A, OUT, -1)),
    "array 'a' is a null pointer": (NULL_POINTER, (0, OUT, 70)),
    "array 'out' does not begin at a multiple of 4 bytes": (MISALIGNED, (A, OUT + 2, 70)),
    "'out', which is written, overlaps with array 'a'": (OVERLAP, (A, A + 276, 70)),
    "the memory of array 'a' has fewer bytes": (INVALID_SIZE, (A, OUT, 65)),
}


@pytest.mark.parametrize("text", WRONG)
def test_bad_input_is_a_status(fake: ctypes.CDLL, text: str) -> None:
    ctypes.c_uint64.in_dll(fake, "fake_range").value = A
    ctypes.c_uint64.in_dll(fake, "fake_range_size").value = 256 if "fewer" in text else 0
    status, (a, out, n) = WRONG[text]
    assert fake.demo_scale_cuda(None, at(a), at(out), n) == status
    assert text in fake.demo_last_message().decode()
    assert number(fake, "launched").value == 0


def test_workspace_is_checked(fake: ctypes.CDLL) -> None:
    wrong = {0x30010: MISALIGNED, OUT: OVERLAP}
    for workspace, status in wrong.items():
        assert fake.demo_turned_cuda(None, at(A), at(OUT), 70, at(workspace)) == status
    assert fake.demo_turned_cuda(None, at(A), at(1 << 40), 2**28, at(0)) == OUT_OF_MEMORY
    assert number(fake, "launched").value == 0


def test_errors_of_cuda_have_their_name(fake: ctypes.CDLL) -> None:
    number(fake, "error").value = 700
    assert fake.demo_turned_cuda(None, at(A), at(OUT), 70, at(0)) == CUDA_ERROR
    message = b"turned: cuLaunchKernel failed with CUDA_ERROR_OTHER (700)"
    assert fake.demo_last_message() == message
    counts = [number(fake, name).value for name in ("launched", "allocated", "freed")]
    assert counts == [1, 1, 1]


def test_call_without_a_context(fake: ctypes.CDLL) -> None:
    context = ctypes.c_uint64.in_dll(fake, "fake_context")
    context.value = 0
    assert fake.demo_scale_cuda(None, at(A), at(OUT), 70) == CUDA_ERROR
    context.value = 1
    assert b"CUDA_ERROR_INVALID_CONTEXT" in fake.demo_last_message()


def test_embedded_bytes(cmake: str, nvcc: str, tmp_path: Path) -> None:
    files = export(scale(), tmp_path, targets="cuda", namespace="demo")
    (kernel,) = [path for path in files if path.suffix == ".cu"]
    fatbin, code = tmp_path / "demo.fatbin", tmp_path / "demo.c"
    subprocess.run([nvcc, "-fatbin", kernel, "-o", fatbin], check=True, timeout=60)
    given = [f"-DINPUT={fatbin}", f"-DOUTPUT={code}", "-DSYMBOL=demo", "-P"]
    script = tmp_path / "src" / "kgen_embed.cmake"
    subprocess.run([cmake, *given, script], check=True, timeout=60)
    values = code.read_text().rpartition("{")[2].partition("}")[0].split(",")
    assert bytes(int(value, 16) for value in values if value.strip()) == fatbin.read_bytes()


def test_guards_need_a_host_that_waits() -> None:
    args = [lp.GlobalArg("a", np.int32, shape="n"), lp.GlobalArg("out", np.int32, shape="n"), "..."]
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[a[i]] = i", args, name="scattered")
    knl = lp.set_options(knl, guard_accesses=True)
    with pytest.raises(lp.KgenError, match="guard_accesses is for the host"):
        library_files(knl, targets=["cuda"])


# -- on a device -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo(cuda_context: Any, nvcc: str, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    major, minor = cuda_context.get_device().compute_capability()
    programs = [scale(), turned(), steps(), rotated()]
    folder = tmp_path_factory.mktemp("demo")
    return load(nvcc, folder, programs, f"sm_{major}{minor}", "-lcuda")


def on_device(array: np.ndarray[Any, Any]) -> Any:
    gpuarray: Any = pytest.importorskip("pycuda.gpuarray")
    return gpuarray.to_gpu(array)


def pointer(array: Any) -> ctypes.c_uint64:
    return at(int(array.gpudata))


def for_pycuda(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    return knl.copy(target=lp.PyCudaTarget())


@pytest.mark.parametrize("name", ["scale", "turned"])
def test_results_on_a_device(demo: ctypes.CDLL, name: str) -> None:
    a = np.random.default_rng(4).random(70000, np.float32)
    source, out = on_device(a), on_device(np.zeros_like(a))
    program = {"scale": scale, "turned": turned}[name]
    _, (expected,) = for_pycuda(program())(a=a)
    workspace = [at(0)] if name == "turned" else []
    launch = getattr(demo, f"demo_{name}_cuda")
    assert launch(None, pointer(source), pointer(out), 70000, *workspace) == 0
    assert out.get().tobytes() == expected.tobytes()


def test_workspace_and_stream_on_a_device(demo: ctypes.CDLL) -> None:
    driver: Any = pytest.importorskip("pycuda.driver")
    a, n_bytes, stream = np.arange(7000, dtype=np.float32), ctypes.c_size_t(), driver.Stream()
    assert demo.demo_turned_cuda_workspace(7000, ctypes.byref(n_bytes)) == 0
    source, out = on_device(a), on_device(np.zeros_like(a))
    workspace = driver.mem_alloc(n_bytes.value)
    given = (pointer(source), pointer(out), 7000, at(int(workspace)))
    assert demo.demo_turned_cuda(ctypes.c_void_p(stream.handle), *given) == 0
    stream.synchronize()
    assert (out.get() == 4 * a).all()


def test_loops_of_the_host_on_a_device(demo: ctypes.CDLL) -> None:
    a = np.random.default_rng(5).random((9, 70))
    memory = on_device(a)
    _, (expected,) = for_pycuda(steps())(a=a)
    assert demo.demo_steps_cuda(None, pointer(memory), 8, 70) == 0
    assert memory.get().tobytes() == expected.tobytes()


@pytest.mark.parametrize("is_swapped", [False, True])
def test_complex_numbers_on_a_device(demo: ctypes.CDLL, is_swapped: bool) -> None:
    parts = np.random.default_rng(3).normal(size=(2, 200)).astype(np.float32)
    z, w = (parts[0] + 1j * parts[1]).astype(np.complex64), np.complex64(0.5 - 2j)
    _, (expected,) = for_pycuda(rotated())(z=z, w=w, is_swapped=is_swapped)
    source, out = on_device(z), on_device(np.zeros_like(z))
    # ctypes knows no complex numbers; two floats are passed as one complex number is
    given = (pointer(source), pointer(out), ctypes.c_double(w.view(np.float64)), is_swapped, 200)
    assert demo.demo_rotated_cuda(None, *given) == 0
    assert out.get().tobytes() == expected.tobytes()


def test_short_arrays_on_a_device(demo: ctypes.CDLL) -> None:
    a = on_device(np.ones(70, np.float32))
    assert demo.demo_scale_cuda(None, pointer(a), pointer(a), 71) == INVALID_SIZE
    assert demo.demo_scale_cuda(None, at(0), pointer(a), 70) == NULL_POINTER
    assert (a.get() == 1).all()


def test_contexts_and_threads_on_a_device(demo: ctypes.CDLL, cuda_context: Any) -> None:
    device, found = cuda_context.get_device(), list[bool]()

    def run() -> None:
        context = device.make_context()
        try:
            a = np.arange(900, dtype=np.float32)
            for _ in range(20):
                source, out = on_device(a), on_device(np.zeros_like(a))
                status = demo.demo_scale_cuda(None, pointer(source), pointer(out), 900)
                found.append(status == 0 and bool((out.get() == 2 * a).all()))
            del source, out
            found.append(demo.demo_cuda_release(None) == 0)
        finally:
            context.pop()
            context.detach()

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 63
