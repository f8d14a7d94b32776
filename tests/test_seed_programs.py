"""The programs of loopy's tutorial, with only the import changed.

Section by section up to 'Type inference for temporaries', then the notebook 'Transforming a PDE
to code'. Results are checked; the text of generated code is not compared, since it may differ.
"""

# The programs are as they are:
# ruff: noqa: C408, NPY002, RUF059

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest
from pymbolic.mapper import IdentityMapper

import kgen as lp
import kgen.compat.loopy.options
from kgen.compat.loopy.diagnostic import DirectCallUncachedWarning

# filterwarnings('error', category=...) and filterwarnings('ignore', category=...)
pytestmark = [
    pytest.mark.filterwarnings("error::kgen.KgenWarning"),
    pytest.mark.filterwarnings("ignore::kgen.compat.loopy.diagnostic.DirectCallUncachedWarning"),
]

# The documentation passes declarations and names as it likes: the programs are untyped.
TUnit = Any


@pytest.fixture(autouse=True)
def preparation(monkeypatch: pytest.MonkeyPatch) -> Any:
    # The program assigns to it; nothing here depends on it, since only terminals see colours.
    monkeypatch.setattr(kgen.compat.loopy.options, "ALLOW_TERMINAL_COLORS", False, raising=False)
    lp.set_caching_enabled(False)
    yield
    lp.set_caching_enabled(True)


@dataclass(frozen=True)
class Data:
    """What the preparation makes: vectors and matrices on the device, vectors on the host."""

    queue: Any
    x_vec_dev: Any
    a_mat_dev: Any
    x_vec_host: Any


@pytest.fixture(scope="module")
def data(opencl_queue: Any) -> Data:
    clrandom = pytest.importorskip("pyopencl.clrandom")
    n = 16 * 16
    return Data(
        opencl_queue,
        x_vec_dev=clrandom.rand(opencl_queue, n, dtype=np.float32),
        a_mat_dev=clrandom.rand(opencl_queue, (n, n), dtype=np.float32),
        x_vec_host=np.random.randn(n).astype(np.float32),
    )


def make_doubling() -> TUnit:
    return lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]")


def make_fill(assumptions: str) -> TUnit:
    return lp.make_kernel("{ [i]: 0<=i<n }", "a[i] = 0", assumptions=assumptions)


def run_fill(knl: TUnit, data: Data, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a vector fill, check it, and return the code that it prints."""
    knl = lp.set_options(knl, write_code=True)
    x_vec_dev = data.x_vec_dev.copy()
    evt, (out,) = knl(data.queue, a=x_vec_dev)
    assert (out.get() == 0).all()
    assert (x_vec_dev.get() == 0).all()
    return capsys.readouterr().out


# -- Getting started ----------------------------------------------------------------------


def test_printing_a_kernel() -> None:
    knl = lp.set_options(make_doubling(), allow_terminal_colors=False)
    lines = str(knl).splitlines()
    sections = ["ARGUMENTS:", "DOMAINS:", "INAME TAGS:", "INSTRUCTIONS:"]
    assert [line for line in lines if line in sections] == sections
    assert "[n] -> { [i] : 0 <= i < n }" in lines
    assert lines[-4:-1] == ["for i", "  out[i] = 2*a[i]  {id=insn}", "end i"]


def test_running_on_device_arrays(data: Data) -> None:
    knl = make_doubling()
    evt, (out,) = knl(data.queue, a=data.x_vec_dev)
    assert (out.get() == (2 * data.x_vec_dev).get()).all()


def test_writing_the_code(data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    knl = lp.set_options(make_doubling(), write_code=True)
    evt, (out,) = knl(data.queue, a=data.x_vec_dev)
    assert "__kernel" in capsys.readouterr().out
    assert (out.get() == (2 * data.x_vec_dev).get()).all()


def test_running_on_numpy_arrays(data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    knl = lp.set_options(lp.set_options(make_doubling(), write_code=True), write_code=False)
    evt, (out,) = knl(data.queue, a=data.x_vec_host)
    assert isinstance(out, np.ndarray)
    assert (out == (2 * data.x_vec_host)).all()
    assert capsys.readouterr().out == ""


def test_writing_the_wrapper(data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    knl = lp.set_options(make_doubling(), write_wrapper=True, write_code=False)
    evt, (out,) = knl(data.queue, a=data.x_vec_host)
    assert "def " in capsys.readouterr().out
    assert (out == (2 * data.x_vec_host)).all()


def test_build_options(data: Data) -> None:
    knl = lp.set_options(make_doubling(), build_options=["-cl-mad-enable"])
    evt, (out,) = knl(data.queue, a=data.x_vec_host)
    assert (out == (2 * data.x_vec_host)).all()


def test_generating_code() -> None:
    typed_knl = lp.add_dtypes(make_doubling(), dict(a=np.float32))
    code = lp.generate_code_v2(typed_knl).device_code()
    header = str(lp.generate_header(typed_knl)[0])
    assert header.rstrip().rstrip(";") in code
    assert "float const" in header


# -- Ordering ------------------------------------------------------------------------------


def run_transpose(knl: TUnit, data: Data) -> Any:
    """Run a kernel that shall transpose and double; return the result and what is wanted."""
    knl = lp.set_options(knl, write_code=True)
    evt, (out,) = knl(data.queue, a=data.a_mat_dev)
    return out.get(), data.a_mat_dev.get().T * 2


def test_dependencies_are_shown() -> None:
    knl = lp.make_kernel(
        "{ [i,j]: 0<=i,j<n }",
        """
        out[j,i] = a[i,j] {id=transpose}
        out[i,j] = 2*out[i,j]  {dep=transpose}
        """,
        [lp.GlobalArg("out", shape=lp.auto, is_input=False), ...],
        name="transpose_and_dbl",
    )
    text = knl["transpose_and_dbl"].stringify(with_dependencies=True)
    assert "insn : transpose" in text.splitlines()
    assert "insn : transpose" not in str(knl["transpose_and_dbl"]).splitlines()


def test_dependency_inside_shared_loops_is_not_what_was_wanted(data: Data) -> None:
    knl = lp.make_kernel(
        "{ [i,j]: 0<=i,j<n }",
        """
        out[j,i] = a[i,j] {id=transpose}
        out[i,j] = 2*out[i,j]  {dep=transpose}
        """,
        [lp.GlobalArg("out", shape=lp.auto, is_input=False), ...],
    )
    with pytest.warns(lp.KgenWarning, match=r"'out\[i, j\]' is read where nothing"):
        out, wanted = run_transpose(lp.prioritize_loops(knl, "i,j"), data)
    assert not (out == wanted).all()


def test_loops_of_their_own(data: Data) -> None:
    knl = lp.make_kernel(
        "{ [i,j,ii,jj]: 0<=i,j,ii,jj<n }",
        """
        out[j,i] = a[i,j] {id=transpose}
        out[ii,jj] = 2*out[ii,jj]  {dep=transpose}
        """,
        [lp.GlobalArg("out", shape=lp.auto, is_input=False), ...],
    )
    knl = lp.prioritize_loops(knl, "i,j")
    knl = lp.prioritize_loops(knl, "ii,jj")
    out, wanted = run_transpose(knl, data)
    assert (out == wanted).all()


def test_nesting_by_priority(data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    knl = lp.make_kernel(
        "{ [i,j]: 0<=i,j<n }",
        """
        a[i,j] = 0
        """,
    )
    knl = lp.prioritize_loops(knl, "j,i")
    knl = lp.set_options(knl, write_code=True)
    a_mat_dev = data.a_mat_dev.copy()
    evt, (out,) = knl(data.queue, a=a_mat_dev)
    code = capsys.readouterr().out
    assert code.index("int j") < code.index("int i")
    assert (a_mat_dev.get() == 0).all()


# -- Transformations -----------------------------------------------------------------------


def test_splitting(data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    knl = lp.split_iname(make_fill("n>=1"), "i", 16)
    knl = lp.prioritize_loops(knl, "i_outer,i_inner")
    code = run_fill(knl, data, capsys)
    assert code.index("int i_outer") < code.index("int i_inner")


def test_splitting_with_the_inner_loop_outside(
    data: Data, capsys: pytest.CaptureFixture[str]
) -> None:
    knl = lp.split_iname(make_fill("n>=1"), "i", 16)
    knl = lp.prioritize_loops(knl, "i_inner,i_outer")
    code = run_fill(knl, data, capsys)
    assert code.index("int i_inner") < code.index("int i_outer")


def test_tiling(data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    knl = lp.make_kernel(
        "{ [i,j]: 0<=i,j<n }", "out[i,j] = a[j,i]", assumptions="n mod 16 = 0 and n >= 1"
    )
    knl = lp.split_iname(knl, "i", 16)
    knl = lp.split_iname(knl, "j", 16)
    knl = lp.prioritize_loops(knl, "i_outer,j_outer,i_inner,j_inner")
    knl = lp.set_options(knl, write_code=True)
    evt, (out,) = knl(data.queue, a=data.a_mat_dev)
    assert (out.get() == data.a_mat_dev.get().T).all()
    assert "if" not in capsys.readouterr().out


def test_unrolling(data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    knl = lp.split_iname(make_fill("n>=0 and n mod 4 = 0"), "i", 4)
    knl = lp.tag_inames(knl, dict(i_inner="unr"))
    knl = lp.prioritize_loops(knl, "i_outer,i_inner")
    code = run_fill(knl, data, capsys)
    assert (code.count("a["), code.count("if")) == (4, 0)


def test_split_and_tag_shows_in_the_printed_kernel() -> None:
    knl = lp.split_iname(make_fill("n>=0 and n mod 4 = 0"), "i", 4, inner_tag="unr")
    lines = str(knl).splitlines()
    assert lines[lines.index("INAME TAGS:") + 1 :][:2] == ["i_inner: unr", "i_outer: None"]


def test_parallelization(data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    knl = lp.split_iname(make_fill("n>=0"), "i", 128, outer_tag="g.0", inner_tag="l.0")
    assert "reqd_work_group_size(128, 1, 1)" in run_fill(knl, data, capsys)
    glob, loc = knl[knl.default_entrypoint.name].get_grid_size_upper_bounds(knl.callables_table)
    assert str(glob) == '(PwAff("[n] -> { [(floor((127 + n)/128))] }"),)'
    assert str(loc) == '(PwAff("[n] -> { [(128)] }"),)'


def test_unrolling_with_conditionals(data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    knl = lp.split_iname(make_fill("n>=0"), "i", 4)
    knl = lp.tag_inames(knl, dict(i_inner="unr"))
    knl = lp.prioritize_loops(knl, "i_outer,i_inner")
    assert "if" in run_fill(knl, data, capsys)


def test_slabs(data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    knl = lp.split_iname(make_fill("n>=0"), "i", 4, slabs=(0, 1), inner_tag="unr")
    knl = lp.prioritize_loops(knl, "i_outer,i_inner")
    code = run_fill(knl, data, capsys)
    loop = code[code.index("for") :]
    assert "if" not in loop[: loop.index("}")]


# -- Temporaries ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "instructions",
    [
        """
        <float32> a_temp = sin(a[i])
        out1[i] = a_temp {id=out1}
        out2[i] = sqrt(1-a_temp*a_temp) {dep=out1}
        """,
        """
        <> a_temp = sin(a[i])
        out1[i] = a_temp
        out2[i] = sqrt(1-a_temp*a_temp)
        """,
    ],
    ids=["explicit", "inferred"],
)
def test_temporary(instructions: str, data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<n }", instructions)
    knl = lp.set_options(knl, write_code=True)
    evt, (out1, out2) = knl(data.queue, a=data.x_vec_dev)
    assert capsys.readouterr().out.count("a_temp =") == 1
    sine = np.sin(data.x_vec_dev.get())
    np.testing.assert_allclose(out1.get(), sine, rtol=1e-6)
    np.testing.assert_allclose(out2.get(), np.sqrt(1 - sine * sine), rtol=1e-5)
    assert out2.dtype == np.float32


def test_shape_without_a_single_answer() -> None:
    text = "out[i] = 5\nout[0] = 6"
    with pytest.raises(lp.StaticValueFindingError, match="axis 0 of argument 'out'"):
        lp.make_kernel("{ [i]: 0<=i<n }", text)
    knl = lp.make_kernel("{ [i]: 0<=i<n }", text, assumptions="n>=1")
    out = knl.default_entrypoint.arg_dict["out"]
    assert isinstance(out, lp.ArrayArg)
    assert [str(extent) for extent in out.shape] == ["n"]


def test_direct_call_warning_is_a_warning_of_ours() -> None:
    assert issubclass(DirectCallUncachedWarning, lp.KgenWarning)


# -- From a PDE to code --------------------------------------------------------------------


@p.expr_dataclass()
class Laplacian(p.ExpressionNode):
    """The notebook's operator, as today's pymbolic has nodes declared."""

    child: p.ExpressionNode


i, j = p.Variable("i"), p.Variable("j")
ii, jj = i + 1, j + 1


class FDMapper(IdentityMapper[[]]):
    """The notebook's mapper."""

    def map_variable(self, expr: p.Variable) -> Any:
        return expr[ii, jj]

    def map_laplacian(self, expr: Laplacian) -> Any:
        var = expr.child
        return (
            -4 * var[ii, jj] + var[ii + 1, jj] + var[ii - 1, jj] + var[ii, jj + 1] + var[ii, jj - 1]
        )


def make_pde_kernel() -> TUnit:
    u, result = p.Variable("u"), p.Variable("result")
    pde = Laplacian(u) + u**2 - 1
    return lp.make_kernel(
        "{[i,j]: 0<=i,j<n}",
        [lp.Assignment(result[ii, jj], FDMapper()(pde))],
    )


def test_shapes_of_the_pde_kernel() -> None:
    arguments = make_pde_kernel().default_entrypoint.arg_dict
    assert [str(extent) for extent in arguments["result"].shape] == ["n + 1", "n + 1"]
    assert [str(extent) for extent in arguments["u"].shape] == ["n + 2", "n + 2"]


def sequential(knl: TUnit) -> TUnit:
    return knl


def on_groups(knl: TUnit) -> TUnit:
    return lp.tag_inames(knl, {"i": "g.0", "j": "g.1"})


def in_blocks(knl: TUnit) -> TUnit:
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")


def fetched(knl: TUnit) -> TUnit:
    return lp.add_prefetch(in_blocks(knl), "u", ["i_inner", "j_inner"], fetch_bounding_box=True)


def test_pde_kernel_on_the_host() -> None:
    u = np.random.default_rng(0).random((102, 102), np.float32)
    plain = make_pde_kernel().copy(target=lp.ExecutableCTarget())
    knl = lp.split_iname(lp.split_iname(plain, "i", 16), "j", 16)
    knl = lp.add_prefetch(
        knl, "u", ["i_inner", "j_inner"], fetch_bounding_box=True, default_tag=None
    )
    knl = lp.prioritize_loops(knl, "i_outer,j_outer,i_inner,j_inner")
    assert "u_fetch[324]" in lp.generate_code_v2(lp.add_dtypes(knl, {"u": u.dtype})).device_code()
    _, (expected,) = plain(u=u, n=100)
    _, (result,) = knl(u=u, n=100)
    np.testing.assert_array_equal(result[1:, 1:], expected[1:, 1:])


@pytest.mark.parametrize("transform", [sequential, on_groups, in_blocks, fetched])
def test_pde_kernel(transform: Any, opencl_queue: Any, capsys: pytest.CaptureFixture[str]) -> None:
    clrandom = pytest.importorskip("pyopencl.clrandom")
    n = 100
    u = clrandom.rand(opencl_queue, (n + 2, n + 2), dtype=np.float32)
    knl = transform(lp.set_options(make_pde_kernel(), write_cl=True))
    evt, (result,) = knl(opencl_queue, u=u, n=n)
    assert "__kernel" in capsys.readouterr().out
    v = u.get()
    inner = v[1:-1, 1:-1]
    around = v[2:, 1:-1] + v[:-2, 1:-1] + v[1:-1, 2:] + v[1:-1, :-2]
    np.testing.assert_allclose(result.get()[1:, 1:], inner**2 - 1 - 4 * inner + around, atol=1e-5)
