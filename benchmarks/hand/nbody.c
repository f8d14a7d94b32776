#include <math.h>

#pragma GCC optimize ("fast-math")

/* 64 bodies are in vectors, each other body in turn. n is a multiple of 64. */
void nbody(float const *restrict x, float const *restrict y, float const *restrict z, float const *restrict mass, float *restrict ax, float *restrict ay, float *restrict az, int n)
{
  enum { T = 64 };
  #pragma omp parallel for
  for (int i = 0; i < n; i += T) {
    float sx[T] = {0}, sy[T] = {0}, sz[T] = {0};
    for (int j = 0; j < n; ++j)
      #pragma omp simd
      for (int l = 0; l < T; ++l) {
        float dx = x[j] - x[i + l], dy = y[j] - y[i + l], dz = z[j] - z[i + l];
        float r2 = dx * dx + dy * dy + dz * dz + 0.01f;
        float w = mass[j] / (r2 * sqrtf(r2));
        sx[l] += w * dx;
        sy[l] += w * dy;
        sz[l] += w * dz;
      }
    for (int l = 0; l < T; ++l) {
      ax[i + l] = sx[l];
      ay[i + l] = sy[l];
      az[i + l] = sz[l];
    }
  }
}
