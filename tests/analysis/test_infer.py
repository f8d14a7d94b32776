from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kgen.analysis.infer import add_and_infer_dtypes, infer_types, infer_unknown_types
from kgen.errors import TypeInferenceFailure
from kgen.frontend import make_function, make_kernel
from kgen.ir.data import GlobalArg, TemporaryVariable, ValueArg
from kgen.ir.instruction import Assignment
from kgen.ir.kernel import LoopKernel
from kgen.ir.target import TargetBase
from kgen.ir.types import auto
from kgen.transforms.programs.callables import merge


def kernel(instructions: Any, data: Any = None, **options: Any) -> LoopKernel:
    return make_kernel(
        "{ [i, k]: 0 <= i, k < n }", instructions, data, target=TargetBase(), **options
    ).default_entrypoint


def dtypes(typed: LoopKernel) -> dict[str, str | None]:
    variables = {**typed.arg_dict, **typed.temporary_variables}
    return {
        name: None if variable.dtype is None else variable.dtype.numpy_dtype.name
        for name, variable in variables.items()
    }


def test_outputs_follow_inputs() -> None:
    typed = infer_types(kernel("out[i] = 2*a[i]"), {"a": np.float32})
    assert dtypes(typed) == {"a": "float32", "out": "float32", "n": "int32"}


def test_nothing_to_do_gives_the_same_kernel() -> None:
    typed = infer_types(kernel("out[i] = 2*a[i]"), {"a": np.float32})
    assert infer_types(typed) is typed
    assert infer_types(typed, {"a": np.float32, "n": np.int32}) is typed


def test_chains_against_the_order_of_the_text() -> None:
    typed = infer_types(
        kernel(
            "out[i] = t {id=last, dep=mid}\n<> t = s*1j {id=mid, dep=first}\n<> s = a[i] {id=first}"
        ),
        {"a": np.float64},
    )
    assert dtypes(typed) == {
        "a": "float64",
        "n": "int32",
        "out": "complex128",
        "t": "complex128",
        "s": "float64",
    }


def test_several_writers_give_the_common_type() -> None:
    typed = infer_types(
        kernel("out[i] = a[i] {id=one}\nout[i] = b[i] {id=two, dep=one}"),
        {"a": np.int64, "b": np.float32},
    )
    assert dtypes(typed)["out"] == "float64"


@pytest.mark.parametrize(
    ("start", "step", "expected"),
    [
        ("0", "acc + a[k]", "float32"),
        ("0", "acc + 1", "int32"),
        ("0", "acc/3", "float64"),
        ("0", "acc + u[k]", "uint32"),
        ("0.0", "acc + h[k]", "float16"),
        ("0", "acc*1j", "complex128"),
        ("a[i]", "acc + 0.1", "float32"),
        ("u[i]", "if(acc > 0, acc + a[k], d[k])", "float64"),
    ],
)
def test_accumulators_take_the_type_of_what_they_hold(start: str, step: str, expected: str) -> None:
    typed = infer_types(
        kernel(
            f"""
            <> acc = {start} {{id=start}}
            acc = {step} {{id=step, dep=start}}
            out[i] = acc {{dep=step}}
            """,
            [
                GlobalArg("a", np.float32, shape="n"),
                GlobalArg("d", np.float64, shape="n"),
                GlobalArg("u", np.uint32, shape="n"),
                GlobalArg("h", np.float16, shape="n"),
                "...",
            ],
        )
    )
    assert dtypes(typed)["acc"] == dtypes(typed)["out"] == expected


def test_variables_that_need_each_other() -> None:
    typed = infer_types(
        kernel(
            """
            <> x = 1 {id=x}
            <> y = x {id=y, dep=x}
            x = y + a[i] {id=x2, dep=y}
            y = x*d[i] {id=y2, dep=x2}
            """
        ),
        {"a": np.float32, "d": np.float64},
    )
    assert (dtypes(typed)["x"], dtypes(typed)["y"]) == ("float64", "float64")


def test_an_update_of_an_argument_follows_the_rest() -> None:
    assert (
        dtypes(infer_types(kernel("out[i] = out[i] + a[i]"), {"a": np.float32}))["out"] == "float32"
    )


def test_what_only_the_argument_itself_would_tell_stays_unknown() -> None:
    for text in ("out[i]/2", "out[i] + 1", "sin(out[i])", "sum(k, out[k])"):
        text = f"out[i] = {text}"
        partial = infer_types(kernel(text), complete=False)
        assert dtypes(partial)["out"] is None
        with pytest.raises(TypeInferenceFailure, match=r"'out' is not known: .* only from itself"):
            infer_types(kernel(text))


def test_values_in_sizes_and_subscripts_are_indices() -> None:
    typed = infer_types(
        kernel(
            "out[i] = a[i + shift]*alpha",
            [
                GlobalArg("a", np.float32, shape="n + pad", offset="start"),
                ValueArg("alpha", np.float32),
                ValueArg("shift"),
                ValueArg("pad"),
                ValueArg("start"),
                "...",
            ],
            index_dtype=np.int64,
        )
    )
    found = dtypes(typed)
    assert {found[name] for name in ("n", "shift", "pad", "start")} == {"int64"}
    assert found["out"] == "float32"


def test_declared_types_stay() -> None:
    typed = infer_types(
        kernel(
            "out[i] = a[i]",
            [GlobalArg("out", np.float64, shape="n"), ValueArg("n", np.int64), "..."],
        ),
        {"a": np.float32},
    )
    assert (dtypes(typed)["out"], dtypes(typed)["n"]) == ("float64", "int64")


def test_tuple_valued_reductions() -> None:
    typed = infer_types(kernel("v[i], w[i] = argmin(k, a[k], k)"), {"a": np.float32})
    assert (dtypes(typed)["v"], dtypes(typed)["w"]) == ("float32", "int32")


def test_incomplete_inference_keeps_what_it_finds() -> None:
    partial = infer_types(kernel("out[i] = a[i]\nlen[i] = i"), complete=False)
    assert dtypes(partial) == {"a": None, "out": None, "len": "int32", "n": "int32"}


def test_a_missing_type_names_variable_instruction_and_mend() -> None:
    with pytest.raises(TypeInferenceFailure) as caught:
        infer_types(kernel("out[i] = alpha*a[i]", name="scale"), {"a": np.float32})
    text = str(caught.value)
    assert "in kernel 'scale': the type of 'alpha' is not known" in text
    assert "out[i] = alpha*a[i]" in text
    assert "add_dtypes(kernel, {'alpha': numpy.float64})" in text


def test_an_unused_argument_of_unknown_type() -> None:
    with pytest.raises(
        TypeInferenceFailure, match="'b' is not known: no instruction determines it"
    ):
        infer_types(kernel("out[i] = 1", [GlobalArg("b", shape="n"), "..."]))


def test_callers_and_declarations_must_agree() -> None:
    declared = kernel("out[i] = a[i]", [GlobalArg("a", np.float32, shape="n"), "..."])
    with pytest.raises(
        TypeInferenceFailure, match="'a' is declared as float32 but given as float64"
    ):
        infer_types(declared, {"a": np.float64})
    with pytest.raises(TypeInferenceFailure, match=r"'aa', which is not an argument[\s\S]*'a'"):
        infer_types(declared, {"aa": np.float64})


def test_sizes_are_integers() -> None:
    with pytest.raises(TypeInferenceFailure, match=r"'n' is part of a loop bound.* not float64"):
        infer_types(kernel("out[i] = a[i]"), {"a": np.float32, "n": np.float64})


def test_a_wrong_number_of_results() -> None:
    wrong = kernel("v[i], w[i] = argmin(k, a[k], k)")
    (insn,) = wrong.instructions
    wrong = wrong.copy(
        instructions=(insn.copy(expression=Assignment("x", "sin(a[i])").expression),)
    )
    with pytest.raises(TypeInferenceFailure, match="1 value"):
        infer_types(wrong, {"a": np.float32})


def test_programs() -> None:
    unit = make_kernel("{ [i]: 0 <= i < n }", "out[i] = a[i]*b[i]", target=TargetBase())
    assert dtypes(infer_unknown_types(unit).default_entrypoint)["n"] == "int32"
    typed = add_and_infer_dtypes(unit, {"a, b": np.float32}, expect_completion=True)
    assert dtypes(typed.default_entrypoint)["out"] == "float32"
    with pytest.raises(TypeInferenceFailure, match="type of 'b' is not known"):
        add_and_infer_dtypes(unit, {"a": np.float32}, expect_completion=True)
    assert infer_unknown_types(typed, expect_completion=True) is typed


def test_a_thousand_temporaries_in_a_chain() -> None:
    names = [f"t{k}" for k in range(1000)]
    chain = kernel("out[i] = a[i]").copy(
        instructions=tuple(
            Assignment(name, f"{before} + 1", id=name, within_inames=frozenset({"i"}))
            for before, name in zip(["a[i]", *names], names, strict=False)
        ),
        temporary_variables={name: TemporaryVariable(name, shape=auto) for name in names},
    )
    assert dtypes(infer_types(chain, {"a": np.float32, "out": np.float32}))["t999"] == "float32"


INNER = make_function("{ [i]: 0<=i<8 }", "y[i] = y[i] + c*x[i]", name="inner")
OUTER = make_function(
    "{ [i,j,k]: 0<=i,j,k<8 }", "[i]: z[i] = inner(2, [j]: w[j], [k]: z[k])", name="outer"
)


def test_calls_give_the_types_of_called_kernels() -> None:
    args = [GlobalArg("a,out", "float32", shape=8), ...]
    text = "[i]: out[i] = outer([j]: a[j], [k]: out[k])"
    unit = merge([make_kernel("{ [i,j,k]: 0<=i,j,k<8 }", text, args, name="main"), OUTER, INNER])
    typed = infer_unknown_types(unit, expect_completion=True)
    for name in ("inner", "outer"):
        arrays = [arg for arg in typed[name].args if isinstance(arg, GlobalArg)]
        assert {arg.dtype.numpy_dtype for arg in arrays} == {np.dtype("float32")}


def test_arguments_to_which_calls_pass_different_types_stay_open() -> None:
    double = make_function("{ [i]: 0<=i<8 }", "y[i] = 2*x[i]", name="double")
    args = [GlobalArg("a", "float32", shape=8), GlobalArg("b", "float64", shape=8), ...]
    text = "[i]: p[i] = double([j]: a[j])\n[i]: q[i] = double([j]: b[j])"
    unit = merge([make_kernel("{ [i,j]: 0<=i,j<8 }", text, args, name="main"), double])
    typed = infer_unknown_types(unit, expect_completion=True)
    assert typed["double"].arg_dict["x"].dtype is None
    found = {name: typed["main"].arg_dict[name].dtype.numpy_dtype for name in ("p", "q")}
    assert found == {"p": np.dtype("float32"), "q": np.dtype("float64")}


def test_kernels_that_nothing_calls_are_completed_like_others() -> None:
    unit = merge([make_kernel("{:}", "out = 1.5", name="main"), INNER])
    with pytest.raises(TypeInferenceFailure, match="in kernel 'inner': the type of 'c' is not"):
        infer_unknown_types(unit, expect_completion=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("v[i] = argmin(k, a[k], k)", "2 values are assigned to 1 variable\n"),
        ("v[i], w[i], u[i] = argmin(k, a[k], k)", "2 values are assigned to 3 variables\n"),
    ],
)
def test_each_value_of_a_reduction_needs_a_variable(text: str, message: str) -> None:
    with pytest.raises(TypeInferenceFailure, match=message) as error:
        infer_types(kernel(text), {"a": np.float32})
    assert error.match("hint: assign to 2 variables")
