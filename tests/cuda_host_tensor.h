// What tensor cores do, for cuda_host.h. The fragments are those of the PTX ISA, "Matrix Fragments
// for mma", written from its text.

namespace tensor
{
struct Warp
{
  unsigned a[32][8], b[32][4];
  double da[32][8], db[32][4];
  void const *rows[32];
};

static Warp &warp()
{
  static thread_local Warp all[32];
  return all[host::group->running / 32];
}

static int lane()
{
  return host::group->running % 32;
}

static void meet()
{
  host::exchange(0xffffffff, 0);
}

template <class T> static unsigned bits_of(T value)
{
  uint16_t bits;
  std::memcpy(&bits, &value, 2);
  return bits;
}
template <class T> static float half_of(unsigned bits, int which)
{
  uint16_t part = bits >> 16 * which;
  T value;
  std::memcpy(&value, &part, 2);
  return (float) value;
}
template <class T> static unsigned kgen_pair(T low, T high)
{
  return bits_of(low) | bits_of(high) << 16;
}
static float __uint_as_float(unsigned bits)
{
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}
static unsigned __float_as_uint(float x)
{
  unsigned bits;
  std::memcpy(&bits, &x, 4);
  return bits;
}
static unsigned kgen_tf32(float x)
{
  unsigned bits;
  std::memcpy(&bits, &x, 4);
  return (bits + 0x1000) & ~0x1fffu;
}

// a[row][k], b[k][column] of types of 16 bits, from the registers of all lanes
template <class T, int K> static void halves(float (&a)[16][16], float (&b)[16][8])
{
  for (int t = 0; t < 32; ++t) {
    int groupID = t >> 2, threadID_in_group = t % 4;
    for (int i = 0; i < K / 2; ++i) {
      int row = (K == 8 ? i < 2 : i < 2 || (4 <= i && i < 6)) ? groupID : groupID + 8;
      int col = threadID_in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0);
      a[row][col] = half_of<T>(warp().a[t][i / 2], i % 2);
    }
    for (int i = 0; i < K / 4; ++i) {
      int row = threadID_in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0);
      b[row][groupID] = half_of<T>(warp().b[t][i / 2], i % 2);
    }
  }
}
// the same of larger types
template <int M, int K, class RA, class RB, class E>
static void whole(E (&a)[16][16], E (&b)[16][8], RA const &ra, RB const &rb)
{
  for (int t = 0; t < 32; ++t) {
    int groupID = t >> 2, threadID_in_group = t % 4;
    for (int i = 0; i < M * K / 32; ++i) {
      int row = M == 16 && i % 2 ? groupID + 8 : groupID;
      int col = M == 16 ? threadID_in_group + 4 * (i / 2) : threadID_in_group;
      a[row][col] = ra(t, i);
    }
    for (int i = 0; i < K / 4; ++i) b[threadID_in_group + 4 * i][groupID] = rb(t, i);
  }
}
template <int K, class E, class C>
static void add(E const (&a)[16][16], E const (&b)[16][8], C &c, int i)
{
  int groupID = lane() >> 2, threadID_in_group = lane() % 4;
  int row = i < 2 ? groupID : groupID + 8, col = threadID_in_group * 2 + (i & 1);
  for (int k = 0; k < K; ++k) c += (C) a[row][k] * (C) b[k][col];
}

#define HALVES(K, name, T) \
  static void kgen_m16n8k##K##_##name(float &c0, float &c1, float &c2, float &c3, \
                                      unsigned const (&a)[K / 4], unsigned const (&b)[K / 8]) \
  { \
    std::memcpy(warp().a[lane()], a, sizeof a); \
    std::memcpy(warp().b[lane()], b, sizeof b); \
    meet(); \
    float ma[16][16], mb[16][8]; \
    halves<T, K>(ma, mb); \
    meet(); \
    add<K>(ma, mb, c0, 0), add<K>(ma, mb, c1, 1), add<K>(ma, mb, c2, 2), add<K>(ma, mb, c3, 3); \
  }
HALVES(16, float16, __half)
HALVES(8, float16, __half)
HALVES(16, bfloat16, __nv_bfloat16)
HALVES(8, bfloat16, __nv_bfloat16)

#define TF32(K) \
  static void kgen_m16n8k##K##_tf32(float &c0, float &c1, float &c2, float &c3, \
                                    unsigned const (&a)[K / 2], unsigned const (&b)[K / 4]) \
  { \
    std::memcpy(warp().a[lane()], a, sizeof a); \
    std::memcpy(warp().b[lane()], b, sizeof b); \
    meet(); \
    float ma[16][16], mb[16][8]; \
    auto number = [](unsigned bits) { return __uint_as_float(bits & ~0x1fffu); }; \
    whole<16, K>(ma, mb, [&](int t, int i) { return number(warp().a[t][i]); }, \
                 [&](int t, int i) { return number(warp().b[t][i]); }); \
    meet(); \
    add<K>(ma, mb, c0, 0), add<K>(ma, mb, c1, 1), add<K>(ma, mb, c2, 2), add<K>(ma, mb, c3, 3); \
  }
TF32(8)
TF32(4)

template <int M, int K, class A, class B, class... C>
static void doubles(A const &a, B const &b, C &...c)
{
  std::memcpy(warp().da[lane()], a, sizeof a);
  std::memcpy(warp().db[lane()], b, sizeof b);
  meet();
  double ma[16][16], mb[16][8];
  whole<M, K>(ma, mb, [&](int t, int i) { return warp().da[t][i]; },
              [&](int t, int i) { return warp().db[t][i]; });
  meet();
  int i = 0;
  (add<K>(ma, mb, c, i++), ...);
}
static void kgen_m8n8k4_float64(double &c0, double &c1, double const (&a)[1], double const (&b)[1])
{
  doubles<8, 4>(a, b, c0, c1);
}
#define DOUBLES(K) \
  static void kgen_m16n8k##K##_float64(double &c0, double &c1, double &c2, double &c3, \
                                       double const (&a)[K / 2], double const (&b)[K / 4]) \
  { \
    doubles<16, K>(a, b, c0, c1, c2, c3); \
  }
DOUBLES(4)
DOUBLES(8)
DOUBLES(16)

// ldmatrix: the lanes 8*q and behind have the rows of matrix q
template <int N, bool transposed> static void load(unsigned (&m)[N], void const *row)
{
  warp().rows[lane()] = row;
  meet();
  for (int q = 0; q < N; ++q) {
    unsigned parts[2];
    for (int d = 0; d < 2; ++d) {
      int r = transposed ? 2 * (lane() % 4) + d : lane() / 4;
      int c = transposed ? lane() / 4 : 2 * (lane() % 4) + d;
      auto address = (uintptr_t) warp().rows[8 * q + r];
      parts[d] = address % 16 ? 0x7e00 : ((uint16_t const *) address)[c];
    }
    m[q] = parts[0] | parts[1] << 16;
  }
  meet();
}
#define LOAD(N) \
  static void kgen_load_##N##x8x8(unsigned (&m)[N], void const *row) { load<N, false>(m, row); } \
  static void kgen_load_##N##x8x8_transposed(unsigned (&m)[N], void const *row) \
  { \
    load<N, true>(m, row); \
  }
LOAD(4)
LOAD(2)
LOAD(1)

// -- wgmma: from "Asynchronous Warpgroup Level Matrix Shared Memory Layout", "Matrix Descriptor" ----

static unsigned long long kgen_matrix(void const *first, unsigned long long leading,
                                      unsigned long long stride)
{
  auto const start = (uintptr_t) first;
  if (leading % 16 || stride % 16 || start % 16)
    host::fail("describes a matrix that is not aligned to 16 bytes");
  return (start & 0x3ffff) >> 4 | (leading >> 4 & 0x3fff) << 16 | (stride >> 4 & 0x3fff) << 32 |
         1ull << 62;
}

static uintptr_t start_of(uint64_t matrix)  // of which a descriptor has 18 bits
{
  auto const local = (uintptr_t) host::local();
  return local + (((matrix & 0x3fff) << 4) - local & 0x3ffff);
}

// The element of a line (a row of A, a column of B) and a term, as the last fence has left it.
template <class T> static float element(uint64_t matrix, bool by_terms, int line, int term)
{
  int const size = sizeof(T);
  uintptr_t const leading = (matrix >> 16 & 0x3fff) << 4, stride = (matrix >> 32 & 0x3fff) << 4;
  if (matrix >> 62 != 1)
    host::fail("describes another swizzle than that of 128 bytes");
  uintptr_t address = start_of(matrix);
  if (by_terms)
    address += line / 64 * leading + line % 64 * 2 + term / 8 * stride + term % 8 * 128;
  else
    address += line / 8 * stride + line % 8 * 128 + term * size;
  address ^= (address >> 7 & 7) << 4;
  host::Group &own = *host::group;
  uintptr_t const offset = address - (uintptr_t) host::local();
  T value;
  std::memcpy(&value, offset < own.visible.size() ? &own.visible[offset] : (void *) address, size);
  return (float) value;
}

static host::Products &products()
{
  return host::group->products[host::group->running];
}

struct Operand  // a sum or a descriptor
{
  float *sum = nullptr;
  uint64_t matrix = 0;
  Operand(float &value) : sum(&value) {}
  Operand(unsigned long long const &value) : matrix(value) {}
};

struct Tf32  // a float, the last 13 bits of which are not read
{
  uint32_t bits;
  operator float() const
  {
    uint32_t const read = bits & ~0x1fffu;
    float value;
    std::memcpy(&value, &read, 4);
    return value;
  }
};

template <class T, int N, bool a_by_terms, bool b_by_terms, class... V>
static void warpgroup_product(V &&...values)
{
  std::vector<Operand> const all{values...};
  if (all.size() != N / 2 + 2)
    host::fail("multiplies with other registers than those of the instruction");
  if (!products().has_begun)
    host::fail("multiplies before the fence of the registers");
  int const item = host::group->running % 128;
  auto const step = [=] {
    uint64_t const a = all[N / 2].matrix, b = all[N / 2 + 1].matrix;
    for (int i = 0; i < N / 2; ++i) {
      int const row = 16 * (item / 32) + item % 32 / 4 + 8 * (i / 2 % 2);
      int const column = 8 * (i / 4) + item % 4 * 2 + i % 2;
      float sum = 0;
      for (int k = 0; k < 32 / (int) sizeof(T); ++k)
        sum += element<T>(a, a_by_terms, row, k) * element<T>(b, b_by_terms, column, k);
      *all[i].sum += sum;
    }
  };
  if (host::copies_at_once)
    step();
  else
    products().steps.push_back(step);
}

static void kgen_commit()
{
  products().groups.push_back(std::move(products().steps));
  products().steps.clear();
}
static void finish(size_t left)
{
  auto &own = products();
  for (; own.groups.size() > left; own.groups.pop_front())
    for (auto const &step : own.groups.front())
      step();
  own.has_begun = false;
}
static void kgen_finish_previous()
{
  finish(1);
}
static void kgen_see_stores()
{
  host::Group &own = *host::group;
  std::memcpy(own.visible.data(), host::local(), own.visible.size());
}

#define WARPGROUP_OF(N, name, T) \
  template <class... V> static void kgen_m64n##N##k16_##name(V &&...v) \
  { warpgroup_product<T, N, false, false>(v...); } \
  template <class... V> static void kgen_m64n##N##k16_##name##_a(V &&...v) \
  { warpgroup_product<T, N, true, false>(v...); } \
  template <class... V> static void kgen_m64n##N##k16_##name##_b(V &&...v) \
  { warpgroup_product<T, N, false, true>(v...); } \
  template <class... V> static void kgen_m64n##N##k16_##name##_a_b(V &&...v) \
  { warpgroup_product<T, N, true, true>(v...); }
#define WARPGROUP(N, C) \
  WARPGROUP_OF(N, float16, __half) \
  WARPGROUP_OF(N, bfloat16, __nv_bfloat16) \
  template <class... V> static void kgen_m64n##N##k8_tf32(V &&...v) \
  { warpgroup_product<Tf32, N, false, false>(v...); } \
  template <class... V> static void kgen_begin_##C(V &&...) { products().has_begun = true; } \
  template <class... V> static void kgen_finish_##C(V &&...) { finish(0); }
WARPGROUP(8, 4)
WARPGROUP(16, 8)
WARPGROUP(24, 12)
WARPGROUP(32, 16)
WARPGROUP(64, 32)
WARPGROUP(96, 48)
WARPGROUP(128, 64)
WARPGROUP(192, 96)
WARPGROUP(256, 128)

}  // namespace tensor

using namespace tensor;
