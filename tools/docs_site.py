"""A Sphinx extension: what the site has beyond the pages of docs/ as they stand.

- The sections of docs/index.md become the tree of pages, in their order.
- docs/api.md says which names are public, by purpose; each of its sections becomes a page with the
  docstrings of its names.
- Each program in examples/ becomes a page, with its picture in examples/pictures/ if it has one;
  those in examples/gpu/ with their CUDA code and rates (tools/docs_gpu.py).
- Each folder that a page links to becomes a page with the files in it.
- The tables of benchmarks have plots (tools/docs_plots.py).
- A line "[A](../a.py) beside [B](../b.py)" shows both programs side by side.
- Sessions with prompts are highlighted as such.

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

from pygments.lexers import TextLexer, find_lexer_class_for_filename

import kgen
from tools import docs_gpu
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
_EXAMPLE_LINK = re.compile(r"\]\((?:\.\./examples/)?((?:gpu/)?\w+)\.py\)")
_FOLDER_LINK = re.compile(r"\]\(\.\./((?:\w+/)*\w+)\)")
_BESIDE = re.compile(r"^\[(.*)\]\(\.\./(\S+)\) beside \[(.*)\]\(\.\./(\S+)\)$", re.MULTILINE)
_SESSION = re.compile(r"^```python\n(?=>>> )", re.MULTILINE)
_FILE = re.compile(r"^```(\w+) ([\w.]+)\n", re.MULTILINE)
#: Where pages are on the site, and what follows them there.
_ON_SITE = {
    "../examples/README": "generated/examples/index",
    "../examples/gpu/README": "generated/examples/gpu/index",
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


def programs(folder: Path = EXAMPLES) -> list[Path]:
    """Return the examples in a folder."""
    return sorted(folder.glob("*.py"))


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
    code = f"{included(path)}   :lines: {first}-\n"
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
    text = _EXAMPLE_LINK.sub(r"](\1.rst)", readme).replace("](gpu)", "](gpu/index.md)")
    text = re.sub(r"\]\((\w+)\)", r"](../folders/examples-\1.rst)", text)
    before, heading, after = text.partition("## ")
    tree = tree_of({short_title(path): path.stem for path in programs()})
    return f"{before}{grid}\n{heading}{after}\n{tree}"


def tree_of(pages: Mapping[str, str]) -> str:
    """Return a tree of pages, by title, that is seen in the sidebar alone."""
    entries = "\n".join(f"{title} <{page}>" for title, page in pages.items())
    return f"```{{toctree}}\n:hidden:\n\n{entries}\n```\n"


def gpu_pages(figures: Mapping[str, Any]) -> dict[str, str]:
    """Return the pages of the examples for GPUs, and the files that they show."""
    pages = {}
    for path in programs(docs_gpu.FOLDER):
        parts = docs_gpu.parts_of(path, figures)
        pages[f"{path.stem}.rst"] = f"{example_page(path)}\n{parts.pop('')}"
        pages |= parts
    text = _EXAMPLE_LINK.sub(r"](\1.rst)", (docs_gpu.FOLDER / "README.md").read_text())
    text = text.replace("](../../docs/", "](../../../")
    tree = tree_of({path.stem: path.stem for path in programs(docs_gpu.FOLDER)})
    return {**pages, "index.md": f"{text}\n{tree}"}


def folder_pages() -> dict[str, str]:
    """Return a page for each folder to which pages link, with the files in it."""
    pages = [*(ROOT / "docs").glob("*.md"), EXAMPLES / "README.md"]
    linked = {found for page in pages for found in folders_in(page)}
    return {f"{str(folder).replace('/', '-')}.rst": folder_page(folder) for folder in linked}


def folders_in(page: Path) -> set[Path]:
    """Return the folders to which a page links, relative to the root."""
    targets = re.findall(r"\]\(((?:\.\./)?(?:\w+/)*\w+)\)", page.read_text())
    found = {(page.parent / target).resolve() for target in targets}
    return {path.relative_to(ROOT) for path in found - {docs_gpu.FOLDER} if path.is_dir()}


def folder_page(folder: Path) -> str:
    """Return the page of a folder."""
    text = f":orphan:\n\n{folder}\n{'=' * len(str(folder))}\n"
    for path in sorted(path for path in (ROOT / folder).iterdir() if path.is_file()):
        text += f"\n{path.name}\n{'-' * len(path.name)}\n\n"
        text += included(path)
    return text


def included(path: Path) -> str:
    """Return what shows a file in the colours of its language."""
    language = find_lexer_class_for_filename(path.name) or TextLexer
    return (
        f".. literalinclude:: /../{path.relative_to(ROOT)}\n   :language: {language.aliases[0]}\n"
    )


def side_by_side(found: re.Match[str]) -> str:
    """Return two programs in one row, for links to them in a line of their own."""
    left, left_path, right, right_path = found.groups()
    codes = _CODE.format(left, left_path) + _CODE.format(right, right_path)
    return f"::::{{grid}} 1 1 2 2\n:gutter: 1\n:class-container: beside\n\n{codes}::::"


def rewritten(page: str, text: str) -> str:
    """Return the text of a page for the site.

    >>> print(rewritten("x", "[hand](../benchmarks/hand) [code](../examples/a.py)"))
    [hand](generated/folders/benchmarks-hand.rst) [code](generated/examples/a.rst)
    """
    if page == "index":
        text = with_trees(text)
    if page == "api":
        text = _NAME.sub(r"- {py:obj}`~kgen.\1` ([chapter](\2))", text)
    text = MARK.sub(r"![Plot of the table above](generated/plots/\1.svg)", text)
    text = _BESIDE.sub(side_by_side, text)
    text = _EXAMPLE_LINK.sub(r"](generated/examples/\1.rst)", text)
    text = re.sub(
        r"\]\(\.\./examples/(gpu/)?README\.md\)", r"](generated/examples/\1index.md)", text
    )
    text = _FOLDER_LINK.sub(
        lambda found: f"](generated/folders/{found[1].replace('/', '-')}.rst)", text
    )
    return _FILE.sub(r"```\1\n", _SESSION.sub("```pycon\n", text))


def generate(_app: Any = None) -> None:
    """Write the reference and the gallery."""
    shutil.rmtree(GENERATED, ignore_errors=True)
    examples = {f"{path.stem}.rst": example_page(path) for path in programs()}
    examples["index.md"] = gallery((EXAMPLES / "README.md").read_text())
    api = reference_pages((ROOT / "docs" / "api.md").read_text())
    write(GENERATED / "examples", examples)
    write(GENERATED / "examples" / "gpu", gpu_pages(docs_gpu.figures_in()))
    write(GENERATED / "folders", folder_pages())
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
