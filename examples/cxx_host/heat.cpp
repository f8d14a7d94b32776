// Solve the heat equation, and compare with the exact solution of the discrete problem.
#include "device.hpp"
#include <algorithm>
#include <cmath>

int main()
{
  int const n = 65, steps = 200;
  double const c = 0.2, h = std::acos(-1.0) / (n - 1);

  std::vector<double> start(n * n);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j)
      start[i * n + j] = std::sin(h * i) * std::sin(h * j);

  std::vector<double> found;
  try {
    Device device;
    Array<double> u(device, start), next(device, start);
    for (int step = 0; step < steps; ++step) {
      // the overload without sizes: they are those of the views
      device.run([&](auto... queue) { pde::heat_step(queue..., u(n, n), next(n, n), c); });
      u.swap(next);
    }
    found = u.get();
  }
  catch (pde::error const &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }

  // the sine waves keep their shape; each step damps them by the same factor
  double const damping = std::pow(1 + 4 * c * (std::cos(h) - 1), steps);
  double worst = 0;
  for (int i = 1; i < n - 1; ++i)
    for (int j = 1; j < n - 1; ++j)
      worst = std::max(worst, std::abs(found[i * n + j] - damping * start[i * n + j]));
  std::printf("heat equation: %d steps, error %s 1e-12\n", steps, worst <= 1e-12 ? "<=" : ">");
  return worst <= 1e-12 ? 0 : 1;
}
