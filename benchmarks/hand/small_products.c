#include <stddef.h>

/* Each row of a result is 10 lanes, masked, of which the compiler makes one vector. */
void small_products(float const *restrict d, float const *restrict u, float *restrict out, int n)
{
  enum { N = 10 };
  #pragma omp parallel for
  for (int e = 0; e < n; ++e) {
    float const *ue = u + (size_t) e * N * N;
    float *oe = out + (size_t) e * N * N;
    for (int i = 0; i < N; ++i) {
      float sum[N] = {0};
      #pragma GCC unroll 10
      for (int k = 0; k < N; ++k)
        #pragma omp simd
        for (int j = 0; j < N; ++j)
          sum[j] += d[i * N + k] * ue[k * N + j];
      for (int j = 0; j < N; ++j)
        oe[i * N + j] = sum[j];
    }
  }
}
