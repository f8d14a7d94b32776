#include <stddef.h>

/* Pulls from the neighbours, collides (one relaxation time). */
void lbm(double omega, double const *restrict f, double *restrict out, int n)
{
  static int const cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, cy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
  static double const w[9] = {4. / 9, 1. / 9, 1. / 9, 1. / 9, 1. / 9, 1. / 36, 1. / 36, 1. / 36, 1. / 36};
  size_t const m = n + 2;
  #pragma omp parallel for
  for (int i = 0; i < n; ++i)
    #pragma omp simd
    for (int j = 0; j < n; ++j) {
      double g[9], rho = 0, u = 0, v = 0;
      #pragma GCC unroll 9
      for (int q = 0; q < 9; ++q) {
        g[q] = f[(q * m + i + 1 - cy[q]) * m + j + 1 - cx[q]];
        rho += g[q];
        u += cx[q] * g[q];
        v += cy[q] * g[q];
      }
      u /= rho;
      v /= rho;
      #pragma GCC unroll 9
      for (int q = 0; q < 9; ++q) {
        double cu = 3 * (cx[q] * u + cy[q] * v);
        double equilibrium = w[q] * rho * (1 + cu + 0.5 * cu * cu - 1.5 * (u * u + v * v));
        out[((size_t) q * n + i) * n + j] = g[q] + omega * (equilibrium - g[q]);
      }
    }
}
