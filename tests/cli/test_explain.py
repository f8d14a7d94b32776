"""The command ``explain``."""

from __future__ import annotations

import kgen as lp
from kgen.cli.programs import load_program
from tests.cli.typed import typed


def test_it_is_the_report_of_the_library() -> None:
    tiled = load_program("heat.py:tiled")
    assert isinstance(tiled, lp.TranslationUnit)
    shown = typed("explain", "heat.py:tiled", "--target=cuda", "--type=u=float32").stdout
    expected = lp.explain(tiled.copy(target=lp.CudaTarget()), {"u": "float32"})
    assert shown == f"{expected}\n"
