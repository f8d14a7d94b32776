"""make_kernel and make_function."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator

import numpy as np
import pytest

import kgen as lp
from kgen.errors import KernelError, KgenError, KgenSyntaxError, StaticValueFindingError
from kgen.frontend import installed_target, make_function, make_kernel
from kgen.ir.data import GlobalArg, ValueArg
from kgen.targets.c import CTarget, ExecutableCTarget
from kgen.targets.opencl import PyOpenCLTarget

LINE = "-" * 75


def test_the_first_kernel_of_the_tutorial_prints_as_documented() -> None:
    assert str(make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]")).splitlines() == [
        LINE,
        "KERNEL: kgen_kernel",
        LINE,
        "ARGUMENTS:",
        "a: type: <auto/runtime>, shape: (n), dim_tags: (N0:stride:1) in aspace: global",
        "n: ValueArg, type: <auto/runtime>",
        "out: type: <auto/runtime>, shape: (n), dim_tags: (N0:stride:1) out aspace: global",
        LINE,
        "DOMAINS:",
        "[n] -> { [i] : 0 <= i < n }",
        LINE,
        "INAME TAGS:",
        "i: None",
        LINE,
        "INSTRUCTIONS:",
        "for i",
        "  out[i] = 2*a[i]  {id=insn}",
        "end i",
        LINE,
    ]


def test_dependencies_print_as_documented() -> None:
    knl = make_kernel(
        "{ [i,j]: 0<=i,j<n }",
        """
        out[j,i] = a[i,j] {id=transpose}
        out[i,j] = 2*out[i,j]  {dep=transpose}
        """,
        [GlobalArg("out", shape="n, n", is_input=False), ...],
        name="transpose_and_dbl",
    )
    text = knl["transpose_and_dbl"].stringify(with_dependencies=True)
    assert text.splitlines()[-3:] == [
        "DEPENDENCIES: (use show_dependency_graph to visualize)",
        "insn : transpose",
        LINE,
    ]


def test_arguments_print_in_the_order_of_the_generated_function() -> None:
    knl = make_kernel("{ [i]: 0<=i<4 }", "a[i] = x*b[i]", "x, b, a")
    lines = knl["kgen_kernel"].stringify("arguments").splitlines()[2:-1]
    assert [line.split(":")[0] for line in lines] == ["x", "b", "a"]


def test_loops_conditions_temporaries_and_rules_print() -> None:
    knl = make_kernel(
        ["{ [i]: 0<=i<n }", "{ [j]: 0<=j<i }"],
        """
        twice(x) := 2*x
        for i
            <float32> t = twice(a[i])
            if t > 3
                out[i, j] = t  {tags=big}
            else
                rest[i] = t
            end
        end
        ... nop
        """,
    )
    assert str(knl).split("DOMAINS:\n")[1].splitlines() == [
        "[n] -> { [i] : 0 <= i < n }",
        "  [i] -> { [j] : 0 <= j < i }",
        LINE,
        "INAME TAGS:",
        "i: None",
        "j: None",
        LINE,
        "TEMPORARIES:",
        "t: type: np:dtype('float32'), shape: () aspace: auto",
        LINE,
        "SUBSTITUTION RULES:",
        "twice(x) := 2*x",
        LINE,
        "INSTRUCTIONS:",
        "for i",
        "  t = twice(a[i])  {id=insn}",
        "  for j",
        "    if t > 3",
        "      out[i, j] = t  {id=insn_0, tags=big}",
        "    end",
        "  end j",
        "  if not (t > 3)",
        "    rest[i] = t  {id=insn_1}",
        "  end",
        "end i",
        "... nop  {id=insn_2}",
        LINE,
    ]


def test_instructions_that_were_printed_read_back() -> None:
    text = """
    for i
        <> t = a[i]**2 - 1.5f  {id=load, priority=3}
        for j
            if t > 3 and j < 4
                out[i, j] = -t + sum(k, b[k] % 3)  {id=use}
            end
        end
    end
    """
    domain = "{ [i, j, k]: 0 <= i, j, k < n }"
    printed = make_kernel(domain, text)["kgen_kernel"].stringify("instructions")
    lines = printed.replace("t = a", "<> t = a").splitlines()[2:-1]
    again = make_kernel(domain, "\n".join(lines))
    assert again["kgen_kernel"].stringify("instructions") == printed


# -- settings -------------------------------------------------------------------------


@pytest.fixture
def no_cached_target() -> Iterator[None]:
    installed_target.cache_clear()
    yield
    installed_target.cache_clear()


@pytest.mark.usefixtures("no_cached_target")
@pytest.mark.parametrize(
    ("is_installed", "target"), [(True, PyOpenCLTarget), (False, ExecutableCTarget)]
)
def test_the_default_target_is_opencl_where_pyopencl_is_installed(
    is_installed: bool, target: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = object() if is_installed else None
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    assert type(make_kernel("{ [i]: 0<=i<4 }", "a[i] = 1").target) is target


def test_a_given_target_is_taken_by_program_and_kernel() -> None:
    knl = make_kernel("{ [i]: 0<=i<4 }", "a[i] = 1", target=CTarget())
    assert knl.target == knl["kgen_kernel"].target == CTarget()


def test_fixed_parameters_are_gone() -> None:
    knl = make_kernel("{ [i]: 0<=i<n }", "a[i] = n*i", fixed_parameters={"n": 5})
    (arg,) = knl.default_entrypoint.args
    assert isinstance(arg, GlobalArg)
    assert (arg.name, arg.shape) == ("a", (5,))


def test_dup_gives_an_instruction_loops_of_its_own() -> None:
    knl = make_kernel("{ [i, j]: 0<=i,j<n }", "a[i, j] = 1 {dup=i:j->jj, tags=x}\nb[i, j] = 2")
    first, second = knl.default_entrypoint.instructions
    assert str(first) == "a[i_0, jj] = 1  {id=insn, tags=x}"
    assert str(second) == "b[i, j] = 2  {id=insn_0}"
    assert first.within_inames == {"i_0", "jj"}


def test_a_language_version_has_no_effect() -> None:
    plain = make_kernel("{ [i]: 0<=i<4 }", "a[i] = 1")
    assert make_kernel("{ [i]: 0<=i<4 }", "a[i] = 1", lang_version=(2018, 2)) == plain


def test_unknown_settings_are_refused_with_the_near_ones() -> None:
    with pytest.raises(
        KgenError, match=r"(?s)no argument 'asumptions'.*did you mean 'assumptions'"
    ):
        make_kernel("{ [i]: 0<=i<4 }", "a[i] = 1", asumptions="n > 0")


def test_a_function_starts_nothing() -> None:
    function = make_function("{ [i]: 0<=i<4 }", "y[i] = 2*x[i]", name="twice")
    assert function.entrypoints == frozenset()
    assert function.with_entrypoints("twice") == make_kernel(
        "{ [i]: 0<=i<4 }", "y[i] = 2*x[i]", name="twice"
    )


# -- errors ---------------------------------------------------------------------------


def test_a_size_with_two_cases_needs_an_assumption() -> None:
    text = "out[i] = 5\nout[0] = 6"
    with pytest.raises(StaticValueFindingError, match="a static maximum was not found"):
        make_kernel("{ [i]: 0<=i<n }", text)
    knl = make_kernel("{ [i]: 0<=i<n }", text, assumptions="n >= 1")
    assert str(knl["kgen_kernel"].arg_dict["out"]).split(", dim")[0].endswith("shape: (n)")


@pytest.mark.parametrize(
    ("text", "error", "what"),
    [
        ("a[i] =", KgenSyntaxError, "line 1, column 7"),
        ("a[i] = 1\n\n  b[i] = 2 {ids=x}", KgenSyntaxError, "line 3, column 13"),
        ("a[i] = 1\nb[i] = sum(l, 1)", KernelError, "line 2: b[i] = sum(l, 1)"),
    ],
)
def test_errors_name_the_line(text: str, error: type[KgenError], what: str) -> None:
    with pytest.raises(error) as caught:
        make_kernel("{ [i]: 0<=i<n }", text)
    assert what in str(caught.value)


# -- time -----------------------------------------------------------------------------


def test_a_small_kernel_is_made_in_a_moment() -> None:
    def seconds() -> float:
        start = time.perf_counter()
        make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]")
        return time.perf_counter() - start

    assert min(seconds() for _ in range(50)) < 2e-3


def test_types_of_arguments_are_kept() -> None:
    knl = make_kernel(
        "{ [i]: 0<=i<n }", "a[i] = x", [GlobalArg("a", np.int8), ValueArg("x", np.float64), ...]
    )
    assert [str(arg.dtype) for arg in knl["kgen_kernel"].args] == [
        "np:dtype('int8')",
        "np:dtype('float64')",
        "None",
    ]


def test_options_as_text() -> None:
    text = "return_dict, no_numpy=0, write_code=code.c, build_options=-O2 -g"
    options = make_kernel("{ [i]: 0<=i<4 }", "a[i] = 1", options=text)["kgen_kernel"].options
    assert (options.return_dict, options.no_numpy) == (True, False)
    assert (options.write_code, options.build_options) == ("code.c", ("-O2", "-g"))


def test_dependencies_that_match_nothing_may_be_ignored() -> None:
    text = "a[i] = 1 {id=one}\nb[i] = 2 {dep=one:nothing*}"
    with pytest.raises(KernelError, match=r"depends on 'nothing\*'"):
        make_kernel("{ [i]: 0<=i<4 }", text)
    unit = make_kernel("{ [i]: 0<=i<4 }", text, options={"check_dep_resolution": False})
    assert unit["kgen_kernel"].instructions[1].depends_on == {"one"}


def test_targets_are_objects() -> None:
    for target in ("cuda", lp.CTarget):
        with pytest.raises(lp.KgenError, match="a target is an object"):
            make_kernel("{ [i]: 0<=i<4 }", "a[i] = 1", target=target)  # type: ignore[arg-type]


def test_what_cannot_run_says_what_can() -> None:
    knl = make_kernel("{ [i]: 0<=i<4 }", "a[i] = 1", target=lp.CTarget())
    with pytest.raises(lp.KgenError, match=r"CTarget generates code .*\n.*ExecutableCTarget"):
        knl()
    with pytest.raises(lp.KgenError, match="no entry point, only functions"):
        lp.make_function("{ [i]: 0<=i<4 }", "a[i] = 1", name="f")()
    data = [lp.GlobalArg("a, b", "float32", shape=4)]
    calls = make_kernel("{ [i]: 0<=i<4 }", "[i]: b[i] = f([i]: a[i])", data, target=lp.CTarget())
    with pytest.raises(lp.KgenError, match=r"there is no function 'f'\n(.*\n)*.*merge"):
        lp.generate_code_v2(calls)
