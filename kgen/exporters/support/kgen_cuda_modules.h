/* What a library has loaded into contexts of CUDA, and what it says of errors. It is included
 * once, where kgen_codes is the list of all kernels.
 */
#include <stdio.h>
#include <stdlib.h>

/* A kernel that is loaded into one context, which is known by an identity that no later context
 * has where CUDA gives one.
 */
struct kgen_cuda_module {
  kgen_cuda_module *next;
  unsigned long long context;
  CUmodule module;
  CUfunction functions[1];
};

/* Return the identity of the current context. */
static CUresult kgen_cuda_context(unsigned long long *found)
{
#if CUDA_VERSION >= 12000
  return cuCtxGetId(NULL, found);
#else
  CUcontext context = NULL;
  CUresult error = cuCtxGetCurrent(&context);
  *found = (unsigned long long) (uintptr_t) context;
  return error == CUDA_SUCCESS && context == NULL ? CUDA_ERROR_INVALID_CONTEXT : error;
#endif
}

/* Load a kernel into the current context. The code is locked. */
static kgen_cuda_module *kgen_cuda_load(kgen_cuda_call *call, unsigned long long context)
{
  kgen_cuda_code *code = call->code;
  kgen_cuda_module *made =
      calloc(1, sizeof *made + code->n_functions * sizeof made->functions[0]);
  CUresult error = made == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  if (!kgen_cuda_check(call, error, "calloc"))
    return NULL;
  if (!kgen_cuda_check(call, cuModuleLoadData(&made->module, code->fatbin), "cuModuleLoadData")) {
    free(made);
    return NULL;
  }
  for (size_t i = 0; i < code->n_functions && error == CUDA_SUCCESS; ++i)
    error = cuModuleGetFunction(&made->functions[i], made->module, code->functions[i]);
  if (!kgen_cuda_check(call, error, "cuModuleGetFunction")) {
    cuModuleUnload(made->module);
    free(made);
    return NULL;
  }
  made->context = context;
  made->next = code->modules;
  code->modules = made;
  return made;
}

bool KGEN_NAME(cuda_begin)(kgen_cuda_call *call)
{
  unsigned long long context = 0;
  kgen_cuda_module *found;
  if (!kgen_cuda_check(call, kgen_cuda_context(&context), "cuCtxGetId"))
    return false;
  kgen_lock(&call->code->mutex);
  found = call->code->modules;
  while (found != NULL && found->context != context)
    found = found->next;
  if (found == NULL)
    found = kgen_cuda_load(call, context);
  kgen_unlock(&call->code->mutex);
  if (found == NULL)
    return false;
  call->functions = found->functions;
  return true;
}

CUdeviceptr KGEN_NAME(cuda_take)(kgen_cuda_call *call, int64_t n_bytes)
{
  CUresult error;
  if (n_bytes == 0 || call->error != CUDA_SUCCESS)
    return 0;
  call->is_freed_by_stream = true;
  error = cuMemAllocAsync(&call->own, (size_t) n_bytes, call->stream);
  if (error == CUDA_ERROR_NOT_SUPPORTED) {
    call->is_freed_by_stream = false;
    kgen_cuda_check(call, cuMemAlloc(&call->own, (size_t) n_bytes), "cuMemAlloc");
  } else
    kgen_cuda_check(call, error, "cuMemAllocAsync");
  if (call->error != CUDA_SUCCESS)
    call->own = 0;
  return call->own;
}

static KGEN_NAME(status) kgen_cuda_fail(kgen_cuda_call const *call)
{
  static KGEN_THREAD_LOCAL char message[512];
  char const *name = NULL, *hint = "";
  if (cuGetErrorName(call->error, &name) != CUDA_SUCCESS || name == NULL)
    name = "an error without a name";
  if (call->error == CUDA_ERROR_INVALID_CONTEXT)
    hint = "; a kernel runs in the current context";
  else if (call->error == CUDA_ERROR_NO_BINARY_FOR_GPU)
    hint = "; the library is not built for this device";
  snprintf(
      message, sizeof message, "%s: %s failed with %s (%d)%s", call->code->name, call->failed,
      name, (int) call->error, hint);
  if (call->error == CUDA_ERROR_OUT_OF_MEMORY)
    return KGEN_NAME(fail)(KGEN_NAME(out_of_memory), message);
  return KGEN_NAME(fail)(KGEN_NAME(cuda_error), message);
}

KGEN_NAME(status) KGEN_NAME(cuda_end)(kgen_cuda_call *call)
{
  if (call->own != 0 && call->is_freed_by_stream)
    kgen_cuda_check(call, cuMemFreeAsync(call->own, call->stream), "cuMemFreeAsync");
  else if (call->own != 0) {
    kgen_cuda_check(call, cuStreamSynchronize(call->stream), "cuStreamSynchronize");
    kgen_cuda_check(call, cuMemFree(call->own), "cuMemFree");
  }
  return call->error == CUDA_SUCCESS ? KGEN_NAME(success) : kgen_cuda_fail(call);
}

/* Unload all kernels from the current context. */
static CUresult kgen_cuda_unload(void)
{
  unsigned long long context = 0;
  CUresult error = kgen_cuda_context(&context);
  for (size_t i = 0; i < sizeof kgen_codes / sizeof kgen_codes[0] && error == CUDA_SUCCESS; ++i) {
    kgen_cuda_module **at = &kgen_codes[i]->modules;
    kgen_lock(&kgen_codes[i]->mutex);
    while (*at != NULL && (*at)->context != context)
      at = &(*at)->next;
    if (*at != NULL) {
      kgen_cuda_module *module = *at;
      *at = module->next;
      error = cuModuleUnload(module->module);
      free(module);
    }
    kgen_unlock(&kgen_codes[i]->mutex);
  }
  return error;
}

KGEN_NAME(status) KGEN_NAME(cuda_release)(CUcontext context)
{
  CUresult error = context != NULL ? cuCtxPushCurrent(context) : CUDA_SUCCESS;
  if (error == CUDA_SUCCESS) {
    error = kgen_cuda_unload();
    if (context != NULL)
      cuCtxPopCurrent(NULL);
  }
  if (error == CUDA_SUCCESS)
    return KGEN_NAME(success);
  return KGEN_NAME(fail)(KGEN_NAME(cuda_error), "the context is none, or was destroyed");
}
