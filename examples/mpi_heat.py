"""
Heat equation on several ranks
==============================

Solve the heat equation on several ranks: the interior is computed while halos travel.

Each rank has a block of the grid, with a row or column of its neighbours' values on every side.
One kernel makes a time step; `split_domain` divides it into a kernel for the points that need no
neighbour's values, and one for the others. Generated kernels gather what is sent, and spread what
is received. The result is that of one rank, bit for bit.

    mpiexec -n 3 python examples/mpi_heat.py --device {c,opencl,cuda} [--shape 600 400]
"""

from __future__ import annotations

import argparse
import atexit
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

import kgen as lp

if TYPE_CHECKING:
    from mpi4py import MPI

Array: TypeAlias = np.ndarray[Any, Any]

RATE = 0.2  # time step times conductivity, over the square of the grid's spacing
MAX_ERROR = 1e-12  # against numpy, of numbers up to 1
#: What keeps compilers from contracting a product and a sum, which could differ between kernels.
EXACT = {"c": "-ffp-contract=off", "cuda": "-fmad=false"}

# -- kernels -------------------------------------------------------------------------------------


def make_step(target: Any) -> lp.TranslationUnit:
    """Return the kernels `heat_interior` and `heat_boundary`: a step of a block of nx by ny."""
    knl = lp.make_kernel(
        "{ [i, j]: 1 <= i <= nx and 1 <= j <= ny }",
        """
        updated[i, j] = old[i, j] + rate*(
            old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1] - 4*old[i, j])
        """,
        [
            lp.GlobalArg("old, updated", np.float64, shape="nx + 2, ny + 2"),
            lp.ValueArg("rate", np.float64),
            lp.ValueArg("nx, ny", np.int32),
        ],
        assumptions="nx >= 1 and ny >= 1",
        name="heat",
        target=target,
    )
    return lp.split_domain(knl, "{ [i, j]: 2 <= i < nx and 2 <= j < ny }", into="kernels")


def make_copy(target: Any, name: str, lines: str) -> lp.TranslationUnit:
    """Return a kernel that copies between a block and the halo: two rows, then two columns."""
    return lp.make_kernel(
        "{ [i, j, k, m]: 1 <= i, k <= nx and 1 <= j, m <= ny }",
        lines,
        [
            lp.GlobalArg("u", np.float64, shape="nx + 2, ny + 2", is_input=True),
            lp.GlobalArg("halo", np.float64, shape="2*nx + 2*ny", is_input=True),
            lp.ValueArg("nx, ny", np.int32),
        ],
        assumptions="nx >= 1 and ny >= 1",
        name=name,
        target=target,
    )


def make_pack(target: Any) -> lp.TranslationUnit:
    """Return the kernel that gathers the outermost points of a block."""
    return make_copy(
        target,
        "pack",
        """
        halo[j - 1] = u[1, j]                {id=row_0}
        halo[ny + m - 1] = u[nx, m]          {id=row_1}
        halo[2*ny + i - 1] = u[i, 1]         {id=column_0}
        halo[2*ny + nx + k - 1] = u[k, ny]   {id=column_1}
        """,
    )


def make_unpack(target: Any) -> lp.TranslationUnit:
    """Return the kernel that puts received values around a block."""
    return make_copy(
        target,
        "unpack",
        """
        u[0, j] = halo[j - 1]                     {id=row_0}
        u[nx + 1, m] = halo[ny + m - 1]           {id=row_1}
        u[i, 0] = halo[2*ny + i - 1]              {id=column_0}
        u[k, ny + 1] = halo[2*ny + nx + k - 1]    {id=column_1}
        """,
    )


def copy_on_device(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Copy rows in a launch, and columns in the next, each with a grid of its own."""
    for name in "ijkm":
        knl = lp.split_iname(knl, name, 128, outer_tag="g.0", inner_tag="l.0")
    return lp.add_barrier(knl, "id:row_*", "id:column_*")


def step_on_device(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Give each work-item of the interior 8 points of a column, and of the boundary one."""
    knl = lp.split_iname(knl, "j_interior", 128, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "i_interior", 16, outer_tag="g.1")
    knl = lp.split_iname(knl, "i_interior_inner", 8, outer_tag="l.1", inner_tag="ilp")
    for name in ("j_boundary_0", "j_boundary_1", "i_boundary_2", "i_boundary_3"):
        knl = lp.split_iname(knl, name, 128, outer_tag="g.0", inner_tag="l.0")
    rows, columns = (f"id:*_boundary_{a} or id:*_boundary_{b}" for a, b in ((0, 1), (2, 3)))
    boundary = lp.add_barrier(knl["heat_boundary"], rows, columns)
    return knl.with_kernel(boundary)


def share_rows(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Let each thread of the host do blocks of rows."""
    return lp.split_iname(knl, "i_interior", 16, outer_tag="g.0")


def kernels(device: str = "c", threads: int | None = 1) -> dict[str, lp.TranslationUnit]:
    """Return the kernels for a device, by what they do."""
    target = {
        "c": lp.ExecutableCTarget(threads=threads),
        "opencl": lp.PyOpenCLTarget(),
        "cuda": lp.PyCudaTarget(),
    }[device]
    step, pack, unpack = make_step(target), make_pack(target), make_unpack(target)
    if device == "c":
        step = share_rows(step)
    else:
        step, pack, unpack = step_on_device(step), copy_on_device(pack), copy_on_device(unpack)
    found = {"step": step, "pack": pack, "unpack": unpack}
    if device == "opencl":
        pragma = [lambda info: [("00_exact", "#pragma OPENCL FP_CONTRACT OFF")]]
        return {name: lp.register_preamble_generators(knl, pragma) for name, knl in found.items()}
    return {name: lp.set_options(knl, build_options=EXACT[device]) for name, knl in found.items()}


# -- devices -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Device:
    """What runs the kernels: the queue that calls take, and ways to copy to and from it.

    ``read`` waits, ``write`` need not: kernels that follow it do. ``empty`` makes what both take.
    """

    name: str
    queue: tuple[Any, ...]
    put: Callable[[Array], Any]
    empty: Callable[[int], Array]
    read: Callable[[Any, Array], object]
    write: Callable[[Any, Array], object]
    wait: Callable[[], object]


def open_host(number: int) -> Device:
    """Return the host, whose arrays are numpy's."""

    def copy(to: Array, source: Array) -> None:
        to[...] = source

    return Device(
        name="host",
        queue=(),
        put=np.copy,
        empty=np.empty,
        read=lambda array, values: copy(values, array),
        write=copy,
        wait=lambda: None,
    )


def open_opencl(number: int) -> Device:
    """Return one of the devices of the default OpenCL platform."""
    import pyopencl as cl
    import pyopencl.array

    platform = cl.create_some_context(interactive=False).devices[0].platform
    devices = platform.get_devices()
    queue = cl.CommandQueue(cl.Context([devices[number % len(devices)]]))
    return Device(
        name=queue.device.name,
        queue=(queue,),
        put=lambda values: cl.array.to_device(queue, values),
        empty=np.empty,
        read=lambda array, values: cl.enqueue_copy(queue, values, array.data),
        write=lambda array, values: cl.enqueue_copy(queue, array.data, values, is_blocking=False),
        wait=queue.finish,
    )


def open_cuda(number: int) -> Device:
    """Return one of the GPUs, which is this process' from now on."""
    import pycuda.driver as cuda
    from pycuda import gpuarray

    cuda.init()
    device = cuda.Device(number % cuda.Device.count())
    context = device.retain_primary_context()
    context.push()
    atexit.register(context.pop)
    return Device(
        name=device.name(),
        queue=(),
        put=gpuarray.to_gpu,
        empty=lambda size: cuda.pagelocked_empty(size, np.float64),
        read=lambda array, values: cuda.memcpy_dtoh(values, array.gpudata),
        write=lambda array, values: cuda.memcpy_htod_async(array.gpudata, values),
        wait=cuda.Context.synchronize,
    )


OPEN = {"c": open_host, "opencl": open_opencl, "cuda": open_cuda}

# -- a rank --------------------------------------------------------------------------------------


def initial(rows: range, columns: range) -> Array:
    """Return the values at some points: the same on any rank, for they come of integers."""
    i, j = np.array(rows)[:, None], np.array(columns)[None, :]
    values: Array = (7919 * i + 104729 * j) % 1000 / 1000.0
    return values


def share(count: int, part: int, parts: int) -> range:
    """Return which of the points 1 to *count* a rank has along one axis."""
    return range(part * count // parts + 1, (part + 1) * count // parts + 1)


def compute_dims(comm: MPI.Intracomm) -> list[int]:
    """Return the shape of the grid of ranks."""
    from mpi4py import MPI

    return list(MPI.Compute_dims(comm.size, 2))


class Block:
    """The points of a rank, and those around them."""

    def __init__(
        self,
        comm: MPI.Intracomm,
        shape: tuple[int, int],
        device: Device,
        programs: dict[str, lp.TranslationUnit],
    ) -> None:
        dims = compute_dims(comm)
        self.comm = comm.Create_cart(dims)
        self.device, self.programs = device, programs
        places = zip(shape, self.comm.coords, dims, strict=True)
        self.rows, self.columns = (share(*place) for place in places)
        self.sizes = {"nx": len(self.rows), "ny": len(self.columns)}
        values = initial(*(range(r.start - 1, r.stop + 1) for r in (self.rows, self.columns)))
        self.old, self.new = device.put(values), device.put(values)
        # where there is no neighbour, what is received stays the value on the grid's edge
        edges = (values[0, 1:-1], values[-1, 1:-1], values[1:-1, 0], values[1:-1, -1])
        self.sent, self.received = (device.empty(sum(map(len, edges))) for _ in range(2))
        self.received[:] = np.concatenate(edges)
        self.halo = device.put(self.received)
        self.waited = 0.0

    def _parts(self, values: Array) -> list[Array]:
        nx, ny = self.sizes.values()
        return np.split(values, np.cumsum([ny, ny, nx]))

    def _call(self, program: str, entrypoint: str, **arguments: Any) -> None:
        self.programs[program](*self.device.queue, entrypoint=entrypoint, **arguments, **self.sizes)

    def send(self) -> tuple[list[MPI.Request], list[MPI.Request]]:
        """Begin to exchange the outermost values with all neighbours."""
        self._call("pack", "pack", u=self.old, halo=self.halo)
        self.device.read(self.halo, self.sent)
        around = [*self.comm.Shift(0, 1), *self.comm.Shift(1, 1)]
        opposite = (1, 0, 3, 2)  # what goes up comes from below
        receives = [
            self.comm.Irecv(part, rank, tag=side)
            for side, (part, rank) in enumerate(
                zip(self._parts(self.received), around, strict=True)
            )
        ]
        sends = [
            self.comm.Isend(part, rank, tag=opposite[side])
            for side, (part, rank) in enumerate(zip(self._parts(self.sent), around, strict=True))
        ]
        return sends, receives

    def receive(self, requests: list[MPI.Request]) -> None:
        """Wait for the neighbours' values, and put them around the block."""
        begin = time.perf_counter()
        for request in requests:
            request.Wait()
        self.waited += time.perf_counter() - begin
        self.device.write(self.halo, self.received)
        self._call("unpack", "unpack", u=self.old, halo=self.halo)

    def step(self, *, overlap: bool) -> None:
        """Make a time step; *overlap*: compute the interior while values travel."""
        fields = {"old": self.old, "updated": self.new, "rate": RATE}
        sends, receives = self.send()
        if not overlap:
            self.receive(receives)
        self._call("step", "heat_interior", **fields)
        if overlap:
            self.receive(receives)
        self._call("step", "heat_boundary", **fields)
        for request in sends:
            request.Wait()
        self.old, self.new = self.new, self.old

    def run(self, steps: int, *, overlap: bool) -> tuple[float, float]:
        """Make time steps; return the seconds that the slowest rank takes, and those it waits."""
        self.device.wait()
        self.waited = 0.0
        self.comm.Barrier()
        begin = time.perf_counter()
        for _ in range(steps):
            self.step(overlap=overlap)
        self.device.wait()
        seconds, waited = time.perf_counter() - begin, self.waited
        ranks: list[tuple[float, float]] = self.comm.allgather((seconds, waited))
        return max(ranks)

    def gather(self, shape: tuple[int, int]) -> Array | None:
        """Return the whole grid, on the first rank."""
        values = np.empty((self.sizes["nx"] + 2, self.sizes["ny"] + 2))
        self.device.read(self.old, values)
        blocks = self.comm.gather((self.rows, self.columns, values[1:-1, 1:-1]))
        if blocks is None:
            return None
        whole = np.empty(shape)
        for rows, columns, part in blocks:
            whole[rows.start - 1 : rows.stop - 1, columns.start - 1 : columns.stop - 1] = part
        return whole


# -- the program ---------------------------------------------------------------------------------


def solve_in_numpy(shape: tuple[int, int], steps: int) -> Array:
    """Return the expected result."""
    u = initial(range(shape[0] + 2), range(shape[1] + 2))
    for _ in range(steps):
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        u[1:-1, 1:-1] += RATE * (around - 4 * u[1:-1, 1:-1])
    return u[1:-1, 1:-1]


def check(found: Array, alone: Array, steps: int) -> bool:
    """Compare with one rank bit for bit, and with numpy."""
    same = np.array_equal(found, alone)
    error = float(np.max(np.abs(found - solve_in_numpy(found.shape, steps))))
    print(f"equal to one rank, bit for bit: {same}")
    print(f"maximal error against numpy: {error:.1e}")
    return same and error <= MAX_ERROR


def main(arguments: list[str]) -> int:
    """Solve, time, and compare; return 1 where the results differ."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--device", choices=sorted(OPEN), default="c")
    parser.add_argument("--shape", type=int, nargs=2, default=(600, 400), help="points")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1, help="of each rank, on the host")
    parser.add_argument("--repeat", type=int, default=1, help="runs, of which the best is shown")
    parser.add_argument("--in-turn", action="store_true", help="wait for halos, then compute")
    parser.add_argument("--no-check", action="store_true")
    given = parser.parse_args(arguments)
    from mpi4py import MPI

    world, shape = MPI.COMM_WORLD, tuple(given.shape)
    dims = compute_dims(world)
    if min(shape[0] // dims[0], shape[1] // dims[1]) < 1:
        parser.error(f"{dims[0]} x {dims[1]} ranks need at least as many points")
    local = world.Split_type(MPI.COMM_TYPE_SHARED).rank
    device, programs = OPEN[given.device](local), kernels(given.device, given.threads)

    block, overlap = Block(world, shape, device, programs), not given.in_turn
    block.run(1, overlap=overlap)  # which compiles
    seconds, waited = min(block.run(given.steps, overlap=overlap) for _ in range(given.repeat))
    done = 1 + given.repeat * given.steps
    if world.rank == 0:
        per_step = seconds / given.steps
        rate = 16e-9 * shape[0] * shape[1] / per_step  # each value read once and written once
        print(
            f"{world.size} ranks ({dims[0]} x {dims[1]}) on {device.name}, {shape[0]} x {shape[1]} "
            f"points: {1e6 * per_step:.1f} us per step, {rate:.2f} GB/s, "
            f"{1e6 * waited / given.steps:.1f} us waiting for halos"
        )
    if given.no_check:
        return 0
    found = block.gather(shape)
    right = True
    if found is not None:
        single = Block(MPI.COMM_SELF, shape, device, programs)
        single.run(done, overlap=True)
        alone = single.gather(shape)
        assert alone is not None
        right = check(found, alone, done)
        if not right:
            print("the result is wrong", file=sys.stderr)
    return 0 if world.bcast(right) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
