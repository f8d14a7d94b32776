// Solve the Poisson equation on a grid by conjugate gradients, with a sparse matrix (CSR).
#include "device.hpp"
#include <algorithm>
#include <cmath>
#include <cstdint>

struct Matrix {
  std::vector<std::int32_t> starts{0}, columns;
  std::vector<double> values;
};

// the five-point Laplacian on size*size points
Matrix laplacian(int size)
{
  Matrix matrix;
  auto put = [&](int i, int j, double value) {
    if (0 <= i && i < size && 0 <= j && j < size) {
      matrix.columns.push_back(i * size + j);
      matrix.values.push_back(value);
    }
  };
  for (int i = 0; i < size; ++i)
    for (int j = 0; j < size; ++j) {
      put(i - 1, j, -1);
      put(i, j - 1, -1);
      put(i, j, 4);
      put(i, j + 1, -1);
      put(i + 1, j, -1);
      matrix.starts.push_back(static_cast<std::int32_t>(matrix.columns.size()));
    }
  return matrix;
}

int main()
{
  int const size = 40, n = size * size;
  Matrix const matrix = laplacian(size);
  int const entries = static_cast<int>(matrix.columns.size());

  // the right-hand side for which the solution is 1 everywhere
  std::vector<double> b(n, 0.0);
  for (int row = 0; row < n; ++row)
    for (int k = matrix.starts[row]; k < matrix.starts[row + 1]; ++k)
      b[row] += matrix.values[k];

  int steps = 0;
  double worst = 0;
  try {
    Device device;
    Array<std::int32_t> starts(device, matrix.starts), columns(device, matrix.columns);
    Array<double> values(device, matrix.values);
    Array<double> x(device, std::vector<double>(n, 0.0)), r(device, b), p(device, b), q(device, b);
    Array<double> result(device, {0.0});

    auto dot = [&](Array<double> &one, Array<double> &other) {
      device.run([&](auto... queue) { pde::dot(queue..., one(n), other(n), result()); });
      return result.get()[0];
    };
    auto axpby = [&](double alpha, Array<double> &from, double beta, Array<double> &to) {
      device.run([&](auto... queue) { pde::axpby(queue..., alpha, beta, from(n), to(n)); });
    };

    double rr = dot(r, r);
    for (double const first = rr; rr > 1e-24 * first && steps < n; ++steps) {
      device.run([&](auto... queue) { // q = A p
        pde::multiply(queue..., starts(n + 1), columns(entries), values(entries), p(n), q(n));
      });
      double const alpha = rr / dot(p, q);
      axpby(alpha, p, 1, x);
      axpby(-alpha, q, 1, r);
      double const before = std::exchange(rr, dot(r, r));
      axpby(1, r, rr / before, p);
    }
    for (double value : x.get())
      worst = std::max(worst, std::abs(value - 1));
  }
  catch (pde::error const &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  std::printf("conjugate gradients: %s, error %s 1e-9\n", steps < 200 ? "converged" : "not converged",
              worst <= 1e-9 ? "<=" : ">");
  return worst <= 1e-9 && steps < 200 ? 0 : 1;
}
