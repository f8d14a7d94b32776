/* What launchers for CUDA use. KGEN_NAME puts the namespace of the library before a name. */
#ifndef KGEN_CUDA_H
#define KGEN_CUDA_H

#include <cuda.h>

#include "kgen_mutex.h"
#include "kgen_support.h"

/* Where a workspace and each temporary array in it begin, in bytes. */
#define KGEN_CUDA_PIECE 256

typedef struct kgen_cuda_module kgen_cuda_module;

/* A kernel of the library: what its launches need, and what is loaded, for each context. */
typedef struct kgen_cuda_code {
  char const *name;
  unsigned char const *fatbin;
  size_t n_functions;
  char const *const *functions;
  kgen_mutex mutex;
  kgen_cuda_module *modules;
} kgen_cuda_code;

/* One call. It stops at the first function of CUDA that fails, and knows which that was. */
typedef struct kgen_cuda_call {
  kgen_cuda_code *code;
  CUstream stream;
  CUfunction const *functions;
  CUdeviceptr own;
  /* whether the stream frees what the call has allocated */
  bool is_freed_by_stream;
  CUresult error;
  char const *failed;
} kgen_cuda_call;

/* Begin a call: find what is loaded in the current context, or load it. */
bool KGEN_NAME(cuda_begin)(kgen_cuda_call *call);

/* End a call: free what it has allocated; return the status. */
KGEN_NAME(status) KGEN_NAME(cuda_end)(kgen_cuda_call *call);

/* Return memory for temporary arrays, until the end of the call. */
CUdeviceptr KGEN_NAME(cuda_take)(kgen_cuda_call *call, int64_t n_bytes);

/* Note an error; return whether there is none. */
KGEN_UNUSED static inline bool kgen_cuda_check(
    kgen_cuda_call *call, CUresult error, char const *function)
{
  if (error == CUDA_SUCCESS)
    return true;
  if (call->error == CUDA_SUCCESS) {
    call->error = error;
    call->failed = function;
  }
  return false;
}

/* Whether an allocation that CUDA knows ends before some bytes of an array do.
 *
 * Memory of the host, which some devices can access, and mapped memory count as large enough.
 */
KGEN_UNUSED static inline bool kgen_cuda_is_short(CUdeviceptr array, int64_t n_bytes)
{
  CUdeviceptr first = 0;
  size_t size = 0;
  if (n_bytes <= 0 || cuMemGetAddressRange(&first, &size, array) != CUDA_SUCCESS)
    return false;
  while (first + size < array + (uint64_t) n_bytes) {
    /* mapped memory has several ranges, one behind the other */
    CUdeviceptr end = first + size;
    if (cuMemGetAddressRange(&first, &size, end) != CUDA_SUCCESS)
      return true;
  }
  return false;
}

KGEN_UNUSED static inline void kgen_cuda_zero(
    kgen_cuda_call *call, CUdeviceptr array, int64_t n_bytes)
{
  if (call->error == CUDA_SUCCESS)
    kgen_cuda_check(
        call, cuMemsetD8Async(array, 0, (size_t) n_bytes, call->stream), "cuMemsetD8Async");
}

KGEN_UNUSED static inline void kgen_cuda_launch(
    kgen_cuda_call *call, size_t function, int64_t const *groups, unsigned int const *threads,
    unsigned int local_memory, int local_memory_share, void **parameters, bool is_cooperative)
{
  CUresult error = CUDA_SUCCESS;
  char const *name = is_cooperative ? "cuLaunchCooperativeKernel" : "cuLaunchKernel";
  if (call->error != CUDA_SUCCESS)
    return;
  if (local_memory > 0
      && !kgen_cuda_check(
          call,
          cuFuncSetAttribute(
              call->functions[function], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
              (int) local_memory),
          "cuFuncSetAttribute"))
    return;
  if (local_memory_share >= 0 /* percent */
      && !kgen_cuda_check(
          call,
          cuFuncSetAttribute(
              call->functions[function], CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
              local_memory_share),
          "cuFuncSetAttribute"))
    return;
  if (groups[0] > INT32_MAX || groups[1] > INT32_MAX || groups[2] > INT32_MAX)
    error = CUDA_ERROR_INVALID_VALUE;
  else if (is_cooperative) /* reports CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE if not all fit */
    error = cuLaunchCooperativeKernel(
        call->functions[function], (unsigned int) groups[0], (unsigned int) groups[1],
        (unsigned int) groups[2], threads[0], threads[1], threads[2], local_memory, call->stream,
        parameters);
  else
    error = cuLaunchKernel(
        call->functions[function], (unsigned int) groups[0], (unsigned int) groups[1],
        (unsigned int) groups[2], threads[0], threads[1], threads[2], local_memory, call->stream,
        parameters, NULL);
  kgen_cuda_check(call, error, name);
}

#endif
