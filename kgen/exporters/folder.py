"""The folder of an exported library: writing all files or none, and comparing them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from kgen.errors import CodegenError
from kgen.exporters.manifest import Manifest, file_digest, manifests_in

__all__ = ["differences", "write_files"]


def write_files(root: Path, made: Mapping[str, str], *, overwrite: bool = False) -> None:
    """Replace the files of a library in *root* by *made*, texts by path: all or none.

    Files of an earlier export that are not made any more are removed. Unchanged files keep their
    modification times. Nothing else changes: a file that no export wrote, or that was changed
    since, is replaced only with *overwrite*.

    Raises :class:`CodegenError` for such a file, and :class:`OSError` if a folder cannot be
    written.
    """
    contents = {name: text.encode() for name, text in made.items()}
    earlier = _reject_others(root, contents, overwrite)
    changed = {name: data for name, data in contents.items() if _content(root / name) != data}
    removed = [name for name in earlier if name not in contents and (root / name).is_file()]
    _replace(root, changed, removed)


def differences(root: Path, made: Mapping[str, str]) -> dict[str, str]:
    """Return the difference of each file of a library in *root* from *made*, if any.

    The result is empty if all files are equal.
    """
    found: dict[str, str] = {}
    for name, text in made.items():
        content = _content(root / name)
        if content != text.encode():
            found[name] = "is missing" if content is None else "differs"
    for name in _files_of(manifests_in(root)):
        if name not in made and (root / name).exists():
            found[name] = "is not generated any more"
    return dict(sorted(found.items()))


def _reject_others(root: Path, contents: Mapping[str, bytes], overwrite: bool) -> Mapping[str, str]:
    """Reject files that must not be replaced; return the digests of an earlier export's files."""
    if root.exists() and not root.is_dir():
        raise CodegenError(
            f"'{root}' is not a folder", hint="export to a folder; it is created if necessary"
        )
    manifests = manifests_in(root)
    earlier = _files_of(manifests)
    folders = [name for name in contents if (root / name).is_dir()]
    if folders:
        raise CodegenError(f"{_listed(folders)} in {root}: a folder is in the place of a file")
    if overwrite:
        return earlier
    for manifest in manifests:
        if manifest.name not in contents:
            raise CodegenError(
                f"{root} has an export of another namespace, '{manifest.namespace}'",
                hint="export to another folder, or replace it with overwrite=True (--overwrite)",
            )
    others = [
        name
        for name in {**contents, **earlier}
        if _is_others(root, name, earlier, contents.get(name))
    ]
    if others:
        raise CodegenError(
            f"{_listed(others)} in {root} would be replaced",
            because="they were not written by an export, or were changed since",
            hint="export to another folder, or replace them with overwrite=True (--overwrite)",
        )
    return earlier


def _is_others(root: Path, name: str, earlier: Mapping[str, str], data: bytes | None) -> bool:
    """Tell whether a file has neither its exported contents nor the new ones, *data*."""
    found = _content(root / name)
    return found is not None and found != data and earlier.get(name) not in ("", file_digest(found))


def _files_of(manifests: Iterable[Manifest]) -> dict[str, str]:
    """Return the files of libraries with their digests; that of a manifest itself is empty."""
    found: dict[str, str] = {}
    for manifest in manifests:
        inside = {name: digest for name, digest in manifest.files.items() if _is_inside(name)}
        found |= {**inside, manifest.name: ""}
    return found


def _is_inside(name: str) -> bool:
    """Tell whether a path of a manifest stays inside the folder."""
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and not Path(name).is_absolute()


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names))


def _content(path: Path) -> bytes | None:
    """Return the content of a file; ``None`` if it does not exist."""
    return path.read_bytes() if path.is_file() else None


def _replace(root: Path, changed: Mapping[str, bytes], removed: Iterable[str]) -> None:
    """Write all files under other names, then rename them. A failure changes nothing."""
    folders: list[Path] = []
    staged: dict[Path, Path] = {}
    before: dict[Path, bytes | None] = {}
    try:
        for name, data in changed.items():
            path = root / name
            _make_folder(path.parent, folders)
            temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
            staged[temporary] = path
            temporary.write_bytes(data)
        for temporary, path in staged.items():
            before[path] = _content(path)
            temporary.replace(path)
        for name in removed:
            before[root / name] = _content(root / name)
            (root / name).unlink()
    except BaseException:
        for path, content in before.items():
            if content is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(content)
        for temporary in staged:
            temporary.unlink(missing_ok=True)
        for folder in reversed(folders):
            folder.rmdir()
        raise


def _make_folder(path: Path, made: list[Path]) -> None:
    """Make a folder and its parents; add the new ones to a list, outermost first."""
    if not path.is_dir():
        if path.parent != path:
            _make_folder(path.parent, made)
        path.mkdir()
        made.append(path)
