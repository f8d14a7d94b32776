"""A Sphinx extension: what the site has beyond the pages of docs/ as they stand.

- The sections of docs/index.md become the tree of pages, in their order.
- docs/api.md says which names are public, by purpose; each of its sections becomes a page with the
  docstrings of its names.
- Each program in examples/ becomes a page, with its picture in examples/pictures/ if it has one.
- The tables of benchmarks have plots (tools/docs_plots.py).
- A line "[A](../a.py) beside [B](../b.py)" shows both programs side by side.
- Sessions with prompts are highlighted as such. Links to folders become text.

What is generated lies in docs/generated/.
"""

from __future__ import annotations

import ast
import inspect
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kgen
from tools.docs_plots import MARK

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
PICTURES = EXAMPLES / "pictures"
GENERATED = ROOT / "docs" / "generated"
#: The most characters of a title in the sidebar.
MAX_TITLE = 30
_SECTION = re.compile(r"^## (.*)\n((?:(?!## ).*\n?)*)", re.MULTILINE)
_PAGE_LINK = re.compile(r"^- \[([^\]]*)\]\(([\w./-]+)\.md\)", re.MULTILINE)
_NAME = re.compile(r"^- \[`(\w+)`\]\(([^)]*)\)", re.MULTILINE)
_EXAMPLE_LINK = re.compile(r"\]\((?:\.\./examples/)?(\w+)\.py\)")
_INNER_LINK = re.compile(r"\[([^\]]*)\]\((?:\w+|\w+/[\w.]+)\)")
_FOLDER_LINK = re.compile(r"\[`?([^\]`]*)`?\]\(\.\./(?:[\w.]+/)*\w+/?\)")
_BESIDE = re.compile(r"^\[(.*)\]\(\.\./(\S+)\) beside \[(.*)\]\(\.\./(\S+)\)$", re.MULTILINE)
_SESSION = re.compile(r"^```python\n(?=>>> )", re.MULTILINE)
_FILE = re.compile(r"^```(\w+) ([\w.]+)\n", re.MULTILINE)
#: Where pages are on the site, and what follows them there.
_ON_SITE = {
    "../examples/README": "generated/examples/index",
    "api": "api>\nDocstrings <generated/reference/index",
}
_CODE = """\
:::{{grid-item-card}} {}
```{{literalinclude}} /../{}
:language: python
```
:::
"""
_TREE = "```{{toctree}}\n:hidden:\n:caption: {}\n\n{}\n```\n"


def slug(title: str) -> str:
    """Return the name of the page of a section.

    >>> slug("Rules, precomputation")
    'rules-precomputation'
    """
    return re.sub(r"\W+", "-", title.lower()).strip("-")


def with_trees(index: str) -> str:
    """Append the trees of pages to the index: one for each section that lists pages."""
    trees = [
        _TREE.format(
            title, "\n".join(f"{name} <{_ON_SITE.get(page, page)}>" for name, page in pages)
        )
        for title, content in _SECTION.findall(index)
        if (pages := _PAGE_LINK.findall(content))
    ]
    return index + "\n" + "\n".join(trees)


def reference_pages(api: str) -> dict[str, str]:
    """Return the pages with docstrings: for each section of the list of public names, one."""
    pages = {}
    for title, content in _SECTION.findall(api):
        if names := [name for name, _ in _NAME.findall(content)]:
            entries = "\n".join(directive_of(name) for name in names)
            pages[slug(title)] = (
                f"{title}\n{'=' * len(title)}\n\n.. py:currentmodule:: kgen\n\n{entries}"
            )
    tree = "\n".join(f"   {page}" for page in pages)
    pages["index"] = f"Docstrings\n==========\n\n.. toctree::\n\n{tree}\n"
    return pages


def directive_of(name: str) -> str:
    """Return what inserts the docstring of a public name."""
    value = getattr(kgen, name)
    if inspect.isclass(value):
        return f".. autoclass:: kgen.{name}\n   :members:\n"
    kind = "function" if callable(value) else "data"
    return f".. auto{kind}:: kgen.{name}\n"


def text_of(example: Path) -> tuple[str, str]:
    """Return the title of a program, and the rest of what its docstring says, as reST."""
    text = ast.get_docstring(ast.parse(example.read_text())) or example.stem
    title, _, rest = text.partition("\n\n")
    rest = re.sub(r"\n\n(?=    \S)", "\n\n.. code-block:: console\n\n", f"\n\n{rest}")
    return " ".join(re.sub(r"^=+$", "", title, flags=re.MULTILINE).split()).rstrip("."), rest


def programs() -> list[Path]:
    """Return the examples."""
    return sorted(EXAMPLES.glob("*.py"))


def short_title(example: Path) -> str:
    """Return what stands for a program in the sidebar: its title, or its name."""
    title, _ = text_of(example)
    return title if len(title) <= MAX_TITLE else example.stem


def example_page(path: Path) -> str:
    """Return the page of a program: what its docstring says, its picture, its code."""
    title, rest = text_of(path)
    picture = "".join(
        f".. image:: /../examples/pictures/{found.name}\n   :alt: {title}\n\n"
        for found in pictures_of(path)
    )
    first = ast.parse(path.read_text()).body[1].lineno  # behind the docstring
    code = f".. literalinclude:: /../examples/{path.name}\n   :lines: {first}-\n"
    return f"{title}\n{'=' * len(title)}\n\n{rest}\n\n{picture}{code}"


def pictures_of(path: Path, folder: Path = PICTURES) -> list[Path]:
    """Return the pictures of a program."""
    return [found for kind in ("svg", "png") if (found := folder / f"{path.stem}.{kind}").exists()]


def gallery(readme: str, folder: Path = PICTURES) -> str:
    """Return the list of programs, with cards for those that have pictures."""
    cards = [
        f":::{{grid-item-card}} {text_of(path)[0]}\n:link: {path.stem}\n:link-type: doc\n"
        f":img-top: ../../../examples/pictures/{pictures_of(path, folder)[0].name}\n:::\n"
        for path in programs()
        if pictures_of(path, folder)
    ]
    grid = "".join(["::::{grid} 2 2 3 3\n:gutter: 3\n\n", *cards, "::::\n"]) if cards else ""
    pages = "\n".join(f"{short_title(path)} <{path.stem}>" for path in programs())
    tree = f"```{{toctree}}\n:hidden:\n\n{pages}\n```\n"
    text = _INNER_LINK.sub(r"`\1`", _EXAMPLE_LINK.sub(r"](\1.rst)", readme))
    before, heading, after = text.partition("## ")
    return f"{before}{grid}\n{heading}{after}\n{tree}"


def side_by_side(found: re.Match[str]) -> str:
    """Return two programs in one row, for links to them in a line of their own."""
    left, left_path, right, right_path = found.groups()
    codes = _CODE.format(left, left_path) + _CODE.format(right, right_path)
    return f"::::{{grid}} 1 1 2 2\n:gutter: 1\n:class-container: beside\n\n{codes}::::"


def rewritten(page: str, text: str) -> str:
    """Return the text of a page for the site.

    >>> print(rewritten("x", "[hand](../benchmarks/hand) [code](../examples/a.py)"))
    `hand` [code](generated/examples/a.rst)
    """
    if page == "index":
        text = with_trees(text)
    if page == "api":
        text = _NAME.sub(r"- {py:obj}`~kgen.\1` ([chapter](\2))", text)
    text = MARK.sub(r"![Plot of the table above](generated/plots/\1.svg)", text)
    text = _BESIDE.sub(side_by_side, text)
    text = _EXAMPLE_LINK.sub(r"](generated/examples/\1.rst)", text)
    text = text.replace("](../examples/README.md)", "](generated/examples/index.md)")
    text = _FOLDER_LINK.sub(r"`\1`", text)
    return _FILE.sub(r"```\1\n", _SESSION.sub("```pycon\n", text))


def generate(_app: Any = None) -> None:
    """Write the reference and the gallery."""
    shutil.rmtree(GENERATED, ignore_errors=True)
    examples = {f"{path.stem}.rst": example_page(path) for path in programs()}
    examples["index.md"] = gallery((EXAMPLES / "README.md").read_text())
    api = reference_pages((ROOT / "docs" / "api.md").read_text())
    write(GENERATED / "examples", examples)
    write(GENERATED / "reference", {f"{name}.rst": text for name, text in api.items()})


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files into a folder."""
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def on_source_read(_app: Any, page: str, source: list[str]) -> None:
    """Rewrite a page of docs/ before Sphinx reads it."""
    if not page.startswith("generated/"):
        source[0] = rewritten(page, source[0])


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect this extension."""
    app.connect("builder-inited", generate)
    app.connect("source-read", on_source_read)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
