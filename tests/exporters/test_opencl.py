"""Exported functions for OpenCL: they enqueue, and reject what is wrong with a call."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.exporters.export import library_files
from tests.exporters.kernels import in_groups, rotated, scale, steps, turned
from tests.exporters.libraries import load

MISUSE = Path(__file__).with_name("misuse_opencl.c")
OUT_OF_ORDER = 1
UINT32 = ctypes.c_uint32


def shown() -> lp.TranslationUnit:
    args = [lp.ImageArg("img", np.float32, shape="n, m"), lp.GlobalArg("out", np.float32), "..."]
    domain = "{ [i, j]: 0 <= i < n and 0 <= j < m }"
    knl = lp.make_kernel(domain, "out[j, i] = img[i, j]", args, name="shown")
    return in_groups(knl, "i")


def nothing() -> lp.TranslationUnit:
    return lp.make_kernel("{ [i]: 0 <= i < 4 }", "", [lp.GlobalArg("a", "int32")], name="nothing")


PROGRAMS: list[Callable[[], lp.TranslationUnit]] = [
    *(scale, turned, steps, rotated, shown),
    nothing,
]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, opencl_headers: tuple[str, ...]) -> ctypes.CDLL:
    programs = [program() for program in PROGRAMS]
    return load(tmp_path_factory.mktemp("demo"), programs, "opencl", *opencl_headers)


class Device:
    """A queue, and arrays in its context as an exported function takes them."""

    def __init__(self, queue: Any) -> None:
        self.cl = pytest.importorskip("pyopencl")
        self.queue = queue
        self.handle = ctypes.c_void_p(queue.int_ptr)

    def buffer(self, array: np.ndarray[Any, Any]) -> Any:
        flags = self.cl.mem_flags
        return self.cl.Buffer(
            self.queue.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=array
        )

    def read(self, buffer: Any, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        found = np.empty_like(like)
        self.queue.finish()
        self.cl.enqueue_copy(self.queue, found, buffer)
        return found


@pytest.fixture
def device(opencl_queue: Any) -> Device:
    return Device(opencl_queue)


def at(memory: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(memory.int_ptr)


NO_EVENTS = (UINT32(0), None, None)
A = np.arange(70, dtype=np.float32)


def offset(number: int) -> ctypes.c_int64:
    return ctypes.c_int64(number)


def test_results_and_offsets(demo: ctypes.CDLL, device: Device) -> None:
    a, out = device.buffer(A), device.buffer(np.zeros_like(A))
    call = (at(a), offset(10), at(out), offset(4), 60, *NO_EVENTS)
    assert demo.demo_scale_opencl(device.handle, *call) == 0
    assert (device.read(out, A)[4:64] == 2 * A[10:]).all()


@pytest.mark.parametrize("has_workspace", [False, True])
@pytest.mark.parametrize("properties", [0, OUT_OF_ORDER])
def test_launches_wait_for_each_other(
    demo: ctypes.CDLL, device: Device, properties: int, has_workspace: bool
) -> None:
    queue = device.cl.CommandQueue(device.queue.context, properties=properties)
    a, n_bytes = np.arange(70000, dtype=np.float32), ctypes.c_size_t()
    assert demo.demo_turned_opencl_workspace(70000, ctypes.byref(n_bytes)) == 0
    assert n_bytes.value == 2 * -(-280000 // 4096) * 4096
    memory, out = device.buffer(np.empty(n_bytes.value, np.int8)), device.buffer(a)
    done, source = ctypes.c_void_p(), device.buffer(a)
    given = (at(source), at(out), 70000, at(memory) if has_workspace else None)
    handle = ctypes.c_void_p(queue.int_ptr)
    assert demo.demo_turned_opencl(handle, *given, UINT32(0), None, ctypes.byref(done)) == 0
    device.cl.Event.from_int_ptr(done.value, retain=False).wait()
    assert (device.read(out, a) == 4 * a).all()


def test_kernel_waits_for_events(demo: ctypes.CDLL, device: Device) -> None:
    a, out = device.buffer(A), device.buffer(np.zeros_like(A))
    start = device.cl.UserEvent(device.queue.context)
    events, done = (ctypes.c_void_p * 1)(start.int_ptr), ctypes.c_void_p()
    given = (at(a), offset(0), at(out), offset(0), 70, UINT32(1), events, ctypes.byref(done))
    assert demo.demo_scale_opencl(device.handle, *given) == 0
    event = device.cl.Event.from_int_ptr(done.value, retain=False)
    assert event.command_execution_status > device.cl.command_execution_status.COMPLETE
    start.set_status(device.cl.command_execution_status.COMPLETE)
    event.wait()
    assert (device.read(out, A) == 2 * A).all()


@pytest.mark.parametrize("properties", [0, OUT_OF_ORDER])
def test_loops_of_the_host(demo: ctypes.CDLL, device: Device, properties: int) -> None:
    a = np.random.default_rng(5).random((9, 70))
    memory = device.buffer(a)
    queue = device.cl.CommandQueue(device.queue.context, properties=properties)
    handle = ctypes.c_void_p(queue.int_ptr)
    assert demo.demo_steps_opencl(handle, at(memory), 8, 70, *NO_EVENTS) == 0
    for t in range(8):
        a[t + 1] = a[t, ::-1] + t
    queue.finish()
    assert (device.read(memory, a) == a).all()


@pytest.mark.parametrize("is_swapped", [False, True])
def test_complex_numbers_are_as_those_of_python(
    demo: ctypes.CDLL, device: Device, is_swapped: bool
) -> None:
    parts = np.random.default_rng(3).normal(size=(2, 200)).astype(np.float32)
    z, w = (parts[0] + 1j * parts[1]).astype(np.complex64), np.complex64(0.5 - 2j)
    _, (expected,) = rotated()(device.queue, z=z, w=w, is_swapped=is_swapped)
    source, out = device.buffer(z), device.buffer(np.zeros_like(z))
    # ctypes knows no complex numbers; two floats are passed as one complex number is
    given = (at(source), at(out), ctypes.c_double(w.view(np.float64)), is_swapped)
    assert demo.demo_rotated_opencl(device.handle, *given, 200, *NO_EVENTS) == 0
    assert device.read(out, z).tobytes() == expected.tobytes()


def test_images(demo: ctypes.CDLL, device: Device) -> None:
    img, cl = np.arange(12, dtype=np.float32).reshape(3, 4), device.cl
    kind = cl.ImageFormat(cl.channel_order.R, cl.channel_type.FLOAT)
    image = cl.image_from_array(device.queue.context, img, 1)
    assert image.format == kind
    out = device.buffer(np.zeros((4, 3), np.float32))
    given = (at(image), at(out), 4)
    assert demo.demo_shown_opencl(device.handle, *given, 3, *NO_EVENTS) == 0
    assert (device.read(out, np.empty((4, 3), np.float32)) == img.T).all()
    assert demo.demo_shown_opencl(device.handle, *given, 5, *NO_EVENTS) == INVALID_SIZE


def test_empty_arrays_are_null_pointers_and_make_an_event(
    demo: ctypes.CDLL, device: Device
) -> None:
    done = ctypes.c_void_p()
    given = (None, offset(0), None, offset(0), 0, UINT32(0), None, ctypes.byref(done))
    assert demo.demo_scale_opencl(device.handle, *given) == 0
    device.cl.Event.from_int_ptr(done.value, retain=False).wait()


def test_kernel_without_launches(demo: ctypes.CDLL, device: Device) -> None:
    a = device.buffer(A)
    assert demo.demo_nothing_opencl(device.handle, at(a), *NO_EVENTS) == 0


NULL_POINTER, INVALID_SIZE, OVERLAP, OPENCL_ERROR = 1, 2, 5, 8
#: What is wrong, and the call: of ``a`` and ``out`` with 70 elements, ``part`` of ``a`` with 32.
WRONG: dict[str, tuple[int, tuple[Any, ...]]] = {
    "argument 'n' is outside of [0,": (INVALID_SIZE, ("a", 0, "out", 0, -1)),
    "array 'a' is a null pointer": (NULL_POINTER, (None, 0, "out", 0, 70)),
    "'a_offset' is negative": (INVALID_SIZE, ("a", -1, "out", 0, 60)),
    "the buffer of array 'a' has fewer bytes": (INVALID_SIZE, ("a", 1, "out", 0, 70)),
    "the buffer of array 'out' has fewer bytes": (INVALID_SIZE, ("a", 0, "part", 0, 33)),
    "'out', which is written, overlaps with 'a'": (OVERLAP, ("a", 0, "a", 34, 35)),
    "overlaps with 'a'": (OVERLAP, ("a", 10, "part", 0, 20)),
}


@pytest.mark.parametrize("text", WRONG)
def test_bad_input_is_a_status(demo: ctypes.CDLL, device: Device, text: str) -> None:
    a, out = device.buffer(np.ones(70, np.float32)), device.buffer(A)
    memory = {"a": a, "out": out, "part": a.get_sub_region(0, 128)}
    status, (source, first, target, second, n) = WRONG[text]
    arrays = [at(memory[name]) if name else None for name in (source, target)]
    given = (arrays[0], offset(first), arrays[1], offset(second), n)
    assert demo.demo_scale_opencl(device.handle, *given, *NO_EVENTS) == status
    assert text in demo.demo_last_message().decode()
    assert (device.read(a, A) == 1).all()
    assert (device.read(out, A) == A).all()


def test_pieces_of_one_buffer_may_be_next_to_each_other(demo: ctypes.CDLL, device: Device) -> None:
    a = device.buffer(A)
    call = (at(a), offset(0), at(a), offset(35), 35, *NO_EVENTS)
    assert demo.demo_scale_opencl(device.handle, *call) == 0
    assert (device.read(a, A)[35:] == 2 * A[:35]).all()


def test_null_queue_and_null_events(demo: ctypes.CDLL, device: Device) -> None:
    a, out = device.buffer(A), device.buffer(A)
    given = (at(a), offset(0), at(out), offset(0), 70)
    assert demo.demo_scale_opencl(None, *given, *NO_EVENTS) == NULL_POINTER
    assert demo.demo_scale_opencl(device.handle, *given, UINT32(1), None, None) == NULL_POINTER
    assert demo.demo_opencl_release(None) == NULL_POINTER


def test_small_workspace(demo: ctypes.CDLL, device: Device) -> None:
    a, out, small = device.buffer(A), device.buffer(A), device.buffer(A)
    given = (at(a), at(out), 70, at(small), *NO_EVENTS)
    assert demo.demo_turned_opencl(device.handle, *given) == INVALID_SIZE
    assert b"the workspace has fewer bytes" in demo.demo_last_message()


def test_workspace_may_be_a_part_of_a_buffer(demo: ctypes.CDLL, device: Device) -> None:
    a, out = device.buffer(A), device.buffer(A)
    whole = device.buffer(np.empty(4 * 4096, np.int8))
    workspace = whole.get_sub_region(4096, 3 * 4096)
    given = (at(a), at(out), 70, at(workspace), *NO_EVENTS)
    assert demo.demo_turned_opencl(device.handle, *given) == 0
    assert (device.read(out, A) == 4 * A).all()


def test_errors_of_opencl_have_their_name(demo: ctypes.CDLL, device: Device) -> None:
    other = Device(device.cl.CommandQueue(device.cl.Context([device.queue.device])))
    a, out = device.buffer(A), other.buffer(A)
    given = (at(a), offset(0), at(out), offset(0), 70)
    assert demo.demo_scale_opencl(other.handle, *given, *NO_EVENTS) == OPENCL_ERROR
    assert b"contexts of memory and queue failed with CL_INVALID_CONTEXT" in (
        demo.demo_last_message()
    )


def test_contexts_have_programs_of_their_own(demo: ctypes.CDLL, device: Device) -> None:
    contexts = [device.cl.Context([device.queue.device]) for _ in range(2)]
    for context in (*contexts, *contexts):
        mine = Device(device.cl.CommandQueue(context))
        a, out = mine.buffer(A), mine.buffer(A)
        call = (at(a), offset(0), at(out), offset(0), 70, *NO_EVENTS)
        assert demo.demo_scale_opencl(mine.handle, *call) == 0
        assert (mine.read(out, A) == 2 * A).all()
    before = contexts[0].reference_count
    assert demo.demo_opencl_release(ctypes.c_void_p(contexts[0].int_ptr)) == 0
    assert contexts[0].reference_count < before


def test_threads_may_call_at_once(demo: ctypes.CDLL, device: Device) -> None:
    context = device.cl.Context([device.queue.device])
    found: dict[int, bool] = {}

    def run(number: int) -> None:
        mine = Device(device.cl.CommandQueue(context))
        a = np.full(1000, number, np.float32)
        source, out = mine.buffer(a), mine.buffer(a)
        results = []
        for n in range(900, 1000):
            call = (at(source), offset(0), at(out), offset(0), n, *NO_EVENTS)
            results.append(demo.demo_scale_opencl(mine.handle, *call))
        found[number] = not any(results) and (mine.read(out, a)[:999] == 2 * number).all()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[number] for number in range(8)] == [True] * 8


def test_misuse_is_a_status_and_nothing_is_written(
    device: Device, opencl_headers: tuple[str, ...], tmp_path: Path
) -> None:
    files = lp.export([scale(), turned()], tmp_path, targets="opencl", namespace="demo")
    code = [*(path for path in files if path.suffix == ".c"), MISUSE]
    flags = ["-std=c11", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    program, include = tmp_path / "program", f"-I{tmp_path / 'include'}"
    words = ["cc", *flags, include, *map(str, code), *opencl_headers, "-o", str(program)]
    subprocess.run(words, check=True, timeout=60)
    # what drivers do not free is not ours
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:protect_shadow_gap=0"}
    given = [str(program), device.queue.device.platform.name]
    result = subprocess.run(
        given, env=environment, stdout=subprocess.PIPE, text=True, timeout=60, check=True
    )
    n_failed, n_wrong = map(int, result.stdout.split())
    assert n_failed > 2000
    assert n_wrong == 0


def test_log_of_builds_that_fail(
    tmp_path: Path, device: Device, opencl_headers: tuple[str, ...]
) -> None:
    knl = lp.set_options(scale(), build_options=["-DN=1", "-Werror", "-D__kernel=nonsense"])
    library = load(tmp_path, [knl], "opencl", *opencl_headers)
    a, out = device.buffer(A), device.buffer(A)
    call = (at(a), offset(0), at(out), offset(0), 70, *NO_EVENTS)
    library.demo_opencl_build_log.restype = ctypes.c_size_t
    assert library.demo_opencl_build_log(ctypes.c_size_t(0), None) == 0
    assert library.demo_scale_opencl(device.handle, *call) == OPENCL_ERROR
    assert b"clBuildProgram failed with CL_BUILD_PROGRAM_FAILURE" in library.demo_last_message()
    n_bytes = library.demo_opencl_build_log(ctypes.c_size_t(0), None)
    text = ctypes.create_string_buffer(n_bytes)
    assert library.demo_opencl_build_log(ctypes.c_size_t(n_bytes), text) == n_bytes
    assert b"nonsense" in text.value


def test_pocl_gets_code_of_its_own() -> None:
    source = library_files(scale(), targets=["opencl"], namespace="demo")["src/demo_scale_opencl.c"]
    general, for_pocl = source.split("kg_text_for_pocl[]")
    assert "#define barrier" not in general
    assert "__global float *__restrict__ out" in general
    assert "#define barrier" in for_pocl
    assert "__global float *out" in for_pocl


def test_code_has_the_sub_groups_of_the_target_except_on_pocl() -> None:
    knl = lp.make_kernel(
        "{ [r, i]: 0 <= r < m and 0 <= i < 16 }",
        "out[r] = sum(i, a[r, i])",
        [lp.GlobalArg("a, out", np.float32), "..."],
        assumptions="m >= 1",
        target=lp.OpenCLTarget(sub_group_size=16),
        name="rows",
    )
    knl = lp.tag_inames(knl, "r:g.0, i:l.0")
    source = library_files(knl, targets=["opencl"], namespace="demo")["src/demo_rows_opencl.c"]
    general, for_pocl = source.split("kg_text_for_pocl[]")
    assert "sub_group_shuffle_xor(acc_i, 8)" in general
    assert "sub_group" not in for_pocl


def test_guards_need_a_host_that_waits() -> None:
    args = [lp.GlobalArg("a", np.int32, shape="n"), lp.GlobalArg("out", np.int32, shape="n"), "..."]
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[a[i]] = i", args, name="scattered")
    knl = lp.set_options(knl, guard_accesses=True)
    with pytest.raises(lp.KgenError, match="does not wait for the kernel"):
        library_files(knl, targets=["opencl"])


def test_argument_with_a_name_of_the_launcher() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "queue[i] = 1.0", name="filled")
    with pytest.raises(lp.KgenError, match="an exported function cannot have an argument 'queue'"):
        library_files(knl, targets=["opencl"])


def test_nothing_is_kept_after_a_call(demo: ctypes.CDLL, device: Device) -> None:
    a, out, done = device.buffer(A), device.buffer(A), ctypes.c_void_p()
    given = (at(a), at(out), 70, None, UINT32(0), None)
    assert demo.demo_turned_opencl(device.handle, *given, ctypes.byref(done)) == 0
    event = device.cl.Event.from_int_ptr(done.value, retain=False)
    event.wait()
    device.queue.finish()
    for _ in range(500):  # PoCL's thread gives its reference back after the event is complete
        if event.get_info(device.cl.event_info.REFERENCE_COUNT) == 1:
            break
        time.sleep(0.01)
    assert event.get_info(device.cl.event_info.REFERENCE_COUNT) == 1
    del event
    assert [memory.reference_count for memory in (a, out)] == [1, 1]


def test_no_string_is_longer_than_all_compilers_take() -> None:
    code = "out[i] = " + " + ".join(f"{k}*a[i]" for k in range(1, 400))
    args = [lp.GlobalArg("a, out", np.float32, shape="n"), "..."]
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", code, args, name="wordy")
    text = library_files([knl], targets="opencl", namespace="demo")["src/demo_wordy_opencl.c"]
    strings = [line.strip() for line in text.splitlines() if line.startswith('  "')]
    assert max(map(len, strings)) < 1100
    joined = "".join(json.loads(string.rstrip(",")) for string in strings)
    assert " + 399.0f * a[i];\n" in joined
