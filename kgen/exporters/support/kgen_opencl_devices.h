/* Kinds of OpenCL devices, for calls that choose a variant of a kernel. */
#ifndef KGEN_OPENCL_DEVICES_H
#define KGEN_OPENCL_DEVICES_H

#include <ctype.h>
#include <string.h>

#include "kgen_opencl.h"

/* Whether text, in small letters, has a word in it. */
KGEN_UNUSED static inline bool kgen_has_word(char const *text, char const *word)
{
  char small[256];
  size_t n = 0;
  for (; text[n] != '\0' && n + 1 < sizeof small; ++n)
    small[n] = (char) tolower((unsigned char) text[n]);
  small[n] = '\0';
  return strstr(small, word) != NULL;
}

/* Whether the device of a queue is of a kind: a maker of GPUs, or cpu, host, gpu, other. */
KGEN_UNUSED static inline bool kgen_opencl_is_a(cl_command_queue queue, char const *kind)
{
  cl_device_id device = NULL;
  cl_device_type type = 0;
  char vendor[256] = "";
  bool is_gpu, is_cpu;
  if (queue == NULL
      || clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL) != CL_SUCCESS
      || clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL) != CL_SUCCESS)
    return false;
  is_gpu = (type & CL_DEVICE_TYPE_GPU) != 0;
  is_cpu = !is_gpu && (type & CL_DEVICE_TYPE_CPU) != 0;
  if (strcmp(kind, "gpu") == 0)
    return is_gpu;
  if (strcmp(kind, "cpu") == 0 || strcmp(kind, "host") == 0)
    return is_cpu;
  if (strcmp(kind, "other") == 0)
    return !is_gpu && !is_cpu;
  clGetDeviceInfo(device, CL_DEVICE_VENDOR, sizeof vendor - 1, vendor, NULL);
  if (strcmp(kind, "radeon") == 0)
    return is_gpu && (kgen_has_word(vendor, "advanced micro devices") || kgen_has_word(vendor, "amd"));
  return is_gpu && kgen_has_word(vendor, kind);
}

#endif
