#include "a_internal.h"
#include <stdlib.h>

static void kgen_kernel(int *__restrict__ a, int *__restrict__ b)
{
  for (int i = 0; i < 4; ++i)
  {
    for (int j = 0; j < 4; ++j)
      a[4 * i + j] = 0;
    b[i] = 1;
  }
}

a_status a_kgen_kernel(int32_t *a, int32_t *b)
{
  int64_t const kg_bytes_a = 64;
  int64_t const kg_bytes_b = 16;
  if (a == NULL && kg_bytes_a > 0)
    return a_fail(a_null_pointer, "kgen_kernel: array 'a' is a null pointer");
  if ((uintptr_t) a % 4 != 0)
    return a_fail(a_misaligned, "kgen_kernel: array 'a' does not begin at a multiple of 4 bytes");
  if (b == NULL && kg_bytes_b > 0)
    return a_fail(a_null_pointer, "kgen_kernel: array 'b' is a null pointer");
  if ((uintptr_t) b % 4 != 0)
    return a_fail(a_misaligned, "kgen_kernel: array 'b' does not begin at a multiple of 4 bytes");
  if (kgen_overlap((uintptr_t) a, kg_bytes_a, (uintptr_t) b, kg_bytes_b))
    return a_fail(a_overlap, "kgen_kernel: array 'a', which is written, overlaps with array 'b'");
  kgen_kernel(a, b);
  return a_success;
}
