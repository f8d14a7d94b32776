void csr(int const *restrict starts, int const *restrict columns, double const *restrict values, double const *restrict x, double *restrict out, int n)
{
  #pragma omp parallel for
  for (int row = 0; row < n; ++row) {
    double sum = 0;
    for (int k = starts[row]; k < starts[row + 1]; ++k)
      sum += values[k] * x[columns[k]];
    out[row] = sum;
  }
}
