from __future__ import annotations

from typing import Any

import islpy as isl
import pytest

from kgen.analysis.access import Access, collect_accesses
from kgen.analysis.footprints import Footprints, extremes, split_constant
from kgen.ir.construction.make import make_loop_kernel
from kgen.ir.data import GlobalArg, ValueArg
from kgen.ir.instruction import CInstruction
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.expressions import parse
from kgen.ir.target import TargetBase


def kernel(domain: Any, instructions: Any, data: Any = None, **options: Any) -> LoopKernel:
    return make_loop_kernel(domain, instructions, data, name="knl", target=TargetBase(), **options)


def described(found: tuple[Access, ...]) -> list[str]:
    return [
        f"{'write' if a.is_write else 'read'} {a} in {','.join(a.place.inames)}"
        + "".join(f" if {condition}" for condition in a.place.conditions)
        for a in found
    ]


def test_accesses_know_their_loops() -> None:
    found = collect_accesses(kernel("{ [i, k]: 0 <= i, k < n }", "out[i] = b[i]*sum(k, a[i, k])"))
    assert described(found) == ["read b[i] in i", "read a[i, k] in i,k", "write out[i] in i"]


def test_accesses_know_their_conditions() -> None:
    found = collect_accesses(
        kernel(
            "{ [i]: 0 <= i < n }",
            """
            if i > 2 and flag[i] > 0
                out[i] = b[i - 1] if i < 7 else (1 if i < 5 or c[i] > 0 else 0)
            end
            """,
        )
    )
    around = "if i > 2 if flag[i] > 0"
    assert described(found) == [
        "read flag[i] in i if i > 2",
        f"read b[i - 1] in i {around} if i < 7",
        f"read c[i] in i {around} if not (i < 7) if not (i < 5)",
        f"write out[i] in i {around}",
    ]


def test_data_is_looked_at_only_where_the_loops_conditions_hold() -> None:
    found = collect_accesses(
        kernel(
            "{ [i]: 0 <= i < n }",
            """
            if i > 0
                if a[i - 1] > 0
                    out[i] = 1
                end
            end
            """,
        )
    )
    assert described(found)[0] == "read a[i - 1] in i if i > 0"


def test_subscripts_in_subscripts_are_read() -> None:
    found = collect_accesses(kernel("{ [i]: 0 <= i < n }", "out[idx[i]] = a[[i]] + t[perm[i], 0]"))
    assert described(found) == [
        "read a[[i]] in i",
        "read t[perm[i], 0] in i",
        "read perm[i] in i",
        "write out[idx[i]] in i",
        "read idx[i] in i",
    ]


def test_c_code_names_whole_arrays() -> None:
    code = CInstruction("i", "out[i] = f(a);", read_variables="a", assignees="out[i]", id="c")
    knl = kernel("{ [i]: 0 <= i < n }", [code], [GlobalArg("a", shape="n"), "..."])
    found = collect_accesses(knl)
    assert [(a.array, a.index is None) for a in found] == [("a", True), ("out", False)]


@pytest.mark.parametrize(
    ("subscript", "base", "constant"),
    [
        ("i", "i", 0),
        ("i + 1", "i", 1),
        ("i - 3", "i", -3),
        ("2*i + j + 4", "2*i + j", 4),
        ("7", None, 7),
        ("i*j", "i*j", 0),
    ],
)
def test_subscripts_split_into_base_and_constant(
    subscript: str, base: str | None, constant: int
) -> None:
    assert split_constant(parse(subscript)) == (None if base is None else parse(base), constant)


def test_relations_map_iterations_to_elements() -> None:
    knl = kernel("{ [i, j]: 0 <= i < n and 0 <= j <= i }", "out[i, j] = a[i + 2*j, j // 2]")
    (read, _) = collect_accesses(knl)
    expected = "[n] -> { [i, j] -> [i + 2j, floor(j/2)] : 0 <= i < n and 0 <= j <= i }"
    relation = Footprints.of(knl).relation(read)
    assert relation is not None
    assert relation.is_equal(isl.Map(expected))


def test_a_value_may_be_part_of_a_subscript() -> None:
    knl = kernel("{ [i]: 0 <= i < n }", "out[i] = a[i + shift]", [ValueArg("shift"), "..."])
    relation = Footprints.of(knl).relation(collect_accesses(knl)[0])
    assert relation is not None
    assert relation.is_equal(isl.Map("[n, shift] -> { [i] -> [i + shift] : 0 <= i < n }"))


def test_there_is_no_relation_for_data() -> None:
    knl = kernel("{ [i]: 0 <= i < n }", "out[i] = a[idx[i]]")
    assert Footprints.of(knl).relation(collect_accesses(knl)[0]) is None


def test_domains_are_exact_unless_data_decides() -> None:
    knl = kernel(
        "{ [i]: 0 <= i < n }",
        """
        if i > 2
            out[i] = 1
        end
        if out[i] > 2
            res[i] = 1 {dep=*}
        end
        """,
    )
    footprints = Footprints.of(knl)
    (out,) = [a for a in footprints.accesses["out"] if a.is_write]
    domain, is_exact = footprints.domain(out.place)
    assert domain.is_equal(isl.Set("[n] -> { [i] : 2 < i < n }"))
    assert is_exact
    domain, is_exact = footprints.domain(footprints.accesses["res"][0].place)
    assert domain.is_equal(isl.Set("[n] -> { [i] : 0 <= i < n }"))
    assert not is_exact


def test_equal_questions_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    knl = kernel(
        "{ [i, j]: 0 <= i, j < n }",
        "\n".join(f"out{k}[i, j] = a[i + {k}, j] + b[2*i + j]" for k in range(20)),
    )
    asked: list[object] = []
    find = Footprints._find_values

    def count(self: Footprints, place: Any, base: Any) -> Any:
        asked.append((place, base))
        return find(self, place, base)

    monkeypatch.setattr(Footprints, "_find_values", count)
    footprints = Footprints.of(knl)
    for accesses in footprints.accesses.values():
        for axis in range(len(accesses[0].index or ())):
            footprints.spans(accesses, axis)
    assert len(asked) == 3  # i, j and 2*i + j


def test_equal_values_are_one_object() -> None:
    knl = kernel(
        ["{ [i]: 0 <= i < n }", "{ [j]: 0 <= j < n }"], "a[i] = 1\nb[j + 1] = a[n - 1 - j]"
    )
    footprints = Footprints.of(knl)
    spans = [s for some in footprints.accesses.values() for s in footprints.spans(some, 0)]
    assert [(s.low, s.high) for s in spans] == [(0, 0), (-1, -1), (1, 1)]
    (i, reversed_j, j) = [s.values for s in spans]
    assert i is j
    assert reversed_j is not None
    assert reversed_j.least == 1
    assert extremes((spans[0], spans[2])) == ((i, 0, 1),)


def test_kernels_that_differ_in_declarations_share_footprints() -> None:
    knl = kernel("{ [i]: 0 <= i < n }", "out[i] = a[i]")
    again = knl.copy(args=tuple(arg.copy(dtype="int32") for arg in knl.args), name="other")
    changed = knl.copy(instructions=knl.instructions[:0])
    assert Footprints.of(again.copy(args=knl.args)).accesses is Footprints.of(knl).accesses
    assert Footprints.of(changed).accesses is not Footprints.of(knl).accesses
    assert not Footprints.of(changed).accesses
