"""Recipes and pages agree with pyproject.toml."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from kgen.ir.optional import DISTRIBUTION
from kgen.version import VERSION_TEXT

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RECIPE = (ROOT / "packaging" / "recipe.yaml").read_text()


def test_the_distribution_is_called_the_same_everywhere() -> None:
    assert PROJECT["project"]["name"] == DISTRIBUTION == "kgen-loops"
    assert f"name: {DISTRIBUTION}\n" in RECIPE
    assert DISTRIBUTION in PROJECT["tool"]["pixi"]["pypi-dependencies"]


def test_versions_are_the_same_everywhere() -> None:
    assert PROJECT["project"]["version"] == VERSION_TEXT
    assert f'version: "{VERSION_TEXT}"\n' in RECIPE
    assert f"kgen_loops-{VERSION_TEXT}-py3" in (ROOT / "docs" / "install.md").read_text()


def test_the_recipe_needs_what_the_wheel_needs() -> None:
    needed = RECIPE.partition("  run:\n")[2].partition("\ntests:")[0]
    packages = set(re.findall(r"- (\S+) >=(\S+)", needed)) - {("python", "3.11")}
    assert packages == {tuple(line.split(">=")) for line in PROJECT["project"]["dependencies"]}


def test_the_page_about_installation_lists_the_extras() -> None:
    page = (ROOT / "docs" / "install.md").read_text()
    extras = PROJECT["project"]["optional-dependencies"]
    assert [name for name in extras if f"`{name}`" not in page] == []


def test_containers_install_extras_that_exist() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    texts = (ROOT / "Dockerfile").read_text(), container["postCreateCommand"]
    for text in texts:
        extras = set(re.findall(r"\.\[([\w,]+)\]", text)[0].split(","))
        assert extras <= PROJECT["project"]["optional-dependencies"].keys()
