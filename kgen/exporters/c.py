"""Launchers of kernels in C: checks, the memory of temporaries, one call."""

from __future__ import annotations

import cgen

from kgen.exporters.launcher import LauncherWriter
from kgen.targets.module import NO_FAULT, Faults, Launch

__all__ = ["CLauncherWriter"]


class CLauncherWriter(LauncherWriter):
    """Writes functions that call the kernel on arrays of the host."""

    def used_names(self) -> frozenset[str]:
        launched = {launch.function for launch in self.host.launches}
        memory = {"malloc", "free"} if self.host.buffers else set[str]()
        return super().used_names() | launched | memory

    def includes(self) -> list[cgen.Generable]:
        return [cgen.Include("stdlib.h")]

    def code_parts(self) -> list[cgen.Generable]:
        module = self.code.module
        texts = filter(None, (module.device_source, module.host_source))
        return [cgen.LiteralLines("\n" + text) for text in texts]

    def body(self) -> list[cgen.Generable]:
        body = [*self.check_numbers(), *self.check_arrays()]
        if self.host.buffers:
            body += self.take_workspace()
        if self.host.faults is not None:
            body += self.declare_faults(self.host.faults)
        body += self.take_steps(self.host.steps)
        if self.host.buffers:
            body.append(cgen.Statement("free(kg_own)"))
        if self.host.faults is not None:
            body += self.check_faults(self.host.faults)
        return [*body, cgen.Statement(f"return {self.status('success')}")]

    # -- memory -----------------------------------------------------------------------------

    def take_workspace(self) -> list[cgen.Generable]:
        """Take the caller's workspace, or allocate one, and cut it into the temporaries."""
        void = cgen.Value("void", "kg_own")
        rounded = "((uintptr_t) kg_own + KGEN_ALIGNMENT - 1) / KGEN_ALIGNMENT * KGEN_ALIGNMENT"
        body = [
            *self.find_pieces(),
            self.fail_if(
                "(uintptr_t) workspace % KGEN_ALIGNMENT != 0",
                "misaligned",
                "the workspace does not begin at a multiple of 64 bytes",
            ),
            cgen.Initializer(cgen.Pointer(void), "NULL"),
            cgen.If(
                cgen.Line("workspace == NULL && kg_total > 0"),
                cgen.Block(
                    [
                        cgen.Assign("kg_own", "malloc((size_t) kg_total + KGEN_ALIGNMENT)"),
                        self.fail_if(
                            "kg_own == NULL", "out_of_memory", "no memory for temporary arrays"
                        ),
                        cgen.Assign("workspace", f"(void *) ({rounded})"),
                    ]
                ),
            ),
        ]
        for arg in self.host.arrays:
            text = f"the workspace overlaps with array '{arg.name}'"
            body.append(self.fail_if(self.overlap(arg, "workspace", "kg_total"), "overlap", text))
        at = cgen.Initializer(cgen.Pointer(cgen.Value("char", "kg_at")), "(char *) workspace")
        body.append(at)
        for number, buffer in enumerate(self.host.buffers):
            for arg in buffer.temporaries:
                pointer = cgen.Pointer(cgen.Const(cgen.Value("void", arg.name)))
                body.append(cgen.Initializer(pointer, "kg_at"))
            if number + 1 < len(self.host.buffers):
                body.append(cgen.Statement(f"kg_at += {self.pieces(number)}"))
        return body

    # -- launches ---------------------------------------------------------------------------

    def launch(self, launch: Launch) -> list[cgen.Generable]:
        passed = ", ".join(map(self.passed, launch.parameters))
        return [cgen.Statement(f"{launch.function}({passed})")]

    def passed(self, parameter: str) -> str:
        """Return the argument of the kernel for a parameter; pointers include arrays' offsets."""
        return "0" if parameter in self.host.offsets else parameter

    # -- guards of subscripts -----------------------------------------------------------------

    def declare_faults(self, faults: Faults) -> list[cgen.Generable]:
        """Declare the array in which guards record stray subscripts."""
        values = ", ".join("INT64_MIN" for _ in faults.guards)
        assert NO_FAULT == -(2**63)
        array = cgen.ArrayOf(cgen.Value("int64_t", faults.name), len(faults.guards))
        return [cgen.Initializer(array, f"{{{values}}}")]

    def check_faults(self, faults: Faults) -> list[cgen.Generable]:
        """Return a status for the subscripts that guards found to be stray."""
        return [
            self.fail_if(
                f"{faults.name}[{guard.number}] != INT64_MIN",
                "out_of_bounds",
                f"'{guard.access}' is outside of array '{guard.array}' along axis {guard.axis}",
            )
            for guard in faults.guards
        ]
