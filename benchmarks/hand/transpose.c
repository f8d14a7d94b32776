#include <stddef.h>

/* Squares of 16 x 16 in vectors; rows and columns change places in four steps. n is a multiple
   of 256. */
enum { N = 16, TI = 64, TJ = 256 };
typedef float lanes __attribute__((vector_size(64), aligned(4)));
typedef int places __attribute__((vector_size(64)));

static inline void square(float const *restrict a, float *restrict out, int n)
{
  lanes row[N], next[N];
  #pragma GCC unroll 16
  for (int i = 0; i < N; ++i)
    row[i] = *(lanes const *) (a + (size_t) i * n);
  #pragma GCC unroll 4
  for (int step = 1; step < N; step *= 2) {
    places low, high;
    #pragma GCC unroll 16
    for (int l = 0; l < N; ++l) {
      low[l] = l & step ? N + l - step : l;
      high[l] = l & step ? N + l : l + step;
    }
    #pragma GCC unroll 16
    for (int i = 0; i < N; ++i)
      next[i] = i & step ? __builtin_shuffle(row[i - step], row[i], high)
                         : __builtin_shuffle(row[i], row[i + step], low);
    #pragma GCC unroll 16
    for (int i = 0; i < N; ++i)
      row[i] = next[i];
  }
  #pragma GCC unroll 16
  for (int i = 0; i < N; ++i)
    *(lanes *) (out + (size_t) i * n) = row[i];
}

void transpose(float const *restrict a, float *restrict out, int n)
{
  #pragma omp parallel for collapse(2)
  for (int i0 = 0; i0 < n; i0 += TI)
    for (int j0 = 0; j0 < n; j0 += TJ)
      for (int j = j0; j < j0 + TJ; j += N)
        for (int i = i0; i < i0 + TI; i += N)
          square(a + (size_t) j * n + i, out + (size_t) i * n + j, n);
}
