"""Threads in C shared by concurrent calls: functions that count these calls."""

from __future__ import annotations

from typing import Final

from kgen.targets.preamble import Need, Rank

__all__ = ["BEGIN", "CALLS", "CHUNK", "CHUNK_NEED", "END", "SHARE", "SHARING_NEEDS"]

#: Count a call that runs on threads, from its start to its end.
BEGIN: Final = "kgen_begin_call"
END: Final = "kgen_end_call"
#: Returns the number of threads that a call gets, given all threads.
SHARE: Final = "kgen_share"
#: Returns the number of adjacent work-groups in the chunk of a thread.
CHUNK: Final = "kgen_chunk"
#: Points to the number of concurrent calls: by default that of a program or library.
CALLS: Final = "kgen_calls"

_OPENMP: Final = f"""\
#ifdef _OPENMP
#include <omp.h>
#else
#define omp_get_max_threads() 1
#define {SHARE}(threads) 1
#endif"""

_SHARE: Final = f"""\
#ifdef _OPENMP
__attribute__((weak)) int {CALLS}_here;
__attribute__((weak)) int *{CALLS} = &{CALLS}_here;

static inline int {SHARE}(int threads)
{{
  int const calls = __atomic_load_n({CALLS}, __ATOMIC_RELAXED);
  return threads > calls ? threads / calls : 1;
}}
#endif

static inline void {BEGIN}(void)
{{
#ifdef _OPENMP
  __atomic_add_fetch({CALLS}, 1, __ATOMIC_RELAXED);
#endif
}}

static inline void {END}(void)
{{
#ifdef _OPENMP
  __atomic_sub_fetch({CALLS}, 1, __ATOMIC_RELAXED);
#endif
}}"""

#: Adjacent work-groups read adjacent memory, so chunks have several; but each thread gets about 32
#: chunks, so that all threads end at about the same time.
_CHUNK: Final = f"""\
static inline long long {CHUNK}(long long groups, int threads)
{{
  return 1 + groups / (32 * threads);
}}"""

SHARING_NEEDS: Final = (
    Need(Rank.INCLUDE, "~omp", _OPENMP),
    Need(Rank.HELPER, SHARE, _SHARE),
)
CHUNK_NEED: Final = Need(Rank.HELPER, CHUNK, _CHUNK)
