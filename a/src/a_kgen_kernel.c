#include "a_internal.h"
#include <stdlib.h>

static void kgen_kernel(double *__restrict__ a, double *__restrict__ b, int const n)
{
  for (int i = 2; i < n + 2; ++i)
  {
    a[i - 2] = i * i;
    if (i < 9)
      for (int j = 0; j < 3; ++j)
        b[3 * n - 3 * i + j + 3] = a[i - 2] + 10 * j;
  }
}

a_status a_kgen_kernel(double *a, double *b, int32_t n)
{
  if (n < 0 || n > 2146435072)
    return a_fail(a_invalid_size, "kgen_kernel: argument 'n' is outside of [0, 2146435072]");
  if (!((int64_t) n < 100))
    return a_fail(a_broken_assumption, "kgen_kernel: the sizes break the assumption n < 100");
  if (!((int64_t) n >= 0))
    return a_fail(a_broken_assumption, "kgen_kernel: the sizes break the assumption n >= 0");
  int64_t const kg_bytes_a = 8 * (int64_t) n;
  int64_t const kg_bytes_b = 24 * (int64_t) n;
  if (a == NULL && kg_bytes_a > 0)
    return a_fail(a_null_pointer, "kgen_kernel: array 'a' is a null pointer");
  if ((uintptr_t) a % 8 != 0)
    return a_fail(a_misaligned, "kgen_kernel: array 'a' does not begin at a multiple of 8 bytes");
  if (b == NULL && kg_bytes_b > 0)
    return a_fail(a_null_pointer, "kgen_kernel: array 'b' is a null pointer");
  if ((uintptr_t) b % 8 != 0)
    return a_fail(a_misaligned, "kgen_kernel: array 'b' does not begin at a multiple of 8 bytes");
  if (kgen_overlap((uintptr_t) a, kg_bytes_a, (uintptr_t) b, kg_bytes_b))
    return a_fail(a_overlap, "kgen_kernel: array 'a', which is written, overlaps with array 'b'");
  kgen_kernel(a, b, n);
  return a_success;
}
