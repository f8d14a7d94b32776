#ifndef DEMO_HPP
#define DEMO_HPP

/* Kernels for C++17: functions of views, over those in C.
 *
 * What fails throws demo::error. With DEMO_NO_EXCEPTIONS defined, or
 * exceptions switched off, functions return a demo_status instead.
 *
 * Numbers that follow from the shapes and strides of arrays may be left out.
 * demo.h describes each kernel.
 */
#include "demo.h"

#if __cplusplus < 201703L && !(defined(_MSVC_LANG) && _MSVC_LANG >= 201703L)
#error "demo.hpp is for C++17 or newer"
#endif

#if !defined(DEMO_NO_EXCEPTIONS) && !defined(__cpp_exceptions)
#define DEMO_NO_EXCEPTIONS
#endif
#ifndef DEMO_NO_EXCEPTIONS
#include <stdexcept>
#endif

#define KGEN_NAMESPACE demo
#include "demo_view.hpp"
#undef KGEN_NAMESPACE

/* Of the library: note the message for the caller; return the status. */
extern "C" demo_status demo_fail(demo_status, char const *);

namespace demo {
namespace detail {

/* The status of a check in this header that has noted why it failed. */
inline ::demo_status fail(::demo_status kg_status) noexcept
{
  return ::demo_fail(kg_status, message());
}

} // namespace detail

#ifdef DEMO_NO_EXCEPTIONS
inline namespace returning {

using kg_result = ::demo_status;
[[nodiscard]] inline kg_result kg_finish(::demo_status kg_status) noexcept
{
  return kg_status;
}

#else
inline namespace throwing {

/* A call that failed: its text names kernel and argument. */
class error : public std::runtime_error {
public:
  explicit error(::demo_status status)
      : std::runtime_error(::demo_last_message()), status_(status)
  {
  }
  ::demo_status status() const noexcept { return status_; }

private:
  ::demo_status status_;
};

using kg_result = void;
inline void kg_finish(::demo_status kg_status)
{
  if (kg_status != ::demo_success)
    throw error(kg_status);
}

#endif
} // inline namespace
} // namespace demo

namespace demo {
namespace detail {

inline ::demo_status check_matmul([[maybe_unused]] ::demo::detail::layout<2> const &a, [[maybe_unused]] ::demo::detail::layout<2> const &b, [[maybe_unused]] ::demo::detail::layout<2> const &c, [[maybe_unused]] ::int32_t n)
{
  if (!::demo::detail::has_shape(a, {(int64_t) n, (int64_t) n}, "matmul", "a", "(n, n)"))
    return ::demo::detail::fail(::demo_invalid_layout);
  if (!::demo::detail::has_strides(a, {(int64_t) n, 1}, "matmul", "a", "(n, 1)"))
    return ::demo::detail::fail(::demo_invalid_layout);
  if (!::demo::detail::has_shape(b, {(int64_t) n, (int64_t) n}, "matmul", "b", "(n, n)"))
    return ::demo::detail::fail(::demo_invalid_layout);
  if (!::demo::detail::has_strides(b, {(int64_t) n, 1}, "matmul", "b", "(n, 1)"))
    return ::demo::detail::fail(::demo_invalid_layout);
  if (!::demo::detail::has_shape(c, {(int64_t) n, (int64_t) n}, "matmul", "c", "(n, n)"))
    return ::demo::detail::fail(::demo_invalid_layout);
  if (!::demo::detail::has_strides(c, {(int64_t) n, 1}, "matmul", "c", "(n, 1)"))
    return ::demo::detail::fail(::demo_invalid_layout);
  return ::demo_success;
}

inline ::demo_status find_matmul([[maybe_unused]] ::demo::detail::layout<2> const &a, [[maybe_unused]] ::demo::detail::layout<2> const &b, [[maybe_unused]] ::demo::detail::layout<2> const &c, ::int32_t &kg_n)
{
  ::std::int64_t const n = a.extent(0);
  if (!::demo::detail::is_inside(n, INT64_C(-2147483648), INT64_C(2147483647), "matmul", "n"))
    return ::demo::detail::fail(::demo_invalid_size);
  kg_n = static_cast<::int32_t>(n);
  return ::demo_success;
}

} // namespace detail

#ifdef DEMO_NO_EXCEPTIONS
inline namespace returning {
#else
inline namespace throwing {
#endif

inline ::demo::kg_result matmul(::demo::view<float const, 2> a, ::demo::view<float const, 2> b, ::demo::view<float, 2> c, ::int32_t n)
{
  ::demo_status kg_status = ::demo::detail::check_matmul(a, b, c, n);
  if (kg_status == ::demo_success)
    kg_status = ::demo_matmul(a.data(), b.data(), c.data(), n);
  return ::demo::kg_finish(kg_status);
}

inline ::demo::kg_result matmul(::demo::view<float const, 2> a, ::demo::view<float const, 2> b, ::demo::view<float, 2> c)
{
  ::int32_t n = 0;
  ::demo_status kg_status = ::demo::detail::find_matmul(a, b, c, n);
  if (kg_status != ::demo_success)
    return ::demo::kg_finish(kg_status);
  return ::demo::matmul(a, b, c, n);
}

} // inline namespace
} // namespace demo

#endif
