#include <stddef.h>

void stencil7(double const *restrict u, double *restrict out, int n)
{
  size_t const m = n + 2, plane = m * m;
  #pragma omp parallel for
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      double const *here = u + (i + 1) * plane + (j + 1) * m + 1;
      double *row = out + ((size_t) i * n + j) * n;
      for (int k = 0; k < n; ++k)
        row[k] = here[k - plane] + here[k + plane] + here[k - m] + here[k + m] + here[k - 1]
                 + here[k + 1] - 6 * here[k];
    }
}
