"""Write docs/files.md: every file below kgen/ with the first sentence of its docstring.

The folders come in the order in which they may import (tests/test_layering.py). Run it after adding
or renaming a file; a test fails while the page is not what this writes.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "files.md"
LAYERS = [
    *("errors.py", "ir", "analysis", "transforms", "schedule", "ast", "targets", "lowering.py"),
    *(
        "codegen.py",
        "launches",
        "statistics",
        "host",
        "runtime",
        "exporters",
        "performance",
        "library",
        "draw",
    ),
]
HEAD = """\
# The files of kgen, one sentence each

Written by `tools/files_md.py` from the files' docstrings. The folders are in the order in which
they may import: each only from those above it (`transforms` and `schedule` not from each other).

"""


def rank(path: Path) -> tuple[int, bool, str]:
    """Return what to sort by: the layer, then a folder's __init__ before its modules.

    What is in no layer, such as the entry points of users, comes last.
    """
    inside = path.relative_to(ROOT / "kgen")
    layer = LAYERS.index(inside.parts[0]) if inside.parts[0] in LAYERS else len(LAYERS)
    return layer, path.name != "__init__.py", str(inside)


def sentence_of(path: Path) -> str:
    """Return the first sentence of a module's docstring; ValueError where there is none."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    paragraph = text.partition("\n\n")[0].replace("\n", " ").replace("``", "`")
    sentence = re.split(r"(?<=\.) (?=[A-Z])", paragraph)[0]
    if not sentence.endswith("."):
        raise ValueError(f"{path.relative_to(ROOT)} has no docstring that begins with a sentence")
    return sentence


def render() -> str:
    """Return the page's text."""
    paths = sorted((ROOT / "kgen").rglob("*.py"), key=rank)
    lines = [f"- `{path.relative_to(ROOT)}`: {sentence_of(path)}" for path in paths]
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render())
