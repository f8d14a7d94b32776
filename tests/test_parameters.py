"""Parameters of public functions: none is accepted and ignored."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.algorithm import RadixSort
from kgen.elementwise import ElementwiseKernel
from kgen.ir.kernel import LoopKernel
from kgen.ir.target import TargetBase
from kgen.ir.types import to_kgen_type
from kgen.scan import GenericScanKernel, InclusiveScanKernel

#: Hooks that a user's class overrides, and what every kind of operation is called with.
HOOKS = {
    "with_types",
    "emit_call",
    "generate_preambles",
    "get_called_callables",
    "get_used_hw_axes",
    "neutral_element",
    "__call__",
}


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in lp.__all__:
        item = getattr(lp, name)
        if inspect.isclass(item) and issubclass(item, TargetBase | lp.ASTBuilderBase):
            continue  # hooks, which other targets override
        if inspect.isclass(item):
            for own, method in vars(item).items():
                is_public = own in ("__call__", "__init__") or own[0] != "_"
                if inspect.isfunction(method) and is_public and has_text(method):
                    yield f"{name}.{own}", inspect.unwrap(method)
        elif inspect.isfunction(item):
            yield name, inspect.unwrap(item)


def has_text(function: Callable[..., Any]) -> bool:
    """Tell whether a function stands in a file: the ``__init__`` of a dataclass does not."""
    return not function.__code__.co_filename.startswith("<")


def ignored_parameters(function: Callable[..., Any]) -> set[str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    body = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    raises = all(isinstance(node, ast.Raise | ast.Expr) for node in tree.body[0].body)  # type: ignore[attr-defined]
    used = {node.id for node in body}
    return set() if raises else set(inspect.signature(function).parameters) - used - {"self", "cls"}


def test_no_public_function_ignores_a_parameter() -> None:
    found = {
        name: ignored
        for name, function in public_functions()
        if name.rpartition(".")[2] not in HOOKS and (ignored := ignored_parameters(function))
    }
    assert found == {}


def gridded(tag: str = "l.0") -> LoopKernel:
    unit = lp.make_kernel("{ [g, l]: 0 <= g < n and 0 <= l < 8 }", "out[g, l] = a[g, l]")
    return lp.tag_inames(unit, {"g": "g.0", "l": tag}).default_entrypoint


def test_sizes_of_the_grid_by_axis() -> None:
    groups, items = gridded().get_grid_size_upper_bounds_as_exprs(return_dict=True)
    assert (str(groups), items) == ("{0: Variable('n')}", {0: 8})


def test_automatic_axes_have_no_size_yet() -> None:
    with pytest.raises(lp.KernelError, match=r"'l' is tagged 'l.auto'"):
        gridded("l.auto").get_grid_size_upper_bounds()
    groups, items = gridded("l.auto").get_grid_size_upper_bounds(ignore_auto=True)
    assert (len(groups), items) == (1, ())


def calling() -> lp.TranslationUnit:
    double = lp.make_function("{ [i]: 0 <= i < 8 }", "y[i] = 2*x[i]", name="double")
    text = "[i]: b[i] = double([k]: a[k])"
    main = lp.make_kernel(
        "{ [i, k]: 0 <= i, k < 8 }", text, [lp.GlobalArg("a, b", "float32", shape=8)], name="main"
    )
    return lp.merge([main, lp.tag_inames(double, "i:l.0")])


def test_axes_of_called_kernels_are_not_forgotten() -> None:
    unit = calling()
    with pytest.raises(lp.KernelError, match="called kernel 'double' has loops on hardware axes"):
        unit["main"].get_grid_size_upper_bounds(unit.callables_table)


def test_calls_are_in_the_order() -> None:
    unit = calling()
    kernel = lp.get_one_linearized_kernel(unit["main"], unit.callables_table)
    assert "2*a[" in kernel.stringify("LINEARIZATION")


def test_calls_have_a_frame_of_two_lines() -> None:
    unit = calling()
    graph = lp.get_dot_dependency_graph(unit["main"], unit.callables_table)
    assert graph.count("peripheries=2") == 1


@pytest.mark.parametrize("version", [(2018, 2), (2018, 1), (2017, 2, 1)])
def test_versions_of_the_language(version: Any) -> None:
    lp.make_kernel("{ [i]: 0 <= i < 4 }", "out[i] = i", lang_version=version)


@pytest.mark.parametrize("version", [(2030, 1), "newest", 3])
def test_other_versions_are_refused(version: Any) -> None:
    with pytest.raises(lp.KgenError, match="lang_version=\\(2018, 2\\)"):
        lp.make_kernel("{ [i]: 0 <= i < 4 }", "out[i] = i", lang_version=version)


def test_types_that_are_needed() -> None:
    with pytest.raises(lp.KgenError, match="a data type is required"):
        to_kgen_type(None, allow_none=False)
    assert to_kgen_type(lp.auto) is None


def test_storage_has_no_more_bytes_than_allowed() -> None:
    temps = [
        lp.TemporaryVariable(
            name, "float32", shape=4, base_storage="st", address_space=lp.AddressSpace.PRIVATE
        )
        for name in "st"
    ]
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", "s[i] = 1\nt[i] = 2", [*temps, "..."])
    with pytest.raises(lp.TransformError, match="needs 16 bytes for temporary 's'"):
        lp.allocate_temporaries_for_base_storage(knl, max_nbytes=12)


def test_sizes_of_sub_groups_are_numbers() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", "out[i] = i", [lp.GlobalArg("out", "int32"), ...])
    with pytest.raises(lp.KernelError, match=r"the sub-group size is .*, not 'many'"):
        lp.get_synchronization_map(lp.tag_inames(knl, "i:l.0"), subgroup_size="many")


def doubled() -> lp.TranslationUnit:
    return lp.make_kernel(
        "{ [i]: 0 <= i < 4 }",
        "out[i] = 2*a[i]",
        [lp.GlobalArg("a, out", "float32", shape=4)],
        target=lp.ExecutableCTarget(),
    )


@pytest.mark.parametrize("options", [{"dump_binary": True}, {"max_test_kernel_count": 0}])
def test_options_of_tests_that_nothing_does(options: dict[str, Any]) -> None:
    with pytest.raises(lp.KgenError, match="hint: leave"):
        lp.auto_test_vs_ref(doubled(), None, quiet=True, **options)


def test_the_reference_stays_off_some_vendors(opencl_queue: Any) -> None:
    knl = doubled().copy(target=lp.PyOpenCLTarget())
    vendor = opencl_queue.device.platform.name
    with pytest.raises(lp.KgenError, match="the reference may not run on"):
        lp.auto_test_vs_ref(knl, opencl_queue.context, blacklist_ref_vendors=vendor)
    wrong: Any = SimpleNamespace(device="cpu")  # as an array of numpy 2 has it
    two: Any = 2
    with pytest.raises(lp.KgenError, match="the ctx is a context, a queue or None"):
        lp.auto_test_vs_ref(knl, wrong)
    with pytest.raises(lp.KgenError, match="blacklist_ref_vendors"):
        lp.auto_test_vs_ref(knl, opencl_queue.context, blacklist_ref_vendors=two)


def test_a_radix_sort_is_compiled_with_flags() -> None:
    sort = RadixSort("unsigned *x", "x[i]", ["x"], options=["-O1"])
    knl = sort.build(lp.ExecutableCTarget(), is_gpu=False)
    assert knl.default_entrypoint.options.build_options == ("-O1",)


def test_what_pyopencl_and_pycuda_have_besides() -> None:
    with pytest.raises(lp.KgenError, match="scan_kernel="):
        RadixSort("unsigned *x", "x[i]", ["x"], scan_kernel=GenericScanKernel)
    with pytest.raises(lp.KgenError, match="keep=True"):
        ElementwiseKernel("float *x", "x[i] = 0", keep=True)
    with pytest.raises(lp.KgenError, match="'cpu', which is not a device of the context"):
        InclusiveScanKernel(np.int32, "a+b", devices=["cpu"])
