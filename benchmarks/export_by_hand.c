/* What one would write instead of an exported function in C. */
#include <stddef.h>
#include <stdint.h>

void by_hand(float const *restrict x, float *restrict y, float a, int n);
int by_hand_with_checks(float const *x, float *y, float a, int n);

void by_hand(float const *restrict x, float *restrict y, float a, int n)
{
  for (int i = 0; i < n; ++i)
    y[i] = a * x[i] + y[i];
}

/* with the checks that a careful author makes */
int by_hand_with_checks(float const *x, float *y, float a, int n)
{
  uintptr_t first_x = (uintptr_t) x, first_y = (uintptr_t) y;
  size_t n_bytes = (size_t) n * sizeof(float);
  if (n < 0 || (n > 0 && (x == NULL || y == NULL)))
    return 1;
  if (first_x % sizeof(float) != 0 || first_y % sizeof(float) != 0)
    return 2;
  if (n > 0 && first_x < first_y + n_bytes && first_y < first_x + n_bytes)
    return 3;
  by_hand(x, y, a, n);
  return 0;
}
