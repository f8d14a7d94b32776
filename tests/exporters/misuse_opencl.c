/* Calls of exported functions for OpenCL with all that can be wrong: a status, nothing written. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <string.h>

#include "demo.h"

#define N 70

static cl_command_queue queue;
static cl_mem buffers[4];
static float content[2][N];
static int n_failed, n_wrong;

static void put(void)
{
  for (int i = 0; i < 2; ++i)
    clEnqueueWriteBuffer(queue, buffers[i], CL_TRUE, 0, sizeof content[i], content[i], 0, NULL, NULL);
}

/* Check that a call that failed has made no event and written nothing. */
static void check(demo_status status, cl_event done)
{
  float found[N];
  n_failed += status != demo_success;
  n_wrong += (done == NULL) != (status != demo_success);
  n_wrong += status == demo_opencl_error;
  for (int i = 0; i < 2 && status != demo_success; ++i) {
    clEnqueueReadBuffer(queue, buffers[i], CL_TRUE, 0, sizeof found, found, 0, NULL, NULL);
    n_wrong += memcmp(found, content[i], sizeof found) != 0;
  }
  if (done == NULL)
    return;
  clReleaseEvent(done);
  put();
}

int main(int argc, char **argv)
{
  int const sizes[] = {0, 1, N, N + 1, -1, INT32_MIN, INT32_MAX};
  int64_t const firsts[] = {0, 5, -1, INT64_MAX, INT64_MIN};
  cl_platform_id platforms[8];
  cl_device_id device = NULL;
  cl_uint n_platforms = 0;
  clGetPlatformIDs(8, platforms, &n_platforms);
  for (cl_uint i = 0; i < n_platforms; ++i) {
    char name[256] = "";
    clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
    if (argc > 1 && strcmp(name, argv[1]) == 0)
      clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL);
  }
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
  queue = clCreateCommandQueue(context, device, 0, NULL);
  for (int i = 0; i < 3; ++i)
    buffers[i] = clCreateBuffer(context, 0, i < 2 ? sizeof content[0] : 8, NULL, NULL);
  for (int i = 0; i < N; ++i)
    content[0][i] = content[1][i] = (float) i;
  put();
  for (int i = 0; i < 64; ++i)
    for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; ++n) {
      cl_mem a = buffers[i % 4], out = buffers[i / 4 % 4], more = buffers[i / 16];
      cl_event done = NULL;
      demo_status status;
      for (int k = 0; k < 25 && i < 16; ++k) {
        status = demo_scale_opencl(
            queue, a, firsts[k % 5], out, firsts[k / 5], sizes[n], 0, NULL, &done);
        check(status, done);
        done = NULL;
      }
      status = demo_turned_opencl(queue, a, out, sizes[n], more, 0, NULL, &done);
      check(status, done);
    }
  printf("%d %d\n", n_failed, n_wrong);
  demo_opencl_release(context);
  return n_wrong != 0;
}
