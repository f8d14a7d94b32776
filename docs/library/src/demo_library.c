#include "demo_internal.h"

static KGEN_THREAD_LOCAL char const *demo_message = "";

char const *demo_status_text(demo_status status)
{
  switch (status)
  {
    case demo_success: return "the kernel was launched";
    case demo_null_pointer: return "an array is a null pointer";
    case demo_invalid_size: return "a number is outside of its range, or an extent is negative";
    case demo_broken_assumption: return "the sizes break an assumption that the kernel was made with";
    case demo_misaligned: return "an array does not begin at a multiple of its alignment";
    case demo_overlap: return "an array that is written overlaps with another one";
    case demo_out_of_memory: return "there is no memory for temporary arrays";
    case demo_out_of_bounds: return "a subscript read from an array is outside of the array it is for";
    case demo_opencl_error: return "a function of OpenCL failed";
    case demo_cuda_error: return "a function of CUDA failed";
    case demo_invalid_layout: return "an array has another shape or other strides than the kernel's";
  }
  return "not a status";
}

demo_status demo_fail(demo_status status, char const *message)
{
  demo_message = message;
  return status;
}

char const *demo_last_message(void)
{
  return demo_message;
}
