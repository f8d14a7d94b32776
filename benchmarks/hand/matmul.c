#include <stddef.h>
#include <string.h>

/* Panels of 256 x 32 of b, packed; 8 x 32 sums in registers. n is a multiple of 256. */
enum { MI = 8, MJ = 32, MK = 256, LANES = 16 };
typedef float lanes __attribute__((vector_size(64), aligned(4)));

static inline void tile(float const *restrict a, float const *restrict panel,
                        float *restrict out, int n, int k0)
{
  lanes sum[MI][2] = {0};
  for (int k = 0; k < MK; ++k) {
    lanes left = *(lanes const *) (panel + k * MJ), right = *(lanes const *) (panel + k * MJ + LANES);
    #pragma GCC unroll 8
    for (int i = 0; i < MI; ++i) {
      sum[i][0] += a[(size_t) i * n + k] * left;
      sum[i][1] += a[(size_t) i * n + k] * right;
    }
  }
  #pragma GCC unroll 8
  for (int i = 0; i < MI; ++i)
    #pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      lanes *here = (lanes *) (out + (size_t) i * n + half * LANES);
      *here = k0 ? *here + sum[i][half] : sum[i][half];
    }
}

void matmul(float const *restrict a, float const *restrict b, float *restrict out, int n)
{
  #pragma omp parallel for
  for (int j = 0; j < n; j += MJ)
    for (int k = 0; k < n; k += MK) {
      float panel[MK * MJ] __attribute__((aligned(64)));
      for (int kk = 0; kk < MK; ++kk)
        memcpy(panel + kk * MJ, b + (size_t) (k + kk) * n + j, MJ * sizeof(float));
      for (int i = 0; i < n; i += MI)
        tile(a + (size_t) i * n + k, panel, out + (size_t) i * n + j, n, k);
    }
}
