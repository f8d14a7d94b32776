"""Run the CUDA code of kernels for tensor cores on the host: threads are the lanes of warps."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path
from typing import Any

from kgen.lowering import generate_module
from kgen.targets.module import Launch
from tests.transforms.helpers import kernel_of

_FOLDER = Path(__file__).parent
_HELPER = re.compile(r"^static __device__ inline .*?^}\n", re.MULTILINE | re.DOTALL)


def run_on_warps(knl: Any, folder: Path, arrays: dict[str, Any], **sizes: int) -> None:
    """Run a kernel of one launch, which sets elements of *arrays*; these go by address."""
    module = generate_module(kernel_of(knl))
    (launch,) = module.steps
    assert isinstance(launch, Launch)
    code = _HELPER.sub("", module.device_source)
    code = "\n".join(line for line in code.split("\n") if not line.startswith("#include"))
    groups, items = ([*map(int, part), 1, 1, 1][:3] for part in (launch.groups, launch.locals))
    passed = ", ".join(
        f"({_C[arrays[name].dtype.name]} *) arrays[{[*arrays].index(name)}]"
        if name in arrays
        else str(sizes[name])
        for name in launch.parameters
    )
    main = f"""
extern "C" void run(void **arrays)
{{
  launch({{{", ".join(map(str, groups))}}}, {{{", ".join(map(str, items))}}},
         [=] {{ {launch.function}({passed}); }});
}}"""
    source, library = folder / "kernel.cpp", folder / "kernel.so"
    source.write_text(f'#include "{_FOLDER / "warp.hpp"}"\n{code}\n{main}\n')
    subprocess.run(
        f"g++ -std=c++20 -O0 -w -shared -fPIC -pthread {source} -o {library}".split(),
        check=True,
    )
    pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays.values()))
    ctypes.CDLL(str(library)).run(pointers)


_C = {"float16": "__half", "bfloat16": "__nv_bfloat16", "float32": "float", "float64": "double"}
