"""Calls of kernels on an OpenCL device, with code written by hand."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.errors import CodegenError, CompilationError, InvocationError
from kgen.ir.target import TargetBase
from kgen.runtime.cache import DiskCache
from kgen.targets.module import Launch, Module
from tests.runtime.handmade import Dtypes, array, module, program, value

cl = pytest.importorskip("pyopencl")
cla = pytest.importorskip("pyopencl.array")
programs = pytest.importorskip("kgen.runtime.opencl.program")
pytestmark = pytest.mark.usefixtures("opencl_queue")


class DeviceTarget(TargetBase):
    runtime_module = "kgen.runtime.opencl"


TWICE = """
__kernel __attribute__((reqd_work_group_size(4, 1, 1)))
void f(__global TYPE const *restrict a, int n, __global TYPE *restrict out)
{
  int i = get_global_id(0);
  if (i < n)
    out[i] = 2 * a[i];
}
"""
C_NAMES = {"float32": "float", "int32": "int"}


def twice(dtypes: Dtypes) -> Module:
    """Return ``out[i] = 2*a[i]`` for the type of ``a``, in groups of 4."""
    dtype = dtypes["a"]
    return module(
        TWICE.replace("TYPE", C_NAMES[dtype.name]),
        array("a", dtype, "n"),
        value("n"),
        array("out", dtype, "n", "out"),
        groups="(n + 3) // 4",
        local=(4,),
    )


F32 = np.dtype(np.float32)
A = np.arange(5, dtype=F32)


@pytest.fixture
def knl(monkeypatch: pytest.MonkeyPatch) -> Any:
    return program(DeviceTarget(), twice, monkeypatch, untyped=("a", "out"))


@pytest.fixture
def a(opencl_queue: Any) -> Any:
    return cla.to_device(opencl_queue, A)


def refusal(knl: Any, *queue: Any, **arguments: Any) -> str:
    """Return the message of the error that a call raises."""
    with pytest.raises(InvocationError) as caught:
        knl(*queue, **arguments)
    return str(caught.value)


def test_device_arrays(knl: Any, opencl_queue: Any, a: Any) -> None:
    evt, (out,) = knl(opencl_queue, a=a)
    assert isinstance(evt, cl.Event)
    assert isinstance(out, cla.Array)
    np.testing.assert_array_equal(out.get(), 2 * A)
    other = cla.zeros_like(a)
    assert knl(opencl_queue, a=out, out=other, n=5)[1][0] is other
    np.testing.assert_array_equal(other.get(), 4 * A)


def test_numpy_arrays_give_numpy_arrays(knl: Any, opencl_queue: Any) -> None:
    _, (out,) = knl(opencl_queue, a=A)
    assert isinstance(out, np.ndarray)
    np.testing.assert_array_equal(out, 2 * A)
    filled = np.empty_like(A)
    assert knl(opencl_queue, a=A, out=filled)[1][0] is filled
    np.testing.assert_array_equal(filled, 2 * A)


@pytest.mark.parametrize(
    ("a_on_host", "out", "out_host", "result"),
    [
        (False, None, None, cla.Array),
        (False, None, True, np.ndarray),
        (False, None, False, cla.Array),
        (True, None, True, np.ndarray),
        (True, None, False, cla.Array),
        (True, cla.Array, None, cla.Array),
        (False, np.ndarray, None, np.ndarray),
        (True, cla.Array, True, np.ndarray),
        (True, np.ndarray, False, cla.Array),
    ],
)
def test_where_outputs_are(
    knl: Any, opencl_queue: Any, a: Any, a_on_host: bool, out: Any, out_host: Any, result: Any
) -> None:
    passed: Any = np.zeros_like(A) if out is np.ndarray else None
    if out is cla.Array:
        passed = cla.zeros_like(a)
    _, (returned,) = knl(opencl_queue, a=A if a_on_host else a, out=passed, out_host=out_host)
    assert type(returned) is result
    if type(passed) is result:
        assert returned is passed
    values = returned.get() if result is cla.Array else returned
    np.testing.assert_array_equal(values, 2 * A)


def test_without_array_arguments_outputs_are_on_the_device(
    opencl_queue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "__kernel void f(__global int *out) { out[get_global_id(0)] = 7; }"
    made = module(source, array("out", "i4", "3", "out"), groups="3", local=(1,))
    knl = program(DeviceTarget(), made, monkeypatch)
    _, (out,) = knl(opencl_queue)
    np.testing.assert_array_equal(out.get(), [7, 7, 7])
    assert isinstance(knl(opencl_queue, out_host=True)[1][0], np.ndarray)


def test_what_is_not_written_stays(opencl_queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "__kernel void f(__global int *out) { out[2*get_global_id(0)] = 7; }"
    made = module(source, array("out", "i4", "4", "out"), groups="2", local=(1,))
    out = np.arange(4, dtype=np.int32)
    program(DeviceTarget(), made, monkeypatch)(opencl_queue, out=out)
    np.testing.assert_array_equal(out, [7, 1, 7, 3])


def test_empty_arrays_launch_nothing(knl: Any, opencl_queue: Any) -> None:
    evt, (out,) = knl(opencl_queue, a=np.empty(0, F32))
    assert out.shape == (0,)
    evt, (out,) = knl(opencl_queue, a=cla.empty(opencl_queue, 0, F32))
    evt.wait()
    assert out.shape == (0,)


def test_a_kernel_without_launches_makes_an_event(opencl_queue: Any) -> None:
    args = [lp.GlobalArg("out", F32, shape="n + 1"), "..."]
    knl = lp.make_kernel("{ [i]: 3 <= i < n }", "out[i] = 1", args, target=lp.PyOpenCLTarget())
    knl = lp.fix_parameters(lp.tag_inames(knl, "i:g.0"), n=2)
    out = cla.zeros(opencl_queue, 3, F32)
    knl(opencl_queue, out=out)[0].wait()
    knl.executor(opencl_queue).bind(opencl_queue, out=out)().wait()
    assert not out.get().any()


def test_return_dict(opencl_queue: Any, a: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    knl = program(DeviceTarget(), twice({"a": F32}), monkeypatch, return_dict=True)
    for given in (a, A):
        _, result = knl(opencl_queue, a=given)
        assert list(result) == ["out"]
        assert type(result["out"]) is type(given)


def test_no_numpy(opencl_queue: Any, a: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    knl = program(DeviceTarget(), twice({"a": F32}), monkeypatch, no_numpy=True)
    assert "'a' is a numpy array" in refusal(knl, opencl_queue, a=A)
    np.testing.assert_array_equal(knl(opencl_queue, a=a)[1][0].get(), 2 * A)


def test_queue(knl: Any, opencl_queue: Any, a: Any) -> None:
    assert "runs in a queue" in refusal(knl, a=A)
    assert "runs in a queue" in refusal(knl, opencl_queue.device, a=A)
    executor = knl.executor(opencl_queue)
    assert knl.executor(opencl_queue.context) is executor
    assert knl.executor(cl.CommandQueue(opencl_queue.context)) is executor
    for _ in range(2):
        assert "passed by position" in refusal(executor, a=a)
        assert "in a queue, not in" in refusal(executor, opencl_queue.context, a=a)
        other = cl.CommandQueue(cl.Context([opencl_queue.device]))
        assert "of another context" in refusal(executor, other, a=a)
        executor(opencl_queue, a=a)


def test_unfit_arguments(knl: Any, opencl_queue: Any, a: Any) -> None:
    for _ in range(2):
        assert "'a' is missing" in refusal(knl, opencl_queue, n=5)
        assert "did you mean 'out'" in refusal(knl, opencl_queue, a=a, ou=a)
        assert "'a' is an array" in refusal(knl, opencl_queue, a=[1.0])
        out = cla.zeros(opencl_queue, 6, F32)
        assert "'out' has shape (6,)" in refusal(knl, opencl_queue, a=a, out=out)
        every_second = cla.zeros(opencl_queue, 10, F32)[::2]
        assert "'a' has strides of (8,)" in refusal(knl, opencl_queue, a=every_second)
        assert "begins 8 bytes into" in refusal(knl, opencl_queue, a=a[2:])
        assert "'out' begins 8 bytes into" in refusal(knl, opencl_queue, a=A[2:], out=a[2:])
        assert "'a' has strides" in refusal(knl, opencl_queue, a=np.zeros(10, F32)[::2])
        assert "'n' is an integer" in refusal(knl, opencl_queue, a=a, n=5.5)
        fixed = np.broadcast_to(F32.type(0), 5)
        assert "'out' is read-only" in refusal(knl, opencl_queue, a=A, out=fixed)
        knl(opencl_queue, a=a)


def test_arrays_of_another_kind(knl: Any, opencl_queue: Any) -> None:
    class Foreign:
        dtype, shape, strides = F32, (5,), (4,)

    assert "'a' is a tests" in refusal(knl, opencl_queue, a=Foreign())


COPY = """
__kernel void f(__global double const *a, long a_offset, int n, int m, int s0, int s1,
                __global double *out, long out_offset)
{
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < m; ++j)
      out[out_offset + i*m + j] = a[a_offset + i*s0 + j*s1];
}
"""


def test_strides_and_offsets_that_are_arguments(
    opencl_queue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = module(
        COPY,
        array("a", "f8", "n,m", strides="s0,s1", offset="a_offset"),
        *map(value, "nm"),
        *(value(name, is_temporary=True) for name in ("s0", "s1")),
        array("out", "f8", "n,m", "out", offset="out_offset"),
    )
    knl = program(DeviceTarget(), made, monkeypatch)
    host = np.arange(48.0).reshape(6, 8)
    device = cla.to_device(opencl_queue, host)
    for part in (
        np.s_[:, :],
        np.s_[1:, 2:],
        np.s_[::2, 1::3],
        np.s_[1:2, 3:4],
        np.s_[2:2, :],
    ):
        expected = host[part]
        np.testing.assert_array_equal(knl(opencl_queue, a=device[part])[1][0].get(), expected)
        np.testing.assert_array_equal(knl(opencl_queue, a=host[part])[1][0], expected)
        np.testing.assert_array_equal(knl(opencl_queue, a=host.T[part[::-1]])[1][0], expected.T)
    backwards = host[::-1, ::-2]
    np.testing.assert_array_equal(knl(opencl_queue, a=backwards)[1][0], backwards)
    target = cla.zeros(opencl_queue, 60, np.float64)
    knl(opencl_queue, a=device, out=target[12:].reshape(6, 8))
    np.testing.assert_array_equal(target.get()[12:].reshape(6, 8), host)


def test_padded_rows(opencl_queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
    __kernel void f(__global double *out, int n)
    { for (int i = 0; i < n; ++i) for (int j = 0; j < 3; ++j) out[4*i + j] = 10*i + j; }
    """
    made = module(source, array("out", "f8", "n,3", "out", strides="4,1"), value("n"))
    knl = program(DeviceTarget(), made, monkeypatch)
    expected = 10 * np.arange(2)[:, None] + np.arange(3)
    memory = np.full((2, 4), -1.0)
    _, (out,) = knl(opencl_queue, n=2, out=memory[:, :3])
    np.testing.assert_array_equal(out, expected)
    assert (memory[:, 3] == -1).all()
    np.testing.assert_array_equal(knl(opencl_queue, n=2, out_host=True)[1][0], expected)
    assert knl(opencl_queue, n=2)[1][0].strides == (32, 8)


def test_numbers_of_all_kinds(opencl_queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
    __kernel void f(float x, double y, float2 z, double2 w, char b, ulong u, short s,
                    __global double *out)
    {
      out[0] = x; out[1] = y; out[2] = z.x; out[3] = z.y; out[4] = w.x; out[5] = w.y;
      out[6] = b; out[7] = u; out[8] = s;
    }
    """
    kinds = {"x": "f4", "y": "f8", "z": "c8", "w": "c16", "b": "i1", "u": "u8", "s": "i2"}
    values = [value(name, kind) for name, kind in kinds.items()]
    knl = program(
        DeviceTarget(), module(source, *values, array("out", "f8", "9", "out")), monkeypatch
    )
    given = {"x": 0.5, "y": 1, "z": 2 - 3j, "w": 4 + 5j, "b": -7, "u": 2**53, "s": -300}
    expected = [0.5, 1, 2, -3, 4, 5, -7, 2**53, -300]
    np.testing.assert_array_equal(knl(opencl_queue, **given)[1][0].get(), expected)
    typed = {name: np.dtype(kinds[name]).type(number) for name, number in given.items()}
    np.testing.assert_array_equal(knl(opencl_queue, **typed)[1][0].get(), expected)
    assert "'s' is 32768" in refusal(knl, opencl_queue, **{**given, "s": 32768})
    assert "'x' is a real number" in refusal(knl, opencl_queue, **{**given, "x": "1"})


REVERSE = """
__kernel void f0(__global int const *a, int n, __global int *t)
{ t[get_global_id(0)] = a[get_global_id(0)] + 1; }
__kernel void f1(__global int const *t, int n, __global int *out)
{ out[get_global_id(0)] = t[n - 1 - get_global_id(0)]; }
"""


def reverse() -> Module:
    """Return ``out[i] = a[n-1-i] + 1``, by way of a temporary and two launches."""
    n = value("n").name
    grid = array("grid", "i4", n).shape or ()
    return module(
        REVERSE,
        array("a", "i4", "n"),
        value("n"),
        array("t", "i4", "n", "inout", is_temporary=True),
        array("out", "i4", "n", "out"),
        launches=(
            Launch("f0", ("a", "n", "t"), grid, (1,)),
            Launch("f1", ("t", "n", "out"), grid, (1,)),
        ),
    )


def test_temporaries_and_several_launches(
    opencl_queue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    knl = program(DeviceTarget(), reverse(), monkeypatch)
    a = np.arange(1000, dtype=np.int32)
    properties = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    for queue in (opencl_queue, cl.CommandQueue(opencl_queue.context, properties=properties)):
        given = cla.to_device(queue, a)
        for _ in range(20):
            _, (given,) = knl(queue, a=given)
        np.testing.assert_array_equal(given.get(), a + 20)


def test_launches_wait_for_their_arrays(opencl_queue: Any, knl: Any) -> None:
    context = opencl_queue.context
    gate = cl.UserEvent(context)
    first, second = (
        cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        for _ in range(2)
    )
    a = cla.to_device(first, A)
    evt1, (b,) = knl(first, a=a, wait_for=[gate])
    evt2, (c,) = knl(second, a=b)
    assert b.events == [evt1]
    assert c.events == [evt2]
    gate.set_status(cl.command_execution_status.COMPLETE)
    evt2.wait()
    assert evt1.profile.end <= evt2.profile.start
    np.testing.assert_array_equal(c.get(), 4 * A)


def test_events_do_not_gather(opencl_queue: Any, knl: Any, a: Any) -> None:
    out = cla.zeros_like(a)
    for _ in range(30):
        evt, _ = knl(opencl_queue, a=a, out=out)
    assert out.events == [evt]


def test_events_of_arrays_can_be_left_alone(
    opencl_queue: Any, a: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    knl = program(DeviceTarget(), twice({"a": F32}), monkeypatch, cl_exec_manage_array_events=False)
    _, (out,) = knl(opencl_queue, a=a)
    assert not out.events
    np.testing.assert_array_equal(knl(opencl_queue, a=A)[1][0], 2 * A)


def test_allocator(opencl_queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    pool = cl.tools.MemoryPool(cl.tools.ImmediateAllocator(opencl_queue))

    def allocate(n_bytes: int) -> Any:
        sizes.append(n_bytes)
        return pool(n_bytes)

    knl = program(DeviceTarget(), reverse(), monkeypatch)
    a = np.arange(5, dtype=np.int32)
    _, (out,) = knl(opencl_queue, a=cla.to_device(opencl_queue, a), allocator=allocate)
    assert out.allocator is allocate
    assert sizes == [20, 20]
    np.testing.assert_array_equal(knl(opencl_queue, a=a, allocator=allocate)[1][0], a[::-1] + 1)
    assert len(sizes) == 5


def test_argument_with_the_name_of_an_option(
    opencl_queue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = module("__kernel void f(int queue) { }", value("queue"))
    knl = program(DeviceTarget(), made, monkeypatch)
    assert "rename_argument(knl, 'queue'" in refusal(knl.executor(opencl_queue), opencl_queue)


def test_arguments_with_names_of_ours(opencl_queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "__kernel void f(int contract, int len, __global int *invoke) { *invoke = len; }"
    made = module(source, value("contract"), value("len"), array("invoke", "i4", "1", "inout"))
    knl = program(DeviceTarget(), made, monkeypatch)
    assert knl(opencl_queue, contract=1, len=4, invoke=np.ones(1, np.int32))[1][0][0] == 4


def test_code_that_does_not_compile(opencl_queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = module("__kernel void f(int n) { y = 1; }", value("n"))
    with pytest.raises(CompilationError) as caught:
        program(DeviceTarget(), made, monkeypatch)(opencl_queue, n=1)
    text = str(caught.value)
    assert "'y'" in text
    path = text[text.index("(/") + 1 : text.index(")")]
    assert Path(path).read_text() == made.device_source


def test_build_options(opencl_queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "__kernel void f(__global int *out) { out[0] = ANSWER; }"
    made = module(source, array("out", "i4", "1", "out"))
    knl = program(DeviceTarget(), made, monkeypatch, build_options=["-DANSWER=42"])
    assert knl(opencl_queue, out_host=True)[1][0][0] == 42


def test_groups_that_are_too_large(opencl_queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = module("__kernel void f(int n) { }", value("n"), groups="n", local=(2**20,))
    with pytest.raises(CodegenError, match=r"too large for the device(.|\n)*split the loops"):
        program(DeviceTarget(), made, monkeypatch)(opencl_queue, n=1)


def test_binary_is_stored_and_used(
    opencl_queue: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KGEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(programs, "keeps_compiled_code", lambda device: False)
    source = "__kernel void f(__global int *out) { out[0] = 5; }"
    made = module(source, array("out", "i4", "1", "out"))

    made_from: list[str] = []
    real_program = cl.Program

    def make_program(*args: Any) -> Any:
        made_from.append("source" if len(args) == 2 else "binary")
        return real_program(*args)

    monkeypatch.setattr(cl, "Program", make_program)

    def run() -> list[str]:
        made_from.clear()
        knl = program(DeviceTarget(), made, monkeypatch)
        assert knl(opencl_queue, out_host=True)[1][0][0] == 5
        return made_from

    assert run() == ["source"]
    assert run() == ["binary"]
    (entry,) = tmp_path.glob("*/*")
    DiskCache(tmp_path).store(entry.parent.name + entry.name, b"no binary")
    assert run() == ["binary", "source"]
    entry.write_bytes(entry.read_bytes()[:-100])
    assert run() == ["source"]
    assert run() == ["binary"]


def test_code_that_a_driver_keeps_is_not_stored_twice(
    opencl_queue: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KGEN_CACHE_DIR", str(tmp_path))
    source = "__kernel void f(__global int *out) { out[0] = 6; }"
    knl = program(DeviceTarget(), module(source, array("out", "i4", "1", "out")), monkeypatch)
    assert knl(opencl_queue, out_host=True)[1][0][0] == 6
    assert any(tmp_path.glob("*/*")) != programs.keeps_compiled_code(opencl_queue.device)


def test_a_context_of_pocl_stays_when_those_of_programs_are_gone(opencl_queue: Any) -> None:
    """PoCL would load its library anew for the first program of the next context."""
    (device,) = opencl_queue.context.devices
    programs._keep_library.cache_clear()
    for k in range(2):
        source = f"__kernel void f(__global int *out) {{ out[0] = {k}; }}"
        programs.load_program(DiskCache(), cl.Context([device]), source, (), "f")
    assert programs._keep_library.cache_info().currsize == programs.is_pocl(device)
    if programs.is_pocl(device):
        assert programs._keep_library(device).reference_count == 1


def test_program_lets_contexts_go(opencl_queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    knl = program(DeviceTarget(), twice, monkeypatch, untyped=("a", "out"))
    executor = weakref.ref(knl.executor(cl.Context([opencl_queue.device])))
    for _ in range(20):
        knl.executor(cl.Context([opencl_queue.device]))
    gc.collect()
    assert executor() is None


def test_threads_with_queues_of_their_own(knl: Any, opencl_queue: Any) -> None:
    wrong: list[Any] = []

    def work(number: int) -> None:
        queue = cl.CommandQueue(opencl_queue.context)
        dtype = (np.float32, np.int32)[number % 2]
        a = cla.to_device(queue, np.full(1000 + number, number, dtype))
        for _ in range(50):
            _, (out,) = knl(queue, a=a)
            if out.dtype != dtype or not (out.get() == 2 * number).all():
                wrong.append(out)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_numbers_keep_their_types_beside_numpy_arrays(opencl_queue: Any) -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", "out[i] = a[i] + s")
    for dtype in (np.int32, np.float32, np.int8):
        _, (out,) = knl(opencl_queue, a=np.ones(4, dtype), s=dtype(1))
        assert out.dtype == dtype


@pytest.mark.parametrize("events", [3, [3], "ab"])
def test_what_is_waited_for_is_a_list_of_events(events: Any, opencl_queue: Any) -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", "out[i] = 2*a[i]", name="double")
    event, _ = knl(opencl_queue, a=np.ones(4, np.float32), wait_for=())
    with pytest.raises(lp.InvocationError, match=r"'double': wait_for is .* not a list of events"):
        knl(opencl_queue, a=np.ones(4, np.float32), wait_for=events)
    knl(opencl_queue, a=np.ones(4, np.float32), wait_for=[event])


def test_an_allocator_is_a_function(opencl_queue: Any) -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", "out[i] = 2*a[i]")
    with pytest.raises(lp.InvocationError, match="the allocator is 3, which cannot be called"):
        knl(opencl_queue, a=np.ones(4, np.float32), allocator=3)


def test_a_queue_is_passed_once_by_position_or_by_name(opencl_queue: Any) -> None:
    executor = lp.make_kernel("{ [i]: 0 <= i < 4 }", "out[i] = 2*a[i]").executor(opencl_queue)
    for queue in (opencl_queue, 5) * 2:
        with pytest.raises(lp.InvocationError, match="'queue' is passed by position and by name"):
            executor(opencl_queue, queue=queue, a=A[:4])
        _, (out,) = executor(queue=opencl_queue, a=A[:4])
        np.testing.assert_array_equal(out, 2 * A[:4])


@pytest.mark.parametrize("wrong", ["x", "", 0, 1, [], A, object()])
def test_where_results_go_is_a_truth_value(wrong: Any, opencl_queue: Any, a: Any) -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", "out[i] = 2*a[i]")
    for given in (A[:4], a[:4]) * 2:
        with pytest.raises(lp.InvocationError, match=r"out_host is .* neither a truth value"):
            knl(opencl_queue, a=given, out_host=wrong)
        assert isinstance(knl(opencl_queue, a=given, out_host=np.bool_(1))[1][0], np.ndarray)
        assert isinstance(knl(opencl_queue, a=given, out_host=False)[1][0], cla.Array)


@pytest.mark.parametrize("value", [3 + 0j, np.complex64(3)])
def test_a_complex_size_is_never_declared_complex(value: Any, opencl_queue: Any) -> None:
    data = [lp.GlobalArg("out", np.float32, shape="n"), lp.ValueArg("n, k", np.int32)]
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = k", data)
    with pytest.raises(lp.InvocationError, match=r"hint: pass a part of it, .*int\(n\.real\)$"):
        knl(opencl_queue, n=value, k=2)
    with pytest.raises(lp.InvocationError, match=r"int\(k\.real\), or declare .*'k', numpy.compl"):
        knl(opencl_queue, n=3, k=value)


def test_an_output_with_a_negative_stride_is_passed_not_allocated(opencl_queue: Any) -> None:
    args = [lp.GlobalArg("a", np.float32, shape=8), lp.GlobalArg("out", shape=8, strides=(-1,))]
    knl = lp.make_kernel("{ [i]: 0 <= i < 8 }", "out[i] = 2*a[i]", args)
    a, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)[::-1]
    with pytest.raises(lp.InvocationError, match="a stride of 'out' is negative"):
        knl(opencl_queue, a=a)
    knl(opencl_queue, a=a, out=out)
    np.testing.assert_array_equal(out, 2 * a)
