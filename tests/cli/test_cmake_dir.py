"""The folder of the package for CMake."""

from __future__ import annotations

from pathlib import Path

from tests.cli.typed import typed


def test_package_is_there() -> None:
    folder = Path(typed("cmake-dir").stdout.strip())
    assert "function(kgen_add_library" in (folder / "kgen-config.cmake").read_text()
