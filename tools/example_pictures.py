"""Let examples draw their results for the site, into examples/pictures/: ``make pictures``.

    python tools/example_pictures.py [life.py ...]

Takes minutes, which is why the pictures are committed. They are made smaller: fewer colours.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "examples" / "pictures"
MAX_WIDTH = 900
N_COLOURS = 128


def draw(example: Path) -> Path:
    """Run an example, and keep its picture."""
    FOLDER.mkdir(exist_ok=True)
    picture = FOLDER / f"{example.stem}.png"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"}
    words = [sys.executable, str(example), "--picture", str(picture)]
    subprocess.run(words, env=environment, check=True)
    make_small(picture)
    return picture


def make_small(picture: Path) -> None:
    """Reduce a picture to the width of a page and to few colours."""
    image = Image.open(picture).convert("RGB")
    image.thumbnail((MAX_WIDTH, 10 * MAX_WIDTH))
    image.quantize(N_COLOURS).save(picture, optimize=True)


def main() -> None:
    names = sys.argv[1:] or [
        path.name
        for path in sorted((ROOT / "examples").glob("*.py"))
        if f"--picture {path.stem}" in path.read_text()
    ]
    for name in names:
        print(draw(ROOT / "examples" / name).relative_to(ROOT))


if __name__ == "__main__":
    main()
