"""ISPC's text as C++ for the model of its language in ``ispc_shim.h``, compiled and called."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.targets.module import Launch

_NAMES = r"(unsigned )?(int8|int16|int32|int64|float|double)"


def to_cxx(code: lp.CodeGenerationResult, shared: Iterable[str] = ()) -> str:
    """Translate the text of one program; *shared* are the temporaries in local memory."""
    text = code.all_code()
    in_step = "true" if "lanes converge" in text else "false"
    width = (*re.findall(r"assert\(programCount == (\d+)\);", text), "1")[0]

    def typed(match: re.Match[str]) -> str:
        word, unsigned, name = match.groups()
        return f"{word[0].upper()}_{'u' if unsigned else ''}{name}"

    def cast(match: re.Match[str]) -> str:
        unsigned, name = match.groups()
        return f"Cast<{'u' if unsigned else ''}{name}_>() ->* "

    def table(match: re.Match[str]) -> str:
        name, array, size, values = match.groups()
        plain = re.sub(r"d\b", "", values)
        return f"{name}_ {array}_[{size}] = {plain}; Ptr<{name}_> const {array}{{{array}_}};"

    def launch(match: re.Match[str]) -> str:
        counts = (match[1] or "[]")[1:-1]
        called = f"[=] {{ {match[2]}({match[3]}); }}"
        return f"launch({width}, {in_step}, {called}{', ' if counts else ''}{counts});"

    def helper(match: re.Match[str]) -> str:
        """Choose a version by what is passed, as ISPC does."""
        uniform, varying, name = match.groups()
        versions = [
            re.sub(rf"\b{name}\(", f"{name}_{kind}(", text)
            for kind, text in (("u", uniform), ("v", varying))
        ]
        passed = "(num(a)...)"
        choice = (
            "if constexpr ((decltype(num(a))::varies || ...)) "
            f"return {name}_v{passed}; else return {name}_u{passed};"
        )
        return "\n".join([*versions, f"template <class... A> auto {name}(A... a) {{ {choice} }}\n"])

    block = r"\(.*\n\{\n(?:.+\n)*?\}\n"
    both = rf"(static inline uniform .*{block})\n(static inline varying .* (\w+){block})"
    text = re.sub(both, helper, text)
    for pattern, new in (
        (r'extern "C" .*\n', ""),
        (r"// lanes converge.*", "gang->arrive_and_wait();"),
        (rf"\b(uniform|varying) {_NAMES}\b", typed),
        (rf"(?<![\w>])\({_NAMES}\) ", cast),
        (r"U_(\w+)( const)? \*uniform (\w+)", r"Ptr<\1_\2> \3"),
        (r"(?m)^( *)([UV]_\w+) (\w+)\[(\d+)\];", r"\1Arr<\2, \4> \3;"),
        (r"static U_(\w+) const (\w+)\[(\d+)\] = (.*);", table),
        (r"\b(\d+(?:\.\d*)?(?:e[+-]?\d+)?)d\b", r"U_double(\1)"),
        (r"launch(\[.*\])? (\w+)\((.*)\);", launch),
        (r"assert\(programCount == \d+\);|\bsync;", ""),
        (r"task void", "static void"),
        (r"export void", 'extern "C" void'),
    ):
        text = re.sub(pattern, new, text)
    for name in shared:
        text = re.sub(rf"(Arr<U_\w+, \d+> {name};)", r"static \1", text)
    return text


def compiled(folder: Path, programs: Mapping[str, str]) -> ctypes.CDLL:
    """Compile translated programs together, each in a namespace of its name."""
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    spaces = [f"namespace {name}_space\n{{\n{text}\n}}\n" for name, text in programs.items()]
    shim = Path(__file__).parent / "ispc_shim.h"
    source = folder / "programs.cpp"
    source.write_text("\n".join([f'#include "{shim}"', *spaces]))
    library = folder / "programs.so"
    options = ["-std=c++20", "-O0", "-shared", "-fPIC", "-pthread", "-ffp-contract=off", "-w"]
    done = subprocess.run(
        ["g++", *options, "-o", library, source], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(library))


def call_types(knl: lp.TranslationUnit) -> dict[str, np.dtype[Any]]:
    """Return the types of what the exported function takes, in order, by name."""
    (module,) = lp.generate_code_v2(knl).modules
    (launch,) = module.steps
    assert isinstance(launch, Launch)
    dtypes = {argument.name: argument.dtype for argument in module.arguments}
    return {name: dtypes[name] for name in launch.parameters}


def call(
    library: ctypes.CDLL,
    name: str,
    dtypes: Mapping[str, np.dtype[Any]],
    values: Mapping[str, Any],
) -> None:
    """Call an exported function; what it stores is in the arrays then."""
    passed: list[Any] = []
    for argument, dtype in dtypes.items():
        value = values[argument]
        if isinstance(value, np.ndarray):
            assert value.flags.c_contiguous
            assert value.dtype == dtype
            passed.append(ctypes.c_void_p(value.ctypes.data))
        else:
            passed.append(np.ctypeslib.as_ctypes_type(dtype)(value))
    getattr(library, name)(*passed)
