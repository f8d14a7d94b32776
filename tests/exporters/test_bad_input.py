"""Bad arguments of every exported function in C: a status, nothing written, nothing undefined.

A program in C, compiled with the address and undefined behaviour sanitizers, makes the calls: with
each pair of arguments, all combinations of what may be wrong with them.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kgen.exporters.export import export
from tests.exporters.calls import calls_of_programs
from tests.exporters.kernels import scale, steps, turned
from tests.exporters.through_c import compile_objects, numbers_of, shape_of

SANITIZED = ("-std=c11", "-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover")

HEAD = """
#define _POSIX_C_SOURCE 200112L
#include "demo.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t n_calls = 0;

static void fail(char const *what)
{
  printf("%s: %s\\n", what, demo_last_message());
  exit(1);
}

static void *memory(size_t n_bytes)
{
  void *found = NULL;
  if (posix_memalign(&found, 64, n_bytes ? n_bytes : 1) != 0)
    exit(2);
  return memset(found, 0x3C, n_bytes);
}

static void check_untouched(char const *what, void const *memory, size_t n_bytes)
{
  for (size_t i = 0; i < n_bytes; ++i)
    if (((unsigned char const *) memory)[i] != 0x3C)
      fail(what);
}
"""


class Driver:
    """Writes a function in C that calls an exported one with bad arguments, then with good ones."""

    def __init__(self, kernel: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        self.kernel = kernel
        self.given = given
        self.numbers = numbers_of(kernel, given)
        self.arguments = kernel["arguments"]
        self.arrays = [a for a in self.arguments if a["kind"] == "array"]
        self.sizes = {a["name"]: self.n_bytes(a) for a in self.arrays}
        self.function = kernel["targets"]["c"]["function"]
        self.has_workspace = bool(kernel["targets"]["c"]["workspace"])

    def n_bytes(self, array: Mapping[str, Any]) -> int:
        known = array["shape"] is not None
        shape = shape_of(array, self.numbers) if known else self.given[array["name"]].shape
        count = int(np.prod(shape))
        return count * int(np.dtype(array["type"]).itemsize)

    def options(self, argument: Mapping[str, Any]) -> Iterator[str]:
        """Yield what is passed for an argument: first what is right."""
        name = argument["name"]
        if argument["kind"] == "array":
            yield name
            if self.sizes[name]:
                yield "NULL"
                others = (o for one, o in self.kernel["must_not_overlap"] if one == name)
                yield from (other for other in others if self.sizes[other])
            if argument["alignment"] > 1:
                yield f"(void *) ((char *) {name} + 1)"
            return
        yield repr(self.numbers[name]) if argument["type"] != "bool" else "1"
        if argument["range"] is not None and argument["type"] != "bool":
            info = np.iinfo(argument["type"])
            for value in (argument["range"][0] - 1, argument["range"][1] + 1):
                if info.min <= value <= info.max:
                    yield f"({argument['c_type']}) {value}"

    def text(self) -> str:
        lines = [f"static void check_{self.function}(void)", "{"]
        for array in self.arrays:
            name = array["name"]
            lines.append(f"  {array['c_type']} *{name} = memory({self.sizes[name]});")
        rows = [(a["name"], self.c_type(a), list(self.options(a))) for a in self.arguments]
        if self.has_workspace:
            lines += self.workspace()
            taken = [a["name"] for a in self.arrays if self.sizes[a["name"]]]
            rows.append(("workspace", "void *", ["workspace", "(char *) workspace + 8", *taken]))
        for name, c_type, options in rows:
            lines.append(f"  {c_type} {name}_options[] = {{{', '.join(options)}}};")
        counts = ", ".join(str(len(options)) for _, _, options in rows)
        passed = [f"{name}_options[kg_k[{position}]]" for position, (name, _, _) in enumerate(rows)]
        call, title = f"{self.function}({', '.join(passed)})", f"{self.kernel['name']}: "
        lines += [
            f"  size_t kg_n[] = {{{counts}, 1}}, kg_k[{len(rows) + 1}] = {{0}};",
            f"  for (size_t kg_i = 0; kg_i < {len(rows)}; ++kg_i)",
            f"    for (size_t kg_j = kg_i + 1; kg_j <= {len(rows)}; kg_k[kg_i] = kg_k[kg_j++] = 0)",
            "      for (kg_k[kg_i] = 0; kg_k[kg_i] < kg_n[kg_i]; ++kg_k[kg_i])",
            "        for (kg_k[kg_j] = 0; kg_k[kg_j] < kg_n[kg_j]; ++kg_k[kg_j])",
            "          if (kg_k[kg_i] + kg_k[kg_j] > 0) {",
            f"            if ({call} == demo_success)",
            f'              fail("{self.function} takes bad input");',
            f'            if (strncmp(demo_last_message(), "{title}", {len(title)}) != 0)',
            f'              fail("{self.function} has another message");',
            "            ++n_calls;",
            "          }",
        ]
        for name, size in self.sizes.items():
            lines.append(f'  check_untouched("{self.function}: {name}", {name}, {size});')
            lines.append(f"  memset({name}, 0, {size});")
        lines += [
            f"  if ({call} != demo_success)",
            f'    fail("{self.function} rejects good input");',
            *(self.allocating_call(passed) if self.has_workspace else ()),
            *(f"  free({name});" for name in self.sizes),
            "}",
        ]
        return "\n".join(lines)

    def allocating_call(self, passed: Sequence[str]) -> Iterator[str]:
        """Call without a workspace, in the end: the sanitizer finds what is not freed."""
        yield "  free(workspace);"
        yield f"  if ({self.function}({', '.join([*passed[:-1], 'NULL'])}) != demo_success)"
        yield f'    fail("{self.function} rejects good input without a workspace");'

    def workspace(self) -> Iterator[str]:
        """Ask for the size of the workspace, first with bad numbers."""
        query, n_bytes = f"{self.function}_workspace", "&n_bytes"
        values = [a for a in self.arguments if a["kind"] == "number"]
        right = [next(self.options(a)) for a in values]
        yield "  size_t n_bytes = 7;"
        bad = [[*right, "NULL"]]
        for k, argument in enumerate(values):
            _, *wrong = self.options(argument)
            bad += [[*right[:k], value, *right[k + 1 :], n_bytes] for value in wrong]
        for passed in bad:
            yield f"  if ({query}({', '.join(passed)}) == demo_success || n_bytes != 7)"
            yield f'    fail("{query} takes bad input");'
        yield f"  if ({query}({', '.join([*right, n_bytes])}) != demo_success)"
        yield f'    fail("{query} rejects good input");'
        yield "  void *workspace = memory(n_bytes);"

    @staticmethod
    def c_type(argument: Mapping[str, Any]) -> str:
        return f"{argument['c_type']}{' *' if argument['kind'] == 'array' else ''}"


def test_bad_input(tmp_path: Path, record_property: Any) -> None:
    programs = {program.__name__: program() for program in (scale, turned, steps)}
    arguments: dict[str, Mapping[str, Any]] = {name: {"n": 70, "m": 3} for name in programs}
    for call in calls_of_programs():
        name = f"p{call.program.digest()[:12]}"
        if not call.is_for_device and name not in programs:
            programs[name], arguments[name] = call.program, call.arguments
    files = export(programs, tmp_path, targets="c", namespace="demo")
    kernels = json.loads((tmp_path / "demo.json").read_text())["kernels"]
    drivers = [Driver(k, arguments[k["name"]]) for k in kernels]
    calls = "".join(f"  check_{driver.function}();\n" for driver in drivers)
    main = f'int main(void)\n{{\n{calls}  printf("%zu bad calls\\n", n_calls);\n  return 0;\n}}\n'
    source = tmp_path / "driver.c"
    source.write_text("\n\n".join([HEAD, *(driver.text() for driver in drivers), main]))
    objects = compile_objects([*files, source], SANITIZED)
    program = tmp_path / "driver"
    command = ["cc", *SANITIZED, *map(str, objects), "-o", str(program), "-lm"]
    subprocess.run(command, check=True, timeout=120)
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr[:3000]
    record_property("bad input", done.stdout.strip())
    assert int(done.stdout.split()[0]) > 1000
