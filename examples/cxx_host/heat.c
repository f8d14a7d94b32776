/* The heat equation in plain C: sizes are arguments, errors are statuses. */
#include "pde.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 65, STEPS = 200 };

int main(void)
{
  double const c = 0.2, h = acos(-1.0) / (N - 1);
  double *u = malloc(sizeof(double) * N * N), *next = malloc(sizeof(double) * N * N);
  if (u == NULL || next == NULL)
    return EXIT_FAILURE;
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j)
      u[i * N + j] = next[i * N + j] = sin(h * i) * sin(h * j);

  for (int step = 0; step < STEPS; ++step) {
    pde_status const status = pde_heat_step(u, next, c, N, N);
    if (status != pde_success) {
      fprintf(stderr, "%s: %s\n", pde_status_text(status), pde_last_message());
      return EXIT_FAILURE;
    }
    double *const swapped = u;
    u = next;
    next = swapped;
  }

  double const damping = pow(1 + 4 * c * (cos(h) - 1), STEPS);
  double worst = 0;
  for (int i = 1; i < N - 1; ++i)
    for (int j = 1; j < N - 1; ++j)
      worst = fmax(worst, fabs(u[i * N + j] - damping * sin(h * i) * sin(h * j)));
  free(u);
  free(next);
  printf("heat equation: %d steps, error %s 1e-12\n", STEPS, worst <= 1e-12 ? "<=" : ">");
  return worst <= 1e-12 ? EXIT_SUCCESS : EXIT_FAILURE;
}
