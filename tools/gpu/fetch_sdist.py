"""Download a project's newest source archive from the Python Package Index, unbuilt.

``pip download`` would run the archive's build step for its metadata; pycuda's needs CUDA.
Usage: fetch_sdist.py NAME FOLDER
"""

from __future__ import annotations

import hashlib
import json
import sys
import urllib.request
from pathlib import Path

INDEX = "https://pypi.org/pypi/{}/json"


def fetch_sdist(name: str, folder: Path) -> Path:
    """Store the newest source archive of *name* in *folder* and return its path.

    Raises ValueError where the archive's SHA-256 is not the one that the index states.
    """
    with urllib.request.urlopen(INDEX.format(name)) as reply:
        files = json.load(reply)["urls"]
    sdist = next(entry for entry in files if entry["packagetype"] == "sdist")
    with urllib.request.urlopen(sdist["url"]) as reply:
        content = reply.read()
    if hashlib.sha256(content).hexdigest() != sdist["digests"]["sha256"]:
        raise ValueError(f"{sdist['filename']}: the SHA-256 is not the index's; fetch it again")
    path = folder / str(sdist["filename"])
    path.write_bytes(content)
    return path


if __name__ == "__main__":
    print(fetch_sdist(sys.argv[1], Path(sys.argv[2])))
