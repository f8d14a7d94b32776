/* The part of GNU's OpenMP that kernels use, on threads that ThreadSanitizer follows.
 *
 * libgomp waits by means that ThreadSanitizer does not see: it would report what stands before and
 * after a parallel region. Here each region starts threads and joins them. Where a program asks for
 * no number of threads there are THREADS, so that each work-group of a small kernel has its own;
 * and pieces of a loop go to threads in turn, without a counter, whose lock would order them. */

#include <pthread.h>
#include <stdbool.h>

#ifndef THREADS
#define THREADS 16
#endif
enum { MOST_THREADS = 256 };

typedef void Function(void *);

typedef struct {
  long start, end, step, count;
} Loop;

typedef struct {
  Function *run;
  void *data;
  int number, count;
  const Loop *loop; /* that a region consists of */
} Member;

static __thread Member self = {0, 0, 0, 1, 0};
static __thread int level, most_levels = 1;
static __thread long next, last, stride, piece;

int omp_get_thread_num(void) { return self.number; }
int omp_get_num_threads(void) { return self.count; }
int omp_get_max_threads(void) { return THREADS; }
void omp_set_max_active_levels(int levels) { most_levels = levels; }

static void begin(const Loop *loop)
{
  piece = loop->step * loop->count;
  next = loop->start + self.number * piece;
  stride = self.count * piece;
  last = loop->end;
}

static void run_as(const Member *member)
{
  self = *member;
  if (self.loop)
    begin(self.loop);
  self.run(self.data);
}

static void *work(void *member)
{
  level = 1;
  run_as(member);
  return 0;
}

static void run_on_threads(Function *run, void *data, unsigned wanted, const Loop *loop)
{
  Member before = self, members[MOST_THREADS];
  pthread_t threads[MOST_THREADS];
  int count = level >= most_levels ? 1 : wanted ? (int) wanted : THREADS;
  if (count > MOST_THREADS)
    count = MOST_THREADS;
  for (int k = 0; k < count; ++k)
    members[k] = (Member) {run, data, k, count, loop};
  for (int k = 1; k < count; ++k)
    if (pthread_create(&threads[k], 0, work, &members[k]))
      __builtin_trap();
  ++level;
  run_as(&members[0]);
  --level;
  self = before;
  for (int k = 1; k < count; ++k)
    pthread_join(threads[k], 0);
}

void GOMP_parallel(Function *run, void *data, unsigned wanted, unsigned flags)
{
  (void) flags;
  run_on_threads(run, data, wanted, 0);
}

void GOMP_parallel_loop_nonmonotonic_dynamic(
    Function *run, void *data, unsigned wanted, long start, long end, long step, long count,
    unsigned flags)
{
  (void) flags;
  run_on_threads(run, data, wanted, &(Loop) {start, end, step, count});
}

bool GOMP_loop_nonmonotonic_dynamic_next(long *from, long *to)
{
  bool is_left = stride > 0 ? next < last : next > last;
  long end = next + piece;
  *from = next;
  *to = (piece > 0 ? end < last : end > last) ? end : last;
  next += stride;
  return is_left;
}

bool GOMP_loop_nonmonotonic_dynamic_start(
    long start, long end, long step, long count, long *from, long *to)
{
  begin(&(Loop) {start, end, step, count});
  return GOMP_loop_nonmonotonic_dynamic_next(from, to);
}

/* The other schedules hand out pieces likewise, of one iteration where none is named. */
bool GOMP_loop_nonmonotonic_guided_next(long *, long *)
    __attribute__((alias("GOMP_loop_nonmonotonic_dynamic_next")));
bool GOMP_loop_nonmonotonic_guided_start(long, long, long, long, long *, long *)
    __attribute__((alias("GOMP_loop_nonmonotonic_dynamic_start")));
void GOMP_parallel_loop_nonmonotonic_guided(
    Function *, void *, unsigned, long, long, long, long, unsigned)
    __attribute__((alias("GOMP_parallel_loop_nonmonotonic_dynamic")));
bool GOMP_loop_maybe_nonmonotonic_runtime_next(long *, long *)
    __attribute__((alias("GOMP_loop_nonmonotonic_dynamic_next")));

bool GOMP_loop_maybe_nonmonotonic_runtime_start(
    long start, long end, long step, long *from, long *to)
{
  return GOMP_loop_nonmonotonic_dynamic_start(start, end, step, 1, from, to);
}

void GOMP_parallel_loop_maybe_nonmonotonic_runtime(
    Function *run, void *data, unsigned wanted, long start, long end, long step, unsigned flags)
{
  GOMP_parallel_loop_nonmonotonic_dynamic(run, data, wanted, start, end, step, 1, flags);
}

void GOMP_loop_end_nowait(void) {}
