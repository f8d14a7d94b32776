#include <stddef.h>

void stencil25(double const *restrict c, double const *restrict u, double *restrict out, int n)
{
  size_t const m = n + 8, plane = m * m;
  #pragma omp parallel for
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      double const *here = u + (i + 4) * plane + (j + 4) * m + 4;
      double *row = out + ((size_t) i * n + j) * n;
      #pragma omp simd
      for (int k = 0; k < n; ++k) {
        double sum = c[0] * here[k];
        #pragma GCC unroll 4
        for (int r = 1; r <= 4; ++r)
          sum += c[r] * (here[k - r * plane] + here[k + r * plane] + here[k - r * m]
                         + here[k + r * m] + here[k - r] + here[k + r]);
        row[k] = sum;
      }
    }
}
