"""Things that are named twice: refused where the two differ, with the name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ir.data import SubstitutionRule

LOOP, IJ = "{ [i]: 0<=i<8 }", "{ [i,j]: 0<=i,j<8 }"
RULE = "f(x) := x\nout[i] = f(a[i])"


def rule(name: str = "f", expression: str = "2*x") -> SubstitutionRule:
    return SubstitutionRule(name, ("x",), expression)


def array(name: str, dtype: Any = np.float32) -> lp.GlobalArg:
    return lp.GlobalArg(name, dtype, shape=(8,))


def temporary(name: str, dtype: Any = np.float32) -> lp.TemporaryVariable:
    return lp.TemporaryVariable(name, dtype, shape=(8,))


T = "t[i] = 1\nout[i] = t[i]"

TWICE: dict[str, Callable[[], Any]] = {
    "'f'": lambda: lp.make_kernel(LOOP, "f(x) := 2*x\n" + RULE),
    "rules 'f'": lambda: lp.make_kernel(LOOP, RULE, substitutions={"f": rule()}),
    "rule 'f": lambda: lp.make_kernel(LOOP, "f(x,x) := x\nout[i] = f(i, 1)"),
    "'g' is named 'f'": lambda: lp.make_kernel(LOOP, "out[i] = i", substitutions={"f": rule("g")}),
    "'f' is both": lambda: lp.make_kernel(LOOP, RULE, [array("f"), ...]),
    "'a'": lambda: lp.make_kernel(LOOP, "out[i] = a[i]", [array("a"), array("a", "int32"), ...]),
    "'out'": lambda: lp.make_kernel(LOOP, "out[i] = 1", [temporary("out"), array("out")]),
    "'t'": lambda: lp.make_kernel(
        LOOP, T, [temporary("t"), ...], temporary_variables={"t": temporary("t", "int32")}
    ),
    "'s' is named 't'": lambda: lp.make_kernel(LOOP, T, temporary_variables={"t": temporary("s")}),
    "temporary 't'": lambda: lp.make_kernel(LOOP, "<> t = 1\n<> t = 2\nout[i] = t"),
    "id 'x'": lambda: lp.make_kernel(LOOP, "a[i] = 1 {id=x}\nb[i] = 2 {id=x}"),
    "iname 'i'": lambda: lp.make_kernel([LOOP, "{ [i]: 0<=i<4 }"], "out[i] = 1"),
    "option 'priority'": lambda: lp.make_kernel(LOOP, "out[i] = 1 {priority=1, priority=2}"),
    "option 'id'": lambda: lp.make_kernel(LOOP, "out[i] = 1 {id=x, id=y}"),
    "option 'inames'": lambda: lp.make_kernel(IJ, "out[i] = 1 {inames=i, inames=i:j}"),
    "option 'return_dict'": lambda: lp.make_kernel(
        LOOP, "out[i] = 1", options="return_dict,return_dict=0"
    ),
    "option 'write_code'": lambda: lp.make_kernel(
        LOOP, "out[i] = 1", options={"write_code": True, "write_cl": False}
    ),
    "'a' is given two types": lambda: lp.add_dtypes(
        lp.make_kernel(LOOP, RULE), {"a,out": "int32", "a": "float32"}
    ),
    "tag 'p'": lambda: lp.generate_code_v2(
        lp.make_kernel(
            LOOP,
            "out[i] = 1",
            [array("out")],
            preambles=[("p", "int x;"), ("p", "int y;")],
            target=lp.CTarget(),
        )
    ),
    "'zz', which is not an iname": lambda: lp.make_kernel(
        LOOP, "out[i] = 1", iname_slab_increments={"zz": (1, 1)}
    ),
}


@pytest.mark.parametrize("text", TWICE)
def test_what_is_named_twice_is_refused_by_name(text: str) -> None:
    with pytest.raises(lp.KgenError, match=text):
        TWICE[text]()


def test_what_is_said_twice_alike_and_what_adds_up_is_taken() -> None:
    knl = lp.make_kernel(
        LOOP,
        "f(x) := x\na[i] = 1 {id=a}\nb[i] = 2 {id=b}\n"
        "out[i] = f(i) {dep=a, dep=b, if=i > 1, if=i < 5, priority=1, priority=1}",
        substitutions={"f": rule(expression="x")},
    ).default_entrypoint
    insn = knl.instructions[2]
    assert (sorted(insn.depends_on), len(insn.predicates), insn.priority) == (["a", "b"], 2, 1)
