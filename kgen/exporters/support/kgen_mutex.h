/* Mutexes of POSIX and of Windows, which need no call before their first use. */
#ifndef KGEN_MUTEX_H
#define KGEN_MUTEX_H

#ifdef _WIN32
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>
typedef SRWLOCK kgen_mutex;
#define KGEN_MUTEX SRWLOCK_INIT
#define kgen_lock(MUTEX) AcquireSRWLockExclusive(MUTEX)
#define kgen_unlock(MUTEX) ReleaseSRWLockExclusive(MUTEX)
#else
#include <pthread.h>
typedef pthread_mutex_t kgen_mutex;
#define KGEN_MUTEX PTHREAD_MUTEX_INITIALIZER
#define kgen_lock(MUTEX) ((void) pthread_mutex_lock(MUTEX))
#define kgen_unlock(MUTEX) ((void) pthread_mutex_unlock(MUTEX))
#endif

#endif
