// What generated CUDA C++ needs to run on a host: work-items are fibers, a thread of the host runs a
// group, and as many groups run at once as there are threads. They begin in the order that a test
// gives. Included before the code.
#include <ucontext.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

struct kgen_index
{
  unsigned int x, y, z;
};

static thread_local kgen_index threadIdx, blockIdx;
static kgen_index blockDim, gridDim;

#define __global__
#define __device__
#define __shared__ static thread_local
#define __launch_bounds__(...)

namespace host
{
static long most_turns;  // of a group that waits

struct Together  // work-items that wait for each other
{
  unsigned int arrived = 0, turn = 0;
  uint64_t given[32], taken[32];
};

struct Group
{
  std::vector<ucontext_t> items;
  std::vector<std::vector<char>> stacks;
  std::vector<bool> done;
  ucontext_t scheduler;
  int running = 0;
  int arrived = 0, barriers = 0;
  std::map<std::pair<int, unsigned int>, Together> warps;
};

static thread_local Group *group;
static thread_local void (*body)(void **);
static thread_local void **parameters;

static void pause()
{
  swapcontext(&group->items[group->running], &group->scheduler);
}

static void item()
{
  body(parameters);
  group->done[group->running] = true;
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
    std::fprintf(stderr, "lane %d is not among %x\n", lane, lanes), std::_Exit(3);
  if (them.arrived == lanes)
  {
    std::memcpy(them.taken, them.given, sizeof(them.taken));
    them.arrived = 0;
    ++them.turn;
  }
  while (them.turn == turn)
    pause();
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

// Run the work-items of a group in turn, each until it waits.
static bool run_group(unsigned int number)
{
  Group own;
  int const count = blockDim.x * blockDim.y * blockDim.z;
  group = &own;
  own.items.resize(count);
  own.done.assign(count, false);
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
    if (turn == most_turns)
      return false;
    for (int k = 0; k < count; ++k)
    {
      int const next = number % 2 ? count - 1 - k : k;
      if (own.done[next])
        continue;
      own.running = next;
      threadIdx = {next % blockDim.x, next / blockDim.x % blockDim.y, next / blockDim.x / blockDim.y};
      swapcontext(&own.scheduler, &own.items[next]);
      left -= own.done[next];
    }
    std::this_thread::yield();
  }
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
                  void **given, unsigned int const *order, int resident)
{
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
        if (!run_group(k))
          all_end = false;
      }
    });
  for (auto &thread : threads)
    thread.join();
  return all_end;
}
}  // namespace host

static void __syncthreads()
{
  host::Group &own = *host::group;
  int const barrier = own.barriers;
  if (++own.arrived == (int) own.items.size())
    own.arrived = 0, ++own.barriers;
  while (own.barriers == barrier)
    host::pause();
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

static unsigned int atomicAdd(unsigned int *place, unsigned int value)
{
  return __atomic_fetch_add(place, value, __ATOMIC_RELAXED);
}

static int __popc(unsigned int value)
{
  return __builtin_popcount(value);
}

template <class T> static T min(T one, T other)
{
  return one < other ? one : other;
}

template <class T> static T max(T one, T other)
{
  return one < other ? other : one;
}
