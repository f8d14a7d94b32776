#include <stddef.h>

void laplacian(double const *restrict u, double *restrict out, int n)
{
  size_t const m = n + 2;
  #pragma omp parallel for
  for (int i = 0; i < n; ++i) {
    double const *above = u + i * m + 1, *here = above + m, *below = here + m;
    double *row = out + (size_t) i * n;
    for (int j = 0; j < n; ++j)
      row[j] = above[j] + below[j] + here[j - 1] + here[j + 1] - 4 * here[j];
  }
}
