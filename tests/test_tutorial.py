"""The documentation's examples, run as they stand: ``docs/*.md``, each page's blocks in order.

A block ``python`` is a session with prompts; one of ``python NAME``, or of another language, is a
file of that name, which is written; one of ``console`` has commands behind ``$``, and what they
print: kgen's run in this process. A page runs in a folder of its own.

``--update-docs`` writes what the examples print now into the pages.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kgen as lp
from kgen.cli import main

DOCS = Path(__file__).parent.parent / "docs"
_FIRST_LINE = r"^```(?:(python|console)|\w+(?= ))(?: ([\w.]+))?\n"
_BLOCK = re.compile(_FIRST_LINE + "(.*?)^```$", re.DOTALL | re.MULTILINE)
_PROMPTS = (">>>", "...")
_STACK = re.compile(r"Traceback \(most recent call last\):\n(?:\s.*\n)*")


def sessions(text: str) -> list[doctest.Example]:
    """Return the examples in the blocks of a page; a block of Python is a session with ``>>>``.

    Unlike in docstrings an output may hold empty lines: it goes on to the next prompt.
    """
    examples = []
    for block in _BLOCK.finditer(text):
        language, file, content = block.groups()
        first_line = text.count("\n", 0, block.start(3))
        if file is not None:
            found = [doctest.Example(f"write({file!r}, {content!r})\n", "")]
        elif language == "console":
            found = _commands(content)
        elif content.startswith(">>>"):
            session = "\n".join(_with_blank_lines(content.rstrip().split("\n"))) + "\n"
            found = doctest.DocTestParser().get_examples(session)
        else:
            raise ValueError(f"line {first_line + 1}: a Python block begins with '>>>'")
        for example in found:
            example.lineno += first_line
            examples.append(example)
    return examples


def _commands(content: str) -> list[doctest.Example]:
    """Return the commands of a block, and what they print."""
    lines = content.split("\n")[:-1]
    starts = [k for k, line in enumerate(lines) if line.startswith("$ ")]
    found = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        printed = "\n".join(lines[start + 1 : end]).rstrip()
        source = f"typed({lines[start].removeprefix('$ ')!r})\n"
        found.append(doctest.Example(source, printed and f"{printed}\n", lineno=start))
    return found


def typed(command: str) -> None:
    """Run a command, and print what it prints, or why it fails."""
    program, *words = shlex.split(command)
    if program != "kgen":
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        print(done.stderr if done.returncode else done.stdout, end="")
        return
    result = CliRunner().invoke(main, words, prog_name="kgen", catch_exceptions=False)
    print(result.stderr if result.exit_code else result.stdout, end="")


def write(file: str, content: str) -> None:
    """Write a file of a page."""
    Path(file).write_text(content)


def _with_blank_lines(lines: list[str]) -> Iterator[str]:
    """Mark the empty lines inside outputs as doctest wants them marked."""
    in_output = False
    for k, line in enumerate(lines):
        in_output = not line.startswith(">>>") and (in_output or not line.startswith(_PROMPTS))
        following = next((later for later in lines[k:] if later.strip()), ">>>")
        inside = in_output and not line.strip() and not following.startswith(">>>")
        yield "<BLANKLINE>" if inside else line


class Runner(doctest.DocTestRunner):
    """Runs the examples of a page and keeps what they print where that is not what it says."""

    def __init__(self) -> None:
        super().__init__(optionflags=doctest.ELLIPSIS)
        self.printed: list[tuple[doctest.Example, str]] = []

    def report_failure(
        self, out: Callable[[str], Any], test: doctest.DocTest, example: doctest.Example, got: str
    ) -> None:
        """Keep the output, an exception's without its stack."""
        self.printed.append((example, _STACK.sub(f"{_HEADER}\n  ...\n", got)))
        super().report_failure(out, test, example, got)


_HEADER = "Traceback (most recent call last):"


def updated(text: str, printed: list[tuple[doctest.Example, str]]) -> str:
    """Put what was printed into a page."""
    lines = text.split("\n")
    for example, got in reversed(printed):
        start = example.lineno + example.source.count("\n")
        lines[start : start + example.want.count("\n")] = got.rstrip("\n").split("\n")
    return "\n".join(lines)


PORTING = (DOCS / "porting.md").read_text()
PAGES = {path.name: sessions(path.read_text()) for path in sorted(DOCS.glob("*.md"))}


@pytest.mark.parametrize("name", [name for name, examples in PAGES.items() if examples])
def test_page_shows_what_happens(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sources = [example.source for example in PAGES[name]]
    monkeypatch.chdir(tmp_path)  # files that a page writes
    if any(source.startswith(("typed(", "write(")) for source in sources):
        monkeypatch.setattr(sys, "path", [*sys.path])
        for variable, found in {
            "PATH": Path(sys.executable).parent,
            "PYTHONPATH": DOCS.parent,
        }.items():
            monkeypatch.setenv(
                variable, os.pathsep.join([str(found), os.environ.get(variable, "")])
            )
        monkeypatch.setenv("KGEN_CACHE_DIR", str(tmp_path / "cache"))  # which a page may clear
    if any("cmake -S" in source for source in sources):
        request.getfixturevalue("cmake")
    if any("opencl" in source and not source.startswith("write(") for source in sources):
        queue = request.getfixturevalue("opencl_queue")
        # create_some_context(interactive=False) takes the device of this platform
        monkeypatch.setenv("PYOPENCL_CTX", queue.device.platform.name)
    page = DOCS / name
    runner = Runner()
    names = {"typed": typed, "write": write}
    failed, attempted = runner.run(doctest.DocTest(PAGES[name], names, name, str(page), 0, None))
    if request.config.getoption("--update-docs"):
        page.write_text(updated(page.read_text(), runner.printed))
        failed -= len(runner.printed)
    assert (failed, attempted) == (0, len(PAGES[name]))


NO_EXAMPLES = {
    "api.md",
    "architecture.md",
    "benchmarks.md",
    "benchmarks_gpu.md",
    "files.md",
    "compare_devito.md",
    "compare_halide.md",
    "compare_kernel_tuner.md",
    "compare_loopy.md",
    "compare_numba.md",
    "compare_triton.md",
    "contributing.md",
    "faq.md",
    "glossary.md",
    "gpu.md",
    "index.md",
    "install.md",
    "pocl.md",
    "nvcc.md",
    "random_tests.md",
}


@pytest.mark.parametrize("name", sorted(PAGES.keys() - NO_EXAMPLES))
def test_page_has_examples(name: str) -> None:
    assert len(PAGES[name]) > 5


def pages_linked_from(name: str) -> set[str]:
    """Return the pages to which a page links."""
    return set(re.findall(r"\]\(([\w.]+\.md)(?:#[\w-]+)?\)", (DOCS / name).read_text()))


def test_index_leads_to_every_page() -> None:
    found, following = set[str](), {"index.md"}
    while following:
        found |= following
        following = {page for name in following for page in pages_linked_from(name)} - found
    assert found == set(PAGES)


FOR_CONTRIBUTORS = {"files.md", "gpu.md", "random_tests.md"}  # lists of files, tables of tests


def test_index_has_every_page_for_users() -> None:
    assert pages_linked_from("index.md") == PAGES.keys() - FOR_CONTRIBUTORS - {"index.md"}
    assert pages_linked_from("contributing.md") >= FOR_CONTRIBUTORS


EMPTY_THERE = [
    "Implementing Array Axes",
    "Tagged prefetching",
    "Substitution rules",
    "Generic Precomputation",
    "Barriers",
    "SCOP",
    "Data-dependent control flow",
    "Conditionals",
    "Snippets of C",
]


@pytest.mark.parametrize("title", EMPTY_THERE)
def test_section_that_loopy_leaves_empty_has_examples(title: str) -> None:
    row = re.search(rf"^\| {title} \| .*\]\(([\w.]+)(#[\w-]+)?\) \|$", PORTING, re.MULTILINE)
    assert row is not None
    name, anchor = row.groups()
    section = (DOCS / name).read_text()
    if anchor is not None:
        sections = re.split(r"^(?=## )", section, flags=re.MULTILINE)
        (section,) = (s for s in sections if anchor_of(s.partition("\n")[0]) == anchor)
    assert len(sessions(section)) >= 3


def anchor_of(heading: str) -> str:
    """Return what a heading is called in links."""
    return "#" + heading.lstrip("# ").lower().replace(" ", "-")


def test_every_transformation_is_described() -> None:
    text = (DOCS / "transformations.md").read_text()
    public = [name for name in dir(lp) if callable(getattr(lp, name))]
    ours = [n for n in public if getattr(lp, n).__module__.startswith("kgen.transforms.")]
    assert len(ours) > 30
    assert [name for name in ours if f"`{name}" not in text and f"### {name}" not in text] == []


PAGE = """Text.

```python
>>> for k in range(2):
...     print(k, end="\\n\\n")
0

1

>>> x = 1

>>> x
1
```
"""


def test_output_goes_on_to_the_next_prompt() -> None:
    loop, assignment, value = sessions(PAGE)
    assert loop.want == "0\n<BLANKLINE>\n1\n"
    assert (assignment.want, value.want) == ("", "1\n")
    assert loop.lineno == 3


COMMANDS = """Text.

```python two.py
import kgen as lp
```

```console
$ kgen --version
kgen, version 1

$ kgen show two.py:a
```
"""


def test_files_are_written_and_commands_typed() -> None:
    file, version, show = sessions(COMMANDS)
    assert file.source == "write('two.py', 'import kgen as lp\\n')\n"
    assert (version.source, version.want) == ("typed('kgen --version')\n", "kgen, version 1\n")
    assert (show.source, show.want) == ("typed('kgen show two.py:a')\n", "")
    assert COMMANDS.split("\n")[show.lineno] == "$ kgen show two.py:a"


def test_block_without_a_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="line 2: a Python block begins with '>>>'"):
        sessions("```python\nprint(1)\n```\n")


def test_update_writes_what_is_printed() -> None:
    changed = PAGE.replace("x = 1", "x = 2").replace("range(2)", "range(3)")
    runner = Runner()
    runner.run(doctest.DocTest(sessions(changed), {}, "page", None, 0, None), out=str)
    assert [got for _, got in runner.printed] == ["0\n\n1\n\n2\n\n", "2\n"]
    right = changed.replace("\n1\n\n>>>", "\n1\n\n2\n\n>>>").replace(">>> x\n1", ">>> x\n2")
    assert updated(changed, runner.printed) == right
