"""One step of Jacobi's iteration in loopy, on the host by PoCL."""

import loopy as lp
import numpy as np
import pyopencl as cl
import pyopencl.array

jacobi = lp.make_kernel(
    "{ [i, j]: 1 <= i, j < n - 1 }",
    "out[i, j] = 0.25*(u[i-1, j] + u[i+1, j] + u[i, j-1] + u[i, j+1])",
    [lp.GlobalArg("u, out", np.float32, shape="n, n"), lp.ValueArg("n", np.int32)],
    assumptions="n >= 3",
    lang_version=(2018, 2),
)
jacobi = lp.tag_inames(jacobi, "i:g.0")

queue = cl.CommandQueue(cl.create_some_context(interactive=False))
execute = jacobi.executor(queue.context)
arrays = {}


def step(u, out):
    if id(u) not in arrays:  # pyopencl's arrays in the host's memory, made once
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        for array in (u, out):
            data = cl.Buffer(queue.context, flags, hostbuf=array)
            arrays[id(array)] = cl.array.Array(queue, array.shape, array.dtype, data=data)
    event, _ = execute(queue, u=arrays[id(u)], out=arrays[id(out)])
    event.wait()
