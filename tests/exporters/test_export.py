"""What an export writes, replaces and removes; and its manifest."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp


def twice(name: str = "twice") -> lp.TranslationUnit:
    args = [lp.GlobalArg("a, out", np.float32, shape="n"), ...]
    return lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]", args, name=name)


def write(folder: Path, *programs: lp.TranslationUnit, **options: Any) -> set[str]:
    chosen = {"targets": "c", "namespace": "demo", **options}
    files = lp.export(programs or [twice()], folder, **chosen)
    return {path.relative_to(folder).as_posix() for path in files}


def everything_in(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_the_files_are_what_is_listed(tmp_path: Path) -> None:
    assert write(tmp_path / "a" / "b") == everything_in(tmp_path / "a" / "b").keys()


def test_files_that_are_not_made_any_more_are_removed_and_others_stay(tmp_path: Path) -> None:
    write(tmp_path, twice("one"), twice("two"))
    (tmp_path / "src" / "mine.c").write_text("int mine;")
    write(tmp_path, twice("one"))
    left = everything_in(tmp_path)
    assert "src/demo_one.c" in left
    assert "src/demo_two.c" not in left
    assert left["src/mine.c"] == b"int mine;"


def test_files_that_stay_the_same_keep_their_time(tmp_path: Path) -> None:
    write(tmp_path, twice("one"))
    source, header = tmp_path / "src" / "demo_one.c", tmp_path / "include" / "demo.h"
    for path in (source, header):
        os.utime(path, (1, 1))
    write(tmp_path, twice("one"), twice("two"))
    assert source.stat().st_mtime == 1
    assert header.stat().st_mtime > 1


@pytest.mark.parametrize("name", ["include/demo.h", "src/demo_twice.c"])
@pytest.mark.parametrize("is_exported", [False, True])
def test_what_no_export_wrote_is_not_replaced(tmp_path: Path, name: str, is_exported: bool) -> None:
    if is_exported:
        write(tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("by hand")
    before = everything_in(tmp_path)
    with pytest.raises(lp.CodegenError, match=f"'{name}' .* would be replaced"):
        write(tmp_path)
    assert everything_in(tmp_path) == before
    write(tmp_path, overwrite=True)
    assert (tmp_path / name).read_text() != "by hand"


def test_a_changed_file_is_not_removed(tmp_path: Path) -> None:
    write(tmp_path, twice("one"), twice("two"))
    (tmp_path / "src" / "demo_two.c").write_text("by hand")
    with pytest.raises(lp.CodegenError, match=r"'src/demo_two\.c'"):
        write(tmp_path, twice("one"))


def test_another_namespace_is_another_library(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(lp.CodegenError, match="another namespace, 'demo'"):
        write(tmp_path, namespace="other")
    write(tmp_path, namespace="other", overwrite=True)
    assert not [name for name in everything_in(tmp_path) if "demo" in name]


@pytest.mark.parametrize(
    ("namespace", "because"),
    [("class", "a keyword of C"), ("while", "a keyword of C"), ("2d", "the prefix of names")],
)
def test_a_namespace_is_a_name(tmp_path: Path, namespace: str, because: str) -> None:
    with pytest.raises(
        lp.CodegenError, match=f"cannot be a namespace\n  because: (it is )?{because}"
    ):
        write(tmp_path, namespace=namespace)


def test_an_unknown_function_is_not_a_missing_type(tmp_path: Path) -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", "out[i] = blur(1.0)")
    with pytest.raises(lp.CodegenError, match="no function 'blur'") as caught:
        write(tmp_path, knl)
    assert "add_dtypes" not in str(caught.value)


def test_all_files_are_written_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, twice("one"), twice("two"))
    before, rename, count = everything_in(tmp_path), Path.replace, 0

    def fail_at_third(path: Path, target: Path) -> Path:
        nonlocal count
        count += 1
        if count == 3:
            raise OSError("the disk is full")
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", fail_at_third)
    with pytest.raises(OSError, match="full"):
        write(tmp_path, twice("one"), twice("three"), namespace="demo")
    assert everything_in(tmp_path) == before


def test_a_failed_export_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "write_bytes", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_manifest_names_no_file_outside(tmp_path: Path) -> None:
    outside = tmp_path / "outside.c"
    outside.write_text("")
    write(tmp_path / "lib")
    manifest = tmp_path / "lib" / "demo.json"
    data = json.loads(manifest.read_text())
    data["files"] |= {"../outside.c": "", str(outside): ""}
    manifest.write_text(json.dumps(data))
    write(tmp_path / "lib", overwrite=True)
    assert outside.exists()


def test_a_manifest_of_another_format_is_an_error(tmp_path: Path) -> None:
    write(tmp_path)
    manifest = tmp_path / "demo.json"
    manifest.write_text(manifest.read_text().replace('"format_version": 1', '"format_version": 99'))
    with pytest.raises(lp.CodegenError, match="has manifest format 99"):
        write(tmp_path)


def test_sources_are_seen_from_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("build/lib"), sources=["kernels/heat.py:step", "heat.fast:step"])
    found = json.loads(Path("build/lib/demo.json").read_text())["sources"]
    assert found == ["../../kernels/heat.py:step", "heat.fast:step"]


def test_the_manifest_has_loops_of_the_host_and_the_workspace(tmp_path: Path) -> None:
    code = """
    t[i] = 2*a[i] {id=first}
    ... gbarrier {id=wait, dep=first}
    out[j] = t[n - 1 - j] {dep=wait}
    """
    temporary = lp.TemporaryVariable("t", shape="n", address_space=lp.AddressSpace.GLOBAL)
    args = [lp.GlobalArg("a, out", np.float32, shape="n"), temporary, ...]
    knl = lp.make_kernel("{ [i, j]: 0 <= i, j < n }", code, args, name="turned")
    write(tmp_path, lp.assume(knl, "n >= 7"))
    (kernel,) = json.loads((tmp_path / "demo.json").read_text())["kernels"]
    assert [arg["name"] for arg in kernel["arguments"]] == ["a", "out", "n"]
    assert kernel["assumptions"] == ["n >= 7"]
    target = kernel["targets"]["c"]
    assert target["workspace"] == [{"temporaries": ["t"], "bytes": "4*n"}]
