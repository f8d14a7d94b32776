"""Every transformation that rewrites accesses, with every kind of access: the same results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest

import kgen as lp
from tests.transforms.helpers import kernel_of, run

Transformation: TypeAlias = Callable[[Any, str], Any]

N, M = 8, 4
F, I32 = np.float64, np.int32

#: How the variable, ``v`` with an axis or ``s`` without, is written down.
FORMS = {
    "plain": "v[i]",
    "tagged": "v$tag[i]",
    "linear": "v[[i]]",
    "scalar": "s",
    "tagged scalar": "s$tag",
}

#: Where the access ``{x}`` stands, and what that makes of its value: a new one, and a result.
PLACES: dict[str, tuple[str, Callable[..., tuple[int, int]]]] = {
    "operand": ("{out} = {x} + a[i]", lambda x, a, b: (x, x + a)),
    "subscript": ("{out} = c[{x}]", lambda x, a, b: (x, 7 * x)),
    "its own subscript": ("{out} = c[c[{x}]*({x})]", lambda x, a, b: (x, 49 * x * x)),
    "subscript on the left": ("{out} = 1\nout[{n}, i + 0*{x}] = 7", lambda x, a, b: (x, 7)),
    "predicate": (
        "{out} = 3\n{out} = 1 {{if={x} > 1}}",
        lambda x, a, b: (x, 1 if x > 1 else 3),
    ),
    "condition": ("{out} = a[i] if {x} > 1 else b[i]", lambda x, a, b: (x, a if x > 1 else b)),
    "reduction": ("{out} = sum(k, k*{x})", lambda x, a, b: (x, x * M * (M - 1) // 2)),
    "call": ("{out} = max({x}, a[i])", lambda x, a, b: (x, max(x, a))),
    "cast": ("{out} = cast(np.int64, {x})", lambda x, a, b: (x, x)),
    "update": ("{x} = {x} + a[i]\n{out} = {x}", lambda x, a, b: (x + a, x + a)),
    "rule": ("f{n}(x) := x + {x}\n{out} = f{n}(b[i])", lambda x, a, b: (x, b + x)),
    "argument of a rule": ("f{n}(x) := x*x\n{out} = f{n}({x})", lambda x, a, b: (x, x * x)),
    "rule in a rule": (
        "f{n}(x) := x + {x}\ng{n}(x) := f{n}(x)*f{n}(a[i])\n{out} = g{n}(1)",
        lambda x, a, b: (x, (1 + x) * (a + x)),
    ),
    "rule whose arguments are called like it": (
        "f{n}(v, s) := v - s\n{out} = f{n}(9, {x})",
        lambda x, a, b: (x, 9 - x),
    ),
    "predicated update": (
        "{x} = 2 {{if=a[i] > 1}}\n{out} = {x}",
        lambda x, a, b: (2, 2) if a > 1 else (x, x),
    ),
    "result of several": ("{x}, {out} = argmin(k, abs(k - 2), k)", lambda x, a, b: (0, 2)),
    "read at the end": ("{out} = {x}", lambda x, a, b: (x, x)),
}

RNG = np.random.default_rng(3)
A, B, V = (RNG.integers(0, 3, N, dtype=I32) for _ in range(3))
C = 7 * np.arange(200, dtype=I32)


def program(form: str, places: Sequence[str], *, is_argument: bool) -> lp.TranslationUnit:
    access = FORMS[form]
    name, shape = access[0], (N,) if access[0] == "v" else ()
    lines = [
        PLACES[place][0].format(x=access, out=f"out[{n}, i]", n=n) for n, place in enumerate(places)
    ]
    if not is_argument:
        lines.insert(0, f"{name}{'[i]' if shape else ''} = b[i]")
    declared: Any = lp.GlobalArg if is_argument else lp.TemporaryVariable
    knl = lp.make_kernel(
        f"{{ [i,k]: 0<=i<{N} and 0<=k<{M} }}",
        "\n".join(lines),
        [
            declared(name, I32, shape=shape, **({"is_input": True} if is_argument else {})),
            lp.GlobalArg("a, b", I32, shape=(N,)),
            lp.GlobalArg("c", I32, shape=C.shape),
            lp.GlobalArg("out", I32, shape=(len(places), N), is_input=False),
        ],
        name="knl",
        seq_dependencies=True,
        silenced_warnings=["write_race(*)", "reordered_access(*)"],
    )
    return lp.remove_unused_arguments(knl)


def check(knl: lp.TranslationUnit, places: Sequence[str], *, is_argument: bool) -> None:
    """Run on the host and compare with numpy; the argument ``v`` may have another shape."""
    kernel = kernel_of(knl)
    given = {n: value for n, value in (("a", A), ("b", B), ("c", C)) if n in kernel.arg_dict}
    array: Any = next((arg for arg in kernel.args if arg.name not in ("a", "b", "c", "out")), None)
    elements: list[Any] = []
    if array is not None:
        memory, strides = np.zeros(4 * N, I32), array.fixed_strides
        given[array.name] = np.lib.stride_tricks.as_strided(
            memory, array.shape, [4 * stride for stride in strides]
        )
        elements = sorted(np.ndindex(*array.shape), key=lambda at: np.dot(at, strides))
        elements = elements[-N:] if array.shape == (2 * N,) else elements[:N]
        for index, value in zip(elements, V, strict=True):
            given[array.name][index] = value
    outputs = run(knl, **given)
    values = [int(x) for x in (V if is_argument else B)]
    for n, place in enumerate(places):
        steps = [PLACES[place][1](x, int(a), int(b)) for x, a, b in zip(values, A, B, strict=True)]
        values = [x for x, _ in steps]
        np.testing.assert_array_equal(
            outputs["out"].reshape(-1, N)[n], [y for _, y in steps], place
        )
    for name in outputs.keys() - {"out"}:
        np.testing.assert_array_equal([outputs[name][index] for index in elements], values)


def with_other(knl: lp.TranslationUnit, name: str) -> lp.TranslationUnit:
    """Declare another variable that is like *name*."""
    kernel = kernel_of(knl)
    other: Any = kernel.array_vars[name].copy(name="other")
    if name in kernel.temporary_variables:
        temporaries: Any = {**kernel.temporary_variables, "other": other}
        return knl.with_kernel(kernel.copy(temporary_variables=temporaries))
    return knl.with_kernel(kernel.copy(args=(*kernel.args, other)))


def buffered(knl: Any, name: str, over: str) -> Any:
    start = None if name in kernel_of(knl).arg_dict else "0"
    return lp.buffer_array(knl, name, over, start, temporary_address_space="private")


def privatized(knl: Any, name: str) -> Any:
    return lp.privatize_temporaries_with_inames(knl, "i", name)


def unprivatized(knl: Any, name: str) -> Any:
    return lp.unprivatize_temporaries_with_inames(knl, "i", name)


#: Transformations of arguments and temporaries, and of the latter only.
OF_ALL: dict[str, Transformation] = {
    "buffer": lambda knl, v: buffered(knl, v, "i"),
    "buffer of one": lambda knl, v: buffered(knl, v, "k"),
    "unroll together": lambda knl, _: lp.tag_inames(knl, "i:ilp"),
    "batch": lambda knl, v: lp.to_batched(knl, 1, (v, "out")),
    "split axis": lambda knl, v: lp.split_array_axis(knl, v, 0, 3),
    "split axis, F": lambda knl, v: lp.split_array_axis(knl, v, 0, 4, order="F"),
    "concatenate": lambda knl, v: lp.concatenate_arrays(with_other(knl, v), f"other,{v}"),
    "pad": lambda knl, v: lp.add_padding(lp.split_array_axis(knl, v, 0, 4), v, 0, 20),
    "fetch": lambda knl, v: lp.add_prefetch(knl, v, "i", default_tag=None),
    "fetch one": lambda knl, v: lp.add_prefetch(knl, v, (), default_tag=None),
    "expand": lambda knl, _: lp.expand_subst(knl),
    "split loop": lambda knl, _: lp.split_iname(knl, "i", 3),
    "other coordinates": lambda knl, _: lp.affine_map_inames(knl, "i", "j", "j = 7 - i"),
    "rename loop": lambda knl, _: lp.rename_iname(knl, "i", "j"),
    "realize": lambda knl, _: lp.realize_reduction(knl),
    "fold": lambda knl, _: lp.fold_constants(knl),
}
OF_TEMPORARIES: dict[str, Transformation] = {
    "privatize": privatized,
    "unprivatize": unprivatized,
    "privatize and back": lambda knl, v: unprivatized(privatized(knl, v), v),
    "layout": lambda knl, v: lp.tag_array_axes(lp.split_array_axis(knl, v, 0, 4), v, "F"),
    "rule": lp.assignment_to_subst,
}
OF_ARGUMENTS: dict[str, Transformation] = {
    "rename": lambda knl, v: lp.rename_argument(knl, v, "v2"),
}


def try_places(
    change: Transformation, form: str, places: Sequence[str], *, is_argument: bool
) -> None:
    """Check all *places*; where some are refused, find out which, and check the others."""
    try:
        knl = change(program(form, places, is_argument=is_argument), FORMS[form][0])
        check(knl, places, is_argument=is_argument)
    except lp.KgenError as err:
        half = len(places) // 2
        if half:
            try_places(change, form, places[:half], is_argument=is_argument)
            try_places(change, form, places[half:], is_argument=is_argument)
            return
        refusal = str(err)
    else:
        return
    assert f"'{FORMS[form][0]}" in refusal or "'other'" in refusal, places


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [*OF_ALL, *OF_TEMPORARIES])
def test_temporaries_keep_their_values_or_are_refused(name: str, form: str) -> None:
    change = {**OF_ALL, **OF_TEMPORARIES}[name]
    try_places(change, form, list(PLACES), is_argument=False)


@pytest.mark.parametrize("form", ["plain", "tagged", "linear"])
@pytest.mark.parametrize("name", [*OF_ALL, *OF_ARGUMENTS])
def test_arguments_keep_their_values_or_are_refused(name: str, form: str) -> None:
    change = {**OF_ALL, **OF_ARGUMENTS}[name]
    try_places(change, form, list(PLACES), is_argument=True)


@pytest.mark.parametrize("form", ["plain", "tagged"])
@pytest.mark.parametrize("name", ["buffer of one", "privatize", "split axis", "concatenate"])
def test_what_can_be_rewritten_is_not_refused(name: str, form: str) -> None:
    knl = program(form, list(PLACES), is_argument=False)
    check({**OF_ALL, **OF_TEMPORARIES}[name](knl, "v"), list(PLACES), is_argument=False)


@pytest.mark.parametrize(
    "change",
    [
        lambda knl: lp.buffer_array(knl, "t", "k"),
        lambda knl: lp.privatize_temporaries_with_inames(knl, "i", "t"),
        lambda knl: lp.to_batched(knl, 2, "t"),
    ],
)
def test_a_bound_of_a_loop_is_no_access_that_can_be_rewritten(change: Any) -> None:
    knl = lp.make_kernel(
        ["{ [i]: 0<=i<4 }", "{ [k]: 0<=k<t }"],
        "for i\n <> t = i {id=t}\n for k\n out[i,k] = t {dep=t}\n end\nend",
        [lp.GlobalArg("out", shape=(4, 4)), ...],
    )
    with pytest.raises(lp.KgenError, match=r"'t'.*(bounds (loop )?'k'|a bound of loops)"):
        change(knl)


@pytest.mark.parametrize(
    "change",
    [
        lambda knl: lp.buffer_array(knl, "a", "k"),
        lambda knl: lp.to_batched(knl, 2, "a"),
        lambda knl: lp.split_array_axis(knl, "a", 0, 2),
        lambda knl: lp.concatenate_arrays(knl, "a,b", "c"),
        lambda knl: lp.rename_argument(knl, "a", "c"),
        lambda knl: lp.add_padding(lp.add_dtypes(knl, {"a": F}), "a", 0, 16),
    ],
)
def test_c_code_that_names_an_array_is_not_left_behind(change: Any) -> None:
    code = lp.CInstruction("i", "b[i] = a[i];", read_variables="a", assignees="b[i]", id="copy")
    arrays = lp.GlobalArg("a, b", shape=(4,))
    knl = lp.make_kernel("{ [i,k]: 0<=i<4 and 0<=k<2 }", [code, "out[i] = a[i] + k"], [arrays, ...])
    with pytest.raises(lp.KgenError, match=r"(?s)'copy'.*'a'|'a'.*'copy'"):
        change(knl)


def test_expressions_that_c_code_is_given_are_rewritten() -> None:
    code = lp.CInstruction([("x", "t")], "out[i] = x;", assignees="out[i]", id="copy")
    knl = lp.make_kernel("{ [i]: 0<=i<4 }", ["<> t = i {id=t}", code.copy(depends_on="t")])
    knl = lp.privatize_temporaries_with_inames(knl, "i", "t")
    assert "x=t[i]" in str(kernel_of(knl).instructions[1])


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda knl: lp.rename_argument(knl, "out", "sum"), "sum"),
        (lambda knl: lp.buffer_array(knl, "out", "k"), "out_buf"),
        (lambda knl: lp.concatenate_arrays(knl, "out,b", "both"), "both"),
    ],
)
def test_what_is_atomic_is_renamed_with_its_variable(change: Any, name: str) -> None:
    arrays = lp.GlobalArg("out, b", F, shape=(4,))
    text = "out[i] = out[i] + b[k] {id=add, atomic}"
    knl = lp.make_kernel("{ [i,k]: 0<=i,k<4 }", text, [arrays, ...])
    insn: Any = kernel_of(change(knl)).id_to_insn["add"]
    (atomicity,) = insn.atomicity
    assert atomicity.var_name == name


def test_several_results_of_an_instruction_stay_when_one_becomes_a_rule() -> None:
    knl = lp.make_kernel(
        "{ [i,k]: 0<=i,k<4 }",
        "<> t = a[i] {id=t}\nout[i] = t {id=out, dep=t}\n"
        "t, m[i] = argmin(k, a[k], k) {id=both, dep=out}",
    )
    kept = kernel_of(lp.assignment_to_subst(knl, "t", within="id:out"))
    assert [insn.id for insn in kept.instructions] == ["t", "out", "both"]


def test_an_argument_of_a_rule_has_no_subscripts() -> None:
    with pytest.raises(lp.KgenError, match=r"rule 'f\(x\) := x\[i\]' subscripts its argument 'x'"):
        lp.make_kernel("{ [i]: 0<=i<4 }", "f(x) := x[i]\nout[i] = f(a)")
