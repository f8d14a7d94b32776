#ifndef A_INTERNAL_H
#define A_INTERNAL_H

/* for functions of the library that C11 lacks */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif

#include "a.h"
#include "kgen_support.h"

/* A name of this library. */
#define KGEN_NAME(NAME) a_##NAME

/* Note the message for the caller; return the status. */
a_status a_fail(a_status status, char const *message);

#endif
