"""What a program consists of, as Python objects."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest
from pytools.persistent_dict import KeyBuilder

import kgen as lp
from kgen.ir.arg_descriptors import ArrayArgDescriptor
from kgen.ir.kernel import KernelState

ROOT = Path(__file__).parents[2]


def reader() -> lp.TranslationUnit:
    text = ["<> t = a[i] {id=load}", "out[i] = t {id=store}", "... nop {id=last, dep=store:load}"]
    return lp.make_kernel("{ [i]: 0 <= i < n }", text, [lp.GlobalArg("a", np.float32), ...])


def test_arguments_are_arguments_and_temporaries_are_not() -> None:
    knl = reader()["kgen_kernel"]
    assert all(isinstance(arg, lp.KernelArgument) for arg in knl.args)
    assert not isinstance(knl.temporary_variables["t"], lp.KernelArgument)


def test_instructions_that_assign_have_an_expression() -> None:
    insns = reader()["kgen_kernel"].instructions
    kinds = {insn.id: isinstance(insn, lp.MultiAssignmentBase) for insn in insns}
    assert kinds == {"load": True, "store": True, "last": False}


def test_what_an_instruction_happens_after() -> None:
    last = reader()["kgen_kernel"].id_to_insn["last"]
    assert last.happens_after == {"load": lp.HappensAfter(), "store": lp.HappensAfter(None, None)}
    other = lp.NoOpInstruction("other").copy(depends_on=last.happens_after)
    assert other.depends_on == last.depends_on


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (lp.Optional(None), None),
        (lp.auto, None),
        (lp.Optional(np.int8), lp.to_kgen_type("int8")),
        ("int8", lp.to_kgen_type("int8")),
    ],
)
def test_an_assignment_that_creates_a_temporary(kind: object, dtype: object) -> None:
    insn = lp.Assignment("t", "a[i]", temp_var_type=kind)
    assert insn.temp_var_type == lp.Optional(dtype)
    unit = lp.make_kernel("{ [i]: 0 <= i < 4 }", [insn, "b[i] = t"])
    knl = unit["kgen_kernel"]
    assert knl.temporary_variables["t"].dtype == dtype
    (made, _) = knl.instructions
    assert isinstance(made, lp.Assignment)
    assert made.temp_var_type == lp.Optional()


def test_the_variable_that_an_assignment_writes() -> None:
    assert lp.Assignment("a[i, j]", 1).assignee_name == lp.Assignment("a", 1).assignee_name == "a"


def test_an_empty_optional_has_no_value() -> None:
    assert lp.Assignment("t", 1, temp_var_type=lp.Optional()).temp_var_type == lp.Optional()
    with pytest.raises(lp.KgenError, match="has no value"):
        lp.Optional().value  # noqa: B018


def test_the_version_is_the_one_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == lp.version.VERSION_TEXT == str(lp.VERSION)
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "a[i] = 1")
    again = lp.make_kernel(
        "{ [i]: 0 <= i < n }", "a[i] = 1", lang_version=lp.MOST_RECENT_LANGUAGE_VERSION
    )
    assert again == knl


def test_kinds_of_atomicity() -> None:
    (update,) = lp.make_kernel("{ [i]: 0 <= i < n }", "a[0] = a[0] + b[i] {atomic}")[
        "kgen_kernel"
    ].instructions
    assert isinstance(update, lp.Assignment)
    (atomicity,) = update.atomicity
    assert isinstance(atomicity, lp.OrderedAtomic)
    assert isinstance(atomicity, lp.VarAtomicity)
    assert (atomicity.var_name, atomicity.ordering) == ("a", lp.MemoryOrdering.RELAXED)


@pytest.mark.parametrize("dtype", [[], {}, [("x", "f4"), ("y", [])]])
def test_a_structure_without_fields_is_no_type_of_elements(dtype: Any) -> None:
    for declare in (lp.GlobalArg, lp.TemporaryVariable, lp.ValueArg):
        with pytest.raises(lp.KgenError, match=r"the type of .* 't': .*without fields"):
            declare("t", np.dtype(dtype))


def test_a_flag_of_a_type_is_checked() -> None:
    with pytest.raises(lp.KgenError, match="the argument 'for_atomic' is True or False"):
        lp.to_kgen_type("int8", for_atomic=np.arange(3))  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["float32", np.int8, complex, lp.NumpyType(np.dtype(np.bool_))])
def test_element_types(dtype: object) -> None:
    found = lp.to_kgen_type(dtype)
    assert isinstance(found, lp.KgenType)
    assert found.is_complex() == (dtype is complex)
    assert found.itemsize == found.numpy_dtype.itemsize


def test_a_function_of_kernels_works_on_programs() -> None:
    @lp.for_each_kernel
    def renamed(kernel: lp.LoopKernel, old: str, *, new: str) -> lp.LoopKernel:
        """Rename a loop."""
        return lp.rename_iname(kernel, old, new)

    double = lp.make_function("{ [i]: 0 <= i < 4 }", "y[i] = 2*x[i]", name="double")
    caller = lp.make_kernel("{ [i, k]: 0 <= i, k < 4 }", "[i]: b[i] = double([k]: a[k])")
    program = lp.merge([caller, double])
    found = renamed(program, "i", new="r")
    assert isinstance(found, lp.TranslationUnit)
    assert ["r" in knl.inames and "i" not in knl.inames for knl in found.kernels()] == [True, True]
    assert isinstance(renamed(program["double"], "i", new="r"), lp.LoopKernel)
    assert renamed.__doc__ == "Rename a loop."


def test_kernels_and_functions_are_what_can_be_called() -> None:
    unit = lp.register_callable(
        reader(), "root", lp.CallMangleInfo("sqrt", (np.dtype("f8"),), (np.dtype("f8"),))
    )
    assert all(isinstance(c, lp.InKernelCallable) for c in unit.callables_table.values())
    assert isinstance(unit.callables_table["kgen_kernel"], lp.CallableKernel)
    assert isinstance(unit["kgen_kernel"].functions["root"], lp.InKernelCallable)


def test_the_dependency_graph_in_dot() -> None:
    lines = lp.get_dot_dependency_graph(reader(), use_insn_id=True).splitlines()
    assert "  load -> store;" in lines
    assert "  store -> last;" in lines
    assert '    label="i";' in lines
    assert lp.get_text_dependency_graph(reader()).splitlines() == [
        "load   [i]",
        "store  [i]  <- load",
        "last   []   <- load, store",
    ]
    labels = lp.get_dot_dependency_graph(reader()).splitlines()
    assert any('store [label="out[i] = t  {id=store}"' in line for line in labels)


@pytest.mark.parametrize("name", ["diagnostic", "match", "symbolic"])
def test_documented_modules_have_the_objects_of_the_package(name: str) -> None:
    module = importlib.import_module(f"kgen.{name}")
    shared = [name for name in module.__all__ if name in lp.__all__]
    assert all(getattr(module, name) is getattr(lp, name) for name in shared)
    assert all(hasattr(module, name) for name in module.__all__)


def test_errors_by_the_names_of_the_reference() -> None:
    assert lp.LoopyIndexError is lp.KgenIndexError
    assert issubclass(lp.UnscheduledInstructionError, lp.ScheduleError)


def test_tables_of_a_kernel_are_copied_to_change_them() -> None:
    knl = reader()["kgen_kernel"]
    tables: Any = knl.temporary_variables.copy()  # type: ignore[attr-defined]
    tables["u"] = lp.TemporaryVariable("u", np.float32, shape=())
    assert sorted(knl.copy(temporary_variables=tables).temporary_variables) == ["t", "u"]
    assert sorted(knl.temporary_variables) == ["t"]


def test_lists_are_added_to_what_a_kernel_has() -> None:
    knl: Any = reader()["kgen_kernel"]
    more = lp.Assignment("c[i]", 1, id="more", within_inames="i")
    array = lp.GlobalArg("c", np.float32, "n")
    for instructions in (knl.instructions + [more], [more] + knl.instructions):  # noqa: RUF005
        changed = knl.copy(instructions=instructions, args=knl.args + [array])  # noqa: RUF005
        assert set(changed.id_to_insn) == {*knl.id_to_insn, "more"}
        assert changed.arg_dict["c"] == array
        assert len(knl.instructions) == 3


def test_a_kernel_tells_how_long_its_loops_are() -> None:
    unit = lp.make_kernel("{ [i]: 2 <= i < n }", "a[i] = 1", assumptions="n >= 3")
    knl = lp.split_iname(unit, "i", 16).default_entrypoint
    assert knl.get_constant_iname_length("i_inner") == 16
    assert str(knl.get_iname_bounds("i_outer").lower_bound_pw_aff) == "[n] -> { [(0)] : n >= 3 }"
    with pytest.raises(lp.StaticValueFindingError, match="'i_outer' has no last value"):
        knl.get_constant_iname_length("i_outer")


def test_local_memory_is_that_of_the_largest_in_each_storage() -> None:
    def tile(name: str, size: Any, **settings: Any) -> lp.TemporaryVariable:
        return lp.TemporaryVariable(name, np.float32, (size,), "local", **settings)

    tiles = [tile("t", 16, base_storage="s"), tile("u", 32, base_storage="s"), tile("v", 4)]
    text = ["t[i] = 1", "u[i] = 2", "v[0] = u[i]"]
    knl = lp.make_kernel("{ [i]: 0 <= i < 16 }", text, [*tiles, ...]).default_entrypoint
    assert knl.local_mem_use() == 4 * 32 + 4 * 4
    assert str(lp.TemporaryVariable("w", np.float64, "3, n").nbytes) == "24*n"
    with pytest.raises(lp.KernelError, match="the size of temporary 'w' is not known"):
        _ = lp.TemporaryVariable("w", np.float64).nbytes


def test_programs_kernels_and_their_parts_are_keys_of_persistent_dictionaries() -> None:
    def summed(factor: int) -> lp.TranslationUnit:
        text = ["f(x) := x + 1", f"out[i] = {factor}*sum(j, f(a[i, j]))"]
        unit = lp.make_kernel("{ [i, j]: 0 <= i < n and 0 <= j < 8 }", text)
        return lp.add_dtypes(lp.split_iname(unit, "i", 16), {"a": np.float32})

    key = KeyBuilder()
    assert key(summed(2)) == key(summed(2)) != key(summed(3))
    one, two = summed(2).default_entrypoint, summed(3).default_entrypoint
    assert key(one) == key(summed(2).default_entrypoint) != key(two)
    assert key(one.instructions[0]) != key(two.instructions[0])
    assert key(one.arg_dict["a"]) == key(two.arg_dict["a"])


def test_a_reduction_takes_a_variable_as_its_loop() -> None:
    m, q = p.Variable("m"), p.Variable("q")
    reduction: Any = lp.Reduction
    assert reduction("sum", m, q[m]) == reduction("sum", ("m",), q[m])


def test_what_callables_call_and_use() -> None:
    data = [lp.GlobalArg("x, y", np.float64, shape=8)]
    inner = lp.make_function("{ [i]: 0 <= i < 8 }", "y[i] = half(x[i])", data, name="inner")
    inner = lp.register_callable(lp.tag_inames(inner, "i:l.1"), "half", lp.ScalarCallable("half"))
    outer = lp.make_kernel("{ : }", "y[:] = inner(x[:])", data, name="outer")
    table = lp.merge([outer, inner]).callables_table
    kernel, function = table["outer"], table["half"]
    assert isinstance(kernel, lp.CallableKernel)
    assert isinstance(function, lp.ScalarCallable)
    assert kernel.get_called_callables(table) == {"inner", "half"}
    assert kernel.get_called_callables(table, recursive=False) == {"inner"}
    assert kernel.get_used_hw_axes(table) == (frozenset(), frozenset({1}))
    assert (kernel.with_name("f").name, function.with_name("g").name) == ("f", "g")
    assert (kernel.is_type_specialized(), function.is_type_specialized()) == (True, False)


def test_types_and_shapes_of_a_called_kernel_by_position() -> None:
    unit = lp.make_function("{ [i]: 0 <= i < 8 }", "y[i] = c*x[i]", name="f")
    callee = unit.callables_table["f"]
    assert isinstance(callee, lp.CallableKernel)
    assert callee.arg_id_to_dtype is None
    assert not callee.is_ready_for_codegen()
    unit = lp.add_and_infer_dtypes(unit, {"x": np.float64, "c": np.float32}, kernel_name="f")
    callee = unit.callables_table["f"]
    assert isinstance(callee, lp.CallableKernel)
    assert callee.arg_id_to_dtype is not None
    types = {key: dtype.numpy_dtype for key, dtype in callee.arg_id_to_dtype.items()}
    assert types == {0: "f4", "c": "f4", **dict.fromkeys((1, -1, "x", "y"), np.float64)}
    assert callee.arg_id_to_descr is not None
    rows = callee.arg_id_to_descr[-1]
    assert isinstance(rows, ArrayArgDescriptor)
    assert (rows.shape, rows.address_space) == ((8,), lp.AddressSpace.GLOBAL)
    assert (set(callee.arg_id_to_descr), callee.is_ready_for_codegen()) == ({0, 1, -1}, True)


def test_an_executor_is_for_all_arguments_of_calls() -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]", target=lp.ExecutableCTarget())
    assert knl.executor(a=np.ones(3)) is knl.executor()
    with pytest.raises(lp.InvocationError, match="there is no argument 'b'"):
        knl.executor(b=np.ones(3))


def test_scopes_of_atomic_accesses() -> None:
    assert lp.AtomicUpdate("a").scope is lp.MemoryScope.auto
    assert lp.MemoryScope.DEVICE == lp.MemoryScope.WORK_DEVICE


def test_host_code_needs_nothing_in_front() -> None:
    code = lp.generate_code_v2(lp.add_dtypes(reader(), {"out": np.float32}))
    assert code.host_preambles == []


def test_copies_of_a_program_are_origins_on_request() -> None:
    data = [lp.GlobalArg("a, out", np.float32, shape=8)]
    double, triple = (
        lp.make_kernel("{ [i]: 0<=i<8 }", f"out[i] = {n}*a[i]", data, name="k") for n in (2, 3)
    )
    changed = triple.with_kernel(triple["k"].copy(origin=double["k"]))
    assert not lp.verify(changed).ok
    assert lp.verify(changed.copy(origin=None)).ok


def test_structures_are_composite_types() -> None:
    record = np.dtype([("low", np.uint32), ("high", np.int32)])
    composite = [lp.to_kgen_type(dtype).is_composite() for dtype in (record, np.complex64, "f4")]
    assert composite == [True, False, False]


def test_the_state_of_a_program_is_that_of_its_earliest_kernel() -> None:
    first, second = (
        lp.make_kernel("{ [i]: 0 <= i < 4 }", "out[i] = 1.0", name=name) for name in ("one", "two")
    )
    both = lp.merge([first, lp.linearize(second)])
    assert (lp.linearize(second).state, both.state) == (KernelState.LINEARIZED, KernelState.INITIAL)


def test_a_mangled_call_is_copied_with_changes() -> None:
    real = np.dtype(np.float64)
    info = lp.CallMangleInfo("j0", (real,), (real,))
    assert info.copy(target_name="j1").as_callable("bessel").name_in_target == "j1"
