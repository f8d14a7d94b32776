"""Every field of every frozen value counts: in equality, digests, JSON, pickles and Python."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import pickle
import pkgutil
from typing import Any

import pymbolic.primitives as p
import pytest

import kgen as lp
import kgen.ir
import kgen.targets
from kgen.ir.codec import decode, encode
from kgen.ir.fields import replace
from kgen.ir.grid import Grid

#: Fields that two equal values may differ in. An instruction's place in the text serves messages,
#: and is stored; of a device, its limits are content.
NOT_COMPARED = {"span", "device"}
NOT_STORED = {"device"}


def frozen_classes() -> list[type]:
    """Return the dataclasses of the IR and of the targets that nothing changes."""
    found: dict[str, type] = {}
    for package in (kgen.ir, kgen.targets):
        for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(info.name)
            for item in vars(module).values():
                params = getattr(item, "__dataclass_params__", None)
                if not isinstance(item, type) or issubclass(item, p.ExpressionNode):
                    continue
                is_constant = params is not None and (params.frozen or item is lp.Options)
                if is_constant and item.__module__ == info.name:
                    found[f"{item.__module__}.{item.__qualname__}"] = item
    return [found[name] for name in sorted(found)]


def made(of: type, /, **changes: Any) -> Any:
    """Return a value of a class with a text in each field."""
    value: Any = object.__new__(of)
    for field in dataclasses.fields(of):
        object.__setattr__(value, field.name, changes.get(field.name, "text"))
    return value


UNIT = lp.make_kernel("{ [i]: 0<=i<4 }", "a[i] = 1")


def program_with(value: Any) -> lp.TranslationUnit:
    rewrites = ({"key": value},)  # a field for values of any type
    return UNIT.map_kernels(lambda kernel: kernel.copy(applied_iname_rewrites=rewrites))


CASES = [(of, f.name) for of in frozen_classes() for f in dataclasses.fields(of) if f.init]


def test_the_walk_reaches_the_ir() -> None:
    assert {lp.LoopKernel, lp.TranslationUnit, lp.Assignment, lp.ArrayArg, lp.Options} <= {
        of for of, _ in CASES
    }


@pytest.mark.parametrize(("of", "field"), CASES, ids=lambda c: getattr(c, "__name__", c))
def test_a_changed_field_changes_all(of: type, field: str) -> None:
    value, same, other = made(of), made(of), made(of, **{field: "other"})
    whole, whole_same, whole_other = map(program_with, (value, same, other))
    assert value == same
    assert whole == whole_same
    assert encode(value) == encode(same)
    assert lp.t_unit_to_python(whole) == lp.t_unit_to_python(whole_same)
    assert (value != other) == (field not in NOT_COMPARED)
    assert (whole != whole_other) == (field not in NOT_COMPARED)
    assert (whole.digest() != whole_other.digest()) == (field not in NOT_COMPARED)
    texts = lp.t_unit_to_python(whole), lp.t_unit_to_python(whole_other)
    assert (texts[0] != texts[1]) == (field not in NOT_COMPARED)
    assert (encode(value) != encode(other)) == (field not in NOT_STORED)
    assert (getattr(copy.copy(other), field, None) == "other") == (field not in NOT_STORED)


@pytest.mark.parametrize("one", ["2*a[i]", "a[i] + 1", "a[i] > 1 and b[i] > 2"])
def test_numbers_of_other_types_are_other_content(one: str) -> None:
    other = one.replace("1", "1.0").replace("2", "2.0")
    first, second = (lp.make_kernel("{ [i]: 0<=i<4 }", f"out[i] = {e}") for e in (one, other))
    assert first != second
    assert first.digest() != second.digest()
    assert encode(first) != encode(second)


def test_functions_count_by_what_they_do() -> None:
    def generator(text: str) -> Any:
        return lambda info: [("key", text)]

    units = [lp.register_preamble_generators(UNIT, [generator(text)]) for text in "aab"]
    digests = [unit.digest() for unit in units]
    assert digests[0] == digests[1] != digests[2]


def test_reductions_count_by_their_attributes() -> None:
    class Sum(lp.ScalarReductionOperation):
        def neutral_element(self, *dtypes: Any, **more: Any) -> Any:
            return 0, None

        def __call__(
            self, dtypes: Any, operand1: Any, operand2: Any, callables_table: Any, target: Any
        ) -> Any:
            return operand1 + operand2, callables_table

    assert Sum("float32") == Sum("float32") != Sum("float64")
    assert Sum() != Sum("float64")


def test_devices_leave_their_limits() -> None:
    class Device:
        name, max_work_group_size, max_work_item_sizes, local_mem_size = "d", 64, [64, 64, 64], 1024

    target = lp.PyOpenCLTarget(Device())
    assert target != lp.PyOpenCLTarget()
    pickled = pickle.loads(pickle.dumps(target))  # noqa: S301
    for again in (decode(encode(target)), pickled):
        assert again == target
        assert again.limits() == target.limits()
        assert again.device is None


def test_the_offset_of_an_array_is_one_expression() -> None:
    with pytest.raises(lp.KgenError, match="offset of array 't' is one expression, not 'i,j'"):
        lp.TemporaryVariable("t", "float32", shape=4, offset="i,j")


def test_replace_keeps_fields_and_drops_what_follows_from_them() -> None:
    grid = Grid((), (), (), ())
    assert grid.analyses is grid.analyses
    other = replace(grid, locals=(8,))
    assert other == dataclasses.replace(grid, locals=(8,))
    assert "analyses" not in vars(other)
    with pytest.raises(TypeError, match="Grid has no field 'depth'"):
        replace(grid, depth=1)


def test_replace_makes_what_checks_its_fields_anew() -> None:
    with pytest.raises(lp.KgenError):
        replace(lp.GlobalArg("a", shape=(4,)), shape="(")
