"""The public names: the page that lists them, their docstrings, and the tests that use them."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import kgen as lp
from tests.test_docstrings import examples_in

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


class Row(NamedTuple):
    """One name on the page."""

    name: str
    chapter: str
    meaning: str


PAGE = (DOCS / "api.md").read_text()
ROWS = [
    Row(*found)
    for found in re.findall(
        r"^- \[`(\w+)`\]\(([\w.]+\.md)(?:#[\w-]+)?\): (.+\.)$", PAGE, re.MULTILINE
    )
]
NAMES = [row.name for row in ROWS]


OWN_PAGE = (DOCS / "writing_transformations.md").read_text()
OWN_NAMES = re.findall(r"^- `(\w+)`: .+\.$", OWN_PAGE, re.MULTILINE)


def documented(name: str) -> Any:
    """Return what has the docstring of a public name: itself, or the type of a constant."""
    value = getattr(lp, name)
    return value if callable(value) or isinstance(value, ModuleType) else type(value)


@cache
def examples_of(module: str) -> frozenset[str]:
    """Return the names in a module whose docstrings have examples, which test_docstrings runs."""
    return frozenset(test.name for test in examples_in(importlib.import_module(module)))


@cache
def words_in_tests() -> frozenset[str]:
    """Return all words in tests, without this one and examples of documentation."""
    paths = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    return frozenset(word for path in paths for word in re.findall(r"\w+", path.read_text()))


@cache
def words_in(chapter: str) -> frozenset[str]:
    """Return all words of a page."""
    return frozenset(re.findall(r"\w+", (DOCS / chapter).read_text()))


def test_every_line_of_the_page_is_a_name() -> None:
    assert len(ROWS) == PAGE.count("\n- ")
    assert len(set(NAMES)) == len(NAMES)


def test_the_page_has_all_public_names_and_no_others() -> None:
    assert sorted(NAMES) == sorted(lp.__all__)


def check_has_example(thing: Any) -> None:
    """Check for a docstring of its own with an example, which test_docstrings runs."""
    assert thing.__doc__
    if not isinstance(thing, ModuleType):
        place = f"{thing.__module__}.{thing.__qualname__}"
        assert place in examples_of(thing.__module__), f"{place} has no example"


def test_the_page_about_transformations_has_all_names_for_them() -> None:
    assert sorted(OWN_NAMES) == sorted(lp.transform_api.__all__)


@pytest.mark.parametrize("name", OWN_NAMES)
def test_name_for_transformations(name: str) -> None:
    check_has_example(getattr(lp.transform_api, name))
    assert name in words_in_tests(), "no test uses it"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_name(row: Row) -> None:
    """Each has a docstring of its own with an example that runs, a test, and a chapter."""
    check_has_example(documented(row.name))
    assert row.name in words_in_tests(), "no test uses it"
    assert row.name in words_in(row.chapter), f"{row.chapter} does not mention it"
