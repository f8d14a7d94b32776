/* What the launchers of exported kernels share. All of it is static: any number of libraries
 * can be linked into one program.
 */
#ifndef KGEN_SUPPORT_H
#define KGEN_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define KGEN_UNUSED __attribute__((unused))
/* The code of kernels does what its author wrote, which may be more than is of use. */
#pragma GCC diagnostic ignored "-Wabsolute-value"
#pragma GCC diagnostic ignored "-Wdangling-else"
#pragma GCC diagnostic ignored "-Wtautological-compare"
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-variable"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#else
#define KGEN_UNUSED
#endif

#ifdef __cplusplus
#define KGEN_THREAD_LOCAL thread_local
#elif defined(_MSC_VER)
#define KGEN_THREAD_LOCAL __declspec(thread)
#else
#define KGEN_THREAD_LOCAL _Thread_local
#endif

/* Where a workspace and each temporary array in it begin, in bytes. */
#define KGEN_ALIGNMENT 64

/* No array has more bytes. Larger sums and products end up here. */
#define KGEN_MAX_BYTES (INT64_MAX / 2)

/* a + b, or the number of 64 bits that is nearest to it; what stands for a larger number stays
 * so, whatever is taken away from it
 */
KGEN_UNUSED static inline int64_t kgen_add(int64_t a, int64_t b)
{
  if (a == INT64_MAX || b == INT64_MAX)
    return INT64_MAX;
  if (a > 0 && b > INT64_MAX - a)
    return INT64_MAX;
  if (a < 0 && b < INT64_MIN - a)
    return INT64_MIN;
  return a + b;
}

/* a * b, or the number of 64 bits that is nearest to it */
KGEN_UNUSED static inline int64_t kgen_mul(int64_t a, int64_t b)
{
  if (a == 0 || b == 0)
    return 0;
  if ((a > 0) == (b > 0)) {
    if (a > 0 ? a > INT64_MAX / b : a < INT64_MAX / b)
      return INT64_MAX;
  }
  else if (a > 0 ? b < INT64_MIN / a : a < INT64_MIN / b)
    return INT64_MIN;
  return a * b;
}

/* a / b, rounded down; 0 for b = 0 */
KGEN_UNUSED static inline int64_t kgen_floor_div(int64_t a, int64_t b)
{
  if (b == 0)
    return 0;
  if (b == -1)
    return a == INT64_MIN ? INT64_MAX : -a;
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

/* a - b * floor_div(a, b); 0 for b = 0 */
KGEN_UNUSED static inline int64_t kgen_floor_mod(int64_t a, int64_t b)
{
  if (b == 0 || b == -1)
    return 0;
  return a % b + (a % b != 0 && (a % b < 0) != (b < 0) ? b : 0);
}

KGEN_UNUSED static inline int64_t kgen_min(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

KGEN_UNUSED static inline int64_t kgen_max(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

/* Whether two pieces of memory have a byte in common. */
KGEN_UNUSED static inline bool kgen_overlap(uintptr_t a, int64_t n_a, uintptr_t b, int64_t n_b)
{
  return n_a > 0 && n_b > 0 && a < b + (uint64_t) n_b && b < a + (uint64_t) n_a;
}

/* n_bytes, rounded up to whole pieces; 0 for less than none */
KGEN_UNUSED static inline int64_t kgen_pieces(int64_t n_bytes, int64_t piece)
{
  return n_bytes <= 0 ? 0 : (n_bytes + piece - 1) / piece * piece;
}

#endif
