"""Pages and tables of HTML, for reports and notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

__all__ = ["page", "table"]

_STYLE = """
body { font-family: sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; }
table { border-collapse: collapse; }
td, th { border: 1px solid #ccc; padding: 0.2em 0.6em; text-align: left; vertical-align: top; }
svg { max-width: 100%; height: auto; }
pre { overflow-x: auto; }
.best { background: #dfd; }
"""


def page(title: str, parts: Iterable[str]) -> str:
    """Return a whole page, which needs no other file.

    >>> page("a < b", ["<p>text</p>"]).splitlines()[-2:]
    ['<p>text</p>', '</body></html>']
    """
    head = f"<title>{escape(title)}</title><style>{_STYLE}</style>"
    body = "\n".join(parts)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">{head}</head>\n'
        f"<body>\n{body}\n</body></html>\n"
    )


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table of texts; rows that end in ``best`` stand out.

    >>> table(("n", "time"), [("1 < 2", "3 ms")])
    '<table><tr><th>n</th><th>time</th></tr><tr><td>1 &lt; 2</td><td>3 ms</td></tr></table>'
    """
    titles = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    return f"<table><tr>{titles}</tr>{''.join(map(_row, rows))}</table>"


def _row(cells: Iterable[str]) -> str:
    texts = [escape(cell) for cell in cells]
    mark = ' class="best"' if texts[-1] == "best" else ""
    return f"<tr{mark}>{''.join(f'<td>{text}</td>' for text in texts)}</tr>"
