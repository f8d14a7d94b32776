#ifndef A_HPP
#define A_HPP

/* Kernels for C++17: functions of views, over those in C.
 *
 * What fails throws a::error. With A_NO_EXCEPTIONS defined, or
 * exceptions switched off, functions return a a_status instead.
 *
 * Numbers that follow from the shapes and strides of arrays may be left out.
 * a.h describes each kernel.
 */
#include "a.h"

#if __cplusplus < 201703L && !(defined(_MSVC_LANG) && _MSVC_LANG >= 201703L)
#error "a.hpp is for C++17 or newer"
#endif

#if !defined(A_NO_EXCEPTIONS) && !defined(__cpp_exceptions)
#define A_NO_EXCEPTIONS
#endif
#ifndef A_NO_EXCEPTIONS
#include <stdexcept>
#endif

#define KGEN_NAMESPACE a
#include "a_view.hpp"
#undef KGEN_NAMESPACE

/* Of the library: note the message for the caller; return the status. */
extern "C" a_status a_fail(a_status, char const *);

namespace a {
namespace detail {

/* The status of a check in this header that has noted why it failed. */
inline ::a_status fail(::a_status kg_status) noexcept
{
  return ::a_fail(kg_status, message());
}

} // namespace detail

#ifdef A_NO_EXCEPTIONS
inline namespace returning {

using kg_result = ::a_status;
[[nodiscard]] inline kg_result kg_finish(::a_status kg_status) noexcept
{
  return kg_status;
}

#else
inline namespace throwing {

/* A call that failed: its text names kernel and argument. */
class error : public std::runtime_error {
public:
  explicit error(::a_status status)
      : std::runtime_error(::a_last_message()), status_(status)
  {
  }
  ::a_status status() const noexcept { return status_; }

private:
  ::a_status status_;
};

using kg_result = void;
inline void kg_finish(::a_status kg_status)
{
  if (kg_status != ::a_success)
    throw error(kg_status);
}

#endif
} // inline namespace
} // namespace a

namespace a {
namespace detail {

inline ::a_status check_kgen_kernel([[maybe_unused]] ::a::detail::layout<1> const &a, [[maybe_unused]] ::a::detail::layout<2> const &b, [[maybe_unused]] ::int32_t n)
{
  if (!::a::detail::has_shape(a, {(int64_t) n}, "kgen_kernel", "a", "(n,)"))
    return ::a::detail::fail(::a_invalid_layout);
  if (!::a::detail::has_strides(a, {1}, "kgen_kernel", "a", "(1,)"))
    return ::a::detail::fail(::a_invalid_layout);
  if (!::a::detail::has_shape(b, {(int64_t) n, 3}, "kgen_kernel", "b", "(n, 3)"))
    return ::a::detail::fail(::a_invalid_layout);
  if (!::a::detail::has_strides(b, {3, 1}, "kgen_kernel", "b", "(3, 1)"))
    return ::a::detail::fail(::a_invalid_layout);
  return ::a_success;
}

inline ::a_status find_kgen_kernel([[maybe_unused]] ::a::detail::layout<1> const &a, [[maybe_unused]] ::a::detail::layout<2> const &b, ::int32_t &kg_n)
{
  ::std::int64_t const n = a.extent(0);
  if (!::a::detail::is_inside(n, INT64_C(-2147483648), INT64_C(2147483647), "kgen_kernel", "n"))
    return ::a::detail::fail(::a_invalid_size);
  kg_n = static_cast<::int32_t>(n);
  return ::a_success;
}

} // namespace detail

#ifdef A_NO_EXCEPTIONS
inline namespace returning {
#else
inline namespace throwing {
#endif

inline ::a::kg_result kgen_kernel(::a::view<double, 1> a, ::a::view<double, 2> b, ::int32_t n)
{
  ::a_status kg_status = ::a::detail::check_kgen_kernel(a, b, n);
  if (kg_status == ::a_success)
    kg_status = ::a_kgen_kernel(a.data(), b.data(), n);
  return ::a::kg_finish(kg_status);
}

inline ::a::kg_result kgen_kernel(::a::view<double, 1> a, ::a::view<double, 2> b)
{
  ::int32_t n = 0;
  ::a_status kg_status = ::a::detail::find_kgen_kernel(a, b, n);
  if (kg_status != ::a_success)
    return ::a::kg_finish(kg_status);
  return ::a::kgen_kernel(a, b, n);
}

} // inline namespace
} // namespace a

#endif
