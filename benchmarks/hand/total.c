void total(double const *restrict a, double *restrict out, int n)
{
  double sum = 0;
  #pragma omp parallel for simd reduction(+ : sum)
  for (int i = 0; i < n; ++i)
    sum += a[i];
  *out = sum;
}
