// What generated CUDA C++ needs to run on a host: work-items are fibers, a thread of the host runs a
// group, and as many groups run at once as there are threads. They begin in the order that a test
// gives. Copies that go on are made when they begin, or as late as the waits allow. Included before
// the code.
#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

struct kgen_index
{
  unsigned int x, y, z;
};

typedef _Float16 __half;
struct __nv_bfloat16 {
  uint16_t bits;
  __nv_bfloat16() = default;
  explicit __nv_bfloat16(float value)
  {
    unsigned whole;
    std::memcpy(&whole, &value, 4);
    bits = (whole + 0x7fff + (whole >> 16 & 1)) >> 16;
  }
  __nv_bfloat16 &operator=(float value)
  {
    return *this = __nv_bfloat16(value);
  }
  operator float() const
  {
    unsigned whole = (unsigned) bits << 16;
    float value;
    std::memcpy(&value, &whole, 4);
    return value;
  }
};

struct alignas(4) half2 { __half x, y; };
struct alignas(4) __nv_bfloat162 { __nv_bfloat16 x, y; };

static thread_local kgen_index threadIdx, blockIdx;
static kgen_index blockDim, gridDim;

#define __global__
#define __device__
#define __shared__ static thread_local
#define __constant__
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)

#define VECTORS(T, name) \
  struct alignas(2 * sizeof(T)) name##2 { T x, y; }; \
  struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) name##4 { T x, y, z, w; };
VECTORS(char, char)
VECTORS(unsigned char, uchar)
VECTORS(short, short)
VECTORS(unsigned short, ushort)
VECTORS(int, int)
VECTORS(unsigned int, uint)
VECTORS(float, float)
VECTORS(double, double)
VECTORS(long long, longlong)
#undef VECTORS

template <class T> static void __stcs(T *place, T value)
{
  *place = value;
}

namespace host
{
static long most_turns;  // of a group that waits

struct Before  // what an array had in it before a launch
{
  char const *array, *copy;
  size_t bytes;
};

static std::vector<Before> before;

struct Together  // work-items that wait for each other
{
  unsigned int arrived = 0, turn = 0;
  uint64_t given[32], taken[32];
};

struct Copy  // one that goes on, or, without bytes, the end of a group of them
{
  void *to;
  void const *from;
  size_t bytes;
};

struct Products  // of a warpgroup that go on, as one work-item sees them
{
  bool has_begun = false;
  std::vector<std::function<void()>> steps;
  std::deque<std::vector<std::function<void()>>> groups;
};

struct Group
{
  std::vector<ucontext_t> items;
  std::vector<std::vector<char>> stacks;
  std::vector<bool> done;
  std::vector<std::deque<Copy>> copies;
  std::vector<Products> products;
  std::vector<unsigned char> local_memory, visible;  // to tensor cores
  ucontext_t scheduler;
  int running = 0;
  int arrived = 0, barriers = 0;
  long passed = 0;  // waits that are over
  std::map<std::pair<int, unsigned int>, Together> warps;
};

static thread_local Group *group;
static thread_local void (*body)(void **);
static thread_local void **parameters;
static thread_local bool copies_at_once;
static std::atomic<bool> has_failed{false};
static std::mutex atomics;
static unsigned int const guard = 4096;  // bytes behind the local memory, which nobody writes

static void pause()
{
  swapcontext(&group->items[group->running], &group->scheduler);
}

template <class Condition> static void wait_while(Condition const &is_blocked)
{
  while (is_blocked())
    pause();
  ++group->passed;
}

static void item()
{
  body(parameters);
  group->done[group->running] = true;
  pause();
}

// End the launch: its groups do not.
[[noreturn]] static void fail(char const *why)
{
  std::fprintf(stderr, "a work-item %s\n", why);
  has_failed = true;
  for (;;)
    pause();
}

// Every work-item of *lanes* gives a value; all get those of all.
static uint64_t const *exchange(unsigned int lanes, uint64_t value)
{
  int const lane = group->running % 32;
  Together &them = group->warps[{group->running / 32, lanes}];
  them.given[lane] = value;
  them.arrived |= 1u << lane;
  unsigned int const turn = them.turn;
  if (!(lanes >> lane & 1))
    fail("waits for lanes that it is not among");
  if (them.arrived == lanes)
  {
    std::memcpy(them.taken, them.given, sizeof(them.taken));
    them.arrived = 0;
    ++them.turn;
  }
  wait_while([&] { return them.turn == turn; });
  return them.taken;
}

template <class T> static T from(unsigned int lanes, T value, int lane)
{
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange(lanes, bits)[lane & 31];
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

static unsigned char *local()
{
  unsigned char *const first = group->local_memory.data();
  return first + (1024 - (uintptr_t) first % 1024) % 1024;
}

// What is on a stack is private.
static bool is_private(void const *place)
{
  for (auto const &stack : group->stacks)
    if (stack.data() <= place && place < stack.data() + stack.size())
      return true;
  return false;
}

// Run the work-items of a warp in turn, each until it waits; return how many end.
static int run_warp(int warp, bool is_backwards)
{
  int const first = 32 * warp, count = std::min(32, (int) group->items.size() - first);
  int ended = 0;
  for (int k = 0; k < count; ++k)
  {
    int const next = first + (is_backwards ? count - 1 - k : k);
    if (group->done[next])
      continue;
    group->running = next;
    threadIdx = {next % blockDim.x, next / blockDim.x % blockDim.y, next / blockDim.x / blockDim.y};
    swapcontext(&group->scheduler, &group->items[next]);
    ended += group->done[next];
  }
  return ended;
}

// Run the warps of a group in turn, in every other two groups each as far as it gets alone.
static bool run_group(unsigned int number, size_t local_bytes)
{
  Group own;
  copies_at_once = number % 2;
  own.local_memory.assign(local_bytes + guard + 1024, 0x5A);
  own.visible.assign(local_bytes, 0x5A);
  int const count = blockDim.x * blockDim.y * blockDim.z;
  group = &own;
  own.items.resize(count);
  own.done.assign(count, false);
  own.copies.resize(count);
  own.products.resize(count);
  own.stacks.assign(count, std::vector<char>(1 << 16));
  for (int k = 0; k < count; ++k)
  {
    getcontext(&own.items[k]);
    own.items[k].uc_stack.ss_sp = own.stacks[k].data();
    own.items[k].uc_stack.ss_size = own.stacks[k].size();
    own.items[k].uc_link = nullptr;
    makecontext(&own.items[k], item, 0);
  }
  int left = count;
  for (long turn = 0; left > 0; ++turn)
  {
    if (turn == most_turns || has_failed)
      return false;
    int const warps = (count + 31) / 32;
    for (int k = 0; k < warps; ++k)
    {
      long passed;
      int ended;
      do
      {
        passed = own.passed;
        ended = run_warp(number % 2 ? warps - 1 - k : k, number % 2);
        left -= ended;
      } while (number / 2 % 2 && (ended || own.passed != passed) && !has_failed);
    }
    std::this_thread::yield();
  }
  for (size_t k = 0; k < guard; ++k)
    if (local()[local_bytes + k] != 0x5A)
      return std::fprintf(stderr, "what is behind the local memory has changed\n"), false;
  return true;
}

template <class... T, size_t... K>
static void call(void (*function)(T...), void **given, std::index_sequence<K...>)
{
  function(*(std::decay_t<T> *) given[K]...);
}

template <auto function> struct Kernel;
template <class... T, void (*function)(T...)> struct Kernel<function>
{
  static void run(void **given)
  {
    call(function, given, std::index_sequence_for<T...>());
  }
};

// Run a launch: the groups begin in an *order*, *resident* of them at once; tell whether all end.
static int launch(void (*kernel)(void **), unsigned int const *grid, unsigned int const *block,
                  void **given, unsigned int const *order, int resident, size_t local_bytes)
{
  has_failed = false;
  most_turns = resident == 1 ? 2000 : 2000000;  // others may not be running
  gridDim = {grid[0], grid[1], grid[2]};
  blockDim = {block[0], block[1], block[2]};
  unsigned int const count = grid[0] * grid[1] * grid[2];
  std::atomic<unsigned int> next{0};
  std::atomic<bool> all_end{true};
  std::vector<std::thread> threads;
  for (int k = 0; k < resident; ++k)
    threads.emplace_back([&, k] {
      body = kernel;
      parameters = given;
      for (unsigned int at; (at = next++) < count && all_end;)
      {
        unsigned int const index = order[at];
        blockIdx = {index % grid[0], index / grid[0] % grid[1], index / grid[0] / grid[1]};
        if (!run_group(k, local_bytes))
          all_end = false;
      }
    });
  for (auto &thread : threads)
    thread.join();
  return all_end;
}
}  // namespace host

// nvcc may move these loads over stores: they return what was there before the launch.
template <class T> static T __ldcs(T const *place)
{
  char const *const at = (char const *) place;
  T value = *place;
  for (host::Before const &each : host::before)
    if (each.array <= at && at < each.array + each.bytes)
      std::memcpy(&value, each.copy + (at - each.array), sizeof(T));
  return value;
}

extern "C" void keep_before(void const *array, void const *copy, size_t bytes)
{
  if (!array)
    host::before.clear();
  else
    host::before.push_back({(char const *) array, (char const *) copy, bytes});
}

static void __syncthreads()
{
  host::Group &own = *host::group;
  int const barrier = own.barriers;
  if (++own.arrived == (int) own.items.size())
    own.arrived = 0, ++own.barriers;
  host::wait_while([&] { return own.barriers == barrier; });
}

static void __syncwarp()
{
  int const first = host::group->running / 32 * 32, left = (int) host::group->items.size() - first;
  host::exchange(left < 32 ? (1u << left) - 1 : ~0u, 0);
}

// The groups of every other thread make copies at once, those of the others when they wait.
static void __pipeline_memcpy_async(void *to, void const *from, size_t bytes)
{
  bool const fits = bytes == 4 || bytes == 8 || bytes == 16;
  if (!fits || (uintptr_t) to % bytes || (uintptr_t) from % bytes)
    host::fail("copies what is not aligned, or not 4, 8 or 16 bytes");
  if (host::is_private(to) || host::is_private(from))
    host::fail("copies to or from private memory");
  host::group->copies[host::group->running].push_back({to, from, bytes});
  if (host::copies_at_once)
    std::memcpy(to, from, bytes);
}

static void __pipeline_commit()
{
  host::group->copies[host::group->running].push_back({nullptr, nullptr, 0});
}

static void __pipeline_wait_prior(size_t left)
{
  auto &copies = host::group->copies[host::group->running];
  size_t ends = 0;
  for (auto const &copy : copies)
    ends += copy.bytes == 0;
  for (; ends > left; copies.pop_front())
  {
    host::Copy const copy = copies.front();
    ends -= copy.bytes == 0;
    if (copy.bytes && !host::copies_at_once)
      std::memcpy(copy.to, copy.from, copy.bytes);
  }
}

namespace cooperative_groups
{
struct Grid  // all work-items of all groups wait: as many groups must be resident as there are
{
  void sync() const
  {
    static std::atomic<unsigned int> arrived{0}, turn{0};
    unsigned int const own = turn;
    if (++arrived == gridDim.x * gridDim.y * gridDim.z * (unsigned int) host::group->items.size())
      arrived = 0, ++turn;
    while (turn == own)
      host::pause();
  }
};

static Grid this_grid()
{
  return {};
}
}  // namespace cooperative_groups

template <class T> static T __shfl_sync(unsigned int lanes, T value, int lane)
{
  return host::from(lanes, value, lane);
}

template <class T> static T __shfl_up_sync(unsigned int lanes, T value, int distance)
{
  int const own = host::group->running % 32;
  return host::from(lanes, value, own >= distance ? own - distance : own);
}

template <class T> static T __shfl_down_sync(unsigned int lanes, T value, int distance)
{
  int const own = host::group->running % 32;
  return host::from(lanes, value, own + distance < 32 ? own + distance : own);
}

template <class T> static T __shfl_xor_sync(unsigned int lanes, T value, int distance)
{
  return host::from(lanes, value, host::group->running % 32 ^ distance);
}

static unsigned int __ballot_sync(unsigned int lanes, int value)
{
  uint64_t const *given = host::exchange(lanes, value != 0);
  unsigned int found = 0;
  for (int lane = 0; lane < 32; ++lane)
    if (lanes >> lane & 1)
      found |= (unsigned int) given[lane] << lane;
  return found;
}

#define ATOMIC(name, after) \
  template <class T, class V> static T name(T *place, V value) \
  { \
    std::lock_guard<std::mutex> const only(host::atomics); \
    T const old = *place, given = (T) value; \
    *(T volatile *) place = after; \
    return old; \
  }
ATOMIC(atomicAdd, old + given)
ATOMIC(atomicSub, old - given)
ATOMIC(atomicExch, given)
ATOMIC(atomicMin, given < old ? given : old)
ATOMIC(atomicMax, given > old ? given : old)
ATOMIC(atomicAnd, old & given)
ATOMIC(atomicOr, old | given)
ATOMIC(atomicXor, old ^ given)
#undef ATOMIC

template <class T, class V> static T atomicCAS(T *place, V expected, V value)
{
  std::lock_guard<std::mutex> const only(host::atomics);
  T const old = *place;
  if (old == (T) expected)
    *(T volatile *) place = (T) value;
  return old;
}

template <class T> static T __ldg(T const *place)
{
  return *place;
}

static float rsqrtf(float x)
{
  return 1 / std::sqrt(x);
}

static double rsqrt(double x)
{
  return 1 / std::sqrt(x);
}

static int __popc(unsigned int value)
{
  return __builtin_popcount(value);
}

static int __ffs(unsigned int value)
{
  return __builtin_ffs((int) value);
}

template <class T> static T min(T one, T other)
{
  return one < other ? one : other;
}

template <class T> static T max(T one, T other)
{
  return one < other ? other : one;
}
