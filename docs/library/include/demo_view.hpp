/* Views of arrays, and the checks of their shapes. This is the same in every library: the header
 * that includes it defines KGEN_NAMESPACE, so that any number of libraries can be in one program.
 */
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <iterator>
#include <type_traits>
#include <utility>

struct _cl_command_queue;
struct _cl_event;
struct _cl_mem;
struct CUstream_st;

namespace KGEN_NAMESPACE {

namespace detail {

/* -- integers: what kgen_support.h has for C ------------------------------------------------ */

/* a + b, or the number of 64 bits that is nearest to it */
constexpr std::int64_t add(std::int64_t a, std::int64_t b) noexcept
{
  if (a > 0 && b > INT64_MAX - a)
    return INT64_MAX;
  if (a < 0 && b < INT64_MIN - a)
    return INT64_MIN;
  return a + b;
}

/* a * b, or the number of 64 bits that is nearest to it */
constexpr std::int64_t mul(std::int64_t a, std::int64_t b) noexcept
{
  if (a == 0 || b == 0)
    return 0;
  if ((a > 0) == (b > 0)) {
    if (a > 0 ? a > INT64_MAX / b : a < INT64_MAX / b)
      return INT64_MAX;
  }
  else if (a > 0 ? b < INT64_MIN / a : a < INT64_MIN / b)
    return INT64_MIN;
  return a * b;
}

/* a / b, rounded down; 0 for b = 0 */
constexpr std::int64_t floor_div(std::int64_t a, std::int64_t b) noexcept
{
  if (b == 0)
    return 0;
  if (b == -1)
    return a == INT64_MIN ? INT64_MAX : -a;
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

/* a - b * floor_div(a, b); 0 for b = 0 */
constexpr std::int64_t floor_mod(std::int64_t a, std::int64_t b) noexcept
{
  if (b == 0 || b == -1)
    return 0;
  return a % b + (a % b != 0 && (a % b < 0) != (b < 0) ? b : 0);
}

constexpr std::int64_t min(std::int64_t a, std::int64_t b) noexcept { return a < b ? a : b; }
constexpr std::int64_t max(std::int64_t a, std::int64_t b) noexcept { return a > b ? a : b; }

/* -- views ------------------------------------------------------------------------------ */

/* An element of N bytes, of a type that the library has no name for, such as a vector: views of
 * any trivially copyable type of this size become views of these.
 */
template <std::size_t N> struct bytes {
  unsigned char values[N];
};

/* An extent or a stride, made of any integer. */
class extent {
public:
  template <class Integer, std::enable_if_t<std::is_integral_v<Integer>, int> = 0>
  constexpr extent(Integer value) noexcept : value_(static_cast<std::int64_t>(value))
  {
  }
  constexpr operator std::int64_t() const noexcept { return value_; }

private:
  std::int64_t value_;
};

/* One for each axis: {n, m}. */
template <std::size_t Rank> using extents = std::array<extent, Rank>;

template <class T> using bare = std::remove_cv_t<std::remove_reference_t<T>>;

/* Whether an array of From is one of To: of the same type, perhaps without the right to write. */
template <class From, class To>
struct is_viewable : std::is_convertible<From (*)[], To (*)[]> {};

template <class From, std::size_t N>
struct is_viewable<From, bytes<N>>
    : std::bool_constant<sizeof(From) == N && std::is_trivially_copyable_v<From> &&
                         !std::is_const_v<From>> {};

template <class From, std::size_t N>
struct is_viewable<From, bytes<N> const>
    : std::bool_constant<sizeof(From) == N && std::is_trivially_copyable_v<From>> {};

template <class From, class To>
using if_viewable = std::enable_if_t<is_viewable<From, To>::value, int>;

template <class From, class To>
using if_bytes = std::enable_if_t<is_viewable<From, To>::value &&
                                      !std::is_convertible_v<From (*)[], To (*)[]>,
                                  int>;

/* The elements of a container of contiguous memory: std::vector, std::array, std::span, T[N]. */
template <class Container>
using element_of = std::enable_if_t<
    std::is_same_v<decltype(*std::begin(std::declval<Container &>())),
                   decltype(*std::data(std::declval<Container &>()))> &&
        std::is_convertible_v<decltype(std::size(std::declval<Container &>())), std::size_t>,
    std::remove_reference_t<decltype(*std::data(std::declval<Container &>()))>>;

/* The elements of a view with the interface of std::mdspan, and of as many axes. */
template <class View, std::size_t Rank>
using strided_element_of = std::enable_if_t<
    bare<View>::rank() == Rank &&
        std::is_convertible_v<decltype(std::declval<View &>().extent(0)), std::int64_t>,
    std::remove_reference_t<decltype(*std::declval<View &>().data_handle())>>;

/* Extents and strides, in elements. */
template <std::size_t Rank> class layout {
public:
  static constexpr std::size_t rank() noexcept { return Rank; }

  constexpr layout() noexcept : extents_{}, strides_{} {}

  /* rows behind rows, without gaps */
  constexpr layout(extents<Rank> const &shape) noexcept : layout()
  {
    std::int64_t stride = 1;
    for (std::size_t axis = Rank; axis-- > 0;) {
      set(axis, shape[axis], stride);
      stride = mul(stride, shape[axis]);
    }
  }

  constexpr layout(extents<Rank> const &shape, extents<Rank> const &steps) noexcept : layout()
  {
    for (std::size_t axis = 0; axis < Rank; ++axis)
      set(axis, shape[axis], steps[axis]);
  }

  constexpr std::int64_t extent(std::size_t axis) const noexcept { return extents_[axis]; }
  constexpr std::int64_t stride(std::size_t axis) const noexcept { return strides_[axis]; }

protected:
  constexpr void set(std::size_t axis, std::int64_t shape, std::int64_t stride) noexcept
  {
    extents_[axis] = shape;
    strides_[axis] = stride;
  }

  template <class View> constexpr void set_all(View const &other) noexcept
  {
    for (std::size_t axis = 0; axis < Rank; ++axis)
      set(axis, static_cast<std::int64_t>(other.extent(axis)),
          static_cast<std::int64_t>(other.stride(axis)));
  }

private:
  std::int64_t extents_[Rank == 0 ? 1 : Rank];
  std::int64_t strides_[Rank == 0 ? 1 : Rank];
};

} // namespace detail

/* An array of the host: where it begins, its extents, and its strides in elements. It is made of

   - a pointer and extents: {p, {n, m}}; with strides as well: {p, {n, m}, {1, n}}
   - a container of one axis: std::vector, std::array, std::span, T[N]
   - an array of arrays: T[N][M]
   - what has the interface of std::mdspan

   and does not own what it shows. */
template <class T, std::size_t Rank> class view : public detail::layout<Rank> {
public:
  using element_type = T;
  using layout_type = detail::layout<Rank>;

  /* no elements */
  constexpr view() noexcept : data_(nullptr) {}

  constexpr view(T *data, detail::extents<Rank> const &shape) noexcept
      : layout_type(shape), data_(data)
  {
  }

  constexpr view(T *data, detail::extents<Rank> const &shape,
                 detail::extents<Rank> const &strides) noexcept
      : layout_type(shape, strides), data_(data)
  {
  }

  template <class U, detail::if_bytes<U, T> = 0>
  view(U *data, detail::extents<Rank> const &shape) noexcept
      : layout_type(shape), data_(cast(data))
  {
  }

  template <class U, detail::if_bytes<U, T> = 0>
  view(U *data, detail::extents<Rank> const &shape,
       detail::extents<Rank> const &strides) noexcept
      : layout_type(shape, strides), data_(cast(data))
  {
  }

  /* the only element of an array without axes */
  template <class U, std::enable_if_t<Rank == 0 && detail::is_viewable<U, T>::value, int> = 0>
  constexpr view(U *element) noexcept : data_(cast(element))
  {
  }

  template <class Container, class U = detail::element_of<std::remove_reference_t<Container>>,
            std::enable_if_t<Rank == 1 && detail::is_viewable<U, T>::value, int> = 0>
  constexpr view(Container &&container) noexcept : data_(cast(std::data(container)))
  {
    this->set(0, static_cast<std::int64_t>(std::size(container)), 1);
  }

  template <class Array, class U = std::remove_all_extents_t<Array>,
            std::enable_if_t<(Rank > 1) && std::rank_v<Array> == Rank &&
                                 detail::is_viewable<U, T>::value,
                             int> = 0>
  constexpr view(Array &array) noexcept : data_(cast(first(array)))
  {
    set_axes<Array>(std::make_index_sequence<Rank>());
  }

  template <class View, class U = detail::strided_element_of<View, Rank>,
            std::enable_if_t<!std::is_same_v<detail::bare<View>, view> &&
                                 detail::is_viewable<U, T>::value,
                             int> = 0>
  constexpr view(View &&other) noexcept : data_(cast(other.data_handle()))
  {
    this->set_all(other);
  }

  constexpr T *data() const noexcept { return data_; }
  constexpr T *data_handle() const noexcept { return data_; }

  template <class... Index> constexpr T &operator()(Index... index) const noexcept
  {
    static_assert(sizeof...(Index) == Rank, "there is one index for each axis");
    std::size_t axis = 0;
    std::int64_t offset = 0;
    ((offset += static_cast<std::int64_t>(index) * this->stride(axis++)), ...);
    return data_[offset];
  }

private:
  template <class U> static constexpr T *cast(U *data) noexcept
  {
    if constexpr (std::is_convertible_v<U (*)[], T (*)[]>)
      return data;
    else
      return reinterpret_cast<T *>(data);
  }

  template <class Array> static constexpr auto first(Array &array) noexcept
  {
    if constexpr (std::is_array_v<std::remove_reference_t<decltype(array[0])>>)
      return first(array[0]);
    else
      return &array[0];
  }

  template <class Array, std::size_t... Axis>
  constexpr void set_axes(std::index_sequence<Axis...>) noexcept
  {
    *static_cast<layout_type *>(this) = layout_type({std::extent_v<Array, Axis>...});
  }

  T *data_;
};

namespace detail {

/* An array that only the device can reach, by what its API names it: *Handle*. Extents come with
 * it; containers of the host do not become one.
 */
template <class T, std::size_t Rank, class Handle> class handle_view : public layout<Rank> {
public:
  using element_type = T;
  using layout_type = layout<Rank>;

  constexpr handle_view() noexcept : handle_() {}

  constexpr handle_view(Handle handle, extents<Rank> const &shape) noexcept
      : layout_type(shape), handle_(handle)
  {
  }

  constexpr handle_view(Handle handle, extents<Rank> const &shape,
                        extents<Rank> const &strides) noexcept
      : layout_type(shape, strides), handle_(handle)
  {
  }

  template <class U, if_viewable<U, T> = 0>
  constexpr handle_view(handle_view<U, Rank, Handle> const &other) noexcept
      : handle_(other.handle())
  {
    this->set_all(other);
  }

  constexpr Handle handle() const noexcept { return handle_; }

private:
  Handle handle_;
};

} // namespace detail

/* An array in a buffer of OpenCL (cl_mem): from its beginning, or with from() from a later element
 * on, if the kernel has that for the array (offset=auto).
 */
template <class T, std::size_t Rank>
class buffer_view : public detail::handle_view<T, Rank, ::_cl_mem *> {
public:
  using base = detail::handle_view<T, Rank, ::_cl_mem *>;
  using base::base;
  constexpr buffer_view() noexcept = default;

  template <class U, detail::if_viewable<U, T> = 0>
  constexpr buffer_view(buffer_view<U, Rank> const &other) noexcept
      : base(other), first_(other.first())
  {
  }

  constexpr buffer_view from(std::int64_t element) const noexcept
  {
    buffer_view moved = *this;
    moved.first_ = element;
    return moved;
  }

  constexpr std::int64_t first() const noexcept { return first_; }

private:
  std::int64_t first_ = 0;
};

/* The events for which a launch waits, and where to put its own: {n, list, &done}. */
struct opencl_events {
  std::uint32_t n_wait = 0;
  ::_cl_event *const *wait = nullptr;
  ::_cl_event **done = nullptr;
};

/* An array of a CUDA device: of a pointer from cudaMalloc, or a CUdeviceptr. */
template <class T, std::size_t Rank>
class device_view : public detail::handle_view<T, Rank, unsigned long long> {
public:
  using base = detail::handle_view<T, Rank, unsigned long long>;
  using base::base;
  constexpr device_view() noexcept = default;

  device_view(T *data, detail::extents<Rank> const &shape) noexcept
      : base(reinterpret_cast<std::uintptr_t>(data), shape)
  {
  }

  device_view(T *data, detail::extents<Rank> const &shape,
              detail::extents<Rank> const &strides) noexcept
      : base(reinterpret_cast<std::uintptr_t>(data), shape, strides)
  {
  }

  template <class U, detail::if_bytes<U, T> = 0>
  device_view(U *data, detail::extents<Rank> const &shape) noexcept
      : base(reinterpret_cast<std::uintptr_t>(data), shape)
  {
  }

  template <class U, detail::if_bytes<U, T> = 0>
  device_view(U *data, detail::extents<Rank> const &shape,
              detail::extents<Rank> const &strides) noexcept
      : base(reinterpret_cast<std::uintptr_t>(data), shape, strides)
  {
  }
};

namespace detail {

/* -- checks --------------------------------------------------------------------------------- */

/* What the last check of this thread that failed has found. */
inline char *message() noexcept
{
  static thread_local char text[512];
  return text;
}

constexpr std::size_t message_size = 512;

/* (1, 2, 3) */
class tuple_text {
public:
  explicit tuple_text(std::int64_t const *values, std::size_t count) noexcept
  {
    std::size_t used = put(0, "(");
    for (std::size_t k = 0; k < count; ++k) {
      int const n = std::snprintf(text_ + used, sizeof text_ - used, "%s%lld", k ? ", " : "",
                                  static_cast<long long>(values[k]));
      used += n > 0 ? static_cast<std::size_t>(n) : 0;
      if (used >= sizeof text_)
        return;
    }
    put(used, count == 1 ? ",)" : ")");
  }
  char const *text() const noexcept { return text_; }

private:
  std::size_t put(std::size_t used, char const *end) noexcept
  {
    return used + static_cast<std::size_t>(std::snprintf(text_ + used, sizeof text_ - used, "%s", end));
  }

  char text_[160];
};

/* Note that an array has another shape, or other strides; return false. */
template <std::size_t Rank>
bool note_layout(layout<Rank> const &array, bool is_shape, std::int64_t const (&wanted)[Rank],
                 char const *kernel, char const *name, char const *declared) noexcept
{
  std::int64_t found[Rank];
  for (std::size_t axis = 0; axis < Rank; ++axis)
    found[axis] = is_shape ? array.extent(axis) : array.stride(axis);
  std::snprintf(message(), message_size, "%s: array '%s' has the %s %s, not %s = %s", kernel, name,
                is_shape ? "shape" : "strides", tuple_text(found, Rank).text(), declared,
                tuple_text(wanted, Rank).text());
  return false;
}

/* Whether an array has the shape that is *declared* for it. */
template <std::size_t Rank>
inline bool has_shape(layout<Rank> const &array, std::int64_t const (&wanted)[Rank],
                      char const *kernel, char const *name, char const *declared) noexcept
{
  bool is_same = true;
  for (std::size_t axis = 0; axis < Rank; ++axis)
    is_same = is_same && array.extent(axis) == wanted[axis];
  return is_same || note_layout(array, true, wanted, kernel, name, declared);
}

/* Whether an array has the strides that are *declared* for it along axes of several elements. */
template <std::size_t Rank>
inline bool has_strides(layout<Rank> const &array, std::int64_t const (&wanted)[Rank],
                        char const *kernel, char const *name, char const *declared) noexcept
{
  bool is_same = true, is_empty = false;
  for (std::size_t axis = 0; axis < Rank; ++axis) {
    is_empty = is_empty || array.extent(axis) == 0;
    is_same = is_same && (array.extent(axis) == 1 || array.stride(axis) == wanted[axis]);
  }
  return is_same || is_empty || note_layout(array, false, wanted, kernel, name, declared);
}

/* Whether an array begins where its buffer does: the kernel has no offset for it. */
inline bool begins_with_buffer(std::int64_t first, char const *kernel, char const *name) noexcept
{
  if (first == 0)
    return true;
  std::snprintf(message(), message_size,
                "%s: array '%s' begins at element %lld of its buffer, not at the first", kernel,
                name, static_cast<long long>(first));
  return false;
}

/* Note why a size is not found; return true. */
inline bool note(char const *text) noexcept
{
  std::snprintf(message(), message_size, "%s", text);
  return true;
}

/* Whether a size that was found is a value of the type of its argument. */
inline bool is_inside(std::int64_t value, std::int64_t low, std::int64_t high, char const *kernel,
                      char const *name) noexcept
{
  if (low <= value && value <= high)
    return true;
  std::snprintf(message(), message_size, "%s: argument '%s' is %lld; it must be in [%lld, %lld]",
                kernel, name, static_cast<long long>(value), static_cast<long long>(low),
                static_cast<long long>(high));
  return false;
}

} // namespace detail
} // namespace KGEN_NAMESPACE
