"""The manifest of an exported library, ``NS.json``: functions, launches and files as data.

Expressions are in kgen's language, on the names of arguments. Nothing in it depends on the machine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kgen.errors import CodegenError
from kgen.exporters.kernels import ExportedKernel, c_type
from kgen.exporters.launcher import LauncherWriter, writers_by_kernel
from kgen.host.program import Buffer, HostProgram, SizeStep
from kgen.ir.expr import to_text
from kgen.targets.module import ArgumentInfo, HostIf, HostLoop, Launch, Step
from kgen.version import VERSION_TEXT

__all__ = ["FORMAT_VERSION", "Manifest", "file_digest", "manifest_text", "manifests_in"]

#: The version of this format; it increases when programs that read it must change.
FORMAT_VERSION: Final = 1
_FORMAT: Final = "kgen library"


def file_digest(content: bytes) -> str:
    """Return the digest of a file: SHA-256, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


# -- writing ------------------------------------------------------------------------------------


def manifest_text(
    namespace: str,
    kernels: Sequence[ExportedKernel],
    writers: Iterable[LauncherWriter],
    files: Mapping[str, str],
    *,
    targets: Sequence[str],
    sources: Sequence[str] = (),
) -> str:
    """Return the manifest of a library with these *kernels* and *files*.

    *sources* name what the kernels were made from, relative to the library.
    """
    by_kernel = writers_by_kernel(writers)
    data = {
        "format": _FORMAT,
        "format_version": FORMAT_VERSION,
        "generator": f"kgen {VERSION_TEXT}",
        "namespace": namespace,
        "targets": list(targets),
        "sources": list(sources),
        "kernels": [
            _kernel(kernel, {one.target: one for one in by_kernel[kernel.name]})
            for kernel in kernels
        ],
        "files": {name: file_digest(text.encode()) for name, text in sorted(files.items())},
    }
    return json.dumps(data, indent=2) + "\n"


def _kernel(kernel: ExportedKernel, writers: Mapping[str, LauncherWriter]) -> dict[str, Any]:
    host = kernel.host
    writer = next(iter(writers.values()))
    return {
        "name": kernel.name,
        "program": kernel.unit.digest(),
        "arguments": [_argument(arg, writer) for arg in kernel.arguments],
        "sizes": [_size(step) for step in host.size_steps],
        "assumptions": list(map(to_text, host.conditions)),
        "must_not_overlap": [[one.name, other.name] for one, other in host.restricted_pairs],
        "targets": {target: _functions(writer) for target, writer in writers.items()},
    }


def _argument(arg: ArgumentInfo, writer: LauncherWriter) -> dict[str, Any]:
    common = {"name": arg.name, "type": arg.dtype.name}
    if not arg.is_array:
        limits = writer.limits(arg)
        return {
            **common,
            "kind": "number",
            "c_type": c_type(writer.namespace, arg.dtype),
            "range": None if limits is None else list(limits),
        }
    return {
        **common,
        "kind": "array",
        "c_type": c_type(writer.namespace, arg.dtype),
        "shape": None if arg.shape is None else list(map(to_text, arg.shape)),
        "strides": None if arg.strides is None else list(map(to_text, arg.strides)),
        "is_read": arg.is_input,
        "is_written": arg.is_output,
        "alignment": max(arg.alignment, arg.dtype.alignment),
    }


def _size(step: SizeStep) -> dict[str, Any]:
    """Describe the equations for a number: ``factor*name + rest`` is an extent or a stride."""
    return {
        "name": step.name,
        "equations": [
            {
                "array": source.array,
                "attribute": source.attribute,
                "axis": source.axis,
                "factor": to_text(source.factor),
                "rest": to_text(source.rest),
            }
            for source in step.sources
        ],
    }


def _functions(writer: LauncherWriter) -> dict[str, Any]:
    """Describe the function for a target, and the variants that it chooses from."""
    if not writer.variants:
        return _function(writer)
    variants = [
        {
            "when": None if choice.condition is None else to_text(choice.condition),
            "device": choice.device,
            "program": choice.kernel.unit.digest(),
            **_function(variant),
        }
        for choice, variant in writer.variants
    ]
    return {"function": writer.name, "variants": variants}


def _function(writer: LauncherWriter) -> dict[str, Any]:
    host = writer.host
    return {
        "function": writer.name,
        "build_options": list(writer.code.build_options),
        "workspace": list(map(_buffer, host.buffers)),
        "steps": [_step(step, host) for step in host.steps],
        "checked_accesses": [] if host.faults is None else [g.access for g in host.faults.guards],
    }


def _buffer(buffer: Buffer) -> dict[str, Any]:
    return {
        "temporaries": [arg.name for arg in buffer.temporaries],
        "bytes": to_text(buffer.n_bytes),
    }


def _step(step: Step, host: HostProgram) -> dict[str, Any]:
    match step:
        case Launch():
            return {
                "launch": step.function,
                "parameters": list(step.parameters),
                "groups": list(map(to_text, step.groups)),
                "group_size": list(step.locals),
                "zeroed": list(step.zeroed),
            }
        case HostLoop():
            return {
                "loop": step.name,
                "type": step.dtype.name,
                "first": to_text(step.first),
                "stop": to_text(step.stop),
                "step": step.step,
                "steps": [_step(inner, host) for inner in step.steps],
            }
        case HostIf():
            return {
                "if": to_text(step.condition),
                "steps": [_step(inner, host) for inner in step.steps],
            }


# -- reading ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """How a library was made, from its manifest; ``files`` are digests by path."""

    name: str
    namespace: str
    generator: str
    targets: tuple[str, ...]
    sources: tuple[str, ...]
    files: Mapping[str, str]


def manifests_in(root: Path) -> tuple[Manifest, ...]:
    """Return the manifests of the libraries in a folder: one, as a rule.

    Raises :class:`CodegenError` for a manifest that another version of kgen wrote.
    """
    found = (_read(path) for path in sorted(root.glob("*.json")) if path.is_file())
    return tuple(manifest for manifest in found if manifest is not None)


def _read(path: Path) -> Manifest | None:
    """Read a manifest; ``None`` for a file that is something else."""
    try:
        data = json.loads(path.read_bytes())
    except ValueError:
        return None
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        return None
    if data.get("format_version") != FORMAT_VERSION:
        raise CodegenError(
            f"{path} has manifest format {data.get('format_version')}",
            because=f"{data.get('generator')} wrote it; this is kgen {VERSION_TEXT}, which reads "
            f"format {FORMAT_VERSION}",
            hint="remove the folder, and export to it again",
        )
    return Manifest(
        name=path.name,
        namespace=data["namespace"],
        generator=data["generator"],
        targets=tuple(data["targets"]),
        sources=tuple(data["sources"]),
        files=data["files"],
    )
