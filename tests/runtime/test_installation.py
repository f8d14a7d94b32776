"""What a machine has for kgen, and what is said of one that lacks it."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from kgen.runtime import installation
from kgen.runtime.devices import RunningOn
from kgen.runtime.installation import Missing, Package, find_installation


def missing(purpose: str) -> list[Missing]:
    return [item for item in find_installation().missing if item.purpose == purpose]


def test_a_machine_that_runs_these_tests() -> None:
    found = find_installation()
    assert found.runs_on_host
    assert found.c_compiler is not None
    assert found.c_compiler.works
    assert found.python == ".".join(map(str, sys.version_info[:3]))


def test_without_a_compiler_nothing_runs_on_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dnf").write_text("#!/bin/sh\n")
    (tmp_path / "dnf").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    found = find_installation()
    assert found.c_compiler is None
    assert not found.runs_on_host
    (item,) = [item for item in found.missing if item.is_required]
    assert item.what == "a C compiler"
    assert item.command.removeprefix("sudo ") == "dnf install gcc glibc-devel"


def fake_compiler(folder: Path, monkeypatch: pytest.MonkeyPatch, status: str) -> None:
    path = folder / "my-cc"
    path.write_text(f"#!/bin/sh\ncase $* in {status}) exit 1;; esac\necho my-cc 1.2\necho more\n")
    path.chmod(0o755)
    monkeypatch.setenv("CC", str(path))


def test_a_compiler_that_compiles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_compiler(tmp_path, monkeypatch, "*-shared*")
    found = find_installation()
    assert found.c_compiler is not None
    assert found.c_compiler.version == "my-cc 1.2"
    assert [item.what for item in found.missing if item.is_required] == [
        f"headers of C for {tmp_path}/my-cc"
    ]


def test_a_compiler_without_openmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_compiler(tmp_path, monkeypatch, "*-fopenmp*")
    (item,) = missing("threads on the host")
    assert item.what == f"OpenMP for {tmp_path}/my-cc"
    assert find_installation().runs_on_host


def test_opencl_devices_are_listed(opencl_queue: Any) -> None:
    names = [device.name for device in find_installation().opencl_devices]
    assert opencl_queue.device.name.strip() in names
    assert missing("OpenCL") == []


@pytest.mark.parametrize(
    ("error", "whats"),
    [
        (None, ["a device for OpenCL, or its driver"]),
        ("cannot run: no libOpenCL", ["a device for OpenCL, or its driver (no libOpenCL)"]),
        ("No module named 'pyopencl'", []),  # a package, which is listed as such
    ],
)
def test_devices_that_are_missing(
    error: str | None, whats: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing: tuple[RunningOn, ...] = ()
    monkeypatch.setattr(installation, "_devices", lambda target: (nothing, error))
    items = [item for item in missing("OpenCL") if "device" in item.what]
    assert [item.what for item in items] == whats
    assert all("pocl" in item.command for item in items)


def requires(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr(metadata, "requires", lambda name: list(lines))


def test_packages_are_those_that_kgen_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    requires(
        monkeypatch,
        "numpy>=1.26",
        "no-such-package >= 2",
        'pyopencl>=9999.1; extra == "opencl"',
        'nvidia-cuda-nvcc>=13; sys_platform == "linux" and extra == "nvcc"',
        'ruff>=0.11; extra == "dev"',
    )
    found = find_installation()
    assert [(p.name, p.needs, p.extra) for p in found.packages] == [
        ("numpy", ">=1.26", None),
        ("no-such-package", ">= 2", None),
        ("pyopencl", ">=9999.1", "opencl"),
        ("nvidia-cuda-nvcc", ">=13", "nvcc"),
    ]
    (item,) = [item for item in found.missing if item.is_required]
    assert item.what == "no-such-package>= 2"
    assert item.command.startswith(f"{sys.executable} -m pip install 'no-such-package")


def test_without_metadata_kgen_is_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_metadata(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", no_metadata)
    found = find_installation()
    assert found.packages == ()
    assert "kgen as a package" in [item.what for item in found.missing]


@pytest.mark.parametrize(
    ("version", "will_do"), [("2.9", False), ("2.10", True), ("2.10.1", True), (None, False)]
)
def test_versions_are_compared_as_numbers(version: str | None, will_do: bool) -> None:
    package = Package(name="x", needs=">=2.10", version=version, extra=None)
    assert package.will_do is will_do
