/* A driver of CUDA that runs nothing: it counts, and notes what it is passed. */
#include <cuda.h>
#include <string.h>

int fake_loaded, fake_unloaded, fake_allocated, fake_freed, fake_launched, fake_zeroed;
int fake_cooperative;
unsigned int fake_groups[16], fake_threads[16];
int fake_numbers[16];
/* which parameter is noted, an int */
int fake_position;
unsigned long long fake_context = 1;
CUdeviceptr fake_range;
size_t fake_range_size;
int fake_error;

CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
  *id = context != NULL ? (unsigned long long) context : fake_context;
  return *id != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxPushCurrent(CUcontext context)
{
  fake_context = (unsigned long long) context;
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
  (void) context;
  fake_context = 1;
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, void const *image)
{
  static unsigned int const magic = 0xBA55ED50;
  __atomic_add_fetch(&fake_loaded, 1, __ATOMIC_RELAXED);
  *module = (CUmodule) image;
  return memcmp(image, &magic, sizeof magic) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

CUresult cuModuleUnload(CUmodule module)
{
  (void) module;
  ++fake_unloaded;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, char const *name)
{
  (void) module;
  *function = (CUfunction) name;
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
  (void) function, (void) attribute, (void) value;
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(
    CUfunction function, unsigned int groups_x, unsigned int groups_y, unsigned int groups_z,
    unsigned int threads_x, unsigned int threads_y, unsigned int threads_z, unsigned int shared,
    CUstream stream, void **parameters, void **extra)
{
  int n = __atomic_fetch_add(&fake_launched, 1, __ATOMIC_RELAXED) % 16;
  (void) function, (void) shared, (void) stream, (void) extra;
  fake_groups[n] = groups_x * groups_y * groups_z;
  fake_threads[n] = threads_x * threads_y * threads_z;
  if (fake_position > 0)
    memcpy(&fake_numbers[n], parameters[fake_position], sizeof(int));
  return (CUresult) fake_error;
}

CUresult cuLaunchCooperativeKernel(
    CUfunction function, unsigned int groups_x, unsigned int groups_y, unsigned int groups_z,
    unsigned int threads_x, unsigned int threads_y, unsigned int threads_z, unsigned int shared,
    CUstream stream, void **parameters)
{
  fake_cooperative++;
  return cuLaunchKernel(
      function, groups_x, groups_y, groups_z, threads_x, threads_y, threads_z, shared, stream,
      parameters, NULL);
}

CUresult cuMemAllocAsync(CUdeviceptr *memory, size_t n_bytes, CUstream stream)
{
  (void) stream;
  ++fake_allocated;
  *memory = 4096;
  return n_bytes < 1 << 30 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemsetD8Async(CUdeviceptr memory, unsigned char value, size_t n_bytes, CUstream stream)
{
  (void) stream;
  fake_zeroed = memory != 0 && value == 0 && fake_launched == 0 ? (int) n_bytes : -1;
  return CUDA_SUCCESS;
}

CUresult cuMemFreeAsync(CUdeviceptr memory, CUstream stream)
{
  (void) memory, (void) stream;
  ++fake_freed;
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *memory, size_t n_bytes)
{
  return cuMemAllocAsync(memory, n_bytes, NULL);
}

CUresult cuMemFree(CUdeviceptr memory)
{
  return cuMemFreeAsync(memory, NULL);
}

CUresult cuStreamSynchronize(CUstream stream)
{
  (void) stream;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr *first, size_t *n_bytes, CUdeviceptr memory)
{
  if (memory < fake_range || memory >= fake_range + fake_range_size)
    return CUDA_ERROR_NOT_FOUND;
  *first = fake_range;
  *n_bytes = fake_range_size;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, char const **name)
{
  *name = error == CUDA_ERROR_INVALID_CONTEXT ? "CUDA_ERROR_INVALID_CONTEXT" : "CUDA_ERROR_OTHER";
  return CUDA_SUCCESS;
}
