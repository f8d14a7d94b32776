void axpy(double a, double const *restrict x, double const *restrict y, double *restrict out, int n)
{
  #pragma omp parallel for simd
  for (int i = 0; i < n; ++i)
    out[i] = a * x[i] + y[i];
}
