"""Assignments by which iterations overwrite each other: warned of, and nothing else is."""

from __future__ import annotations

import warnings

import pytest

import kgen as lp
from kgen.analysis import overwrites
from kgen.ir.construction.dependencies import instruction_reads
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel

DOMAIN = "{ [i, j, k]: 0 <= i, j, k < n }"


@pytest.mark.parametrize(
    ("code", "loops"),
    [
        ("c[i, j] = a[i, k]*b[k, j]", "loop 'k'"),
        ("out[0] = a[i]", "loop 'i'"),
        ("out = a[i, j]", "loops 'i', 'j'"),
        ("out[i % 4] = a[i]", "loop 'i'"),
        ("out[i + j] = a[i, j]", "loops 'i', 'j'"),
        ("out[idx[i]] = a[k]", "loop 'k'"),
        ("out[i] = j*2.0", "loop 'j'"),
        ("f(x) := a[x]\nout[i] = f(k)", "loop 'k'"),
        ("f := a[k]\nout[i] = f {inames=i:k}", "loop 'k'"),
        ("<> t = a[i, k]*b[k, j]\nc[i, j] = t {inames=i:j:k}", "loop 'k'"),
        ("<> t = a[i, k]\nc[i] = t + sum(k, b[k]) {inames=i}", "loop 'k'"),
    ],
)
def test_forgotten_sums_are_warned_of(code: str, loops: str) -> None:
    with pytest.warns(lp.KgenWarning, match=f"iterations of {loops} overwrite each other's"):
        lp.make_kernel(DOMAIN, code)


@pytest.mark.parametrize(
    ("domain", "code"),
    [
        (DOMAIN, "c[i, j] = sum(k, a[i, k]*b[k, j])"),
        (DOMAIN, "out[0] = out[0] + a[i]"),
        (DOMAIN, "out[0] = 1 {inames=i}"),
        (DOMAIN, "out[i] = a[i, j] {if=j == 2}"),
        (DOMAIN, "<> last = b[k] > 0\nout[i] = a[i, k] {if=last, inames=i:k}"),
        (DOMAIN, "t[j] = a[i + j]\nout[i, j] = t[j]"),
        (DOMAIN, "<> s = idx[k]\nout[s] = a[k] {inames=k}"),
        (DOMAIN, "out[i, i + j] = a[j]"),
        (DOMAIN, "f(x) := t*x\n<> t = a[i] {id=t}\nout[i] = f(2) {inames=i}"),
        (DOMAIN, "<> t = a[i, k]\nout[i] = sum(k, t) {inames=i}"),
        (DOMAIN, "<> t = a[i, k]\nout[i] = 2*simul_reduce(max, k, t*b[k]) {inames=i}"),
        (DOMAIN, "f(x) := sum(k, x)\n<> t = a[i, k]\nout[i] = f(t) {inames=i}"),
        (DOMAIN, "out[i//2] = a[i//2]"),
        ("{ [i, j]: 0 <= i < n and 0 <= j < 16 }", "out[16*i + j] = a[i, j]"),
        ("{ [i, k]: 0 <= i < n and k = i }", "out[i] = a[i, k]"),
        (
            ["{ [i]: 0 <= i < n }", "{ [j]: 0 <= j < end }"],
            "for i\n<int32> end = ends[i]\nout[i] = sum(j, 2.0*j)\nend",
        ),
        (DOMAIN, "for k\nu[i] = v[i]*k {id=u, dep=*}\nv[j] = u[j] {id=v, dep=u}\nend"),
    ],
)
def test_other_assignments_are_not(domain: str | list[str], code: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", lp.KgenWarning)
        lp.make_kernel(domain, code)


@pytest.mark.parametrize("name", ["overwritten(last)", "overwritten", "over*"])
def test_the_last_value_can_be_meant(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", lp.KgenWarning)
        lp.make_kernel(DOMAIN, "out[0] = a[i] {id=last}", silenced_warnings=[name])


def test_each_instruction_is_looked_into_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(kernel: LoopKernel, insn: InstructionBase) -> frozenset[str]:
        read.append(str(insn.id))
        return instruction_reads(kernel, insn)

    monkeypatch.setattr(overwrites, "instruction_reads", counted)
    texts = [f"<> t{k} = a[i] + {k}.0" for k in range(9)]
    lp.make_kernel(DOMAIN, [*texts, "out[i] = t8"])
    assert len(read) == len(set(read)) == 10
