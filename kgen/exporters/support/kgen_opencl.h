/* What launchers for OpenCL use. KGEN_NAME puts the namespace of the library before a name. */
#ifndef KGEN_OPENCL_H
#define KGEN_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 120
#ifdef __APPLE__
#include <OpenCL/opencl.h>
#else
#include <CL/cl.h>
#endif

#include "kgen_mutex.h"
#include "kgen_support.h"

/* Where each temporary array in a workspace begins, in bytes: a multiple of what any device
 * asks of the origin of a sub-buffer.
 */
#define KGEN_OPENCL_PIECE 4096

/* The source of a program in OpenCL C, and the options of its build. */
typedef struct kgen_opencl_text {
  cl_uint n_lines;
  char const *const *lines;
  char const *options;
} kgen_opencl_text;

typedef struct kgen_opencl_program kgen_opencl_program;
typedef struct kgen_opencl_kernels kgen_opencl_kernels;

/* A kernel of the library: what its launches need, and its programs, one for each device. */
typedef struct kgen_opencl_code {
  char const *name;
  kgen_opencl_text text;
  kgen_opencl_text text_for_pocl;
  size_t n_functions;
  char const *const *functions;
  kgen_mutex mutex;
  kgen_opencl_program *programs;
} kgen_opencl_code;

/* One call. It stops at the first function of OpenCL that fails, and knows which that was. */
typedef struct kgen_opencl_call {
  kgen_opencl_code *code;
  cl_command_queue queue;
  cl_context context;
  cl_uint n_wait;
  cl_event const *wait;
  /* whether launches wait for each other without events */
  bool is_in_order;
  /* whether there is one launch at most */
  bool is_single;
  bool is_waited_for_by_caller;
  cl_event last;
  kgen_opencl_program *program;
  kgen_opencl_kernels *kernels;
  cl_int error;
  char const *failed;
} kgen_opencl_call;

/* A part of a buffer, which may be a part of a sub-buffer. */
typedef struct kgen_opencl_memory {
  cl_mem buffer;
  uint64_t first;
  int64_t n_bytes;
} kgen_opencl_memory;

/* Begin a call: find the program for the queue, or build it. */
bool KGEN_NAME(opencl_begin)(kgen_opencl_call *call);

/* End a call: set done, unless it is a null pointer; return the status. */
KGEN_NAME(status) KGEN_NAME(opencl_end)(kgen_opencl_call *call, cl_event *done);

/* Return the kernel that a launch is of. */
cl_kernel KGEN_NAME(opencl_kernel)(kgen_opencl_call const *call, size_t function);

/* Note an error; return whether there is none. */
KGEN_UNUSED static inline bool kgen_opencl_check(
    kgen_opencl_call *call, cl_int error, char const *function)
{
  if (error == CL_SUCCESS)
    return true;
  if (call->error == CL_SUCCESS) {
    call->error = error;
    call->failed = function;
  }
  return false;
}

/* Find the context of the queue. */
KGEN_UNUSED static inline void kgen_opencl_find_context(kgen_opencl_call *call)
{
  cl_int error = clGetCommandQueueInfo(
      call->queue, CL_QUEUE_CONTEXT, sizeof call->context, &call->context, NULL);
  kgen_opencl_check(call, error, "clGetCommandQueueInfo");
}

/* Check that an array is in the context of the queue. */
KGEN_UNUSED static inline void kgen_opencl_check_context(kgen_opencl_call *call, cl_mem array)
{
  cl_context context = NULL;
  cl_int error = clGetMemObjectInfo(array, CL_MEM_CONTEXT, sizeof context, &context, NULL);
  if (kgen_opencl_check(call, error, "clGetMemObjectInfo") && context != call->context)
    kgen_opencl_check(call, CL_INVALID_CONTEXT, "a look at the contexts of memory and queue");
}

/* Find where the memory of a buffer is, which may be a null pointer. */
KGEN_UNUSED static inline kgen_opencl_memory kgen_opencl_find(kgen_opencl_call *call, cl_mem array)
{
  kgen_opencl_memory found = {array, 0, 0};
  size_t n_bytes = 0, first = 0;
  cl_mem whole = NULL;
  if (array != NULL && call->error == CL_SUCCESS) {
    cl_int error = clGetMemObjectInfo(array, CL_MEM_SIZE, sizeof n_bytes, &n_bytes, NULL);
    kgen_opencl_check_context(call, array);
    if (error == CL_SUCCESS)
      error = clGetMemObjectInfo(
          array, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof whole, &whole, NULL);
    if (error == CL_SUCCESS && whole != NULL) {
      error = clGetMemObjectInfo(array, CL_MEM_OFFSET, sizeof first, &first, NULL);
      found.buffer = whole;
    }
    kgen_opencl_check(call, error, "clGetMemObjectInfo");
    found.first = first;
    found.n_bytes = (int64_t) n_bytes;
  }
  return found;
}

/* Whether two pieces of memory, of which the arrays have bytes behind some first ones, overlap. */
KGEN_UNUSED static inline bool kgen_opencl_overlap(
    kgen_opencl_memory a, int64_t first_a, int64_t n_a,
    kgen_opencl_memory b, int64_t first_b, int64_t n_b)
{
  uint64_t at_a = a.first + (uint64_t) first_a, at_b = b.first + (uint64_t) first_b;
  return a.buffer == b.buffer && n_a > 0 && n_b > 0 && at_a < at_b + (uint64_t) n_b
      && at_b < at_a + (uint64_t) n_a;
}

/* Return the number of pixels of an image along an axis, such as CL_IMAGE_WIDTH. */
KGEN_UNUSED static inline int64_t kgen_opencl_extent(
    kgen_opencl_call *call, cl_mem image, cl_image_info axis)
{
  size_t extent = 0;
  if (image != NULL && call->error == CL_SUCCESS) {
    cl_int error = clGetImageInfo(image, axis, sizeof extent, &extent, NULL);
    kgen_opencl_check(call, error, "clGetImageInfo");
  }
  return (int64_t) extent;
}

/* Return memory for temporary arrays: a piece of the workspace, or without one a new buffer. */
KGEN_UNUSED static inline cl_mem kgen_opencl_take(
    kgen_opencl_call *call, kgen_opencl_memory workspace, int64_t first, int64_t n_bytes)
{
  cl_buffer_region region = {(size_t) workspace.first + (size_t) first, (size_t) n_bytes};
  cl_int error = CL_SUCCESS;
  cl_mem taken = NULL;
  if (n_bytes == 0 || call->error != CL_SUCCESS)
    return NULL;
  if (workspace.buffer == NULL) {
    taken = clCreateBuffer(call->context, CL_MEM_READ_WRITE, region.size, NULL, &error);
    kgen_opencl_check(call, error, "clCreateBuffer");
  } else {
    taken = clCreateSubBuffer(
        workspace.buffer, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
    kgen_opencl_check(call, error, "clCreateSubBuffer");
  }
  return taken;
}

/* Let go of memory: it is freed once the commands that use it have finished. */
KGEN_UNUSED static inline void kgen_opencl_give_back(cl_mem taken)
{
  if (taken != NULL)
    clReleaseMemObject(taken);
}

KGEN_UNUSED static inline void kgen_opencl_set(
    kgen_opencl_call *call, cl_kernel kernel, cl_uint index, size_t n_bytes, void const *value)
{
  if (call->error == CL_SUCCESS)
    kgen_opencl_check(call, clSetKernelArg(kernel, index, n_bytes, value), "clSetKernelArg");
}

/* Enqueue a launch behind the one before. */
KGEN_UNUSED static inline void kgen_opencl_launch(
    kgen_opencl_call *call, cl_kernel kernel, cl_uint n_axes, size_t const *global,
    size_t const *local)
{
  bool has_event = call->is_single ? call->is_waited_for_by_caller : !call->is_in_order;
  cl_event const *wait = call->last != NULL ? &call->last : call->wait;
  cl_uint n_wait = call->last != NULL ? 1 : call->n_wait;
  cl_event event = NULL;
  cl_int error;
  if (call->error != CL_SUCCESS)
    return;
  error = clEnqueueNDRangeKernel(
      call->queue, kernel, n_axes, NULL, global, local, n_wait, n_wait > 0 ? wait : NULL,
      has_event ? &event : NULL);
  if (!kgen_opencl_check(call, error, "clEnqueueNDRangeKernel"))
    return;
  if (call->last != NULL)
    clReleaseEvent(call->last);
  call->last = event;
  call->n_wait = 0;
}

#endif
