/* 10 steps of Lorenz's equations, for 32 systems at a time. n is a multiple of 32. */
enum { T = 32 };

void rk4(double h, double const *restrict xs, double const *restrict ys,
         double const *restrict zs, double *restrict ox, double *restrict oy,
         double *restrict oz, int n)
{
  #pragma omp parallel for
  for (int i = 0; i < n; i += T) {
    double state[3][T];
    for (int l = 0; l < T; ++l) {
      state[0][l] = xs[i + l];
      state[1][l] = ys[i + l];
      state[2][l] = zs[i + l];
    }
    for (int t = 0; t < 10; ++t)
      #pragma omp simd
      for (int l = 0; l < T; ++l) {
        double x = state[0][l], y = state[1][l], z = state[2][l];
        double px = x, py = y, pz = z, sx = 0, sy = 0, sz = 0;
        #pragma GCC unroll 4
        for (int stage = 0; stage < 4; ++stage) {
          double dx = 10 * (py - px), dy = px * (28 - pz) - py, dz = px * py - 8.0 / 3 * pz;
          double weight = stage == 1 || stage == 2 ? 2 : 1, step = stage == 2 ? h : h / 2;
          sx += weight * dx;
          sy += weight * dy;
          sz += weight * dz;
          px = x + step * dx;
          py = y + step * dy;
          pz = z + step * dz;
        }
        state[0][l] = x + h / 6 * sx;
        state[1][l] = y + h / 6 * sy;
        state[2][l] = z + h / 6 * sz;
      }
    for (int l = 0; l < T; ++l) {
      ox[i + l] = state[0][l];
      oy[i + l] = state[1][l];
      oz[i + l] = state[2][l];
    }
  }
}
