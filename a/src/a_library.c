#include "a_internal.h"

static KGEN_THREAD_LOCAL char const *a_message = "";

char const *a_status_text(a_status status)
{
  switch (status)
  {
    case a_success: return "the kernel was launched";
    case a_null_pointer: return "an array is a null pointer";
    case a_invalid_size: return "a number is outside of its range, or an extent is negative";
    case a_broken_assumption: return "the sizes break an assumption that the kernel was made with";
    case a_misaligned: return "an array does not begin at a multiple of its alignment";
    case a_overlap: return "an array that is written overlaps with another one";
    case a_out_of_memory: return "there is no memory for temporary arrays";
    case a_out_of_bounds: return "a subscript read from an array is outside of the array it is for";
    case a_opencl_error: return "a function of OpenCL failed";
    case a_cuda_error: return "a function of CUDA failed";
    case a_invalid_layout: return "an array has another shape or other strides than the kernel's";
  }
  return "not a status";
}

a_status a_fail(a_status status, char const *message)
{
  a_message = message;
  return status;
}

char const *a_last_message(void)
{
  return a_message;
}
