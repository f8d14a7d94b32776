/* Time calls of exported functions beside what one would write by hand. Prints lines of
 * "what size exported by_hand", in ns a call: the least of some rounds, which take turns.
 */
#define _POSIX_C_SOURCE 200809L
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

#define N_ROUNDS 60
#define N_LARGEST 4096

/* in another source, as the exported function is */
void by_hand(float const *restrict x, float *restrict y, float a, int n);
int by_hand_with_checks(float const *x, float *y, float a, int n);

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

static void time_c(int n)
{
  static float x[N_LARGEST], y[N_LARGEST];
  int n_calls = 2000000 / (n + 20);
  double exported = 0, bare = 0, checked = 0;
  for (int round = 0; round < N_ROUNDS; ++round) {
    double start = now();
    for (int i = 0; i < n_calls; ++i)
      check(bench_axpy(x, y, 0.5f, n), "bench_axpy");
    keep_least(&exported, (now() - start) / n_calls);
    start = now();
    for (int i = 0; i < n_calls; ++i)
      by_hand(x, y, 0.5f, n);
    keep_least(&bare, (now() - start) / n_calls);
    start = now();
    for (int i = 0; i < n_calls; ++i)
      check(by_hand_with_checks(x, y, 0.5f, n), "by_hand_with_checks");
    keep_least(&checked, (now() - start) / n_calls);
  }
  printf("c %d %.2f %.2f\n", n, exported, bare);
  printf("c_checked %d %.2f %.2f\n", n, exported, checked);
}

static cl_device_id find_device(char const *wanted)
{
  cl_platform_id platforms[16];
  cl_device_id device;
  cl_uint n = 0;
  check(clGetPlatformIDs(16, platforms, &n), "clGetPlatformIDs");
  for (cl_uint i = 0; i < n; ++i) {
    char name[128] = "";
    clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
    if (strstr(name, wanted) != NULL
        && clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS)
      return device;
  }
  fprintf(stderr, "no OpenCL platform has '%s' in its name\n", wanted);
  exit(1);
}

static char const source[] =
    "__kernel __attribute__((reqd_work_group_size(64, 1, 1)))\n"
    "void axpy(__global float const *restrict x, __global float *restrict y, float a, int n)\n"
    "{\n"
    "  int i = get_global_id(0);\n"
    "  if (i < n)\n"
    "    y[i] = a * x[i] + y[i];\n"
    "}\n";

/* Time batches of launches, with the wait for the last one. */
static void time_opencl(char const *platform, int n, int batch)
{
  cl_device_id device = find_device(platform);
  cl_int error;
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, &error);
  char const *text = source;
  cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, &error);
  double exported = 0, raw = 0;
  check(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
  cl_kernel kernel = clCreateKernel(program, "axpy", &error);
  cl_mem x = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof(float) * N_LARGEST, NULL, &error);
  cl_mem y = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof(float) * N_LARGEST, NULL, &error);
  float a = 0.5f;
  size_t local = 64, global = ((size_t) n + 63) / 64 * 64;
  for (int round = 0; round < N_ROUNDS * 4; ++round) {
    double start = now();
    for (int i = 0; i < batch; ++i)
      check(bench_axpy_opencl(queue, x, y, a, n, 0, NULL, NULL), "bench_axpy_opencl");
    clFinish(queue);
    keep_least(&exported, (now() - start) / batch);
    start = now();
    for (int i = 0; i < batch; ++i) {
      error = clSetKernelArg(kernel, 0, sizeof x, &x);
      error |= clSetKernelArg(kernel, 1, sizeof y, &y);
      error |= clSetKernelArg(kernel, 2, sizeof a, &a);
      error |= clSetKernelArg(kernel, 3, sizeof n, &n);
      error |= clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL);
      check(error, "clEnqueueNDRangeKernel");
    }
    clFinish(queue);
    keep_least(&raw, (now() - start) / batch);
  }
  printf("opencl_%d %d %.1f %.1f\n", batch, n, exported, raw);
}

int main(int argc, char **argv)
{
  char const *platform = argc > 1 ? argv[1] : "";
  int sizes[] = {0, 16, 256, 4096};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i)
    time_c(sizes[i]);
  time_opencl(platform, 64, 1);
  time_opencl(platform, 64, 100);
  return 0;
}
