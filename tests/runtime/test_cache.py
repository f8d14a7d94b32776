"""The disk cache: many processes, kills, damage, folders that cannot be written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kgen.errors import KgenError, KgenWarning
from kgen.runtime.c import load_library
from kgen.runtime.cache import (
    CacheMode,
    DiskCache,
    content_key,
    process_caches,
    set_caching_enabled,
)

KEY = content_key("some source")

STORE_FOREVER = """
import sys
from kgen.runtime.cache import DiskCache, content_key
cache = DiskCache(sys.argv[1])
print("ready", flush=True)
while True:
    for number in range(20):
        cache.store(content_key(str(number)), bytes([number]) * 300_000)
"""

STORE_AND_LOAD = """
import sys
from kgen.runtime.cache import DiskCache, content_key
cache = DiskCache(sys.argv[1])
for _ in range(10):
    for number in range(20):
        key, content = content_key(str(number)), bytes([number]) * 50_000
        if (found := cache.load(key)) is not None:
            assert found == content
        assert cache.store(key, content) is not None
        assert cache.load(key) == content
"""


def start(script: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE, text=True
    )


def test_an_entry_comes_back(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    assert cache.load(KEY) is None
    assert cache.find(KEY) is None
    path = cache.store(KEY, b"content")
    assert path == cache.path_of(KEY) == cache.find(KEY)
    assert DiskCache(tmp_path).load(KEY) == b"content"
    assert path is not None
    assert path.read_bytes().startswith(b"content")


def test_where_parts_of_a_key_end_counts() -> None:
    assert content_key("ab", "c") != content_key("a", "bc") != content_key("abc")
    assert content_key("ab", "c") == content_key(b"ab", "c")


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: entry[: len(entry) // 2],
        lambda entry: entry[:-1],
        lambda entry: b"",
        lambda entry: b"X" + entry[1:],
        lambda entry: entry[:-1] + bytes([entry[-1] ^ 1]),
        lambda entry: entry + b"more",
    ],
)
def test_a_damaged_entry_is_a_miss_and_is_replaced(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    cache = DiskCache(tmp_path)
    path = cache.store(KEY, b"content")
    assert path is not None
    path.write_bytes(damage(path.read_bytes()))
    assert cache.load(KEY) is None
    cache.store(KEY, b"content")
    assert cache.load(KEY) == b"content"


def test_eight_processes_at_once(tmp_path: Path) -> None:
    processes = [start(STORE_AND_LOAD, tmp_path) for _ in range(8)]
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0] * 8
    assert not list(tmp_path.glob("partial-*"))


def test_a_kill_leaves_no_incomplete_entry(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    for delay_ms in (1, 2, 3, 5, 8, 13):
        process = start(STORE_FOREVER, tmp_path)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(delay_ms / 1000)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        for number in range(20):
            key = content_key(str(number))
            if cache.path_of(key).exists():
                assert cache.load(key) == bytes([number]) * 300_000


def test_what_a_killed_process_left_is_removed_in_time(tmp_path: Path) -> None:
    old, new = tmp_path / "partial-old", tmp_path / "partial-new"
    old.touch()
    new.touch()
    os.utime(old, (0, 0))
    DiskCache(tmp_path).store(KEY, b"content")
    assert not old.exists()
    assert new.exists()


def test_a_folder_that_cannot_be_made_stores_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = DiskCache(tmp_path / "file" / "below")
    assert cache.store(KEY, b"content") is None
    assert cache.load(KEY) is None


def test_the_environment_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEN_CACHE_DIR", str(tmp_path / "here"))
    assert DiskCache().folder == tmp_path / "here"
    assert DiskCache(tmp_path / "there").folder == tmp_path / "there"
    monkeypatch.delenv("KGEN_CACHE_DIR")
    assert DiskCache().folder.name == "kgen"


def test_switched_off_it_neither_loads_nor_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEN_CACHE_DIR", str(tmp_path))
    disk = process_caches.disk
    disk.store(KEY, b"content")
    with CacheMode(False):
        assert disk.load(KEY) is None
        assert disk.store(content_key("other"), b"content") is None
        with CacheMode(True):
            assert disk.load(KEY) == b"content"
        assert not disk.enabled
    assert disk.load(KEY) == b"content"
    set_caching_enabled(False)
    try:
        assert disk.load(KEY) is None
    finally:
        set_caching_enabled(True)


def test_the_folder_is_its_users_alone(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "kgen")
    path = cache.store(KEY, b"content")
    assert path is not None
    assert [p.stat().st_mode & 0o777 for p in (cache.folder, path.parent)] == [0o700, 0o700]
    assert not path.stat().st_mode & 0o077


@pytest.mark.parametrize("what", ["folder", "inner", "entry"])
@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_what_others_may_write_is_not_used(tmp_path: Path, what: str, mode: int) -> None:
    path = DiskCache(tmp_path).store(KEY, b"content")
    assert path is not None
    {"folder": tmp_path, "inner": path.parent, "entry": path}[what].chmod(mode)
    cache = DiskCache(tmp_path)
    with pytest.warns(KgenWarning, match="others may write to it"):
        assert cache.load(KEY) is None
    assert cache.find(KEY) is None
    if what != "entry":
        assert cache.store(KEY, b"other") is None
    else:  # replaced by one of ours
        cache.store(KEY, b"other")
        assert cache.load(KEY) == b"other"


@pytest.mark.parametrize("what", ["folder", "inner", "entry"])
def test_what_another_user_owns_is_not_used(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = DiskCache(tmp_path).store(KEY, b"content")
    assert path is not None
    if os.geteuid() == 0:
        os.chown({"folder": tmp_path, "inner": path.parent, "entry": path}[what], 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.warns(KgenWarning, match="another user owns it"):
        assert DiskCache(tmp_path).load(KEY) is None


def test_the_oldest_used_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEN_CACHE_SIZE", "1")  # MiB
    cache = DiskCache(tmp_path)
    keys = [content_key(str(number)) for number in range(30)]
    for number, key in enumerate(keys):
        path = cache.store(key, bytes(100_000))
        assert path is not None
        os.utime(path, (number, number))
        if number > 0:
            assert cache.load(keys[0]) is not None  # in use all the time
        total = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
        assert total <= 2**20
    kept = [number for number, key in enumerate(keys) if cache.path_of(key).exists()]
    assert kept == [0, *range(21, 30)]
    assert cache.store(KEY, bytes(2**20)) is None  # larger than all that is allowed


def test_a_loaded_library_outlives_its_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEN_CACHE_SIZE", "0.1")
    cache = DiskCache(tmp_path)
    libraries = [load_library(cache, f"int f(void) {{ return {k}; }}", (), "f") for k in range(12)]
    assert len([file for file in tmp_path.rglob("*") if file.is_file()]) < 12
    assert [library.f() for library in libraries] == list(range(12))


def test_a_size_that_is_no_number_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEN_CACHE_SIZE", "")  # as if it were not set
    assert DiskCache(tmp_path).store(KEY, b"content") is not None
    for text in ("much", "-1", "nan", "inf"):
        monkeypatch.setenv("KGEN_CACHE_SIZE", text)
        with pytest.raises(KgenError, match=f"KGEN_CACHE_SIZE is '{text}'"):
            DiskCache(tmp_path).store(KEY, b"content")


def test_usage_and_clear_know_only_entries(tmp_path: Path) -> None:
    disk = DiskCache(tmp_path / "cache")
    assert disk.usage().entries == disk.clear().entries == 0  # without a folder
    paths = [disk.store(content_key(text), b"x" * 100) for text in "ab"]
    foreign = tmp_path / "cache" / "ab" / "notes.txt"
    foreign.parent.mkdir(exist_ok=True)
    foreign.write_text("mine")
    (tmp_path / "cache" / "partial-1").write_text("left by a killed process")
    before = disk.clear()
    assert before.entries == 2
    assert 200 < before.bytes < before.limit
    assert disk.usage().entries == 0
    assert [path.exists() for path in paths if path is not None] == [False, False]
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert files == [foreign]
