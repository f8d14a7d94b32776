"""A Sphinx extension: what the site has beyond the pages of docs/ as they stand.

- The sections of docs/index.md and docs/contributing.md become the tree of pages, in their order.
- docs/api.md says which names are public, by purpose; each of its sections becomes a page with the
  docstrings of its names, and links to examples that use them.
- sphinx-gallery makes a page of each program in examples/; those that draw are run. Those in
  examples/gpu/ get their CUDA code and rates (tools/docs_gpu.py).
- Each folder that a page links to becomes a page with the files in it.
- The tables of benchmarks have plots (tools/docs_plots.py).
- A line "[A](../a.py) beside [B](../b.py)" shows both programs side by side.
- Sessions with prompts are highlighted as such.

What is generated lies in docs/generated/.
"""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Mapping
from functools import cache
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
GENERATED = ROOT / "docs" / "generated"
#: The most examples to which the docstring of a name links.
MAX_EXAMPLES = 5
_SECTION = re.compile(r"^## (.*)\n((?:(?!## ).*\n?)*)", re.MULTILINE)
_PAGE_LINK = re.compile(r"^- \[([^\]]*)\]\(([\w./-]+)\.md\)", re.MULTILINE)
_NAME = re.compile(r"^- \[`(\w+)`\]\(([^)]*)\)", re.MULTILINE)
_EXAMPLE_LINK = re.compile(r"\]\((?:\.\./examples/)?((?:gpu/)?\w+)\.py\)")
_README_LINK = re.compile(r"\]\(\.\./(examples(?:/\w+)*)/README\.md\)")
_COMMAND = re.compile(r"\n\n(?=    (?:python|mpiexec) )")
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
    """Append the trees of pages to a page: one for each section that lists pages."""
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
    found = examples_with(name)
    links = f"\n   Examples: {', '.join(found[:MAX_EXAMPLES])}\n" if found else ""
    if inspect.isclass(value):
        return f".. autoclass:: kgen.{name}\n   :members:\n{links}"
    kind = "function" if callable(value) else "data"
    return f".. auto{kind}:: kgen.{name}\n{links}"


def examples_with(name: str) -> list[str]:
    """Return links to the programs whose code has a public name, as reST."""
    return [
        f":doc:`{text.splitlines()[1]} </generated/{path.relative_to(ROOT).with_suffix('')}>`"
        for path, text in _texts_of_examples().items()
        if re.search(rf"\blp\.{name}\b", text)
    ]


@cache
def _texts_of_examples() -> Mapping[Path, str]:
    return {path: path.read_text() for path in sorted(EXAMPLES.glob("**/*.py"))}


def programs_that_draw() -> list[str]:
    """Return the names of the examples that have a picture, which sphinx-gallery takes."""
    texts = _texts_of_examples()
    return [path.name for path, text in texts.items() if "draw(given.picture" in text]


def asking_for_a_picture(*_: Any) -> list[str]:
    """Return the command line with which sphinx-gallery runs an example."""
    return ["--picture"]


def table_of(folder: Path) -> str:
    """Return what the README of a folder of examples says, for the page with their pictures."""
    text = _EXAMPLE_LINK.sub(r"](\1.rst)", (folder / "README.md").read_text())
    text = re.sub(r"\]\((gpu|cxx_host)\)", r"](\1/index.rst)", text)
    return text.partition("\n")[2].replace("](../../docs/", "](../../../")


def gpu_part(path: Path) -> str:
    """Return what follows on the page of an example for GPUs; write the files that it shows."""
    parts = docs_gpu.parts_of(path, docs_gpu.figures_in())
    text = parts.pop("")
    for name, code in parts.items():
        (GENERATED / "examples" / "gpu" / name).write_text(code)
    return f"\n{text}\n"


def folder_pages() -> dict[str, str]:
    """Return a page for each folder to which pages link, with the files in it."""
    pages = [*(ROOT / "docs").glob("*.md"), EXAMPLES / "README.md"]
    linked = {found for page in pages for found in folders_in(page)}
    return {page_of(folder): folder_page(folder) for folder in linked if not has_page(folder)}


def folders_in(page: Path) -> set[Path]:
    """Return the folders to which a page links, relative to the root."""
    targets = re.findall(r"\]\(((?:\.\./)?(?:\w+/)*\w+)\)", page.read_text())
    found = {(page.parent / target).resolve() for target in targets}
    return {path.relative_to(ROOT) for path in found if path.is_dir()}


def page_of(folder: Path) -> str:
    """Return the page of a folder, among those that are generated.

    >>> page_of(Path("examples/gpu")), page_of(Path("benchmarks/hand"))
    ('examples/gpu/index.rst', 'folders/benchmarks-hand.rst')
    """
    if has_page(folder):
        return f"{folder}/index.rst"
    return f"folders/{'-'.join(folder.parts)}.rst"


def has_page(folder: Path) -> bool:
    """Tell whether a folder has a page of its own, as those of examples have."""
    return (ROOT / folder / "index.rst").exists()


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
    if page in ("index", "contributing"):
        text = with_trees(text)
    if page == "api":
        text = _NAME.sub(r"- {py:obj}`~kgen.\1` ([chapter](\2))", text)
    text = MARK.sub(r"![Plot of the table above](generated/plots/\1.svg)", text)
    text = _BESIDE.sub(side_by_side, text)
    text = _EXAMPLE_LINK.sub(r"](generated/examples/\1.rst)", text)
    text = _README_LINK.sub(r"](generated/\1/index.rst)", text)
    text = _FOLDER_LINK.sub(lambda found: f"](generated/{page_of(Path(found[1]))})", text)
    return _FILE.sub(r"```\1\n", _SESSION.sub("```pycon\n", text))


def generate(_app: Any = None) -> None:
    """Write the reference, the tables of examples, and the pages of folders."""
    remove_stale()
    api = reference_pages((ROOT / "docs" / "api.md").read_text())
    tables = {f"{folder.name}.md": table_of(folder) for folder in (EXAMPLES, docs_gpu.FOLDER)}
    write(GENERATED / "_tables", tables)
    write(GENERATED, folder_pages())
    write(GENERATED / "reference", {f"{name}.rst": text for name, text in api.items()})


def remove_stale(generated: Path = GENERATED) -> None:
    """Remove what an earlier build has made, but for the pages of programs that are still there."""
    for folder in set(generated.glob("[!_]*")) - {generated / EXAMPLES.name}:
        shutil.rmtree(folder)
    for page in (generated / EXAMPLES.name).glob("**/*.*"):
        source = EXAMPLES.parent / page.relative_to(generated)
        is_page = page.suffix in (".rst", ".md")
        if is_page and not (source.exists() or source.with_suffix(".py").exists()):
            page.unlink()


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files into a folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def on_source_read(_app: Any, page: str, source: list[str]) -> None:
    """Rewrite a page of docs/, or complete that of an example, before Sphinx reads it."""
    folder, _, name = page.rpartition("/")
    if not page.startswith("generated/"):
        source[0] = rewritten(page, source[0])
    elif folder.startswith("generated/examples"):
        source[0] = _COMMAND.sub("\n\n.. code-block:: console\n\n", source[0])
    if folder == "generated/examples/gpu" and name != "index":
        source[0] += gpu_part(docs_gpu.FOLDER / f"{name}.py")


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect this extension."""
    app.connect("builder-inited", generate)
    app.connect("source-read", on_source_read)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
