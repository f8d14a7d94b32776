"""Streaming stores in C: functions that store the lanes of a loop, bypassing the cache."""

from __future__ import annotations

from typing import Final

from kgen.targets.preamble import Need, Rank, include

__all__ = ["END_OF_STREAMS", "STREAM", "STREAM_NEEDS"]

#: The names of two functions: store bytes, a multiple of 16; make such stores visible to other
#: threads.
STREAM: Final = "kgen_stream"
END_OF_STREAMS: Final = "kgen_end_streams"

_INTRINSICS: Final = """\
#ifdef __SSE2__
#include <immintrin.h>
#endif"""

_STREAM: Final = f"""\
static inline void {STREAM}(void *to, void const *from, int size)
{{
#ifdef __SSE2__
  char *const place = (char *) to;
  char const *const value = (char const *) from;
#ifdef __AVX512F__
  if ((uintptr_t) to % 64 == 0 && size % 64 == 0)
  {{
    for (int at = 0; at < size; at += 64)
      _mm512_stream_si512((__m512i *) (place + at), _mm512_loadu_si512(value + at));
    return;
  }}
#endif
  if ((uintptr_t) to % 16 == 0)
  {{
    for (int at = 0; at < size; at += 16)
      _mm_stream_si128((__m128i *) (place + at), _mm_loadu_si128((__m128i const *) (value + at)));
    return;
  }}
#endif
  memcpy(to, from, size);
}}"""

_END: Final = f"""\
static inline void {END_OF_STREAMS}(void)
{{
#ifdef __SSE2__
  _mm_sfence();
#endif
}}"""

STREAM_NEEDS: Final = (
    include("stdint.h"),
    include("string.h"),
    Need(Rank.INCLUDE, "~intrinsics", _INTRINSICS),
    Need(Rank.HELPER, STREAM, _STREAM),
    Need(Rank.HELPER, END_OF_STREAMS, _END),
)
