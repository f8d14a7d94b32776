"""Code trees as C text: control flow, declarations, signatures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest
from pymbolic import parse

import kgen as lp
from kgen.ast.nodes import Block, Comment, DeviceFunction, For, If, Let, Node, Run
from kgen.errors import CodegenError
from kgen.ir.expr import GroupHardwareAxisIndex, LocalHardwareAxisIndex
from kgen.ir.instruction import UseStreamingStoreTag
from kgen.ir.kernel import LoopKernel
from kgen.ir.stages import DeviceKernel, PreparedKernel
from kgen.ir.tree import Barrier
from kgen.ir.types import INT32, INT64, Memory
from kgen.lowering import prepare
from kgen.targets.builder import CFamilyTarget
from kgen.targets.c import CTarget
from kgen.targets.cuda import CudaTarget
from kgen.targets.module import Module
from kgen.targets.opencl import OpenCLTarget
from kgen.targets.preamble import PreambleInfo
from kgen.targets.writers.emit import emit_module
from tests.targets.support import body_of, compile_c

F4 = np.float32


def kernel(
    instructions: Any,
    *temporaries: Any,
    target: CFamilyTarget | None = None,
    domain: str = "{ [i]: 0 <= i < n }",
    **options: Any,
) -> LoopKernel:
    """Return a prepared kernel that reads a and writes out."""
    args = [lp.GlobalArg("a", F4, shape="n"), lp.GlobalArg("out", F4, shape="n")]
    unit = lp.make_kernel(
        domain,
        instructions,
        [*args, *temporaries, ...],
        name="k",
        target=target or CTarget(),
        **options,
    )
    return prepare(unit.default_entrypoint)


def emit(
    knl: LoopKernel,
    body: Node,
    *,
    arguments: Sequence[str] = ("a", "out", "n"),
    groups: tuple[Any, ...] = (),
    locals: tuple[int, ...] = (),
) -> Module:
    function = DeviceFunction(
        "k",
        body,
        groups,
        locals,
        tuple(arguments),
        tuple(sorted(set(knl.temporary_variables) - set(arguments))),
        tuple(knl.id_to_insn),
    )
    device = DeviceKernel(PreparedKernel(knl))
    return emit_module(device, (function,), Run(function.name, {}), knl.assumptions)


def lines(knl: LoopKernel, body: Node) -> list[str]:
    return body_of(emit(knl, body).device_source)


def loop(body: Node, **changes: Any) -> For:
    options: dict[str, Any] = {"first": 0, "stop": p.Variable("n"), "step": 1} | changes
    return For("i", options.pop("dtype", INT32), body=body, **options)


def run(name: str, **values: Any) -> Run:
    return Run(name, values)


COPY = "out[i] = a[i] {id=copy}"
LID = LocalHardwareAxisIndex(0)


def test_loops() -> None:
    assert lines(kernel(COPY), loop(run("copy"))) == [
        "for (int i = 0; i < n; ++i)",
        "  out[i] = a[i];",
    ]
    stepped = loop(run("copy"), first=3, stop=parse("n - 1"), step=4, comment="every fourth")
    assert lines(kernel(COPY), stepped) == [
        "// every fourth",
        "for (int i = 3; i < n - 1; i += 4)",
        "  out[i] = a[i];",
    ]


def test_loops_are_annotated_if_options_ask_for_it() -> None:
    knl = kernel(COPY, options={"annotate_inames": True})
    assert lines(knl, loop(run("copy")))[0] == "// loop over 'i'"
    assert lines(knl, If(parse("n > 3"), loop(run("copy")))) == [
        "if (n > 3)",
        "{",
        "  // loop over 'i'",
        "  for (int i = 0; i < n; ++i)",
        "    out[i] = a[i];",
        "}",
    ]


def test_long_loops() -> None:
    module = emit(kernel(COPY), loop(run("copy"), dtype=INT64))
    assert "#include <stdint.h>" in module.device_source
    assert "for (int64_t i = 0; i < n; ++i)" in module.device_source


def test_branches() -> None:
    inner = If(parse("i > 2"), run("copy"))
    branch = If(parse("n > 3"), inner, run("copy", i=0))
    assert lines(kernel(COPY), branch) == [
        "if (n > 3)",
        "{",
        "  if (i > 2)",
        "    out[i] = a[i];",
        "}",
        "else",
        "  out[0] = a[0];",
    ]


def test_alternatives_stand_on_the_line_of_their_else() -> None:
    last = If(parse("n > 2"), run("copy", i=1), run("copy", i=2))
    assert lines(kernel(COPY), If(parse("n > 3"), run("copy", i=0), last)) == [
        "if (n > 3)",
        "  out[0] = a[0];",
        "else if (n > 2)",
        "  out[1] = a[1];",
        "else",
        "  out[2] = a[2];",
    ]


def test_bounds_of_work_items_are_divided_as_in_c() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = a[i]", assumptions="n >= 0")
    knl = lp.split_iname(knl, "i", 256, inner_tag="l.0")
    knl = lp.split_iname(knl, "i_outer", 4096, inner_tag="g.0")
    first = lp.generate_body(lp.add_dtypes(knl, {"a": F4})).split("\n")[0]
    bound = "(n - 256 * gid(0) - lid(0) + 1048575) / 1048576"
    assert first.endswith(f"; i_outer_outer < {bound}; ++i_outer_outer)")


def test_names_end_with_the_block_that_defines_them() -> None:
    first = Let("i", INT32, parse("n - 1"), run("copy"))
    assert lines(kernel(COPY), Block((first, first))) == [
        "{",
        "  int const i = n - 1;",
        "  out[i] = a[i];",
        "}",
        "int const i = n - 1;",
        "out[i] = a[i];",
    ]
    assert lines(kernel(COPY), Comment("last", first))[0] == "// last"
    assert lines(kernel(COPY), Block((Block((run("copy", i=0), first)), first)))[0] == "{"


def test_values_of_loop_variables() -> None:
    value = p.Sum((p.Product((4, p.Variable("io"))), 3))
    assert lines(kernel("out[i] = 2*a[i + 0]*i {id=copy}"), run("copy", i=value)) == [
        "out[4 * io + 3] = 2.0f * a[4 * io + 3] * (4 * io + 3);"
    ]


def test_hardware_axes() -> None:
    i = p.Sum((p.Product((128, GroupHardwareAxisIndex(0))), LocalHardwareAxisIndex(0)))
    on_opencl = emit(kernel(COPY, target=OpenCLTarget()), run("copy", i=i), locals=(128,))
    assert on_opencl.device_source == (
        "#define lid(N) ((int) get_local_id(N))\n"
        "#define gid(N) ((int) get_group_id(N))\n"
        "\n"
        "__kernel void __attribute__ ((reqd_work_group_size(128, 1, 1))) k("
        "__global float const *__restrict__ a, __global float *__restrict__ out, int const n)\n"
        "{\n"
        "  out[128 * gid(0) + lid(0)] = a[128 * gid(0) + lid(0)];\n"
        "}"
    )
    on_cuda = emit(kernel(COPY, target=CudaTarget()), run("copy", i=i), locals=(128, 2))
    assert on_cuda.device_source == (
        "#define lid(AXIS) ((int) threadIdx.AXIS)\n"
        "#define gid(AXIS) ((int) blockIdx.AXIS)\n"
        "\n"
        'extern "C" __global__ void __launch_bounds__(256) k('
        "float const *__restrict__ a, float *__restrict__ out, int const n)\n"
        "{\n"
        "  out[128 * gid(x) + lid(x)] = a[128 * gid(x) + lid(x)];\n"
        "}"
    )
    assert "extern" not in emit(kernel(COPY, target=CudaTarget(False)), run("copy")).device_source


def test_a_fourth_axis_is_an_error() -> None:
    with pytest.raises(CodegenError, match=r"in kernel 'k': there is no hardware axis '[gl]\.3'"):
        emit(kernel(COPY, target=CudaTarget()), run("copy", i=LocalHardwareAxisIndex(3)))


def test_barriers() -> None:
    barrier = Barrier(Memory.LOCAL, "for t (b depends on a)")
    tree = Block((run("copy", i=0), barrier))
    assert lines(kernel(COPY, target=OpenCLTarget()), tree)[1] == (
        "barrier(CLK_LOCAL_MEM_FENCE);  // for t (b depends on a)"
    )
    assert lines(kernel(COPY, target=CudaTarget()), tree)[1].startswith("__syncthreads();")
    with pytest.raises(CodegenError, match="no work-items that could wait"):
        emit(kernel(COPY), tree)


# -- declarations -----------------------------------------------------------------------------

TWO = "<>t = a[i] {id=first}\nout[i] = t*t {id=second}"


def test_a_scalar_is_declared_where_it_is_assigned() -> None:
    tree = loop(Block((run("first"), run("second"))))
    assert lines(kernel(TWO), tree) == [
        "for (int i = 0; i < n; ++i)",
        "{",
        "  float const t = a[i];",
        "  out[i] = t * t;",
        "}",
    ]


def test_a_scalar_that_is_assigned_twice_is_not_constant() -> None:
    tree = loop(Block((run("first"), run("second"), run("first"), run("second"))))
    assert lines(kernel(TWO), tree)[2:5] == [
        "  float t = a[i];",
        "  out[i] = t * t;",
        "  t = a[i];",
    ]


def test_a_scalar_that_is_used_in_two_places_is_declared_around_both() -> None:
    condition = parse("n > 3")
    tree = Block((If(condition, run("first", i=0)), If(condition, run("second", i=0))))
    assert lines(kernel(TWO), tree) == [
        "float t;",
        "",
        "if (n > 3)",
        "  t = a[0];",
        "if (n > 3)",
        "  out[0] = t * t;",
    ]


def test_a_scalar_that_is_read_first_is_declared_at_the_top() -> None:
    tree = loop(Block((run("second"), run("first"))))
    assert lines(kernel(TWO), tree)[0] == "float t;"


def test_an_accumulator_lives_around_its_loop() -> None:
    text = """
        <>t = a[n - 1] {id=init}
        t = t + a[i] {id=update,dep=init}
        out[i] = t {id=store,dep=update}
    """
    tree = Block((run("init"), loop(run("update")), run("store")))
    assert lines(kernel(text, assumptions="n >= 1"), tree) == [
        "float t = a[n - 1];",
        "for (int i = 0; i < n; ++i)",
        "  t += a[i];",
        "out[i] = t;",
    ]


def test_conditions_that_read_a_scalar_are_uses_of_it() -> None:
    branch = If(parse("t > 0"), run("second"), reads_data=True)
    tree = loop(Block((If(parse("i > 0"), run("first")), branch)))
    assert lines(kernel(TWO), tree)[0] == "float t;"


def test_arrays_and_shared_scalars_stand_at_the_top() -> None:
    private = lp.TemporaryVariable("p", F4, shape=(4, 3), address_space=lp.AddressSpace.PRIVATE)
    local = lp.TemporaryVariable("s", F4, shape=(), address_space=lp.AddressSpace.LOCAL)
    text = "p[0, 1] = a[i] {id=first}\ns = p[0, 1] {id=second,dep=first}"
    tree = Block((run("first"), run("second")))
    assert lines(kernel(text, private, local, target=OpenCLTarget()), tree) == [
        "float p[12];",
        "__local float s;",
        "",
        "p[1] = a[i];",
        "s = p[1];",
    ]


def test_temporaries_of_unknown_size_are_an_error() -> None:
    private = lp.TemporaryVariable("p", F4, shape="n", address_space=lp.AddressSpace.PRIVATE)
    with pytest.raises(CodegenError, match="size of private temporary 'p' is not a constant"):
        emit(kernel("p[i] = a[i] {id=first}", private, target=OpenCLTarget()), run("first"))


def test_tables() -> None:
    table = lp.TemporaryVariable(
        "w",
        initializer=np.array([[1, 2], [3, 4.5]], F4),
        read_only=True,
        order="F",
        address_space=lp.AddressSpace.PRIVATE,
    )
    text = "out[i] = w[i, 1]*a[i] {id=first}"
    values = "w[4] = {1.0f, 3.0f, 2.0f, 4.5f};"
    for target, words in (
        (CTarget(), "static float const"),
        (OpenCLTarget(), "__constant float const"),
        (CudaTarget(), "static __constant__ float const"),
    ):
        knl = kernel(text, table, target=target, domain="{ [i]: 0 <= i < 2 }", assumptions="n >= 2")
        tree = loop(run("first"), stop=2)
        source = emit(knl, tree, arguments=("a", "out")).device_source
        assert f"{words} {values}" in source
        assert "out[i] = w[i + 2] * a[i];" in source


# -- statements -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("out[i] = out[i] + a[i]", "out[i] += a[i];"),
        ("out[i] = out[i] - 2*a[i]", "out[i] -= 2.0f * a[i];"),
        ("out[i] = out[i]*a[i]", "out[i] *= a[i];"),
        ("out[i] = a[i] + out[i]", "out[i] = a[i] + out[i];"),
        # another order of operations would round differently
        ("out[i] = out[i] + a[i] + a[0]", "out[i] = out[i] + a[i] + a[0];"),
        ("out[i] = out[i - 1] + a[i]", "out[i] = out[i - 1] + a[i];"),
    ],
)
def test_updates(text: str, expected: str) -> None:
    knl = kernel(text + " {id=s}", domain="{ [i]: 1 <= i < n }")
    assert lines(knl, run("s"))[-1] == expected


def test_updates_of_complex_numbers_call_functions_in_opencl() -> None:
    z = lp.GlobalArg("z", np.complex64, shape="n")
    knl = kernel("z[i] = z[i] + a[i] {id=s}", z, target=OpenCLTarget())
    assert lines(knl, run("s")) == ["z[i] = cfloat_addr(z[i], a[i]);"]


def test_snippets_stand_in_braces() -> None:
    insn = lp.CInstruction(
        ["i", ("j", "2*i")], "if (j > 3)\n  out[i] = a[j];", "a", "out[i]", id="s"
    )
    assert lines(kernel([insn]), run("s", i=p.Sum((p.Variable("io"), 1)))) == [
        "{",
        "  int const i = io + 1;",
        "  int const j = 2 * (io + 1);",
        "  if (j > 3)",
        "    out[i] = a[j];",
        "}",
    ]


def test_streaming_stores_where_the_target_has_them() -> None:
    def stored(target: CFamilyTarget) -> str:
        knl = kernel("out[i] = a[i] {id=s}", target=target)
        (insn,) = knl.instructions
        knl = knl.copy(instructions=(insn.copy(tags=frozenset({UseStreamingStoreTag()})),))
        return lines(knl, run("s"))[0]

    assert stored(CudaTarget()) == "__stcs(&out[i], a[i]);"
    assert stored(CTarget()) == "out[i] = a[i];"


def test_traces_print_what_was_assigned() -> None:
    knl = kernel("out[i] = a[i] {id=s}", options={"trace_assignment_values": True})
    source = emit(knl, loop(run("s"))).device_source
    assert source.startswith("#include <stdio.h>\n")
    assert 'printf("k.s: i=%ld out[i]=%.9g\\n", (long) i, out[i]);' in source
    z = lp.GlobalArg("z", np.complex64, shape="n")
    knl = kernel("z[i] = a[i] {id=s}", z, options={"trace_assignment_values": True})
    assert "creal" in emit(knl, run("s"), arguments=("a", "z", "n")).device_source
    knl = kernel("out[i] = a[i] {id=s}", options={"trace_assignments": True})
    assert 'printf("k.s: i=%ld\\n", (long) i);' in emit(knl, run("s")).device_source


# -- signatures -------------------------------------------------------------------------------


def test_arrays_that_are_only_read_point_to_constants() -> None:
    module = emit(kernel(COPY, options={"restrict": False}), run("copy"))
    assert module.declarations == "void k(float const *a, float *out, int const n);"


def test_constant_arguments() -> None:
    table = lp.ConstantArg("c", F4, shape="n")
    knl = kernel("out[i] = c[i] {id=s}", table, target=OpenCLTarget())
    text = emit(knl, run("s"), arguments=("out", "c")).declarations
    assert text.endswith("__constant float const *__restrict__ c);")


def test_the_argument_table() -> None:
    scratch = lp.TemporaryVariable("g", F4, shape="n", address_space=lp.AddressSpace.GLOBAL)
    knl = kernel("g[i] = a[i] {id=x}\nout[i] = g[i] {id=y,dep=x}", scratch)
    module = emit(knl, Block((run("x"), run("y"))), arguments=("a", "out", "n", "g"))
    rows = [(row.name, row.is_array, row.is_input, row.is_output) for row in module.arguments]
    assert rows == [
        ("a", True, True, False),
        ("out", True, False, True),
        ("n", False, True, False),
        ("g", True, False, False),
    ]
    assert [row.is_temporary for row in module.arguments] == [False, False, False, True]
    assert module.arguments[0].strides == (1,)
    assert module.launches[0].parameters == ("a", "out", "n", "g")


def test_several_functions_get_a_host_function_in_c() -> None:
    knl = kernel("out[i] = a[i] {id=x}\nout[i] = 2*out[i] {id=y,dep=x}")

    def function(name: str, insn: str) -> DeviceFunction:
        return DeviceFunction(name, loop(run(insn)), (), (), ("a", "out", "n"), (), (insn,))

    host = Block((Run("k", {}), Run("k_0", {})))
    device = DeviceKernel(PreparedKernel(knl))
    functions = (function("k", "x"), function("k_0", "y"))
    module = emit_module(device, functions, host, knl.assumptions)
    assert module.host_source.split("\n") == [
        "void k_all(float const *__restrict__ a, float *__restrict__ out, int const n)",
        "{",
        "  k(a, out, n);",
        "  k_0(a, out, n);",
        "}",
    ]
    (launch,) = module.launches
    assert (launch.function, launch.parameters) == ("k_all", ("a", "out", "n"))


def test_preambles_come_first_and_in_order() -> None:
    knl = kernel(COPY, preambles=[("20_b", "int two;"), ("10_a", "#define ONE 1")])
    source = emit(knl, run("copy")).device_source
    assert source.startswith("#define ONE 1\nint two;\n\nvoid k(")


def test_preamble_generators_are_told_what_the_code_uses() -> None:
    def generate(info: PreambleInfo) -> Any:
        names = sorted(function.c_name for function in info.seen_functions)
        types = sorted(str(dtype.dtype) for dtype in info.seen_dtypes)
        yield "1", f"// {info.kernel.name}: {names} {types}"

    knl = kernel("out[i] = sin(a[i]) {id=s}", preamble_generators=[generate])
    source = emit(knl, run("s")).device_source
    assert "// k: ['sinf'] ['float32', 'int32']\n" in source


def test_preamble_generators_are_told_of_results_and_of_atomic_types() -> None:
    def generate(info: PreambleInfo) -> Any:
        results = {one.name: str(*one.result_dtypes) for one in info.seen_functions}
        yield "1", f"// {results} {[str(dtype) for dtype in info.seen_atomic_dtypes]}"

    data = [lp.GlobalArg("a", F4, shape=4), lp.GlobalArg("s", F4, shape=4, for_atomic=True)]
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 4 }",
        "s[i] = s[i] + isnan(a[i]) {atomic}",
        data,
        target=OpenCLTarget(),
        preamble_generators=[generate],
    )
    source = lp.generate_code_v2(knl).device_code()
    assert "// {'isnan': \"np:dtype('int32')\"} [\"atomic:dtype('float32')\"]" in source


def test_a_guard_does_not_trust_the_domain_that_it_checks() -> None:
    text = "{ [z] : exists (e0: -3 <= e0 <= 0 and 16*e0 >= -z and 20*e0 <= 3 - z) }"
    data = [lp.GlobalArg("a", "float32", shape=100), "..."]
    knl = lp.make_kernel(text, "a[z] = 1", data, target=lp.ExecutableCTarget())
    expected = {z for e in range(-3, 1) for z in range(-16 * e, 4 - 20 * e)}
    guarded = np.zeros(300, np.float32)
    knl(a=guarded[100:200])
    assert set(np.nonzero(guarded)[0] - 100) == expected


@pytest.mark.parametrize(
    ("condition", "texts"),
    [
        ("a == 0", ["0.0f", "x[n + i]"]),
        ("a == 0 and i > 2", ["i > 2 ? 0.0f : x[i]", "x[n + i]"]),
        ("a == 0 or i > 2", ["0.0f", "i > 2 ? 0.0f : x[n + i]"]),
        ("not (2*a + 1 >= abs(-3)) or x[a, i] > 0", ["0.0f", "x[n + i] > 0.0f ? 0.0f : x[n + i]"]),
    ],
)
def test_conditions_that_unrolling_decides_are_not_written(
    condition: str, texts: list[str]
) -> None:
    data = [lp.GlobalArg("x, y", F4, shape="2, n"), ...]
    domain = "{ [i, a]: 0 <= i < n and 0 <= a < 2 }"
    unit = lp.make_kernel(
        domain, f"y[a, i] = if({condition}, 0, x[a, i])", data, target=CTarget(), assumptions="n<9"
    )
    body = lp.generate_body(lp.tag_inames(unit, "a:unr"))
    assert f"y[i] = {texts[0]};" in body
    assert f"y[n + i] = {texts[1]};" in body


@pytest.mark.parametrize("condition", ["i + 5 > 0 or a[i] > 0", "not (i + 5 < 0 and a[i] > 0)"])
def test_conditions_of_statements_that_bounds_decide_are_not_written(condition: str) -> None:
    data = [lp.GlobalArg("a, out", F4, shape=8), ...]
    text = f"out[i] = 1 {{if={condition}}}"
    unit = lp.make_kernel("{ [i]: 0 <= i < 8 }", text, data, target=lp.CudaTarget())
    assert lp.generate_body(lp.tag_inames(unit, "i:l.0")) == "  out[lid(x)] = 1.0f;"


def test_sums_of_whole_numbers_alone_are_written_in_a_real_variable() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "<float32> t = -1*4 + (-1*3)\nout[i] = t")
    out = knl.copy(target=lp.ExecutableCTarget())(n=3)[1][0]
    assert out.tolist() == [-7, -7, -7]


NESTED_ELSE = If(parse("n > 5"), run("copy"), run("copy"))


@pytest.mark.parametrize("body", [NESTED_ELSE, loop(NESTED_ELSE)])
def test_braces_say_which_if_an_else_is_of(body: Node, tmp_path: Path) -> None:
    knl = kernel("out[0] = a[0] {id=copy}", assumptions="n >= 1")
    source = emit(knl, If(parse("n > 3"), body)).device_source
    assert "if (n > 3)\n  {" in source
    compile_c(source, tmp_path)  # without a warning


def exchange(memory: Memory, **options: Any) -> str:
    """Write, let the work-items wait, and read."""
    insns = "out[i] = a[i] {id=copy}\na[i] = out[n - 1 - i] {id=back}"
    knl = kernel(insns, seq_dependencies=True, target=OpenCLTarget(), **options)
    body = Block((run("copy", i=LID), Barrier(memory, ""), run("back", i=LID)))
    return emit(knl, body, locals=(32,)).declarations


def test_arrays_that_barriers_make_consistent_are_not_restrict() -> None:
    assert exchange(Memory.LOCAL).count("restrict") == 2
    for memory in (Memory.GLOBAL, Memory.GLOBAL | Memory.LOCAL):
        assert "restrict" not in exchange(memory)


def test_arrays_that_are_only_read_stay_restrict_around_barriers() -> None:
    knl = kernel(COPY, target=OpenCLTarget())
    body = Block((Barrier(Memory.GLOBAL, ""), run("copy", i=LID)))
    text = emit(knl, body, locals=(32,)).declarations
    assert "float const *__restrict__ a, __global float *out" in text
