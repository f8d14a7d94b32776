"""The block sizes of Jacobi's iteration, tuned by Kernel Tuner on an OpenCL device."""

import kernel_tuner
import numpy as np

SOURCE = """
__kernel void jacobi(__global float *out, __global const float *u, const int n)
{
  const int j = 1 + get_group_id(0)*block_size_x + get_local_id(0);
  const int i = 1 + get_group_id(1)*block_size_y + get_local_id(1);
  if (i < n - 1 && j < n - 1)
    out[i*n + j] = 0.25f*(u[(i - 1)*n + j] + u[(i + 1)*n + j] + u[i*n + j - 1] + u[i*n + j + 1]);
}
"""


def tune(n=1024):
    u = np.random.default_rng(1).random((n, n), dtype=np.float32)
    expected = u.copy()
    expected[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    results, _ = kernel_tuner.tune_kernel(
        "jacobi",
        SOURCE,
        (n, n),
        [u.copy(), u, np.int32(n)],
        {"block_size_x": [16, 32, 64, 128], "block_size_y": [1, 2, 4, 8]},
        answer=[expected, None, None],
        lang="OpenCL",
        atol=1e-6,
        verbose=False,
    )
    return min(results, key=lambda result: result["time"])


if __name__ == "__main__":
    print(tune())
