#ifndef A_HPP
#define A_HPP

/* Kernels for C++17: functions of views, over those in C.
 *
 * What fails throws a::error. With A_NO_EXCEPTIONS defined, or
 * exceptions switched off, functions return a a_status instead.
 *
 * Numbers that follow from the shapes and strides of arrays may be left out.
 */
#include "a.h"

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

inline ::a_status check_kgen_kernel([[maybe_unused]] ::a::detail::layout<2> const &a, [[maybe_unused]] ::a::detail::layout<1> const &b)
{
  if (!::a::detail::has_shape(a, {4, 4}, "kgen_kernel", "a", "(4, 4)"))
    return ::a::detail::fail(::a_invalid_layout);
  if (!::a::detail::has_strides(a, {4, 1}, "kgen_kernel", "a", "(4, 1)"))
    return ::a::detail::fail(::a_invalid_layout);
  if (!::a::detail::has_shape(b, {4}, "kgen_kernel", "b", "(4,)"))
    return ::a::detail::fail(::a_invalid_layout);
  if (!::a::detail::has_strides(b, {1}, "kgen_kernel", "b", "(1,)"))
    return ::a::detail::fail(::a_invalid_layout);
  return ::a_success;
}

} // namespace detail

#ifdef A_NO_EXCEPTIONS
inline namespace returning {
#else
inline namespace throwing {
#endif

inline ::a::kg_result kgen_kernel(::a::view<::int32_t, 2> a, ::a::view<::int32_t, 1> b)
{
  ::a_status kg_status = ::a::detail::check_kgen_kernel(a, b);
  if (kg_status == ::a_success)
    kg_status = ::a_kgen_kernel(a.data(), b.data());
  return ::a::kg_finish(kg_status);
}

} // inline namespace
} // namespace a

#endif
