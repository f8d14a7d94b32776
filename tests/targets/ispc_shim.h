// A model of ISPC for g++: numbers know whether all lanes have them in common (V is false) and what
// operators make of two types. Each lane is a thread where lanes read what others have written,
// else a turn of a loop. What ISPC's compiler refuses, such as a varying value for a uniform
// variable, does not compile here.
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace shim
{
inline thread_local int lane_index = 0, task0 = 0, task1 = 0, task2 = 0;
inline std::unique_ptr<std::barrier<>> gang;
inline std::mutex memory;

// double > uint64 > int64 > float > uint32 > int32 > uint16 > int16 > uint8 > int8 > bool
template <class T> constexpr int rank()
{
  if (std::is_same_v<T, double>) return 10;
  if (std::is_same_v<T, float>) return 7;
  if (std::is_same_v<T, bool>) return 0;
  return (sizeof(T) == 8 ? 8 : sizeof(T) == 4 ? 5 : sizeof(T) == 2 ? 3 : 1) + std::is_unsigned_v<T>;
}
template <class A, class B> using joined = std::conditional_t<(rank<A>() >= rank<B>()), A, B>;

// true is any number but 0
template <class T, class S> T to(S s)
{
  if constexpr (std::is_same_v<S, bool> && !std::is_same_v<T, bool>) return s ? T(-1) : T(0);
  else return T(s);
}

template <class T, bool V> struct Num
{
  using type = T;
  static constexpr bool varies = V;
  T v;
  Num() = default;
  template <class S> requires std::is_arithmetic_v<S> Num(S s) : v(T(s)) {}
  template <class S, bool W> requires(V || !W) Num(Num<S, W> s) : v(to<T>(s.v)) {}
  explicit operator bool() const { return v != 0; }
  Num &operator++() { ++v; return *this; }
#define UPDATE(OP) template <class S> Num &operator OP##=(S s) { return *this = Num(*this OP s); }
  UPDATE(+) UPDATE(-) UPDATE(*) UPDATE(/) UPDATE(%)
};

// where an array's element, or a variable, is
template <class T, bool V> struct Place
{
  using type = std::remove_const_t<T>;
  static constexpr bool varies = V;
  T *at;
  Num<type, V> get() const { return Num<type, V>(*at); }
  operator Num<type, true>() const { return get(); }
  operator Num<type, false>() const requires(!V) { return get(); }
  explicit operator bool() const { return *at != 0; }
  template <class S> void set(S s)
  {
    Num<type, V> const value(s); // a varying value for all lanes: refused
    *at = value.v;
  }
  template <class S> Place &operator=(S s) { if constexpr (requires { s.get(); }) set(s.get()); else set(s); return *this; }
  Place &operator=(Place const &s) { set(s.get()); return *this; }
  template <class S> Place &operator+=(S s) { return *this = get() + s; }
  template <class S> Place &operator-=(S s) { return *this = get() - s; }
  template <class S> Place &operator*=(S s) { return *this = get() * s; }
  Place operator&() const { return *this; }
};

template <class T> struct is_val : std::false_type {};
template <class T, bool V> struct is_val<Num<T, V>> : std::true_type {};
template <class T, bool V> struct is_val<Place<T, V>> : std::true_type {};
template <class T, bool V> Num<T, V> num(Num<T, V> a) { return a; }
template <class T, bool V> auto num(Place<T, V> a) { return a.get(); }
template <class T> requires std::is_arithmetic_v<T> Num<T, false> num(T a) { return a; }
template <class A, class B> concept operands = is_val<A>::value || is_val<B>::value;

#define OPERATOR(OP) \
  template <class A, class B> requires operands<A, B> auto operator OP(A a, B b) \
  { \
    auto const x = num(a); \
    auto const y = num(b); \
    using P = joined<typename decltype(x)::type, typename decltype(y)::type>; \
    return Num<P, x.varies || y.varies>(P(to<P>(x.v) OP to<P>(y.v))); \
  }
OPERATOR(+) OPERATOR(-) OPERATOR(*) OPERATOR(/) OPERATOR(%) OPERATOR(&) OPERATOR(|) OPERATOR(^)
OPERATOR(<<) OPERATOR(>>)
#define COMPARISON(OP) \
  template <class A, class B> requires operands<A, B> auto operator OP(A a, B b) \
  { \
    auto const x = num(a); \
    auto const y = num(b); \
    using P = joined<typename decltype(x)::type, typename decltype(y)::type>; \
    return Num<bool, x.varies || y.varies>(P(x.v) OP P(y.v)); \
  }
COMPARISON(<) COMPARISON(<=) COMPARISON(>) COMPARISON(>=) COMPARISON(==) COMPARISON(!=)
template <class A> requires is_val<A>::value auto operator-(A a) { auto x = num(a); x.v = -x.v; return x; }
template <class A> requires is_val<A>::value auto operator~(A a) { auto x = num(a); x.v = ~x.v; return x; }

// (T) x has the variability of x
template <class T> struct Cast {};
template <class T, class A> auto operator->*(Cast<T>, A a) { auto const x = num(a); return Num<T, x.varies>(x); }

template <class T, class S> struct Casts {};
template <class T, class S> Casts<T, S> operator->*(Cast<T>, Cast<S>) { return {}; }
template <class T, class S, class A> auto operator->*(Casts<T, S>, A a) { return Cast<T>() ->* (Cast<S>() ->* a); }

template <class T> struct Ptr
{
  T *at;
  template <class I> auto operator[](I i) const
  {
    auto const index = num(i);
    Place<T, index.varies> const place{at + std::int64_t(index.v)};
    if constexpr (std::is_const_v<T>) return place.get();
    else return place;
  }
  operator Ptr<T const>() const requires(!std::is_const_v<T>) { return {at}; }
};
template <class E, int N> struct Arr
{
  typename E::type at[N];
  template <class I> auto operator[](I i)
  {
    auto const index = num(i);
    return Place<typename E::type, E::varies || index.varies>{at + std::int64_t(index.v)};
  }
};

#define UNARY(NAME, CALL) \
  template <class A> requires is_val<A>::value auto NAME(A a) { auto x = num(a); x.v = CALL(x.v); return x; }
#define BINARY(NAME, CALL) \
  template <class A, class B> requires operands<A, B> auto NAME(A a, B b) \
  { \
    auto const x = num(a); \
    auto const y = num(b); \
    using P = joined<typename decltype(x)::type, typename decltype(y)::type>; \
    return Num<P, x.varies || y.varies>(P(CALL(P(x.v), P(y.v)))); \
  }
UNARY(abs, std::abs) UNARY(sin, std::sin) UNARY(cos, std::cos) UNARY(exp, std::exp) UNARY(log, std::log)
UNARY(sqrt, std::sqrt) UNARY(floor, std::floor) UNARY(ceil, std::ceil) UNARY(trunc, std::trunc)
UNARY(round, std::nearbyint) UNARY(tan, std::tan) UNARY(cbrt, std::cbrt)
UNARY(erf, std::erf) UNARY(erff, std::erf) UNARY(tanh, std::tanh) UNARY(log2f, std::log2)
BINARY(hypot, std::hypot) BINARY(hypotf, std::hypot) BINARY(pow, std::pow) BINARY(fmod, std::fmod)
BINARY(atan2, std::atan2)
#define LESSER(A, B) (A < B ? A : B)
#define GREATER(A, B) (A > B ? A : B)
BINARY(min, LESSER) BINARY(max, GREATER)
template <class A> auto isnan(A a) { auto const x = num(a); return Num<bool, x.varies>(std::isnan(x.v)); }
template <class A> auto isfinite(A a) { auto const x = num(a); return Num<bool, x.varies>(std::isfinite(x.v)); }
template <class T, class A> auto bits(A a)
{
  auto const x = num(a);
  Num<T, x.varies> result;
  static_assert(sizeof(T) == sizeof x.v);
  std::memcpy(&result.v, &x.v, sizeof(T));
  return result;
}
template <class A> auto floatbits(A a) { return bits<float>(num(a)); }
template <class A> auto doublebits(A a) { return bits<double>(Num<std::uint64_t, decltype(num(a))::varies>(num(a))); }
template <class A> auto intbits(A a)
{
  using T = typename decltype(num(a))::type;
  return bits<std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>>(a);
}
template <class A> auto signbits(A a)
{
  auto x = intbits(a);
  using T = typename decltype(x)::type;
  x.v &= T(1) << (8 * sizeof(T) - 1);
  return x;
}
template <class A, class I> auto extract(A a, I) { return Num<typename decltype(num(a))::type, false>(num(a).v); }
template <class A, class I, class X> auto insert(A a, I, X x) { a.v = num(x).v; return a; }

// one operation for each lane, unless neither the place nor the value varies: then one for all
#define ATOMIC(NAME, EXPR) \
  template <class T, bool V, class B> void NAME(Place<T, V> place, B b) \
  { \
    auto const value = num(b); \
    if (!V && !value.varies && lane_index > 0) return; \
    std::lock_guard const guard(memory); \
    T const x = *place.at, y = T(value.v); \
    *place.at = T(EXPR); \
  }
ATOMIC(atomic_add_global, x + y) ATOMIC(atomic_subtract_global, x - y) ATOMIC(atomic_max_global, x > y ? x : y)
ATOMIC(atomic_add_local, x + y) ATOMIC(atomic_or_global, x | y)

template <class T, class B> void streaming_store(Place<T, false> place, B b)
{
  auto const value = num(b);
  place.at[value.varies ? lane_index : 0] = T(value.v);
}

template <class F, class... C> void launch(int width, bool in_step, F f, C... counts)
{
  int const given[] = {int(num(counts).v)..., 1, 1, 1}, n0 = given[0], n1 = given[1], n2 = given[2];
  for (int k = 0; k < n0 * n1 * n2; ++k)
  {
    auto const lane = [=](int index) {
      lane_index = index, task0 = k % n0, task1 = k / n0 % n1, task2 = k / n0 / n1;
      f();
      lane_index = 0;
    };
    if (!in_step)
    {
      for (int index = 0; index < width; ++index) lane(index);
      continue;
    }
    gang = std::make_unique<std::barrier<>>(width);
    std::vector<std::jthread> threads;
    for (int index = 0; index < width; ++index) threads.emplace_back(lane, index);
  }
}
} // namespace shim

using namespace shim;
#define TYPES(NAME, T) using U_##NAME = Num<T, false>; using V_##NAME = Num<T, true>; using NAME##_ = T;
TYPES(int8, std::int8_t) TYPES(int16, std::int16_t) TYPES(int32, std::int32_t) TYPES(int64, std::int64_t)
TYPES(uint8, std::uint8_t) TYPES(uint16, std::uint16_t) TYPES(uint32, std::uint32_t) TYPES(uint64, std::uint64_t)
TYPES(float, float) TYPES(double, double)
#define programIndex (V_int32(lane_index))
#define taskIndex0 (U_int32(task0))
#define taskIndex1 (U_int32(task1))
#define taskIndex2 (U_int32(task2))
#define foreach_active(LANE) if (U_int32 const LANE = lane_index; true)
