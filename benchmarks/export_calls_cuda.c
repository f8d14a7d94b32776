/* Time calls of an exported function for CUDA beside cuLaunchKernel. Prints lines of
 * "what size exported by_hand", in ns a call: the least of some rounds, which take turns.
 */
#define _POSIX_C_SOURCE 200809L
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"

#define N_ROUNDS 200
#define N 64

extern unsigned char const bench_axpy_fatbin[];

static double now(void)
{
  struct timespec found;
  clock_gettime(CLOCK_MONOTONIC, &found);
  return 1e9 * (double) found.tv_sec + (double) found.tv_nsec;
}

static void keep_least(double *least, double found)
{
  if (*least == 0 || found < *least)
    *least = found;
}

static void check(int error, char const *what)
{
  if (error == 0)
    return;
  fprintf(stderr, "%s failed with %d: %s\n", what, error, bench_last_message());
  exit(1);
}

/* Time batches of launches: until they are in the stream, which has room for them. */
static void time_cuda(CUfunction function, CUdeviceptr x, CUdeviceptr y, int batch)
{
  double exported = 0, raw = 0;
  float a = 0.5f;
  int n = N;
  void *parameters[] = {&x, &y, &a, &n};
  for (int round = 0; round < N_ROUNDS; ++round) {
    double start = now();
    for (int i = 0; i < batch; ++i)
      check(bench_axpy_cuda(NULL, x, y, a, n), "bench_axpy_cuda");
    keep_least(&exported, (now() - start) / batch);
    check(cuStreamSynchronize(NULL), "cuStreamSynchronize");
    start = now();
    for (int i = 0; i < batch; ++i)
      check(
          cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, NULL, parameters, NULL),
          "cuLaunchKernel");
    keep_least(&raw, (now() - start) / batch);
    check(cuStreamSynchronize(NULL), "cuStreamSynchronize");
  }
  printf("cuda_%d %d %.1f %.1f\n", batch, n, exported, raw);
}

int main(void)
{
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction function;
  CUdeviceptr x, y;
  check(cuInit(0), "cuInit");
  check(cuDeviceGet(&device, 0), "cuDeviceGet");
  check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  check(cuModuleLoadData(&module, bench_axpy_fatbin), "cuModuleLoadData");
  check(cuModuleGetFunction(&function, module, "axpy"), "cuModuleGetFunction");
  check(cuMemAlloc(&x, sizeof(float) * N), "cuMemAlloc");
  check(cuMemAlloc(&y, sizeof(float) * N), "cuMemAlloc");
  time_cuda(function, x, y, 1);
  time_cuda(function, x, y, 100);
  return 0;
}
