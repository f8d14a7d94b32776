/* The programs of a library for OpenCL, and what it says of errors. It is included once, where
 * kgen_codes is the list of all kernels.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The kernel objects of one call at a time: their arguments are not another call's. */
struct kgen_opencl_kernels {
  kgen_opencl_kernels *next;
  cl_kernel functions[1];
};

/* The program of a kernel for one device of one context, which it keeps. */
struct kgen_opencl_program {
  kgen_opencl_program *next;
  cl_context context;
  cl_device_id device;
  cl_program program;
  kgen_opencl_kernels *free;
};

static kgen_mutex kgen_log_mutex = KGEN_MUTEX;
static char *kgen_log = NULL;

static char const *kgen_opencl_error(cl_int error)
{
#define KGEN_CASE(CODE) \
  case CODE: \
    return #CODE
  switch (error) {
    KGEN_CASE(CL_DEVICE_NOT_FOUND);
    KGEN_CASE(CL_DEVICE_NOT_AVAILABLE);
    KGEN_CASE(CL_COMPILER_NOT_AVAILABLE);
    KGEN_CASE(CL_MEM_OBJECT_ALLOCATION_FAILURE);
    KGEN_CASE(CL_OUT_OF_RESOURCES);
    KGEN_CASE(CL_OUT_OF_HOST_MEMORY);
    KGEN_CASE(CL_PROFILING_INFO_NOT_AVAILABLE);
    KGEN_CASE(CL_MEM_COPY_OVERLAP);
    KGEN_CASE(CL_IMAGE_FORMAT_MISMATCH);
    KGEN_CASE(CL_IMAGE_FORMAT_NOT_SUPPORTED);
    KGEN_CASE(CL_BUILD_PROGRAM_FAILURE);
    KGEN_CASE(CL_MAP_FAILURE);
    KGEN_CASE(CL_MISALIGNED_SUB_BUFFER_OFFSET);
    KGEN_CASE(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    KGEN_CASE(CL_COMPILE_PROGRAM_FAILURE);
    KGEN_CASE(CL_LINKER_NOT_AVAILABLE);
    KGEN_CASE(CL_LINK_PROGRAM_FAILURE);
    KGEN_CASE(CL_DEVICE_PARTITION_FAILED);
    KGEN_CASE(CL_KERNEL_ARG_INFO_NOT_AVAILABLE);
    KGEN_CASE(CL_INVALID_VALUE);
    KGEN_CASE(CL_INVALID_DEVICE_TYPE);
    KGEN_CASE(CL_INVALID_PLATFORM);
    KGEN_CASE(CL_INVALID_DEVICE);
    KGEN_CASE(CL_INVALID_CONTEXT);
    KGEN_CASE(CL_INVALID_QUEUE_PROPERTIES);
    KGEN_CASE(CL_INVALID_COMMAND_QUEUE);
    KGEN_CASE(CL_INVALID_HOST_PTR);
    KGEN_CASE(CL_INVALID_MEM_OBJECT);
    KGEN_CASE(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR);
    KGEN_CASE(CL_INVALID_IMAGE_SIZE);
    KGEN_CASE(CL_INVALID_SAMPLER);
    KGEN_CASE(CL_INVALID_BINARY);
    KGEN_CASE(CL_INVALID_BUILD_OPTIONS);
    KGEN_CASE(CL_INVALID_PROGRAM);
    KGEN_CASE(CL_INVALID_PROGRAM_EXECUTABLE);
    KGEN_CASE(CL_INVALID_KERNEL_NAME);
    KGEN_CASE(CL_INVALID_KERNEL_DEFINITION);
    KGEN_CASE(CL_INVALID_KERNEL);
    KGEN_CASE(CL_INVALID_ARG_INDEX);
    KGEN_CASE(CL_INVALID_ARG_VALUE);
    KGEN_CASE(CL_INVALID_ARG_SIZE);
    KGEN_CASE(CL_INVALID_KERNEL_ARGS);
    KGEN_CASE(CL_INVALID_WORK_DIMENSION);
    KGEN_CASE(CL_INVALID_WORK_GROUP_SIZE);
    KGEN_CASE(CL_INVALID_WORK_ITEM_SIZE);
    KGEN_CASE(CL_INVALID_GLOBAL_OFFSET);
    KGEN_CASE(CL_INVALID_EVENT_WAIT_LIST);
    KGEN_CASE(CL_INVALID_EVENT);
    KGEN_CASE(CL_INVALID_OPERATION);
    KGEN_CASE(CL_INVALID_BUFFER_SIZE);
    KGEN_CASE(CL_INVALID_GLOBAL_WORK_SIZE);
    KGEN_CASE(CL_INVALID_PROPERTY);
    KGEN_CASE(CL_INVALID_IMAGE_DESCRIPTOR);
  }
#undef KGEN_CASE
  return "an error without a name";
}

/* Keep what the compiler says about a program. */
static void kgen_opencl_keep_log(cl_program program, cl_device_id device)
{
  size_t n_bytes = 0;
  char *log;
  clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &n_bytes);
  log = calloc(n_bytes + 1, 1);
  if (log == NULL)
    return;
  clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, n_bytes, log, NULL);
  kgen_lock(&kgen_log_mutex);
  free(kgen_log);
  kgen_log = log;
  kgen_unlock(&kgen_log_mutex);
}

static bool kgen_opencl_is_pocl(kgen_opencl_call *call, cl_device_id device)
{
  cl_platform_id platform = NULL;
  char name[64] = "";
  cl_int error = clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
  if (kgen_opencl_check(call, error, "clGetDeviceInfo"))
    clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
  return strcmp(name, "Portable Computing Language") == 0;
}

static cl_program kgen_opencl_build(kgen_opencl_call *call, cl_device_id device)
{
  bool is_pocl = kgen_opencl_is_pocl(call, device);
  kgen_opencl_text const *text = is_pocl ? &call->code->text_for_pocl : &call->code->text;
  cl_program program;
  cl_int error;
  if (call->error != CL_SUCCESS)
    return NULL;
  program = clCreateProgramWithSource(
      call->context, text->n_lines, (char const **) text->lines, NULL, &error);
  if (!kgen_opencl_check(call, error, "clCreateProgramWithSource"))
    return NULL;
  error = clBuildProgram(program, 1, &device, text->options, NULL, NULL);
  if (kgen_opencl_check(call, error, "clBuildProgram"))
    return program;
  kgen_opencl_keep_log(program, device);
  clReleaseProgram(program);
  return NULL;
}

/* Return the program for a device, which is built the first time. The code is locked. */
static kgen_opencl_program *kgen_opencl_find_program(kgen_opencl_call *call, cl_device_id device)
{
  kgen_opencl_program *found = call->code->programs;
  while (found != NULL && (found->context != call->context || found->device != device))
    found = found->next;
  if (found != NULL)
    return found;
  found = calloc(1, sizeof *found);
  if (!kgen_opencl_check(call, found == NULL ? CL_OUT_OF_HOST_MEMORY : CL_SUCCESS, "calloc"))
    return NULL;
  found->program = kgen_opencl_build(call, device);
  if (found->program == NULL) {
    free(found);
    return NULL;
  }
  clRetainContext(call->context);
  found->context = call->context;
  found->device = device;
  found->next = call->code->programs;
  call->code->programs = found;
  return found;
}

static void kgen_opencl_free_kernels(kgen_opencl_kernels *kernels, size_t n_functions)
{
  for (size_t i = 0; i < n_functions; ++i)
    if (kernels->functions[i] != NULL)
      clReleaseKernel(kernels->functions[i]);
  free(kernels);
}

/* Return kernel objects that no other call has. The code is locked. */
static kgen_opencl_kernels *kgen_opencl_take_kernels(kgen_opencl_call *call)
{
  kgen_opencl_program *program = call->program;
  size_t n_functions = call->code->n_functions;
  kgen_opencl_kernels *taken = program->free;
  if (taken != NULL) {
    program->free = taken->next;
    return taken;
  }
  taken = calloc(1, sizeof *taken + n_functions * sizeof taken->functions[0]);
  kgen_opencl_check(call, taken == NULL ? CL_OUT_OF_HOST_MEMORY : CL_SUCCESS, "calloc");
  for (size_t i = 0; i < n_functions && call->error == CL_SUCCESS; ++i) {
    cl_int error;
    taken->functions[i] = clCreateKernel(program->program, call->code->functions[i], &error);
    kgen_opencl_check(call, error, "clCreateKernel");
  }
  if (taken != NULL && call->error != CL_SUCCESS) {
    kgen_opencl_free_kernels(taken, n_functions);
    return NULL;
  }
  return taken;
}

bool KGEN_NAME(opencl_begin)(kgen_opencl_call *call)
{
  cl_device_id device = NULL;
  cl_command_queue_properties properties = 0;
  cl_int error =
      clGetCommandQueueInfo(call->queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
  if (error == CL_SUCCESS && !call->is_single)
    error = clGetCommandQueueInfo(
        call->queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
  if (!kgen_opencl_check(call, error, "clGetCommandQueueInfo"))
    return false;
  call->is_in_order = !(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  kgen_lock(&call->code->mutex);
  call->program = kgen_opencl_find_program(call, device);
  if (call->program != NULL)
    call->kernels = kgen_opencl_take_kernels(call);
  kgen_unlock(&call->code->mutex);
  return call->error == CL_SUCCESS;
}

cl_kernel KGEN_NAME(opencl_kernel)(kgen_opencl_call const *call, size_t function)
{
  return call->kernels->functions[function];
}

static KGEN_NAME(status) kgen_opencl_fail(kgen_opencl_call const *call)
{
  static KGEN_THREAD_LOCAL char message[512];
  char const *hint = call->error == CL_BUILD_PROGRAM_FAILURE ? "; the build log has more" : "";
  snprintf(
      message, sizeof message, "%s: %s failed with %s (%d)%s", call->code->name, call->failed,
      kgen_opencl_error(call->error), (int) call->error, hint);
  if (call->error == CL_MEM_OBJECT_ALLOCATION_FAILURE)
    return KGEN_NAME(fail)(KGEN_NAME(out_of_memory), message);
  return KGEN_NAME(fail)(KGEN_NAME(opencl_error), message);
}

KGEN_NAME(status) KGEN_NAME(opencl_end)(kgen_opencl_call *call, cl_event *done)
{
  if (call->error == CL_SUCCESS && done != NULL && call->last == NULL)
    kgen_opencl_check(
        call,
        clEnqueueMarkerWithWaitList(
            call->queue, call->n_wait, call->n_wait > 0 ? call->wait : NULL, &call->last),
        "clEnqueueMarkerWithWaitList");
  if (call->kernels != NULL) {
    kgen_lock(&call->code->mutex);
    call->kernels->next = call->program->free;
    call->program->free = call->kernels;
    kgen_unlock(&call->code->mutex);
  }
  if (call->error == CL_SUCCESS && done != NULL)
    *done = call->last;
  else if (call->last != NULL)
    clReleaseEvent(call->last);
  return call->error == CL_SUCCESS ? KGEN_NAME(success) : kgen_opencl_fail(call);
}

static void kgen_opencl_free_program(kgen_opencl_program *program, size_t n_functions)
{
  while (program->free != NULL) {
    kgen_opencl_kernels *kernels = program->free;
    program->free = kernels->next;
    kgen_opencl_free_kernels(kernels, n_functions);
  }
  clReleaseProgram(program->program);
  clReleaseContext(program->context);
  free(program);
}

KGEN_NAME(status) KGEN_NAME(opencl_release)(cl_context context)
{
  if (context == NULL)
    return KGEN_NAME(fail)(KGEN_NAME(null_pointer), "the context is a null pointer");
  for (size_t i = 0; i < sizeof kgen_codes / sizeof kgen_codes[0]; ++i) {
    kgen_opencl_program **at = &kgen_codes[i]->programs;
    kgen_lock(&kgen_codes[i]->mutex);
    while (*at != NULL) {
      kgen_opencl_program *program = *at;
      if (program->context == context) {
        *at = program->next;
        kgen_opencl_free_program(program, kgen_codes[i]->n_functions);
      } else
        at = &program->next;
    }
    kgen_unlock(&kgen_codes[i]->mutex);
  }
  return KGEN_NAME(success);
}

size_t KGEN_NAME(opencl_build_log)(size_t n_bytes, char *text)
{
  size_t needed = 0;
  kgen_lock(&kgen_log_mutex);
  if (kgen_log != NULL) {
    needed = strlen(kgen_log) + 1;
    if (text != NULL && n_bytes > 0) {
      size_t copied = needed < n_bytes ? needed : n_bytes;
      memcpy(text, kgen_log, copied);
      text[copied - 1] = 0;
    }
  } else if (text != NULL && n_bytes > 0)
    text[0] = 0;
  kgen_unlock(&kgen_log_mutex);
  return needed;
}
