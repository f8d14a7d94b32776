"""What the site has beyond its pages: trees, the reference, the gallery."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import harness
import pytest

import kgen as lp
from tests.test_examples import SMALL
from tools import docs_gpu, docs_plots, docs_site

ROOT = Path(__file__).parent.parent
API = (ROOT / "docs" / "api.md").read_text()
INDEX = (ROOT / "docs" / "index.md").read_text()


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(docs_site) == (0, 3)
    assert doctest.testmod(docs_plots) == (0, 2)


def test_trees_have_the_sections_of_the_index_in_their_order() -> None:
    trees = docs_site.with_trees("## One\n\n- [A](a.md): x.\n- [B](b.md): y.\n\n## None\n\nText.\n")
    assert re.findall(r":caption: (.*)\n\n(.*)\n(.*)\n", trees) == [("One", "A <a>", "B <b>")]


def test_reference_has_every_public_name_once() -> None:
    pages = docs_site.reference_pages(API)
    names = re.findall(r"^\.\. auto\w+:: kgen\.(\w+)$", "\n".join(pages.values()), re.MULTILINE)
    assert sorted(names) == sorted(lp.__all__)


def test_docstrings_link_to_examples() -> None:
    link = ":doc:`Game of Life </generated/examples/life>`"
    assert link in docs_site.directive_of("autoschedule")
    assert link not in docs_site.examples_with("auto")
    assert "Examples" not in docs_site.directive_of("VERSION")


def test_every_example_has_a_title_for_its_page() -> None:
    for path in (ROOT / "examples").glob("**/*.py"):
        _, title, line, blank, *_ = path.read_text().splitlines()
        assert (line, blank) == ("=" * len(title), ""), path


def test_programs_that_draw_are_run_for_the_site(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sorted(docs_site.programs_that_draw()) == sorted(SMALL)
    pyplot = pytest.importorskip("matplotlib.pyplot")
    shown: list[str] = []
    monkeypatch.setattr(pyplot, "show", lambda: shown.append("figure"))
    given = harness.parse("", docs_site.asking_for_a_picture())
    harness.draw(given.picture, lambda plt: shown.append("drawn"))
    assert shown == ["drawn", "figure"]


def test_examples_for_gpus_have_code_and_rates() -> None:
    path = docs_gpu.FOLDER / "sparse_rows.py"
    case, *_ = docs_gpu.cases_of(path)
    seconds = {"kgen": 0.5, "PyTorch": 1.0}
    figures = {"device": "a GPU", "rates": {"copy": 4e8}, "seconds": {case.title: seconds}}
    parts = docs_gpu.parts_of(path, figures)
    rate = case.work(case.size) / 0.5
    assert f"   * - kgen\n     - {rate / 1e9:.4g}\n     - {rate / 4e8:.2f}\n" in parts[""]
    assert "__global__" in parts["sparse_rows-0.cu"]
    assert "list-table" not in docs_gpu.parts_of(path, {})[""]


def test_links_to_folders_lead_to_pages() -> None:
    pages = docs_site.folder_pages()
    text = docs_site.rewritten("x", "[hand](../benchmarks/hand)")
    assert text == "[hand](generated/folders/benchmarks-hand.rst)"
    files = {path.name for path in (ROOT / "benchmarks" / "hand").iterdir() if path.is_file()}
    assert all(f"/{name}\n" in pages["folders/benchmarks-hand.rst"] for name in files)


def test_tables_of_examples_link_to_their_pages() -> None:
    text = docs_site.table_of(ROOT / "examples")
    links = set(re.findall(r"\]\(([^)]*)\)", text))
    assert {"life.rst", "gpu/tensor_product.rst", "gpu/index.rst", "cxx_host/index.rst"} <= links
    assert not text.startswith("#")


def test_pages_of_programs_that_are_gone_are_removed(tmp_path: Path) -> None:
    kept = ["examples/life.rst", "examples/life.py.md5", "examples/gpu/index.rst"]
    stale = ["examples/index.md", "examples/gone.rst", "folders/a.rst"]
    docs_site.write(tmp_path, dict.fromkeys(kept + stale, ""))
    docs_site.remove_stale(tmp_path)
    assert all((tmp_path / name).exists() for name in kept)
    assert not any((tmp_path / name).exists() for name in stale)


def test_code_is_no_link() -> None:
    code = "```python\n>>> knl['x'](queue)[0](n)\n```\n"
    assert docs_site.rewritten("x", code) == code.replace("python", "pycon")


def test_programs_stand_side_by_side() -> None:
    text = docs_site.rewritten("x", "[A](../benchmarks/a.py) beside [B](../benchmarks/b.py)\n")
    assert re.findall(r"literalinclude} (.*)", text) == [
        "/../benchmarks/a.py",
        "/../benchmarks/b.py",
    ]


def test_every_plot_has_a_table_with_its_columns() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("svg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    drawn = []
    for page in (ROOT / "docs").glob("benchmarks*.md"):
        text = page.read_text()
        for mark in docs_plots.MARK.finditer(text):
            axes = pyplot.figure().subplots()
            docs_plots.PLOTS[mark[1]][0](axes, docs_plots.rows_before(text, mark.start()))
            assert axes.patches or axes.lines
            drawn.append(mark[1])
    assert sorted(drawn) == sorted(docs_plots.PLOTS)
