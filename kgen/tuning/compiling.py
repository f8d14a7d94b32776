"""Making the kernel of a configuration: building, proving, generating and compiling it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from kgen.equivalence import verify_equivalent
from kgen.errors import CompilationError, KgenError
from kgen.ir.target import TargetBase
from kgen.ir.unit import TranslationUnit
from kgen.performance.model import find_work
from kgen.performance.occupancy import find_resources
from kgen.runtime.cache import content_key, process_caches
from kgen.runtime.generated import code_of
from kgen.targets.module import Module
from kgen.tuning.derived import find_obstacle
from kgen.tuning.task import Task, load_task

__all__ = ["Compiled", "ConfigurationError", "compile_configuration", "module_of", "opened"]


class ConfigurationError(KgenError):
    """A configuration has no time; ``cause`` is a word for the reason."""

    def __init__(self, cause: str, what: str) -> None:
        super().__init__(what)
        self.cause = cause

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.cause, str(self))


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """A kernel whose compiled code is on disk, its digest, and facts known without a run."""

    kernel: TranslationUnit
    code: str
    #: whether it is proved equivalent to the kernel as written: ``proved`` or ``unknown``
    proof: str
    seconds: float
    #: the lower bound of its time by the roofline model, in seconds
    bound: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


@lru_cache(maxsize=8)
def opened(target: TargetBase, device: str | None) -> tuple[Any, ...]:
    """Return the arguments by position of calls on a device, such as a queue."""
    found: tuple[Any, ...] = target.load_runtime().open_device(device)
    return found


def module_of(unit: TranslationUnit) -> Module:
    """Return the code of a program, generated on first use."""
    code = code_of(process_caches)
    return code.find(process_caches.disk, unit, unit.default_entrypoint.name, {}).module


@contextmanager
def failing_as(cause: str) -> Iterator[None]:
    """Convert all errors of a block to errors of the configuration."""
    try:
        yield
    except ConfigurationError:
        raise
    except CompilationError as error:
        raise ConfigurationError("compilation", str(error)) from None
    except Exception as error:
        text = str(error) if isinstance(error, KgenError) else f"{type(error).__name__}: {error}"
        raise ConfigurationError(cause, text) from None


def compile_configuration(
    content: bytes, device: str | None, configuration: Mapping[str, Any]
) -> Compiled:
    """Build, prove, generate and compile the kernel of a configuration.

    Raises :class:`ConfigurationError` with the step that failed: ``transformation``,
    ``restriction``, ``verification``, ``generation``, ``compilation``.
    """
    start = time.perf_counter()
    task = load_task(content)
    with failing_as("transformation"):
        kernel = task.kernel(configuration)
    leading = opened(kernel.target, device)
    with failing_as("generation"):
        limits = kernel.target.load_runtime().limits_of(*leading)
        obstacle = find_obstacle(kernel, task.problem.sizes, limits)
    if obstacle is not None:
        raise ConfigurationError("restriction", obstacle)
    with failing_as("verification"):
        proof = _proof(task, kernel) if task.is_verified else "unknown"
    with failing_as("generation"):
        module = module_of(kernel)
    with failing_as("compilation"):
        kernel.executor(*leading).prepare()
    return Compiled(
        kernel=kernel,
        code=digest_of(kernel, module),
        proof=proof,
        bound=_bound(task, kernel),
        metrics=_metrics(task, kernel, leading),
        seconds=time.perf_counter() - start,
    )


def digest_of(kernel: TranslationUnit, module: Module) -> str:
    """Return the digest of generated code, and of the compiler and the options for it."""
    flags = (*module.build_options, *kernel.default_entrypoint.options.build_options)
    compiler = repr(getattr(kernel.target, "compiler", None))
    return content_key(module.device_source, module.host_source or "", compiler, *flags)


def _proof(task: Task, kernel: TranslationUnit) -> str:
    """Prove a kernel equivalent to the one as written, if possible; reject it if proved wrong.

    A reference of the user may compute the same in another way; then results are compared.
    """
    report = verify_equivalent(task.written or kernel, kernel)
    is_other = isinstance(task.reference, TranslationUnit)
    for finding in report.violated:
        if not (is_other and finding.check == "origin"):
            raise ConfigurationError("verification", finding.message)
    return next((f.status.value for f in report.findings if f.check == "origin"), "unknown")


def _bound(task: Task, kernel: TranslationUnit) -> float | None:
    """Return a lower bound of a kernel's time in seconds, if its operations can be counted."""
    if task.limits is None:
        return None
    try:
        return find_work(kernel, task.problem.sizes, task.limits).least_s
    except KgenError:
        return None


def _metrics(task: Task, kernel: TranslationUnit, leading: tuple[Any, ...]) -> dict[str, float]:
    if "registers" not in task.metrics:
        return {}
    needs = find_resources(kernel.default_entrypoint, *leading)
    known = [need.registers for need in needs if need.registers is not None]
    return {"registers": float(max(known))} if known else {}
