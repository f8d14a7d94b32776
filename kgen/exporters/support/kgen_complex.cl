/* Complex numbers of two parts of one type. */
typedef struct { float real, imag; } cfloat_t;

static inline cfloat_t cfloat_new(float real, float imag)
{
  cfloat_t z;
  z.real = real;
  z.imag = imag;
  return z;
}

#define cfloat_cast(A) cfloat_new((A).real, (A).imag)
static inline cfloat_t cfloat_fromreal(float a) { return cfloat_new(a, 0); }
static inline float cfloat_real(cfloat_t a) { return a.real; }
static inline float cfloat_imag(cfloat_t a) { return a.imag; }
static inline float cfloat_abs(cfloat_t a) { return hypot(a.real, a.imag); }
static inline cfloat_t cfloat_conj(cfloat_t a) { return cfloat_new(a.real, -a.imag); }
static inline cfloat_t cfloat_neg(cfloat_t a) { return cfloat_new(-a.real, -a.imag); }

static inline cfloat_t cfloat_add(cfloat_t a, cfloat_t b)
{
  return cfloat_new(a.real + b.real, a.imag + b.imag);
}
static inline cfloat_t cfloat_addr(cfloat_t a, float b) { return cfloat_new(a.real + b, a.imag); }
static inline cfloat_t cfloat_radd(float a, cfloat_t b) { return cfloat_new(a + b.real, b.imag); }
static inline cfloat_t cfloat_sub(cfloat_t a, cfloat_t b)
{
  return cfloat_new(a.real - b.real, a.imag - b.imag);
}

static inline cfloat_t cfloat_mul(cfloat_t a, cfloat_t b)
{
  return cfloat_new(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real);
}
static inline cfloat_t cfloat_mulr(cfloat_t a, float b)
{
  return cfloat_new(a.real * b, a.imag * b);
}
static inline cfloat_t cfloat_rmul(float a, cfloat_t b)
{
  return cfloat_new(a * b.real, a * b.imag);
}

/* Smith's division (1962): the larger part of the divisor is never squared. */
static inline cfloat_t cfloat_divide(cfloat_t a, cfloat_t b)
{
  if (fabs(b.real) <= fabs(b.imag)) {
    float ratio = b.real / b.imag;
    float below = b.imag * (1 + ratio * ratio);
    return cfloat_new((a.real * ratio + a.imag) / below, (a.imag * ratio - a.real) / below);
  }
  float ratio = b.imag / b.real;
  float below = b.real * (1 + ratio * ratio);
  return cfloat_new((a.real + a.imag * ratio) / below, (a.imag - a.real * ratio) / below);
}
static inline cfloat_t cfloat_rdivide(float a, cfloat_t b)
{
  if (fabs(b.real) <= fabs(b.imag)) {
    float ratio = b.real / b.imag;
    float below = b.imag * (1 + ratio * ratio);
    return cfloat_new(a * ratio / below, -a / below);
  }
  float ratio = b.imag / b.real;
  float below = b.real * (1 + ratio * ratio);
  return cfloat_new(a / below, -a * ratio / below);
}
static inline cfloat_t cfloat_divider(cfloat_t a, float b)
{
  return cfloat_new(a.real / b, a.imag / b);
}

static inline cfloat_t cfloat_exp(cfloat_t a)
{
  float size = exp(a.real);
  float cosine;
  float sine = sincos(a.imag, &cosine);
  return cfloat_new(size * cosine, size * sine);
}
static inline cfloat_t cfloat_log(cfloat_t a)
{
  return cfloat_new(log(cfloat_abs(a)), atan2(a.imag, a.real));
}
static inline cfloat_t cfloat_sqrt(cfloat_t a)
{
  float size = cfloat_abs(a);
  if (size == 0)
    return cfloat_new(0, 0);
  if (a.real > 0) {
    float root = sqrt((size + a.real) / 2);
    return cfloat_new(root, a.imag / root / 2);
  }
  float root = sqrt((size - a.real) / 2);
  if (a.imag < 0)
    root = -root;
  return cfloat_new(a.imag / root / 2, root);
}
static inline cfloat_t cfloat_pow(cfloat_t a, cfloat_t b)
{
  float log_size = log(hypot(a.real, a.imag));
  float angle = atan2(a.imag, a.real);
  float size = exp(log_size * b.real - angle * b.imag);
  float cosine;
  float sine = sincos(log_size * b.imag + angle * b.real, &cosine);
  return cfloat_new(size * cosine, size * sine);
}

static inline cfloat_t cfloat_sin(cfloat_t a)
{
  float cosine;
  float sine = sincos(a.real, &cosine);
  return cfloat_new(sine * cosh(a.imag), cosine * sinh(a.imag));
}
static inline cfloat_t cfloat_cos(cfloat_t a)
{
  float cosine;
  float sine = sincos(a.real, &cosine);
  return cfloat_new(cosine * cosh(a.imag), -sine * sinh(a.imag));
}
static inline cfloat_t cfloat_sinh(cfloat_t a)
{
  float cosine;
  float sine = sincos(a.imag, &cosine);
  return cfloat_new(sinh(a.real) * cosine, cosh(a.real) * sine);
}
static inline cfloat_t cfloat_cosh(cfloat_t a)
{
  float cosine;
  float sine = sincos(a.imag, &cosine);
  return cfloat_new(cosh(a.real) * cosine, sinh(a.real) * sine);
}
static inline cfloat_t cfloat_tan(cfloat_t a)
{
  float below = cos(2 * a.real) + cosh(2 * a.imag);
  return cfloat_new(sin(2 * a.real) / below, sinh(2 * a.imag) / below);
}
static inline cfloat_t cfloat_tanh(cfloat_t a)
{
  float below = cosh(2 * a.real) + cos(2 * a.imag);
  if (isinf(below))
    return cfloat_new(copysign((float) 1, a.real), 0);
  return cfloat_new(sinh(2 * a.real) / below, sin(2 * a.imag) / below);
}
