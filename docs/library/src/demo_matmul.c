#include "demo_internal.h"
#include <stdlib.h>

#include <stdint.h>

static inline int kgen_min_int32(int a, int b)
{
  return a < b ? a : b;
}

static void matmul(float const *__restrict__ a, float const *__restrict__ b, float *__restrict__ c, int const n)
{
  for (int i_outer = 0; i_outer < (n + 7) / 8; ++i_outer)
    for (int i_inner = 0; i_inner < kgen_min_int32(8, n - 8 * i_outer); ++i_inner)
      for (int j = 0; j < n; ++j)
      {
        float acc_k = 0.0f;
        for (int k = 0; k < n; ++k)
          acc_k += a[(int64_t) n * (8 * i_outer + i_inner) + k] * b[(int64_t) n * k + j];
        c[(int64_t) n * (8 * i_outer + i_inner) + j] = acc_k;
      }
}

demo_status demo_matmul(float const *a, float const *b, float *c, int32_t n)
{
  if (n < 0 || n > 2146435072)
    return demo_fail(demo_invalid_size, "matmul: argument 'n' is outside of [0, 2146435072]");
  if (!((int64_t) n >= 1))
    return demo_fail(demo_broken_assumption, "matmul: the sizes break the assumption n >= 1");
  int64_t const kg_bytes_a = kgen_mul(4 * (int64_t) n, (int64_t) n);
  if (kg_bytes_a > KGEN_MAX_BYTES)
    return demo_fail(demo_invalid_size, "matmul: array 'a' would have more than 2**62 bytes");
  int64_t const kg_bytes_b = kgen_mul(4 * (int64_t) n, (int64_t) n);
  if (kg_bytes_b > KGEN_MAX_BYTES)
    return demo_fail(demo_invalid_size, "matmul: array 'b' would have more than 2**62 bytes");
  int64_t const kg_bytes_c = kgen_mul(4 * (int64_t) n, (int64_t) n);
  if (kg_bytes_c > KGEN_MAX_BYTES)
    return demo_fail(demo_invalid_size, "matmul: array 'c' would have more than 2**62 bytes");
  if (a == NULL && kg_bytes_a > 0)
    return demo_fail(demo_null_pointer, "matmul: array 'a' is a null pointer");
  if ((uintptr_t) a % 4 != 0)
    return demo_fail(demo_misaligned, "matmul: array 'a' does not begin at a multiple of 4 bytes");
  if (b == NULL && kg_bytes_b > 0)
    return demo_fail(demo_null_pointer, "matmul: array 'b' is a null pointer");
  if ((uintptr_t) b % 4 != 0)
    return demo_fail(demo_misaligned, "matmul: array 'b' does not begin at a multiple of 4 bytes");
  if (c == NULL && kg_bytes_c > 0)
    return demo_fail(demo_null_pointer, "matmul: array 'c' is a null pointer");
  if ((uintptr_t) c % 4 != 0)
    return demo_fail(demo_misaligned, "matmul: array 'c' does not begin at a multiple of 4 bytes");
  if (kgen_overlap((uintptr_t) c, kg_bytes_c, (uintptr_t) a, kg_bytes_a))
    return demo_fail(demo_overlap, "matmul: array 'c', which is written, overlaps with array 'a'");
  if (kgen_overlap((uintptr_t) c, kg_bytes_c, (uintptr_t) b, kg_bytes_b))
    return demo_fail(demo_overlap, "matmul: array 'c', which is written, overlaps with array 'b'");
  matmul(a, b, c, n);
  return demo_success;
}
